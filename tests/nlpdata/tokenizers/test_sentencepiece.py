"""SentencePiece tokenizer: the recorded output of the original code, its rules on small models, and bad files."""

import io
import json
import pickle
import shutil
import subprocess
import sys
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata.errors import DataError, UsageError
from nlpdata.tokenizers import TokenizerSpec, load_tokenizer, ranges
from nlpdata.tokenizers.files import tokenizer_kind
from nlpdata.tokenizers.scripts import begins_word, byte_begins_word
from nlpdata.tokenizers.sentencepiece import SentencePieceTokenizer
from tests.shared import shared

SENTENCES = [
    "in 1999, he had 12, 13, and 14.",
    "The quick brown fox jumps over the lazy dog, 1999, 2005,",
    "Ünïcödé naïve café, 25, 2019, 2020, 2021,",
    "東京は日本の首都です。人口は1,000,000人です。",
    "a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9,",
]


def train(path, sentences=SENTENCES, **options):
    """A small model by SentencePiece itself, independent of our trainer."""
    model = io.BytesIO()
    defaults = {
        "vocab_size": 400,
        "hard_vocab_limit": False,
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": -1,
        "eos_id": -1,
        "control_symbols": ["[CLS]", "[SEP]", "[MASK]"],
        "user_defined_symbols": ["(", ")", "."],
        "split_by_number": False,
        "minloglevel": 4,
    }
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences * 8), model_writer=model, **(defaults | options)
    )
    path.write_bytes(model.getvalue())
    return path


@pytest.fixture(scope="module")
def model_path(tmp_path_factory):
    return train(tmp_path_factory.mktemp("spm") / "small.model")


@pytest.fixture(scope="module")
def tokenizer(model_path):
    return load_tokenizer(model_path)


@pytest.fixture(scope="module")
def cased(model_path):
    return load_tokenizer(model_path, do_lower_case=False, keep_accents=True)


def by_line(tokenizer, lines):
    ids, lengths = tokenizer.encode(lines)
    assert ids.dtype == np.int32
    assert lengths.dtype == np.int64
    assert lengths.shape == (len(lines),)
    assert lengths.sum() == ids.size
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] if lines else []


# --- the original's output --------------------------------------------------------------------------------------

# google-research/albert b772393 has no rule for quotation marks (see nlpdata.text.albert); nothing else differs, not
# from Unicode 11 (its Python 3.7), and not from sentencepiece 0.1.85.
ORACLE_DEVIATIONS = {27: "quotation marks", 28: "quotation marks"}


def oracle_rows(name):
    with open(shared("oracle", "tokenization", name), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.mark.parametrize("do_lower_case", [True, False])
@pytest.mark.parametrize("name", ["30k-clean", "cased"])
def test_equals_google_albert(name, do_lower_case):
    tokenizer = load_tokenizer(shared("oracle", "spm", f"{name}.model"), do_lower_case=do_lower_case)
    rows = oracle_rows("albert_spm.jsonl")
    texts = [row["text"] for row in rows]
    expected = [row[f"{name}/lower={do_lower_case}"] for row in rows]
    encoded = by_line(tokenizer, texts)
    different = []
    for row, want, ids, text in zip(rows, expected, encoded, tokenizer.normalize(texts), strict=True):
        # An unknown piece is a stretch of text in the recording, and <unk> in the vocabulary.
        pieces = [p if i != tokenizer.unk_id else "<unk>" for p, i in zip(want["pieces"], want["ids"], strict=True)]
        if (ids, tokenizer.pieces(ids), text) != (want["ids"], pieces, want["preprocessed"]):
            different.append(row["id"])
    assert different == list(ORACLE_DEVIATIONS)


def test_digit_comma_equals_the_evident_intent():
    tokenizer = load_tokenizer(shared("oracle", "spm", "digitcomma.model"))
    plain = load_tokenizer(shared("oracle", "spm", "digitcomma.model"), digit_comma=False)
    rows = oracle_rows("digitcomma_tfm.jsonl")
    assert len(rows) == 271
    texts = [row["text"] for row in rows]
    encoded = by_line(tokenizer, texts)
    assert [r["id"] for r, ids in zip(rows, encoded, strict=True) if ids != r["ids"]] == list(ORACLE_DEVIATIONS)
    assert sum(row["pieces"] != row["plain_spm"] for row in rows) == 36
    for row, ids in zip(rows, by_line(plain, texts), strict=True):
        pieces = [p if p in plain._all_pieces else "<unk>" for p in row["plain_spm"]]
        assert plain.pieces(ids) == pieces or row["id"] in ORACLE_DEVIATIONS


# --- encoding ---------------------------------------------------------------------------------------------------


def albert_ids(model, text):
    """`encode_pieces` of google-research/albert, with the comparison of text with text that it means."""
    ids = []
    for piece, i in zip(model.encode(text, return_type=str), model.encode(text, return_type=int), strict=True):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            parts = model.encode(piece[:-1].replace("▁", ""), return_type=str)
            if piece[0] != "▁" and parts[0][0] == "▁":
                parts = parts[1:] if len(parts[0]) == 1 else [parts[0][1:], *parts[1:]]
            ids += [model.piece_to_id(part) for part in [*parts, ","]]
        else:
            ids.append(i)
    return ids


def test_the_small_model_has_digit_comma_pieces(tokenizer):
    assert tokenizer._split.affected.sum() >= 3


@given(st.lists(st.text("019 ,.a東é(", max_size=12), max_size=6))
@settings(max_examples=400)
def test_digit_comma_line_by_line(tokenizer, lines):
    expected = [albert_ids(tokenizer._model, line) for line in tokenizer.normalize(lines)]
    assert by_line(tokenizer, lines) == expected


def test_digit_comma_can_be_off_and_is_free_without_such_pieces(model_path, tmp_path):
    off = load_tokenizer(model_path, digit_comma=False)
    assert off._split is None
    assert by_line(off, ["1999, x"]) == [off._model.encode("1999, x")]
    assert load_tokenizer(train(tmp_path / "no.model", ["plain words only", "and no digits"]))._split is None


def test_empty_lines_have_length_zero(tokenizer):
    assert [len(ids) for ids in by_line(tokenizer, ["", "a", " \t", "\u0301", "b"])] == [0, 1, 0, 0, 1]
    ids, lengths = tokenizer.encode([])
    assert (ids.dtype, ids.size, lengths.dtype, lengths.size) == (np.int32, 0, np.int64, 0)
    ids, lengths = tokenizer.encode(["", ""])
    assert ids.size == 0
    assert lengths.tolist() == [0, 0]


def test_encode_is_normalize_and_encode_normalized(tokenizer):
    for a, b in zip(
        tokenizer.encode(SENTENCES), tokenizer.encode_normalized(tokenizer.normalize(SENTENCES)), strict=True
    ):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("known", [True, False])
def test_literal_special_pieces_are_text(tmp_path, known):
    # Where none of the characters is known, looking the pieces up again would give the control ids.
    text = ["[ C L S ] S E P M A K < p a d > u n k b"] if known else ["lower case only"]
    tokenizer = load_tokenizer(train(tmp_path / "m.model", text, character_coverage=1.0), do_lower_case=False)
    ids = tokenizer.encode(["[SEP]", "[CLS] [MASK] <pad>", "a[SEP]b"])[0].tolist()
    assert not {0, 2, 3, 4} & set(ids)
    assert (1 in ids) is not known


def test_nul_and_lone_surrogates_are_unknown_characters(tokenizer):
    with_nul, plain = by_line(tokenizer, ["a\0b c", "a c"])
    assert with_nul[0] == plain[0]
    assert tokenizer.unk_id in with_nul
    assert with_nul[-1] == plain[-1]  # nothing is cut off at the NUL
    lone, replaced, other = by_line(tokenizer, ["a \ud800 b", "a \ufffd b", "the fox"])
    assert lone == replaced
    assert other == by_line(tokenizer, ["the fox"])[0]


@given(st.text(st.sampled_from("ÀéîõüçñÅșḿ áàパガ각Σ "), max_size=20))
@settings(max_examples=200)
def test_composed_and_decomposed_text_give_the_same_pieces(cased, text):
    composed, decomposed = (unicodedata.normalize(form, text) for form in ("NFC", "NFD"))
    assert by_line(cased, [composed]) == by_line(cased, [decomposed])


def test_umlauts_survive_keep_accents(tokenizer, cased):
    assert tokenizer.pieces(tokenizer.encode(["naïve"])[0]) != cased.pieces(cased.encode(["naïve"])[0])
    assert "ï" in cased.decode(cased.encode(["naïve"])[0])


def test_pieces_and_decode(tokenizer):
    ids, _ = tokenizer.encode(["the fox"])
    assert "".join(tokenizer.pieces(ids)) == "▁the▁fox"
    assert tokenizer.decode(ids) == "the fox"
    assert tokenizer.pieces([2, 3, 4]) == ["[CLS]", "[SEP]", "[MASK]"]


# --- ids and words ----------------------------------------------------------------------------------------------


def test_ids(tokenizer):
    special = [tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id]
    assert special == [0, 1, 2, 3, 4]
    assert tokenizer.ordinary_ids.dtype == np.int32
    assert tokenizer.ordinary_ids.tolist() == list(range(5, tokenizer.vocab_size))
    assert tokenizer.word_start.shape == (tokenizer.vocab_size,)
    assert tokenizer.word_start[:5].all()


def test_byte_fallback(tmp_path):
    tokenizer = load_tokenizer(train(tmp_path / "b.model", byte_fallback=True, vocab_size=500))
    byte_ids = [i for i, p in enumerate(tokenizer._all_pieces) if tokenizer._model.is_byte(i)]
    assert len(byte_ids) == 256
    assert not set(byte_ids) & set(tokenizer.ordinary_ids.tolist())
    ids = tokenizer.encode(["鬱"])[0]
    assert tokenizer.pieces(ids)[-3:] == ["<0xE9>", "<0xAC>", "<0xB1>"]
    assert tokenizer.word_start[ids[-3:]].tolist() == [True, False, False]
    assert [byte_begins_word(b) for b in b"a1,\xc3\xd0\xe2\xf0"] == [False, True, True, False, False, True, True]


@pytest.mark.parametrize("piece", ["▁", "▁the", "▁東", "▁\u0301", "<pad>", "<unk>", "<"])
def test_marked_pieces_begin_a_word(piece):
    assert begins_word(piece)


@pytest.mark.parametrize("piece", [*"(\"-.,'`^$+€£–“…、。「・！｡･＄⁄«¿😀→", "...", "--", "!?", "❤️", "👩‍👩"])
def test_punctuation_and_symbols_begin_a_word(piece):
    assert begins_word(piece)


@pytest.mark.parametrize("piece", ["1", "x9", "3d", "१", "٣", "½", "Ⅷ", "1,"])
def test_digits_begin_a_word(piece):
    assert begins_word(piece)


@pytest.mark.parametrize(
    "piece", ["東", "東京", "の", "カ", "ｶ", "ー", "ㄅ", "ไทย", "ลาว"[:2], "မြန်", "ខ្មែរ", "བོད", "ꆈ", "x東", "𠀀", "豈"]
)
def test_scripts_without_spaces_begin_a_word(piece):
    assert begins_word(piece)


@pytest.mark.parametrize(
    "piece",
    [
        "ing",
        "x",
        "é",
        "straße",
        "ﬁ",
        "ция",
        "λογος",
        "ها",
        "לום",
        "नम",
        "देश",
        "한국",
        "ᄒ",
        "თბ",
        "ան",
        "'s",
        "n't",
        "e-mail",
    ],
)
def test_letters_of_scripts_with_spaces_continue(piece):
    assert not begins_word(piece)


@pytest.mark.parametrize("piece", ["\u0301", "\u200d", "\u200c", "\ufe0f", "\u093f", "\u0e31", "\u3099", "\xad"])
def test_marks_and_joiners_continue(piece):
    assert not begins_word(piece)


# --- spec, options, meta ----------------------------------------------------------------------------------------


def test_bare_model_is_taken_as_alberts_and_says_so(model_path):
    tokenizer = load_tokenizer(str(model_path))
    assert tokenizer.options() == {"do_lower_case": True, "keep_accents": False, "digit_comma": True}
    assert len(tokenizer.notes) == 1
    for words in (
        str(model_path),
        "ALBERT",
        "lower-cased",
        "accents stripped",
        "do_lower_case=False or keep_accents=True",
    ):
        assert words in tokenizer.notes[0]
    assert load_tokenizer(model_path, do_lower_case=False, keep_accents=True).notes == []
    assert "not lower-cased" in load_tokenizer(model_path, do_lower_case=False).notes[0]


def test_spec_is_complete_picklable_and_loads_an_equal_tokenizer(model_path):
    tokenizer = load_tokenizer(TokenizerSpec(str(model_path), do_lower_case=False))
    spec = pickle.loads(pickle.dumps(tokenizer.spec))
    assert spec == replace(tokenizer.spec)
    assert None not in (spec.do_lower_case, spec.keep_accents, spec.digit_comma, spec.kind, spec.sha256)
    again = load_tokenizer(spec)
    assert again.spec == spec
    assert by_line(again, SENTENCES) == by_line(tokenizer, SENTENCES)
    with pytest.raises(DataError, match="another file"):
        load_tokenizer(replace(spec, sha256="0" * 64))


def test_meta_round_trip(model_path, tmp_path):
    tokenizer = load_tokenizer(model_path, do_lower_case=False)
    meta = tokenizer.meta()
    assert meta["special_ids"] == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    assert meta["ordinary_ids"] == [[5, tokenizer.vocab_size]]
    shutil.copy(model_path, tmp_path / "train.tokenizer.model")
    entry = json.loads(json.dumps({"file": "train.tokenizer.model", **meta}))
    again = load_tokenizer(entry, folder=tmp_path)
    assert again.meta() == meta
    assert again.notes == []
    # The copy next to the records finds the options in their meta file.
    (tmp_path / "train.meta.json").write_text(json.dumps({"tokenizer": entry}))
    assert load_tokenizer(tmp_path / "train.tokenizer.model").meta() == meta


def test_the_interface_loads_no_tokenizer_library():
    code = "import sys, nlpdata.tokenizers; assert not {'sentencepiece', 'tensorflow'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).resolve().parents[3])


def test_ranges():
    assert ranges(np.array([2, 3, 4, 9], dtype=np.int32)) == [[2, 5], [9, 10]]
    assert ranges(np.array([], dtype=np.int32)) == []


def test_hugging_face_folder(model_path, tmp_path):
    shutil.copy(model_path, tmp_path / "spiece.model")
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false, "keep_accents": true, "x": 1}')
    tokenizer = load_tokenizer(tmp_path)
    assert tokenizer.options() == {"do_lower_case": False, "keep_accents": True, "digit_comma": True}
    assert tokenizer.path == str(tmp_path / "spiece.model")
    assert tokenizer.notes == []


# --- what is refused --------------------------------------------------------------------------------------------


def test_absent_file(model_path):
    with pytest.raises(UsageError, match=r"does not exist\. Did you mean .*/small\.model\?"):
        load_tokenizer(model_path.with_name("smal.model"))
    with pytest.raises(UsageError, match="does not exist"):
        load_tokenizer("/nowhere/x.model")
    with pytest.raises(UsageError, match="does not exist"):
        SentencePieceTokenizer(TokenizerSpec("/nowhere/x.model"))


@pytest.mark.parametrize("name", ["small.vocab", "vocab.txt", "pieces", "other.model"])
def test_vocab_instead_of_model(model_path, tmp_path, name):
    path = tmp_path / name
    path.write_text("<pad>\t0\n<unk>\t0\n[CLS]\t0\n▁the\t-3.01\n,\t-3.4e-05\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"cannot segment text; pass the model itself"):
        load_tokenizer(path)
    if path.suffix != ".model":
        shutil.copy(model_path, path.with_suffix(".model"))
        with pytest.raises(UsageError, match=r"pass .*\.model, which is next to it"):
            load_tokenizer(path)


@pytest.mark.parametrize(
    "content", [b"", b"hello\nworld\n", b"\n\n\n", bytes(range(256)), b'{"model": 1}', b"version 1\n"]
)
def test_no_model(tmp_path, content):
    path = tmp_path / "x.model"
    path.write_bytes(content)
    with pytest.raises(DataError, match="empty" if not content else "not a (SentencePiece model|tokenizer.json)"):
        load_tokenizer(path)


def test_cut_model(model_path, tmp_path):
    content = model_path.read_bytes()
    path = tmp_path / "cut.model"
    between_pieces = [i for i in range(200, 1200) if content[i : i + 1] == b"\n"][::5]  # some are message boundaries
    for size in (1, len(content) // 2, len(content) - 1, *between_pieces):
        path.write_bytes(content[:size])
        with pytest.raises(DataError, match=r"cut short|lacks"):
            load_tokenizer(path)


def test_model_without_special_pieces(tmp_path):
    path = train(tmp_path / "plain.model", control_symbols=["[CLS]"], pad_id=-1, unk_id=0, bos_id=1, eos_id=2)
    with pytest.raises(DataError, match=r"lacks the special pieces <pad>, \[SEP\], \[MASK\] .*nlpdata train-tokenizer"):
        load_tokenizer(path)


def test_published_model_without_special_pieces():
    path = shared("data", "models", "spm", "sentencepiece_test_ja_model.model")
    with pytest.raises(DataError, match=r"<pad>, \[CLS\], \[SEP\], \[MASK\]"):
        load_tokenizer(path)


def test_folders(model_path, tmp_path):
    with pytest.raises(UsageError, match="holds no tokenizer"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(DataError, match=r"not a tokenizer\.json"):
        load_tokenizer(tmp_path)
    shutil.copy(model_path, tmp_path / "a.model")
    assert load_tokenizer(tmp_path).path == str(tmp_path / "a.model")
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    with pytest.raises(UsageError, match=r"more than one tokenizer: a\.model, vocab\.txt"):
        load_tokenizer(tmp_path)


def test_kind_by_name_and_content(model_path, tmp_path):
    assert tokenizer_kind(model_path) == "sentencepiece"
    blob, text = tmp_path / "blob", tmp_path / "words"
    shutil.copy(model_path, blob)
    text.write_text("[PAD]\n[UNK]\nthe\n")
    assert tokenizer_kind(blob) == "sentencepiece"
    assert tokenizer_kind(text) == "wordpiece"
    assert load_tokenizer(blob).vocab_size == load_tokenizer(model_path).vocab_size


def test_unknown_options(model_path):
    with pytest.raises(UsageError, match="unknown tokenizer option lower"):
        load_tokenizer(model_path, lower=True)
    with pytest.raises(UsageError, match="Did you mean sentencepiece"):
        load_tokenizer(model_path, kind="sentencepeice")
    with pytest.raises(DataError, match="names no file"):
        load_tokenizer({"type": "sentencepiece"})


def test_a_piece_that_is_not_utf_8(tmp_path, tiny_model):
    content = tiny_model.read_bytes()
    piece = load_tokenizer(tiny_model).pieces([150])[0].encode()
    assert content.count(piece)
    assert len(piece) > 4
    (tmp_path / "spm.model").write_bytes(content.replace(piece, piece[:-1] + b"\xff", 1))
    with pytest.raises(DataError, match=r"spm\.model \(\d+ bytes\) is not a SentencePiece model, or it is cut short"):
        load_tokenizer(tmp_path / "spm.model")
