"""The rows that predictions are made for."""

import gzip
import json
from pathlib import Path

import pytest

from nlpdata.errors import DataError, NlpdataError, UsageError
from nlpdata.finetuning.datasets import BadRow
from pretrain.prediction.rows import QUESTIONS, TEXTS, InputOptions, Row, input_form, input_path, read_rows

TABLE = [("3", "q, one?", "the fox"), ("x", "q two?", "the\tdog")]


def rows(path, kind=TEXTS, **options):
    options = InputOptions(**options)
    path = input_path(path)
    return list(read_rows(path, input_form(path, options, kind), options, kind))


def write(path, text, pack=False):
    path.write_bytes(gzip.compress(text.encode()) if pack else text.encode())
    return path


@pytest.mark.parametrize("pack", [False, True])
def test_every_format_gives_the_same_rows(tmp_path, pack):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    end = ".gz" if pack else ""
    body = [(name, one, two.replace("\t", " ")) for name, one, two in TABLE]
    write(tmp_path / f"a.csv{end}", "id,a,b\n" + "".join(f'{n},"{one}",{two}\n' for n, one, two in body), pack)
    write(tmp_path / f"a.tsv{end}", "id\ta\tb\n" + "".join("\t".join(row) + "\n" for row in body), pack)
    objects = [json.dumps({"b": two, "extra": [1], "a": one, "id": name}) for name, one, two in body]
    write(tmp_path / f"a.jsonl{end}", "\n".join(objects) + "\n", pack)
    names = ["a.csv", "a.tsv", "a.jsonl"]
    if not pack:
        columns = {name: [row[i] for row in body] for i, name in enumerate(("id", "a", "b"))}
        parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
        names.append("a.parquet")
    for name in names:
        found = rows(tmp_path / f"{name}{end}", text_column="a", text_b_column="b")
        assert [row[:3] for row in found] == body, name
        single = rows(tmp_path / f"{name}{end}", text_column="b", index_column="a")
        assert [row[:3] for row in single] == [(one, two, "") for _, one, two in body], name


def test_columns_that_are_not_named_are_found(tmp_path):
    for header, expected in (
        ("index\tquestion\tsentence", Row("1", "2", "3", 2)),
        ("sentence2\tsentence1\tid", Row("3", "2", "1", 2)),
        ("text\tx\ty", Row("0", "1", "", 2)),
        ("#1 String\t#2 String\t#1 ID", Row("0", "1", "2", 2)),
    ):
        assert rows(write(tmp_path / "a.TSV", f"{header}\n1\t2\t3\n")) == [expected]
    questions = rows(write(tmp_path / "q.csv", "question,paragraph,id\nwho?,he,7\n"), QUESTIONS)
    assert questions == [Row("7", "who?", "he", 2)]
    with pytest.raises(
        UsageError, match=r"no column of questions: none is called context, .*It has question, x\. .*text_b_c"
    ):
        rows(write(tmp_path / "q.csv", "question,x\nwho?,he\n"), QUESTIONS)
    with pytest.raises(
        UsageError, match=r"none is called text, .* It has a, b\. Name one with text_column\. Or is the first"
    ):
        rows(write(tmp_path / "a.tsv", "a\tb\n1\t2\n"))
    with pytest.raises(UsageError, match=r"It has a\. Name one with text_column\.$"):
        rows(write(tmp_path / "a.jsonl", '{"a": "x"}\n'))
    with pytest.raises(
        DataError, match=r"a\.tsv:1: column 'B' is missing from the header, which has: a, b\. Did you mean b\?"
    ):
        rows(write(tmp_path / "a.tsv", "a\tb\n1\t2\n"), text_column="B")
    with pytest.raises(DataError, match="column 'text' is twice in the header"):
        rows(write(tmp_path / "a.tsv", "text\ttext\na\tb\n"))


def test_without_a_header_columns_are_numbers(tmp_path):
    path = write(tmp_path / "a.csv", "1,a,b\n2,c,d\n")
    found = rows(path, header=False, text_column="2", index_column="0")
    assert found == [Row("1", "b", "", 1), Row("2", "d", "", 2)]
    with pytest.raises(UsageError, match="text_column is missing: without a header, columns are numbers from 0"):
        rows(path, header=False)
    with pytest.raises(
        UsageError, match=r"text_b_column: without a header, a column is a number from 0\. Received: 'b'"
    ):
        rows(path, header=False, text_column="1", text_b_column="b")


def test_lines_are_texts_as_they_are(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffone \r\n\r\ntwo\u2028three".encode())
    expected = [Row("0", "one ", "", 1), Row("1", "", "", 2), Row("2", "two\u2028three", "", 3)]
    assert rows(tmp_path / "a.txt") == expected
    (tmp_path / "corpus").write_bytes((tmp_path / "a.txt").read_bytes())
    assert rows(tmp_path / "corpus") == expected
    assert rows(write(tmp_path / "b.txt.gz", "x\n", pack=True)) == [Row("0", "x", "", 1)]
    assert rows(write(tmp_path / "b.txt", "text\nx\n"), input_format="csv") == [Row("0", "x", "", 2)]
    with pytest.raises(UsageError, match=r"text_column: .*a\.txt is read as text.*input_format='csv'"):
        rows(tmp_path / "a.txt", text_column="text")
    with pytest.raises(UsageError, match=r"questions are read from a table with the columns question and context"):
        rows(tmp_path / "a.txt", QUESTIONS)


def test_what_is_refused_before_a_row_is_read(tmp_path):
    write(tmp_path / "input.csv", "")
    with pytest.raises(UsageError, match=r"inptu\.csv does not exist\. Did you mean input\.csv\?"):
        rows(tmp_path / "inptu.csv")
    with pytest.raises(UsageError, match="is a folder; expected a file"):
        rows(tmp_path)
    with pytest.raises(
        UsageError, match=r"input_format must be one of tsv, csv, jsonl, parquet, text\. .*Did you mean jsonl"
    ):
        InputOptions(input_format="json")
    with pytest.raises(UsageError, match="on_bad_row must be one of fail, skip"):
        InputOptions(on_bad_row="stop")
    with pytest.raises(UsageError, match="Parquet is read from a file"):
        input_form(Path("/dev/stdin/x"), InputOptions(input_format="parquet"), TEXTS)
    for content, message in ((b"PK\x03\x04xx", "a zip archive"), (b"ab\0cd\n", "NUL bytes")):
        (tmp_path / "a.txt").write_bytes(content)
        with pytest.raises(DataError, match=message):
            rows(tmp_path / "a.txt")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"x\n\xff\ny\n", "a.txt:2: byte 1 of the line is not UTF-8"),
        ("a.tsv", b"text\tb\nx\t1\nonly one\ny\t2\n", "a.tsv:3: 1 columns, expected 2"),
        ("a.csv", b"text,b\nx,1\n\ny,2\n", "a.csv:3: blank line"),
        ("a.jsonl", b'{"text": "x"}\n{"text": 3}\n{"text": "y"}\n', "a.jsonl:2: 'text' is 3, expected a string"),
        ("a.jsonl", b'{"text": "x"}\n{"a": "z"}\n{"text": "y"}\n', "a.jsonl:2: no key 'text' among a"),
        ("a.jsonl", b'{"text": "x"}\n' + b"[" * 100_000 + b'\n{"text": "y"}\n', "a.jsonl:2: not JSON"),
        (
            "a.jsonl",
            b'{"text": "x"}\n{"text": "x", "id": "\\ud800"}\n{"text": "y"}\n',
            "a.jsonl:2: 'id' has half of a surr",
        ),
    ],
)
def test_rows_that_cannot_be_used_are_counted(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    first, bad, last = rows(tmp_path / name)
    assert isinstance(bad, BadRow)
    assert message in bad.message.replace("\x1e", "")
    assert (first.name, first.first, last.name, last.first) == ("0", "x", "2", "y")


def test_objects_may_have_other_keys_but_not_sometimes_a_second_text(tmp_path):
    lines = ['{"text": "x"}', '{"text": "y", "id": 5, "z": 1}', '{"id": null, "text": "z"}']
    assert [row[:2] for row in rows(write(tmp_path / "a.jsonl", "\n".join(lines)))] == [
        ("0", "x"),
        ("5", "y"),
        ("2", "z"),
    ]
    with pytest.raises(
        DataError, match=r"a\.jsonl:2: this row has a second text, 'text_b', and the first one has none"
    ):
        rows(write(tmp_path / "a.jsonl", '{"text": "x"}\n{"text": "y", "text_b": "z"}\n'))
    one, two = rows(write(tmp_path / "a.jsonl", '{"text": "x", "text_b": "z"}\n{"text": "y"}\n'))
    assert one == Row("0", "x", "z", 1)
    assert "no key 'text_b'" in two.message


def test_messages_of_the_readers_name_the_options_of_predict(tmp_path):
    path = write(tmp_path / "a.csv", 'text\nx\n"never closed\n' + "y\n" * 2000)
    with pytest.raises(NlpdataError, match=r"not closed.*input_format='tsv'"):
        rows(path)


def test_delimiter_and_encoding_are_recognised_or_given(tmp_path):
    (tmp_path / "a.csv").write_bytes("id;text;text_b\n7;déjà, vu;x\n".encode("utf-16"))
    assert rows(tmp_path / "a.csv") == [Row("7", "déjà, vu", "x", 2)]
    (tmp_path / "b.csv").write_bytes("id#text\n7#déjà\n".encode("cp1252"))
    assert rows(tmp_path / "b.csv", delimiter="#", encoding="cp1252") == [Row("7", "déjà", "", 2)]
    (tmp_path / "b.txt").write_bytes("déjà\n".encode("cp1252"))
    assert rows(tmp_path / "b.txt", encoding="cp1252") == [Row("0", "déjà", "", 1)]
    (tmp_path / "q.tsv").write_text('text\tn\n"a ""b"""\t1\n')
    assert rows(tmp_path / "q.tsv")[0].first == 'a "b"'
    for options, message in (
        ({"delimiter": ";"}, r"delimiter: .*b\.txt is read as text.*input_format='csv'"),
        ({"encoding": "nope"}, "encoding must be the name of an encoding"),
        ({"input_format": "jsonl", "delimiter": ";"}, "is read as jsonl, which has none.*or give a input_format"),
    ):
        with pytest.raises(UsageError, match=message):
            rows(tmp_path / "b.txt", **options)
