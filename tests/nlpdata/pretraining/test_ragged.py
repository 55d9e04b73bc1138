"""Rows of ragged columns as bytes."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nlpdata.pretraining.ragged import Ragged, copy_slices, pack_rows, unpack_rows


@given(st.data(), st.integers(1, 6), st.lists(st.sampled_from(["uint16", "uint32", "int32"]), min_size=1, max_size=4))
def test_rows_survive_packing(data, n, dtypes):
    """Any slices of any arrays; every row alone is what it is among others."""
    columns, expected = [], []
    for dtype in dtypes:
        values = np.array(data.draw(st.lists(st.integers(0, np.iinfo(dtype).max), min_size=1, max_size=20)))
        starts = np.array(data.draw(st.lists(st.integers(0, len(values)), min_size=n, max_size=n)))
        counts = np.array([data.draw(st.integers(0, len(values) - start)) for start in starts.tolist()])
        columns.append(Ragged(values, starts, counts))
        expected.append([values[s : s + c].tolist() for s, c in zip(starts, counts, strict=True)])
    payload, lengths = pack_rows(columns, dtypes)
    assert lengths.sum() == len(payload)
    ends = np.cumsum(lengths)
    for column, rows, dtype in zip(unpack_rows(payload, lengths, dtypes), expected, dtypes, strict=True):
        assert column.values.dtype == dtype
        assert [column.values[s : s + c].tolist() for s, c in zip(column.starts, column.counts, strict=True)] == rows
    for i in range(n):
        alone = unpack_rows(payload[ends[i] - lengths[i] : ends[i]], lengths[i : i + 1], dtypes)
        assert [column.values.tolist() for column in alone] == [rows[i] for rows in expected]


def test_layout():
    column = Ragged(np.array([7, 8, 9]), np.array([1, 0]), np.array([2, 0]))
    payload, lengths = pack_rows([column, Ragged.joined(np.array([70_000, 1]), np.ones(2, int))], ["uint16", "uint32"])
    assert lengths.tolist() == [8 + 4 + 4, 8 + 0 + 4]
    assert payload == b"".join(
        [
            np.array([2, 1], "<u4").tobytes() + np.array([8, 9], "<u2").tobytes() + np.array([70_000], "<u4").tobytes(),
            np.array([0, 1, 1], "<u4").tobytes(),
        ]
    )


def test_copy_slices():
    target = np.zeros((2, 4), np.int32)
    copy_slices(np.arange(10), np.array([3, 0, 8]), np.array([2, 0, 1]), target, np.array([1, 5, 7]))
    assert target.tolist() == [[0, 3, 4, 0], [0, 0, 0, 8]]
