"""Reports of a corpus: every figure against a plain count, however the text is cut, and what the command refuses."""

import gzip
import json
import os
import random
import tempfile
from collections import Counter
from pathlib import Path

import pytest

import nlpdata
from nlpdata.corpus import find_files, plan_portions
from nlpdata.corpus.sample import sampled_documents
from nlpdata.reports import gathering, making
from nlpdata.reports.corpus import corpus_report
from nlpdata.reports.gathering import gather_corpus
from nlpdata.reports.inputs import named_paths, record_files
from nlpdata.reports.options import ReportRequest
from nlpdata.reports.overlap import LIST_HEAD
from nlpdata.reports.page import names_of
from nlpdata.reports.survey import chosen_examples
from tests.disks import files_up_to
from tests.nlpdata.commands import run_command, visible
from tests.nlpdata.conftest import as_text, random_documents

DOCUMENTS = [
    ["Ein Haus steht hier.", "Es ist alt."],
    ["用中文写。", "नमस्ते दुनिया", "Ein Haus steht hier."],
    ["Only one sentence <b>here</b>."],
    *random_documents(60, seed=4),
    ["用中文写。", "नमस्ते दुनिया", "Ein Haus steht hier."],
]


@pytest.fixture
def corpus(tmp_path):
    """Two files, one compressed, and a line that is not UTF-8 in a document of its own."""
    (tmp_path / "a.txt").write_text(as_text(DOCUMENTS[:40]), encoding="utf-8")
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(as_text(DOCUMENTS[40:]).encode() + b"\n\xff\xfe\n"))
    return f"{tmp_path}/[ab].txt*"


def _gather(corpus, tmp_path, **more):
    folder = tmp_path / "work"
    folder.mkdir(exist_ok=True)
    return gather_corpus(ReportRequest(corpus, "r.html", workers=1, **more), [corpus], folder, "list.tsv").facts


@pytest.mark.parametrize("portion_bytes", [300, 1 << 24])
def test_figures_are_those_of_a_plain_count(corpus, tmp_path, tiny_model, monkeypatch, portion_bytes):
    monkeypatch.setattr(gathering, "_PORTION_BYTES", portion_bytes)
    facts = _gather(corpus, tmp_path, tokenizer=str(tiny_model))
    lines = [line for document in DOCUMENTS for line in document]
    tokenizer = nlpdata.load_tokenizer(str(tiny_model))
    ids, lengths = tokenizer.encode(lines)
    counts = facts.counts
    assert (counts.documents, counts.sentences, counts.one_sentence) == (len(DOCUMENTS) + 1, len(lines), 1)
    assert counts.sentence_characters == Counter(map(len, lines))
    assert counts.document_sentences == Counter([*map(len, DOCUMENTS), 0])
    assert counts.document_characters == Counter([*(sum(map(len, document)) for document in DOCUMENTS), 0])
    assert counts.characters == Counter(ord(character) for character in "".join(lines))
    assert counts.dropped == {"invalid_utf8": 1}
    assert (counts.tokens, counts.sentence_tokens) == (len(ids), Counter(lengths.tolist()))
    assert Counter(dict(enumerate(counts.pieces.tolist()))) == Counter(ids.tolist())
    assert facts.repeated_lines == len(lines) - len(set(lines))
    assert facts.repeated_documents == 1
    assert set(facts.repeated_examples) >= {"Ein Haus steht hier.", "用中文写。", "नमस्ते दुनिया"}
    assert {"用", "中", "文", "写", "न"} <= set(facts.vocabulary.unspelt)
    assert facts.vocabulary.unspelt["用"] == 2
    texts = [" ".join(document)[:250] for document in DOCUMENTS]
    assert len(facts.examples) == 8
    for where, text in facts.examples:
        path, _, line = where.rpartition(":")
        opened = gzip.decompress(Path(path).read_bytes()) if path.endswith("gz") else Path(path).read_bytes()
        assert opened.decode("utf-8", "replace").split("\n")[int(line) - 1] == DOCUMENTS[texts.index(text)][0]


def test_the_same_page_however_the_work_is_divided(corpus, tmp_path, tiny_model, monkeypatch):
    evaluation = tmp_path / "rows.txt"
    evaluation.write_text("\n".join(" ".join(document) for document in DOCUMENTS[3:20]))
    made = []
    for portion_bytes in (300, 5000):
        monkeypatch.setattr(gathering, "_PORTION_BYTES", portion_bytes)
        made.append(corpus_report(_gather(corpus, tmp_path, tokenizer=str(tiny_model), evaluation=str(evaluation))))
    assert made[0] == made[1]


def test_a_sample_is_of_all_parts(tmp_path):
    documents = [[f"Document {number}."] for number in range(2000)]
    (tmp_path / "a.txt").write_text(as_text(documents[:1500]))
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(as_text(documents[1500:]).encode()))
    files, _ = find_files([f"{tmp_path}/*"])
    portions = sampled_documents(plan_portions(files, 4000), 200)
    facts = _gather(f"{tmp_path}/*", tmp_path, limit=200)
    assert sum(each.max_documents for portion in portions for each in portion.byte_ranges) == 200
    assert facts.counts.documents == 200
    assert facts.repeated_documents == 0  # no document is read twice
    assert len({int(text.split()[1][:-1]) // 400 for _, text in facts.examples}) > 2
    report = corpus_report(facts)
    assert report.subtitle.startswith("A sample: 200 documents from places that are spread evenly over 2 files of ")


def test_text_that_the_tokenizer_loses(tmp_path, tiny_model):
    path = tmp_path / "hindi.txt"
    path.write_text("".join(f"अपोलो कार्यक्रम {n}\n" for n in range(40)))
    nlpdata.report(path, tmp_path / "r.html", tokenizer=tiny_model, workers=1)
    notes = (tmp_path / "r.md").read_text().partition("## What commands would leave out")[2].partition("\n## ")[0]
    assert "tokens are unknown to the tokenizer (" in notes
    assert "the tokenizer drops accents, " in notes
    assert "'र्' becomes 'र'" in notes
    assert "Nothing looks wrong" not in notes


def test_the_command(corpus, tmp_path, tiny_model, capsys, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    (tmp_path / "tmp" / f".nlpdata-report.{'0' * 32}.tmp" / "what a killed command left").mkdir(parents=True)
    page = tmp_path / "out" / "r.html"
    done = run_command(capsys, "report", corpus, "--tokenizer", tiny_model, "--output", page, "--workers", 1, "--json")
    assert done.code == 0, done.err
    assert not list((tmp_path / "tmp").iterdir())
    result = json.loads(done.out)
    assert (result["command"], result["kind"], result["overlap"]) == ("report", "corpus", {})
    assert result["files"] == [str(page), str(page.with_suffix(".md"))]
    assert result["figures"]["documents"] == len(DOCUMENTS) + 1
    assert result["figures"]["lines left out"] == 1
    text = page.read_text()
    assert "Only one sentence &lt;b&gt;here&lt;/b&gt;." in text
    assert "<b>" not in text
    first = text, page.with_suffix(".md").read_text()
    again = run_command(capsys, "report", corpus, "--output", page)
    assert again.code == 2
    assert "out/ already holds r.html, r.md. Use --overwrite, or another --output." in again.err
    done = run_command(
        capsys, "report", corpus, "--tokenizer", tiny_model, "--output", page, "--workers", 1, "--overwrite"
    )
    assert (page.read_text(), page.with_suffix(".md").read_text()) == first
    assert "unknown tokens" in done.out
    assert visible(page.parent) == ["r.html", "r.md"]


def test_a_full_disk_leaves_the_older_report(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("One.\n")
    page = tmp_path / "r.html"
    assert run_command(capsys, "report", tmp_path / "a.txt", "--output", page, "--workers", 1).code == 0
    first = page.read_bytes(), page.with_suffix(".md").read_bytes()
    assert len(first[1]) < 12_000 < len(first[0])
    (tmp_path / "a.txt").write_text("Two.\n")
    with files_up_to(12_000):
        done = run_command(capsys, "report", tmp_path / "a.txt", "--output", page, "--workers", 1, "--overwrite")
    assert done.code == 1
    assert "r.html: cannot be written: File too large" in done.err
    assert (page.read_bytes(), page.with_suffix(".md").read_bytes()) == first
    assert sorted(os.listdir(tmp_path)) == ["a.txt", "r.html", "r.md"]


def test_a_page_that_another_process_has_written_meanwhile_stays(tmp_path, capsys, monkeypatch):
    page = tmp_path / "r.html"

    def slow(facts):
        page.write_text("of another process")
        return corpus_report(facts)

    monkeypatch.setattr(making, "corpus_report", slow)
    (tmp_path / "a.txt").write_text("One.\n")
    done = run_command(capsys, "report", tmp_path / "a.txt", "--output", page, "--workers", 1)
    assert (done.code, page.read_text(), visible(tmp_path)) == (2, "of another process", ["a.txt", "r.html"])
    assert "already holds r.html" in done.err


def test_the_title_of_many_files_is_short():
    assert names_of(["a.txt", "b.txt"]) == "a.txt, b.txt"
    assert names_of([f"{n}.txt" for n in range(2000)]) == "0.txt, 1.txt, 2.txt, 3.txt and 1,996 more"


def test_examples_are_from_all_files_in_whatever_order_parts_come():
    draw = random.Random(7)
    found = [(draw.randbytes(2), draw.choice((0, 0, 0, 0, 0, 1, 2)), number, "") for number in range(300)]
    chosen = chosen_examples(found)
    assert {0, 1, 2} == {each[1] for each in chosen}
    assert len(chosen) == 8
    for _ in range(20):
        draw.shuffle(found)
        kept = []
        for at in range(0, 300, 30):
            kept = chosen_examples([*chosen_examples(found[at : at + 30]), *kept])
        assert kept == chosen


def test_json_lines(tmp_path):
    (tmp_path / "lines.json").write_text('{"body": "One."}\n{"body": "Two."}\n')
    assert record_files(named_paths([f"{tmp_path}/lines.json"]), of_json_lines=True) is None
    (tmp_path / "a.jsonl").write_text('{"body": "One. Two."}\n{"body": ["a b", "c"]}\n')
    facts = _gather(f"{tmp_path}/a.jsonl", tmp_path, text_key="body")
    assert facts.counts.document_sentences == {1: 1, 2: 1}
    assert sorted(where for where, _ in facts.examples) == [f"{tmp_path}/a.jsonl:1", f"{tmp_path}/a.jsonl:2"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["nothing.txt", "--output", "r.html"], 2, "'nothing.txt' matches no file"),
        (["a.txt"], 2, "--output is missing"),
        (["--output", "r.html"], 2, "--input is missing"),
        (["a.txt", "--output", "r.pdf"], 2, "--output is the page, e.g. report.html. Received: 'r.pdf'"),
        (["a.txt", "--output", "a.txt/r.html"], 2, "a.txt is not a folder"),
        (["a.txt", "--output", "mine.html", "--overwrite"], 2, "mine.html is not of a report"),
        (["a.txt", "--output", "r.html", "--ngram", "2"], 2, "--ngram must be from 3 to 100. Received: 2"),
        (["a.txt", "--output", "r.html", "--limit", "0"], 2, "--limit must be at least 1. Received: 0"),
        (["blank.txt", "--output", "r.html"], 1, "blank.txt: the corpus holds no documents"),
        (["a.txt", "--output", "r.html", "--tokenizer", "no.model"], 2, "no.model"),
        (["a.txt", "x.tfrecord", "--output", "r.html"], 2, "x.tfrecord holds records, and a.txt does not"),
        (["a.txt", "--output", "old.html"], 2, "already holds old.contaminated.tsv"),
        (
            ["old.c*", "--output", "old.html", "--overwrite"],
            2,
            "--input names old.contaminated.tsv, which the report would",
        ),
        (["old.meta.json", "--output", "r.html"], 2, "old.meta.json is a meta file that lists no record files"),
        (["a.txt", "--output", "pipe.html", "--overwrite"], 2, "pipe.html is not of a report"),
        (["sweep", "--output", "r.html"], 2, "sweep holds runs, such as run, and text, such as a.txt"),
        (["set", "--output", "r.html"], 2, "set holds records, such as r.tfrecord, and text, such as a.txt"),
        (["loop", "--output", "r.html"], 1, "loop/in: cannot be read: Too many levels of symbolic links"),
    ],
)
def test_what_the_command_refuses(tmp_path, monkeypatch, capsys, arguments, code, words):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "a.txt": "One.\nTwo.\n",
        "blank.txt": "\n \n",
        "mine.html": "<p>Mine.</p>",
        "x.tfrecord": "",
        "old.contaminated.tsv": LIST_HEAD,
        "old.meta.json": '{"task_type": "x", "shards": []}',
        "sweep/a.txt": "One.\n",
        "sweep/run/metrics.jsonl": "",
        "set/a.txt": "One.\n",
        "set/vocab.txt": "[PAD]\n",
        "set/r.tfrecord": "",
        "loop/in/a.txt": "One.\n",
    }.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    os.symlink("checkpoints", "loop/in/checkpoints")
    os.mkfifo("pipe.html")
    before = visible(tmp_path)
    done = run_command(capsys, "report", *arguments)
    assert done.code == code
    assert words in done.err
    assert visible(tmp_path) == before
    assert Path("mine.html").read_text() == "<p>Mine.</p>"
