"""The files of the repository, without those that tools keep for themselves."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_OF_TOOLS = ("__pycache__", "build", "dist", "demo-output")  # as .gitignore has them


def files(root: Path) -> set[str]:
    """Names of all files below the root, relative to it, but hidden ones and those of tools."""
    found = set()
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if _is_ours(name)]
        place = Path(folder).relative_to(root)
        found.update(str(place / name) for name in names if _is_ours(name))
    return found


def without_committed(names: set[str], root: Path) -> set[str]:
    """The names that Git does not know, all where there is no Git: a merge or a rebase during the tests is none of theirs."""
    command = ["git", "-C", str(root), "ls-files", "-z", "--", *names]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return names
    return names.difference(done.stdout.split("\0"))


def _is_ours(name: str) -> bool:
    return not name.startswith(".") and name not in _OF_TOOLS and not name.endswith((".egg-info", ".pyc"))
