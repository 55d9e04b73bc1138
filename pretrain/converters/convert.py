"""Conversion of a checkpoint to another format, with its tokenizer, and a report of what became of the weights."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from nlpdata.errors import UsageError, opt
from nlpdata.files.unpacking import shown
from nlpdata.registry import user_modules
from pretrain.converters import keras_h5, places, read_checkpoint
from pretrain.converters.checkpoint import Checkpoint, report_ignored
from pretrain.converters.format import checkpoint_format
from pretrain.converters.heads import encoder_alone, listed
from pretrain.converters.load import build_model, has_pooled_output
from pretrain.converters.report import assign
from pretrain.converters.same_tokenizer import refuse_other_tokenizer
from pretrain.converters.tokenizer_files import find_tokenizer, load_fitting
from pretrain.converters.write import refuse_existing, write_checkpoint
from pretrain.encoders.model import initialize_weights, weights_by_path
from pretrain.encoders.model_config import read_model_config

_log = logging.getLogger(__name__)

_SEED = 12345  # of weights that a module lacks


def convert_place(
    place: str,
    dest: str,
    format: str,
    model_config: str | None = None,
    import_modules: Sequence[str] = (),
    **options: Any,
) -> None:
    """Reads a checkpoint, and writes it as a new folder.

    Args:
      place: as for pretrain.converters.read_checkpoint.
      model_config: the encoder's configuration, where the checkpoint has none: a name or a file.
      dest, format, options: as for convert.
      import_modules: modules of the user's own parts.

    Raises UsageError, for an unknown format and a folder that exists before anything is read, and DataError.
    """
    with user_modules(import_modules):
        checkpoint_format(format)
        refuse_existing(dest)
        encoder = read_model_config(model_config) if model_config else None
        checkpoint = read_checkpoint(place, encoder)
        report_ignored(checkpoint, encoder)
        convert(checkpoint, dest, format, **options)


def convert(
    checkpoint: Checkpoint,
    dest: str,
    format: str,
    *,
    encoder_only: bool = False,
    tokenizer: str | None = None,
    do_lower_case: bool | None = None,
    allow_other_tokenizer: bool = False,
) -> None:
    """Writes a checkpoint as a new folder, after checking that it makes a whole model; logs what became of the weights.

    Args:
      checkpoint: as pretrain.converters.read_checkpoint gives it.
      dest: the new folder.
      format: a name of CHECKPOINT_FORMATS, or module:attribute.
      encoder_only: whether to leave the heads out.
      tokenizer: its tokenizer file; default: the one next to the source, if there is one.
      do_lower_case: whether the tokenizer lower-cases; default: as stored with it.
      allow_other_tokenizer: whether a tokenizer other than that of the weights is accepted.

    Raises UsageError, DataError.
    """
    if encoder_only:
        checkpoint = encoder_alone(checkpoint)
    assign(build_model(checkpoint), checkpoint).log()  # shapes and names are right, or this raises
    _refuse_left_out(checkpoint)
    if not has_pooled_output(checkpoint):
        _log.warning("%s: has no pooler, so that pooled_output means nothing", checkpoint.source)
    path = tokenizer or find_tokenizer(checkpoint.source)
    if path is not None:
        words = load_fitting(path, checkpoint, do_lower_case)
        refuse_other_tokenizer(
            words.path,
            words.meta(),
            Path(words.path),
            checkpoint.source,
            allow_other_tokenizer,
            options=do_lower_case is None,
        )
        checkpoint = replace(checkpoint, tokenizer=words)
    _report_tokenizer(checkpoint)
    for note in write_checkpoint(dest, checkpoint, format):
        _log.info(note)


def _refuse_left_out(checkpoint: Checkpoint) -> None:
    if checkpoint.left_out:
        raise UsageError(
            f"{checkpoint.source}: has a head that cannot be used. {listed(checkpoint.left_out)}. Write the encoder alone "
            f"with {opt('encoder_only')}."
        )


def _report_tokenizer(checkpoint: Checkpoint) -> None:
    tokenizer, rows = checkpoint.tokenizer, checkpoint.known_encoder.options.vocab_size
    if tokenizer is None:
        _log.info("tokenizer: none next to the source; name one with --tokenizer")
        return
    place = shown(tokenizer.path)
    entries, own = tokenizer.vocab_size, checkpoint.extras.get("tokenizer_sha256")
    if entries >= rows:
        _log.info("tokenizer: %s", place)
    elif own == tokenizer.sha256:  # that of the run's training records
        _log.info("tokenizer: %s (%d entries; the model has %d)", place, entries, rows)
    else:
        _log.warning("the tokenizer %s has %d entries, the model has %d: is it the model's own?", place, entries, rows)


def convert_hub_module(path: str, encoder_only: bool, model_name: str, inner: str = "") -> Path:
    """Writes tf2_model.h5 or tf2_model_full.h5 into an ALBERT module's own folder, as kamalkraj/ALBERT-TF2.0 does.

    Published modules have no weights for sentence order: those of the full file then start at random, which is reported.

    Args:
      path: the module's folder, or the URL of a cached one.
      encoder_only: tf2_model.h5, else tf2_model_full.h5.
      model_name: configuration of modules that have none (version 1).
      inner: folder in it that holds the weights, where it is not a module; "": itself.

    Returns the file. UsageError where it exists, or a head cannot be used.
    """
    folder = places.find(path)
    checkpoint = read_checkpoint(str(folder / inner), read_model_config(model_name))
    if not encoder_only:
        _refuse_left_out(checkpoint)
        heads = dict.fromkeys(("masked_lm/output_bias", "sentence_pair/logits/kernel"), np.zeros(0))
        model = build_model(replace(checkpoint, weights=heads))
        initialize_weights(model, _SEED)
        assign(model, checkpoint).log()
        whole = {name: np.asarray(weight) for name, weight in weights_by_path(model).items()}
        checkpoint = replace(checkpoint, weights=whole)
    return keras_h5.write_one(folder, checkpoint, encoder_only)
