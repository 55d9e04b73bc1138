"""Vocabulary training: recipe, equal bytes, sampling, counts, and what goes wrong with real corpora."""

import gzip
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sentencepiece

from nlpdata.errors import DataError, NlpdataError, UsageError
from nlpdata.tokenizers import load_tokenizer
from nlpdata.tokenizers.training import train as training
from nlpdata.tokenizers.training.options import ALBERT_SYMBOLS
from nlpdata.tokenizers.training.sentencepiece import SentencePieceVocabularyTrainer
from nlpdata.tokenizers.training.train import train_tokenizer, writing
from tests.nlpdata.commands import contents
from tests.nlpdata.interruptions import run_failing, run_killed
from tests.shared import shared

ENGLISH = [
    "The quick brown fox jumps over the lazy dog (again).",
    "She sells sea shells by the sea-shore in 1999, 2000, and 2001.",
    'He said: "It costs £5 – or €6."',
    "Café Müller, naïve façade; ``quoted'' text.",
    "Another line of plain text for a small vocabulary.",
]
SCRIPTS = {
    "english": ENGLISH,
    "japanese": ["東京は日本の首都です。", "パンダはかわいいです。", "人口は１，０００人です。"],
    "chinese": ["北京是中国的首都。", "我喜欢学习语言！", "今天天气很好，我们去公园。"],
    "arabic": ["السلام عليكم ورحمة الله", "اللغة العربية جميلة جدًا"],
    "hindi": ["नमस्ते दुनिया", "हिन्दी एक सुन्दर भाषा है।"],
    "korean": ["안녕하세요 세계", "한국어는 재미있습니다."],
    "thai": ["สวัสดีชาวโลก", "ภาษาไทยไม่มีช่องว่าง"],
    "russian": ["Ёлка стоит в углу.", "Мой дядя самых честных правил"],
    "emoji": ["Hello 😀 👩\u200d👩 ❤️ 𝔸𝔹", "x² ½ ﬁ ™ ΣΑΣ"],
}


def write(path, lines, end="\n"):
    path.write_bytes(end.join([*lines, ""]).encode())
    return path


def words(lines, seed=0):
    """Lines of made-up words, of a vocabulary large enough for a few hundred pieces."""
    rng = random.Random(seed)
    stems = ["".join(rng.choice("aeioutnsrlkm") for _ in range(rng.randint(2, 8))) for _ in range(300)]
    return [" ".join(rng.choice(stems) for _ in range(rng.randint(3, 12))) for _ in range(lines)]


@pytest.fixture
def corpus(tmp_path):
    return write(tmp_path / "corpus.txt", ENGLISH * 4)


def train(corpus, output, **options):
    return train_tokenizer(str(corpus), output, **({"vocab_size": 60, "overwrite": True} | options))


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


# --- the recipe -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_recipe(corpus, tmp_path, kind, caplog):
    caplog.set_level("INFO", "nlpdata")
    result = train(corpus, tmp_path / "new" / "folder" / "spm", type=kind)
    assert [Path(f).name for f in result.files] == ["spm.model", "spm.vocab", "spm.tokenizer.json"]
    assert sorted(os.listdir(tmp_path / "new" / "folder")) == ["spm.model", "spm.tokenizer.json", "spm.vocab"]
    assert (result.path, result.vocab_size) == (result.files[0], 60)
    assert (result.lines_read, result.lines_used, result.lines_left_out) == (20, 20, 0)
    said = ["Training a ", "Wrote "]
    assert [line.startswith(start) for line, start in zip(caplog.messages, said, strict=True)] == [True, True]
    tokenizer = load_tokenizer(result.path)
    assert tokenizer.notes == []
    assert tokenizer.pieces(range(13)) == ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *ALBERT_SYMBOLS]
    assert tokenizer.options() == {"do_lower_case": True, "keep_accents": False, "digit_comma": True}
    assert tokenizer.ordinary_ids.tolist() == list(range(5, 60))
    model = sentencepiece.SentencePieceProcessor(model_file=result.path)
    assert (model.bos_id(), model.eos_id(), model.pad_id(), model.unk_id()) == (-1, -1, 0, 1)
    rows = [row.split("\t") for row in Path(result.files[1]).read_text(encoding="utf-8").splitlines()]
    assert [piece for piece, _ in rows] == tokenizer.pieces(range(60))
    assert [float(score) for _, score in rows] == pytest.approx([model.get_score(i) for i in range(60)], rel=1e-4)


def test_model_holds_no_path(corpus, tmp_path):
    result = train(corpus, tmp_path / "spm")
    for path in result.files:
        assert str(tmp_path).encode() not in Path(path).read_bytes()
        assert b"corpus" not in Path(path).read_bytes()


def test_nothing_is_printed(corpus, tmp_path, capfd):
    train(corpus, tmp_path / "spm")
    with pytest.raises(UsageError):
        train(corpus, tmp_path / "spm", vocab_size=5000)
    assert capfd.readouterr() == ("", "")


def test_user_symbols_are_pieces_of_their_own(corpus, tmp_path):
    tokenizer = load_tokenizer(train(corpus, tmp_path / "spm").path)
    assert tokenizer.pieces(tokenizer.encode(["(a)"])[0]) == ["▁", "(", "a", ")"]
    assert tokenizer.pieces(tokenizer.encode(["a-a"])[0])[-2:] == ["-", "a"]
    other = load_tokenizer(train(corpus, tmp_path / "own", user_defined_symbols=["qu", "ick"]).path)
    assert other.pieces([5, 6]) == ["qu", "ick"]
    assert other.pieces(other.encode(["quick"])[0]) == ["▁", "qu", "ick"]


def test_options_come_back_at_load(corpus, tmp_path):
    result = train(corpus, tmp_path / "spm", do_lower_case=False, keep_accents=True, seed=7)
    tokenizer = load_tokenizer(result.path)
    assert tokenizer.options() == {"do_lower_case": False, "keep_accents": True, "digit_comma": True}
    assert tokenizer.normalize([" Café  X"]) == ["Café X"]
    assert load_tokenizer(result.path, do_lower_case=True).normalize([" Café  X"]) == ["café x"]
    sidecar = json.loads(Path(result.files[2]).read_text())
    assert sidecar["training"]["seed"] == 7
    assert sidecar["sha256"] == tokenizer.sha256
    assert load_tokenizer(tmp_path).spec == tokenizer.spec  # the folder has one tokenizer, and a corpus


def test_sidecar_of_another_model(corpus, tmp_path):
    result = train(corpus, tmp_path / "spm")
    other = train(corpus, tmp_path / "other", vocab_size=55)
    Path(result.path).write_bytes(Path(other.path).read_bytes())
    with pytest.raises(DataError, match=r"spm\.tokenizer\.json was written for another spm\.model"):
        load_tokenizer(result.path)


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("options", [{}, {"do_lower_case": False, "keep_accents": True}], ids=["uncased", "cased"])
def test_training_and_use_normalise_alike(tmp_path, script, kind, options):
    path = write(tmp_path / "corpus.txt", SCRIPTS[script])
    result = train(path, tmp_path / "spm", type=kind, character_coverage=1.0, hard_vocab_limit=False, **options)
    tokenizer = load_tokenizer(result.path)
    ids, lengths = tokenizer.encode(SCRIPTS[script])
    assert (lengths > 0).all()
    assert tokenizer.unk_id not in ids


# --- equal bytes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_twice_the_same_bytes(tmp_path, kind):
    path = write(tmp_path / "corpus.txt", words(2000))
    first = train(path, tmp_path / "a", type=kind, vocab_size=150)
    second = train(path, tmp_path / "b", type=kind, vocab_size=150, workers=2)
    assert [sha256(f) for f in first.files] == [sha256(f) for f in second.files]


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs a system that can restrict a process to a core")
@pytest.mark.parametrize("kind", ["unigram", "bpe"])
def test_same_bytes_on_one_core(tmp_path, kind):
    path = write(tmp_path / "corpus.txt", words(2000))
    here = train(path, tmp_path / "a", type=kind, vocab_size=150)
    code = (
        "import os, sys; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
        "from nlpdata.tokenizers.training.train import train_tokenizer\n"
        "train_tokenizer(sys.argv[1], sys.argv[2], type=sys.argv[3], vocab_size=150)\n"
    )
    root = Path(training.__file__).resolve().parents[3]
    subprocess.run([sys.executable, "-c", code, path, tmp_path / "b", kind], check=True, cwd=root)
    assert sha256(here.path) == sha256(tmp_path / "b.model")


def test_why_the_number_of_threads_is_fixed(tmp_path, monkeypatch):
    # If this fails, SentencePiece's result no longer depends on its threads, and THREADS may go.
    from nlpdata.tokenizers.training import sentencepiece as sentencepiece_training

    path = write(tmp_path / "corpus.txt", words(2000))
    found = set()
    for threads in (1, 4, 16):
        monkeypatch.setattr(sentencepiece_training, "THREADS", threads)
        for name in ("a", "b"):
            found.add((threads, sha256(train(path, tmp_path / name, vocab_size=150).path)))
    assert len(found) == 3  # equal for equal threads
    assert len({digest for _, digest in found}) == 3


@pytest.mark.parametrize("end", ["\r\n", "\r"])
def test_line_ends_and_compression_do_not_matter(corpus, tmp_path, end):
    expected = train(corpus, tmp_path / "lf")
    (tmp_path / "crlf").mkdir()
    write(tmp_path / "crlf" / "corpus.txt", ENGLISH * 4, end)
    (tmp_path / "gz").mkdir()
    (tmp_path / "gz" / "corpus.txt.gz").write_bytes(gzip.compress(corpus.read_bytes()))
    for other in ("crlf/corpus.txt", "gz/corpus.txt.gz"):
        result = train(tmp_path / other, tmp_path / "other")
        assert [sha256(f) for f in result.files] == [sha256(f) for f in expected.files]


# --- sampling ---------------------------------------------------------------------------------------------------


def sampled(tmp_path, monkeypatch, lines, **options):
    """The lines that reach the trainer."""
    path = write(tmp_path / "many.txt", lines)
    taken = []

    class Recording(SentencePieceVocabularyTrainer):
        def train(self, lines):
            taken.extend(lines)
            return super().train(iter(taken))

    monkeypatch.setattr(training, "make_trainer", Recording)
    result = train(path, tmp_path / "spm", hard_vocab_limit=False, **options)
    return taken, result


def test_sample_is_exact_in_order_and_keyed(tmp_path, monkeypatch):
    lines = [f"{i} {word}" for i, word in enumerate(words(3000))]
    first, result = sampled(tmp_path, monkeypatch, lines, sample_lines=500)
    assert (result.lines_read, result.lines_used, result.lines_left_out) == (3000, 500, 2500)
    numbers = [int(line.split()[0]) for line in first]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 500
    # Evenly spread: 10 tenths of 50 +- 6 standard deviations.
    assert all(10 < sum(i // 300 == tenth for i in numbers) < 90 for tenth in range(10))
    assert sampled(tmp_path, monkeypatch, lines, sample_lines=500)[0] == first
    assert sampled(tmp_path, monkeypatch, lines, sample_lines=500, seed=2)[0] != first
    assert len(sampled(tmp_path, monkeypatch, lines, sample_lines=2999)[0]) == 2999
    assert len(sampled(tmp_path, monkeypatch, lines, sample_lines=3000)[0]) == 3000


def test_sample_does_not_depend_on_chunks_or_workers(tmp_path, monkeypatch):
    path = write(tmp_path / "many.txt", [line + "\n" for line in words(3000)])  # a document a line
    expected = train(path, tmp_path / "a", sample_lines=700, vocab_size=100)
    monkeypatch.setattr(training, "_PORTION_BYTES", 20_000)
    for workers in (1, 3):
        result = train(path, tmp_path / "b", sample_lines=700, vocab_size=100, workers=workers)
        assert [sha256(f) for f in result.files] == [sha256(f) for f in expected.files]
        assert result.lines_read == 3000


def test_progress_is_in_bytes_of_the_corpus(tmp_path, monkeypatch):
    lines = write(tmp_path / "a.txt", words(400))
    (packed := tmp_path / "b.txt.gz").write_bytes(gzip.compress(lines.read_bytes()))
    shown = {}

    class Noted(training.Progress):
        def __init__(self, stage, total, quiet):
            super().__init__(stage, total, quiet)
            assert not quiet
            self.done = shown[stage, total] = []

        def __call__(self, done, counted=None):
            self.done.append(done)

    monkeypatch.setattr(training, "Progress", Noted)
    train(tmp_path / "*", tmp_path / "tok", vocab_size=150, workers=1, progress=True)
    total = lines.stat().st_size + packed.stat().st_size
    assert {name: done[-1] for name, done in shown.items()} == {
        ("counting lines", total): total,
        ("reading lines", total): total,
    }


def test_input_that_changes_is_noticed(tmp_path, monkeypatch):
    path = write(tmp_path / "corpus.txt", words(100))
    count = training._count

    def count_then_append(*args):
        counts = count(*args)
        with open(path, "a") as file:
            file.write("one more line\n")
        return counts

    monkeypatch.setattr(training, "_count", count_then_append)
    with pytest.raises(DataError, match="changed"):
        train(path, tmp_path / "spm")
    assert not (tmp_path / "spm.model").exists()


# --- lines that cannot be used ----------------------------------------------------------------------------------


def test_counts(tmp_path):
    long = "a" * 4193
    lines = [*ENGLISH, long, "a" * 4192, long + " b", "nul\0in\0side", "\u0301", "x" * 5000]
    result = train(write(tmp_path / "c.txt", lines), tmp_path / "spm", hard_vocab_limit=False)
    assert (result.lines_read, result.lines_used, result.lines_too_long) == (11, 7, 3)
    assert (result.lines_empty, result.lines_invalid, result.nul_characters) == (1, 0, 2)


def test_length_is_that_of_the_normalised_line_in_bytes(tmp_path):
    path = write(tmp_path / "c.txt", [*ENGLISH, "é" * 4000, "東" * 1397, "東" * 1398, "a" + " " * 9000 + "b"])
    assert train(path, tmp_path / "spm", hard_vocab_limit=False).lines_too_long == 1
    assert train(path, tmp_path / "spm", hard_vocab_limit=False, keep_accents=True).lines_too_long == 2


def test_a_longest_line_is_trained_on(tmp_path):
    # SentencePiece's own limit, which drops lines without a word, is not narrower than ours.
    lines = [*ENGLISH, ("ж" * 2095 + " " + "q")]
    assert len(lines[-1].encode()) == 4192
    tokenizer = load_tokenizer(
        train(write(tmp_path / "c.txt", lines), tmp_path / "spm", hard_vocab_limit=False, character_coverage=1.0).path
    )
    assert tokenizer.unk_id not in tokenizer.encode(["ж"])[0]


def test_invalid_utf8(tmp_path):
    path = tmp_path / "c.txt"
    path.write_bytes("\n".join(ENGLISH).encode() + b"\nbad \xff line\n")
    with pytest.raises(DataError, match=r"c\.txt"):
        train(path, tmp_path / "spm")
    result = train(path, tmp_path / "spm", invalid_utf8="skip")
    assert (result.lines_read, result.lines_used, result.lines_invalid) == (6, 5, 1)
    assert train(path, tmp_path / "spm", invalid_utf8="replace").lines_used == 6


def test_json_lines_with_surrogates_and_line_feeds(tmp_path):
    path = tmp_path / "c.jsonl"
    rows = [{"body": line} for line in ENGLISH] + [{"body": "two\nlines"}]
    path.write_text("\n".join(json.dumps(row) for row in rows) + '\n{"body": "lone \\ud800 one"}\n')
    result = train(path, tmp_path / "spm", text_key="body", invalid_utf8="replace")
    assert result.lines_used == len(ENGLISH) + 3  # a line feed in JSON text ends a line
    load_tokenizer(result.path).encode(["lone \ud800 one"])


def test_weights_are_said_to_have_no_effect(corpus, tmp_path):
    expected = train(corpus, tmp_path / "a")
    result = train(f"{corpus}@2", tmp_path / "b")
    assert any("no effect" in warning for warning in result.warnings)
    assert sha256(result.path) == sha256(expected.path)


def test_signs_that_are_lost_with_accents_are_reported(tmp_path):
    path = write(tmp_path / "ja.txt", [f"サービス {i} の プログラム" for i in range(60)])
    options = {"hard_vocab_limit": False}
    for kind in ("unigram", "wordpiece"):
        (warning,) = train(path, tmp_path / kind, type=kind, **options).warnings
        assert "Keep them with keep_accents" in warning
    assert train(path, tmp_path / "kept", keep_accents=True, **options).warnings == []


# --- errors -----------------------------------------------------------------------------------------------------


def test_vocabulary_too_large(corpus, tmp_path):
    with pytest.raises(UsageError, match=r"at most (\d+) pieces.*vocab_size=\1, or hard_vocab_limit=False") as error:
        train(corpus, tmp_path / "spm", vocab_size=30000)
    limit = int(str(error.value).split("at most ")[1].split()[0])
    assert train(corpus, tmp_path / "spm", vocab_size=limit).vocab_size == limit
    assert train(corpus, tmp_path / "spm", vocab_size=30000, hard_vocab_limit=False).vocab_size <= limit


@pytest.mark.parametrize("kind", ["unigram", "wordpiece"])
def test_why_there_is_too_little_text_for_a_vocabulary(tmp_path, kind):
    """Where much of the corpus was left out, more text is not what helps most."""
    lines = words(300)
    options = {"vocab_size": 3000, "accept_loss": True, "type": kind}
    long = write(tmp_path / "long.txt", [*lines, *(" ".join(lines) for _ in range(60))])
    with pytest.raises(
        UsageError, match=r"what is left .* without the 60 of 360 lines that are longer than max_line_bytes=4192 yields"
    ):
        train(long, tmp_path / "spm", **options)
    (tmp_path / "latin.txt").write_bytes("\n".join(lines).encode() + b"\n\xe9t\xe9" * 60 + b"\n")
    with pytest.raises(
        UsageError, match=r"without the 60 of 360 lines that are not UTF-8 yields at most \d+ pieces\. Convert"
    ):
        train(tmp_path / "latin.txt", tmp_path / "spm", **options, invalid_utf8="skip")
    with pytest.raises(UsageError, match=r"a sample of sample_lines=50 of 300 lines yields at most \d+ pieces\. Raise"):
        train(write(tmp_path / "a.txt", lines), tmp_path / "spm", **options, sample_lines=50)
    with pytest.raises(UsageError, match=r"this corpus yields at most \d+ pieces\. Use more text"):
        train(tmp_path / "a.txt", tmp_path / "spm", **options)


def test_vocabulary_too_small(corpus, tmp_path):
    with pytest.raises(UsageError, match=r"alone are 13: <pad> <unk> \[CLS\]"):
        train(corpus, tmp_path / "spm", vocab_size=13)
    with pytest.raises(UsageError, match=r"single characters .* alone are (\d+)\. Use vocab_size=\1 or more"):
        train(corpus, tmp_path / "spm", vocab_size=20)


@pytest.mark.parametrize("content", ["", "\n\n \n", "\u3000\n"])
def test_empty_input(tmp_path, content):
    path = tmp_path / "c.txt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError, match="holds no text"):
        train(path, tmp_path / "spm")


def test_no_usable_line(tmp_path):
    with pytest.raises(DataError, match=r"2 of 2 lines are longer than 4192 bytes.*max_line_bytes"):
        train(write(tmp_path / "c.txt", ["a" * 5000, "b" * 5000]), tmp_path / "spm")
    with pytest.raises(DataError, match="empty after normalisation"):
        train(write(tmp_path / "d.txt", ["\u0301"]), tmp_path / "spm")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"type": "unigrm"}, "Did you mean unigram"),
        ({"vocab_size": 0}, r"vocab_size must be from 1 to 10000000\. Received: 0"),
        ({"sample_lines": 0}, r"sample_lines must be at least 1\. Received: 0"),
        ({"max_line_bytes": 5}, r"max_line_bytes must be from 10 to .*Received: 5"),
        ({"character_coverage": 0.5}, r"character_coverage must be from 0\.98 to 1\. Received: 0\.5"),
        ({"user_defined_symbols": ["a", "a"]}, "'a' is given twice"),
        ({"user_defined_symbols": ["[CLS]"]}, "special piece"),
        ({"user_defined_symbols": "(,)"}, "must be a list"),
        ({"user_defined_symbols": [""]}, "is empty"),
    ],
)
def test_wrong_options(corpus, tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        train(corpus, tmp_path / "spm", **options)


def test_outputs_that_exist(corpus, tmp_path):
    (tmp_path / "spm.vocab").write_text("precious")
    with pytest.raises(UsageError, match=r"Already there: .*spm\.vocab\. Use overwrite=True"):
        train(corpus, tmp_path / "spm.model", overwrite=False)
    with pytest.raises(UsageError, match=r"spm\.tokenizer\.json does not say that it wrote .*spm\.vocab"):
        train(corpus, tmp_path / "spm.model", overwrite=True)
    assert (tmp_path / "spm.vocab").read_text() == "precious"
    assert not (tmp_path / "spm.model").exists()
    (tmp_path / "spm.vocab").unlink()
    assert train(corpus, tmp_path / "spm.model", overwrite=False).path == str(tmp_path / "spm.model")
    assert train(corpus, tmp_path / "spm.model", seed=1).path == str(tmp_path / "spm.model")


def test_a_folder_in_the_way(corpus, tmp_path):
    (tmp_path / "spm.model").mkdir()
    (tmp_path / "spm.tokenizer.json").write_text('{"sha256": ""}')
    with pytest.raises(UsageError, match=r"spm\.model is a folder"):
        train(corpus, tmp_path / "spm", overwrite=True)


@pytest.mark.parametrize(("how", "old"), [("killed", False), ("killed", True), ("failing", True)])
def test_interrupted_at_any_file_operation(tmp_path, monkeypatch, how, old):
    """Readers get the old tokenizer, the new one or a refusal; the same command completes it and leaves nothing else."""
    text = write(tmp_path / "text.txt", words(60))
    options = {"type": "wordpiece", "vocab_size": 40}
    train(text, tmp_path / "new" / "v", **options)
    train(text, tmp_path / "old" / "v", **options | {"vocab_size": 50, "do_lower_case": False})
    whole = [contents(tmp_path / name) for name in ("new", "old")]
    out = tmp_path / "out"
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)

    def command():
        try:
            train(text, out / "v", **options, overwrite=old)
        except NlpdataError as error:
            return error.exit_code
        return 0

    for step in range(100):
        shutil.rmtree(out, ignore_errors=True)
        if old:
            shutil.copytree(tmp_path / "old", out)
        code, interrupted = (run_killed if how == "killed" else run_failing)(command, step)
        assert code in ((None,) if interrupted and how == "killed" else (0, 1))
        try:
            load_tokenizer(out / "v.txt")
            assert contents(out) in whole
        except NlpdataError:
            assert interrupted
        if not interrupted:
            break
        done = contents(out) == whole[0] and not old and ".v.tokenizer.committing" not in os.listdir(out)
        assert command() == (2 if done else 0), step
        assert contents(out) == whole[0]
        assert sorted(os.listdir(out)) == sorted(whole[0])
    assert not interrupted
    assert step > 12


def test_output_that_cannot_be_written(corpus, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match=r"spm\.model: cannot be written"):
        train(corpus, tmp_path / "file" / "spm")
    with pytest.raises(UsageError, match="must be a path and a file name"):
        train(corpus, tmp_path)


def test_failure_leaves_the_old_files(corpus, tmp_path, monkeypatch):
    result = train(corpus, tmp_path / "spm")
    before = [sha256(f) for f in result.files]
    with pytest.raises(UsageError):
        train(corpus, tmp_path / "spm", vocab_size=9999)

    def full_disk(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writing, "write_durably", full_disk)
    with pytest.raises(DataError, match="No space left"):
        train(corpus, tmp_path / "spm", vocab_size=55)
    assert [sha256(f) for f in result.files] == before
    assert sorted(os.listdir(tmp_path)) == ["corpus.txt", "spm.model", "spm.tokenizer.json", "spm.vocab"]


def test_no_match(tmp_path):
    with pytest.raises(UsageError):
        train(tmp_path / "*.txt", tmp_path / "spm")


@pytest.mark.heavy
@pytest.mark.slow
def test_real_text_in_two_processes(tmp_path, monkeypatch):
    """Japanese and English handbooks: the same model from one process and from several, and no unknown Latin text."""
    files = [str(shared("data", "ospl", f"debian-handbook.{language}.txt.gz")) for language in ("en-US", "ja-JP")]
    first = train_tokenizer(files, tmp_path / "a", vocab_size=1500, sample_lines=3000)
    second = train_tokenizer(files, tmp_path / "b", vocab_size=1500, sample_lines=3000, workers=2)
    assert [sha256(f) for f in first.files] == [sha256(f) for f in second.files]
    tokenizer = load_tokenizer(first.path)
    ids, _ = tokenizer.encode(["The Debian Administrator's Handbook", "日本語のハンドブック"])
    assert tokenizer.unk_id not in ids
