"""A TensorFlow dataset in place of records: the batches of the records that create-finetuning makes of it."""

from dataclasses import fields, replace
from functools import partial

import numpy as np
import pytest

import nlpdata
from nlpdata.errors import DataError, UsageError, opt
from pretrain.data import example_digest
from pretrain.data.sentences import sentence_batches
from pretrain.data.texts import as_field
from pretrain.settings.data_section import EvalTextDataConfig, TextDataConfig
from pretrain.tasks.metrics import part_names
from pretrain.tasks.sentence_prediction import SentencePredictionTask
from tests.nlpdata.finetuning.conftest import vocab  # noqa: F401 (fixture)
from tests.pretrain.finetuning import sentence_experiment
from tests.tfds_sets import prepare

LENGTH = 24
TASKS = {"rte": ("validation", "dev"), "mnli": ("validation_matched", "dev_matched"), "stsb": ("validation", "dev")}


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
    return str(prepare(tmp_path_factory.mktemp("tfds"), TASKS)[1])


@pytest.fixture
def texts(data_dir, vocab):  # noqa: F811
    """Fields of a data section that reads a prepared set."""
    return {"tfds_data_dir": data_dir, "vocab_file": str(vocab), "do_lower_case": True, "seq_length": LENGTH}


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_batches_are_those_of_records(task, texts, vocab, data_dir, tmp_path):  # noqa: F811
    nlpdata.create_finetuning(
        output=str(tmp_path), tokenizer=vocab, tfds=f"glue/{task}", tfds_data_dir=data_dir, do_lower_case=True,
        max_seq_length=LENGTH, workers=1,
    )  # fmt: skip
    own = sentence_experiment("").task
    theirs, ours = TASKS[task]
    for config, source, record_file in (
        (TextDataConfig(global_batch_size=4), {"tfds_split": ""}, "train"),
        (EvalTextDataConfig(global_batch_size=5), {"tfds_split": theirs}, ours),
    ):
        direct, labels = sentence_batches(replace(config, tfds_name=f"glue/{task}", **texts, **source), own)
        records = replace(config, input_path=str(tmp_path / f"{record_file}.tfrecord"))
        from_records, their_labels = sentence_batches(records, own)
        assert labels == their_labels
        assert direct.facts == from_records.facts
        assert direct.num_examples == from_records.num_examples == 12
        for step in range(2 * direct.steps_per_epoch):
            assert example_digest(direct.batch(step)) == example_digest(from_records.batch(step)), step


@pytest.mark.slow
def test_joined_splits_are_evaluated_together_and_each_for_itself(texts):
    both = EvalTextDataConfig(
        global_batch_size=5, tfds_name="glue/mnli", tfds_split="validation_matched+validation_mismatched", **texts
    )
    job = SentencePredictionTask(replace(sentence_experiment("").task, validation_data=both))
    batches = job.build_inputs(both)
    assert batches.num_examples == 24
    single = [sentence_batches(replace(both, tfds_split=split), job.config)[0] for split in both.tfds_splits]
    joined, first, second = (
        np.concatenate([each.batch(step)["input_ids"] for step in range(each.steps_per_epoch)])[: each.num_examples]
        for each in (batches, *single)
    )
    np.testing.assert_array_equal(joined, np.concatenate([first, second]))
    labels, logits = np.arange(24) % 3, np.eye(3)[np.arange(24) % 3]
    logits[:3] = np.roll(logits[:3], 1, axis=1)  # wrong, in the first split
    outputs = {"record": np.arange(24), "label": labels, "logits": logits}
    metrics = job.reduce_aggregated_logs(
        job.aggregate_logs(None, {"prediction_loss": 1, "weight": 24, "correct": 21, "examples": 24}, outputs)
    )
    assert [metrics[name] for name in ("accuracy", "accuracy_matched", "accuracy_mismatched")] == [21 / 24, 9 / 12, 1]
    assert set(metrics) <= set(job.metrics()) | {"examples"}
    assert job.metrics()["accuracy_matched"] == job.config.metrics()["accuracy_mismatched"] == "higher"
    with pytest.raises(DataError, match=r"glue/mnli test_matched, example 0: unknown label"):
        sentence_batches(replace(both, tfds_split="validation_matched+test_matched"), job.config)
    with pytest.raises(UsageError, match=r"tfds_split names a split twice"):
        sentence_batches(replace(both, tfds_split="train+train"), job.config)


def test_short_names_of_splits():
    assert part_names(["validation_matched", "validation_mismatched"]) == ["matched", "mismatched"]
    assert part_names(["dev", "test"]) == ["dev", "test"]
    assert part_names(["a_b_c", "a_b_d"]) == ["c", "d"]
    assert part_names(["a", "a_b"]) == ["a", "a_b"]
    assert part_names(["validation_matched"]) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "kind", "message"),
    [
        ({"vocab_file": ""}, UsageError, r"task\.train_data\.vocab_file is missing: glue/rte is text"),
        ({"input_path": "x.tfrecord"}, UsageError, "are two sources of examples"),
        ({"tfds_name": "glue/rt"}, DataError, r"task\.train_data\.tfds_name: glue/rt is not prepared in .*glue/rte"),
        ({"tfds_split": "dev"}, UsageError, r"task\.train_data\.tfds_split: .*splits: train, validation"),
        ({"text_fields": ["text"]}, UsageError, r"task\.train_data\.text_fields: .*no 'text'; its features: .*sentence1"),
        ({"label_field": "score"}, UsageError, r"task\.train_data\.label_field: .*no 'score'"),
        ({"text_fields": ["a", "b", "c"]}, UsageError, "one text or two"),
        (
            {"tfds_split": "test"},
            DataError,
            r"glue/rte test, example 0: unknown label '-1', .*task\.train_data\.drop_labels=-1, .*"
            r"task\.train_data\.on_bad_row=skip$",
        ),
        ({"tfds_split": "test", "on_bad_row": "skip"}, DataError, "no example of the train split can be used"),
        (
            {"seq_length": 600},
            UsageError,
            r"train_data\.seq_length is 600, .*max_position_embeddings 32\. Set it to 32 or less, e\.g\. --max_seq_length=32,",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_words_of_the_configuration(changes, kind, message, texts):
    config = TextDataConfig(**{"tfds_name": "glue/rte", **texts} | changes)
    with pytest.raises(kind, match=f"(?s){message}"):
        sentence_batches(config, sentence_experiment("").task)


def test_options_of_create_finetuning_are_spelled_as_fields():
    settings = {"max_seq_length": 8, "on_bad_row": "skip", "drop_labels": "-", "accept_loss": True}
    error = UsageError(" ".join(opt(name, value) for name, value in settings.items()))
    named = "seq_length=8 on_bad_row=skip drop_labels=- accept_loss=true"
    assert error.spelled(partial(as_field, "task.train_data")).replace("task.train_data.", "") == named
    known = {each.name for each in fields(TextDataConfig)}
    for option in ("tfds", "tfds_data_dir", "tfds_splits", "text_column", "text_b_column", "label_column", *settings):
        assert as_field("x", option).removeprefix("x.") in known
