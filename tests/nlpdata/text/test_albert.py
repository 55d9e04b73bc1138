"""ALBERT normalisation: equal to its one-line definition on any text, and to the original code's recorded output."""

import json
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata.text.albert import normalize_lines
from tests.shared import shared

# Every way a character can be awkward: whitespace of all kinds, marks, expansions, sigmas, surrogates, beyond U+FFFF.
AWKWARD = list(
    "  \n\t\r\x0b\x0c\x1c\x1f\x85\xa0\u1680\u2028\u2029\u3000\u200b\ufeff\0`'``'Aaé\u0301\u0327\u0345Σσς\U0001d6baİIiı"
    "ßẞﬁ…½¨\u0385한가ㄱﷺ\ud800\udc00𝔸😀\u200d\ufe0fǅ\u1fbcパｶﾞ१\u0e33\U0001d15e\U00010400"
)
characters = st.one_of(st.characters(), st.sampled_from(AWKWARD))


def normalize_line(line, do_lower_case=True, keep_accents=False):
    """The definition: `preprocess_text`, step by step."""
    line = " ".join(line.strip().split())
    line = line.replace("``", '"').replace("''", '"')
    if not keep_accents:
        line = "".join(c for c in unicodedata.normalize("NFKD", line) if not unicodedata.combining(c))
    return line.lower() if do_lower_case else line


def by_definition(lines, **options):
    return [normalize_line(line, **options) for line in lines]


@given(st.lists(st.text(characters, max_size=14), max_size=8), st.booleans(), st.booleans())
@settings(max_examples=500)
def test_blocks_equal_the_definition(lines, do_lower_case, keep_accents):
    options = {"do_lower_case": do_lower_case, "keep_accents": keep_accents}
    assert normalize_lines(lines, **options) == by_definition(lines, **options)


@pytest.mark.parametrize("do_lower_case", [True, False])
@pytest.mark.parametrize("lines_in_block", [1 << 21, 64])
def test_every_character(do_lower_case, lines_in_block):
    # In small blocks too: what else stands in a block decides about the road that it takes.
    lines = [f"a{chr(c)}B {chr(c)}" for c in range(0x30000 if lines_in_block > 64 else 0x10000)]
    for start in range(0, len(lines), lines_in_block):
        block = lines[start : start + lines_in_block]
        assert normalize_lines(block, do_lower_case=do_lower_case) == by_definition(block, do_lower_case=do_lower_case)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("  two  words\t here ", "two words here"),
        ("``quoted'' '' ```", '"quoted" " "`'),
        ("パンダ", "ハンタ"),
        ("한국", unicodedata.normalize("NFD", "한국")),
        ("Müller", "muller"),
        ("ﬁne ½", "fine 1⁄2"),
        ("\u0301", ""),
        ("a\x85b\u2028c\xa0d\u3000e\x1cf", "a b c d e f"),
        ("\ufeffBOM a\u200bb", "\ufeffbom a\u200bb"),
        ("¨", " "),  # NFKD's own space stays
        ("ΟΔΟΣ ΣΑΣ", "οδος σας"),
        ("", ""),
    ],
)
def test_examples(line, expected):
    assert normalize_line(line) == expected
    assert normalize_lines([line, "x", line]) == [expected, "x", expected]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_keep_accents(form):
    text = unicodedata.normalize(form, "  Ünë  パンダ ")
    assert normalize_lines([text], keep_accents=True) == [unicodedata.normalize(form, "ünë パンダ")]
    assert normalize_lines([text], do_lower_case=False, keep_accents=True) == [
        unicodedata.normalize(form, "Ünë パンダ")
    ]


def test_sigma_sees_its_own_line_only():
    assert normalize_lines(["ΑΣ", "Α", "Σ", "é"]) == ["ας", "α", "σ", "e"]


def test_line_feed_inside_a_line_is_whitespace():
    assert normalize_lines(["a\nb", "c"]) == ["a b", "c"]
    assert normalize_lines(["é\n b", "c", "\n"]) == ["e b", "c", ""]


def test_sequences_and_nothing():
    assert normalize_lines([]) == []
    assert normalize_lines(("A", "É")) == ["a", "e"]


# The recorded code, google-research/albert b772393, has no quotation mark rule; kamalkraj/ALBERT-TF2.0 has one.
ORACLE_DEVIATIONS = {27: "quotation marks", 28: "quotation marks"}


@pytest.mark.parametrize("do_lower_case", [True, False])
def test_oracle(do_lower_case):
    with open(shared("oracle", "tokenization", "albert_spm.jsonl"), encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    texts = [row["text"] for row in rows]
    expected = [row[f"cased/lower={do_lower_case}"]["preprocessed"] for row in rows]
    for given_lines in (
        normalize_lines(texts, do_lower_case=do_lower_case),
        by_definition(texts, do_lower_case=do_lower_case),
    ):
        different = [r["id"] for r, a, b in zip(rows, given_lines, expected, strict=True) if a != b]
        assert different == list(ORACLE_DEVIATIONS)
        for i in different:
            assert given_lines[i] == expected[i].replace("``", '"').replace("''", '"')
