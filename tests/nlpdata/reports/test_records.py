"""Reports of records: every figure against a plain count of the decoded records."""

import json
from collections import Counter
from itertools import groupby

import numpy as np
import pytest

import nlpdata
from nlpdata.records.contract import Feature
from nlpdata.records.encoding import encode_examples
from nlpdata.records.inspection import inspect_records
from nlpdata.records.writer import ShardWriter
from nlpdata.reports.finetuning import finetuning_report
from nlpdata.reports.inputs import named_paths, record_files
from nlpdata.reports.options import ReportRequest
from nlpdata.reports.page import Chart, Report, Table, markdown
from nlpdata.reports.record_gathering import gather_records
from nlpdata.reports.records import pretraining_report
from tests.nlpdata.commands import run_command, visible


@pytest.fixture(scope="module")
def pretraining(tmp_path_factory, corpus_folder, tiny_model):
    """A set in two shards, and one of an eval split."""
    folder = tmp_path_factory.mktemp("pretraining")
    nlpdata.create_pretraining(
        f"{corpus_folder}/*.txt",
        folder / "x.tfrecord",
        tiny_model,
        max_seq_length=48,
        dupe_factor=2,
        short_seq_prob=0.5,
        eval_fraction=0.2,
        num_shards=2,
        workers=1,
    )
    return folder


def _gather(*paths, **more):
    return gather_records(
        ReportRequest([str(path) for path in paths], "r.html", workers=1, **more), "records", list(paths)
    )


def _rows(report: Report, title: str, caption: str = "") -> dict:
    """First cell -> the others, of a table or a chart of a section."""
    section = next(section for section in report.sections if section.title == title)
    items = [each for each in section.items if isinstance(each, Table | Chart)]
    table = next(
        each for each in items if getattr(each, "caption", "") == caption or getattr(each, "title", "") == caption
    )
    return {row[0]: row[1] if len(row) == 2 else row[1:] for row in table.rows}


def _true_ids(record: dict) -> list[int]:
    ids = record["input_ids"].copy()
    for position, true, weight in zip(
        *(record[f"masked_lm_{name}"] for name in ("positions", "ids", "weights")), strict=True
    ):
        if weight:
            ids[position] = true
    return ids[: int(record["input_mask"].sum())].tolist()


def test_pretraining_records_by_a_plain_count(pretraining, tiny_model):
    shards = sorted(pretraining.glob("x.tfrecord*"))
    facts = _gather(*shards)
    columns = nlpdata.open_records([str(path) for path in shards])[:]
    records = [{name: values[n] for name, values in columns.items()} for n in range(len(columns["input_ids"]))]
    tokenizer = nlpdata.load_tokenizer(str(tiny_model))
    true = [_true_ids(record) for record in records]
    counts = facts.groups["x.tfrecord"]
    assert len(shards) == 2
    assert counts.records == len(records) > 100
    assert counts.lengths == Counter(map(len, true))
    assert Counter(dict(enumerate(counts.pieces.tolist()))) == Counter(token for ids in true for token in ids)
    assert counts.unknown == sum(ids.count(tokenizer.unk_id) for ids in true)
    assert counts.next_sentence == Counter(int(record["next_sentence_labels"][0]) for record in records)
    shown, runs, predictions = Counter(), Counter(), Counter()
    for record, ids in zip(records, true, strict=True):
        chosen = record["masked_lm_positions"][record["masked_lm_weights"] > 0].tolist()
        predictions[len(chosen)] += 1
        for position in chosen:
            now = int(record["input_ids"][position])
            kind = (
                "[MASK]" if now == tokenizer.mask_id else "the word itself" if now == ids[position] else "another word"
            )
            shown[kind] += 1
        for _, run in groupby(enumerate(chosen), key=lambda pair: pair[1] - pair[0]):
            runs[max(sum(int(record["token_boundary"][position]) for _, position in run), 1)] += 1
    assert (counts.shown, counts.runs, counts.predictions) == (shown, runs, predictions)
    equal = len(true) - len(set(map(tuple, true)))
    assert facts.repeated == [(equal, 0)]
    assert (facts.checked.records, facts.checked.faults) == (len(records), [])
    report = pretraining_report(facts)
    figures = dict(report.facts)
    total, masked = sum(map(len, true)), shown.total()
    assert figures["padding"] == f"{100 * (1 - total / (48 * len(true))):.1f}%"
    assert figures["masked tokens"] == f"{100 * masked / total:.1f}%"
    assert _rows(report, "Masking")["share asked for (masked_lm_prob)"] == "15.0%"
    assert _rows(report, "Records", "Order of the two segments").keys() == {"0 (in_order)", "1 (swapped)"}
    counters = _rows(report, "What was read and left out", "Counters of create-pretraining")
    assert (counters["documents"], counters["examples to train on"]) == (200, len(records))
    assert "examples" not in counters  # the same number again, which with those to evaluate on would be no sum
    assert _rows(report, "How it was made", "Options")["dupe_factor"] == "2"
    assert "[MASK:" in markdown(report).replace("\\", "")


def test_several_sets_a_sample_and_no_meta_file(pretraining, tmp_path):
    both = [*sorted(pretraining.glob("x.tfrecord*")), pretraining / "x.eval.tfrecord"]
    facts = _gather(*both, limit=40)
    assert list(facts.groups) == ["x.tfrecord", "x.eval.tfrecord"]
    assert 35 <= sum(counts.records for counts in facts.groups.values()) <= 40
    assert facts.checked is None
    assert "A sample: " in pretraining_report(facts).subtitle
    alone = tmp_path / "alone.tfrecord"
    alone.write_bytes(both[-1].read_bytes())
    report = pretraining_report(_gather(alone))
    assert dict(report.facts)["unknown tokens"] is None
    text = markdown(report).replace("\\", "")
    assert "There is no meta file: how the records were made is not known." in text
    assert "No meta file names a tokenizer" in text


@pytest.fixture(scope="module")
def classification(tmp_path_factory, tiny_model):
    """Rows of which train has one twice, and dev two that train has."""
    folder = tmp_path_factory.mktemp("classification")
    names = ["".join("aeioutnsrl"[int(digit)] for digit in str(n)) for n in range(100)]
    train = [(f"{name}m {'sun ' * (n % 40)}", n % 3) for n, name in enumerate(names[:60])]
    train.append(train[5])
    dev = [*train[:2], *((f"{name}m", n % 2) for n, name in enumerate(names[80:88]))]
    for name, rows in (("train", train), ("dev", dev)):
        lines = [f"{text}\tclass {label}" for text, label in rows]
        (folder / f"{name}.tsv").write_text("\n".join(["text\tlabel", *lines]) + "\n")
    nlpdata.create_finetuning(
        folder / "train.tsv",
        folder / "out",
        str(tiny_model),
        task="classification",
        workers=1,
        dev_input=str(folder / "dev.tsv"),
        max_seq_length=64,
        accept_loss=True,
    )
    return folder / "out"


def test_finetuning_records(classification, capsys, tmp_path):
    done = run_command(
        capsys, "report", classification, "--output", tmp_path / "r.html", "--workers", 1, "--json", "--quiet"
    )
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert result["kind"] == "fine-tuning records"
    assert result["figures"]["records, train"] == 61
    assert visible(tmp_path) == ["r.html", "r.md"]
    facts = _gather(*sorted(classification.glob("*.tfrecord")))
    assert list(facts.groups) == ["train", "dev"]
    assert facts.repeated == [(1, 0), (0, 2)]
    report = finetuning_report(facts)
    assert _rows(report, "Labels", "Records by label") == {"class 0": (20, 5), "class 1": (20, 5), "class 2": (21, 0)}
    assert _rows(report, "Repeated records")["dev"] == (10, 0, "0.0%", 2, "20.0%")
    counters = facts.meta["splits"]["train"]["counters"]
    assert counters["truncated"] > 0
    assert _rows(report, "Splits")["train"][3] == f"{100 * counters['truncated'] / 61:.1f}%"
    assert _rows(report, "What was read and left out", "train")["tokens cut off"] == counters["tokens_truncated"]
    options = _rows(report, "How it was made", "Options")
    assert options["task"] == "classification"
    assert {"doc_stride", "max_qa_length"} & {*options} == set()  # of SQuAD and of multiple choice


def test_finetuning_records_without_their_meta_file(classification, capsys, tmp_path):
    """They are known by their labels; what only the meta file says is not shown as 0."""
    alone = tmp_path / "alone.tfrecord"
    alone.write_bytes((classification / "train.tfrecord").read_bytes())
    done = run_command(capsys, "report", alone, "--output", tmp_path / "r.html", "--workers", 1, "--json", "--quiet")
    result = json.loads(done.out)
    assert (result["kind"], result["figures"]["unknown tokens"]) == ("fine-tuning records", None)
    report = finetuning_report(_gather(alone))
    assert _rows(report, "Splits")["alone.tfrecord"][-2:] == (None, None)


def test_answers_and_scores(tmp_path, tiny_model, monkeypatch):
    context = "the sun is warm and the moon is cold " * 6
    questions = [
        {"id": str(n), "question": "what is warm ?", "answers": [] if n == 3 else [{"text": "sun", "answer_start": 4}]}
        | ({"is_impossible": True} if n == 3 else {})
        for n in range(4)
    ]
    content = {"data": [{"title": "t", "paragraphs": [{"context": context, "qas": questions}]}]}
    (tmp_path / "train.json").write_text(json.dumps(content))
    (tmp_path / "scores.tsv").write_text("text\tlabel\n" + "".join(f"moon {n}\t{n / 4}\n" for n in range(20)))
    more = {"tokenizer": str(tiny_model), "max_seq_length": 64, "accept_loss": True}
    nlpdata.create_finetuning(tmp_path / "train.json", tmp_path / "squad", task="squad", max_query_length=16, **more)
    nlpdata.create_finetuning(tmp_path / "scores.tsv", tmp_path / "scores", task="regression", **more)
    facts = _gather(tmp_path / "squad" / "train.tfrecord")
    records = nlpdata.open_records(str(tmp_path / "squad" / "train.tfrecord"))
    starts = np.array([int(records[n]["start_positions"][0]) for n in range(len(records))])
    counts = facts.groups["train"]
    assert counts.starts == Counter(starts[starts > 0].tolist())
    assert counts.no_answer == int((starts == 0).sum()) > 0
    assert _rows(finetuning_report(facts), "How it was made", "Options")["max_query_length"] == "16"
    assert _rows(finetuning_report(facts), "Answers", "Windows of train") == {
        "with an answer": int((starts > 0).sum()),
        "without one": counts.no_answer,
    }
    scores = finetuning_report(_gather(tmp_path / "scores" / "train.tfrecord"))
    bins = _rows(scores, "Scores", "Scores of train")
    assert sum(bins.values()) == 20
    assert next(iter(bins)).startswith("0 to ")
    assert float(list(bins)[-1].rpartition(" ")[2]) == max(_gather(tmp_path / "scores" / "train.tfrecord").whole.labels)


@pytest.mark.parametrize("given", ["x.meta.json", "x.tfrecord-00000-of-00002", "x*", "."])
def test_how_records_are_named(pretraining, tmp_path, monkeypatch, given):
    monkeypatch.chdir(pretraining)
    found = record_files(named_paths([given]))
    assert found is not None
    expected = {"x.meta.json": 2, "x.tfrecord-00000-of-00002": 1}.get(given, 3)
    assert len(found) == expected
    assert all(path.name.startswith("x.") and "tfrecord" in path.name for path in found)
    assert record_files(named_paths([str(tmp_path)])) is None


def test_options_of_text_are_refused(pretraining, tmp_path, capsys):
    done = run_command(capsys, "report", pretraining, "--output", tmp_path / "r.html", "--evaluation", "x.tsv")
    assert done.code == 2
    assert "--evaluation is for text, and records are given" in done.err


def _integers(width, value=1):
    return np.full((3, width), value, np.int64)


TEXT_VALUE = np.full((3, 1), b"x", object)


@pytest.mark.parametrize(
    "odd",
    [
        {"input_ids": TEXT_VALUE},
        {"input_mask": _integers(5)},
        {"masked_lm_ids": _integers(2)},
        {"masked_lm_positions": np.ones((3, 3), np.float32)},
        {"masked_lm_weights": np.full((3, 3), b"x", object)},
        {"token_boundary": _integers(1)},
        {"next_sentence_labels": _integers(0)},
        {"next_sentence_labels": TEXT_VALUE},
        {"label_ids": _integers(0)},
        {"label_ids": TEXT_VALUE},
        {"start_positions": np.full((3, 1), np.nan, np.float32), "end_positions": _integers(1)},
        {"start_positions": TEXT_VALUE, "end_positions": _integers(0)},
    ],
    ids=range(12),
)
def test_features_of_another_type_or_length_are_named_and_not_counted(tmp_path, odd):
    columns = {name: _integers(8, int(name != "segment_ids")) for name in ("input_ids", "input_mask", "segment_ids")}
    columns |= {"masked_lm_positions": _integers(3), "masked_lm_ids": _integers(3)}
    columns |= {"masked_lm_weights": np.ones((3, 3), np.float32)} | odd
    types = {"i": "int64", "f": "float32", "O": "bytes"}
    features = [Feature(name, types[values.dtype.kind], values.shape[1]) for name, values in sorted(columns.items())]
    path = tmp_path / "x.tfrecord"
    with ShardWriter(path) as writer:
        writer.write(encode_examples(features, columns)[0], 3)
    facts = _gather(path)
    assert {line.split()[1] for line in facts.not_counted} >= odd.keys() - {"end_positions"}
    (checks,) = (section for section in pretraining_report(facts).sections if section.title == "Checks")
    assert set(facts.not_counted) <= set(checks.items[0].lines)
    assert nlpdata.verify(str(path)).faults
    assert next(iter(odd)) in inspect_records(path)


def test_two_labels_of_one_name_are_two(classification, tmp_path):
    for path in classification.iterdir():
        if path.is_file():
            (tmp_path / path.name).write_bytes(path.read_bytes())
    meta = json.loads((tmp_path / "meta.json").read_text())
    (tmp_path / "meta.json").write_text(json.dumps(meta | {"label_names": ["one"] * len(meta["label_names"])}))
    facts = _gather(*sorted(tmp_path.glob("*.tfrecord")))
    shown = _rows(finetuning_report(facts), "Labels", "Records by label")
    assert len(shown) == len(sum((counts.labels for counts in facts.groups.values()), Counter())) > 1


def test_numbers_of_a_meta_file_of_another_hand(pretraining, tmp_path):
    for name in ("x.eval.tfrecord", "x.eval.meta.json"):
        (tmp_path / name).write_bytes((pretraining / name).read_bytes())
    meta = json.loads((tmp_path / "x.eval.meta.json").read_text())
    meta["options"] |= {"masked_lm_prob": 10**400, "dupe_factor": 10**400}
    meta |= {"inputs": [{"file": "a", "bytes": 10**400}]}
    (tmp_path / "x.eval.meta.json").write_text(json.dumps(meta))
    assert "share asked for" not in markdown(pretraining_report(_gather(tmp_path / "x.eval.tfrecord")))
