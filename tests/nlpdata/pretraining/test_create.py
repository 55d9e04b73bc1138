"""create-pretraining: equal bytes however it is run, shards, compression, the meta file, and the accounts."""

import gzip
import json
import socket

import numpy as np
import pytest

import nlpdata
from nlpdata.cli import commands
from nlpdata.pretraining import summary
from nlpdata.records.reader import open_records
from tests.nlpdata.commands import contents, create_arguments, run_command
from tests.nlpdata.conftest import random_sentences

OBJECTIVES = ("sop", "nsp", "none")
SPLIT = ("--eval-fraction", "0.2")


@pytest.fixture(scope="module")
def plain(tmp_path_factory, corpus_folder, tiny_model):
    """One folder of results an objective: dupe 2, an eval split, one worker."""
    folders = {}
    for objective in OBJECTIVES:
        folders[objective] = folder = tmp_path_factory.mktemp(objective)
        output = folder / "train.tfrecord"
        assert create(corpus_folder / "*.txt", output, tiny_model, objective) == 0
    return folders


def create(inputs, output, model, objective="sop", *more, workers=1):
    more = ("--objective", objective, *SPLIT, *more)
    return commands.main(create_arguments(inputs, output, model, *more, dupe=2, workers=workers))


def records_of(path):
    records = open_records(str(path))
    columns = records[:]
    return [tuple(columns[name][i].tobytes() for name in sorted(columns)) for i in range(len(records))]


@pytest.mark.parametrize(
    ("objective", "workers", "more"),
    [
        *((objective, 1, ("--chunk-size", "1024")) for objective in OBJECTIVES),
        ("nsp", 2, ("--chunk-size", "65536")),  # which takes all stages
        ("none", 1, ()),
    ],
)
def test_bytes_do_not_depend_on_how_it_runs(plain, tmp_path, corpus_folder, tiny_model, objective, workers, more):
    output = tmp_path / "train.tfrecord"
    assert create(corpus_folder / "*.txt", output, tiny_model, objective, *more, workers=workers) == 0
    assert contents(tmp_path) == contents(plain[objective])
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_records_do_not_depend_on_place_or_compression(plain, tmp_path, corpus_folder, tiny_model, objective):
    moved = tmp_path / "elsewhere" / "deeper"
    moved.mkdir(parents=True)
    for name in ("a.txt", "b.txt"):
        (moved / f"{name}.gz").write_bytes(gzip.compress((corpus_folder / name).read_bytes()))
    out = tmp_path / "out"
    assert create(moved / "*.gz", out / "train.tfrecord", tiny_model, objective) == 0
    found, expected = contents(out), contents(plain[objective])
    assert found.keys() == expected.keys()
    assert all(found[name] == expected[name] for name in found if not name.endswith(".json"))
    metas = [json.loads(files["train.meta.json"]) for files in (found, expected)]
    assert metas[0]["shards"] == metas[1]["shards"]
    assert metas[0]["counters"] == metas[1]["counters"]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_another_seed_gives_other_records_of_the_same_text(plain, tmp_path, corpus_folder, tiny_model, objective):
    assert create(corpus_folder / "*.txt", tmp_path / "train.tfrecord", tiny_model, objective, "--seed", 7) == 0
    name = "train.tfrecord"
    assert (tmp_path / name).read_bytes() != (plain[objective] / name).read_bytes()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_shards_hold_the_records_of_one_file_in_order(tmp_path, corpus_folder, tiny_model, objective):
    one, many = tmp_path / "one", tmp_path / "many"
    for folder, shards in ((one, 1), (many, 3)):
        more = ("--num-shards", shards)
        assert create(corpus_folder / "*.txt", folder / "train.tfrecord", tiny_model, objective, *more) == 0
    names = sorted(path.name for path in many.glob("train.tfrecord*"))
    assert names == [f"train.tfrecord-0000{i}-of-00003" for i in range(3)]
    joined = b"".join((many / name).read_bytes() for name in names)
    assert joined == (one / "train.tfrecord").read_bytes()  # concatenated shards are the one file, order and all
    meta = json.loads((many / "train.meta.json").read_text())
    assert [shard["file"] for shard in meta["shards"]] == names
    assert sum(shard["records"] for shard in meta["shards"]) == len(records_of(one / "train.tfrecord"))
    assert min(shard["records"] for shard in meta["shards"]) > 0


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_verify_is_clean(plain, capsys, objective):
    for split in ("train", "train.eval"):
        outcome = run_command(capsys, "verify", f"{plain[objective]}/{split}.tfrecord*")
        assert outcome.code == 0, outcome.out
    outcome = run_command(capsys, "inspect", f"{plain[objective]}/train.tfrecord")
    assert outcome.code == 0
    assert "[CLS]" in outcome.out


def test_gzip_records_equal_plain_ones(plain, tmp_path, corpus_folder, tiny_model, capsys):
    output = tmp_path / "train.tfrecord"
    assert create(corpus_folder / "*.txt", output, tiny_model, "sop", "--compression", "gzip") == 0
    assert output.read_bytes()[:10] == b"\x1f\x8b\x08\x00\x00\x00\x00\x00" + output.read_bytes()[8:10]  # no time
    assert gzip.decompress(output.read_bytes()) == (plain["sop"] / "train.tfrecord").read_bytes()
    assert records_of(output) == records_of(plain["sop"] / "train.tfrecord")
    assert run_command(capsys, "verify", output).code == 0


META_KEYS = {
    "format_version",
    "task_type",
    "objective",
    "label_names",
    "train_data_size",
    "eval_data_size",
    "max_seq_length",
    "max_predictions_per_seq",
    "options",
    "seed",
    "tokenizer",
    "shards",
    "inputs",
    "counters",
}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_meta_file(plain, corpus_folder, tiny_model, objective):
    text = (plain[objective] / "train.meta.json").read_text()
    for private in (str(corpus_folder), str(plain[objective]), str(tiny_model.parent), socket.gethostname()):
        assert private not in text
    meta = json.loads(text)
    assert meta.keys() >= META_KEYS
    assert meta["objective"] == objective
    assert meta["label_names"] == {"sop": ["in_order", "swapped"], "nsp": ["next", "random"], "none": []}[objective]
    assert [entry["file"] for entry in meta["inputs"]] == ["a.txt", "b.txt"]
    assert [entry["bytes"] for entry in meta["inputs"]] == [
        (corpus_folder / name).stat().st_size for name in ("a.txt", "b.txt")
    ]
    tokenizer = meta["tokenizer"]
    assert tokenizer["file"] == "train.tokenizer.model"
    assert (plain[objective] / tokenizer["file"]).read_bytes() == tiny_model.read_bytes()
    assert tokenizer.keys() >= {"type", "sha256", "vocab_size", "special_ids", "ordinary_ids", "do_lower_case"}
    evaluation = json.loads((plain[objective] / "train.eval.meta.json").read_text())
    for key in ("train_data_size", "eval_data_size", "options", "seed", "inputs"):
        assert evaluation[key] == meta[key]
    assert meta["train_data_size"] == sum(shard["records"] for shard in meta["shards"])
    assert meta["eval_data_size"] == sum(shard["records"] for shard in evaluation["shards"]) > 0


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_sentence_is_used_or_dropped_by_reason(plain, corpus_folder, objective):
    counters = json.loads((plain[objective] / "train.meta.json").read_text())["counters"]
    text = "".join((corpus_folder / name).read_text() for name in ("a.txt", "b.txt"))
    assert counters["sentences"] == sum(bool(line) for line in text.split("\n"))
    assert counters["sentences"] == counters["sentences_used"] + sum(counters["dropped"].values())
    assert counters["documents"] == 200


def test_labels(plain):
    share = {}
    for objective in ("sop", "nsp"):
        labels = open_records(str(plain[objective] / "train.tfrecord"))[:]["next_sentence_labels"]
        share[objective] = labels.mean()
    assert abs(share["sop"] - 0.5) < 4 * 0.5 / len(labels) ** 0.5
    assert 0.48 < share["nsp"] < 0.9  # a chunk of one sentence always takes a random one; these are short


def test_dynamic_masking_leaves_masks_to_the_loader(tmp_path, corpus_folder, tiny_model, capsys):
    output = tmp_path / "d.tfrecord"
    more = ("--masking", "dynamic", "--max-predictions-per-seq", 5)
    assert run_command(capsys, *create_arguments(corpus_folder / "a.txt", output, tiny_model, *more)).code == 0
    records = open_records(str(output))
    assert not [feature.name for feature in records.features if feature.name.startswith("masked")]
    assert records.meta["max_predictions_per_seq"] == 5  # what the loader shall draw
    assert not np.isin(records[:]["input_ids"], records.meta["tokenizer"]["special_ids"]["mask"]).any()


def test_one_record_and_its_readers(tmp_path, tiny_model, capsys):
    (tmp_path / "one.txt").write_text("aa bb cc.\ndd ee ff.\n")
    output = tmp_path / "out" / "one"
    assert run_command(capsys, *create_arguments(tmp_path / "one.txt", output, tiny_model)).code == 0
    assert len(open_records(f"{output}.tfrecord*")) == 1
    assert run_command(capsys, "verify", f"{output}.tfrecord").code == 0
    assert run_command(capsys, "inspect", f"{output}.tfrecord").code == 0


def test_more_shards_than_records(tmp_path, tiny_model, capsys):
    (tmp_path / "one.txt").write_text("aa bb cc.\ndd ee ff.\n")
    output = tmp_path / "out" / "one.tfrecord"
    arguments = create_arguments(tmp_path / "one.txt", output, tiny_model, "--num-shards", 4)
    assert run_command(capsys, *arguments).code == 0
    assert len(open_records(f"{output}*")) == 1
    assert run_command(capsys, "verify", f"{output}*").code == 0


def test_limit_documents_takes_the_first_in_file_order(tmp_path, corpus_folder, tiny_model):
    documents = (corpus_folder / "a.txt").read_text().split("\n\n")[:5]
    (tmp_path / "a.txt").write_text("\n\n".join(documents) + "\n")
    limited, whole = tmp_path / "limited", tmp_path / "whole"
    everything = create_arguments(corpus_folder / "a.txt", limited / "x.tfrecord", tiny_model, "--limit-documents", 5)
    assert commands.main(everything) == 0
    assert commands.main(create_arguments(tmp_path / "a.txt", whole / "x.tfrecord", tiny_model)) == 0
    assert (limited / "x.tfrecord").read_bytes() == (whole / "x.tfrecord").read_bytes()


@pytest.mark.parametrize("workers", [1, 2])
def test_warnings_about_documents_say_where_they_are(tmp_path, monkeypatch, tiny_model, workers):
    """Whatever the units of work are."""
    monkeypatch.setattr(summary, "LONG_DOCUMENT", 50)
    sentences = random_sentences(90)
    (tmp_path / "a.txt").write_text("\n".join(sentences[:20]) + "\n\n" + "\n".join(sentences) + "\n\n" + "one\ntwo\n")
    (tmp_path / "b.txt").write_text("first\nsecond\n\n" + "\u0301\n" * 30 + "third\n")
    for chunk_size in (500, None):
        result = nlpdata.create_pretraining(
            [str(tmp_path / "*.txt")], str(tmp_path / "r"), tiny_model, max_seq_length=32, dupe_factor=1, workers=workers,
            chunk_size=chunk_size, overwrite=True, accept_loss=True,
        )  # fmt: skip
        long, empty = (
            next(line for line in result.warnings if words in line) for words in ("blank line", "left nothing")
        )
        assert long.startswith(f"{tmp_path / 'a.txt'}:22 (byte ")
        assert f"The first one is in the document at {tmp_path / 'b.txt'}:4 (byte 14)" in empty
