"""The text of a portion: what is kept, what is taken back, and reading it again."""

from contextlib import ExitStack

import numpy as np
import pytest

from nlpdata.corpus.splitting import texts
from nlpdata.corpus.splitting.texts import TextWriter, lines_of
from nlpdata.errors import DataError


@pytest.fixture
def written(tmp_path):
    with ExitStack() as stack:
        writer = TextWriter(stack, tmp_path, "unit")
        writer.add(b"A long sentence that goes.\n")
        writer.drop()
        writer.add(b"One.\nTwo.\n")
        writer.add(b"Three.\n")
        writer.keep()
        writer.drop()  # of a document without text
        writer.add(b"Four.\n")
        writer.keep()
        writer.add(b"The last one is taken back, too, however long it may be.\n")
        writer.drop()
        result = writer.finish(counters={"x": 1}, runs={"documents": []})
    return tmp_path, result


def test_what_is_kept(written):
    folder, result = written
    content = b"One.\nTwo.\nThree.\n\nFour.\n\n"
    assert (folder / "unit.text").read_bytes() == content
    assert np.fromfile(folder / "unit.lengths", "<i8").tolist() == [18, 7]
    runs = {"lengths": ["unit.lengths"], "documents": []}
    about = {
        "file": "unit.text",
        "bytes": len(content),
        "documents": 2,
        "sentences": 4,
        "runs": runs,
        "counters": {"x": 1},
    }
    assert result == about


@pytest.mark.parametrize("size", [1, 3, 7, 1 << 20])
def test_reading_it_again(written, size, monkeypatch):
    monkeypatch.setattr(texts, "_READ_BYTES", size)
    lines = [line for block in lines_of(written[0] / "unit.text", "") for line in block]
    assert lines == [b"One.", b"Two.", b"Three.", b"", b"Four.", b""]


def test_a_text_that_is_cut_off(written):
    path = written[0] / "unit.text"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(DataError, match=r"unit\.text is damaged: its last line has no end\. Begin anew"):
        list(lines_of(path, "Begin anew"))
