"""Text that a command would lose: numbers, cause and remedy; most of it lost is an error until that is confirmed."""

import itertools
import json
import random

import numpy as np
import pytest

import nlpdata
from nlpdata.errors import DataError
from nlpdata.records.contract import read_meta
from nlpdata.text import loss
from nlpdata.tokenizers import count_unknown, load_tokenizer
from nlpdata.tokenizers.training.train import train_tokenizer
from tests.nlpdata.commands import contents, create_arguments, run_command, visible
from tests.nlpdata.conftest import random_sentences

THAI = "สุนัขจิ้งจอกสีน้ำตาล กระโดดข้าม สุนัขขี้เกียจ"


def a_document_a_line(path, lines=40, sentences=25):
    texts = random_sentences(lines * sentences, seed=2)
    path.write_text("\n".join(" ".join(texts[i * sentences : (i + 1) * sentences]) for i in range(lines)) + "\n")
    return path


@pytest.mark.parametrize("objective", ["sop", "nsp"])
def test_a_document_a_line_is_refused_and_finished_parts_are_kept(tmp_path, tiny_model, capsys, objective, monkeypatch):
    path = a_document_a_line(tmp_path / "a.txt")
    if objective == "nsp":
        path.write_text(path.read_text().replace("\n", "\n\n"))
    command = create_arguments(path, tmp_path / "out" / "x.tfrecord", tiny_model, "--objective", objective)
    refused = run_command(capsys, *command)
    assert refused.code == 1
    assert "its lines have" in refused.err
    assert "Is each line a whole document?" in refused.err
    assert "most of the text would be lost" in refused.err
    assert "tokens were cut off at --max-seq-length 64" in refused.err
    assert "--accept-loss" in refused.err
    assert visible(tmp_path / "out") == []
    monkeypatch.setattr("nlpdata.pretraining.stages.build_examples", None)  # no text is tokenized again
    accepted = run_command(capsys, *command, "--accept-loss")
    assert accepted.code == 0, accepted.err
    assert "its finished parts are used" in accepted.err
    assert "warning: " in accepted.err
    monkeypatch.undo()
    counters = read_meta(tmp_path / "out" / "x.meta.json")["counters"]
    assert counters["tokens_truncated"] * 2 > counters["tokens"]
    assert run_command(capsys, *command, "--accept-loss", "--overwrite").code == 0
    direct = create_arguments(path, tmp_path / "direct" / "x.tfrecord", tiny_model, "--objective", objective)
    assert run_command(capsys, *direct, "--accept-loss").code == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "direct")


def test_the_cause_is_the_length_where_lines_are_sentences(tmp_path, tiny_model, capsys):
    path = tmp_path / "a.txt"
    path.write_text("\n".join(random_sentences(400, seed=2)))
    command = create_arguments(path, tmp_path / "x.tfrecord", tiny_model, length=16)
    made = run_command(capsys, *command)
    assert made.code == 0
    warning = next(line for line in made.err.splitlines() if "tokens were cut off at --max-seq-length 16" in line)
    assert "pairs are longer than that. Use a greater --max-seq-length" in warning
    assert "whole document" not in warning


def test_objective_none_cuts_nothing(tmp_path, tiny_model, capsys):
    command = create_arguments(a_document_a_line(tmp_path / "a.txt"), tmp_path / "x.tfrecord", tiny_model)
    assert run_command(capsys, *command, "--objective", "none").code == 0
    assert read_meta(tmp_path / "x.meta.json")["counters"]["tokens_truncated"] == 0


def foreign(path, lines=60):
    path.write_text("".join(f"{THAI} {i}\n{THAI}\n\n" for i in range(lines)))
    return path


def test_a_foreign_script(tmp_path, tiny_model, capsys):
    command = create_arguments(foreign(tmp_path / "a.txt"), tmp_path / "out" / "x.tfrecord", tiny_model)
    refused = run_command(capsys, *command)
    assert refused.code == 1
    assert "tokens are unknown to the tokenizer" in refused.err
    assert "of another language" in refused.err
    accepted = run_command(capsys, *command, "--accept-loss")
    assert accepted.code == 0
    counters = read_meta(tmp_path / "out" / "x.meta.json")["counters"]
    assert counters["tokens_unknown"] * 2 > counters["tokens"]
    shown = next(line for line in accepted.out.splitlines() if "unknown to the tokenizer" in line)
    assert shown.split()[-1].replace(",", "") == str(counters["tokens_unknown"])


def test_counts_of_unknown_tokens(tiny_model, tmp_path):
    tokenizer = load_tokenizer(tiny_model)
    ids, _ = tokenizer.encode(["aa bb", f"aa {THAI}", "aa"])
    pieces = tokenizer.pieces(ids)
    expected, alone = pieces.count("<unk>"), list(itertools.pairwise(pieces)).count(("▁", "<unk>"))
    assert min(expected, alone) >= 3
    assert count_unknown(ids, tokenizer) == expected + alone
    assert count_unknown(ids[:0], tokenizer) == 0
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\naa\n")
    words = load_tokenizer(tmp_path / "vocab.txt", do_lower_case=True)
    assert count_unknown(words.encode(["aa bb aa cc"])[0], words) == 2
    assert count_unknown(np.array([1, 5, 1]), words) == 2


def test_little_text_is_reported_and_never_refused():
    few = {"tokens": 1000, "tokens_unknown": 900, "sentences": 9}
    loss.refuse([loss.unknown_tokens(few, {})], False, "")
    assert loss.warnings([loss.unknown_tokens(few, {})])
    with pytest.raises(
        DataError, match=r"most of the text would be lost\. 900 of 1,000 tokens are unknown .*\(90\.0%\)"
    ):
        loss.refuse([loss.unknown_tokens(few | {"sentences": 10}, {})], False, "")


def test_losses_of_one_text_add_up():
    counters = {"tokens": 1000, "tokens_unknown": 260, "tokens_truncated": 250, "sentences": 50}
    losses = [loss.unknown_tokens(counters, {}), loss.cut_tokens(counters, 64, lambda mean: f"{mean:.0f} a sentence")]
    with pytest.raises(DataError, match=r"260 of 1,000 .*\. 250 of 1,000 .*: 20 a sentence\. Kept"):
        loss.refuse(losses, False, "Kept")
    loss.refuse(losses, True, "Kept")
    half = [loss.unknown_tokens(counters | {"tokens_unknown": 500}, {})]
    loss.refuse(half, False, "half is not most")
    assert len(loss.warnings(losses)) == 1, "a quarter cut is usual"


@pytest.fixture
def rows(tmp_path):
    def write(texts):
        path = tmp_path / "a.jsonl"
        path.write_text("\n".join(json.dumps({"text": text, "label": i % 2}) for i, text in enumerate(texts)))
        return path

    return write


def test_fine_tuning_texts_that_are_cut_or_unknown(tmp_path, tiny_model, rows, capsys):
    texts = [" ".join(random_sentences(30, seed=i)) for i in range(40)]
    base = ("create-finetuning", "--task", "classification", "--tokenizer", tiny_model, "--workers", "1")
    command = (*base, "--input", rows(texts), "--output", tmp_path / "cut")
    refused = run_command(capsys, *command)
    assert refused.code == 1
    assert "train: 40 of 40 texts lose more than half of their tokens at --max-seq-length 128" in refused.err
    assert visible(tmp_path / "cut") == []
    accepted = run_command(capsys, *command, "--accept-loss")
    assert accepted.code == 0
    assert "its finished parts are used" in accepted.err
    assert "warning: train: 40 of 40 texts" in accepted.err
    chosen = run_command(capsys, *command, "--max-seq-length", "128", "--output", tmp_path / "chosen")
    assert chosen.code == 0, "the length was given"
    assert "warning: train: 40 of 40 texts" in chosen.err
    whole = run_command(capsys, *command, "--max-seq-length", "2048", "--output", tmp_path / "whole")
    assert (whole.code, whole.err) == (0, "")

    foreign_rows = rows([f"{THAI} {i}" for i in range(40)])
    command = (*base, "--input", foreign_rows, "--output", tmp_path / "thai")
    refused = run_command(capsys, *command)
    assert refused.code == 1
    assert "train: " in refused.err
    assert "tokens are unknown" in refused.err
    assert run_command(capsys, *command, "--accept-loss").code == 0
    counters = read_meta(tmp_path / "thai" / "meta.json")["splits"]["train"]["counters"]
    assert counters["tokens_unknown"] * 2 > counters["tokens"]


def test_answers_that_no_window_holds(tmp_path, tiny_model):
    draw = random.Random(0)
    paragraphs = []
    for i in range(20):
        context = " ".join(random_sentences(8, seed=100 + i))
        start = draw.randrange(0, 20)
        answer = context[start : start + 250]
        question = {"id": str(i), "question": "aa bb", "answers": [{"text": answer, "answer_start": start}]}
        paragraphs.append({"context": context, "qas": [question]})
    path = tmp_path / "q.json"
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    options = {"task": "squad", "max_seq_length": 40, "max_query_length": 8, "doc_stride": 8, "workers": 1}
    with pytest.raises(DataError, match=r"train: 20 of 20 answers are in no window"):
        nlpdata.create_finetuning(str(path), str(tmp_path / "out"), tiny_model, **options)
    result = nlpdata.create_finetuning(str(path), str(tmp_path / "out"), tiny_model, accept_loss=True, **options)
    assert read_meta(result.meta)["splits"]["train"]["counters"]["answers_cut"] == 20
    assert (nlpdata.open_records(result.files["train"])[:]["is_impossible"] == 1).all()


@pytest.mark.parametrize("kind", ["unigram", "wordpiece"])
def test_characters_that_the_vocabulary_lacks(tmp_path, kind):
    text = [f"{line} ½" for line in random_sentences(300, seed=3)]
    text += ["The ж and the ю"] * 20 + ["狐"]
    (tmp_path / "a.txt").write_text("\n".join(text))
    options = {"type": kind, "vocab_size": 120, "hard_vocab_limit": False}
    rare = train_tokenizer(tmp_path / "a.txt", tmp_path / "rare", character_coverage=0.98, **options)
    (warning,) = rare.warnings
    assert "'ж' (20), 'ю' (20)" in warning
    assert "Raise character_coverage (now 0.98)" in warning
    full = train_tokenizer(tmp_path / "a.txt", tmp_path / "full", character_coverage=1.0, **options)
    assert full.warnings == []
    assert full.characters_not_covered == 0
    assert rare.characters == full.characters > 1000
    assert rare.characters_not_covered >= 41
    tokenizer = load_tokenizer(rare.path)
    assert tokenizer.unk_id in tokenizer.encode(["ж"])[0]
    assert tokenizer.unk_id not in load_tokenizer(full.path).encode(["ж ю 狐 ½"])[0]


def test_lines_that_training_leaves_out(tmp_path, capsys):
    path = a_document_a_line(tmp_path / "a.txt", lines=40, sentences=120)
    path.write_text(path.read_text() + "\n".join(random_sentences(30, seed=9)))
    command = ("train-tokenizer", "--input", path, "--output", tmp_path / "out" / "spm", "--vocab-size", "60")
    refused = run_command(capsys, *command)
    assert refused.code == 1
    assert "characters are in lines of more than 4192 bytes" in refused.err
    assert visible(tmp_path / "out") == []
    accepted = run_command(capsys, *command, "--accept-loss", "--type", "wordpiece")
    assert accepted.code == 0, accepted.err
    lines = path.read_text().split("\n")
    long, total = (sum(map(len, each)) for each in ([line for line in lines if len(line) > 4192], lines))
    assert f"{long:,} of {total:,} characters are in lines of more than 4192 bytes" in accepted.err


def test_a_length_below_that_of_sentences_is_a_choice(tmp_path, tiny_model, capsys):
    (tmp_path / "a.txt").write_text("\n".join(random_sentences(200, seed=1)))
    outcome = run_command(capsys, *create_arguments(tmp_path / "a.txt", tmp_path / "x.tfrecord", tiny_model, length=32))
    assert outcome.code == 0
    counters = read_meta(tmp_path / "x.meta.json")["counters"]
    assert counters["tokens_truncated"] * 2 > counters["tokens"]
    assert "tokens were cut off at --max-seq-length 32" in outcome.err
