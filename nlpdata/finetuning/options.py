"""The options of create-finetuning: one dataclass that the command line, the function and the meta file all use."""

from dataclasses import asdict, dataclass, field, fields
from typing import Literal

from nlpdata.errors import UsageError
from nlpdata.finetuning.datasets import find_dataset, plain_name


def _option(default, text: str, affects_bytes: bool = True):
    return field(default=default, metadata={"help": text, "affects_bytes": affects_bytes})


@dataclass(frozen=True, kw_only=True)
class FinetuningOptions:
    """How records are made from rows. `affects_bytes` in a field's metadata: part of the meta file's options."""

    task: str | None = _option(
        None,
        "The dataset (cola, sst-2, ..., squad), or for your own files classification, pair, regression, multilabel.",
    )
    tfds: str | None = _option(None, "A prepared TensorFlow dataset instead of files, e.g. glue/sst2.")
    tfds_data_dir: str | None = _option(None, "Where it is prepared.  [default: ~/tensorflow_datasets]", False)
    tfds_splits: str | None = _option(
        None, "Which of its splits become ours, e.g. train=train,dev=test.  [default: train, validation as dev, test]"
    )
    splits: str | None = _option(None, "Make only these, e.g. train,dev.  [default: all there are]")
    dev_input: str | None = _option(None, "File of the dev split (squad and your own files).", False)
    test_input: str | None = _option(None, "File of the test split (squad and your own files).", False)
    eval_fraction: float = _option(
        0.0, "Share of the rows of --input that become the dev split, by label (your own files)."
    )
    max_seq_length: int | None = _option(
        None, "Tokens of a record, [CLS] and [SEP] included.  [default: 128; squad 384]"
    )
    label_order: Literal["glue", "tfds"] | None = _option(
        None, "Published order of the labels of MNLI, AX and XNLI.  [default: as the source has it]"
    )
    labels: str | None = _option(
        None, "Label names in id order, comma-separated.  [default: those of the training rows]"
    )
    text_column: str | None = _option(None, "Column (or key) of the text.  [default: text]")
    text_b_column: str | None = _option(None, "Column of the second text of a pair.")
    label_column: str | None = _option(None, "Column of the label.  [default: label]")
    label_separator: str = _option(",", "Between the labels of a row (multilabel).")
    header: bool = _option(
        True, "The first line of CSV and TSV files names the columns; else they are numbered from 0."
    )
    format: Literal["csv", "tsv", "jsonl", "parquet"] | None = _option(None, "Of your own files.  [default: by name]")
    language: str | None = _option(None, "Languages of XNLI and PAWS-X, e.g. en,de.  [default: all]")
    doc_stride: int = _option(128, "Tokens between the starts of two windows (squad).")
    max_query_length: int = _option(64, "Tokens of a question at most (squad).")
    version_2_with_negative: bool | None = _option(
        None, "Whether questions may have no answer (squad).  [default: as the file says]"
    )
    windows_without_answer: Literal["keep", "drop"] = _option(
        "keep", "Training windows that do not hold the answer: keep them as impossible, or leave them out (squad)."
    )
    on_bad_row: Literal["fail", "skip"] = _option(
        "fail", "A row that cannot be used: stop, or leave it out and count it."
    )
    feature_names: Literal["v1", "v2", "albert"] = _option(
        "v1", "v1: input_ids, segment_ids; v2: input_word_ids, input_type_ids; albert: p_mask, cls_index, floats."
    )
    compression: Literal["none", "gzip"] = _option("none", "Compression of the record files.")
    seed: int = _option(12345, "Seed of --eval-fraction.")

    def __post_init__(self):
        if self.task and self.tfds and plain_name(self.task) not in ("classification", "regression"):
            raise UsageError(f"--task and --tfds both name a dataset; give one. Received: {self.task} and {self.tfds}.")
        if self.max_seq_length is None:
            squad = self.task is not None and find_dataset(self.task) == "squad"
            object.__setattr__(self, "max_seq_length", 384 if squad else 128)
        for name, low, high in (
            ("max_seq_length", 8, 65536),
            ("doc_stride", 1, None),
            ("max_query_length", 1, None),
            ("seed", 0, (1 << 63) - 1),
        ):
            value = getattr(self, name)
            if not (low <= value and (high is None or value <= high)):
                expected = f"at least {low}" if high is None else f"from {low} to {high}"
                raise UsageError(f"--{name.replace('_', '-')} must be {expected}. Received: {value}.")
        if not 0 <= self.eval_fraction < 1:
            raise UsageError(f"--eval-fraction must be in [0, 1). Received: {self.eval_fraction}.")
        if self.eval_fraction and self.dev_input:
            raise UsageError("--eval-fraction and --dev-input both make the dev split; give one.")
        if not self.label_separator:
            raise UsageError("--label-separator is empty; expected the character between two labels, e.g. ';'.")
        for option in fields(self):
            choices = [
                c for a in (option.type, *getattr(option.type, "__args__", ())) for c in getattr(a, "__args__", ())
            ]
            choices = [choice for choice in choices if isinstance(choice, str)]
            value = getattr(self, option.name)
            if choices and value is not None and value not in choices:
                raise UsageError(
                    f"--{option.name.replace('_', '-')} must be one of {', '.join(choices)}. Received: {value!r}."
                )

    def affecting_bytes(self) -> dict:
        """The options that decide the records' bytes, for the meta file."""
        values = asdict(self)
        return {option.name: values[option.name] for option in fields(self) if option.metadata["affects_bytes"]}
