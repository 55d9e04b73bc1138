"""Delimiters, quoting and encodings: what other programs write is read as they mean it, and what was recognised is reported."""

import csv
import gzip
import io
import logging
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import nlpdata
from nlpdata.errors import DataError, UsageError
from nlpdata.finetuning.datasets import BadRow
from nlpdata.finetuning.dialects import recognise
from nlpdata.finetuning.tables import TableForm, read_table

WANTED = ["text", "label"]
ROWS = [
    ("Grüße, aus Köln", "gut"),
    ('er sagte "ja"; und ging', "gut"),
    ("a|b\tc", "schlecht"),
    ("zwei\nZeilen", "schlecht"),
]
ROWS += [("kurz", "gut")] * 3


def written(rows, delimiter=",", quoting=csv.QUOTE_MINIMAL, header=("text", "label")):
    """What Python's csv module, and so pandas, writes."""
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=delimiter, quoting=quoting, lineterminator="\n").writerows([header, *rows])
    return file.getvalue()


def read(path, wanted=WANTED, **options):
    form, note = recognise(path, wanted, **options)
    items = list(read_table(path, form, wanted, options.get("header", True)))
    assert not any(isinstance(item, BadRow) for item in items), items
    return [tuple(values) for _, values in items], form, str(note)


@pytest.mark.parametrize("quoting", [csv.QUOTE_MINIMAL, csv.QUOTE_ALL], ids=["minimal", "all"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt", "a.csv.gz"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_what_others_write_is_recognised(tmp_path, delimiter, name, encoding, quoting):
    path, content = tmp_path / name, written(ROWS, delimiter, quoting).encode(encoding)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    rows, form, _ = read(path)
    assert rows == ROWS
    assert form.delimiter == delimiter


_texts = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\ufeff"), min_size=1, max_size=20)


@settings(max_examples=30)
@given(
    rows=st.lists(st.tuples(_texts, st.sampled_from(["a", "b"])), min_size=3, max_size=12),
    delimiter=st.sampled_from(",;|"),
    encoding=st.sampled_from(["utf-8", "utf-16"]),
)
def test_any_quoted_rows_come_back(tmp_path_factory, rows, delimiter, encoding):
    path = tmp_path_factory.mktemp("rows") / "a.csv"
    path.write_bytes(written(rows, delimiter, csv.QUOTE_ALL).encode(encoding))
    assert read(path)[0] == rows


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["text\tlabel", 'he said "yes"\t1', '"no" she said\t0'], ['he said "yes"', '"no" she said']),
        (["text\tlabel", '"one quote\t1', "another\t0"], ['"one quote', "another"]),
        (["text\tlabel", '"opens here\t1', 'and closes"\t0'], ['"opens here', 'and closes"']),
        (["text\tlabel", '"whole"\t1', "plain\t0"], ['"whole"', "plain"]),
        (["text\tlabel", '"a ""b"" c"\t1', "plain\t0"], ['a "b" c', "plain"]),
        (["text\tlabel", '"a\tb"\t1', '"plain"\t0'], ["a\tb", "plain"]),
        (["text\tlabel", '"a', 'b"\t1', '"plain"\t0'], ["a\nb", "plain"]),
        (['"text"\t"label"', '"plain"\t"1"'], ["plain"]),
    ],
    ids=["inside", "one", "over two rows", "whole field", "doubled", "tab", "line break", "header"],
)
def test_quotation_marks_of_tsv_are_text_unless_the_rows_say_otherwise(tmp_path, lines, expected):
    path = tmp_path / "a.tsv"
    path.write_text("\n".join(lines) + "\n")
    assert [row[0] for row in read(path)[0]] == expected


def test_a_given_format_decides_about_quotes(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('text\tlabel\n"a ""b"""\t1\n')
    assert read(path, format="tsv")[0] == [('"a ""b"""', "1")]
    path.write_text('text\tlabel\n"whole"\t1\n')
    assert read(path, format="csv", delimiter="tab")[0] == [("whole", "1")]


def test_commas_in_texts_do_not_make_a_delimiter(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text;label\none, two;1\nthree, four;0\n")
    assert read(path) == (
        [("one, two", "1"), ("three, four", "0")],
        TableForm("csv", ";", "utf-8"),
        f"{path}: read as semicolons between columns",
    )
    path.write_text("one; two,1\nthree; four,0\n")
    assert read(path, [0, 1], header=False)[0] == [("one; two", "1"), ("three; four", "0")]
    path.write_text("text^label\na^1\n")
    assert read(path, delimiter="^")[0] == [("a", "1")]


def test_what_was_recognised_is_reported_once(tmp_path, make):
    path = tmp_path / "rows.csv"
    path.write_bytes(written(ROWS, ";").encode("utf-16"))
    make(path, task="classification", max_seq_length=32, accept_loss=True)
    assert [line for line in make.log if "read as" in line] == [f"{path}: read as UTF-16, semicolons between columns"]
    path.write_text(written(ROWS))
    make(path, output="plain", task="classification", max_seq_length=32, accept_loss=True)
    assert not [line for line in make.log if "read as" in line]


def test_latin_1_is_read_where_it_is_named(tmp_path, make, records):
    path = tmp_path / "rows.csv"
    path.write_bytes(written(ROWS).encode("latin-1"))
    with pytest.raises(
        DataError, match=r"rows\.csv:2: byte 4 of the line is not UTF-8\. .*encoding='cp1252'.*on_bad_row='skip'"
    ):
        make(path, task="classification", max_seq_length=32)
    for name in ("latin-1", "cp1252", "ISO-8859-15"):
        make(path, output=name, task="classification", max_seq_length=32, encoding=name, accept_loss=True)
        assert len(records(output=name)) == len(ROWS)
    assert read(path, encoding="cp1252")[0] == ROWS


def test_bytes_that_an_encoding_does_not_have(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b"text,label\na\x81b,1\nfine,0\n")
    items = list(read_table(path, TableForm("csv", ",", "cp1252"), WANTED))
    assert items[0].reason == "invalid_encoding"
    assert f"{path}:2: byte 2 of the line is not cp1252" in items[0].message
    assert items[1] == (3, ["fine", "0"])


@pytest.mark.parametrize("share", [0.3, 0.9, 0.99])
def test_a_cut_utf_16_file(tmp_path, share):
    content = written(ROWS * 20, ";").encode("utf-16")
    path = tmp_path / "a.csv"
    path.write_bytes(content[: int(len(content) * share) // 2 * 2 + 1])
    with pytest.raises(DataError, match=r"a\.csv: after line \d+: not UTF-16: .*cut off"):
        read(path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"delimiter": "a"}, "delimiter must be one character"),
        ({"delimiter": ""}, "delimiter must be one character"),
        ({"delimiter": "||"}, "delimiter must be one character"),
        ({"delimiter": '"'}, "delimiter must be one character"),
        ({"delimiter": "\n"}, "delimiter must be one character"),
        ({"encoding": "utf-9"}, "encoding must be the name of an encoding"),
        ({"encoding": "base64"}, "encoding must be the name of an encoding"),
        ({"encoding": "undefined"}, "encoding must be the name of an encoding"),
        ({"encoding": "a\0"}, "encoding has a NUL character"),
        ({"encoding": "\ud800"}, "encoding has half of a surrogate pair"),
        ({"format": "jsonl", "delimiter": ";"}, "delimiter: .*a.csv is read as jsonl"),
        ({"format": "parquet", "encoding": "utf-8"}, "encoding: .*a.csv is read as parquet"),
    ],
)
def test_options_that_no_file_can_have(tmp_path, options, words):
    (tmp_path / "a.csv").write_text("text,label\na,1\nb,0\n")
    with pytest.raises(UsageError, match=words):
        nlpdata.create_finetuning(
            str(tmp_path / "a.csv"), str(tmp_path / "out"), "vocab.txt", task="classification", **options
        )


def test_a_nul_byte_joins_no_rows(tmp_path, make, caplog):
    """Of what the csv module makes of it, nothing is used."""
    path = tmp_path / "a.csv"
    path.write_bytes(b'text,label\nfine,1\n"a\x00b",0\nlast,0\n')
    with pytest.raises(DataError, match=r"a\.csv:3: a NUL byte"):
        make(path, task="classification", max_seq_length=32)
    caplog.set_level(logging.INFO)
    assert make(path, output="b", task="classification", max_seq_length=32, on_bad_row="skip", accept_loss=True)
    reasons = Counter(item.reason for item in read_table(path, TableForm("csv"), WANTED) if isinstance(item, BadRow))
    assert reasons == {"nul_byte": 1}
