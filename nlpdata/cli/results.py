"""What a command came to: lines for people, or with --json one JSON object for programs.

With --json the object is the last line of standard output, and nothing else is written there; messages and progress stay on
standard error, and so does the error of a command that fails, which then prints no object. docs/commands.md has the keys.
"""

import contextlib
import dataclasses
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Summary:
    """What a command came to.

    Attributes:
      command: e.g. "create-pretraining".
      facts: key -> value, for programs; "command" is added.
      lines: for people.
      exit_code: of the command.
    """

    command: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    lines: Sequence[str] = ()
    exit_code: int = 0

    def show(self, as_json: bool) -> None:
        """Prints it."""
        if as_json:
            print(json.dumps(plain({"command": self.command, **self.facts}), ensure_ascii=False, allow_nan=False))
        elif self.lines:
            print("\n".join(self.lines))


@contextlib.contextmanager
def reserved_output(reserved: bool) -> Iterator[None]:
    """While it lasts, and if asked for, what is printed goes to standard error: standard output is for the summary alone."""
    with contextlib.redirect_stdout(sys.stderr) if reserved else contextlib.nullcontext():
        yield


def plain(value: Any) -> Any:
    """A value as JSON has it: paths as texts, arrays as lists, numbers that are not finite as null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({each.name: getattr(value, each.name) for each in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, str | os.PathLike):
        # A file's name may hold bytes that are not UTF-8.
        return str(value).encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Sequence | Set) and not isinstance(value, bytes):
        return [plain(each) for each in value]
    if hasattr(value, "tolist"):  # numpy's
        return plain(value.tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(rows: Sequence[tuple[str, int]]) -> list[str]:
    """Lines with names and numbers below each other."""
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {value:>14,}" for name, value in rows]
