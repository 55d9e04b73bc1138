"""A checkpoint in memory: what every reader returns and every writer takes."""

import logging
from collections.abc import Collection
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from nlpdata.errors import DataError, Message, UsageError, opt
from nlpdata.files.json_kinds import as_written
from nlpdata.tokenizers import Tokenizer
from pretrain.encoders.model_config import config_files, read_folder_config
from pretrain.registry import ENCODERS
from pretrain.settings.fields import Choice, check_stored_parts

_log = logging.getLogger(__name__)


class NoConfigurationError(UsageError):
    """Weights without a configuration, which do not show it either: the user must name one."""


@dataclass(frozen=True)
class Head:
    """What a classifier's logits mean: kind (classification, regression, multilabel), class names in id order."""

    kind: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Checkpoint:
    """Weights of an encoder and its heads.

    Attributes:
      format: name of the format it was read from.
      source: where it was read from, for messages.
      encoder: its encoder; None where one of our checkpoints names none.
      weights: path in our models -> float32 array in our layout.
      unused: the source's other tensors -> why they are not used.
      extras: what is kept with it: kind and label_names (in id order) of a classifier, facts about the data that it was
        trained on.
      tokenizer: to be written with it.
      left_out: heads of the source that cannot be used -> why; their weights are not among `weights`. A head that none of
        our models has goes by the name of its class.
      notes: what the user should know of how it was read.
    """

    format: str
    source: str
    encoder: Choice | None
    weights: dict[str, np.ndarray]
    unused: dict[str, str] = field(default_factory=dict)
    extras: dict = field(default_factory=dict)
    tokenizer: Tokenizer | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def known_encoder(self) -> Choice:
        """Its encoder. UsageError where it names none."""
        if self.encoder is None:
            raise UsageError(
                f"{self.source}: does not say of which encoder it is. Name one with {opt('model_config')}."
            )
        return self.encoder

    @property
    def sequence_length(self) -> int:
        """Length of the examples that it was trained on, in tokens, if it is known; else the longest that its encoder takes."""
        return self.extras.get("seq_length") or self.known_encoder.options.max_position_embeddings

    @property
    def head(self) -> Head | None:
        """What its classifier's logits mean; None where it has no classifier."""
        kernel = self.weights.get("classifier/logits/kernel")
        if kernel is None:
            return None
        classes = kernel.shape[1]
        kind = self.extras.get("kind") or ("regression" if classes == 1 else "classification")
        return Head(kind, tuple(self.extras.get("label_names") or map(str, range(classes))))

    @property
    def may_score_choices(self) -> bool:
        """Whether its classifier has one row and nothing says what it is for: a regression, or choices, as run_race leaves it."""
        return self.head is not None and self.head.kind == "regression" and "kind" not in self.extras


def stored_model_config(folders: list[Path], own: Collection[str] = ()) -> Choice | None:
    """The configuration next to weights; None where there is none.

    Args:
      folders: where to look, in this order.
      own: the files that are the format's own, where a folder has several.
    """
    for folder in folders:
        if any((folder / name).is_file() for name in config_files()):
            return read_folder_config(folder, own)
    return None


def find_model_config(given: Choice | None, folders: list[Path], source: str, own: Collection[str] = ()) -> Choice:
    """The configuration next to the weights, else the one that was given; UsageError where there is none.

    Args:
      given: the encoder that the user named, if any.
      folders, own: as in stored_model_config.
      source: what is read, for messages.
    """
    found = stored_model_config(folders, own) or given
    if found is not None:
        return found
    raise NoConfigurationError(
        f"{source}: holds no model configuration, and weights alone do not tell it (number of heads, activation, ...). "
        f"Name one with {opt('model_config')}: a file, or a name such as bert_base_uncased. Expected next to the weights: "
        f"{', '.join(config_files())}."
    )


def report_ignored(checkpoint: Checkpoint, given: Choice | None) -> None:
    """Warns where the configuration that the user named is not used, because the checkpoint has another one of its own."""
    if given is not None and checkpoint.encoder != given:
        own = "has a configuration of its own, which is used. Not used is"
        _log.warning(Message(f"{checkpoint.source}: {own} {opt('model_config')}, which differs"))


def encoder_fields(encoder: Choice) -> dict[str, Any]:
    """An encoder as our files describe it, in JSON's types; the way back is `stored_encoder`."""
    return {"type": encoder.type, "options": asdict(encoder.options)}


def stored_encoder(stored: Any, source: str) -> Choice:
    """The encoder that one of our files describes: {"type": name, "options": {field: value}}.

    UsageError for a part that the user has not named (Registry.check_stored), DataError for anything else.
    """
    kind = stored.get("type") if isinstance(stored, dict) else None
    options = stored.get("options") if isinstance(stored, dict) else None
    if not isinstance(kind, str) or not isinstance(options, dict):
        raise DataError(f"{source}: encoder must have a type and options. Received: {as_written(stored)[:80]}")
    try:
        ENCODERS.check_stored(kind)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None
    try:
        config_class = ENCODERS.config_class(kind)
        unknown = options.keys() - {field.name for field in fields(config_class)}
        if unknown:
            raise UsageError(f"{kind} has no option {', '.join(sorted(unknown))}")
        encoder = Choice(kind, config_class(**options))
    except UsageError as error:
        raise DataError(f"{source}: encoder: {error}") from None
    try:
        check_stored_parts(encoder.options)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None
    return encoder
