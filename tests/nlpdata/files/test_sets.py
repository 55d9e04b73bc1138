"""Names in a set of files."""

import pytest

from nlpdata.errors import DataError
from nlpdata.files.paths import path_of
from nlpdata.files.sets import marker_of, refuse_marked, shards_of, split_shard, without_shard


def test_shards():
    assert shards_of("x.txt", 1) == ["x.txt"]
    assert shards_of("x.txt", 2) == ["x.txt-00000-of-00002", "x.txt-00001-of-00002"]
    assert [split_shard(f"a/{name}") for name in shards_of("x.txt", 2)] == [
        (path_of("a/x.txt"), i, 2) for i in range(2)
    ]
    assert split_shard("a/x.tfrecord-00001-of-00002")[1:] == (1, 2)
    assert split_shard("a/x-1-of-2") == (path_of("a/x-1-of-2"), 0, 1)
    assert without_shard("a/x.txt-00001-of-00002") == "a/x.txt"
    assert without_shard("x.txt-0001-of-00002") == "x.txt-0001-of-00002"


def test_the_marker_of_a_set(tmp_path):
    marker = marker_of(tmp_path / "x.y")
    assert marker == tmp_path / ".x.y.committing"
    refuse_marked(marker, "x.y.txt: this set")
    marker.touch()
    with pytest.raises(DataError, match=r"x\.y\.txt: this set is being replaced, or its replacement was interrupted"):
        refuse_marked(marker, "x.y.txt: this set")
