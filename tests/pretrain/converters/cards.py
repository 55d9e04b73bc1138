"""Model cards of exports: their metadata, and the program in them, which is run as it stands."""

import contextlib
import io
import re
from pathlib import Path

import yaml


def usage(folder: Path) -> str:
    """The program of the card."""
    return re.search(r"^```python\n(.*?)^```$", (folder / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]


def run_usage(folder: Path) -> str:
    """Runs the program of the card in its folder; returns what it printed."""
    printed = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(printed):
        exec(compile(usage(folder), str(folder / "README.md"), "exec"), {"__name__": "card"})
    return printed.getvalue()


def metadata(folder: Path) -> dict:
    """What stands between the dashes, as Hugging Face's hub reads it: YAML up to the next line of three dashes."""
    found = re.match(r"\s*---\r?\n(.*?)\r?\n---\r?\n", (folder / "README.md").read_text(), re.DOTALL)
    return yaml.safe_load(found[1])
