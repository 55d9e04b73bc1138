"""Signatures estimate how much two documents share; the first of similar ones stays."""

import random

import numpy as np
import pytest

from nlpdata.corpus.splitting import similar
from nlpdata.corpus.splitting.similar import PERMUTATIONS, Signatures, find_similar, hashes_of_runs, words_of


def signature(*texts):
    made = Signatures()
    for text in texts:
        made.add(f"{text}\n".encode())
    return made.end()


def alike(first, second):
    return (first == second).mean()


def test_words():
    assert words_of("Don't STOP, 3.5 x!\nÄpfel") == ["don", "t", "stop", "3", "5", "x", "äpfel"]
    assert words_of("中文。 words かな") == ["中", "文", "words", "か", "な"]
    assert words_of("한국어 문장") == ["한국어", "문장"]


def test_runs():
    words = ["a", "b", "a", "b", "a", "c"]
    runs = hashes_of_runs(words, 2)
    assert len(runs) == len({("a", "b"), ("b", "a"), ("a", "c")})
    assert np.array_equal(runs, np.unique(np.concatenate([hashes_of_runs(words[:3], 2), hashes_of_runs(words[2:], 2)])))
    assert not set(runs.tolist()) & set(hashes_of_runs(["b", "c", "c", "a"], 2).tolist())
    assert runs.max() < 1 << 32


@pytest.mark.parametrize("changed", [0, 3, 12, 60, 300])
def test_signatures_estimate_the_share_of_common_runs(changed):
    rng = random.Random(changed)
    first = [f"w{rng.randrange(5000)}" for _ in range(600)]
    second = list(first)
    for at in rng.sample(range(600), changed):
        second[at] = f"x{at}"
    runs = [{tuple(words[i : i + 5]) for i in range(596)} for words in (first, second)]
    expected = len(runs[0] & runs[1]) / len(runs[0] | runs[1])
    assert (
        abs(alike(signature(" ".join(first)), signature(" ".join(second))) - expected) < 0.13
    )  # three standard deviations


def test_how_a_document_comes_does_not_matter(monkeypatch):
    sentences = [f"Sentence number {i} has some words, as others have." for i in range(50)]
    whole = signature("\n".join(sentences))
    assert np.array_equal(signature(*sentences), whole)
    monkeypatch.setattr(similar, "_MANY_WORDS", 20)
    assert np.array_equal(signature(*sentences), whole)


def test_short_documents():
    """One of fewer words than a run is alike only to its equal."""
    assert alike(signature("Two words"), signature("two words.")) == 1
    assert alike(signature("Two words"), signature("Two more")) < 0.1
    assert alike(signature("Two words"), signature("Two words and three more")) < 0.1
    made = Signatures()
    made.add(b"Something else before, which is long enough.\n")
    made.end()
    made.add(b"Two words\n")
    assert np.array_equal(made.end(), signature("Two words"))


def test_the_first_one_stays():
    rng = np.random.default_rng(0)
    first, other = rng.integers(0, 1 << 32, (2, PERMUTATIONS)).astype(np.uint32)
    near = np.where(np.arange(PERMUTATIONS) < 110, first, other)  # 0.86
    further = np.where(np.arange(PERMUTATIONS) < 70, first, other)  # 0.55 of the first, 0.45 of the other
    documents = [first, other, near, further, first]
    assert list(find_similar(documents, 0.8)) == [False, False, True, False, True]
    assert list(find_similar(documents, 0.5)) == [False, False, True, True, True]
    assert list(find_similar(documents, 0.9)) == [False, False, False, False, True]
