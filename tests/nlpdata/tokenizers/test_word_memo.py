"""The memo of words: bounded, and nothing of it shows."""

import numpy as np
import pytest

from nlpdata.text.bert import SEPARATOR
from nlpdata.tokenizers.word_memo import WordMemo


class Compute:
    """A word's ids are its characters; counts the words it is asked for."""

    def __init__(self):
        self.asked = []

    def __call__(self, words):
        self.asked += words
        return np.array([ord(c) for word in words for c in word], np.int32), np.array([len(w) for w in words], np.int64)


def test_ids_and_lengths_of_groups():
    memo = WordMemo(Compute(), 100)
    for _ in range(2):
        ids, lengths = memo.encode(["ab", "c", SEPARATOR, SEPARATOR, "ab"])
        assert ids.tolist() == [97, 98, 99, 97, 98]
        assert lengths.tolist() == [3, 0, 2]
        assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)
    ids, lengths = memo.encode([])
    assert (ids.tolist(), lengths.tolist()) == ([], [0])


def test_a_word_is_computed_once():
    compute = Compute()
    memo = WordMemo(compute, 100)
    memo.encode(["a", "b", "a"])
    memo.encode(["b", "c", SEPARATOR])
    assert compute.asked == ["a", "b", "c"]
    assert len(memo) == 3


def test_bounded_by_words_and_keeps_the_oldest():
    compute = Compute()
    memo = WordMemo(compute, 80, 100_000)
    for i in range(1000):
        ids, _ = memo.encode([f"{i:04}", "0001", "0000"])
        assert ids.tolist() == [ord(c) for c in f"{i:04}00010000"]
        assert len(memo) <= 80
        assert len(memo._bounds) == len(memo) + 2
        assert len(memo._ids) == memo._bounds[-1] == 1 + 4 * len(memo)
    assert compute.asked.count("0001") == 1


def test_bounded_by_characters():
    memo = WordMemo(Compute(), 1000, 1000)
    for i in range(100):
        ids, _ = memo.encode([f"{i:099}"])
        assert ids.size == 99
        assert memo._characters <= 1000
        assert len(memo._ids) <= 1001


def test_a_failure_leaves_no_word_without_ids():
    class Failing(Compute):
        def __call__(self, words):
            if "bad" in words:
                raise MemoryError
            return super().__call__(words)

    memo = WordMemo(Failing(), 100)
    memo.encode(["good"])
    with pytest.raises(MemoryError):
        memo.encode(["new", "bad"])
    ids, _ = memo.encode(["new", "good"])
    assert ids.tolist() == [ord(c) for c in "newgood"]
