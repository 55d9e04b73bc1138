"""The sections task.train_data and task.validation_data: which records, texts or examples, and how batches are made of them."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from pretrain.settings.config import Config
from pretrain.settings.fields import MOST_EXAMPLES, MOST_SEED, MOST_TOKENS, at_least


@dataclass
class DataConfig(Config):
    """Records to read, and how to make batches of them."""

    of_text: ClassVar[tuple[str, ...]] = ()  # fields without effect on records

    input_path: str | list[str] = ""
    """Record files: a path, a pattern, a list, or several separated by commas; toy:nsp makes small ones itself."""
    input_function: str = field(default="", metadata={"names_part": True})
    """In place of input_path: module:function that returns examples (pretrain.data.Examples); it is called with this section."""
    meta_path: str = ""
    """Meta file of the records; empty: found next to them."""
    global_batch_size: int = at_least(1, 32, MOST_EXAMPLES)
    """Examples a step, all replicas and micro-steps together."""
    max_examples: int | None = at_least(1, None)
    """Take so many examples at most, the first ones of the files; null: all."""
    is_training: bool = True
    """Shuffled anew each epoch; else in file order, once."""
    drop_remainder: bool = True
    """Leave the last, smaller batch of an epoch out. Without training it is padded and counted right instead."""
    seed: int = at_least(0, 12345, MOST_SEED)
    """Seed of the order and of dynamic masking."""
    seq_length: int | None = at_least(1, None, MOST_TOKENS)
    """Expected length of the records, null: theirs; of text, the length to make (512)."""
    max_predictions_per_seq: int | None = at_least(1, None, MOST_TOKENS)
    """Expected predictions a record; with dynamic masking, how many to make. Null takes the meta file's."""
    masked_lm_prob: float | None = at_least(0, None, 1)
    """Text and dynamic masking only: share of the tokens to predict. Null takes the meta file's; evaluation uses 0.15."""
    invert_mask: bool = False
    """The input_mask of these (foreign) records is 1 on padding."""
    trim_padding: bool = False
    """Cut each batch to its longest example, up to a multiple of 8, for devices that need no fixed shapes."""
    group_by_length: bool = False
    """Training only: batches of examples of about one length, cut as with trim_padding. All lengths are read at the start."""
    pack_sequences: bool = False
    """Put the examples of a batch into as few rows as hold them, each attending to itself alone: the same step without padding."""
    remote_cache_gb: float = at_least(0.01, 8.0, 1 << 20)
    """Gigabytes (2**30 bytes) of records on gs:// or s3:// that stay on this machine's disk, at most."""
    prefetch_buffer_size: int = at_least(1, 4, 1 << 16)
    """Batches made ahead, in a thread."""

    @property
    def is_given(self) -> bool:
        """Whether it names data at all."""
        return bool(self.input_path or self.input_function)


@dataclass
class EvalDataConfig(DataConfig):
    """Records to evaluate on: in file order, the last batch padded."""

    is_training: bool = False
    drop_remainder: bool = False


@dataclass
class TextDataConfig(DataConfig):
    """Records, or a text set of TensorFlow Datasets, which is tokenized when the run starts."""

    of_text = (
        *("tfds_split", "tfds_data_dir", "vocab_file", "do_lower_case", "text_fields", "label_field", "drop_labels"),
        "accept_loss",
    )

    tfds_name: str = ""
    """A prepared set in place of input_path, e.g. glue/sst2; seq_length (128) is then the length to make."""
    tfds_split: str = ""
    """Its split; empty: train, or validation to evaluate on. Several are joined by +, and evaluated each for itself, too."""
    tfds_data_dir: str = ""
    """Where it is prepared; empty: ~/tensorflow_datasets."""
    vocab_file: str = ""
    """Tokenizer for its texts: a SentencePiece model or a vocab.txt."""
    do_lower_case: bool | None = None
    """Lower-case its texts; null: as stored with the tokenizer."""
    text_fields: list[str] = field(default_factory=list)
    """Its features with the text, or the two texts; empty: found out."""
    label_field: str = ""
    """Its feature with the label; empty: label."""
    on_bad_row: Literal["fail", "skip"] = "fail"
    """A record or example whose label or text cannot be used: stop, or leave it out and count it."""
    drop_labels: str = ""
    """Leave out the examples of tfds_name with these labels, comma-separated."""
    accept_loss: bool = False
    """Use tfds_name also where most of its text is cut off or unknown to the tokenizer."""

    @property
    def is_given(self) -> bool:
        return bool(self.tfds_name) or super().is_given

    @property
    def tfds_splits(self) -> list[str]:
        """The splits that tfds_split names, by default one."""
        return [
            each.strip() for each in (self.tfds_split or ("train" if self.is_training else "validation")).split("+")
        ]


@dataclass
class EvalTextDataConfig(EvalDataConfig, TextDataConfig):
    """The same to evaluate on."""


@dataclass
class PretrainingDataConfig(DataConfig):
    """Records, or a corpus of text, of which the run makes records in its model_dir first."""

    of_text = ("vocab_file", "do_lower_case", "text_key", "objective", "masking")

    vocab_file: str = ""
    """Tokenizer for its text: a SentencePiece model or a vocab.txt."""
    do_lower_case: bool | None = None
    """Lower-case its text; null: as stored with the tokenizer."""
    text_key: str = ""
    """Key of its text, where it is JSON lines, one document a line."""
    objective: Literal["sop", "nsp", "none"] | None = None
    """Sentence pairs to make of it; null: the encoder's own (ALBERT sop, others nsp), none without use_next_sentence_label."""
    masking: Literal["static", "dynamic"] = "static"
    """static: ten copies of the text, masked once each; dynamic: one, masked anew each epoch."""


@dataclass
class EvalPretrainingDataConfig(EvalDataConfig, PretrainingDataConfig):
    """The same to evaluate on."""


@dataclass
class QuestionDataConfig(DataConfig):
    """Records, or a file of SQuAD's form (.json, also compressed), of which records are made when the run starts."""

    of_text = ("vocab_file", "do_lower_case", "doc_stride", "query_length", "version_2_with_negative", "on_bad_row")

    vocab_file: str = ""
    """Tokenizer for its texts: a SentencePiece model or a vocab.txt."""
    do_lower_case: bool | None = None
    """Lower-case its texts; null: as stored with the tokenizer."""
    doc_stride: int | None = at_least(1, None, MOST_TOKENS)
    """Tokens between the starts of two windows; null: 128, in predictions those of the training records."""
    query_length: int | None = at_least(1, None, MOST_TOKENS)
    """Most tokens of a question; null: 64, in predictions as many as in the training records."""
    version_2_with_negative: bool | None = None
    """Whether its questions may have no answer; null: as the file says."""
    on_bad_row: Literal["fail", "skip"] = "fail"
    """A question that cannot be used: stop, or leave it out and count it."""


@dataclass
class EvalQuestionDataConfig(EvalDataConfig, QuestionDataConfig):
    """The same to evaluate on."""
