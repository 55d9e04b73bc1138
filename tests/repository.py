"""The files of the repository, without those that tools keep for themselves."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_OF_TOOLS = ("__pycache__", "build", "dist", "demo-output")  # as .gitignore has them


def files(root: Path) -> set[str]:
    """Names of all files below the root, relative to it, but hidden ones and those of tools."""
    found = set()
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if _is_ours(name)]
        found.update(os.path.relpath(os.path.join(folder, name), root) for name in names if _is_ours(name))
    return found


def _is_ours(name: str) -> bool:
    return not name.startswith(".") and name not in _OF_TOOLS and not name.endswith((".egg-info", ".pyc"))
