"""Records for people: their texts decoded, their rows named."""

import csv

import numpy as np
import pytest

import nlpdata
from pretrain.data.decoded import decoded, decoding_tokenizer
from pretrain.data.sentences import sentence_data
from pretrain.settings.data_section import EvalDataConfig, EvalTextDataConfig
from pretrain.tasks.configs import SentencePredictionConfig, SentencePredictionModelConfig
from tests.pretrain.finetuning import examples, meta, write
from tests.pretrain.runs import tiny

ROWS = [("The tree, unmade!", "Is it?", "yes"), ("A tree", "it", "no"), ("it is THE tree", "a tree is", "yes")]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"the a tree is it un ##made , ! ?".split()]


def data_of(path, **options):
    task = SentencePredictionConfig(model=SentencePredictionModelConfig(encoder=tiny("bert")))
    return sentence_data(EvalTextDataConfig(input_path=str(path), **options), task)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The records of ROWS."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    with open(folder / "rows.csv", "w", newline="") as file:
        csv.writer(file).writerows([("text", "text_b", "label"), *ROWS])
    options = {"task": "pair", "text_column": "text", "text_b_column": "text_b", "max_seq_length": 16, "workers": 1}
    nlpdata.create_finetuning(str(folder / "rows.csv"), str(folder / "out"), str(folder / "vocab.txt"), **options)
    return folder / "out" / "train.tfrecord"


def test_texts_and_rows(made):
    shown = data_of(made).shown(np.array([2, 0]))
    assert shown == [
        {"record": 2, "id": 2, "text": "it is the tree", "text_b": "a tree is"},
        {"record": 0, "id": 0, "text": "the tree , unmade !", "text_b": "is it ?"},
    ]
    assert data_of(made).shown(np.array([], np.int64)) == []


def test_without_the_tokenizer_there_are_numbers(made, tmp_path):
    for path in (made, made.parent / "meta.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert data_of(tmp_path / made.name).shown(np.array([1])) == [{"record": 1, "id": 1}]


def test_ids_that_the_tokenizer_does_not_have_are_unknown(made):
    tokenizer = decoding_tokenizer(EvalDataConfig(input_path=str(made)), "task.validation_data")
    batch = {"input_ids": np.array([[2, 7, 199, 3, 0]]), "input_mask": np.array([[1, 1, 1, 1, 0]])}
    assert decoded({**batch, "segment_ids": np.zeros((1, 5), int)}, tokenizer) == [("tree [UNK]", "")]


def test_records_keep_their_numbers_where_others_are_left_out(tmp_path):
    columns = examples(8)
    columns["label_ids"][1:4] = 9
    data = data_of(write(tmp_path / "dev.tfrecord", columns, meta()), on_bad_row="skip")
    assert len(data.records) == 5
    assert data.shown(np.array([0, 4, 7])) == [{"record": number, "id": number} for number in (0, 4, 7)]
