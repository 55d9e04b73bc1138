"""The options of create-finetuning: one dataclass that the command line, the function and the meta file all use."""

from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Literal

from nlpdata.errors import UsageError, opt
from nlpdata.files import PathName, PathNames
from nlpdata.files.patterns import as_names
from nlpdata.finetuning.datasets import find_dataset, plain_name
from nlpdata.finetuning.label_names import given_labels
from nlpdata.finetuning.uses import refuse_unused
from nlpdata.options import (
    ACCEPT_LOSS_HELP,
    MOST_SEED,
    MOST_TOKENS,
    BeamArguments,
    LocalArguments,
    RecordOptions,
    RecordSetArguments,
    check_bounds,
    option,
)

if TYPE_CHECKING:
    from nlpdata.tokenizers import TokenizerSource


_LENGTHS = {"squad": 384, "race": 512}  # max_seq_length where it is not given; of all others 128


@dataclass(frozen=True, kw_only=True)
class FinetuningOptions(RecordOptions):
    """How records are made from rows. `affects_bytes` in a field's metadata: part of the meta file's options."""

    task: str | None = option(
        None,
        "Dataset: cola, sst-2, ..., imdb, squad, race, swag; for your own files classification, pair, regression, multilabel or "
        "choice; or a dataset of your own, as module:function.",
    )
    tfds: str | None = option(None, "A prepared TensorFlow dataset instead of files, e.g. glue/sst2.")
    tfds_data_dir: str | None = option(
        None, "Folder of prepared TensorFlow datasets.  [default: ~/tensorflow_datasets]", False
    )
    tfds_splits: str | None = option(
        None,
        f"Splits to make of those of {opt('tfds')}, e.g. train=train,dev=test.  [default: train, validation as dev, test]",
    )
    splits: str | None = option(None, "Splits to make, comma-separated, e.g. train,dev.  [default: all there are]")
    dev_input: PathNames | None = option(None, "File of the dev split (squad), or files (your own).", False)
    test_input: PathNames | None = option(None, "File of the test split (squad), or files (your own).", False)
    eval_fraction: float = option(
        0.0, f"Share of the rows of {opt('input')}, 0 to 1, that become the dev split, drawn by label (your own files)."
    )
    max_seq_length: int | None = option(
        None,
        "Tokens of a record, or of each choice, [CLS] and [SEP] included.  [default: 128; squad 384, race 512]",
        least=8,
        most=MOST_TOKENS,
    )
    label_order: Literal["glue", "tfds"] | None = option(
        None, "Published order of the labels of MNLI, AX and XNLI.  [default: as the source has it]"
    )
    labels: str | None = option(
        None, "Label names in id order, comma-separated.  [default: those of the training rows]"
    )
    drop_labels: str | None = option(
        None, f"Labels whose rows are left out, comma-separated, e.g. {opt('drop_labels', '-')} for SNLI."
    )
    text_column: str | None = option(None, "Column (or key) of the text.  [default: text]")
    text_b_column: str | None = option(None, "Column of the second text of a pair, or of the question (choice).")
    choice_columns: str | None = option(
        None,
        "Columns of the texts that compete, comma-separated, or the one key of a list of them (choice).  [default: choices]",
    )
    label_column: str | None = option(
        None, "Column of the label; of choice a number from 0, or A, B, ...  [default: label]"
    )
    label_separator: str = option(",", "Text between the labels of a row (multilabel).")
    header: bool = option(True, "The first line of CSV and TSV files names the columns; else they are numbered from 0.")
    format: Literal["csv", "tsv", "jsonl", "parquet"] | None = option(
        None, "Format of your own files.  [default: by their names]"
    )
    delimiter: str | None = option(
        None,
        "Character between the columns of CSV and TSV: comma, semicolon, tab, pipe, or another.  [default: recognised]",
    )
    encoding: str | None = option(
        None, "Encoding of CSV, TSV and JSON lines, e.g. cp1252.  [default: UTF-8, or UTF-16 where it is recognised]"
    )
    language: str | None = option(None, "Languages of XNLI and PAWS-X, e.g. en,de.  [default: all]")
    level: Literal["middle", "high"] | None = option(None, "Level of RACE.  [default: both]")
    doc_stride: int = option(128, "Tokens between the starts of two windows (squad).", least=1, most=MOST_TOKENS)
    max_query_length: int = option(64, "Most tokens of a question (squad).", least=1, most=MOST_TOKENS)
    max_qa_length: int = option(
        128,
        "Most tokens of a question with its choice, of which the end is kept (race, swag, choice).",
        least=1,
        most=MOST_TOKENS,
    )
    blank: str | None = option(None, "Mark in a question that its choice replaces (choice).  [default: none; race _]")
    version_2_with_negative: bool | None = option(
        None, "Whether questions may have no answer (squad).  [default: as the file says]"
    )
    windows_without_answer: Literal["keep", "drop"] = option(
        "keep", "Training windows that do not hold the answer: keep them as impossible, or leave them out (squad)."
    )
    on_bad_row: Literal["fail", "skip"] = option(
        "fail", "What to do about a row that cannot be used: stop, or leave it out and count it."
    )
    accept_loss: bool = option(False, ACCEPT_LOSS_HELP, False)
    feature_names: Literal["v1", "v2", "albert"] = option(
        "v1", "v1: input_ids, segment_ids; v2: input_word_ids, input_type_ids; albert: p_mask, cls_index, floats."
    )
    compression: Literal["none", "gzip"] = option("none", "Compression of the record files.")
    seed: int = option(12345, f"Seed of {opt('eval_fraction')}.", least=0, most=MOST_SEED)
    is_default_length: bool = field(
        default=False, init=False, repr=False, compare=False, metadata={"help": "", "affects_bytes": False}
    )
    """Whether max_seq_length was not given. Who gives it knows that longer texts are cut there."""

    @property
    def length(self) -> int:
        """max_seq_length, which has been decided."""
        assert self.max_seq_length is not None
        return self.max_seq_length

    def __post_init__(self) -> None:
        if self.task and self.tfds and plain_name(self.task) not in ("classification", "regression"):
            raise UsageError(
                f"{opt('task')} and {opt('tfds')} both name a dataset; give one. Received: {self.task} and {self.tfds}."
            )
        for name in ("dev_input", "test_input"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(as_names(getattr(self, name))))
        kind = find_dataset(self.task) if self.task else ""
        object.__setattr__(self, "is_default_length", self.max_seq_length is None)
        if self.max_seq_length is None:
            object.__setattr__(self, "max_seq_length", _LENGTHS.get(kind, 128))
        if self.blank is None and kind == "race":
            object.__setattr__(self, "blank", "_")
        check_bounds(self)
        refuse_unused(self)
        if not 0 <= self.eval_fraction < 1:
            raise UsageError(f"{opt('eval_fraction')} must be in [0, 1). Received: {self.eval_fraction}.")
        if self.eval_fraction and self.dev_input:
            raise UsageError(f"{opt('eval_fraction')} and {opt('dev_input')} both make the dev split; give one.")
        if not self.label_separator:
            raise UsageError(f"{opt('label_separator')} is empty; expected the character between two labels, e.g. ';'.")
        if self.drop_labels is not None:
            self._check_drop_labels()
        self.check_choices()

    def _check_drop_labels(self) -> None:
        dropped = given_labels(self.drop_labels, "drop_labels")
        both = [name for name in given_labels(self.labels) if name in dropped]
        if both:
            raise UsageError(
                f"{opt('labels')} and {opt('drop_labels')} both name {both[0]!r}; it is a class, or it is left out."
            )


@dataclass(frozen=True)
class FinetuningRequest(RecordSetArguments, FinetuningOptions):
    """What create-finetuning takes on any runner. UsageError for a value that is wrong."""

    input: PathNames | None = option(
        None, "The dataset's folder or file; of your own files several, and patterns, too."
    )
    output: PathName | None = option(None, "Folder of the records, e.g. out/mrpc.  [required]")
    tokenizer: "TokenizerSource | None" = option(
        None, "Tokenizer file, e.g. tok/spm.model or vocab.txt, or a folder with one.  [required]"
    )
    _: KW_ONLY
    train_output: str | None = option(None, "Training records under another name; all files are in one folder.")
    dev_output: str | None = option(None, "Dev records under another name.")
    test_output: str | None = option(None, "Test records under another name.")
    options: FinetuningOptions = field(init=False, repr=False)


@dataclass(frozen=True)
class LocalFinetuningRequest(LocalArguments, FinetuningRequest):
    """What create-finetuning takes on this machine."""


@dataclass(frozen=True)
class BeamFinetuningRequest(BeamArguments, FinetuningRequest):
    """What create-finetuning takes on a Beam runner."""
