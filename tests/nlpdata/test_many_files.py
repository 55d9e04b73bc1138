"""Many small files, and many sorted runs: the same bytes with few open files, work that goes by bytes."""

import contextlib
import functools
import gzip
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import nlpdata
import nlpdata.records.contract
from nlpdata.corpus import find_files, plan_portions, read_blocks, read_portion, reading
from nlpdata.errors import DataError, UsageError
from nlpdata.files import mapping
from nlpdata.pretraining import create as create_module
from nlpdata.pretraining import plan, stages, summary
from tests.nlpdata.commands import open_files_limited
from tests.nlpdata.conftest import as_text, random_documents
from tests.nlpdata.test_golden import GOLDEN

OBJECTIVES = {
    "sop": {},
    "nsp": {"objective": "nsp"},
    "packed": {"objective": "none", "pack_across_documents": True, "masking": "dynamic"},
}


@pytest.fixture(scope="module")
def small_files(tmp_path_factory):
    """150 files of two documents; every 50th compressed, and one empty."""
    folder = tmp_path_factory.mktemp("small")
    documents = random_documents(300, seed=9)
    for number in range(150):
        text = as_text(documents[2 * number : 2 * number + 2]).encode()
        if number % 50 == 7:
            (folder / f"{number:03d}.txt.gz").write_bytes(gzip.compress(text))
        else:
            (folder / f"{number:03d}.txt").write_bytes(text)
    (folder / "empty.txt").write_bytes(b"")
    return folder


def create(folder, output, **options):
    given = {"max_seq_length": 64, "dupe_factor": 1, "eval_fraction": 0.2, "num_shards": 3, "workers": 1}
    result = nlpdata.create_pretraining(f"{folder}/*", str(output / "x"), GOLDEN / "spm.model", **given | options)
    return {path.name: path.read_bytes() for path in output.iterdir()}, result


@pytest.fixture(scope="module")
def whole(tmp_path_factory, small_files):
    """objective -> the files of a plain run, each made once."""

    @functools.cache
    def files(objective):
        return create(small_files, tmp_path_factory.mktemp(objective), **OBJECTIVES[objective])[0]

    return files


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_few_open_files_whatever_the_number_of_runs(tmp_path, small_files, whole, objective):
    """A byte range size of 1,000 bytes makes more than 100 runs of each kind."""
    expected = whole(objective)
    with open_files_limited(12):
        found, _ = create(small_files, tmp_path / "runs", chunk_size=1000, **OBJECTIVES[objective])
    assert found == expected


@pytest.mark.parametrize("fault_at", [None, 6, 18])
def test_very_many_runs_are_merged_in_passes(tmp_path, small_files, whole, monkeypatch, fault_at):
    """With six runs at a time, some 60 become ten and two; interrupted in each pass, and with no portion made again."""
    expected = whole("nsp")
    merged, plain = [], stages.merge_runs

    def merge_runs(runs, path):
        merged.append(len(runs))
        if len(merged) == fault_at:
            raise KeyboardInterrupt
        return plain(runs, path)

    monkeypatch.setattr(create_module, "MAX_RUNS", 6)
    monkeypatch.setattr(stages, "merge_runs", merge_runs)
    if fault_at:
        with pytest.raises(KeyboardInterrupt):
            create(small_files, tmp_path / "runs", chunk_size=2000, objective="nsp")
        monkeypatch.setattr(create_module, "make_portion", None)
    found, _ = create(small_files, tmp_path / "runs", chunk_size=2000, objective="nsp")
    assert found == expected
    assert len(merged) > 20
    assert max(merged) == 6


def test_small_files_are_one_task(small_files):
    files, _ = find_files([f"{small_files}/*"])
    total = sum(file.size for file in files)
    (portion,) = plan_portions(files, total)
    assert [byte_range.file for byte_range in portion.byte_ranges] == [file for file in files if file.size]
    assert portion.bytes == total
    assert portion.place == f"{small_files}/000.txt to {small_files}/149.txt, 150 parts of files"
    portions = plan_portions(files, 2000)
    assert len(portions) < 2 * total / 2000 + 1
    assert [portion.index for portion in portions] == list(range(len(portions)))
    byte_ranges = [byte_range for portion in portions for byte_range in portion.byte_ranges]
    assert [(byte_range.file, byte_range.start, byte_range.stop) for byte_range in byte_ranges] == [
        (byte_range.file, byte_range.start, byte_range.stop) for byte_range in reading.plan_byte_ranges(files, 2000)
    ]
    assert all(portion.bytes <= 2000 or len(portion.byte_ranges) == 1 for portion in portions)


def test_portions_have_a_limited_number_of_byte_ranges(small_files, monkeypatch):
    monkeypatch.setattr(reading, "MAX_BYTE_RANGES", 40)
    files, _ = find_files([f"{small_files}/*"])
    assert [len(portion.byte_ranges) for portion in plan_portions(files, 1 << 30)] == [40, 40, 40, 30]


def documents_of(blocks):
    """(file, offset, lines) of each document, its parts together; and the counts of what was left out."""
    found, dropped = [], 0
    for block in blocks:
        lines = iter(block.lines)
        for number, (file, offset, count) in enumerate(zip(block.files, block.offsets, block.line_counts, strict=True)):
            own = [next(lines) for _ in range(count)]
            if number == 0 and block.starts_inside:
                assert found[-1][:2] == (file.path, offset)
                found[-1][2].extend(own)
            else:
                found.append((file.path, offset, own))
        assert next(lines, None) is None
        dropped += sum(block.dropped.values())
    return found, dropped


@pytest.mark.parametrize("block_bytes", [1, 300, 1 << 20])
def test_joined_blocks_hold_the_same_documents(tmp_path, small_files, monkeypatch, block_bytes):
    """Blocks of one byte: every document continues in the next block."""
    (tmp_path / "bad.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\xff\r\n\r\n\r\nc\n")
    (tmp_path / "blank.txt").write_bytes(b"\n \n\n")
    (tmp_path / "zero.txt").write_bytes(b"z")
    files, _ = find_files([f"{small_files}/0*", f"{tmp_path}/*"])
    byte_ranges = reading.plan_byte_ranges(files, 1 << 20)
    plain = read_blocks
    one_by_one = [
        block for byte_range in byte_ranges for block in plain(byte_range, block_bytes=block_bytes, invalid_utf8="skip")
    ]
    monkeypatch.setattr(reading, "BLOCK_BYTES", block_bytes)
    monkeypatch.setattr(
        reading, "read_blocks", lambda byte_range, **more: plain(byte_range, block_bytes=block_bytes, **more)
    )
    (portion,) = plan_portions(files, 1 << 20)
    together = list(read_portion(portion, invalid_utf8="skip"))
    assert documents_of(together) == documents_of(one_by_one)
    assert documents_of(together)[1] == 1
    assert sum(block.bytes_read for block in together) == sum(block.bytes_read for block in one_by_one)
    if block_bytes == 1 << 20:
        assert len(together) == 1


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_records_of_more_shards_than_open_files(tmp_path, small_files, compression):
    create(small_files, tmp_path, num_shards=150, compression=compression, eval_fraction=0.0)
    paths = sorted(tmp_path.glob("*-of-00150"))
    assert len(paths) == 150
    alone = [nlpdata.open_records([path]) for path in paths]
    expected = np.concatenate([records[:]["input_ids"] for records in alone])
    del alone
    with contextlib.ExitStack() as others, open_files_limited(12 + 60):
        for _ in range(60):  # so that far fewer may be mapped than half of the limit
            others.enter_context(open(os.devnull))
        records = nlpdata.open_records(f"{tmp_path}/x.tfrecord*")
        order = np.random.default_rng(1).permutation(len(records))
        assert np.array_equal(records[order]["input_ids"], expected[order])
        with ThreadPoolExecutor(4) as threads:  # as loaders do
            parts = list(threads.map(lambda part: records[part]["input_ids"], np.array_split(order, 40)))
        assert np.array_equal(np.concatenate(parts), expected[order])
        assert len(mapping._mapped) <= mapping.most_mappings()
        assert str(nlpdata.verify(f"{tmp_path}/x.tfrecord*")) == f"150 files, {len(order)} records: no faults"


def test_a_file_that_changes_while_its_records_are_open(tmp_path, small_files, monkeypatch):
    create(small_files, tmp_path, num_shards=2, eval_fraction=0.0)
    monkeypatch.setattr(mapping, "most_mappings", lambda: 1)
    records = nlpdata.open_records(f"{tmp_path}/x.tfrecord*")
    first, last = records[0], records[len(records) - 1]
    assert first["input_ids"].shape == last["input_ids"].shape
    path = tmp_path / "x.tfrecord-00000-of-00002"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"x.tfrecord-00000-of-00002: the file has changed since it was opened"):
        records[0]


def test_meta_file_lists_the_first_inputs(tmp_path, small_files, monkeypatch):
    monkeypatch.setattr(summary, "MAX_LISTED", 3)
    _, result = create(small_files, tmp_path, eval_fraction=0.0)
    inputs = nlpdata.records.contract.read_meta(result.meta["train"])["inputs"]
    files = sorted(small_files.iterdir(), key=lambda path: path.name.removesuffix(".gz"))
    listed = [{"file": path.name, "bytes": path.stat().st_size} for path in files[:3]]
    rest = {"file": "*", "bytes": sum(path.stat().st_size for path in files[3:]), "files": 148}
    assert inputs == [*listed, rest]


def test_more_files_than_bucket_keys_tell_apart(tmp_path, small_files, monkeypatch):
    monkeypatch.setattr(plan, "MAX_FILES", 150)
    with pytest.raises(UsageError, match=r"nsp_scope='file' takes 150 files at most\. Received: 151"):
        create(small_files, tmp_path, objective="nsp", nsp_scope="file")


def test_limit_documents_and_weights_over_small_files(tmp_path, small_files):
    whole, one = create(small_files, tmp_path / "whole", chunk_size=1 << 20, limit_documents=33)
    found, _ = create(small_files, tmp_path / "runs", chunk_size=1000, limit_documents=33)
    assert found == whole
    assert one.counters["documents"] == 33
