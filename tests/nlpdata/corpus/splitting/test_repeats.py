"""Equal things are found as a plain loop over all of them finds them, whatever the files and ranges."""

from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata.corpus.splitting import repeats
from nlpdata.corpus.splitting.repeats import KeyWriter


def digest(value):
    return blake2b(str(value).encode(), digest_size=16).digest()


def plainly(units):
    """(unit, number) of everything that occurred before; None is like nothing."""
    seen, found = set(), []
    for unit, values in enumerate(units):
        for number, value in enumerate(values):
            if value is not None and value in seen:
                found.append((unit, number))
            seen.add(value)
    return found


def by_files(folder, units, key=digest):
    files = []
    for unit, values in enumerate(units):
        writer = KeyWriter(folder, f"unit-{unit}")
        for value in values:
            if value is None:
                writer.skip()
            else:
                writer.add(key(value))
        files += [(unit, name) for name in writer.finish()]
    found = [(unit, number) for unit, name in files for number in repeats.own_repeats(folder, name).tolist()]
    ranges = repeats.plan_ranges(folder, [name for _, name in files])
    for number, slots in enumerate(ranges):
        units_of, numbers = repeats.find_repeats(folder, files, slots)
        path = folder / f"{number}.numbers"
        repeats.write_numbers(path, units_of, numbers, len(units))
        for unit in range(len(units)):
            read = repeats.read_numbers(path, unit).tolist()
            assert read == sorted(read)
            found += [(unit, each) for each in read]
    return sorted(found), len(files), len(ranges)


VALUES = st.lists(st.lists(st.one_of(st.none(), st.integers(0, 12)), max_size=15), min_size=1, max_size=5)


@given(VALUES)
@settings(max_examples=60, deadline=None)
def test_the_first_one_stays(tmp_path_factory, units):
    found, _, _ = by_files(tmp_path_factory.mktemp("keys"), units)
    assert found == plainly(units)


def test_several_files_of_a_unit_and_several_ranges(tmp_path, monkeypatch):
    monkeypatch.setattr(repeats, "_FILE_ROWS", 50)
    monkeypatch.setattr(repeats, "RANGE_ROWS", 100)
    rng = np.random.default_rng(0)
    units = [rng.integers(0, 400, 333).tolist() for _ in range(4)]
    found, files, ranges = by_files(tmp_path, units)
    assert found == plainly(units)
    assert (files, ranges > 3) == (4 * 7, True)


def test_hashes_that_agree_in_one_half_are_different(tmp_path):
    halves = {0: b"a" * 8 + b"b" * 8, 1: b"a" * 8 + b"c" * 8, 2: b"d" * 8 + b"b" * 8}
    units = [[0, 1], [2, 0], [1]]
    assert by_files(tmp_path, units, halves.get)[0] == [(1, 1), (2, 0)]


def test_a_file_has_each_hash_once(tmp_path):
    """So a range stays bounded where a line occurs a million times."""
    writer = KeyWriter(tmp_path, "unit")
    for _ in range(1000):
        writer.add(digest("the same"))
    (name,) = writer.finish()
    assert (tmp_path / name).stat().st_size == 3 * 8 + (repeats.SLOTS + 1) * 8 + 24 + 999 * 8
    units, _ = repeats.find_repeats(tmp_path, [(0, name)], (0, repeats.SLOTS))
    assert not len(units)


@pytest.mark.parametrize("read", [repeats.own_repeats, lambda folder, name: repeats.read_numbers(folder / name, 0)])
def test_a_damaged_file_is_refused(read, tmp_path):
    (tmp_path / "x").write_bytes(b"\1" * 20_000)
    with pytest.raises(OSError, match="x is damaged: it does not begin as"):
        read(tmp_path, "x")
