"""What a target is, and what it is called with."""

import gzip
import json
import logging
import os
import random
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from nlpdata.cli import faults
from nlpdata.errors import UsageError
from tests.fuzz import mutations
from tests.named_options import watched

ROOT = Path(__file__).resolve().parents[2]


@dataclass
class Case:
    """One case of a target.

    Attributes:
      draw: the source of all its chances.
      folder: a new, empty folder.
      given: the folder of what all cases of the target share, as its `give` has left it.
    """

    draw: random.Random
    folder: Path
    given: Path
    log: list[str] = field(default_factory=list)

    def damaged(self, content: bytes | str) -> bytes:
        return mutations.damaged(
            self.draw, content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
        )

    def write(self, name: str, content: bytes | str) -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def odd_json(self, content: Any) -> bytes:
        """JSON with odd values, or as damaged bytes."""
        if self.draw.random() < 0.3:
            return self.damaged(json.dumps(content, indent=1))
        return json.dumps(mutations.odd_json(self.draw, content), ensure_ascii=self.draw.random() < 0.9).encode(
            "utf-8", "surrogatepass"
        )

    def packed(self, content: bytes) -> bytes:
        """Some content as it is, some compressed, damaged before or after."""
        how = self.draw.randrange(4)
        if how == 0:
            return self.damaged(gzip.compress(content, mtime=0))
        return gzip.compress(self.damaged(content), mtime=0) if how == 1 else self.damaged(content)

    def command(self, main: Callable, *argv: object) -> None:
        """Calls the `main` of a command. UsageError where it has refused its arguments or its input with a message."""
        words, out, err = [str(word) for word in argv], StringIO(), StringIO()
        self.log.append(" ".join(words)[:2000])
        os.environ[faults.FOLDER_VARIABLE] = str(self.folder)
        with redirect_stdout(out), redirect_stderr(err), watched() as foreign:
            logging.disable(logging.NOTSET)  # its messages are looked at
            try:
                code = main(words)
            except SystemExit as ended:
                code = ended.code
            finally:
                logging.disable(logging.CRITICAL)
        assert not foreign, "\n".join(foreign)
        if code in (1, 2):
            lines = err.getvalue().splitlines() or out.getvalue().splitlines() or [""]
            raise UsageError(lines[-1])
        if code not in (0, None):
            tracebacks = [path.read_text() for path in self.folder.glob(f"{faults.PREFIX}*")]
            raise AssertionError("\n".join([f"exit code {code}: {err.getvalue()[-500:]}", *tracebacks]))


@dataclass(frozen=True)
class Target:
    """A parser, a format or a kind of option.

    Attributes:
      name: room and what it is, e.g. "tables/csv".
      run: damages the input of a case and gives it to the product.
      give: makes what all cases share, in a folder; heavy imports are in here.
      heavy: needs Keras or TensorFlow.
      cost: cases of others that one takes the time of, about.
    """

    name: str
    run: Callable[[Case], None]
    give: Callable[[Path], None] | None = None
    heavy: bool = False
    cost: int = 1


TARGETS: dict[str, Target] = {}


def target(name: str, *, give: Callable[[Path], None] | None = None, heavy: bool = False, cost: int = 1) -> Callable:
    """Adds a function of a case to TARGETS."""

    def add(run: Callable[[Case], None]) -> Callable[[Case], None]:
        assert name not in TARGETS, name
        TARGETS[name] = Target(name, run, give, heavy, cost)
        return run

    return add
