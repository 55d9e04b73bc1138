"""WordPiece against google-research/bert's recorded output and a plain implementation of its published rules."""

import gzip
import json
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata.errors import DataError, UsageError
from nlpdata.tokenizers import load_tokenizer, wordpiece
from nlpdata.tokenizers.training import train_tokenizer
from tests.shared import shared

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SMALL = [*SPECIAL, "[unused0]", "the", "fox", "##es", "un", "##aff", "##able", ".", ",", "a", "##b", "##c", "无", "创"]


def small(tmp_path, entries=SMALL, name="vocab.txt", end="\n"):
    path = tmp_path / name
    path.write_bytes((end.join(entries) + end).encode())
    return path


# ------------------------------------------------------------------------------------------ a plain implementation


def plain_tokenize(text, vocabulary, lower, keep_accents):
    cleaned = []
    for c in text:
        category = unicodedata.category(c)
        if c in "\t\n\r" or category == "Zs":
            cleaned.append(" ")
        elif c not in "\0\ufffd" and category not in ("Cc", "Cf"):
            cleaned.append(f" {c} " if _ideograph(ord(c)) else c)
    tokens = []
    for word in "".join(cleaned).split():
        word = word.lower() if lower else word
        if not keep_accents:
            word = "".join(c for c in unicodedata.normalize("NFD", word) if unicodedata.category(c) != "Mn")
        current = ""
        for c in word:
            if _punctuation(c):
                tokens += [current, c]
                current = ""
            else:
                current += c
        tokens.append(current)
    return [piece for token in tokens for part in token.split() for piece in _longest_match(part, vocabulary)]


def _ideograph(code):
    blocks = (0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F)
    blocks += (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)
    return any(low <= code <= high for low, high in blocks)


def _punctuation(c):
    if ord(c) < 128:
        return not c.isalnum() and 32 < ord(c) < 127
    return unicodedata.category(c).startswith("P")


def _longest_match(word, vocabulary):
    if len(word) > 200:
        return [vocabulary["[UNK]"]]
    ids, start = [], 0
    while start < len(word):
        for stop in range(len(word), start, -1):
            piece = ("##" if start else "") + word[start:stop]
            if piece in vocabulary:
                ids.append(vocabulary[piece])
                start = stop
                break
        else:
            return [vocabulary["[UNK]"]]
    return ids


def _vocabulary(path):
    return {line: i for i, line in enumerate(path.read_text(encoding="utf-8").split("\n")[:-1])}


def _encode(tokenizer, lines):
    ids, lengths = tokenizer.encode(lines)
    assert ids.dtype == np.int32
    assert lengths.sum() == len(ids)
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]


# ---------------------------------------------------------------------------------------------------- right ids


@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_equals_the_original_on_hard_lines(case):
    tokenizer = load_tokenizer(shared("oracle", "tokenization", f"bert-base-{case}-vocab.txt"))
    rows = [json.loads(line) for line in shared("oracle", "tokenization", "bert_wordpiece.jsonl").open()]
    assert len(rows) == 243
    # A line of ours holds no line end: the one that is in an oracle line separates words, as a space does.
    found = _encode(tokenizer, [row["text"].replace("\n", " ") for row in rows])
    assert found == [row[case]["ids"] for row in rows]
    assert tokenizer.spec.do_lower_case == (case == "uncased")


@pytest.mark.parametrize("lower", [True, False])
def test_equals_the_plain_implementation_on_real_lines(lower):
    path = shared("oracle", "tokenization", f"bert-base-{'un' if lower else ''}cased-vocab.txt")
    vocabulary, tokenizer = _vocabulary(path), load_tokenizer(path)
    lines = []
    for file in sorted(shared("data", "ospl").glob("*.gz")):
        text = gzip.decompress(file.read_bytes()).decode()
        lines += [line for line in text.split("\n") if line.strip()][:1200:7]
    assert len(lines) > 1000
    assert _encode(tokenizer, lines) == [plain_tokenize(line, vocabulary, lower, not lower) for line in lines]


TEXT = st.text(
    st.one_of(
        st.characters(exclude_characters="\n\r", exclude_categories=["Cs"]),
        st.sampled_from("abcunthefox es.,\u0085\u200b\u2028\u00a0\u3000\x1c\x0b\t无创Éé\u0301ß İΣς\ufffd\0"),
    ),
    max_size=60,
)


@settings(max_examples=400, deadline=None)
@given(lines=st.lists(TEXT, max_size=6), lower=st.booleans(), keep_accents=st.booleans())
def test_equals_the_plain_implementation_on_random_text(tmp_path_factory, lines, lower, keep_accents):
    entries = SMALL + [f"{mark}{c}" for c in "étheßiσς無é" for mark in ("", "##")]
    path = small(tmp_path_factory.mktemp("v"), list(dict.fromkeys(entries)))
    tokenizer = load_tokenizer(path, do_lower_case=lower, keep_accents=keep_accents)
    expected = [plain_tokenize(line, _vocabulary(path), lower, keep_accents) for line in lines]
    assert (_encode(tokenizer, lines) if lines else []) == expected


def test_ids_do_not_depend_on_the_memory(tmp_path, monkeypatch):
    lines = ["the foxes, unaffable", "abc abcb the.", "无创 fox", ""] * 3
    expected = _encode(load_tokenizer(small(tmp_path)), lines)
    monkeypatch.setattr(wordpiece, "MEMO_WORDS", 2)
    tokenizer = load_tokenizer(small(tmp_path))
    assert [row for line in lines for row in _encode(tokenizer, [line])] == expected
    assert len(tokenizer._words) <= 2 + 3  # what one block adds


def test_pieces_and_tables(tmp_path):
    tokenizer = load_tokenizer(small(tmp_path))
    assert tokenizer.pieces(tokenizer.encode(["The foxes [MASK] 顺无创abc"])[0]) == [
        *("the", "fox", "##es", "[UNK]", "[UNK]", "[UNK]", "[UNK]", "无", "创", "a", "##b", "##c")
    ]
    assert [tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id] == [*range(5)]
    assert tokenizer.ordinary_ids.tolist() == list(range(6, len(SMALL)))
    assert not tokenizer.word_start[SMALL.index("##es")]
    assert tokenizer.word_start[SMALL.index("fox")]


@pytest.mark.parametrize(
    ("config", "lower", "accents"),
    [
        ({"do_lower_case": True, "strip_accents": None}, True, False),
        ({"do_lower_case": False}, False, True),
        ({"do_lower_case": True, "strip_accents": False}, True, True),
    ],
)
def test_hugging_face_folder(tmp_path, config, lower, accents):
    small(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    tokenizer = load_tokenizer(tmp_path)
    assert (tokenizer.spec.do_lower_case, tokenizer.spec.keep_accents) == (lower, accents)
    assert not tokenizer.notes


# ------------------------------------------------------------------------------------------------------ wrong files


def test_crlf_and_bom(tmp_path):
    plain = load_tokenizer(small(tmp_path))
    other = load_tokenizer(small(tmp_path, ["\ufeff" + SMALL[0], *SMALL[1:]], "b_vocab.txt", "\r\n"))
    assert other.pieces(range(len(SMALL))) == plain.pieces(range(len(SMALL)))


def test_line_separator_inside_an_entry_keeps_ids(tmp_path):
    entries = [*SMALL, "\u2028", "x\u0085y", "last"]
    tokenizer = load_tokenizer(small(tmp_path, entries))
    assert tokenizer.vocab_size == len(entries)
    assert tokenizer.encode(["last"])[0].tolist() == [len(entries) - 1]


@pytest.mark.parametrize(
    ("entries", "error", "words"),
    [
        ([*SMALL[:4], *SMALL[5:]], DataError, r"lacks \[MASK\]"),
        (["[PAD]", "", "[UNK]"], DataError, "blank line 2"),
        ([*SMALL, "fox"], DataError, r"duplicate entries on line 20 \('fox', first on line 8\)"),
        ([f"{piece}\t-1.5" for piece in SMALL], UsageError, "pass the model"),
        ([], UsageError, "empty"),
    ],
)
def test_wrong_vocabularies(tmp_path, entries, error, words):
    path = small(tmp_path, entries)
    if not entries:
        path.write_bytes(b"")
    with pytest.raises(error, match=words):
        load_tokenizer(path)


def test_binary_file_is_no_vocabulary(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"\x0a\x0e\x80\xff")
    with pytest.raises(DataError, match="byte 2 is not UTF-8"):
        load_tokenizer(path)


def test_blank_last_line_is_fine(tmp_path):
    assert load_tokenizer(small(tmp_path, [*SMALL, ""])).vocab_size == len(SMALL)


# --------------------------------------------------------------------------------------------------------- training


def _corpus(tmp_path):
    path = tmp_path / "c.txt"
    words = "low lower lowest new newer newest wide wider widest größer größte 无创 модель".split(" ")
    path.write_text("\n".join(" ".join(words[i % 13] for i in range(j, j + 9)) for j in range(200)) + "\n")
    return path


def test_training_is_reproducible_and_covers_its_text(tmp_path):
    corpus = _corpus(tmp_path)
    made = [
        train_tokenizer(str(corpus), str(tmp_path / f"v{i}"), type="wordpiece", vocab_size=100, workers=i + 1)
        for i in range(2)
    ]
    first, second = ((tmp_path / f"v{i}.txt").read_bytes() for i in range(2))
    assert first == second
    assert first.decode().split("\n")[:5] == SPECIAL
    tokenizer = load_tokenizer(made[0].path)
    assert tokenizer.spec.do_lower_case
    assert not tokenizer.notes
    ids, _ = tokenizer.encode(corpus.read_text().splitlines())
    assert tokenizer.unk_id not in ids
    assert len(ids) < 9 * 200 * 2.5  # merges were learnt


def test_training_limits(tmp_path):
    with pytest.raises(UsageError, match="alphabet of this corpus alone are"):
        train_tokenizer(str(_corpus(tmp_path)), str(tmp_path / "v"), type="wordpiece", vocab_size=20)
    with pytest.raises(UsageError, match=r"at most \d+ entries"):
        train_tokenizer(str(_corpus(tmp_path)), str(tmp_path / "v"), type="wordpiece", vocab_size=5000)
    with pytest.raises(UsageError, match="--type wordpiece"):
        train_tokenizer(
            str(_corpus(tmp_path)), str(tmp_path / "v"), type="wordpiece", vocab_size=200, user_defined_symbols=["x"]
        )
