"""train-tokenizer --type wordpiece: BERT's layout, nothing unreachable, the same text the same bytes."""

import gzip
import hashlib
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.text.bert import basic_tokens
from nlpdata.tokenizers import load_tokenizer, training, wordpiece_training
from nlpdata.tokenizers.training import TrainingOptions, train_tokenizer
from nlpdata.tokenizers.wordpiece_training import WordPieceVocabularyTrainer
from tests.shared import shared

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NOUNS = [
    "house",
    "mouse",
    "grouse",
    "river",
    "giver",
    "driver",
    "quiver",
    "walking",
    "talking",
    "stalking",
    "naïve",
    "Ärger",
    "中国",
    "国",
    "café",
]
LINES = [f"{NOUNS[i % 15]} {NOUNS[i * 7 % 15]}, {NOUNS[i * i % 15]} [{i % 13}] (it's)!" for i in range(600)]


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    return tmp_path / "in.txt"


def train(lines=LINES, unused_tokens=0, **options):
    options = {"type": "wordpiece", "vocab_size": 120, **options}
    trained = WordPieceVocabularyTrainer(TrainingOptions(**options), unused_tokens).train(iter(lines))
    return trained.files[".txt"].decode().split("\n")[:-1]


def test_layout():
    entries = train(unused_tokens=3)
    assert entries[:8] == [*SPECIAL, "[unused0]", "[unused1]", "[unused2]"]
    assert len(entries) == len(set(entries)) == 120
    singles = [e for e in entries[8:] if len(e.removeprefix("##")) == 1]
    assert entries[8 : 8 + len(singles)] == singles
    plain = [e for e in singles if not e.startswith("##")]
    assert plain == sorted(plain)
    # What always stands alone is not spent an entry on inside words.
    assert not {"##中", "##国", "##,", "##]"} & set(entries)
    assert {"中", "国", ",", "]", "a", "##a", "1", "##1"} <= set(entries)
    assert "house" in entries


def test_files_load_with_the_options_of_training(corpus, tmp_path):
    result = train_tokenizer(
        str(corpus), tmp_path / "tok" / "wp", type="wordpiece", vocab_size=130, do_lower_case=False, keep_accents=True
    )
    assert result.path == str(tmp_path / "tok" / "wp.txt")
    assert result.vocab_size == 130
    assert (result.lines_used, result.lines_read) == (600, 600)
    for path in (tmp_path / "tok", result.path):
        t = load_tokenizer(path)
        assert (t.kind, t.vocab_size, t.notes) == ("wordpiece", 130, [])
        assert t.options() == {"do_lower_case": False, "keep_accents": True}
    sidecar = json.loads((tmp_path / "tok" / "wp.tokenizer.json").read_text())
    assert sidecar["sha256"] == hashlib.sha256(Path(result.path).read_bytes()).hexdigest() == t.sha256
    ids, _ = t.encode(LINES)
    assert t.unk_id not in ids
    assert len(set(ids.tolist()) & {t.pad_id, t.cls_id, t.sep_id, t.mask_id}) == 0


@pytest.mark.parametrize(("lower", "keep"), [(True, False), (True, True), (False, True), (False, False)])
def test_every_covered_word_can_be_spelled(lower, keep, tmp_path):
    options = {"do_lower_case": lower, "keep_accents": keep}
    entries = train(character_coverage=1.0, **options)
    (tmp_path / "vocab.txt").write_text("\n".join(entries), encoding="utf-8")
    t = load_tokenizer(tmp_path, **options)
    # Words that were never seen, from characters that were.
    characters = sorted({c for line in LINES for token in basic_tokens(line, **options) for c in token})
    lines = ["".join(characters), "".join(reversed(characters)), *LINES]
    assert t.unk_id not in t.encode(lines)[0]


def test_the_same_bytes_in_every_process(corpus, tmp_path):
    """Other hash seeds, other numbers of workers; huggingface/tokenizers#1794 gives another file every time."""
    code = (
        "import sys; from nlpdata.tokenizers import training; training._CHUNK_BYTES = 9000\n"
        "training.train_tokenizer(sys.argv[1], sys.argv[2], type='wordpiece', vocab_size=150, workers=int(sys.argv[3]))"
    )
    found = set()
    for i, workers in enumerate((1, 2, 3)):
        output = tmp_path / f"wp{i}"
        environment = os.environ | {"PYTHONHASHSEED": str(i)}
        root = Path(training.__file__).parents[2]
        subprocess.run(
            [sys.executable, "-c", code, str(corpus), str(output), str(workers)], env=environment, cwd=root, check=True
        )
        found.add(output.with_suffix(".txt").read_bytes())
    assert len(found) == 1


def test_neither_the_order_of_lines_nor_counting_in_parts_matters(monkeypatch):
    entries = train()
    assert train(reversed(LINES)) == entries
    monkeypatch.setattr(wordpiece_training, "_MAX_WORDS", 3)
    monkeypatch.setattr(wordpiece_training, "_LINES", 7)
    assert train() == entries


def test_counts_are_of_basic_tokens():
    trainer = WordPieceVocabularyTrainer(TrainingOptions(type="wordpiece"))
    expected = Counter(token for line in LINES for token in basic_tokens(line))
    assert trainer._count_tokens(iter(LINES)) == expected
    assert trainer._count_tokens(iter(["a" * 201, "a" * 200, "", "\0"])) == {"a" * 200: 1}


def test_frequent_words_are_merged_first():
    """The counts reach the learner: the same distinct words, other counts."""
    for often, seldom in (("abab", "cdcd"), ("cdcd", "abab")):
        entries = train([often] * 50 + [seldom] * 2, vocab_size=5 + 8 + 2, character_coverage=1.0)
        assert set(entries[13:]) <= {often[:2], "##" + often[:2], often}


def test_the_signs_of_the_learner_are_characters_like_others():
    lines = ["a\u2581b c\u2585d e\u2047f g\ud800h", *LINES]
    entries = train(lines, vocab_size=140, character_coverage=1.0)
    assert {"\u2581", "##\u2581", "\u2585", "\u2047"} <= set(entries)
    assert not any(len(e) > 1 and "\u2581" in e.removeprefix("##")[1:] for e in entries)
    assert len(set(entries)) == 140


def test_rare_characters_are_left_out_below_full_coverage():
    lines = ["common words here"] * 2000 + ["ž"]
    assert "ž" in train(lines, keep_accents=True, character_coverage=1.0, vocab_size=40)
    assert "ž" not in train(lines, keep_accents=True, vocab_size=40)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"vocab_size": 5}, "received 5"),
        ({"vocab_size": 30}, r"single characters of this corpus alone are \d+"),
        ({"vocab_size": 3000}, r"at most \d+ entries"),
        ({"character_coverage": 0.5}, "0.98 to 1"),
        ({"user_defined_symbols": ("[DOC]",)}, r"\[DOC\]"),
    ],
)
def test_refused(options, said):
    with pytest.raises(UsageError, match=said):
        train(**options)


def test_as_many_as_there_are_without_a_hard_limit():
    entries = train(vocab_size=3000, hard_vocab_limit=False)
    assert 120 < len(entries) < 1000
    with pytest.raises(UsageError, match=f"at most {len(entries)} entries"):
        train(vocab_size=3000)
    assert len(train(vocab_size=len(entries))) == len(entries)


def test_nothing_to_learn_from():
    with pytest.raises(DataError, match="no word"):
        train(["\u200b", " ", ""])
    assert train(["中国。"], vocab_size=8, character_coverage=1.0) == [*SPECIAL, "。", "中", "国"]


@pytest.mark.slow
def test_real_text(tmp_path):
    """English and Chinese together; tokens a word on lines that were not trained on."""
    lines = []
    for name in ("imdb_unsup_dev_3000", "debian-handbook.zh-CN"):
        with gzip.open(shared("data", "ospl", f"{name}.txt.gz"), "rt", encoding="utf-8") as file:
            lines += [line for line in file if line.strip()][:8000]
    train_lines = [line for i, line in enumerate(lines) if i % 10]
    (tmp_path / "vocab.txt").write_text("\n".join(train(train_lines, vocab_size=8000)), encoding="utf-8")
    t = load_tokenizer(tmp_path, do_lower_case=True)
    held_out = lines[::10]
    ids, _ = t.encode(held_out)
    words = sum(len(basic_tokens(line)) for line in held_out)
    assert ids.size / words < 1.12
    assert (ids == t.unk_id).mean() < 1e-3
