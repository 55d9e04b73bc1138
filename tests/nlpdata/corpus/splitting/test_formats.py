"""Readers of raw documents: what each makes of its files, and what is said of files that it cannot read."""

import gzip
import importlib.util
import json
import sys

import pytest

import nlpdata
from nlpdata.corpus.splitting import markdown, whole
from nlpdata.corpus.splitting.html import text_of
from nlpdata.errors import DataError, UsageError
from tests.nlpdata.commands import contents, run_command, visible

PROSE = "The first paragraph of the page. It is long enough to be taken for the text of a page."
MORE = "The second paragraph has a sentence, too. And one more follows here."
PAGE = f"""<!DOCTYPE html><html><head><meta charset="ENCODING"><title>T</title><script>var x = 1;</script></head>
<body><nav><a href="/">Home</a> | <a href="/about">About us</a></nav>
<article><h1>The heading</h1><p>{PROSE}</p><p>Caf\u00e9 &amp; bar.
{MORE}</p><ul><li>An item of a list.</li></ul><table><tr><td>cell</td></tr></table></article>
<footer>Imprint</footer></body></html>"""
OF_PAGE = ["The heading", *PROSE.replace("page. It", "page.\nIt").split("\n"), "Caf\u00e9 & bar."]
OF_PAGE += ["The second paragraph has a sentence, too.", "And one more follows here.", "An item of a list."]
MARKDOWN = """---
title: Front matter
---
# A *heading*

A paragraph with [a link](http://x.y), `code`
and ![an image](z.png) an end. Second\\
sentence.

- item one
- item two. With more.

    > quoted

```python
x = 1. No text.
```

| a | b |
|---|---|
| 1 | 2 |

<div>block</div>

Setext
------
"""
OF_MARKDOWN = ["A heading", "A paragraph with a link, code and an end.", "Second sentence.", "item one", "item two."]
OF_MARKDOWN += ["With more.", "quoted", "Setext"]
ROWS = [{"id": 1, "text": "One is. Two is."}, {"id": 2, "text": "Title\nThree is.\n\nFour"}, {"id": 3, "text": ""}]
OF_ROWS = [["One is.", "Two is."], ["Title", "Three is.", "Four"]]
TABLE = 'id,text\n1,"One is. Two is."\n2,"Title\nThree is.\n\nFour"\n3,\n'
JSON_LINES = "".join(json.dumps(row) + "\n" for row in ROWS)
TEXT = "One is. Two\nis.\n\nThree is.\n"

# name -> content, options, documents
CASES = {
    "a.txt": (TEXT, {}, [["One is.", "Two is.", "Three is."]]),
    "b.text": (TEXT, {"documents": "blank-lines"}, [["One is.", "Two is."], ["Three is."]]),
    "l.txt": (TEXT, {"documents": "line"}, [["One is.", "Two"], ["is."], ["Three is."]]),
    "e.txt": (TEXT, {"line_breaks": "end"}, [["One is.", "Two", "is.", "Three is."]]),
    "old.txt": (TEXT.replace("\n", "\r"), {}, [["One is.", "Two is.", "Three is."]]),
    "c.txt.gz": (gzip.compress(TEXT.encode()), {}, [["One is.", "Two is.", "Three is."]]),
    "d.jsonl": (JSON_LINES, {}, OF_ROWS),
    "d.ndjson.gz": (gzip.compress(JSON_LINES.encode()), {}, OF_ROWS),
    "k.jsonl": ('{"body": ["One. Two.", "Three"]}\n', {"text_field": "body"}, [["One.", "Two.", "Three"]]),
    "f.csv": (TABLE, {}, OF_ROWS),
    "f.csv.gz": (gzip.compress(TABLE.encode()), {}, OF_ROWS),
    "semicolons.csv": (TABLE.replace(",", ";"), {}, OF_ROWS),
    "utf16.csv": (TABLE.encode("utf-16"), {}, OF_ROWS),
    "g.tsv": ('id\tcontent\n1\tSay "hi. Two.\n', {"text_field": "content"}, [['Say "hi.', "Two."]]),
    "h.html": (PAGE.replace("ENCODING", "utf-8"), {}, [OF_PAGE]),
    "h.htm.gz": (gzip.compress(PAGE.replace("ENCODING", "latin-1").encode("latin-1")), {}, [OF_PAGE]),
    "i.md": (MARKDOWN, {}, [OF_MARKDOWN]),
    "i.markdown.gz": (gzip.compress(MARKDOWN.replace("\n", "\r\n").encode()), {}, [OF_MARKDOWN]),
    "notes": (TEXT, {"format": "text"}, [["One is.", "Two is.", "Three is."]]),
}


def split(folder, name, content, **options):
    """(documents, counters)"""
    (folder / "raw").mkdir(exist_ok=True)
    (folder / "raw" / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    result = nlpdata.split_sentences(
        str(folder / "raw" / name), str(folder / "out.txt"), workers=1, overwrite=True, **options
    )
    return [text.splitlines() for text in (folder / "out.txt").read_text().split("\n\n")], result.counters


@pytest.mark.parametrize("name", CASES)
def test_documents(name, tmp_path):
    content, options, expected = CASES[name]
    documents, counters = split(tmp_path, name, content, **options)
    assert documents == expected
    empty = {"no_text": 1} if expected is OF_ROWS else {}
    assert counters["documents"] == {"read": len(expected) + len(empty), "written": len(expected), "dropped": empty}


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"id": [1, 2, 3], "text": [ROWS[0]["text"], ROWS[1]["text"], None]}), path)
    documents, counters = split(tmp_path, "b.parquet", path.read_bytes())
    assert documents == OF_ROWS
    assert counters["documents"]["dropped"] == {"no_text": 1}


def test_what_is_left_out_of_markdown_is_counted(tmp_path):
    _, counters = split(tmp_path, "a.md", MARKDOWN)
    assert counters["sentences"]["dropped"] == {"code_block": 1, "front_matter": 1, "html_block": 1, "table": 1}
    assert counters["sentences"]["read"] == len(OF_MARKDOWN) + 4
    assert markdown.paragraphs_of("    only code\n")[0] == []


def test_lists_in_lists():
    text = "".join(f"{'  ' * i}- item {i}\n" for i in range(28))
    assert markdown.paragraphs_of(text)[0] == [[f"item {i}"] for i in range(28)]
    assert markdown.paragraphs_of("> " * 50 + "quoted")[0] == [["quoted"]]


@pytest.mark.parametrize(
    "page", ["One. Two &amp; three.", "<p>One. Two <b>&amp;</b> three.</p>", "One. Two &amp; three.<br />"]
)
def test_a_part_of_a_page(page):
    assert text_of(page.encode()) == "One. Two & three."


def test_a_page_without_text(tmp_path):
    assert text_of(b"<html><body></body></html>") == ""
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "blank.html").write_text("<html><body></body></html>")
    (tmp_path / "raw" / "empty.html").write_text("")
    with pytest.raises(DataError, match=r"no document is left of 1\. Left out: 1 no text"):
        nlpdata.split_sentences(str(tmp_path / "raw"), str(tmp_path / "out.txt"), workers=1)


@pytest.mark.parametrize("name", ["a.md", "a.html"])
def test_files_that_are_too_large_are_counted(name, tmp_path, monkeypatch):
    monkeypatch.setattr(whole, "MOST_BYTES", 5000)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / f"large-{name}").write_text("word " * 1001)
    content = PAGE.replace("ENCODING", "utf-8") if name.endswith("html") else MARKDOWN
    (tmp_path / "raw" / name).write_text(content)
    result = nlpdata.split_sentences(str(tmp_path / "raw"), str(tmp_path / "out.txt"), workers=1)
    assert result.counters["documents"] == {"read": 2, "written": 1, "dropped": {"file_too_large": 1}}


BAD = b"Good is here.\nbad \xff byte.\nGood, too.\n"


@pytest.mark.parametrize(
    ("name", "content", "dropped"),
    [
        ("a.txt", BAD, {"sentences": {"invalid_utf8": 1}, "documents": {}}),
        ("a.jsonl", b'{"text": "a \xff"}\n{"text": "Good."}\n', {"sentences": {}, "documents": {"invalid_utf8": 1}}),
        (
            "b.jsonl",
            b'{"text": "a \\ud800\\nGood."}\n',
            {"sentences": {"invalid_utf8": 1}, "documents": {}},
        ),
    ],
)
def test_invalid_utf8(name, content, dropped, tmp_path):
    documents, counters = split(tmp_path, name, content, invalid_utf8="skip")
    assert documents[-1][-1] in ("Good.", "Good, too.")
    assert {what: counters[what]["dropped"] for what in dropped} == dropped
    documents, _ = split(tmp_path, name, content, invalid_utf8="replace")
    assert "\ufffd" in documents[0][-1] or "\ufffd" in documents[0][0] or "\ufffd" in documents[0][1]
    with pytest.raises(DataError, match=rf"{name}:\d \(byte \d+\): "):
        split(tmp_path, name, content)


def test_markdown_that_is_not_utf8(tmp_path):
    with pytest.raises(DataError, match=r"a\.md:2 \(byte 18\): not valid UTF-8"):
        split(tmp_path, "a.md", BAD)
    with pytest.raises(DataError, match=r"no document is left of 1\. Left out: 1 invalid utf8"):
        split(tmp_path, "a.md", BAD, invalid_utf8="skip")
    assert split(tmp_path, "a.md", BAD, invalid_utf8="replace")[0] == [
        ["Good is here.", "bad \ufffd byte.", "Good, too."]
    ]


def test_rows_that_cannot_be_used(tmp_path):
    table = "id,text\n1,One is.\n2,Two,three\n4,Four is.\n"
    with pytest.raises(DataError, match=r"a\.csv:3: 3 columns, expected 2 .* or use on_bad_row='skip'"):
        split(tmp_path, "a.csv", table)
    documents, counters = split(tmp_path, "a.csv", table, on_bad_row="skip")
    assert documents == [["One is."], ["Four is."]]
    assert counters["documents"] == {"read": 3, "written": 2, "dropped": {"long_row": 1}}


# files, arguments, what is said
MESSAGES = {
    "without sentencex": (
        {"a.txt": TEXT},
        [],
        "split-sentences needs sentencex, which is not installed. In the folder of nlpdata: pip install '.[split]'",
    ),
    "without trafilatura": (
        {"a.html": PAGE},
        [],
        "reading HTML needs trafilatura, which is not installed. In the folder of nlpdata: pip install '.[html]'",
    ),
    "without markdown_it": ({"a.md": MARKDOWN}, [], "reading Markdown needs markdown-it, which is not installed."),
    "without pyarrow": ({"a.parquet": "PAR1"}, [], "reading Parquet needs pyarrow, which is not installed."),
    "without datasketch": (
        {"a.txt": TEXT},
        ["--near-duplicates=0.8"],
        "--near-duplicates needs datasketch, which is not installed.",
    ),
    "without py3langid": (
        {"a.txt": TEXT},
        ["--language=auto"],
        "--language auto needs py3langid, which is not installed.",
    ),
    "unknown format": (
        {"a.xyz": TEXT},
        [],
        "a.xyz: cannot tell its format; expected a name ending in .txt, .text, .md, ",
    ),
    "documents": (
        {"a.jsonl": JSON_LINES},
        ["--documents=line"],
        "--documents line: a.jsonl is JSON lines, of which a document is a record. Give such files in a run of their own.",
    ),
    "no such column": (
        {"a.csv": TABLE},
        ["--text-field=body"],
        "a.csv:1: column 'body' is missing from the header, which has: id, text. Name the column of the text with "
        "--text-field.",
    ),
    "no such key": ({"a.jsonl": JSON_LINES}, ["--text-key=body"], "a.jsonl:1 (byte 0): no key 'body' (--text-field); "),
    "one long line": (
        {"a.txt": "a " * (9 << 20)},
        [],
        "no document is left of 1. Left out: 1 no text, of lines 1 line too long. A line may have 16 MiB: break longer ones",
    ),
    "not JSON": ({"a.jsonl": "{"}, [], "a.jsonl:1 (byte 0): not valid JSON"),
    "UTF-16": ({"a.txt": TEXT.encode("utf-16")}, [], "a.txt: expected UTF-8 text, found UTF-16"),
    "a PDF": ({"a.txt": "%PDF-1.7"}, [], "a.txt: expected UTF-8 text, found a PDF document"),
    "not Parquet": ({"a.parquet": "PAR1 but no more"}, [], "a.parquet: not a Parquet file, or damaged"),
    "empty": ({"a.txt": "", "b.csv": ""}, ["--input=a.txt"], "the input (1 files) holds no text"),
    "blank": ({"a.txt": "\n \n"}, [], "the input (1 files) holds no text"),
    "filtered": ({"a.txt": TEXT}, ["--script=Greek"], "no document is left of 1. Left out: 1 script"),
    "no file": ({}, ["--input=nothing*.txt"], "--input: 'nothing*.txt' matches no file"),
    "script": ({"a.txt": TEXT}, ["--script=latin"], "--script must be one of Arabic, Armenian"),
    "language": (
        {"a.txt": TEXT},
        ["--language=English"],
        "--language must be a code such as en, de or zh, or auto. Received: 'English'.",
    ),
    "kept": (
        {"a.txt": TEXT},
        ["--keep-language=auto"],
        "--keep-language must be a code such as en, de or zh. Received: 'auto'.",
    ),
    "lengths": (
        {"a.txt": TEXT},
        ["--min-characters=9", "--max-characters=8"],
        "--max-characters must be at least --min-characters 9. Received: 8.",
    ),
    "bytes": (
        {"a.txt": TEXT},
        ["--max-sentence-bytes=9"],
        "--max-sentence-bytes must be from 16 to 16384. Received: 9.",
    ),
    "field": ({"a.txt": TEXT}, ["--text-field="], "--text-field is empty"),
    "similarity": (
        {"a.txt": TEXT},
        ["--near-duplicates=1.5"],
        "--near-duplicates must be from 0.1 to 1. Received: 1.5.",
    ),
    "output": (
        {"a.txt": TEXT},
        ["--output=out/corpus.txt.gz"],
        "--output names a text file, *.txt or *.text, e.g. out/corpus.txt. Received: 'out/corpus.txt.gz'.",
    ),
    "folder": (
        {"a.txt": TEXT},
        ["--output=there.txt"],
        "--output there.txt is a folder. Name the text file in it: there.txt/corpus.txt",
    ),
    "both": (
        {"a.txt": TEXT},
        ["--output=a.txt"],
        "--output: a.txt is among the input. Use another --output, or a narrower --input.",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_messages(case, tmp_path, monkeypatch, capsys):
    files, more, message = MESSAGES[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.txt").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    if case.startswith("without "):
        really, missing = importlib.util.find_spec, case.removeprefix("without ")
        found = lambda name, *rest: None if name == missing else really(name, *rest)  # noqa: E731
        monkeypatch.setattr(importlib.util, "find_spec", found)
        monkeypatch.setitem(sys.modules, missing, None)  # importing it fails
    given = list(more)
    if not any(word.startswith("--input") for word in given):
        given += [f"--input={name}" for name in files]
    if not any(word.startswith("--output") for word in given):
        given.append("--output=out/c.txt")
    done = run_command(capsys, "split-sentences", *given, "--workers=1", "--quiet")
    assert message in done.err
    assert done.code in (1, 2)
    assert done.err.count("nlpdata: error: ") == 1
    assert visible(tmp_path / "out") == []


def test_existing_output_and_overwrite(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text(TEXT * 3)
    given = [
        "split-sentences",
        "--input=a.txt",
        "--output=out/c.txt",
        "--workers=1",
        "--quiet",
        "--documents=blank-lines",
    ]
    assert run_command(capsys, *given, "--num-shards=2").code == 0
    assert visible(tmp_path / "out") == ["c.sentences.json", "c.txt-00000-of-00002", "c.txt-00001-of-00002"]
    (tmp_path / "out" / "c.txt.notes").write_text("of the user")
    refused = run_command(capsys, *given)
    assert refused.code == 2
    assert (
        "out/ already holds c.txt-00000-of-00002, c.txt-00001-of-00002, c.sentences.json. Use --overwrite"
        in refused.err
    )
    assert run_command(capsys, *given, "--overwrite").code == 0
    assert visible(tmp_path / "out") == ["c.sentences.json", "c.txt", "c.txt.notes"]
    (tmp_path / "out" / "c.txt-00000-of-00009").write_text("nobody's")
    refused = run_command(capsys, *given, "--overwrite")
    assert refused.code == 2
    assert "does not list c.txt-00000-of-00009" in refused.err
    assert contents(tmp_path / "out")["c.txt-00000-of-00009"] == b"nobody's"


def test_many_sentences_that_are_cut_are_reported(tmp_path, capsys):
    (tmp_path / "a.txt").write_text("words without an end " * 300)
    done = run_command(
        capsys, "split-sentences", tmp_path / "a.txt", "--output", tmp_path / "c.txt", "--workers=1", "--language=th"
    )
    assert done.code == 0
    assert (
        "warning: 1 sentences were longer than 2048 bytes, and were cut. Is --language th the language of the text"
        in done.err
    )


def test_a_file_of_many_documents_is_reported(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("nlpdata.corpus.splitting.plan.LONG_DOCUMENT", 3)
    (tmp_path / "a.txt").write_text("One.\n\nTwo.\n\nThree.\n\nFour.\n")
    (tmp_path / "b.txt").write_text("One.\n")
    given = ["split-sentences", tmp_path, "--output", tmp_path / "c.txt", "--workers=1", "--chunk-size=500"]
    done = run_command(capsys, *given)
    assert (
        "warning: the longest document has 4 sentences. Where a file holds many documents, say what one is: "
        in done.err
    )
    assert "--documents blank-lines or --documents line" in done.err
    done = run_command(capsys, *given[:1], tmp_path / "[ab].txt", *given[2:], "--overwrite", "--documents=blank-lines")
    assert (done.code, "longest" in done.err) == (0, False)


def test_python_names_options_its_own_way(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    with pytest.raises(UsageError, match=r"scripts must be a list\. Received: 'Latin'"):
        nlpdata.split_sentences(str(tmp_path / "a.txt"), str(tmp_path / "c.txt"), scripts="Latin")
    with pytest.raises(
        UsageError, match=r"min_script_share=0\.9 needs the script whose letters count: scripts='Latin', "
    ):
        nlpdata.split_sentences(str(tmp_path / "a.txt"), str(tmp_path / "c.txt"), min_script_share=0.9)
