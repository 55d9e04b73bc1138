"""Rows of tables and where they stand: line and row numbers, blank lines, lines that are not rows."""

import gzip
import json
import os
import re
import threading

import pytest

from nlpdata.errors import DataError
from nlpdata.finetuning import tables
from nlpdata.finetuning.datasets import BadRow
from nlpdata.records.contract import read_meta
from tests.nlpdata.finetuning.texts import write

LINES = {  # format -> lines whose 2nd is blank; 4 and 5 are blank; 6 is not a row; 7 is not UTF-8; 9 and 10 blank
    "csv": [b"the fox,0", b"", b"the dog,1", b"", b"", b"a,b,c", b"\xff,1", b'"a\nbank",1', b"", b""],
    "tsv": [b"the fox\t0", b"", b"the dog\t1", b"", b" ", b"a\tb\tc", b"\xff\t1", b"bank\t1", b"", b""],
    "jsonl": [
        *(b'{"text": "the fox", "label": 0}', b"", b'{"text": "the dog", "label": 1}', b"", b" "),
        *(b"{", b"\xff", b'{"text": "bank", "label": 1}', b"", b""),
    ],
}
FORMS = {"csv": tables.TableForm("csv"), "tsv": tables.TableForm("tsv", "\t"), "jsonl": tables.TableForm("jsonl")}
NO_ROW = {"csv": "long_row", "tsv": "long_row", "jsonl": "not_json"}


@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("form", LINES)
def test_every_line_has_its_number(tmp_path, form, header):
    """Blank lines count where another line follows; at the end of the file they are nothing."""
    named = {"csv": [b"text,label"], "tsv": [b"text\tlabel"], "jsonl": []}[form] if header else []
    path = tmp_path / f"a.{form}"
    path.write_bytes(b"\n".join([*named, *LINES[form], b""]))
    shift = len(named)
    found = [
        (item.reason, int(re.search(r":(\d+): ", item.message)[1]) - shift)
        if isinstance(item, BadRow)
        else (item[1][0], item[0] - shift)
        for item in tables.read_table(
            path, FORMS[form], ["text", "label"] if header or form == "jsonl" else [0, 1], header
        )
    ]
    blank = "blank_line"
    assert found == [
        *(("the fox", 1), (blank, 2), ("the dog", 3), (blank, 4), (blank, 5), (NO_ROW[form], 6)),
        *(("invalid_utf8", 7), ("a\nbank" if form == "csv" else "bank", 8)),
    ]


@pytest.mark.parametrize("form", ["csv", "tsv", "jsonl"])
def test_bad_lines_fail_with_their_number_and_are_counted(tmp_path, make, form):
    named = {"csv": [b"text,label"], "tsv": [b"text\tlabel"], "jsonl": []}[form]
    path = tmp_path / f"a.{form}"
    path.write_bytes(b"\n".join([*named, *LINES[form], b""]))
    with pytest.raises(DataError, match=rf"a\.{form}:{2 + len(named)}: blank line\. .*on_bad_row='skip'"):
        make(path, task="classification", max_seq_length=32)
    result = make(path, task="classification", max_seq_length=32, on_bad_row="skip", accept_loss=True)
    counters = read_meta(result.meta)["splits"]["train"]["counters"]
    assert counters["dropped"] == {"blank_line": 3, NO_ROW[form]: 1, "invalid_utf8": 1}
    assert (counters["rows"], counters["examples"]) == (8, 3)
    listed = sorted(int(number) for line in make.log for number in re.findall(rf"a\.{form}:(\d+): ", line))
    assert listed == [number + len(named) for number in (2, 4, 5, 6, 7)]


def test_a_file_of_blank_lines_is_empty(tmp_path):
    for form in LINES:
        path = write(tmp_path / f"a.{form}", "", "", "")
        with pytest.raises(DataError, match="empty"):
            list(tables.read_table(path, FORMS[form], [0], False))


def test_rows_of_parquet_are_numbered_from_1_through_all_blocks(tmp_path, make):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [(f"the fox {i}", "good" if i % 2 else "bad") for i in range(1, 5001)]
    path = tmp_path / "a.parquet"
    for bad in (1, 4097, 5000):
        labels = [None if i == bad else label for i, (_, label) in enumerate(rows, 1)]
        parquet.write_table(pyarrow.table({"text": [text for text, _ in rows], "label": labels}), path)
        read = list(tables.read_parquet(path, ["label", "text"]))
        assert [line for line, _ in read] == list(range(1, 5001))
        assert read[bad - 1] == (bad, [None, f"the fox {bad}"])
        with pytest.raises(DataError, match=rf"a\.parquet:{bad}: .*no label"):
            make(path, task="classification", max_seq_length=16)


def test_a_file_is_opened_once_and_its_columns_may_be_chosen_from_its_header(tmp_path):
    """So a pipe can be read, without knowing before which columns it has."""
    seen = []

    def choose(names):
        seen.append(list(names))
        return [names[-1], names[0]]

    for form, content in {
        "csv": b'a,b,c\n1,2,"3\n4"\n',
        "tsv": b"a\tb\tc\n1\t2\t3\n4\t5\t6\n",
        "jsonl": b'{"a": "1", "c": "3"}\n{"a": "4", "b": "x", "c": "6"}\n',
    }.items():
        pipe = tmp_path / form
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(content,))
        writer.start()
        rows = list(tables.READERS[form](pipe, choose))
        writer.join()
        assert rows == ([(2, ["3\n4", "1"])] if form == "csv" else [(rows[0][0], ["3", "1"]), (rows[1][0], ["6", "4"])])
    assert seen == [["a", "b", "c"], ["a", "b", "c"], ["a", "c"], ["a", "b", "c"]]


def test_lines_of_a_pipe_come_as_they_are_written(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    go = threading.Event()

    def write():
        with open(pipe, "wb", buffering=0) as file:
            file.write(b"one\n \ntwo")
            go.wait(10)
            file.write(b" more\n")

    writer = threading.Thread(target=write)
    writer.start()
    rows = tables.read_text(pipe)
    assert [next(rows), next(rows)] == [(1, ["one"]), (2, [" "])]
    assert not go.is_set()
    go.set()
    assert list(rows) == [(3, ["two more"])]
    writer.join()


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_compressed_rows(tmp_path, suffix):
    zstandard = pytest.importorskip("zstandard")
    pack = gzip.compress if suffix == "gz" else zstandard.ZstdCompressor().compress
    content = b"text\n" + b"".join(b"row %d \xc3\xa9\n" % i for i in range(50_000))
    path = tmp_path / f"a.tsv.{suffix}"
    path.write_bytes(pack(content))
    assert tables.form_of(path) == "tsv"
    rows = list(tables.read_tsv(path, ["text"]))
    assert (len(rows), rows[-1]) == (50_000, (50_001, ["row 49999 é"]))
    path.write_bytes(pack(content)[:-20])
    with pytest.raises(DataError, match=r"the compressed data are damaged or cut off after line \d+ \("):
        list(tables.read_tsv(path, ["text"]))


def test_half_of_a_surrogate_pair_is_a_bad_row(tmp_path, make):
    path = tmp_path / "a.jsonl"
    rows = [{"text": f"the {word}", "label": i % 2} for i, word in enumerate(("fox", "dog", "bank"))]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + '{"text": "x\\udc80", "label": 0}\n')
    with pytest.raises(
        DataError, match=r"a\.jsonl:4: 'text' has half of a surrogate pair.*: 'x\\udc80'\. Correct the row"
    ):
        make(path, task="classification", max_seq_length=32)
    result = make(path, task="classification", max_seq_length=32, on_bad_row="skip", accept_loss=True)
    assert read_meta(result.meta)["splits"]["train"]["counters"]["dropped"] == {"surrogate": 1}
