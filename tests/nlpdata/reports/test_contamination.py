"""Rows of evaluation sets in a corpus: against a plain search, over all ways to cut the text, and with real rows."""

import csv
import gzip
import json
import random
import re
import unicodedata
from pathlib import Path

import numpy as np
import pytest

import nlpdata
from nlpdata.corpus import find_files, plan_byte_ranges, read_blocks
from nlpdata.errors import DataError, UsageError
from nlpdata.reports import contamination
from nlpdata.reports.contamination import Matcher, add_places, contaminated, gram_hashes, make_index, word_hashes
from nlpdata.reports.evaluation import open_evaluation
from tests.shared import shared

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def _plain_grams(text: str, size: int) -> set[tuple[str, ...]]:
    words = re.findall(r"[a-zäöü]+", text.lower())
    return {tuple(words[at : at + size]) for at in range(len(words) - size + 1)}


@pytest.mark.parametrize("block_bytes", [1, 90, 1 << 20])
def test_as_a_plain_search_finds_it(tmp_path, block_bytes):
    rng = random.Random(5)
    words = ["Sonne", "mond,", "Wölkchen", "wind!"]
    documents = [
        [" ".join(rng.choices(words, k=rng.randint(1, 14))) for _ in range(rng.randint(1, 6))] for _ in range(400)
    ]
    rows = [" ".join(rng.choices(words, k=rng.randint(3, 16))) for _ in range(200)]
    rows[:3] = [" ".join(documents[7]).upper(), documents[11][0], "a b c d e f g h i j k l m n"]
    (tmp_path / "a.txt").write_text("\n\n".join("\n".join(each) for each in documents[:250]), encoding="utf-8")
    (tmp_path / "b.txt").write_text("\n\n".join("\n".join(each) for each in documents[250:]), encoding="utf-8")
    (tmp_path / "rows.txt").write_text("\n".join(rows), encoding="utf-8")
    index = make_index(open_evaluation([str(tmp_path / "rows.txt")]), 9)
    files, _ = find_files([str(tmp_path / "[ab].txt")])
    found = {}
    for byte_range in reversed(plan_byte_ranges(files, 3000)):
        matcher = Matcher(index.save(tmp_path))
        for block in read_blocks(byte_range, block_bytes=block_bytes):
            matcher.add(block)
        add_places(found, matcher.found)
    (result,) = contaminated(index, found)
    corpus = {size: set().union(*(_plain_grams(" ".join(each), size) for each in documents)) for size in (8, 9)}
    expected = {}
    for number, row in enumerate(rows):
        size = 9 if len(_plain_grams(row, 9)) else 8
        own = _plain_grams(row, size)
        if own & corpus[size]:
            expected[number] = (len(own & corpus[size]), len(own))
    assert {match.row: (match.found, match.total) for match in result.matches} == expected
    assert 3 < len(expected) < 150
    assert result.told == sum(bool(_plain_grams(row, 8)) for row in rows)
    lines = [path.read_text().split("\n") for path in (tmp_path / "a.txt", tmp_path / "b.txt")]
    for match in result.matches:  # where it says, an n-gram begins
        file, offset, line = match.first
        start = (tmp_path / "ab"[file]).with_suffix(".txt").read_bytes()[:offset].count(b"\n") + line
        rest = " ".join(
            lines[file][start:][: next((n for n, text in enumerate(lines[file][start:]) if not text), None)]
        )
        grams = _plain_grams(rows[match.row], 9) or _plain_grams(rows[match.row], 8)
        size = len(next(iter(grams)))
        count = len(re.findall(r"[a-zäöü]+", lines[file][start].lower()))
        begins = re.findall(r"[a-zäöü]+", rest.lower())
        assert any(tuple(begins[at : at + size]) in grams for at in range(count))


def test_words_and_hashes():
    hashed, counts = word_hashes(["Don't stop!", "", "用中文 写 2 x", "हिन्दी में", "a\nb"])
    assert counts.tolist() == [3, 0, 6, 2, 2]
    again, _ = word_hashes(["DON T, STOP"])
    assert hashed[:3].tolist() == again.tolist()
    one = "Zoë’s naïve café in der Straße, 2 ΟΔΟΣ テスト"
    forms = [one.upper(), unicodedata.normalize("NFD", one), one.replace("ß", "ss")]
    forms += [one.replace("2", "２").replace("テ", "ﾃ")]
    forms += [one.replace("naïve", "na\u00adïve"), one.replace(" ", "\u00a0")]
    for form in forms:
        assert word_hashes([form])[0].tolist() == word_hashes([one])[0].tolist(), form
    assert word_hashes(["cafe"])[0].tolist() != word_hashes(["café"])[0].tolist()
    words, _ = word_hashes(["a b c a b c a b"])
    grams = gram_hashes(words, 3)
    assert (grams[:3] == grams[3:]).all()
    assert len(set(grams.tolist())) == 3
    assert gram_hashes(words, 9).shape == (0,)
    assert gram_hashes(words, 3).dtype == np.uint64


def _squad(questions: list[tuple[str, str]], context: str) -> str:
    asked = [{"id": name, "question": text, "answers": [{"text": "x", "answer_start": 0}]} for name, text in questions]
    return json.dumps({"data": [{"paragraphs": [{"context": context, "qas": asked}]}]})


def test_every_kind_of_evaluation_set(tmp_path):
    text = "one two three four five six seven eight"
    mrpc = tmp_path / "MRPC"
    mrpc.mkdir()
    head = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
    for split in ("train", "dev"):
        (mrpc / f"{split}.tsv").write_text(f"{head}1\t1\t2\t{text}\tnine ten\n1\t1\n")
    (tmp_path / "squad.json").write_text(_squad([("q1", text), ("q2", "short")], f"x {text}"))
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": 3, "text": text, "label": "no"}) + "\n{\n")
    (tmp_path / "rows.csv").write_text(f'text,label\n"{text}, ""quoted""",1\n')
    (tmp_path / "rows.txt").write_text(f"{text}\n\nshort\n")
    paths = [str(tmp_path / name) for name in ("MRPC", "squad.json", "rows.jsonl", "rows.csv", "rows.txt")]
    sets = open_evaluation([",".join(paths), str(mrpc / "train.tsv")])
    index = make_index(sets, 13)
    names = [Path(name).name for name in index.names]
    assert names == [
        "dev.tsv",
        "squad.json (questions)",
        "squad.json (contexts)",
        "rows.jsonl",
        "rows.csv",
        "rows.txt",
        "train.tsv",
    ]
    assert np.diff(index.firsts).tolist() == [1, 2, 1, 1, 1, 2, 1]
    assert index.told.tolist() == [True, True, False, True, True, True, True, False, True]
    assert [Path(where).name for where in index.wheres] == [
        *("dev.tsv:2", "squad.json, question q1", "squad.json, question q2", "squad.json, context 1"),
        *("rows.jsonl:1", "rows.csv:2", "rows.txt:1", "rows.txt:3", "train.tsv:2"),
    ]
    assert [sum(each.values()) for each in index.bad.values()] == [1, 0, 0, 1, 0, 0, 1]
    (tmp_path / "corpus.txt").write_text("Zero one.\nOne two three four; FIVE six\nseven eight!\n")
    made = nlpdata.report(str(tmp_path / "corpus.txt"), str(tmp_path / "r.html"), evaluation=paths, workers=1)
    assert [each["contaminated"] for each in made.overlap.values()] == [1, 1, 1, 1, 1, 1]
    rows = list(csv.reader((tmp_path / "r.contaminated.tsv").read_text().splitlines(), delimiter="\t"))
    assert {row[2] for row in rows[1:]} == {f"{tmp_path / 'corpus.txt'}:2"}
    assert (tmp_path / "r.md").read_text().count("rows cannot be read") == 2


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ("nothing.tsv", UsageError, "evaluation: .*nothing.tsv' matches no file"),
        (
            "folder",
            UsageError,
            "is a folder or an archive, and its name is of no dataset that is known: cola, .*Name files",
        ),
        ("RTE", UsageError, "RTE has no dev and no test split"),
        ("empty.txt", DataError, "no row can be read"),
        ("s3://bucket/x.tsv", UsageError, "are read from this machine"),
    ],
)
def test_evaluation_sets_that_cannot_be_read(tmp_path, given, error, words):
    for folder in ("folder", "RTE"):
        (tmp_path / folder).mkdir()
    (tmp_path / "RTE" / "train.tsv").write_text("index\tsentence1\tsentence2\tlabel\n")
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(error, match=words):
        make_index(open_evaluation([given if "://" in given else str(tmp_path / given)]), 13)


def test_memory_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(contamination, "MOST_GRAMS", 10)
    (tmp_path / "rows.txt").write_text("a b c d e f g h i j k l m\n" * 20)
    with pytest.raises(DataError, match=r"more than 10 n-grams, .* at .*rows.txt:11. Name fewer files"):
        make_index(open_evaluation([str(tmp_path / "rows.txt")]), 13)


def _planted(tmp_path: Path, rows: list[str], corpus: str, evaluation: Path) -> dict[str, int]:
    """What is found of an evaluation set in a corpus, without and with rows of it."""
    documents = corpus.split("\n\n")
    found = {}
    for name, planted in (("clean", []), ("planted", rows)):
        text = [f"{document}\n{row}" for document, row in zip(documents, planted, strict=False)] + documents[
            len(planted) :
        ]
        (tmp_path / f"{name}.txt").write_text("\n\n".join(text), encoding="utf-8")
        index = make_index(open_evaluation([str(evaluation)]), 13)
        matcher = Matcher(index.save(tmp_path))
        files, _ = find_files([str(tmp_path / f"{name}.txt")])
        for byte_range in plan_byte_ranges(files, 1 << 20):
            for block in read_blocks(byte_range):
                matcher.add(block)
        found[name] = sum(len(each.matches) for each in contaminated(index, matcher.found))
    return found


def test_rows_of_the_shipped_table(tmp_path):
    table = EXAMPLES / "languages.tsv"
    rows = [row["text"] for row in csv.DictReader(table.read_text(encoding="utf-8").splitlines(), delimiter="\t")]
    long = [row for row in rows if word_hashes([row])[1][0] >= 8][:12]
    corpus = (EXAMPLES.parent / "README.md").read_text(
        encoding="utf-8"
    )  # those of examples/ share sentences with the table
    assert _planted(tmp_path, long, corpus, table) == {"clean": 0, "planted": 12}


def test_rows_of_glue_in_film_reviews(tmp_path):
    rte, text = shared("data", "glue", "RTE", "dev.tsv"), shared("data", "ospl", "imdb_unsup_dev_3000.txt.gz")
    rows = [row.split("\t")[1] for row in rte.read_text(encoding="utf-8").splitlines()[1:]]
    long = [row for row in rows if word_hashes([row])[1][0] >= 13][:25]
    with gzip.open(text, "rt", encoding="utf-8") as file:
        corpus = file.read(2_000_000)
    assert _planted(tmp_path, long, corpus, rte.parent / "dev.tsv") == {"clean": 0, "planted": 25}
