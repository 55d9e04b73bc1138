"""A text set of TensorFlow Datasets in place of records: tokenized when the run starts, by create-finetuning's functions."""

import logging

from nlpdata.errors import NlpdataError, UsageError, as_flag
from nlpdata.finetuning.in_memory import EncodedSplit, encode_split
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.tokenizers import load_tokenizer
from pretrain.settings.schema import TextDataConfig

_log = logging.getLogger(__name__)

_FIELDS = {  # options of create-finetuning, as its messages name them -> fields of ours
    "--tfds-data-dir": "tfds_data_dir",
    "--tfds-splits": "tfds_split",
    "--text-column": "text_fields",
    "--label-column": "label_field",
    "--tfds": "tfds_name",
    "--on-bad-row ": "on_bad_row=",
    "--drop-labels": "drop_labels",
    "--max-seq-length": "seq_length",
    "--accept-loss": "accept_loss=true",
}


def encode_texts(config: TextDataConfig, name: str) -> tuple[EncodedSplit, dict]:
    """The examples of a data section that names a TensorFlow dataset, and what a meta file would say of them.

    Raises UsageError and DataError in the words of the configuration; `name`: of the section.
    """
    if config.input_path:
        raise UsageError(f"{name}.input_path and {name}.tfds_name are two sources of examples; give one.")
    if not config.vocab_file:
        raise UsageError(f"{name}.vocab_file is missing: {config.tfds_name} is text, and takes a tokenizer's file.")
    if len(config.text_fields) > 2:
        raise UsageError(f"{name}.text_fields: an example has one text or two. Received: {config.text_fields}.")
    split = config.tfds_split or ("train" if config.is_training else "validation")
    first, second = [*config.text_fields, None, None][:2]
    try:
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
        tokenizer = load_tokenizer(config.vocab_file, do_lower_case=config.do_lower_case)
        for line in tokenizer.notes:
            _log.info(line)
        encoded = encode_split(options, tokenizer)
        for line in encoded.notes:
            _log.info(_in_fields(line, name))
        for line in encoded.warnings:
            _log.warning(_in_fields(line, name))
    except NlpdataError as error:
        raise type(error)(_in_fields(error.spelled(as_flag), name)) from error
    _log.info(f"{name}: {len(encoded)} examples of {config.tfds_name} ({split}), tokenized")
    return encoded, encoded.meta


def _in_fields(message: str, name: str) -> str:
    """A message of create-finetuning with the fields of a data section in place of its options."""
    for option, field in _FIELDS.items():
        message = message.replace(option, f"{name}.{field}")
    return message
