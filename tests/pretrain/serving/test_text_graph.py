"""Tokenizers as TensorFlow graphs give the ids of nlpdata.tokenizers."""

import json

import numpy as np
import pytest
import tensorflow as tf

from nlpdata.finetuning.encode import lay_out
from nlpdata.tokenizers import load_tokenizer
from pretrain.serving.text_graph import build_graph, encoder_inputs
from tests.nlpdata.tokenizers.test_hf_writing import LINES, PUBLISHED
from tests.nlpdata.tokenizers.test_sentencepiece import train
from tests.nlpdata.tokenizers.test_wordpiece import SMALL, write
from tests.shared import shared

# Where characters of random lines come from: first code point, and how many.
BLOCKS = [(0, 0x100), (0x61, 6), (0x300, 0x120), (0x1100, 0x100), (0x1F00, 0x100), (0x2000, 0x70), (0x3040, 0xC0)]
BLOCKS += [
    (0x4E00, 9),
    (0xAC00, 0x200),
    (0xFB00, 0x100),
    (0xFF00, 0x100),
    (0x900, 0x80),
    (0x1D400, 0x400),
    (0x2F800, 9),
]


def random_lines(count=300, length=24) -> list[str]:
    rng = np.random.default_rng(7)
    chosen = rng.integers(0, len(BLOCKS), (count, length))
    first, size = (np.array(column)[chosen] for column in zip(*BLOCKS, strict=True))
    codes = np.where(rng.random(chosen.shape) < 0.2, 0x20, first + rng.integers(0, 1 << 20, chosen.shape) % size)
    return ["".join(map(chr, row)) for row in codes.tolist()]


def check_equal(tokenizer, lines):
    graph, reason = build_graph(tokenizer)
    assert reason == ""
    found = graph(tf.constant([line.encode("utf-8", "replace") for line in lines])).to_list()
    ids, lengths = tokenizer.encode(lines)
    wanted = [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]
    assert [(lines[i], found[i]) for i in range(len(lines)) if found[i] != wanted[i]] == []


@pytest.mark.slow
@pytest.mark.parametrize(("file", "lower", "keep"), PUBLISHED)
def test_ids_of_published_vocabularies(file, lower, keep):
    lines = [
        json.loads(row)["text"] for row in shared("oracle", "tokenization", "lines.jsonl").read_bytes().splitlines()
    ]
    tokenizer = load_tokenizer(shared("oracle", "tokenization", file), do_lower_case=lower, keep_accents=keep)
    check_equal(tokenizer, lines + random_lines())


@pytest.mark.parametrize(("kind", "lower"), [("wordpiece", True), ("wordpiece", False), ("sentencepiece", True)])
def test_ids_of_small_ones(kind, lower, tmp_path):
    if kind == "wordpiece":
        path = write(tmp_path / "vocab.txt", SMALL)
    else:  # with pieces that the digit-comma rule splits
        path = train(tmp_path / "m.model", user_defined_symbols=["(", ")", "-"], split_by_number=False)
    check_equal(load_tokenizer(path, do_lower_case=lower), [*LINES, *random_lines(100)])


def test_what_has_no_graph_is_said(tmp_path):
    model = train(tmp_path / "m.model", user_defined_symbols=[], model_type="bpe", vocab_size=150)
    graph, reason = build_graph(load_tokenizer(model))
    assert graph is None
    assert reason.startswith("its model is not of ALBERT's kind")


def test_sequences_are_laid_out_as_for_fine_tuning(tmp_path):
    tokenizer = load_tokenizer(write(tmp_path / "vocab.txt", SMALL))
    sizes = np.array([[a, b] for a in (0, 1, 4, 5, 9, 30) for b in (0, 1, 4, 5, 9, 30)])
    columns = [(np.arange(10, 10 + rows.sum(), dtype=np.int32), rows) for rows in sizes.T]
    ragged = [tf.RaggedTensor.from_row_lengths(ids, rows) for ids, rows in columns]
    for second, graph in ((columns[1], ragged), ((columns[1][0][:0], sizes[:, 1] * 0), ragged[:1])):
        wanted, _ = lay_out(tokenizer, 12, columns[0], second)
        found = encoder_inputs(tokenizer, 12, *graph)
        for name, rows in wanted.items():
            np.testing.assert_array_equal(found[name], rows)
