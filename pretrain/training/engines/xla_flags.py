"""What XLA_FLAGS sets, as XLA reads it."""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def flags_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The flags in XLA_FLAGS, or in the file that it names: name -> value, "true" where it has none.

    Of a file that cannot be read XLA itself tells.
    """
    text = environment.get("XLA_FLAGS", "")
    if text.strip() and not text.lstrip().startswith("-"):
        path, text = text, ""
        with suppress(OSError):
            text = Path(path).read_text(errors="replace")
    pairs = (word.lstrip("-").partition("=") for word in text.split())
    return {name: value if given else "true" for name, given, value in pairs}


def flags_of_hosts(environment: Mapping[str, str]) -> dict[str, str]:
    """Those that must be the same on all hosts of a run, which would compile other steps: all but where XLA dumps what."""
    return {name: value for name, value in flags_of(environment).items() if not name.startswith("xla_dump_")}
