"""Shards join slices of parts: all records in their order, of nearly equal numbers or sizes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata.errors import DataError
from nlpdata.output.joining import Shard, plan_shards, write_shard


def parts_of(folder, sizes):
    """Parts whose records are letters, each part one; (file, lengths) of each."""
    parts = []
    for i, lengths in enumerate(sizes):
        (folder / f"part-{i}").write_bytes(b"".join(bytes([97 + j % 26]) * size for j, size in enumerate(lengths)))
        parts.append((f"part-{i}", np.array(lengths, np.int64)))
    return parts


@given(st.lists(st.lists(st.integers(1, 9), max_size=6), min_size=1, max_size=4), st.integers(1, 5), st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_record_once_in_order(tmp_path_factory, sizes, count, by_bytes):
    folder = tmp_path_factory.mktemp("parts")
    parts = parts_of(folder, sizes)
    shards = plan_shards([f"shard-{i}" for i in range(count)], parts, by_bytes)
    infos = [write_shard(folder, shard, "none", lambda done: None) for shard in shards]
    made = [(folder / info["file"]).read_bytes() for info in infos]
    assert b"".join(made) == b"".join((folder / file).read_bytes() for file, _ in parts)
    records, total = [info["records"] for info in infos], sum(map(len, sizes))
    assert sum(records) == total
    assert [shard.size for shard in shards] == [info["bytes"] for info in infos] == list(map(len, made))
    if by_bytes:  # a border is at most one record away from where it should be
        ends = np.cumsum([len(each) for each in made])
        assert all(abs(end - (i + 1) * ends[-1] // count) <= 9 for i, end in enumerate(ends))
    else:
        assert max(records) - min(records) <= 1


@pytest.mark.parametrize(
    ("sizes", "expected"), [([[5, 5], [5, 5]], [10, 10]), ([[9, 1, 1], [1]], [9, 3]), ([[1, 1, 9]], [11, 0])]
)
def test_a_shard_ends_with_the_record_that_reaches_its_size(tmp_path, sizes, expected):
    assert [shard.size for shard in plan_shards(["a", "b"], parts_of(tmp_path, sizes), True)] == expected


def test_without_the_last_bytes(tmp_path):
    (shard,) = plan_shards(["x"], parts_of(tmp_path, [[3, 4], [2]]))
    info = write_shard(tmp_path, shard.without_last(1), "none", lambda done: None)
    assert (tmp_path / "x").read_bytes() == b"aaabbbba"
    assert (info["records"], info["bytes"]) == (3, 8)
    assert Shard("empty", ()).without_last(1).size == 0


def test_a_part_that_is_cut_off(tmp_path):
    (shard,) = plan_shards(["x"], parts_of(tmp_path, [[3, 4]]))
    (tmp_path / "part-0").write_bytes(b"aaab")
    with pytest.raises(DataError, match="part-0 is damaged: it ends at byte 4"):
        write_shard(tmp_path, shard, "none", lambda done: None)
    assert not (tmp_path / "x").exists()
