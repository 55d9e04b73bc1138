"""A text set of TensorFlow Datasets in place of records: tokenized when the run starts, by create-finetuning's functions."""

import functools
import logging
from functools import partial

from nlpdata.errors import UsageError, spelled_as
from nlpdata.finetuning.in_memory import EncodedSplit, encode_split
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.tokenizers import Tokenizer, load_tokenizer
from pretrain.settings.data_section import TextDataConfig

_log = logging.getLogger(__name__)

_FIELDS = {
    "tfds": "tfds_name",
    "tfds_splits": "tfds_split",
    "text_column": "text_fields",
    "text_b_column": "text_fields",
    "label_column": "label_field",
    "max_seq_length": "seq_length",
    "max_query_length": "query_length",
    "input": "input_path",
    "tokenizer": "vocab_file",
}
"""Option of create-finetuning -> field of a data section; the others have one name."""


def encode_texts(config: TextDataConfig, name: str) -> tuple[EncodedSplit, dict]:
    """The examples of a data section that names a TensorFlow dataset, and what a meta file would say of them.

    Args:
      config: the section.
      name: its dotted path, e.g. task.train_data; messages name the options of create-finetuning by its fields.

    Raises UsageError, DataError.
    """
    if config.input_path:
        raise UsageError(f"{name}.input_path and {name}.tfds_name are two sources of examples; give one.")
    if not config.vocab_file:
        raise UsageError(
            f"{name}.vocab_file is missing: {config.tfds_name} is text. Name a tokenizer's file, or a checkpoint that has one."
        )
    if len(config.text_fields) > 2:
        raise UsageError(f"{name}.text_fields: an example has one text or two. Received: {config.text_fields}.")
    splits = config.tfds_splits
    if len(set(splits)) < len(splits):
        raise UsageError(f"{name}.tfds_split names a split twice. Received: {config.tfds_split}.")
    with spelled_as(partial(as_field, name)):
        tokenizer = load_tokenizer(config.vocab_file, do_lower_case=config.do_lower_case)
        for line in tokenizer.notes:
            _log.info(line)
        first, *others = (_encoded(config, split, tokenizer) for split in splits)
    encoded = functools.reduce(EncodedSplit.joined, others, first)
    _log.info(f"{name}: {len(encoded):,} examples of {config.tfds_name} ({' + '.join(splits)}), tokenized")
    return encoded, encoded.meta


def _encoded(config: TextDataConfig, split: str, tokenizer: Tokenizer) -> EncodedSplit:
    first, second = [*config.text_fields, None, None][:2]
    options = FinetuningOptions(
        tfds=config.tfds_name,
        tfds_data_dir=config.tfds_data_dir or None,
        tfds_splits=f"{'train' if config.is_training else 'dev'}={split}",
        text_column=first,
        text_b_column=second,
        label_column=config.label_field or None,
        max_seq_length=config.seq_length,
        on_bad_row=config.on_bad_row,
        drop_labels=config.drop_labels or None,
        accept_loss=config.accept_loss,
    )
    return encode_split(options, tokenizer, f"{config.tfds_name} {split}")


def as_field(section: str, option: str, value: object = None) -> str:
    """The configuration's spelling of an option: task.train_data.seq_length, task.train_data.on_bad_row=skip."""
    field = f"{section}.{_FIELDS.get(option, option)}"
    return field if value is None else f"{field}={str(value).lower() if isinstance(value, bool) else value}"
