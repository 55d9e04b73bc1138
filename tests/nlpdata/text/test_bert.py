"""BERT's basic tokenizer on blocks of lines, against its description one character at a time and the original."""

import json
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nlpdata.text.bert import SEPARATOR, BasicTokenizer, is_ideograph
from tests.nlpdata import bert_reference
from tests.shared import shared

OPTIONS = [
    {},
    {"do_lower_case": False},
    {"keep_accents": True},
    {"do_lower_case": False, "keep_accents": False},
    {"tokenize_chinese_chars": False},
]
# Everything that some step looks at, apart from letters.
CURIOUS = (
    "\0\x01\t\n\x0b\x0c\r\x1c\x1d\x1e\x1f \x7f\x85\xa0\xad"
    "\u0300\u0301\u0345\u200b\u200d\u2028\u2029\u202e\u3000\ufeff\ufffd"
    "ΣσςİıßǅÅéẞﬁ\u212a\u1fef\u037e\u0387\u00a8$^`~[]#-_'’“。、「」¿\u0f0b中国\u3400\u4dbf\ufa0e\uf900\U00020000\U0002a6df"
    "\U0002a6e0\U0002f800\U0001f600\U000e0001\U0001d15e\ud840\udc00\udfffかがカガ한국กำहिंदी\u0903\ue000\U000f0000"
)
texts = st.text(st.one_of(st.characters(), st.sampled_from(CURIOUS), st.characters(max_codepoint=127)))


def basic(do_lower_case=True, keep_accents=None, **options):
    return BasicTokenizer(
        do_lower_case=do_lower_case,
        keep_accents=not do_lower_case if keep_accents is None else keep_accents,
        **options,
    )


def by_blocks(lines, **options):
    """Tokens of each line, the long way round: words of the lines, tokens of the words."""
    tokenizer = basic(**options)
    words = tokenizer.words(lines)
    known = [w for w in dict.fromkeys(words) if w != SEPARATOR]
    tokens = _groups(tokenizer.tokens(known)) if known else []
    table = dict(zip(known, tokens, strict=True))
    return [[token for word in group for token in table[word]] for group in _groups(words)] if lines else []


def _groups(flat):
    groups = [[]]
    for item in flat:
        if item == SEPARATOR:
            groups.append([])
        else:
            groups[-1].append(item)
    return groups


@pytest.mark.parametrize("options", OPTIONS)
@given(lines=st.lists(texts, max_size=4))
@example(lines=["a\x0cb\x85c\0d", "\0", ""])
@example(lines=["ΑΣ\u200b ΑΣ中Σ ΣΑ. Σ\0Α", "\ud840中", "\ud840\udc00"])
def test_blocks_equal_the_description(options, lines):
    names = {"do_lower_case": "lower", "keep_accents": "keep_accents", "tokenize_chinese_chars": "chinese"}
    expected = [bert_reference.basic(line, **{names[k]: v for k, v in options.items()}) for line in lines]
    assert by_blocks(lines, **options) == expected
    assert basic(**options).lines(lines) == [" ".join(tokens) for tokens in expected]


def test_many_kinds_of_characters_in_one_block():
    """More distinct punctuation and marks than are replaced one by one."""
    marks = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) in ("Mn", "Po", "Cf", "Zs", "Cc")]
    lines = ["a" + "b".join(marks[i : i + 50]) + "É" for i in range(0, len(marks), 50)]
    assert by_blocks(lines) == [bert_reference.basic(line) for line in lines]


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("", []),
        (" \t\r\n", []),
        ("Hello, World!", ["hello", ",", "world", "!"]),
        ("[MASK] [CLS]", ["[", "mask", "]", "[", "cls", "]"]),
        ("ah\u535a\u63a8zz", ["ah", "\u535a", "\u63a8", "zz"]),
        ("顺利的无创dna", ["顺", "利", "的", "无", "创", "dna"]),
        ("a\x0cb", ["ab"]),
        ("ΟΔΟΣ ΟΔΟΣ.", ["οδος", "οδος", "."]),
        ("ＡＢＣ，", ["ａｂｃ", "，"]),
        ("Müller", ["muller"]),
        ("パンダ", ["ハンタ"]),
    ],
)
def test_known_lines(line, tokens):
    assert by_blocks([line]) == [tokens]


def test_kept_accents_leave_dakuten_and_umlauts():
    """google-research/bert#130, deepset-ai/FARM PR#215."""
    assert by_blocks(["パンダ Müller"], keep_accents=True) == [["パンダ", "müller"]]


def test_composed_and_combining_accents_differ_only_where_accents_are_kept():
    """huggingface/transformers#5738: a cased model sees two different words, and so does the original."""
    assert by_blocks(["\u00e1 a\u0301"]) == [["a", "a"]]
    assert by_blocks(["\u00e1 a\u0301"], do_lower_case=False) == [["\u00e1", "a\u0301"]]


def test_ideographs_end_where_the_original_says():
    assert is_ideograph("\u4e00")
    assert is_ideograph("\U0002ceaf")
    assert not is_ideograph("\U0002ceb0")
    assert not is_ideograph("\u3042")


def test_google_research_bert():
    """All lines of the original's output; made with Unicode 11, from which none of them differs."""
    rows = [
        json.loads(line) for line in shared("oracle", "tokenization", "bert_wordpiece.jsonl").read_bytes().splitlines()
    ]
    assert len(rows) == 243
    lines = [row["text"] for row in rows]
    for case, lower in (("uncased", True), ("cased", False)):
        expected = [row[case]["basic"] for row in rows]
        assert by_blocks(lines, do_lower_case=lower) == expected
