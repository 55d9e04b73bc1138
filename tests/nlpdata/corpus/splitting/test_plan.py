"""Counters of all units together, and what is said of them."""

import pytest

from nlpdata.corpus.splitting.options import SplittingOptions
from nlpdata.corpus.splitting.plan import LONG_DOCUMENT, require_documents, result_warnings, totals
from nlpdata.errors import DataError

PARTS = [{"documents": 2, "sentences": 5, "bytes": 57}, {"documents": 0, "sentences": 0, "bytes": 0}]
SPLIT = [
    {"documents_read": 3, "sentences_read": 7, "bytes_read": 60, "sentences_cut": 1, "longest_document": 4}
    | {"documents_dropped/too_short": 1, "sentences_dropped/too_short": 1, "bytes_dropped/too_short": 6},
    {"sentences_cut": 2, "longest_document": 3},
]
DROPPED = [{"sentences_dropped/equal_line": 1, "bytes_dropped/equal_line": 4}]


def test_totals():
    assert totals(PARTS, SPLIT, DROPPED) == {
        "documents": {"read": 3, "written": 2, "dropped": {"too_short": 1}},
        "sentences": {"read": 7, "written": 5, "dropped": {"equal_line": 1, "too_short": 1}},
        "bytes": {"read": 60, "written": 50, "dropped": {"equal_line": 4, "too_short": 6}},
        "sentences_cut": 3,
        "longest_document": 4,
    }


@pytest.mark.parametrize(
    ("parts", "split", "dropped", "what"),
    [
        (PARTS[1:], SPLIT, DROPPED, "of 3 documents 0 are written and 1 left out"),
        (PARTS[:1] * 2, SPLIT, DROPPED, "of 3 documents 4 are written and 1 left out"),
        (PARTS, SPLIT, [], "of 7 sentences 5 are written and 1 left out"),
    ],
)
def test_work_that_a_runner_lost_or_repeated(parts, split, dropped, what):
    with pytest.raises(DataError, match=f"the runner lost or repeated data: {what}"):
        totals(parts, split, dropped)


def test_warnings():
    counters = totals(PARTS, SPLIT, DROPPED)
    (cut,) = result_warnings(counters, SplittingOptions(max_sentence_bytes=64))
    assert cut.startswith(
        "3 sentences were longer than 64 bytes, and were cut. Is language='en' the language of the text"
    )
    long = counters | {"sentences_cut": 0, "longest_document": LONG_DOCUMENT + 1}
    (longest,) = result_warnings(long, SplittingOptions())
    assert longest.startswith("the longest document has 10,001 sentences.")
    assert not result_warnings(long, SplittingOptions(documents="line"))


def test_nothing_left():
    counters = totals(
        [],
        [
            SPLIT[0]
            | {"documents_dropped/too_short": 3, "sentences_dropped/too_short": 7, "bytes_dropped/too_short": 60}
        ],
        [],
    )
    with pytest.raises(DataError, match=r"no document is left of 3\. Left out: 3 too short$"):
        require_documents(counters, 1)
    with pytest.raises(DataError, match=r"the input \(2 files\) holds no text"):
        require_documents(totals([], [], []), 2)
