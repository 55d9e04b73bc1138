"""Options without an effect for the chosen dataset are refused: every option with every dataset."""

import re
from dataclasses import fields

import pytest

from nlpdata.errors import UsageError
from nlpdata.finetuning.datasets import DATASETS
from nlpdata.finetuning.options import FinetuningOptions
from tests.nlpdata.commands import run_command

# A value of every option, other than its default.
GIVEN = {
    "splits": "train", "max_seq_length": 100, "on_bad_row": "skip", "accept_loss": True, "feature_names": "v2",
    "compression": "gzip", "tfds_data_dir": "x", "tfds_splits": "train=train", "dev_input": "x", "test_input": "x",
    "eval_fraction": 0.5, "seed": 1, "label_order": "tfds", "labels": "a,b", "drop_labels": "c", "text_column": "x",
    "text_b_column": "x", "choice_columns": "x,y", "label_column": "x", "label_separator": ";", "header": False,
    "format": "csv", "delimiter": ";", "encoding": "cp1252", "language": "en", "level": "high", "doc_stride": 64,
    "max_query_length": 32, "max_qa_length": 64, "blank": "*", "version_2_with_negative": True,
    "windows_without_answer": "drop",
}  # fmt: skip
# Scripts give a seed to whatever they run.
ALWAYS = "splits max_seq_length on_bad_row accept_loss feature_names compression seed"
TABLE = "dev_input test_input eval_fraction text_column text_b_column label_column header format delimiter encoding"
SET = "tfds_data_dir tfds_splits text_column text_b_column label_column drop_labels"
# Dataset -> what it uses besides ALWAYS.
USED = {
    **dict.fromkeys(("cola", "sst2", "mrpc", "stsb", "qqp", "qnli", "rte", "wnli", "imdb"), "drop_labels"),
    **dict.fromkeys(("mnli", "mnlimatched", "mnlimismatched"), "drop_labels label_order"),
    "ax": "label_order",
    "xnli": "drop_labels label_order language",
    "pawsx": "drop_labels language",
    "squad": "dev_input test_input doc_stride max_query_length version_2_with_negative windows_without_answer",
    "race": "level max_qa_length blank",
    "swag": "max_qa_length blank",
    **dict.fromkeys(("classification", "pair"), f"{TABLE} labels drop_labels"),
    "regression": f"{TABLE} drop_labels",
    "multilabel": f"{TABLE} labels label_separator",
    "choice": f"{TABLE} choice_columns max_qa_length blank",
    "own.module:opened": " ".join(GIVEN),
}
NOT_ASKED = {"task", "tfds", "is_default_length"}


def refusal(source: dict, option: str) -> str | None:
    try:
        FinetuningOptions(**source, **{option: GIVEN[option]})
    except UsageError as error:
        return str(error)
    return None


def test_every_option_with_every_dataset():
    assert {each.name for each in fields(FinetuningOptions)} - NOT_ASKED == set(GIVEN)
    assert set(DATASETS) == set(USED) - {"own.module:opened"}
    sources = [({"task": task}, used) for task, used in USED.items()]
    for task, used in ((None, "labels label_order"), ("classification", "labels label_order"), ("regression", "")):
        sources.append(({"tfds": "glue/sst2", "task": task}, f"{SET} {used}"))
    for source, used in sources:
        refusals = {option: refusal(source, option) for option in GIVEN}
        assert {option for option, found in refusals.items() if not found} == {*ALWAYS.split(), *used.split()}, source
        for option, found in refusals.items():
            assert found is None or re.fullmatch(
                rf"{option}(=True|=False)? has no effect with .* Leave it out\.", found
            )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "--task choice --doc_stride 64",
            "--doc-stride has no effect with --task choice: it is for --task squad. Leave it out.",
        ),
        (
            "--task choice --high-only",
            "--level has no effect with --task choice: it is for --task race. Leave it out.",
        ),
        (
            "--task SST-2 --no-header",
            "--no-header has no effect with --task sst2: it is for --task classification, pair, regression, multilabel, choice. "
            "Leave it out.",
        ),
        (
            "--tfds glue/stsb --task regression --labels a,b",
            "--labels has no effect with --tfds glue/stsb --task regression: it is for --task classification, pair, multilabel or "
            "--tfds. Leave it out.",
        ),
    ],
)
def test_messages(capsys, line, message):
    shown = run_command(capsys, "create-finetuning", *line.split(), "--output", "x", "--tokenizer", "vocab.txt")
    assert shown.code == 2
    assert message in shown.err
