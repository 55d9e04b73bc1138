"""Files of the work folder: what was stored is read, and a planted pickle calls nothing."""

import os
import pickle

import numpy as np
import pytest

from nlpdata.errors import DataError
from nlpdata.finetuning.encode import Batch
from nlpdata.finetuning.squad import Paragraphs
from nlpdata.finetuning.stored_batches import read_content, store_content
from nlpdata.finetuning.windows import Windows
from nlpdata.tokenizers.offsets import Tokens


class Planted:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


@pytest.mark.parametrize(
    "rows", [[("a", None, 1), ("b", "c", [0, 1]), ("d", None, 0.5)], Paragraphs(["a"], [1], ["q"], ["?"], [None], [[]], [False])]
)  # fmt: skip
def test_batches(tmp_path, rows):
    batch = Batch("train", 3, 40, rows)
    size = store_content(tmp_path / "a.rows", batch)
    assert size == (tmp_path / "a.rows").stat().st_size
    assert read_content(tmp_path / "a.rows", Batch) == batch
    with pytest.raises(DataError, match=r"a.rows is not what this command left there: it holds a Batch. Remove "):
        read_content(tmp_path / "a.rows", Windows)


@pytest.mark.parametrize(
    ("call", "arguments"), [(os.system, ("touch {mark}",)), (eval, ("open({mark!r}, 'w')",)), (np.load, ("{mark}",))]
)
def test_a_planted_file_calls_nothing(tmp_path, call, arguments):
    mark = str(tmp_path / "mark")
    planted = Batch("train", 0, 0, [Planted(call, *(each.format(mark=mark) for each in arguments))])
    (tmp_path / "a.rows").write_bytes(pickle.dumps(planted))
    with pytest.raises(DataError, match=r"it asks for (posix\.system|builtins\.eval|numpy\.load)"):
        read_content(tmp_path / "a.rows", Batch)
    assert not os.path.exists(mark)


@pytest.mark.parametrize("content", [b"", b"\x80\x05", b"no pickle", pickle.dumps(Batch("a", 0, 0, []))[:-5]])
def test_damaged_files(tmp_path, content):
    (tmp_path / "a.rows").write_bytes(content)
    with pytest.raises(DataError, match="is not what this command left there"):
        read_content(tmp_path / "a.rows", Batch)


def test_windows_with_arrays(tmp_path):
    numbers = np.arange(4)
    tokens = Tokens(*[numbers] * len(Tokens.__dataclass_fields__))
    windows = Windows(
        tokens,
        numbers,
        {"context": numbers},
        numbers,
        numbers,
        (numbers,) * 3,
        {"a": numbers},
        np.array([b"x"], object),
    )
    store_content(tmp_path / "a.windows", windows)
    found = read_content(tmp_path / "a.windows", Windows)
    np.testing.assert_array_equal(found.starts["context"], numbers)
    assert found.names[0] == b"x"
