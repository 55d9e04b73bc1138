"""Refusals of a disk, whoever quotes them."""

import errno

import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.files.disk import disk_fault, writing


class OpError(Exception):
    """As TensorFlow's."""


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "x"), "No space left on device"),
        (OpError("/x/variables.data; File too large"), "File too large"),
        (OSError("Can't write data (errno = 30, error message = 'Read-only file system')"), "Read-only file system"),
        (ValueError("embedded null byte"), "a path holds a NUL character"),
        (ValueError("3"), None),
        (OSError("Unable to open file (file signature not found)"), None),
    ],
)
def test_the_reason(error, reason):
    assert disk_fault(error) == reason


def test_writing_names_the_path_and_leaves_other_errors():
    for error, fault in (
        (OpError("x; File too large"), "out: cannot be written: File too large"),
        (OSError("odd"), "out: cannot be written: odd"),
    ):
        with pytest.raises(DataError) as raised, writing("out"):
            raise error
        assert str(raised.value) == fault
    for error in (KeyError("x"), UsageError("x")):
        with pytest.raises(type(error)), writing("out"):
            raise error
