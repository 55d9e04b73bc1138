"""A file of SQuAD's form in place of records: the batches of the records that create-finetuning makes of it."""

import json
from dataclasses import replace

import pytest

import nlpdata
from nlpdata.errors import DataError, UsageError
from pretrain.data import example_digest
from pretrain.data.question_files import with_records
from pretrain.data.questions import question_batches
from pretrain.data.tokenizers import tokenizer_entry
from pretrain.experiments import experiment
from pretrain.settings.data_section import EvalQuestionDataConfig, QuestionDataConfig
from tests.nlpdata.finetuning.conftest import vocab  # noqa: F401 (fixture)

TEXT = "the fox jumped over a lazy dog in the river it was good"


@pytest.fixture
def file(tmp_path):
    """Four questions, the last without an answer."""
    answers = [{"text": text, "answer_start": TEXT.index(text)} for text in ("fox", "lazy dog", "river")]
    questions = [{"id": f"q{i}", "question": "the fox", "answers": [answer]} for i, answer in enumerate(answers)]
    questions.append({"id": "q3", "question": "a movie", "answers": [], "is_impossible": True})
    paragraphs = [{"context": TEXT, "qas": questions}]
    path = tmp_path / "dev-v2.0.json"
    path.write_text(json.dumps({"version": "v2.0", "data": [{"title": "t", "paragraphs": paragraphs}]}))
    return path


@pytest.fixture
def section(file, vocab):  # noqa: F811
    return EvalQuestionDataConfig(
        input_path=str(file), vocab_file=str(vocab), do_lower_case=True, seq_length=20, query_length=6, doc_stride=4
    )


@pytest.mark.parametrize("split", ["train", "dev"])
def test_batches_are_those_of_records(split, section, file, vocab, tmp_path):  # noqa: F811
    nlpdata.create_finetuning(
        str(file), str(tmp_path / "out"), vocab, task="squad", splits=split, do_lower_case=True, max_seq_length=20,
        max_query_length=6, doc_stride=4, workers=1,
    )  # fmt: skip
    task = experiment("bert/squad").task
    if split == "train":
        section = QuestionDataConfig(**{name: value for name, value in vars(section).items()} | {
            "is_training": True, "drop_remainder": True, "global_batch_size": 4,
        })  # fmt: skip
    direct, source = question_batches(section, task)
    records, _ = question_batches(replace(section, input_path=str(tmp_path / "out" / f"{split}.tfrecord")), task)
    assert direct.num_examples == records.num_examples >= 4
    assert direct.facts == records.facts
    assert (direct.facts["doc_stride"], direct.facts["max_query_length"]) == (4, 6)
    for step in range(direct.steps_per_epoch):
        assert example_digest(direct.batch(step)) == example_digest(records.batch(step))
    assert source.version_2_with_negative
    if split == "dev":
        assert [len(question.answers) for question in source.questions().values()] == [1, 1, 1, 0]


def test_the_tokenizer_is_known(section, vocab):  # noqa: F811
    path, use = tokenizer_entry(section, "task.validation_data")
    assert (path, use["do_lower_case"]) == (vocab, True)


def test_a_list_of_one_file(section):
    assert with_records(replace(section, input_path=[section.input_path]), "a") == with_records(section, "a")


def test_records_are_made_once(section):
    first, again = (with_records(section, "task.validation_data").input_path for _ in range(2))
    assert first == again
    assert with_records(replace(section, doc_stride=3), "task.validation_data").input_path != first


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"vocab_file": ""}, UsageError, r"task\.validation_data\.vocab_file is missing: .*dev-v2\.0\.json is text"),
        (
            {"input_path": "a.json, b.json"},
            UsageError,
            r"task\.validation_data\.input_path: expected one file of questions\. Received: a\.json, b\.json",
        ),
        ({"input_path": ["a.tfrecord", "b.json"]}, UsageError, r"expected one file of questions"),
        ({"vocab_file": "none.txt"}, UsageError, "none.txt does not exist"),
        ({"input_path": "none.json"}, UsageError, r"task\.validation_data\.input_path: none\.json does not exist"),
        ({"query_length": 18}, UsageError, r"task\.validation_data\.seq_length=20 leaves no room .*\.query_length=5"),
        (
            {"version_2_with_negative": False},
            DataError,
            r"id q3\): it has no answer, and task\.validation_data\.version_2_with_negative=false excludes.*on_bad_row=skip",
        ),
    ],
)
def test_what_is_wrong_is_said_in_words_of_the_configuration(changes, error, message, section):
    with pytest.raises(error, match=message):
        with_records(replace(section, **changes), "task.validation_data")


def test_texts_that_are_longer_than_the_model_takes(section):
    """The section's field is named: there are no records that the user made."""
    with pytest.raises(
        UsageError, match=r"task\.validation_data\.seq_length is 600, the model max_pos.*Set it to 512 or less"
    ):
        question_batches(replace(section, seq_length=600), experiment("bert/squad").task)


def test_records_stay_as_they_are():
    section = EvalQuestionDataConfig(input_path="dev.tfrecord", vocab_file="vocab.txt", doc_stride=64, seq_length=384)
    assert with_records(section, "task.validation_data") is section


def test_a_damaged_file(section, file):
    file.write_text("{")
    with pytest.raises(DataError, match=r"dev-v2\.0\.json:1: not JSON"):
        with_records(section, "task.validation_data")
