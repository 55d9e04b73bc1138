"""Reading: documents do not depend on byte ranges, blocks or compression; odd text; damage; bounded memory."""

import gzip
import itertools
import re
import subprocess
import sys
import textwrap
from collections import Counter
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlpdata import corpus
from nlpdata.corpus import find_files, fingerprint, plan_byte_ranges, read_blocks, scan
from nlpdata.errors import DataError, UsageError
from tests.shared import shared

BOM = b"\xef\xbb\xbf"
SETTINGS = settings(max_examples=150)


def documents(path, chunk_size=1 << 24, limit_documents=None, **options):
    """([(offset, lines)], dropped) of a file, put together from its blocks."""
    found, dropped = [], Counter()
    (file,), _ = find_files([str(path)])
    for byte_range in plan_byte_ranges([file], chunk_size, options.get("text_key"), limit_documents):
        inside, bytes_read = False, 0
        for block in read_blocks(byte_range, **options):
            assert sum(block.line_counts) == len(block.lines)
            assert len(block.line_counts) == len(block.offsets) > 0
            assert block.starts_inside == inside
            lines = iter(block.lines)
            for number, (offset, count) in enumerate(zip(block.offsets, block.line_counts, strict=True)):
                part = list(itertools.islice(lines, count))
                if number == 0 and block.starts_inside:
                    assert found[-1][0] == offset
                    found[-1][1].extend(part)
                else:
                    found.append((offset, part))
            inside, bytes_read = block.ends_inside, bytes_read + block.bytes_read
            dropped.update(block.dropped)
        assert not inside
        assert 0 <= bytes_read <= file.size
    return found, dropped


def texts(path, **options):
    return [lines for _, lines in documents(path, **options)[0]]


def write(path, data):
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def plain_documents(data, max_line_bytes, invalid_utf8):
    """The rule, written line by line over the whole file."""
    found, dropped, current = [], Counter(), None
    base = len(BOM) if data.startswith(BOM) else 0
    for match in re.finditer(rb"([^\r\n]*)(?:\r\n|\r|\n|\Z)", data[base:]):
        raw = match[1]
        if not raw.decode("utf-8", "replace").strip():
            current = None
            continue
        if current is None:
            raw = raw.decode("utf-8", "surrogateescape").lstrip().encode("utf-8", "surrogateescape")
            current = []
            found.append((base + match.end(1) - len(raw), current))
        if len(raw) > max_line_bytes:
            dropped["line_too_long"] += 1
        elif invalid_utf8 == "replace" or raw.decode("utf-8", "ignore").encode() == raw:
            current.append(raw.decode("utf-8", "replace"))
        else:
            dropped["invalid_utf8"] += 1
    return found, dropped


PIECES = [b"\n", b"\r", b"\r\n", b"\n\n", b" ", b"\t", b"\x0c", b"\x1c", b"a", b"word word", b"\x00", b"\xe4\xb8\xad"]
PIECES += [character.encode() for character in "\x85\xa0\u1680\u2003\u2028\u205f\u3000\u200b\ufeff\U0001f600"]
BAD_PIECES = [b"\xff", b"\x80", b"\xe3\x80", b"\xc2", b"\xed\xa0\x80"]


@st.composite
def texts_of_pieces(draw, pieces):
    """Bytes from a few of the pieces, so that runs of blanks and of text are both common."""
    some = draw(st.lists(st.sampled_from(pieces), min_size=1, max_size=6))
    data = b"".join(draw(st.lists(st.sampled_from([*some, b"\n", b"x"]), max_size=40)))
    return data.replace(b"\x00\x00", b"\x00")[:120]


@SETTINGS
@given(
    data=texts_of_pieces(PIECES + BAD_PIECES).filter(lambda data: data.count(0) < 4 and data[:2] != b"\xff\xfe"),
    chunk_size=st.sampled_from([1, 2, 3, 5, 16, 1000]),
    block_bytes=st.sampled_from([1, 2, 3, 7, 20, 1000]),
    read_bytes=st.sampled_from([3, 4, 9, 4096]),
    max_line_bytes=st.sampled_from([2, 3, 6, 1 << 24]),
    invalid_utf8=st.sampled_from(["replace", "skip"]),
)
def test_documents_are_those_of_the_rule(
    tmp_path_factory, data, chunk_size, block_bytes, read_bytes, max_line_bytes, invalid_utf8
):
    path = write(tmp_path_factory.getbasetemp() / "property.txt", data)
    packed = write(tmp_path_factory.getbasetemp() / "property.txt.gz", gzip.compress(data))
    with (
        mock.patch.multiple(scan, _SKIP_BYTES=read_bytes, _LOOK_BACK_BYTES=read_bytes, MAX_LINE_BYTES=max_line_bytes),
        mock.patch.object(corpus.source, "HEAD_BYTES", read_bytes),
        mock.patch.object(corpus.reading, "MAX_LINE_BYTES", max_line_bytes),
    ):
        expected = plain_documents(data, max_line_bytes, invalid_utf8)
        options = {"block_bytes": block_bytes, "invalid_utf8": invalid_utf8}
        assert documents(path, chunk_size, **options) == expected
        assert documents(packed, chunk_size, **options) == expected
        for limit in (1, 3):
            limited, _ = documents(path, chunk_size, limit_documents=limit, **options)
            assert limited == expected[0][:limit]


NASTY = [
    "aa\r\nbb\r\ncc\r\n\r\ndd\ree\r\rff\n \r\ngg",
    "a\n\u3000\u3000\u3000\u3000\nb\n\u3000\u3000\u3000c\nd\r\n\u2028\x85\u2028\r\ne",
    "\ufeff \r\r\n\u3000中中中\r\n\u3000\u3000\xa0中\r \r中\n\n\n\n\n\n\u2003\u2003x",
]


@pytest.mark.parametrize("text", NASTY)
def test_every_border_in_nasty_text(tmp_path, monkeypatch, text):
    data = text.encode()
    path = write(tmp_path / "a.txt", data)
    for read_bytes, max_line_bytes in itertools.product((3, 4, 5), (2, 4, 8, 1 << 24)):
        monkeypatch.setattr(scan, "_SKIP_BYTES", read_bytes - 2)
        monkeypatch.setattr(scan, "_LOOK_BACK_BYTES", read_bytes)  # a character of three bytes at least
        monkeypatch.setattr(corpus.source, "HEAD_BYTES", read_bytes)
        for module in (scan, corpus.reading):
            monkeypatch.setattr(module, "MAX_LINE_BYTES", max_line_bytes)
        expected = plain_documents(data, max_line_bytes, "replace")
        for chunk_size, block_bytes in itertools.product(range(1, len(data) + 1, 3), (1, 2, 5)):
            assert documents(path, chunk_size, block_bytes=block_bytes) == expected


JSON_LINES = {'{"t": "a\\nb"}': ["a", "b"], '{"t": ["中", "d"]}': ["中", "d"], ' {"t": ""}': []}


@SETTINGS
@given(
    lines=st.lists(st.sampled_from([*JSON_LINES, "", " ", "\u3000"]), max_size=12),
    line_end=st.sampled_from(["\n", "\r\n", "\r"]),
    bom=st.booleans(),
    chunk_size=st.sampled_from([1, 2, 7, 30, 1000]),
    block_bytes=st.sampled_from([1, 5, 30, 1000]),
)
def test_json_documents_do_not_depend_on_chunks(tmp_path_factory, lines, line_end, bom, chunk_size, block_bytes):
    expected, offset = [], len(BOM) * bom
    for line in lines:
        if line.strip():
            expected.append((offset, JSON_LINES[line]))
        offset += len((line + line_end).encode())
    path = write(tmp_path_factory.getbasetemp() / "property.jsonl", BOM * bom + line_end.join(lines).encode())
    with mock.patch.object(corpus.source, "HEAD_BYTES", 5):
        assert documents(path, chunk_size, block_bytes=block_bytes, text_key="t")[0] == expected
        limited, _ = documents(path, chunk_size, limit_documents=2, block_bytes=block_bytes, text_key="t")
        assert limited == expected[:2]


def test_whitespace_is_that_of_str():
    spaces = [chr(code) for code in range(0x110000) if chr(code).isspace()]
    for space in spaces:
        for pattern in (scan.SPACE, scan.SPACE_REVERSED):
            data = space.encode() if pattern is scan.SPACE else space.encode()[::-1]
            assert pattern.fullmatch(data), hex(ord(space))
        assert bool(scan.IN_LINE_SPACE.fullmatch(space.encode())) == (space not in "\r\n")
    others = "".join(chr(code) for code in range(0x110000) if not chr(code).isspace() and not 0xD800 <= code < 0xE000)
    assert not scan.WIDE_SPACE.search(others.encode())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("", []),
        ("\n \n\t\r\n\u3000\n", []),
        ("a\nb\n\nc", [["a", "b"], ["c"]]),
        ("a\n\n\n \n\nb\n", [["a"], ["b"]]),
        ("a\r\nb\r\n\r\nc\r\n", [["a", "b"], ["c"]]),
        ("a\rb\r\rc\r", [["a", "b"], ["c"]]),
        ("a\n\rb", [["a"], ["b"]]),
        ("  a \n b\n", [["a ", " b"]]),
        ("\ufeffa\n\ufeffb\n", [["a", "\ufeffb"]]),
        ("a\x00b\n\x00\nc\n", [["a\x00b", "\x00", "c"]]),
        ("a\u2028b\x85c\x0bd\x0ce\x1ef\n", [["a\u2028b\x85c\x0bd\x0ce\x1ef"]]),
        ("a\n\u2028\nb\n\x85\nc\n\xa0\u3000\nd\n", [["a"], ["b"], ["c"], ["d"]]),
        ("a\n\u200b\nb\n\ufeff\nc\n", [["a", "\u200b", "b", "\ufeff", "c"]]),
        ("x" * 70_000 + "\ny\n", [["x" * 70_000, "y"]]),
        ("line\n" * 10_000, [["line"] * 10_000]),
    ],
)
@pytest.mark.parametrize("block_bytes", [64, 1 << 20])
def test_text(tmp_path, data, expected, block_bytes):
    path = write(tmp_path / "a.txt", data)
    assert texts(path, block_bytes=block_bytes) == expected
    assert texts(path, block_bytes=block_bytes, chunk_size=len(data) // 3 + 1) == expected


def test_chunk_border_between_cr_and_lf(tmp_path):
    path = write(tmp_path / "a.txt", "a\r\nb\r\n\r\nc\r\n")
    for chunk_size in range(1, 13):
        assert documents(path, chunk_size)[0] == [(0, ["a", "b"]), (8, ["c"])]


def test_document_belongs_to_the_chunk_of_its_first_byte(tmp_path):
    path = write(tmp_path / "a.txt", "one\ntwo\n\n\n  three\nfour\n")
    (file,), _ = find_files([str(path)])
    byte_ranges = plan_byte_ranges([file], 12)
    assert [(byte_range.index, byte_range.start, byte_range.stop) for byte_range in byte_ranges] == [
        (0, 0, 12),
        (1, 12, 23),
    ]
    assert [[block.offsets for block in read_blocks(byte_range)] for byte_range in byte_ranges] == [[[0]], [[12]]]


def test_small_documents_share_a_block_and_large_ones_are_split(tmp_path):
    path = write(tmp_path / "a.txt", "a b c\n\n" * 100 + "long line\n" * 1000)
    (file,), _ = find_files([str(path)])
    blocks = list(read_blocks(plan_byte_ranges([file], 1 << 20)[0], block_bytes=2000))
    assert len(blocks[0].offsets) == 101
    assert blocks[0].ends_inside
    assert [block.starts_inside for block in blocks[1:]] == [True] * (len(blocks) - 1)
    assert {block.offsets[0] for block in blocks[1:]} == {700}
    assert max(len("\n".join(block.lines)) for block in blocks) <= 4096
    assert sum(block.bytes_read for block in blocks) == file.size


def test_real_corpus_split_by_a_plain_loop(tmp_path):
    data = gzip.decompress(shared("data", "ospl", "debian-handbook.ja-JP.txt.gz").read_bytes())
    path = write(tmp_path / "a.txt", data)
    expected = plain_documents(data, 1 << 24, "replace")
    assert documents(path, 100_000, block_bytes=30_000) == expected
    assert documents(shared("data", "ospl", "debian-handbook.ja-JP.txt.gz")) == expected


# Long lines


def test_line_too_long_is_left_out_and_its_document_stays(tmp_path, monkeypatch):
    for module in (scan, corpus.reading):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(scan, "_SKIP_BYTES", 100)
    path = write(tmp_path / "a.txt", "x" * 1001 + "\n\nb\n" + "y" * 5000 + "\nc\n\n" + "z" * 1000)
    for block_bytes in (10, 1 << 20):
        found, dropped = documents(path, block_bytes=block_bytes)
        assert found == [(0, []), (1003, ["b", "c"]), (6009, ["z" * 1000])]
        assert dropped == {"line_too_long": 2}


# Invalid UTF-8 and other encodings


@pytest.mark.parametrize("bad", [b"\xe4\xb8", b"\xff", b"\x80\x80"])
def test_invalid_utf8(tmp_path, bad):
    start = b"good line\n" * 100
    path = write(tmp_path / "a.txt", start + b"bad " + bad + b"\nafter\n")
    for block_bytes in (1, 2, 3, 1 << 20):
        with mock.patch.object(corpus.source, "HEAD_BYTES", len(start) + 5):  # the reads meet inside the sequence
            with pytest.raises(DataError) as error:
                texts(path, block_bytes=block_bytes)
            assert f"{path}:101 (byte 1004)" in str(error.value)
            assert bad[:1].hex() in str(error.value)
            assert "invalid_utf8='replace'" in str(error.value)
            (replaced,) = texts(path, block_bytes=block_bytes, invalid_utf8="replace")
            assert replaced[100:] == ["bad " + bad.decode("utf-8", "replace"), "after"]
            found, dropped = documents(path, block_bytes=block_bytes, invalid_utf8="skip")
            assert found == [(0, ["good line"] * 100 + ["after"])]
            assert dropped == {"invalid_utf8": 1}


def test_invalid_utf8_mode_is_checked(tmp_path):
    (file,), _ = find_files([str(write(tmp_path / "a.txt", "a"))])
    with pytest.raises(UsageError, match="fail, replace, skip"):
        read_blocks(plan_byte_ranges([file], 10)[0], invalid_utf8="ignore")


@pytest.mark.parametrize(
    "encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"], ids=lambda name: name
)
def test_wide_encodings_are_refused_with_the_command(tmp_path, encoding):
    path = write(tmp_path / "my a.txt", "Some English text.\nMore of it.\n".encode(encoding))
    named = encoding.upper().replace("-LE", "LE").replace("-BE", "BE")
    with pytest.raises(DataError, match=f"iconv -f {named} -t UTF-8 '.*my a.txt' >"):
        find_files([str(path)])
    packed = write(tmp_path / "b.txt.gz", gzip.compress(path.read_bytes()))
    with pytest.raises(DataError, match=f"gzip -dc .*b.txt.gz | iconv -f {named}"):
        find_files([str(packed)])


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"PK\x03\x04rest", "zip archive"),
        (b"%PDF-1.7", "PDF"),
        (b"BZh91AY", "bzip2"),
        (b"\x05\x01" + bytes(6) + b"abcd\n\x10", "TFRecord"),
        (bytes(range(256)).replace(b"\x01", bytes(40)), "binary data"),
        (bytes(range(1, 256)) * 9, "binary data: 234 of its first 2295 bytes are control characters"),
        (b"\n\x09\n\x05<unk>\x18\x02\n\x07", "SentencePiece model: tokenizer takes it"),
        (b"\x40" + bytes(7) + b'{"a":', "safetensors"),
    ],
)
def test_binary_files_are_refused(tmp_path, data, found):
    with pytest.raises(DataError, match=f"expected UTF-8 text, found .*{found}"):
        find_files([str(write(tmp_path / "a.txt", data))])


def test_control_characters_alone_are_text(tmp_path):
    """A cut character at the end of the head, escapes of ISO-2022, and separators in a row."""
    for data in ("\x01a\x02\x03é" * 1000, "\n\x02\n", "\n\nA\nB\n"):
        assert find_files([str(write(tmp_path / "a.txt", data.encode()))])


# Compression


def test_multi_member_gzip(tmp_path):
    path = write(tmp_path / "a.txt", gzip.compress(b"a\nb\n") + gzip.compress(b"\nc\n") + gzip.compress(b""))
    assert documents(path)[0] == [(0, ["a", "b"]), (5, ["c"])]


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: data[:-1], lambda data: data[:2]])
def test_truncated_gzip(tmp_path, damage):
    data = gzip.compress("".join(f"sentence {number}\n" for number in range(30_000)).encode())
    path = write(tmp_path / "a.txt.gz", damage(data))
    with pytest.raises(DataError, match=r"a\.txt\.gz: the gzip data is cut off"):
        documents(path)


def test_corrupt_gzip(tmp_path):
    data = bytearray(gzip.compress("".join(f"sentence {number}\n" for number in range(30_000)).encode()))
    data[len(data) // 2 : len(data) // 2 + 20] = bytes(20)
    with pytest.raises(DataError, match=r"a\.txt\.gz: the gzip data is corrupt"):
        documents(write(tmp_path / "a.txt.gz", data))
    with pytest.raises(
        DataError, match=r"^\S+b\.txt\.gz: the gzip data is corrupt \(Not a gzipped file \(b'ju'\)\), after"
    ):
        documents(write(tmp_path / "b.txt.gz", gzip.compress(b"a\n") + b"junk"))


def test_zstd(tmp_path):
    zstandard = pytest.importorskip("zstandard")
    text = "".join(f"sentence {number}\n\n" for number in range(30_000)).encode()
    plain = write(tmp_path / "a.txt", text)
    frames = zstandard.compress(text[:1000]) + zstandard.compress(text[1000:])
    assert documents(write(tmp_path / "a.txt.zst", frames)) == documents(plain)
    for damaged in (frames[:-5], frames[:-1], frames[: len(frames) // 2]):
        with pytest.raises(DataError, match="zstd data is c"):
            documents(write(tmp_path / "b.txt.zst", damaged))


def test_zstd_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UsageError, match=r"pip install '\.\[zstd\]'"):
        find_files([str(write(tmp_path / "a.zst", b"\x28\xb5\x2f\xfdrest"))])


# JSON lines


def test_json_text(tmp_path):
    lines = [
        '{"text": "a\\r\\nb\\n\\n c \\rd", "id": 1}',
        "",
        '{"text": ["e\\nf", " ", "g\\u2028h"]}',
        '{"text": "\\ud83d\\ude00"}',
    ]
    path = write(tmp_path / "a.jsonl", "\n".join(lines))
    found = texts(path, text_key="text")
    assert found == [["a", "b", " c ", "d"], ["e f", "g\u2028h"], ["😀"]]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"text": "a"', "not valid JSON"),
        ("plain text", "not valid JSON .*plain text"),
        ('{"a": 1} {"b": 2}', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('["a"]', "expected one JSON object .* found a list"),
        ('{"body": "a", "id": 2}', "no key 'text' .*; the keys here: 'body', 'id'"),
        ('{"text": 3, "body": "x"}', "found int; keys with a string here: 'body'"),
        ('{"text": null}', "found NoneType"),
        ('{"text": ["a", 3]}', "found int in the list, at index 1"),
        ('{"text": "\\ud800"}', "half of a surrogate pair.*invalid_utf8='replace'"),
    ],
)
def test_json_errors_name_the_line(tmp_path, line, message):
    path = write(tmp_path / "a.jsonl", '{"text": "a"}\r\n\r\n' + line + "\n")
    for chunk_size in (5, 1 << 20):
        with pytest.raises(DataError, match=rf"a\.jsonl:3 \(byte 17\): .*{message}"):
            documents(path, chunk_size, text_key="text")


def test_json_with_invalid_utf8(tmp_path):
    path = write(tmp_path / "a.jsonl", b'{"t": "a\xffb"}\n{"t": ["c", "\\ud800", "d"]}\n')
    with pytest.raises(DataError, match=r"a\.jsonl:1 \(byte 8\): not valid UTF-8"):
        documents(path, text_key="t")
    assert texts(path, text_key="t", invalid_utf8="replace") == [["a\ufffdb"], ["c", "\ufffd", "d"]]
    assert documents(path, text_key="t", invalid_utf8="skip") == ([(0, []), (13, ["c", "d"])], {"invalid_utf8": 2})


def test_json_line_too_long(tmp_path, monkeypatch):
    for module in (scan, corpus.jsonl):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", 100)
    monkeypatch.setattr(corpus.source, "HEAD_BYTES", 10)
    path = write(tmp_path / "a.jsonl", '{"t": "a"}\n{"t": "' + "x" * 500 + '"}\n{"t": "b"}')
    for block_bytes in (10, 1000):
        found, dropped = documents(path, block_bytes=block_bytes, text_key="t")
        assert [lines for _, lines in found] == [["a"], [], ["b"]]
        assert dropped == {"line_too_long": 1}


# Plans


def test_limit_documents_goes_over_files_in_order(tmp_path):
    write(tmp_path / "a.txt", "a\n\nb\n\nc\n")
    write(tmp_path / "b.txt.gz", gzip.compress(b"d\n\ne\n\nf"))
    write(tmp_path / "c.txt", "g\n")
    files, _ = find_files([str(tmp_path / "*")])

    def read(limit):
        byte_ranges = plan_byte_ranges(files, 4, limit_documents=limit)
        return byte_ranges, [
            line for byte_range in byte_ranges for block in read_blocks(byte_range) for line in block.lines
        ]

    for limit in range(1, 9):
        assert read(limit)[1] == list("abcdefg")[:limit]
    assert read(4)[0][-1].max_documents == 1
    assert {byte_range.max_documents for byte_range in read(8)[0]} == {None}
    assert read(None)[0] == read(100)[0]


@pytest.mark.bound(60)
@pytest.mark.parametrize("chunk_size", [1 << 24, 700_000])
def test_limit_documents_counts_a_document_of_several_blocks_once(tmp_path, chunk_size):
    """The second and fifth have over 1 MiB: what continues in a block is not another document."""
    sentence = "The house by the river is large and old, and nobody knows who built it there.\n"
    sizes = [1, 30_000, 2, 1, 20_000, 3]
    path = write(tmp_path / "a.txt", "\n".join(sentence * size for size in sizes))
    whole, _ = documents(path, chunk_size)
    assert [len(lines) for _, lines in whole] == sizes
    for limit in range(1, 8):
        found, _ = documents(path, chunk_size, limit_documents=limit)
        assert found == whole[:limit]


@pytest.mark.parametrize("arguments", [(0, None, None), (10, None, 0)])
def test_plan_checks_its_options(arguments):
    with pytest.raises(UsageError, match="must be at least 1"):
        plan_byte_ranges([], *arguments)


def test_fingerprint_sees_name_size_and_samples(tmp_path):
    path = write(tmp_path / "a.txt", b"x" * 1_000_000)
    (file,), _ = find_files([str(path)])
    prints = [fingerprint(file), fingerprint(file)]
    for place in (0, 500_000, 999_999):
        data = bytearray(b"x" * 1_000_000)
        data[place] = ord("y")
        write(path, data)
        prints.append(fingerprint(file))
    assert len(set(prints)) == 4


def test_file_that_vanishes_is_a_data_error(tmp_path):
    path = write(tmp_path / "a.txt", "a")
    (file,), _ = find_files([str(path)])
    byte_ranges = plan_byte_ranges([file], 10)
    path.unlink()
    with pytest.raises(DataError, match=r"a\.txt: cannot be read"):
        list(read_blocks(byte_ranges[0]))
    with pytest.raises(DataError, match=r"a\.txt: cannot be read"):
        fingerprint(file)


# Memory


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "limit_mb"),
    [("'a line of text in the one long document\\n'", 40), ("'\\n'", 40), ("'x'", 120), ("'\\u3000'", 120)],
    ids=["one document", "blank lines", "one line", "one blank line"],
)
def test_memory_is_bounded(tmp_path, unit, limit_mb):
    script = textwrap.dedent(f"""
        import resource, sys
        from nlpdata.corpus import find_files, plan_byte_ranges, read_blocks
        unit = {unit}.encode()
        piece = unit * ((1 << 20) // len(unit))
        with open(sys.argv[1], "wb") as file:
            for _ in range((64 << 20) // len(piece)):
                file.write(piece)
        peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        before = peak()
        for byte_range in plan_byte_ranges(find_files([sys.argv[1]])[0], 64 << 20):
            for block in read_blocks(byte_range):
                pass
        print(peak() - before)
    """)
    command = [sys.executable, "-c", script, str(tmp_path / "big.txt")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(result.stdout) < limit_mb
