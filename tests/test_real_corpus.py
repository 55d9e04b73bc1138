"""The main job on real text (shared/data/ospl), read back by TensorFlow with the published feature specs."""

import gzip

import numpy as np
import pytest

from nlpdata.corpus import find_files, plan_byte_ranges, read_blocks
from nlpdata.pretraining.create import create_pretraining
from nlpdata.records.verification import verify
from nlpdata.tokenizers import load_tokenizer
from tests.shared import shared

L, P = 128, 20


@pytest.fixture(scope="module")
def model():
    return str(shared("data", "models", "spm", "albert_30k-clean.privately-corp.model"))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The first quarter of the documents of each file, compressed as they are."""
    folder = tmp_path_factory.mktemp("corpus")
    for path in sorted(shared("data", "ospl").glob("*.txt.gz")):
        documents = gzip.decompress(path.read_bytes()).decode().split("\n\n")
        text = "\n\n".join(documents[: len(documents) // 4]) + "\n"
        (folder / path.name).write_bytes(gzip.compress(text.encode(), 1))
    return str(folder / "*.txt.gz")


@pytest.fixture(scope="module", params=["sop", "nsp"])
def made(request, model, corpus, tmp_path_factory):
    """The objective, what create_pretraining says, and all records as TensorFlow reads them."""
    tf = pytest.importorskip("tensorflow")
    folder = tmp_path_factory.mktemp(request.param)
    result = create_pretraining(
        corpus,
        str(folder / "all"),
        model,
        objective=request.param,
        max_seq_length=L,
        max_predictions_per_seq=P,
        dupe_factor=1,
        workers=2,
    )
    assert verify(result.files["train"]).faults == []
    # As in run_pretraining.py of google-research/bert and google-research/albert.
    spec = {name: tf.io.FixedLenFeature([L], tf.int64) for name in ("input_ids", "input_mask", "segment_ids")}
    spec["token_boundary"] = tf.io.FixedLenFeature([L], tf.int64)
    spec |= {name: tf.io.FixedLenFeature([P], tf.int64) for name in ("masked_lm_positions", "masked_lm_ids")}
    spec["masked_lm_weights"] = tf.io.FixedLenFeature([P], tf.float32)
    spec["next_sentence_labels"] = tf.io.FixedLenFeature([1], tf.int64)
    serialized = list(tf.data.TFRecordDataset(result.files["train"]).as_numpy_iterator())
    single = tf.io.parse_single_example(serialized[0], spec)
    columns = {name: value.numpy() for name, value in tf.io.parse_example(serialized, spec).items()}
    assert all((columns[name][0] == single[name].numpy()).all() for name in spec)
    return request.param, result, columns


@pytest.mark.slow
def test_every_sentence_is_accounted_for(made, corpus):
    _, result, columns = made
    counters = result.counters
    assert counters["sentences"] == counters["sentences_used"] + sum(counters["dropped"].values())
    assert counters["examples"] == len(columns["input_ids"])
    files, _ = find_files([corpus])
    lines = sum(
        len(block.lines) for byte_range in plan_byte_ranges(files, 1 << 22) for block in read_blocks(byte_range)
    )
    assert counters["sentences"] == lines


@pytest.mark.slow
def test_masks(made):
    _, _, columns = made
    lengths = columns["input_mask"].sum(axis=1)
    weights = columns["masked_lm_weights"]
    budget = np.array([min(P, max(1, round(0.15 * n))) for n in lengths.tolist()])
    count = weights.sum(axis=1)
    assert (count <= budget).all()
    assert (count >= 1).all()
    assert (count == budget).mean() > 0.98
    rows, slots = np.nonzero(weights)
    shown = columns["input_ids"][rows, columns["masked_lm_positions"][rows, slots]]
    truth = columns["masked_lm_ids"][rows, slots]
    n = len(truth)
    for share, observed in ((0.8, (shown == 4).mean()), (0.1, (shown == truth).mean())):
        assert abs(observed - share) < 4 * np.sqrt(share * (1 - share) / n) + 1e-4
    assert not np.isin(truth, [0, 2, 3, 4]).any()


def _streams(corpus, model):
    """All documents' tokens in one array, and the document of each token."""
    tokenizer = load_tokenizer(model)
    files, _ = find_files([corpus])
    tokens, document = [], []
    number = -1
    for byte_range in plan_byte_ranges(files, 1 << 22):
        for block in read_blocks(byte_range):
            ids, lengths = tokenizer.encode(block.lines)
            at = 0
            ends = np.concatenate([[0], np.cumsum(lengths)])
            for i, lines in enumerate(block.line_counts):
                number += not (i == 0 and block.starts_inside)
                document.append(np.full(ends[at + lines] - ends[at], number))
                at += lines
            tokens.append(ids)
    return np.concatenate(tokens).astype("<i4"), np.concatenate(document)


def _find_all(stream: bytes, part: np.ndarray) -> np.ndarray:
    found, at, pattern = [], 0, part.astype("<i4").tobytes()
    while (at := stream.find(pattern, at)) >= 0:
        if at % 4 == 0:
            found.append(at // 4)
        at += 1
    return np.array(found, np.int64)


@pytest.mark.slow
def test_pairs_come_from_where_the_label_says(made, corpus, model):
    objective, _, columns = made
    labels = columns["next_sentence_labels"][:, 0]
    if objective == "sop":
        assert abs(labels.mean() - 0.5) < 3 * np.sqrt(0.25 / len(labels))
    tokens, document = _streams(corpus, model)
    stream = tokens.tobytes()
    chosen = np.random.default_rng(0).choice(len(labels), 150, replace=False)
    for i in chosen.tolist():
        ids = columns["input_ids"][i].copy()
        used = columns["masked_lm_weights"][i] > 0
        ids[columns["masked_lm_positions"][i][used]] = columns["masked_lm_ids"][i][used]
        length = int(columns["input_mask"][i].sum())
        middle = int((columns["segment_ids"][i][:length] == 0).sum())
        first, second = ids[1 : middle - 1], ids[middle : length - 1]
        if objective == "sop" and labels[i] == 1:
            first, second = second, first
        a, b = _find_all(stream, first), _find_all(stream, second)
        assert len(a), i
        assert len(b), i
        if objective == "nsp" and labels[i] == 1:
            assert len({*document[a], *document[b]}) > 1, i
        elif length < L:  # nothing was cut: B starts where A ends
            starts = np.intersect1d(a + len(first), b)
            assert (document[starts - len(first)] == document[starts]).any(), i
        else:
            last = dict(zip(document[b], b, strict=True))  # of each document
            assert any(at + len(first) <= last.get(own, -1) for own, at in zip(document[a], a, strict=True)), i
