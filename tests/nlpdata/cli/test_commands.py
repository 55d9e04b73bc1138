"""The command line: wrong options, older spellings, tokenizers, what follows `--`, exit codes."""

import json
import subprocess
import sys

import pytest
import sentencepiece
import typer

from nlpdata import open_records
from nlpdata.cli.parsing import ParserError
from tests.nlpdata.commands import contents, create_arguments, run_command, visible
from tests.nlpdata.conftest import random_sentences


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    sentences = random_sentences(24)
    path.write_text("\n\n".join("\n".join(sentences[at : at + 4]) for at in range(0, 24, 4)))
    return path


@pytest.fixture
def create(tmp_path, text, tiny_model, capsys):
    def run(*more, output="out/x.tfrecord"):
        return run_command(capsys, *create_arguments(text, tmp_path / output, tiny_model, *more))

    return run


# ------------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--nsp-scope", "file"), ("--nsp-scope", "--objective nsp", "--objective sop")),
        (("--pack-across-documents",), ("--pack-across-documents", "--objective none", "--objective sop")),
        (("--eval-fraction", "1"), ("--eval-fraction", "[0, 1)", "1.0")),
        (("--eval-fraction", "-0.1"), ("--eval-fraction", "-0.1")),
        (("--eval-fraction", "nan"), ("--eval-fraction", "nan")),
        (("--max-predictions-per-seq", "65"), ("--max-predictions-per-seq", "from 1 to 64", "65")),
        (("--max-predictions-per-seq", "0"), ("--max-predictions-per-seq", "from 1 to 64", "0")),
        (("--max-seq-length", "4"), ("--max-seq-length", "8", "4")),
        (("--masked-lm-prob", "0"), ("--masked-lm-prob", "(0, 1)", "0.0")),
        (("--masked-lm-prob", "15"), ("--masked-lm-prob", "(0, 1)", "15")),
        (("--short-seq-prob", "1.5"), ("--short-seq-prob", "[0, 1]", "1.5")),
        (("--max-ngram", "0"), ("--max-ngram", "0")),
        (("--chunk-size", "0"), ("--chunk-size must be at least 500. Received: 0.",)),
        (("--chunk-size", "499"), ("--chunk-size must be at least 500. Received: 499.",)),
        (("--dupe-factor", "0"), ("--dupe-factor", "0")),
        (("--num-shards", "0"), ("--num-shards", "from 1 to 10000", "0")),
        (("--workers", "0"), ("--workers", "from 1 to 1024", "0")),
        (("--limit-documents", "0"), ("--limit-documents", "at least 1", "0")),
        (("--seed", "-1"), ("--seed", "-1")),
        (("--seed", "one"), ("--seed must be an integer. Received: 'one'. `nlpdata create-pretraining --help`",)),
        (("--masked-lm-prob", "x"), ("--masked-lm-prob must be a number. Received: 'x'.",)),
        (("--objective", "sopp"), ("unknown objective 'sopp'. Did you mean sop",)),
        (("--nsp-scope", "corpse"), ("--nsp-scope: 'corpse' is not one of 'corpus', 'file'.",)),
        (("--masking", "whole"), ("--masking", "whole", "static", "dynamic")),
        (("--compression", "zip"), ("--compression", "zip", "gzip")),
        (("--max_seq_len", "64"), ("--max-seq-len", "--max-seq-length")),
        (("--dup-factor=3",), ("--dup-factor", "--dupe-factor")),
        (("--zzz",), ("--zzz", "--help")),
        (("--do_lower_case=maybe",), ("do-lower-case", "true or false", "maybe")),
        (("--random_next_sentence=2",), ("random-next-sentence", "true or false", "2")),
        (("--seed",), ("'--seed' requires an argument. ",)),
        (("--overwrite=3",), ("overwrite", "true or false", "3")),
        (("--quiet=3",), ("'--quiet' does not take a value. ",)),
    ],
    ids=lambda value: " ".join(value) if value and value[0].startswith("--") else "",
)
def test_wrong_options(create, tmp_path, flags, words):
    outcome = create(*flags)
    assert outcome.code == 2
    for word in words:
        assert word in outcome.err
    assert outcome.err.count("\n") == 1, outcome.err
    assert outcome.err.startswith("nlpdata: error: ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["create-pretraining", "a.txt", "--tokenizer", "", "--output", "o"], "--tokenizer"),
        (["create-pretraining", "a.txt", "--tokenizer", "t", "--output", ""], "--output"),
        (["create-pretraining", "a.txt", "--tokenizer", "t", "--output", "o", "--meta", ""], "--meta"),
        (["create-finetuning", "--task", "cola", "--input", "", "--tokenizer", "t", "--output", "o"], "--input"),
        (["train-tokenizer", "a.txt", "--output", ""], "--output"),
        (["inspect", "a.tfrecord", "--tokenizer", ""], "--tokenizer"),
    ],
)
def test_an_empty_path_is_not_the_current_folder(words, named, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("a\n")
    outcome = run_command(capsys, *words)
    assert outcome.code == 2
    assert f"{named}: received '', expected a path (is a shell variable empty?)" in outcome.err
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize("left_out", ["--input", "--output", "--tokenizer"])
def test_missing_options(tmp_path, text, tiny_model, capsys, left_out):
    arguments = create_arguments(text, tmp_path / "out" / "x", tiny_model)
    at = arguments.index(left_out)
    outcome = run_command(capsys, *arguments[:at], *arguments[at + 2 :])
    assert outcome.code == 2
    assert f"{left_out} is missing" in outcome.err
    assert "e.g." in outcome.err


def test_unknown_command(capsys):
    outcome = run_command(capsys, "create-pretrainin")
    assert outcome.code == 2
    assert outcome.err == (
        "nlpdata: error: no command 'create-pretrainin'. Did you mean create-pretraining? `nlpdata --help` lists the "
        "commands.\n"
    )
    assert "no command 'x'. `nlpdata --help`" in run_command(capsys, "x").err
    assert "no command 'spm_train'. Here it is `nlpdata train-tokenizer`. " in run_command(capsys, "spm_train").err


def test_without_arguments_the_help_is_shown(capsys):
    outcome = run_command(capsys)
    assert outcome.code == 2
    assert "create-pretraining" in outcome.err


def test_help_loads_nothing_heavy():
    program = (
        "import sys; from nlpdata.cli.commands import main; code = main(['create-pretraining', '--help']); "
        "heavy = {'tensorflow', 'keras', 'apache_beam', 'sentencepiece'} & set(sys.modules); "
        "sys.exit(str(heavy) if heavy or code else 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "--max-seq-length" in done.stdout


# ----------------------------------------------------------------------------------------------------- what follows --


@pytest.mark.parametrize("foreign", [["--direct_num_workers=2"], ["--project", "p"], ["more.txt"]])
def test_arguments_of_a_runner(create, tmp_path, foreign):
    outcome = create("--", *foreign)
    assert outcome.code == 2
    for word in ("--runner", foreign[0]):
        assert word in outcome.err
    assert not (tmp_path / "out").exists()


def test_nothing_after_the_dashes_is_nothing(tmp_path, text, tiny_model, capsys):
    second = tmp_path / "second.txt"
    second.write_text(text.read_text())
    arguments = create_arguments(text, tmp_path / "out" / "x.tfrecord", tiny_model)
    assert run_command(capsys, *arguments, second, "--").code == 0
    meta = json.loads((tmp_path / "out" / "x.meta.json").read_text())
    assert [entry["file"] for entry in meta["inputs"]] == ["second.txt", "text.txt"]


# ---------------------------------------------------------------------------------------------------- older spellings


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["--nodo_lower_case"], ["--no-do-lower-case"]),
        (["--do_lower_case=False"], ["--no-do-lower-case"]),
        (["--do_lower_case=true"], ["--do-lower-case"]),
        (["--do_lower_case"], ["--do-lower-case"]),
        (["--no_do_lower_case"], ["--no-do-lower-case"]),
        (["--favor_shorter_ngram"], ["--favor-shorter-ngram"]),
        (["--favor_shorter_ngram=False"], ["--no-favor-shorter-ngram"]),
        (["--nofavor_shorter_ngram"], ["--no-favor-shorter-ngram"]),
        (["--ngram=2"], ["--max-ngram", "2"]),
        (["--ngram", "2"], ["--max-ngram", "2"]),
        (["--do_whole_word_mask=False"], ["--no-whole-word"]),
        (["--nodo_whole_word_mask"], ["--no-whole-word"]),
        (["--do_whole_word_mask"], ["--whole-word"]),
        (["--random_next_sentence=True"], ["--objective", "nsp"]),
        (["--random_next_sentence"], ["--objective", "nsp"]),
        (["--norandom_next_sentence"], ["--objective", "sop"]),
        (["--random_seed=77"], ["--seed", "77"]),
        (
            ["--max_predictions_per_seq=5", "--masked_lm_prob=0.1"],
            ["--max-predictions-per-seq", "5", "--masked-lm-prob", "0.1"],
        ),
        (["--short_seq_prob=0.5", "--dupe_factor=2"], ["--short-seq-prob", "0.5", "--dupe-factor", "2"]),
        (["--gzip_compress"], ["--compression", "gzip"]),
        (["--use_v2_feature_names"], ["--feature-names", "v2"]),
        (["--alsologtostderr"], []),
        (["--do_permutation=false", "--nodo_permutation", "--input_file_mode=r"], []),
        (["--tokenization=SentencePiece"], []),
    ],
    ids=lambda value: " ".join(value),
)
def test_older_spellings_give_the_same_files(create, tmp_path, old, new):
    assert create(*old, output="old/x.tfrecord").code == 0
    assert create(*new, output="new/x.tfrecord").code == 0
    assert contents(tmp_path / "old") == contents(tmp_path / "new")


def test_command_line_of_the_older_tool(tmp_path, text, tiny_model, capsys):
    second = tmp_path / "second.txt"
    second.write_text(text.read_text())
    flags = ["--max_seq_length=64", "--dupe_factor=1", "--workers=1", "--do_lower_case"]
    old = [
        f"--input_file={text},{tmp_path}/sec*.txt",
        f"--output_file={tmp_path}/old/x.tf_record",
        f"--spm_model_file={tiny_model}",
        f"--vocab_file={tiny_model.with_suffix('.vocab')}",
        f"--meta_data_file_path={tmp_path}/old/my_meta_data",
        *flags,
    ]
    assert run_command(capsys, "create-pretraining", *old).code == 0
    assert visible(tmp_path / "old") == ["my_meta_data", "x.tf_record", "x.tokenizer.model"]
    new = create_arguments([text, second], tmp_path / "new" / "x.tfrecord", tiny_model, "--do-lower-case")
    assert run_command(capsys, *new).code == 0
    assert (tmp_path / "old" / "x.tf_record").read_bytes() == (tmp_path / "new" / "x.tfrecord").read_bytes()
    old_meta, new_meta = (json.loads((tmp_path / name).read_text()) for name in ("old/my_meta_data", "new/x.meta.json"))
    assert old_meta["train_data_size"] == new_meta["train_data_size"]


def test_several_output_files_of_the_older_tool(create, tmp_path):
    """They share the records of the set, in the folder's meta file, by which each of them is read."""
    assert create().code == 0
    out = tmp_path / "several"
    names = "a.tf_record", "b.tf_record", "c.tfrecord"
    assert create(output=f"{out}/a.tf_record,{out}/b.tf_record, {out}/c").code == 0
    assert {path.name for path in out.iterdir()} == {*names, "a.tokenizer.model", "meta.json"}
    meta = json.loads((out / "meta.json").read_text())
    assert [shard["file"] for shard in meta["shards"]] == list(names)
    parts = [open_records(str(out / name)) for name in names]
    assert [len(part) for part in parts] == [shard["records"] for shard in meta["shards"]]
    assert min(map(len, parts)) > 0
    whole = open_records(str(tmp_path / "out" / "x.tfrecord"))
    ids = {tuple(whole[i]["input_ids"]) + tuple(whole[i]["masked_lm_ids"]) for i in range(len(whole))}
    found = [tuple(part[i]["input_ids"]) + tuple(part[i]["masked_lm_ids"]) for part in parts for i in range(len(part))]
    assert len(found) == len(whole)
    assert set(found) == ids
    again = create(output=f"{out}/a.tf_record,{out}/b.tf_record")
    assert again.code == 2
    assert "already holds a.tf_record, b.tf_record, meta.json" in again.err
    fewer = create("--overwrite", output=f"{out}/a.tf_record,{out}/b.tf_record")
    assert fewer.code == 2
    assert "lists c.tfrecord too, which would stay behind" in fewer.err
    other = create("--overwrite", "--seed", 5, output=f"{out}/a.tf_record,{out}/b.tf_record,{out}/c")
    assert other.code == 0, other.err


@pytest.mark.parametrize(
    ("output", "more", "message"),
    [
        ("a.tfrecord,../b.tfrecord", (), "the files of a set are in one folder"),
        ("a.tfrecord,a.tf_record", (), "names a file twice"),
        ("a.tfrecord,b.tfrecord", ("--num-shards", 3), "names 2 files, and --num-shards is 3"),
        ("a.tfrecord,b*", (), "names the record file"),
    ],
)
def test_several_output_files_that_cannot_be(create, tmp_path, output, more, message):
    outcome = create(*more, output=",".join(f"{tmp_path}/out/{name}" for name in output.split(",") if name))
    assert outcome.code == 2
    assert message in outcome.err
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------------------------------------------------- tokenizers


def test_tokenizer_that_is_missing(tmp_path, text, tiny_model, capsys):
    near = tiny_model.with_name("spmm.model")
    outcome = run_command(capsys, *create_arguments(text, tmp_path / "out" / "x", near))
    assert outcome.code == 2
    assert "spmm.model does not exist" in outcome.err
    assert f"Did you mean {tiny_model}?" in outcome.err
    assert not (tmp_path / "out").exists()


def test_vocab_in_place_of_the_model(tmp_path, text, tiny_model, capsys):
    outcome = run_command(capsys, *create_arguments(text, tmp_path / "out" / "x", tiny_model.with_suffix(".vocab")))
    assert outcome.code == 2
    assert str(tiny_model) in outcome.err
    assert not (tmp_path / "out").exists()


def test_model_without_mask(tmp_path, text, capsys):
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(tmp_path / "bare"),
        vocab_size=60,
        hard_vocab_limit=False,
        control_symbols=["[CLS]", "[SEP]"],
        minloglevel=2,
    )
    outcome = run_command(capsys, *create_arguments(text, tmp_path / "out" / "x", tmp_path / "bare.model"))
    assert outcome.code == 1
    assert "[MASK]" in outcome.err
    assert "bare.model" in outcome.err
    assert not (tmp_path / "out").exists()


def test_a_name_that_is_too_long(tmp_path, text, tiny_model, capsys, create):
    long = tmp_path / f"{'z' * 249}.model"
    long.write_bytes(tiny_model.read_bytes())
    outcome = run_command(capsys, *create_arguments(text, tmp_path / "x.tfrecord", long))
    assert outcome.code == 1
    assert outcome.err.startswith("nlpdata: error: File name too long (")
    outcome = run_command(capsys, *create_arguments(text, tmp_path / f"{'z' * 195}.tfrecord", tiny_model))
    assert outcome.code == 2
    assert outcome.err == f"nlpdata: error: cannot write to {tmp_path}/: File name too long\n"
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_damaged_model(tmp_path, text, tiny_model, capsys):
    for data in (b"", tiny_model.read_bytes()[:1000], b"\0junk" * 100):
        (tmp_path / "bad.model").write_bytes(data)
        outcome = run_command(capsys, *create_arguments(text, tmp_path / "out" / "x", tmp_path / "bad.model"))
        assert outcome.code == 1
        assert "bad.model" in outcome.err
    assert not (tmp_path / "out").exists()


# ---------------------------------------------------------------------------------------------------- verify, inspect


@pytest.mark.parametrize("command", ["verify", "inspect"])
def test_records_that_are_missing_or_damaged(create, tmp_path, capsys, command):
    outcome = run_command(capsys, command, f"{tmp_path}/nothing*")
    assert outcome.code == 2
    assert "nothing*" in outcome.err
    assert create().code == 0
    path = tmp_path / "out" / "x.tfrecord"
    path.write_bytes(path.read_bytes()[:-7])
    outcome = run_command(capsys, command, path)
    assert outcome.code == 1
    assert "x.tfrecord" in outcome.out + outcome.err
    assert "cut off" in outcome.out + outcome.err


def test_shards_without_records(create, tmp_path, capsys):
    assert create("--num-shards", 64, "--limit-documents", 1).code == 0
    empty = [path for path in (tmp_path / "out").glob("*-of-00064") if not path.stat().st_size]
    assert empty
    for command in ("verify", "inspect"):
        assert run_command(capsys, command, f"{tmp_path}/out/x.tfrecord*").code == 0
        run_command(capsys, command, empty[0])  # no traceback


def test_the_parsers_errors_have_one_class():
    """Typer gives that class no public name: it is found as the base of one that has."""
    assert ParserError.__name__ == "UsageError"
    assert issubclass(typer.BadParameter, ParserError)
    assert not issubclass(ValueError, ParserError)
    refused = ParserError("why")
    assert (refused.format_message(), refused.ctx, refused.exit_code) == ("why", None, 2)
