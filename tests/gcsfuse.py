"""Cloud Storage FUSE, as far as it differs from a disk."""

import os
from pathlib import Path

import pytest


def refuse_renames_of_folders(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """From now on a folder that holds anything cannot be renamed; `number`: of the error."""
    rename = os.replace

    def replace(source, target):
        if Path(source).is_dir() and os.listdir(source):
            raise OSError(number, os.strerror(number), str(source))
        rename(source, target)

    monkeypatch.setattr(os, "replace", replace)
