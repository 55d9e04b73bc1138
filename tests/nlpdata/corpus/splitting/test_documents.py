"""Passages to documents: filters, languages, counters that add up; the same however a reader divides the text."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata.corpus.splitting.documents import Document, Sentences, split_documents, tally
from nlpdata.corpus.splitting.filters import count_letters, script_of
from nlpdata.corpus.splitting.languages import SAMPLE
from nlpdata.corpus.splitting.options import SplittingOptions
from nlpdata.corpus.splitting.passages import DOCUMENT, PARAGRAPH, SAME, Notice, Passage

ENGLISH = ["This is the first sentence of a text. It goes on", "with a second one."]
GERMAN = ["Das ist der erste Satz eines deutschen Textes. Am 3. Mai kam Dr. Müller nach Hause."]


def split(items, line_breaks="join", **options):
    """[(sentences, the document)]"""
    made, data = [], b""
    for item in split_documents(items, SplittingOptions(**options), line_breaks):
        if isinstance(item, Sentences):
            data += item.data
        elif isinstance(item, Document):
            made.append((data.decode().splitlines(), item))
            data = b""
    return made


def document(*paragraphs):
    return [Passage(DOCUMENT if i == 0 else PARAGRAPH, lines) for i, lines in enumerate(paragraphs)]


def test_paragraphs_and_line_breaks():
    items = document(["A title"], ["One is here. Two", "is here."], ["Item 3"])
    assert [lines for lines, _ in split(items)] == [["A title", "One is here.", "Two is here.", "Item 3"]]
    (broken,) = split(items, "end")
    assert broken[0] == ["A title", "One is here.", "Two", "is here.", "Item 3"]


def test_what_is_known_of_a_document():
    ((lines, about),) = split(document(["Für 3 Euro. Oder"], ["mehr."]), max_sentence_bytes=16)
    assert lines == ["Für 3 Euro.", "Oder", "mehr."]
    assert (about.sentences, about.characters, about.text_bytes, about.cut) == (3, 20, 21, 0)
    ((lines, about),) = split(document(["eleven letters and more of them"]), max_sentence_bytes=16)
    assert (lines, about.cut) == (["eleven letters", "and more of them"], 1)
    tally(counters := Counter(), about)
    assert (counters["sentences_read"], counters["sentences_cut"], counters["longest_document"]) == (2, 1, 2)


@pytest.mark.parametrize(
    ("options", "left"),
    [
        ({}, [None, None, "no_text"]),
        ({"min_characters": 70}, ["too_short", None, "no_text"]),
        ({"max_characters": 70}, [None, "too_long", "no_text"]),
        ({"scripts": ["Latin"]}, [None, None, "no_text"]),
        ({"scripts": ["Cyrillic", "Greek"]}, ["script", "script", "no_text"]),
        ({"scripts": ["Cyrillic, Greek", "Latin"]}, [None, None, "no_text"]),
        ({"keep_languages": ["en", "fr"]}, [None, "language", "no_text"]),
        ({"keep_languages": ["fr,en"]}, [None, "language", "no_text"]),
        ({"keep_languages": ["de"], "min_characters": 70}, ["too_short", None, "no_text"]),
    ],
)
def test_filters(options, left):
    items = [*document(ENGLISH), *document(GERMAN), *document(["  "])]
    assert [about.left_out for _, about in split(items, **options)] == left


def test_shares_of_scripts():
    items = document(["Латиница and кириллица."])  # 3 of 20 letters are Latin
    for share, left in ((0.15, None), (0.16, "script")):
        ((_, about),) = split(items, scripts=["Latin"], min_script_share=share)
        assert about.left_out == left
    assert [script_of(each) for each in "aÉяא中カか한กิ٣1 "] == [
        *(
            "Latin",
            "Latin",
            "Cyrillic",
            "Hebrew",
            "Han",
            "Katakana",
            "Hiragana",
            "Hangul",
            "Thai",
            "Thai",
            None,
            None,
            None,
        )
    ]
    assert [script_of(each) for each in "Ａﾊー々\u0301"] == ["Latin", "Katakana", "Katakana", "Han", ""]
    assert count_letters("中文 and 3 かな", ("Han", "Hiragana")) == (7, 4)


def test_languages_are_told_document_by_document():
    """The rules of each language hold: "3." ends no German sentence, and "No. 5" none in English."""
    english = ["The answer of the committee was No. 5 in the list of the answers. We agree with that."]
    made = split([*document(english), *document(GERMAN), *document(["?!"])], language="auto")
    assert [about.language for _, about in made][:2] == ["en", "de"]
    assert [len(lines) for lines, _ in made] == [2, 2, 1]


def test_the_language_is_that_of_the_first_characters():
    lines = [" ".join(ENGLISH)] * 16
    assert sum(map(len, lines)) > SAMPLE
    ((_, about),) = split([*document(lines), Passage(PARAGRAPH, GERMAN * 100)], language="auto")
    assert about.language == "en"


WORDS = st.lists(st.sampled_from(["one.", "two", "Three!", "Dr. X", "четыре.", "五。", ""]), max_size=6)
PARAGRAPHS = st.lists(st.lists(WORDS.map(" ".join), min_size=1, max_size=5), min_size=1, max_size=3)


@given(st.lists(PARAGRAPHS, max_size=4), st.sampled_from(["join", "end"]), st.sampled_from(["en", "auto"]), st.data())
@settings(max_examples=40, deadline=None)
def test_division_does_not_matter_and_counters_add_up(documents, line_breaks, language, data):
    options = {"language": language, "min_characters": 12, "max_sentence_bytes": 16, "scripts": ["Latin"]}
    whole = [passage for paragraphs in documents for passage in document(*paragraphs)]
    parts = []
    for begins, lines in whole:
        at = data.draw(st.integers(0, len(lines)))
        parts += [Passage(begins, lines[:at]), Notice(1, {"invalid_utf8": 1}), Passage(SAME, lines[at:])]
    made = split(whole, line_breaks, **options)
    assert split(parts, line_breaks, **options) == made
    counters, sentences = Counter(), 0
    for item in split_documents(parts, SplittingOptions(**options), line_breaks):
        if isinstance(item, Sentences):
            sentences += item.data.count(b"\n")
        else:
            tally(counters, item)
    assert counters["documents_read"] == len(documents)
    assert counters["sentences_read"] == sentences + len(whole)
    for what, count in (("documents", 1), ("sentences", "sentences"), ("bytes", "text_bytes")):
        left = sum(count if count == 1 else getattr(about, count) for _, about in made if about.left_out)
        dropped = {name: n for name, n in counters.items() if name.startswith(f"{what}_dropped/")}
        assert sum(dropped.values()) == left + (len(whole) if what == "sentences" else 0)
