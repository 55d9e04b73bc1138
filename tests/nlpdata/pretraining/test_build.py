"""Blocks of text to records: what must hold for the whole core, seen from the records."""

import random
from collections import Counter

import numpy as np
import pytest

from nlpdata.corpus import find_files, plan_byte_ranges, read_blocks
from nlpdata.pretraining.build import build_examples
from nlpdata.pretraining.maker import ExampleMaker
from nlpdata.pretraining.options import PretrainingOptions
from tests.nlpdata.pretraining.examples import (
    CLS,
    SEP,
    NumberTokenizer,
    build_all,
    decode_example,
    numbered_documents,
    write_corpus,
)

OBJECTIVES = ("sop", "nsp", "none")
SMALL = {"max_seq_length": 32, "max_predictions_per_seq": 5}


def random_lengths(seed, documents, sentences=12, longest=14, empty=0.0):
    rng = random.Random(seed)
    return [
        [0 if rng.random() < empty else rng.randrange(1, longest) for _ in range(rng.randrange(1, sentences))]
        for _ in range(documents)
    ]


def unique_corpus(path, lengths):
    """A corpus in which every token has an id of its own; neighbours in a document count up."""
    documents = numbered_documents(lengths)
    return write_corpus(path, documents), documents, NumberTokenizer(60_000, None)


def rows(built):
    """(A, B, label) of every record, unmasked."""
    found = []
    labels = built.columns.get("next_sentence_labels", np.zeros((len(built.columns["input_ids"]), 1), int))
    for ids, segment_ids, mask, (label,) in zip(
        built.original_ids(), built.columns["segment_ids"], built.columns["input_mask"], labels, strict=True
    ):
        real = ids[mask == 1].tolist()
        assert real[0] == CLS
        assert real[-1] == SEP
        second = int(segment_ids.argmax()) if segment_ids.any() else len(real)
        assert real[second - 1] == SEP
        found.append((real[1 : second - 1], real[second:-1], int(label)))
    return found


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("masking", ["static", "dynamic"])
def test_blocks_and_chunks_do_not_matter(tmp_path, objective, masking):
    lengths = random_lengths(1, 40, empty=0.1)
    lengths[7] = [20] * 130  # too large to be kept whole
    documents = numbered_documents(lengths)
    corpus = write_corpus(tmp_path / "a.txt", documents)
    options = {"objective": objective, "masking": masking, "dupe_factor": 3, "eval_fraction": 0.3, **SMALL}
    tokenizer = NumberTokenizer(60_000, 50_000)
    whole = build_all(corpus, tokenizer, **options)
    assert len(whole.records()) > 150
    assert whole.counters["documents"] == 40
    for block_bytes, chunk_size in ((1, 1 << 30), (50, 1 << 30), (1000, 300), (1 << 20, 30)):
        parts = build_all(corpus, tokenizer, block_bytes=block_bytes, chunk_size=chunk_size, **options)
        for split in ("train", "eval"):
            assert parts.records(split) == whole.records(split)
        assert +parts.counters == +whole.counters


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_records_are_unique_and_ordered_by_hash(tmp_path, objective):
    corpus, _, tokenizer = unique_corpus(tmp_path / "a.txt", random_lengths(2, 30))
    built = build_all(corpus, tokenizer, objective=objective, dupe_factor=4, **SMALL)
    records = built.records()
    assert len({(key, tie) for key, tie, _ in records}) == len(records)
    assert built.counters["examples_train"] == len(records) == len(built.columns["input_ids"])
    assert sorted({tie[2] >> 32 for _, tie, _ in records}) == [0, 1, 2, 3]
    # Within a document and duplicate, examples count from 0.
    by_duplicate = {}
    for _, (file, offset, rest), _ in records:
        by_duplicate.setdefault((file, offset, rest >> 32), []).append(rest & 0xFFFFFFFF)
    assert all(sorted(numbers) == list(range(len(numbers))) for numbers in by_duplicate.values())


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_records_hold_the_columns(tmp_path, objective):
    corpus, _, tokenizer = unique_corpus(tmp_path / "a.txt", random_lengths(3, 8))
    built = build_all(corpus, tokenizer, objective=objective, dupe_factor=1, **SMALL)
    decoded = [decode_example(record) for _, _, record in built.records()]
    for name, column in built.columns.items():
        assert sorted(example[name] for example in decoded) == sorted(column.tolist())
    assert {frozenset(example) for example in decoded} == {frozenset(built.columns)}


def test_one_document(tmp_path):
    """With one document of three sentences, no pair of true neighbours may be called random."""
    corpus, _, tokenizer = unique_corpus(tmp_path / "a.txt", [[5, 6, 7]])
    built = build_all(corpus, tokenizer, objective="sop", dupe_factor=10, **SMALL)
    assert len(built.records()) == 10
    for a, b, label in rows(built):
        before, behind = (b, a) if label else (a, b)
        assert before + behind == list(range(5, 23))
    files, _ = find_files([str(corpus)])
    (byte_range,) = plan_byte_ranges(files, 1 << 20)
    maker = ExampleMaker(PretrainingOptions(objective="nsp", dupe_factor=10, **SMALL), tokenizer)
    kinds = {}
    for keyed in build_examples(read_blocks(byte_range), maker, Counter()):
        kinds[keyed.kind] = keyed
    assert kinds.keys() == {"records", "documents", "waiting"}
    for example in split_records(kinds["records"]):
        assert example["next_sentence_labels"] == [0]


def split_records(keyed):
    ends = np.cumsum(keyed.lengths).tolist()
    return [
        decode_example(bytes(keyed.payload[end - n : end])) for n, end in zip(keyed.lengths.tolist(), ends, strict=True)
    ]


def test_one_sentence_documents(tmp_path):
    """A blank line behind every sentence: nothing for sop, only random pairs for nsp; both are counted."""
    corpus, _, tokenizer = unique_corpus(tmp_path / "a.txt", [[5], [6], [7]])
    sop = build_all(corpus, tokenizer, objective="sop", **SMALL)
    assert sop.records() == []
    assert {name: count for name, count in sop.counters.items() if count and not name.startswith("at/")} == {
        "documents": 3,
        "documents_train": 3,
        "sentences": 3,
        "tokens": 18,
        "one_sentence_documents": 3,
        "longest_document": 1,
        "dropped/one_sentence_document": 3,
    }
    nsp = build_all(corpus, tokenizer, objective="nsp", dupe_factor=10, **SMALL)
    assert len(nsp.records()) == 30
    texts = [list(range(5, 10)), list(range(10, 16)), list(range(16, 23))]
    for a, b, label in rows(nsp):
        assert label == 1
        assert a in texts
        assert b in texts
        assert a != b
    assert nsp.counters["one_sentence_documents"] == nsp.counters["sentences_used"] == 3


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_accounting(tmp_path, objective):
    """Every sentence read is used (in duplicate 0) or dropped for a reason."""
    lengths = random_lengths(4, 60, sentences=4, empty=0.2)
    corpus = write_corpus(tmp_path / "a.txt", numbered_documents(lengths))
    with corpus.open("ab") as file:
        file.write(b"\n5 6 7\n\xff\xfe\n8 9 10\n")
    for options in ({}, {"eval_fraction": 0.4}):
        built = build_all(
            f"{corpus}@0.5" if not options else corpus,
            NumberTokenizer(60_000, None),
            objective=objective,
            dupe_factor=1,
            invalid_utf8="skip",
            **options,
            **SMALL,
        )
        counters = built.counters
        dropped = {name: count for name, count in counters.items() if name.startswith("dropped/")}
        assert counters["sentences"] == sum(map(len, lengths)) + 3
        assert counters["sentences"] == counters["sentences_used"] + sum(dropped.values())
        assert dropped["dropped/invalid_utf8"] == 1
        assert dropped["dropped/empty_after_tokenization"] == sum(row.count(0) for row in lengths) > 10
        if objective == "sop":
            ones = sum(sum(map(bool, row)) == 1 for row in lengths)
            assert dropped["dropped/one_sentence_document"] == ones > 5
        assert (dropped.get("dropped/weight_below_one", 0) > 5) == (not options)
        assert counters["documents"] == counters["documents_train"] + counters["documents_eval"]


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_token_is_used(tmp_path, objective):
    """Tokens are in a record of duplicate 0, or counted as truncated."""
    corpus, documents, tokenizer = unique_corpus(tmp_path / "a.txt", [[9] * n for n in range(2, 20)])
    built = build_all(corpus, tokenizer, objective=objective, dupe_factor=1, short_seq_prob=0.3, **SMALL)
    tokens = {token for document in documents for sentence in document for token in sentence}
    found = [token for a, b, label in rows(built) for token in (a + b if objective == "sop" or label == 0 else a)]
    assert len(found) == len(set(found))
    missing = len(tokens - set(found))
    if objective == "sop":
        assert missing == built.counters["tokens_truncated"] > 0
    elif objective == "none":
        assert missing == built.counters["tokens_truncated"] == 0
    else:
        assert missing <= built.counters["tokens_truncated"]  # which also counts what a random B loses
    assert set(found) <= tokens


def test_none_fills_the_sequence(tmp_path):
    corpus, _documents, tokenizer = unique_corpus(tmp_path / "a.txt", [[7] * 20, [4]])
    built = build_all(corpus, tokenizer, objective="none", dupe_factor=1, short_seq_prob=0.0, **SMALL)
    assert "next_sentence_labels" not in built.columns
    assert sorted(len(a) for a, _, _ in rows(built)) == sorted([30] * 4 + [20, 4])
    assert not built.columns["segment_ids"].any()


def test_eval_split_is_by_document(tmp_path):
    corpus, _documents, tokenizer = unique_corpus(tmp_path / "a.txt", random_lengths(5, 200))
    for objective in OBJECTIVES:
        built = build_all(corpus, tokenizer, objective=objective, dupe_factor=3, eval_fraction=0.25, **SMALL)
        offsets = {split: {tie[1] for _, tie, _ in built.records(split)} for split in ("train", "eval")}
        assert not offsets["train"] & offsets["eval"]
        assert built.counters["documents_eval"] == pytest.approx(50, abs=4 * (200 * 0.25 * 0.75) ** 0.5)
        assert {tie[2] >> 32 for _, tie, _ in built.records("eval")} == {0}  # once each
        masked = {
            split: {token for _, _, record in built.records(split) for token in decode_example(record)["masked_lm_ids"]}
            for split in ("train", "eval")
        }
        assert masked["train"] & masked["eval"] == {0}  # padding only: B's come from the same split, too
        everything = build_all(corpus, tokenizer, objective=objective, dupe_factor=1, **SMALL)
        assert everything.counters["sentences"] == built.counters["sentences"]


@pytest.mark.parametrize(("weight", "share"), [("@2", 2), ("@0.5", 0.5), ("@1.25", 1.25)])
def test_weights(tmp_path, weight, share):
    corpus, _, tokenizer = unique_corpus(tmp_path / "a.txt", [[7, 7]] * 400)
    built = build_all(f"{corpus}{weight}", tokenizer, dupe_factor=1, **SMALL)
    part = share - int(share)
    assert len(built.records()) == pytest.approx(400 * share, abs=4 * (400 * part * (1 - part)) ** 0.5)
    counts = np.unique([tie[1] for _, tie, _ in built.records()], return_counts=True)[1]
    assert set(counts) <= {int(share), int(share) + 1}
    twice = build_all(f"{corpus}{weight}", tokenizer, dupe_factor=4, **SMALL)
    assert len(twice.records()) == 400 * 4 * share


def document_of(documents):
    return {token: d for d, document in enumerate(documents) for sentence in document for token in sentence}


def test_next_sentence_pairs(tmp_path):
    """Label 0: B follows A in its document. Label 1: B is another document's text."""
    corpus, documents, tokenizer = unique_corpus(tmp_path / "a.txt", random_lengths(6, 150))
    # A budget that nothing exceeds, so that no token is cut off between A and B.
    built = build_all(corpus, tokenizer, objective="nsp", dupe_factor=3, max_seq_length=256, short_seq_prob=0.2)
    owner = document_of(documents)
    starts = {sentence[0] for document in documents for sentence in document}
    labels = []
    for a, b, label in rows(built):
        assert len({owner[token] for token in a}) == 1
        labels.append(label)
        cut = len(a) + len(b) == 253
        assert a == list(range(a[0], a[0] + len(a)))
        if label == 0:
            assert owner[a[0]] == owner[b[0]]
            assert b[0] == a[-1] + 1 or cut
            assert len({owner[token] for token in b}) == 1
        else:
            # The draw reads on into the next document at no time.
            assert {owner[token] for token in b} == {owner[b[0]]}
            assert owner[b[0]] != owner[a[0]]
            assert b[0] in starts or cut
    assert 0.5 < np.mean(labels) < 0.8


def test_next_sentence_of_the_same_file(tmp_path):
    first, second = random_lengths(7, 50), random_lengths(8, 50)
    documents = numbered_documents(first + second)
    paths = [write_corpus(tmp_path / "a.txt", documents[:50]), write_corpus(tmp_path / "b.txt", documents[50:])]
    owner = document_of(documents)
    crossing = {}
    for scope in ("corpus", "file"):
        tokenizer = NumberTokenizer(60_000, None)
        built = build_all(paths, tokenizer, objective="nsp", nsp_scope=scope, dupe_factor=2, **SMALL)
        crossing[scope] = [(owner[a[0]] < 50) != (owner[b[0]] < 50) for a, b, label in rows(built) if label == 1]
    assert not any(crossing["file"])
    assert 0.35 < np.mean(crossing["corpus"]) < 0.65


def test_sentence_order_labels(tmp_path):
    corpus, documents, tokenizer = unique_corpus(tmp_path / "a.txt", random_lengths(9, 200))
    built = build_all(corpus, tokenizer, objective="sop", dupe_factor=5, max_seq_length=256)
    owner = document_of(documents)
    labels = []
    for a, b, label in rows(built):
        labels.append(label)
        before, behind = (b, a) if label else (a, b)
        assert owner[a[0]] == owner[b[0]]
        assert before[-1] + 1 == behind[0]
    assert abs(np.mean(labels) - 0.5) < 3 * 0.5 / len(labels) ** 0.5


def test_equal_documents_get_different_masks(tmp_path):
    document = numbered_documents([[9, 9, 9]])[0]
    corpus = write_corpus(tmp_path / "a.txt", [document] * 50)
    built = build_all(corpus, NumberTokenizer(200, None), dupe_factor=2, **SMALL)
    assert len({record for _, _, record in built.records()}) > 90


def test_seed_and_name_decide_and_nothing_else(tmp_path):
    lengths = random_lengths(10, 10)
    corpus, documents, tokenizer = unique_corpus(tmp_path / "a.txt", lengths)
    (tmp_path / "elsewhere").mkdir()
    moved = write_corpus(tmp_path / "elsewhere" / "a.txt", documents)
    renamed = write_corpus(tmp_path / "b.txt", documents)
    records = build_all(corpus, tokenizer, **SMALL).records()
    assert build_all(corpus, tokenizer, **SMALL).records() == records
    assert build_all(moved, tokenizer, **SMALL).records() == records
    assert build_all(renamed, tokenizer, **SMALL).records() != records
    assert build_all(corpus, tokenizer, seed=1, **SMALL).records() != records


def test_a_further_duplicate_leaves_the_others_alone(tmp_path):
    corpus, _, tokenizer = unique_corpus(tmp_path / "a.txt", random_lengths(11, 10))
    for objective in ("sop", "none"):
        two = build_all(corpus, tokenizer, objective=objective, dupe_factor=2, **SMALL).records()
        three = build_all(corpus, tokenizer, objective=objective, dupe_factor=3, **SMALL).records()
        assert [record for record in three if record[1][2] >> 32 < 2] == two
