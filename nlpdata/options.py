"""What the option dataclasses of the commands share: fields with help, checks, and the options that decide the bytes."""

from dataclasses import asdict, field, fields
from types import NoneType
from typing import Literal, get_args, get_origin

from nlpdata.errors import UsageError, closest, opt

ACCEPT_LOSS_HELP = "Write the result even where most of the text is cut off or unknown to the tokenizer."


def option(default, text: str, affects_bytes: bool = True):
    """A field of an options dataclass: its default, its help, and whether it decides the records' bytes."""
    return field(default=default, metadata={"help": text, "affects_bytes": affects_bytes})


class RecordOptions:
    """Base of the option dataclasses."""

    def affecting_bytes(self) -> dict:
        """The options that decide the records' bytes, for the meta file."""
        values = asdict(self)
        return {each.name: values[each.name] for each in fields(self) if each.metadata["affects_bytes"]}

    def check_choices(self) -> None:
        """UsageError for a value that is none of its field's choices (Literal, with or without None)."""
        for each in fields(self):
            literals = [t for t in (each.type, *get_args(each.type)) if get_origin(t) is Literal]
            value = getattr(self, each.name)
            if not literals or (value is None and NoneType in get_args(each.type)):
                continue
            choices = get_args(literals[0])
            if value not in choices:
                raise UsageError(
                    f"{opt(each.name)} must be one of {', '.join(choices)}. Received: {value!r}.{closest(value, choices)}"
                )


def from_keywords(options_class, given: dict):
    """The options of a function's keywords. UsageError for a name that is none of them, or a wrong value."""
    known = options_class.__dataclass_fields__
    unknown = sorted(given.keys() - known.keys())
    if unknown:
        raise UsageError(f"unknown option {unknown[0]!r}.{closest(unknown[0], known)} Known: {', '.join(known)}.")
    return options_class(**given)


def check_range(name: str, value, low: int, high: int | None) -> None:
    """UsageError for a value outside of low..high; None passes, and is no upper limit."""
    if value is not None and not (low <= value and (high is None or value <= high)):
        expected = f"at least {low}" if high is None else f"from {low} to {high}"
        raise UsageError(f"{opt(name)} must be {expected}. Received: {value}.")
