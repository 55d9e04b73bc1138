"""Keys and draws. The golden values are part of the output's bytes: they never change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlpdata import keys

uint64 = st.integers(0, (1 << 64) - 1)


def splitmix64(state: int, count: int) -> list[int]:
    """The published generator (Steele, Lea, Flood), one value at a time."""
    mask, values = (1 << 64) - 1, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        values.append(z ^ (z >> 31))
    return values


def test_golden_values():
    # The first outputs of SplitMix64 seeded with 0 and 1234567, as published with many implementations.
    assert keys.draw(0, np.arange(3)).tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert keys.draw(1234567, np.arange(3)).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]
    assert keys.fold_int(keys.ROOT, 12345) == 0xEDF4295392D42DD5
    assert keys.hash_bytes(b"wiki.txt") == 0x5305CEA59ED5334


def test_purposes_are_fixed():
    assert {purpose.name: purpose.value for purpose in keys.Purpose} == {
        "EVAL_SPLIT": 1,
        "WEIGHT": 2,
        "BUCKET": 3,
        "SHORT_SEQUENCE": 10,
        "PAIR": 11,
        "CANDIDATE": 12,
        "ORDER": 20,
        "SPLIT": 21,
        "SWAP": 22,
        "TRUNCATE_A": 23,
        "TRUNCATE_B": 24,
        "OTHER_DOCUMENT": 25,
        "OTHER_START": 26,
        "MASKING": 27,
        "MASK_ORDER": 30,
        "MASK_REPLACE": 31,
    }


@given(uint64, st.integers(0, 50))
def test_draws_are_splitmix64(key, count):
    assert keys.draw(key, np.arange(count)).tolist() == splitmix64(key, count)


@given(uint64, uint64)
def test_python_ints_equal_arrays(key, element):
    assert keys.draw_int(key, element) == int(keys.draw(key, element))
    assert keys.fold_int(key, element) == int(keys.fold(key, element))
    assert keys.fold_int(key, element) == splitmix64_at(splitmix64_at(key, 0), element)


def splitmix64_at(key: int, counter: int) -> int:
    return splitmix64((key + counter * 0x9E3779B97F4A7C15) & ((1 << 64) - 1), 1)[0]


def test_broadcast():
    own = np.array([3, 1 << 63], np.uint64)
    table = keys.fold(own[:, None], np.arange(4))
    assert table.shape == (2, 4)
    assert table.dtype == np.uint64
    assert table.tolist() == [[keys.fold_int(int(key), i) for i in range(4)] for key in own]
    assert keys.draw(5, 6).shape == ()
    assert own.tolist() == [3, 1 << 63]  # unchanged


@given(uint64, st.integers(1, (1 << 32) - 1))
def test_below_is_in_range(draw, n):
    value = int(keys.below(np.array([draw], np.uint64), n)[0])
    assert value == (draw >> 32) * n >> 32
    assert 0 <= value < n


def test_below_ends():
    extremes = np.array([0, (1 << 64) - 1], np.uint64)
    assert keys.below(extremes, 1).tolist() == [0, 0]
    assert keys.below(extremes, (1 << 32) - 1).tolist() == [0, (1 << 32) - 2]
    assert keys.below(extremes, np.array([7, 9])).tolist() == [0, 8]
    assert keys.below(extremes, 7).dtype == np.int64


@pytest.mark.parametrize("n", [2, 3, 10, 97])
def test_below_is_uniform(n):
    counts = np.bincount(keys.below(keys.draw(keys.ROOT, np.arange(100_000)), n), minlength=n)
    chi = ((counts - 100_000 / n) ** 2 / (100_000 / n)).sum()
    assert abs(chi - (n - 1)) < 4.5 * (2 * (n - 1)) ** 0.5


def test_different_tuples_have_different_keys():
    table = keys.fold(keys.fold(keys.ROOT, np.arange(300))[:, None], np.arange(300))
    assert len(np.unique(table)) == 300 * 300
    assert len(np.unique(keys.draw(table, 1))) == 300 * 300
