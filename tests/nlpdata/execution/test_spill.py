"""Spilled runs and their merge, against sorting in memory."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlpdata.execution.spill import Merge, SpillWriter

TOP = (1 << 64) - 1

sort_keys = st.integers(0, TOP) | st.sampled_from([0, 1, 1 << 63, TOP - 1, TOP])
entries = st.tuples(sort_keys, st.tuples(*[st.sampled_from([0, 1, TOP])] * 3), st.binary(max_size=12))
batches = st.lists(st.lists(entries, max_size=8), max_size=8)


def write(prefix, batches, buffer_bytes):
    writer = SpillWriter(prefix, buffer_bytes)
    for batch in batches:
        writer.add(
            np.array([key for key, _, _ in batch], np.uint64),
            np.array([tie for _, tie, _ in batch], np.uint64).reshape(-1, 3),
            b"".join(payload for _, _, payload in batch),
            np.array([len(payload) for _, _, payload in batch], np.int64),
        )
    writer.flush()
    return writer.runs


def read(merge, *arguments):
    found = []
    for keys, ties, lengths, payload in merge.read(*arguments):
        ends = np.cumsum(lengths).tolist()
        assert len(payload) == (ends[-1] if ends else 0)
        found += [
            (key, tuple(tie), bytes(payload[end - length : end]))
            for key, tie, length, end in zip(keys.tolist(), ties.tolist(), lengths.tolist(), ends, strict=True)
        ]
    return found


def in_order(entries):
    return sorted(entries, key=lambda entry: entry[:2])


def unique(batches):
    """One entry a (key, tie): what the core promises, and what makes the order unique."""
    seen = set()
    return [[e for e in batch if e[:2] not in seen and not seen.add(e[:2])] for batch in batches]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(batches, st.sampled_from([1, 20, 1 << 20]), st.sampled_from([1, 10, 1 << 20]), st.lists(sort_keys, max_size=4))
def test_merge_is_sorting(tmp_path_factory, batches, buffer_bytes, merge_bytes, borders):
    batches = unique(batches)
    folder = tmp_path_factory.mktemp("spill")
    runs = write(folder / "run", batches, buffer_bytes)
    expected = in_order(entry for batch in batches for entry in batch)
    merge = Merge(runs)
    assert merge.count == len(expected)
    assert merge.bytes == sum(len(payload) for _, _, payload in expected)
    assert read(merge, 0, 1 << 64, merge_bytes) == expected
    borders = sorted({0, *borders, 1 << 64})
    in_ranges = []
    for low, high in itertools.pairwise(borders):
        part = read(merge, low, high, merge_bytes)
        assert all(low <= key < high for key, _, _ in part)
        in_ranges += part
    assert in_ranges == expected
    slots = [key >> 60 for key, tie, _ in expected if tie[2] == 0]
    assert merge.histogram(60) == {slot: slots.count(slot) for slot in sorted(set(slots))}
    assert sorted(path.name for path in folder.iterdir()) == sorted(path.rsplit("/", 1)[1] for path in runs)


def test_many_runs_and_equal_keys(tmp_path):
    rng = np.random.default_rng(1)
    batches = [
        [(int(rng.integers(0, 40)) << 58, (i, j, 7), bytes(rng.integers(0, 256, 30, np.uint8))) for j in range(20)]
        for i in range(50)
    ]
    runs = write(tmp_path / "run", batches[::-1], 100)
    assert len(runs) == 50
    expected = in_order(entry for batch in batches for entry in batch)
    for merge_bytes in (1000, 1 << 30):
        assert read(Merge(runs), 0, 1 << 64, merge_bytes) == expected


def test_pieces_are_small(tmp_path):
    """A read holds about merge_bytes at a time, whatever the size of the whole."""
    rng = np.random.default_rng(2)
    batches = [
        [(int(key), (i, 0, j), b"x" * 100) for j, key in enumerate(rng.integers(0, TOP, 200, np.uint64))]
        for i in range(20)
    ]
    merge = Merge(write(tmp_path / "run", batches, 50_000))
    sizes = [len(payload) for *_, payload in merge.read(merge_bytes=20_000)]
    assert sum(sizes) == 400_000
    assert max(sizes) < 30_000
    one_key = [[(7, (i, 0, j), b"x" * 100) for j in range(200)] for i in range(20)]
    merge = Merge(write(tmp_path / "one", one_key[::-1], 50_000))
    assert [len(payload) for *_, payload in merge.read(merge_bytes=20_000)] == [20_000] * 20
    assert read(merge, 0, 8, 20_000) == in_order(entry for batch in one_key for entry in batch)
    assert merge.histogram(0) == {7: 20}  # of what is in parts, the first ones


@pytest.mark.bound(60)
def test_later_pieces_are_as_large_as_the_first(tmp_path):
    """Of a range in the middle, what comes before it must not count: smaller pieces mean more reads."""
    rng = np.random.default_rng(5)
    batches = [
        [(int(key), (i, 0, j), b"x" * 100) for j, key in enumerate(rng.integers(0, TOP, 200, np.uint64))]
        for i in range(20)
    ]
    merge = Merge(write(tmp_path / "run", batches, 50_000))  # 8 runs of 500 records

    def sizes(*arguments, how=merge.read):
        return [len(payload) for *_, payload in how(*arguments)]

    whole = sizes(0, 1 << 64, 20_000)
    assert len(whole) == 20
    assert min(whole) > 14_000
    quarters = [sizes(i << 62, i + 1 << 62, 20_000) for i in range(4)]
    assert [len(quarter) in (5, 6) for quarter in quarters] == [True] * 4
    assert sum(map(sum, quarters)) == sum(whole) == 400_000
    for i in range(4):
        scanned = sizes(i << 62, i + 1 << 62, 20_000, how=merge.scan)
        assert sum(scanned) == sum(quarters[i])
        assert min(scanned[:-1]) >= 20_000
        assert max(scanned) < 35_000
        assert sizes(i << 62, i + 1 << 62, 5000, how=merge.scan)[0] == 5000  # of its run's 12,500 bytes there


def test_empty(tmp_path):
    assert write(tmp_path / "run", [], 10) == []
    runs = write(tmp_path / "run", [[]], 10)
    for merge in (Merge([]), Merge(runs)):
        assert (merge.count, merge.bytes, read(merge), merge.histogram(4)) == (0, 0, [], {})


def test_empty_records(tmp_path):
    runs = write(tmp_path / "run", [[(2, (0, 0, 0), b""), (1, (0, 0, 0), b"")]], 10)
    assert read(Merge(runs)) == [(1, (0, 0, 0), b""), (2, (0, 0, 0), b"")]


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data + b"x", lambda data: b"\0" + data[1:]])
def test_damaged_run(tmp_path, damage):
    (run,) = write(tmp_path / "run", [[(2, (0, 0, 0), b"abc")]], 10)
    content = Path(run).read_bytes()
    Path(run).write_bytes(damage(content))
    with pytest.raises(OSError, match="is damaged"):
        Merge([run])
