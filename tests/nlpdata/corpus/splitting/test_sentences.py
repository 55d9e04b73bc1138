"""Sentences of paragraphs: where they end, that nothing is lost, and that the division of the lines does not matter."""

import gzip
import random

import pytest
import sentencex
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata.corpus.splitting import sentences
from nlpdata.corpus.splitting.sentences import ParagraphSplitter, cut, join_lines
from tests.shared import shared

# language -> sentences, one after the other in a paragraph
EXAMPLES = {
    "en": [
        "Dr. J. Smith met the U.S. envoy at 3.30 p.m. on Jan. 5.",
        '"Is it true?" she asked.',
        "He said: “We leave at dawn.”",
        "Version 2.0 costs $3.50, e.g. in the shop.",
        "Why not?!",
    ],
    "de": ["Das ist z. B. am 3. Mai geschehen.", "Dr. Müller kam um 8.15 Uhr.", "„Wer ist da?“, fragte er."],
    "zh": ["他说：“你好。”", "我们走吧！", "真的吗？", "好。"],
    "ja": ["これはペンです。", "「本当ですか？」", "はい、そうです。"],
    "ar": ["مرحبا بكم.", "كيف حالك اليوم؟", "أنا بخير!"],
    "hi": ["यह पहला वाक्य है।", "क्या यह दूसरा है?", "हाँ, यह तीसरा है।"],
    "ru": ["Он родился в 1990 г. в Москве.", "Кто там?", "Это я."],
}
UNSPACED = {"zh", "ja"}


def squeezed(text):
    """Text without white space."""
    return "".join(text.split())


def split(text, language="en"):
    splitter = ParagraphSplitter(language)
    return splitter.add([text]) + splitter.end()


@pytest.mark.parametrize("language", EXAMPLES)
def test_examples(language):
    expected = EXAMPLES[language]
    assert split(("" if language in UNSPACED else " ").join(expected), language) == expected


def test_thai_has_no_marks_and_is_cut_at_its_spaces():
    """A paragraph is one sentence for the rules; what is too long is cut between clauses, never inside a word."""
    clauses = ["ผมชอบกินข้าว", "วันนี้อากาศดีมาก", "เราจึงไปเที่ยวกันที่ทะเล", "แล้วกลับบ้านตอนเย็น"] * 5
    (sentence,) = split(" ".join(clauses), "th")
    pieces = cut(sentence, 200)
    assert len(pieces) > 3
    assert all(len(piece.encode()) <= 200 for piece in pieces)
    assert [clause for piece in pieces for clause in piece.split(" ")] == clauses


# On real text, joined again, five lines a paragraph: the ends of sentences that are found are those of the lines.
REAL = {
    "imdb_unsup_dev_3000": ("en", 0.99),
    "debian-handbook.en-US": ("en", 0.985),
    "debian-handbook.zh-CN": ("zh", 0.97),
    "debian-handbook.ja-JP": ("ja", 0.97),
    "debian-handbook.ar-MA": ("ar", 0.97),
    "xquad_contexts.hi": ("hi", 0.985),
}


@pytest.mark.parametrize("name", REAL)
def test_real_text(name):
    language, least = REAL[name]
    with gzip.open(shared("data", "ospl", f"{name}.txt.gz"), "rt", encoding="utf-8") as file:
        lines = [" ".join(line.split()) for line in file.read(400_000).split("\n") if line.strip()]
    complete = [line for line in lines if line[-1] in ".!?。！？।؟"]
    right = found = wanted = 0
    for i in range(0, len(complete), 5):
        paragraph = complete[i : i + 5]
        expected, made = ends(paragraph), ends(split(join_lines(paragraph), language))
        right, found, wanted = right + len(expected & made), found + len(made), wanted + len(expected)
    assert wanted > 500
    assert 2 * right / (found + wanted) >= least


def ends(lines):
    """Where lines end, the last one left out, counted in characters that are not white space."""
    at, found = 0, set()
    for line in lines[:-1]:
        at += len(squeezed(line))
        found.add(at)
    return found


TEXT = st.text(st.sampled_from("ab. ?!\"'\t\u3000。中文กิ\u0301é\U0001f600"), max_size=60)


@given(st.lists(TEXT, max_size=8), st.sampled_from(["en", "zh", "th"]), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_nothing_is_lost_and_the_division_of_lines_does_not_matter(lines, language, rng):
    whole = ParagraphSplitter(language)
    expected = whole.add(lines) + whole.end()
    assert squeezed("".join(expected)) == squeezed("".join(lines))
    assert not any(line != " ".join(line.split()) or not line for line in expected)
    parts, made = ParagraphSplitter(language), []
    at = 0
    while at < len(lines):
        count = rng.randint(0, 3)
        made += parts.add(lines[at : at + count])
        at += count
    assert made + parts.end() == expected


def test_a_long_paragraph_is_split_in_bounded_parts(monkeypatch):
    """With the same sentences, but where one is longer than a part."""
    rng = random.Random(1)
    lines = ["".join(f"Word {rng.randint(1, 99)} is here. " for _ in range(rng.randint(1, 9))) for _ in range(400)]
    seen = []
    segment = sentencex.segment
    monkeypatch.setattr(sentencex, "segment", lambda *given: seen.append(len(given[1])) or segment(*given))
    expected = split(" ".join(lines))
    monkeypatch.setattr(sentences, "AT_ONCE", 300)
    seen.clear()
    splitter = ParagraphSplitter("en")
    made = [sentence for line in lines for sentence in splitter.add([line])] + splitter.end()
    assert made == expected
    assert len(made) > 1000
    assert max(seen) <= 300


@pytest.mark.parametrize("text", ["x" * 5000, "é" * 5000, "กิ" * 3000, "word " * 1000 + "x" * 3000])
def test_a_paragraph_without_ends_is_split_all_the_same(text, monkeypatch):
    monkeypatch.setattr(sentences, "AT_ONCE", 300)
    made = split(text)
    assert squeezed("".join(made)) == squeezed(text)
    assert max(map(len, made)) <= 300


@given(st.text(st.sampled_from("ab \u0e01\u0e34\u0301é\U0001f600"), min_size=1, max_size=200), st.integers(16, 64))
@settings(max_examples=100, deadline=None)
def test_cut(text, most):
    sentence = " ".join(text.split())
    pieces = cut(sentence, most)
    assert all(len(piece.encode()) <= most for piece in pieces)
    assert "".join(pieces).replace(" ", "") == sentence.replace(" ", "")
    assert all(pieces) or not sentence
    if len(sentence.encode()) <= most:
        assert pieces == [sentence]


def test_cut_keeps_words_and_marks():
    assert cut("one two three four", 16) == ["one two three", "four"]
    assert cut("sixteen letters.", 16) == ["sixteen letters."]
    assert cut("sixteen letters. and", 16) == ["sixteen letters.", "and"]
    letter = "e\u0301"  # three bytes
    assert cut(letter * 10, 16) == [letter * 5, letter * 5]
    assert cut("x" + letter * 10, 17) == ["x" + letter * 5, letter * 5]
    assert all(not piece.startswith("\u0301") for piece in cut("xx" + letter * 20, 16))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["one", "two"], "one two"),
        (["中文", "文字"], "中文文字"),
        (["中文", "ascii"], "中文 ascii"),
        (["สวัสดี", "ครับ"], "สวัสดีครับ"),
        (["한국어", "문장"], "한국어 문장"),
        (["é ", "", " b"], "é b"),
        (["中 ", " 文"], "中文"),
    ],
)
def test_lines_are_joined_as_the_script_has_it(lines, expected):
    assert join_lines(lines) == expected
