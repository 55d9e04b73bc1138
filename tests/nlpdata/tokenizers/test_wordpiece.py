"""WordPiece: exact ids, whatever is remembered; vocabularies that are refused, and why."""

import gzip
import json
import os
import pickle
import re
import sys
import threading
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata.errors import DataError, UsageError
from nlpdata.tokenizers import TokenizerSpec, load_tokenizer, wordpiece
from nlpdata.tokenizers.offsets import offset_encoder
from nlpdata.tokenizers.training.train import train_tokenizer
from nlpdata.tokenizers.wordpiece import WordPieceTokenizer
from tests.nlpdata import bert_reference
from tests.shared import shared

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SMALL = [
    *SPECIAL,
    "[unused1]",
    *"abcdefghijklmnopqrstuvwxyz0123456789.,!?'[]#-中国创无",
    *(f"##{c}" for c in "abcdefghijklmnopqrstuvwxyz0123456789ß"),
    *"the quick brown fox un want run mask pad hell dna ##ing ##ed ##able ##ning ##aff ##abl".split(),
]


def write(path, entries, newline="\n", end="\n"):
    path.write_bytes((newline.join(entries) + end).encode())
    return path


@pytest.fixture(scope="module")
def vocab(tmp_path_factory):
    return write(tmp_path_factory.mktemp("small") / "vocab.txt", SMALL)


def split(ids, lengths):
    assert ids.dtype == np.int32
    assert lengths.dtype == np.int64
    assert lengths.sum() == len(ids)
    return [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])] if len(lengths) else []


def expected_ids(lines, entries, **options):
    table = {entry: i for i, entry in enumerate(entries)}
    return [[table[piece] for piece in bert_reference.tokenize(line, table, **options)] for line in lines]


# --- ids


def test_interface(vocab):
    t = load_tokenizer(vocab)
    assert (t.kind, t.path, t.vocab_size) == ("wordpiece", str(vocab), len(SMALL))
    assert (t.pad_id, t.unk_id, t.cls_id, t.sep_id, t.mask_id) == (0, 1, 2, 3, 4)
    assert t.ordinary_ids.dtype == np.int32
    assert t.ordinary_ids.tolist() == list(range(6, len(SMALL)))
    assert t.word_start.dtype == bool
    assert t.word_start.tolist() == [not entry.startswith("##") for entry in SMALL]
    ids, lengths = t.encode(["The quick fox, unwanted running!", "", "顺利的无创dna"])
    assert t.pieces(ids) == (
        "the quick fox , un ##want ##ed run ##ning ! [UNK] [UNK] [UNK] 无 创 dna".replace(
            "##want", "##w ##a ##n ##t"
        ).split()
    )
    assert lengths.tolist() == [13, 0, 6]
    assert t.decode(ids[:13]) == "the quick fox , unwanted running !"
    meta = t.meta()
    assert meta["ordinary_ids"] == [[6, len(SMALL)]]
    assert meta["special_ids"] == {"pad": 0, "unk": 1, "cls": 2, "sep": 3, "mask": 4}
    assert (meta["type"], meta["do_lower_case"], meta["keep_accents"]) == ("wordpiece", True, False)
    assert (meta["special_tokens"], meta["tokenize_chinese_chars"]) == (SPECIAL, True)


def test_what_is_left_of_a_text(vocab):
    """As reports of dropped accents compare it with the text: `normalize` leaves that to what is remembered of words."""
    lines = ["Crème, サービス", "", "प्रसिद्ध"]
    assert load_tokenizer(vocab, do_lower_case=True).as_read(lines) == ["creme , サーヒス", "", "परसिदध"]
    kept = load_tokenizer(vocab, do_lower_case=False, keep_accents=True).as_read(lines)
    assert kept == ["Crème , サービス", "", "प्रसिद्ध"]


def test_the_memory_is_bounded_in_words_and_bytes(vocab, monkeypatch):
    """80 MB, says the documentation: here a sixty-fourth of everything, because tracing is slow."""
    words, tokens = wordpiece.MEMO_WORDS // 64, wordpiece.MEMO_TOKENS // 64
    monkeypatch.setattr(wordpiece, "MEMO_WORDS", words)
    monkeypatch.setattr(wordpiece, "MEMO_TOKENS", tokens)
    t = load_tokenizer(vocab)
    tracemalloc.start()
    try:
        before, most = tracemalloc.get_traced_memory()[0], 0
        for start in range(0, 15_000, 250):
            t.encode([" ".join(f"run{i:06x}.want" for i in range(start, start + 250))])
            assert len(t._words) <= words
            assert len(t._tokens) <= tokens
            most = max(most, tracemalloc.get_traced_memory()[0] - before)
    finally:
        tracemalloc.stop()
    assert 0.3e6 < most < 80e6 / 64


def test_a_single_text_is_not_a_list_of_texts(vocab):
    with pytest.raises(TypeError, match=r"expected a list of texts. Received: 'fox'"):
        load_tokenizer(vocab).encode("fox")


def test_nothing_to_encode(vocab):
    t = load_tokenizer(vocab)
    assert split(*t.encode([])) == []
    assert split(*t.encode([""])) == [[]]
    assert split(*t.encode(["", " \0\u200b\ufffd ", ""])) == [[], [], []]
    assert t.decode([]) == ""
    assert t.pieces(np.zeros(0, np.int32)) == []


def test_special_tokens_in_text_are_text(vocab, tmp_path):
    t = load_tokenizer(vocab)
    ids, _ = t.encode(["[MASK] [PAD] [unused1]"])
    assert t.pieces(ids)[:6] == ["[", "mask", "]", "[", "pad", "]"]
    assert not set(ids.tolist()) & {t.pad_id, t.cls_id, t.sep_id, t.mask_id, SMALL.index("[unused1]")}
    # Named without brackets, they would be found.
    plain = ["pad", "unk", "cls", "sep", "mask", *SMALL[6:]]
    plain = list(dict.fromkeys(plain))
    write(tmp_path / "vocab.txt", plain)
    names = {f"{name}_token": name for name in ("pad", "unk", "cls", "sep", "mask")}
    (tmp_path / "special_tokens_map.json").write_text(json.dumps(names))
    t = load_tokenizer(tmp_path)
    ids, _ = t.encode(["pad mask unk sep cls the"])
    assert not set(ids.tolist()) & {t.pad_id, t.unk_id, t.cls_id, t.sep_id, t.mask_id}
    assert t.pieces(ids)[-1] == "the"


def test_a_word_of_200_characters_is_matched_and_a_longer_one_is_unknown(vocab):
    t = load_tokenizer(vocab)
    ids, lengths = t.encode(["a" * 200, "a" * 201, "é" * 200])
    assert lengths.tolist() == [200, 1, 200]
    assert ids[200] == t.unk_id


words = st.one_of(
    st.text(st.sampled_from("thequickrunningafbl中国创,.[]#-'!?0ßéÉΣ\u0301\u200b\0\x0c\x85 "), max_size=12),
    st.sampled_from([*SMALL, "unaffable", "running", "İstanbul", "ΟΔΟΣ", "Straße", "a" * 201]),
    st.text(max_size=6),
)
lines = st.lists(st.lists(words, max_size=8).map(" ".join), max_size=5)


@given(lines=lines, lower=st.booleans(), keep=st.sampled_from([None, True, False]))
def test_equals_the_description(vocab, lines, lower, keep):
    t = load_tokenizer(vocab, do_lower_case=lower, keep_accents=keep)
    assert split(*t.encode(lines)) == expected_ids(lines, SMALL, lower=lower, keep_accents=keep)


@given(batches=st.lists(lines, max_size=6), limit=st.integers(1, 30), block=st.integers(1, 40))
@settings(max_examples=60)
def test_what_is_remembered_never_shows(vocab, batches, limit, block):
    """Tiny memos that forget all the time, and tiny blocks."""
    t = load_tokenizer(vocab)
    t._words.max_words, t._words.max_characters = limit, 16 * limit
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(wordpiece, "_BLOCK", block)
        for batch in batches:
            assert split(*t.encode(batch)) == expected_ids(batch, SMALL)


def test_threads_share_a_tokenizer(vocab):
    t = load_tokenizer(vocab)
    t._words.max_words = 50
    offsets = offset_encoder(t)
    batches = [[f"run{i}ning {j} the {i * j}" for j in range(200)] for i in range(8)]
    found, with_places = [None] * 8, [None] * 8

    def work(i):
        for _ in range(3):
            found[i] = split(*t.encode(batches[i]))
            tokens = offsets.encode(batches[i])
            with_places[i] = split(tokens.ids, tokens.lengths)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == with_places == [expected_ids(batch, SMALL) for batch in batches]


def test_a_profiler_that_keeps_frames_does_no_harm(vocab):
    """As that of Dask's workers does, for a moment: the variables of a call then live longer than the call."""
    t, frames = load_tokenizer(vocab), []
    offsets = offset_encoder(t)
    batches = [[f"run{i}ning {j}" for j in range(20)] for i in range(3)]
    sys.setprofile(lambda frame, *_: frames.append(frame))
    try:
        found = [(split(*t.encode(batch)), offsets.encode(batch)) for batch in batches]
    finally:
        sys.setprofile(None)
    for batch, (ids, tokens) in zip(batches, found, strict=True):
        assert ids == split(tokens.ids, tokens.lengths) == expected_ids(batch, SMALL)


def test_specs_load_equal_tokenizers(vocab):
    t = load_tokenizer(vocab, do_lower_case=False, keep_accents=False)
    for other in (
        load_tokenizer(t.spec),
        load_tokenizer(pickle.loads(pickle.dumps(t.spec))),
        pickle.loads(pickle.dumps(t)),
    ):
        assert other.meta() == t.meta()
        assert other.spec == t.spec
    with pytest.raises(DataError, match="sha256"):
        load_tokenizer(TokenizerSpec(str(vocab), sha256="0" * 64))


def test_the_meta_entry_of_records_loads_an_equal_tokenizer(tmp_path):
    """A vocabulary with other names, copied next to records: its Hugging Face files are not."""
    source = tmp_path / "hf"
    source.mkdir()
    write(source / "vocab.txt", ["<pad>", "<unk>", "<s>", "</s>", "<mask>", "中", "a", "##a"])
    names = {"pad": "<pad>", "unk": "<unk>", "cls": "<s>", "sep": "</s>", "mask": "<mask>"}
    config = {f"{role}_token": name for role, name in names.items()}
    config |= {"do_lower_case": False, "strip_accents": True, "tokenize_chinese_chars": False}
    (source / "tokenizer_config.json").write_text(json.dumps(config))
    t = load_tokenizer(source)
    assert t.options() == {"do_lower_case": False, "keep_accents": False, "tokenize_chinese_chars": False}
    out = tmp_path / "out"
    out.mkdir()
    (out / "train.tokenizer.txt").write_bytes((source / "vocab.txt").read_bytes())
    entry = {"file": "train.tokenizer.txt", **t.meta()}
    (out / "train.meta.json").write_text(json.dumps({"tokenizer": entry}))
    line = "aá 中a <mask>"
    for other in (load_tokenizer(entry, folder=out), load_tokenizer(out / "train.tokenizer.txt")):
        assert other.meta() == t.meta()
        assert split(*other.encode([line])) == split(*t.encode([line]))


def test_options_come_from_the_vocabulary_where_nothing_says(tmp_path):
    lower = load_tokenizer(write(tmp_path / "vocab.txt", SMALL))
    assert lower.spec.do_lower_case
    assert not lower.spec.keep_accents
    assert lower.notes[0].endswith("lower-cased. Where that is wrong, use do_lower_case=False")
    capitals = [*SMALL, "London", "Paris", *"ABCDEFG"]
    cased = load_tokenizer(write(tmp_path / "cased-vocab.txt", capitals))
    assert not cased.spec.do_lower_case
    assert cased.spec.keep_accents
    assert cased.notes[0].endswith("not lower-cased. Where that is wrong, use do_lower_case=True")
    assert "never used" in load_tokenizer(tmp_path / "cased-vocab.txt", do_lower_case=True).notes[0]
    assert "[UNK]" in load_tokenizer(tmp_path / "vocab.txt", do_lower_case=False).notes[0]
    assert load_tokenizer(tmp_path / "vocab.txt", do_lower_case=True).notes == []


# --- vocabularies


def test_line_endings_and_a_blank_last_line(tmp_path):
    """Ids are line numbers, at LF and CRLF alike (glample/fastBPE#30); nothing else ends a line."""
    odd = [*SPECIAL, "a\u2028b", "c\u0085d", "e\rf", "a", "b"]
    for newline, end in (("\n", ""), ("\n", "\n"), ("\n", "\n\n"), ("\r\n", "\r\n"), ("\r\n", "\r\n\r\n")):
        t = load_tokenizer(write(tmp_path / "vocab.txt", odd, newline, end), do_lower_case=True)
        assert t.pieces(range(t.vocab_size)) == odd
        assert t.encode(["a b"])[0].tolist() == [8, 9]


def test_byte_order_mark(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_bytes(b"\xef\xbb\xbf" + "\n".join(SMALL).encode())
    assert load_tokenizer(path).pad_id == 0


def test_one_entry_of_whitespace_keeps_its_id(tmp_path):
    """bert-base-chinese has such a line."""
    t = load_tokenizer(write(tmp_path / "vocab.txt", [*SPECIAL, "\u2028", "##\u2028", "a"]), do_lower_case=True)
    assert t.vocab_size == 8
    assert t.encode(["a \u2028 a"])[0].tolist() == [7, 7]
    assert t.ordinary_ids.tolist() == [6, 7]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        ("\n".join(["[PAD]", "", "[UNK]"]).encode(), "line 2 is blank"),
        ("\n".join([*SPECIAL, "a", "", " ", "b"]).encode(), "lines 7, 8 are blank"),
        ("\n".join([*SPECIAL, "\u2028", "a", "\u3000"]).encode(), "lines 6, 8 are whitespace only"),
        ("\n".join([*SPECIAL, "a", "b", "a", "b", "a"]).encode(), r"'a' on lines 6, 8, 10; 'b' on lines 7, 9"),
        ("\n".join([*SPECIAL, "a", "a "]).encode(), r"'a' on lines 6, 7"),
        ("\n".join(["[PAD]", "[UNK]", "[CLS]", "a"]).encode(), r"lacks the special tokens \[SEP\], \[MASK\]"),
        (b"the\nquick\n", r"\[PAD\], \[UNK\], \[CLS\], \[SEP\], \[MASK\]"),
        (b"\x0a\x0e\x0a\x05<unk>\x15\x00\x00", "binary"),
        (b"[PAD]\n\xff\xfe\n", r"UTF-8 text \(byte 6\)"),
        ("[PAD]\n[UNK]\n".encode("utf-16"), "UTF-8"),
    ],
)
def test_refused(tmp_path, content, said):
    path = tmp_path / "vocab.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=said) as error:
        load_tokenizer(path)
    assert str(path) in str(error.value)


def test_a_sentencepiece_vocab_is_refused(tmp_path):
    """google-research/electra#8."""
    path = tmp_path / "vocab.txt"
    path.write_text("<unk>\t0\n[CLS]\t0\n▁the\t-3.1\n")
    with pytest.raises(UsageError, match="SentencePiece"):
        load_tokenizer(path)
    with pytest.raises(UsageError, match="SentencePiece"):
        WordPieceTokenizer(TokenizerSpec(str(path)))


def test_a_sentencepiece_model_given_as_a_vocabulary_is_refused():
    path = shared("data", "models", "spm", "sentencepiece_test_ja_model.model")
    with pytest.raises(DataError, match="SentencePiece"):
        load_tokenizer(path, kind="wordpiece")


# --- the originals


@pytest.mark.parametrize("case", ["uncased", "cased"])
def test_google_research_bert(case):
    """Every line of the original's output, ids and all, with no exception for its Unicode version (11)."""
    rows = [
        json.loads(line) for line in shared("oracle", "tokenization", "bert_wordpiece.jsonl").read_bytes().splitlines()
    ]
    t = load_tokenizer(shared("oracle", "tokenization", f"bert-base-{case}-vocab.txt"))
    assert t.spec.do_lower_case == (case == "uncased")
    found = split(*t.encode([row["text"] for row in rows]))
    assert len(rows) == 243
    assert found == [row[case]["ids"] for row in rows]
    assert [t.pieces(ids) for ids in found] == [row[case]["tokens"] for row in rows]


def test_real_text_in_several_languages():
    """Over 1,000 lines of every vocabulary: English, Arabic, Japanese, Chinese, Hindi."""
    lines = []
    for path in sorted(shared("data", "ospl").glob("*.txt.gz")):
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as file:
            lines += [line.rstrip("\n") for line in file if line.strip()][:1050:7]
    assert len(lines) > 1000
    for vocabulary, lower in (
        (shared("oracle", "tokenization", "bert-base-uncased-vocab.txt"), True),
        (shared("oracle", "tokenization", "bert-base-cased-vocab.txt"), False),
        (shared("data", "models", "vocab", "bert_base_chinese_vocab.txt"), True),
    ):
        entries = vocabulary.read_bytes().decode().split("\n")[:-1]
        t = load_tokenizer(vocabulary, do_lower_case=lower)
        assert split(*t.encode(lines)) == expected_ids(lines, entries, lower=lower)


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
    corpus, least = str(_corpus(tmp_path)), set()
    for size in (8, 20):  # of the first SentencePiece says that it is too small, of the second we do
        with pytest.raises(
            UsageError, match=r"alphabet of this corpus alone are (\d+)\. Use vocab_size=\1 or more"
        ) as error:
            train_tokenizer(corpus, str(tmp_path / "v"), type="wordpiece", vocab_size=size)
        least.add(re.search(r"alone are (\d+)", str(error.value))[1])
    assert len(least) == 1
    fewest = int(least.pop())
    assert train_tokenizer(corpus, str(tmp_path / "fewest"), type="wordpiece", vocab_size=fewest).vocab_size == fewest
    with pytest.raises(UsageError, match=r"at most \d+ pieces"):
        train_tokenizer(str(_corpus(tmp_path)), str(tmp_path / "v"), type="wordpiece", vocab_size=5000)
    with pytest.raises(UsageError, match="not to type='wordpiece'"):
        train_tokenizer(
            str(_corpus(tmp_path)), str(tmp_path / "v"), type="wordpiece", vocab_size=200, user_defined_symbols=["x"]
        )


def test_a_vocabulary_of_special_pieces_only(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n[unused1]\n")
    with pytest.raises(DataError, match=r"vocab\.txt holds special pieces only \(6\): it spells no text"):
        load_tokenizer(path)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="there is no such device")
def test_a_device_is_not_read(tmp_path):
    with pytest.raises(DataError, match="/dev/zero: cannot be read: it is a device"):
        load_tokenizer("/dev/zero")
