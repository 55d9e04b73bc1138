"""The texts that predictions are made for."""

import pytest

from nlpdata.errors import DataError, UsageError
from pretrain.prediction.texts import Texts, read_texts


def test_what_is_not_text(tmp_path):
    (tmp_path / "a.txt").write_bytes(b"ab\0cd")
    with pytest.raises(DataError, match="not UTF-8 text: byte 2 is 0"):
        read_texts(tmp_path / "a.txt")
    (tmp_path / "b.txt").write_bytes(b"ab\xff")
    with pytest.raises(DataError, match="not UTF-8 text"):
        read_texts(tmp_path / "b.txt")
    (tmp_path / "c.tsv").write_text("sentence\tx\nonly one\n")
    with pytest.raises(DataError, match=r"c\.tsv:2: 1 columns, the header has 2"):
        read_texts(tmp_path / "c.tsv")
    (tmp_path / "d.tsv").write_text("a\tb\n1\t2\n")
    with pytest.raises(UsageError, match=r"no column of texts.*it has a, b"):
        read_texts(tmp_path / "d.tsv")
    (tmp_path / "e.jsonl").write_text('{"text": "x"}\n{"text": 3}\n')
    with pytest.raises(DataError, match=r"e\.jsonl:2: no text 'text' in this row"):
        read_texts(tmp_path / "e.jsonl")
    (tmp_path / "e.jsonl").write_text('{"text": "x"}\n{"text": "y", "text_b": "z"}\n')
    with pytest.raises(DataError, match=r"e\.jsonl:1: no text 'text_b' in this row"):
        read_texts(tmp_path / "e.jsonl")
    for line, message in (("[" * 100_000, "not JSON"), ('{"text": "x", "id": "\\ud800"}', "half of a surrogate pair")):
        (tmp_path / "e.jsonl").write_text(line + "\n")
        with pytest.raises(DataError, match=rf"e\.jsonl:1: {message}"):
            read_texts(tmp_path / "e.jsonl")
    (tmp_path / "g.TSV").write_text("text\ttext\na\tb\n")
    with pytest.raises(UsageError, match="two columns are called 'text'"):
        read_texts(tmp_path / "g.TSV")
    with pytest.raises(UsageError, match="cannot read"):
        read_texts(tmp_path / "absent.txt")
    with pytest.raises(UsageError, match=r"texts come as \.txt.* Received: \.json\."):
        read_texts(tmp_path / "f.json")


def test_reading_keeps_lines_and_names(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffone\r\n\r\ntwo\u2028three".encode())
    assert read_texts(tmp_path / "a.txt").first == ["one", "", "two\u2028three"]
    (tmp_path / "b.jsonl").write_text('{"id": 5, "text_a": "x", "text_b": "y"}\n')
    assert read_texts(tmp_path / "b.jsonl") == Texts(["5"], ["x"], ["y"])
    (tmp_path / "c.tsv").write_text("index\tquestion\tsentence\n3\tq?\ts.\n")
    assert read_texts(tmp_path / "c.tsv") == Texts(["3"], ["q?"], ["s."])
