"""Documents packed one behind the other, against a plain implementation of the rules."""

import gzip
import random

import numpy as np
import pytest

from nlpdata import keys
from nlpdata.cli import commands
from nlpdata.keys import Purpose
from nlpdata.pretraining import packing
from nlpdata.records.reader import open_records
from tests.nlpdata.commands import contents, create_arguments, run_command
from tests.nlpdata.pretraining.examples import (
    CLS,
    PAD,
    SEP,
    NumberTokenizer,
    build_all,
    decode_example,
    dense_positions,
    numbered_documents,
    write_corpus,
)

LENGTH, SEED, DUPES, WEIGHT, EVAL, SHORT = 16, 12345, 2, 1.25, 0.4, 0.3
OPTIONS = {
    "objective": "none",
    "pack_across_documents": True,
    "max_seq_length": LENGTH,
    "dupe_factor": DUPES,
    "eval_fraction": EVAL,
    "short_seq_prob": SHORT,
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """240 documents, most of them shorter than an example, one of 2,100 sentences; no token occurs twice."""
    rng = random.Random(4)
    lengths = [[rng.randrange(1, 9) for _ in range(rng.randrange(1, 5))] for _ in range(240)]
    lengths[60] = [rng.randrange(1, 4) for _ in range(2100)]
    documents = numbered_documents(lengths)
    return write_corpus(tmp_path_factory.mktemp("packing") / "a.txt", documents), documents


def draw(key, *elements):
    """The draw at the last element, under the key with the others."""
    for element in elements[:-1]:
        key = keys.fold_int(key, element)
    return keys.draw_int(key, elements[-1])


def share(value):
    return (value >> 32) / 2**32


def packed(file_key, offsets, documents):
    """The examples by the rules: {(split, (offset, duplicate, number)): ids without the outer [CLS] and [SEP]}."""
    found = {}
    by_split = {"train": [], "eval": []}
    for offset, document in zip(offsets, documents, strict=True):
        key = keys.fold_int(file_key, offset)
        split = "eval" if share(draw(key, Purpose.EVAL_SPLIT)) < EVAL else "train"
        extra = share(draw(key, Purpose.WEIGHT)) < DUPES * WEIGHT % 1
        duplicates = 1 if split == "eval" else int(DUPES * WEIGHT) + extra
        by_split[split].append((draw(key, Purpose.BUCKET), offset, key, duplicates, document))
    for split, own in by_split.items():
        for bucket in in_buckets(sorted(own)):
            for duplicate in range(max(each[3] for each in bucket)):
                chosen = [each for each in bucket if each[3] > duplicate]
                found |= {(split, *name): ids for name, ids in cut(chosen, duplicate)}
    return found


def in_buckets(own):
    """Slots of 1/4096 of the hashes are merged until they hold 64 documents; what is left joins the last bucket."""
    buckets, slot = [[]], None
    for each in own:
        if len(buckets[-1]) >= 64 and each[0] >> 52 != slot:
            buckets.append([])
        slot = each[0] >> 52
        buckets[-1].append(each)
    if len(buckets) > 1 and len(buckets[-1]) < 64:
        buckets[-2:] = [buckets[-2] + buckets[-1]]
    return buckets


def cut(bucket, duplicate):
    """Token by token: each knows its document and the number of its sentence."""
    stream = [
        (token, offset, keys.fold_int(key, duplicate), number)
        for _, offset, key, _, document in bucket
        for number, sentence in enumerate(document)
        for token in sentence
    ]
    count, at = {}, 0
    while at < len(stream):
        _, offset, key, number = stream[at]
        bits = draw(key, Purpose.SHORT_SEQUENCE, number // 1000)
        room = LENGTH - 2
        if share(bits) < SHORT:
            room = 2 + ((bits & 0xFFFFFFFF) * (room - 1) >> 32)
        ids, before = [], offset
        while at < len(stream) and len(ids) + 1 + (stream[at][1] != before) <= room:
            ids += [SEP] * (stream[at][1] != before) + [stream[at][0]]
            before = stream[at][1]
            at += 1
        count[offset] = count.get(offset, -1) + 1
        yield (offset, duplicate, count[offset]), ids


def found_examples(built):
    found = {}
    for split in ("train", "eval"):
        for _, (_, offset, rest), record in built.records(split):
            ids = [token for token in decode_example(record)["input_ids"] if token != PAD]
            assert (ids[0], ids[-1]) == (CLS, SEP)
            found[split, offset, rest >> 32, rest & 0xFFFFFFFF] = ids[1:-1]
    return found


def build(path, tokenizer, **changes):
    return build_all(f"{path}@{WEIGHT}", tokenizer, **OPTIONS | changes)


def test_examples_are_those_of_the_rules(corpus, monkeypatch):
    path, documents = corpus
    tokenizer = NumberTokenizer(60_000, 50_000)
    built = build(path, tokenizer, masking="dynamic")
    text = path.read_text()
    offsets = [0, *(at + 2 for at in range(len(text)) if text.startswith("\n\n", at))]
    (file_id,) = {tie[0] for _, tie, _ in built.records()}
    expected = packed(keys.fold_int(keys.fold_int(keys.ROOT, SEED), file_id), offsets, documents)
    assert found_examples(built) == expected
    assert {split: sum(name[0] == split for name in expected) for split in ("train", "eval")} == {
        split: built.counters[f"examples_{split}"] for split in ("train", "eval")
    }
    # What the rules mean: nothing is lost, nothing is there twice, and an example is full or a draw made it short.
    tokens = [token for name, ids in expected.items() if name[2] == 0 for token in ids if token != SEP]
    assert sorted(tokens) == sorted(token for document in documents for sentence in document for token in sentence)
    assert sum(len(ids) >= LENGTH - 3 for ids in expected.values()) > 0.6 * len(expected)
    assert max(map(len, expected.values())) == LENGTH - 2
    assert built.counters["sentences_used"] == built.counters["sentences"] == sum(map(len, documents))
    # However the text comes.
    monkeypatch.setattr(packing, "PIECE_BYTES", 100)
    for block_bytes, chunk_size in ((60, 1 << 30), (5000, 3000), (1 << 20, 30)):
        parts = build(path, tokenizer, block_bytes=block_bytes, chunk_size=chunk_size, masking="dynamic")
        assert parts.records() == built.records()
        assert +parts.counters == +built.counters


def test_separators_are_not_masked(corpus):
    path, _ = corpus
    tokenizer = NumberTokenizer(60_000, 50_000)
    dynamic, static = (build(path, tokenizer, masking=masking) for masking in ("dynamic", "static"))
    ids = static.original_ids()
    assert sorted(ids.tolist()) == sorted(dynamic.columns["input_ids"].tolist())
    inner = (ids == SEP).sum(axis=1) - 1
    assert 0.3 < (inner > 0).mean() < 1
    for row, positions in zip(ids, dense_positions(static.columns), strict=True):
        assert positions
        assert not {CLS, SEP, PAD} & set(row[positions].tolist())
    assert not static.columns["segment_ids"].any()
    assert (static.columns["token_boundary"][ids == SEP] == 1).all()


def test_bytes_do_not_depend_on_how_it_runs(tmp_path, corpus_folder, tiny_model, capsys):
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("a.txt", "b.txt"):
        (moved / f"{name}.gz").write_bytes(gzip.compress((corpus_folder / name).read_bytes()))
    made = {}
    for name, inputs, workers, more in (
        ("plain", corpus_folder / "*.txt", 1, ()),
        ("chunks", corpus_folder / "*.txt", 2, ("--chunk-size", 5000)),
        ("moved", moved / "*.gz", 1, ()),
    ):
        options = ("--objective", "none", "--pack-across-documents", "--eval-fraction", 0.2, *more)
        output = tmp_path / name / "t.tfrecord"
        assert commands.main(create_arguments(inputs, output, tiny_model, *options, length=256, workers=workers)) == 0
        made[name] = contents(tmp_path / name)
    assert made["chunks"] == made["plain"]
    assert all(made["moved"][name] == data for name, data in made["plain"].items() if not name.endswith(".json"))

    plain = tmp_path / "plain" / "t.tfrecord"
    outcome = run_command(capsys, "verify", plain, plain.with_name("t.eval.tfrecord"))
    assert outcome.code == 0, outcome.out
    assert run_command(capsys, "inspect", plain, "--limit", 20).out.count("[SEP]") > 25
    records = open_records(str(plain))
    assert records.meta["options"]["pack_across_documents"] is True
    counters = records.meta["counters"]
    assert counters["sentences"] == counters["sentences_used"] + sum(counters["dropped"].values())
    lengths = records[:]["input_mask"].sum(axis=1)
    assert np.median(lengths) == 256
