"""What fields of a configuration can hold besides plain values: a part with its options, a number within bounds, a time.

A tagged choice is written as in the TensorFlow Model Garden's files: `encoder: {type: bert, bert: {hidden_size: 256}}`; here it is
a Choice whose options are the dataclass that the chosen part declares as its `config_class`.
"""

from dataclasses import dataclass, field, fields
from typing import Any

from nlpdata.registry import Registry
from pretrain.settings.values import parse_duration


@dataclass(frozen=True)
class Choice:
    """One of a registry's parts, with its options.

    Attributes:
      type: name in the registry, or "module:attribute".
      options: instance of the part's `config_class`.
    """

    type: str
    options: Any


def choose(registry: Registry, type: str, **options: Any) -> Choice:
    """The part of that name, with these options and defaults for the others."""
    return Choice(type, registry.config_class(type)(**options))


def choice(registry: Registry, type: str, **options: Any) -> Any:
    """A dataclass field that holds a Choice of `registry`; by default `type` with these options."""
    return field(default_factory=lambda: choose(registry, type, **options), metadata={"registry": registry})


def names_part(registry: Registry, default: str) -> Any:
    """A dataclass field with the name of one of a registry's parts, or module:attribute; the part takes no options of its own."""
    return field(default=default, metadata={"names_part": registry})


def check_stored_parts(options: Any) -> None:
    """UsageError where options that a file gives name a part that is neither registered nor of a module that the user has named."""
    for each in fields(options):
        registry = each.metadata.get("names_part")
        if isinstance(registry, Registry):
            registry.check_stored(getattr(options, each.name))


MOST = 1 << 53  # of steps, epochs and the like: a float holds every whole number up to it
MOST_TOKENS = 65536  # of an example
MOST_EXAMPLES = 1 << 20  # of a batch
MOST_SEED = (1 << 63) - 1
MOST_LAYERS = 1 << 10
MOST_BEAM = 256


def at_least(minimum: float, default: float | None, most: float = MOST) -> Any:
    """A dataclass field for a number of at least `minimum` and at most `most`."""
    return field(default=default, metadata={"bounds": (minimum, most)})


def duration(minimum: float, default: float | None) -> Any:
    """A dataclass field for seconds, of at least `minimum`, which may be given as a time: 90s, 30m, 2h."""
    return field(default=default, metadata={"bounds": (minimum, MOST), "parse": parse_duration})
