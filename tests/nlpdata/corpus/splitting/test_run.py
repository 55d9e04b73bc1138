"""split-sentences as a command: what comes out, the same however it is run, whole or refused whatever interrupts it."""

import json
import os
import shutil
from functools import partial

import pytest

import nlpdata
from nlpdata.cli import commands
from nlpdata.corpus import find_files, plan_portions, read_portion
from nlpdata.corpus.splitting import repeats, units
from nlpdata.corpus.splitting.options import LocalSplittingRequest
from nlpdata.corpus.splitting.plan import make_plan
from nlpdata.corpus.splitting.run import split_plan
from nlpdata.errors import DataError
from tests.nlpdata.commands import contents, open_files_limited, run_command, visible
from tests.nlpdata.corpus.splitting.raw import as_corpus, flat, plainly, raw_documents, write_raw
from tests.nlpdata.interruptions import run_failing, run_killed

DOCUMENTS = raw_documents(80)
BOTH = {"deduplicate_documents": True, "deduplicate_lines": True}
INTERRUPTIONS = {"killed": run_killed, "failing": run_failing}


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("raw")
    write_raw(folder, DOCUMENTS)
    return folder


def split(raw, output, **options):
    return nlpdata.split_sentences(str(raw), str(output), **{"workers": 1} | options)


def read_back(path):
    """The documents of a corpus, as create-pretraining reads them."""
    files, _ = find_files(str(path))
    documents = []
    for file in files:
        for portion in plan_portions([file], 1 << 30):
            for block in read_portion(portion):
                lines = iter(block.lines)
                documents += [[next(lines) for _ in range(count)] for count in block.line_counts]
    return documents


@pytest.mark.parametrize("options", [{}, {"deduplicate_documents": True}, {"deduplicate_lines": True}, BOTH])
def test_what_is_written(raw, tmp_path, options):
    result = split(raw, tmp_path / "c.txt", **options)
    equal = [options.get(name, False) for name in ("deduplicate_documents", "deduplicate_lines")]
    expected = plainly(map(flat, DOCUMENTS), *equal)
    text = (tmp_path / "c.txt").read_text()
    assert text == as_corpus(expected)
    assert read_back(tmp_path / "c.txt") == expected
    meta = json.loads((tmp_path / "c.sentences.json").read_text())
    assert result.counters == meta["counters"]
    every = [flat(document) for document in DOCUMENTS]
    read = {"documents": len(every), "sentences": sum(map(len, every)), "bytes": sum(len(s) for d in every for s in d)}
    written = {
        "documents": len(expected),
        "sentences": sum(map(len, expected)),
        "bytes": sum(len(sentence) for document in expected for sentence in document),
    }
    for what in read:
        counted = meta["counters"][what]
        assert (counted["read"], counted["written"]) == (read[what], written[what])
        assert sum(counted["dropped"].values()) == read[what] - written[what]
        allowed = {"equal_document"} if equal[0] else set()
        assert set(counted["dropped"]) <= allowed | ({"equal_line"} if equal[1] else set())
    assert meta["shards"] == [
        {"file": "c.txt", "bytes": len(text), "records": len(expected), "crc32c": meta["shards"][0]["crc32c"]}
    ]
    assert meta["versions"].keys() == {"sentencex"}
    assert visible(tmp_path) == ["c.sentences.json", "c.txt"]
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


@pytest.mark.parametrize("options", [{}, BOTH, BOTH | {"near_duplicates": 0.6, "language": "auto"}])
def test_portions_and_workers_change_nothing(raw, tmp_path, monkeypatch, options):
    split(raw, tmp_path / "whole" / "c.txt", num_shards=3, **options)
    monkeypatch.setattr(repeats, "RANGE_ROWS", 40)
    monkeypatch.setattr(repeats, "_FILE_ROWS", 30)
    with open_files_limited(12):
        split(raw, tmp_path / "parts" / "c.txt", num_shards=3, chunk_size=700, **options)
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")
    assert len(visible(tmp_path / "parts")) == 4


def test_worker_processes_change_nothing(raw, tmp_path):
    for workers in (1, 2):
        split(raw, tmp_path / str(workers) / "c.txt", workers=workers, chunk_size=4000, **BOTH)
    assert contents(tmp_path / "1") == contents(tmp_path / "2")


def test_shards_are_of_nearly_equal_size_and_go_on_as_they_are(raw, tmp_path, monkeypatch):
    split(raw, tmp_path / "one" / "c.txt")
    monkeypatch.setattr("nlpdata.output.naming.SHARD_BYTES", 5000)
    result = split(raw, tmp_path / "many" / "c.txt")
    sizes = [len((tmp_path / "many" / name).read_bytes()) for name in map(os.path.basename, result.files)]
    assert len(sizes) > 4
    assert [os.path.basename(name) for name in result.files] == [
        f"c.txt-{i:05d}-of-{len(sizes):05d}" for i in range(len(sizes))
    ]
    assert max(sizes) - min(sizes) < 1500
    texts = [(tmp_path / "many" / os.path.basename(name)).read_text() for name in result.files]
    assert "\n".join(texts) == (tmp_path / "one" / "c.txt").read_text()
    for pattern in ("many/c.txt*", "many"):  # a folder stands for its text files
        assert read_back(tmp_path / pattern) == read_back(tmp_path / "one" / "c.txt")


def test_similar_documents(raw, tmp_path):
    result = split(raw, tmp_path / "c.txt", near_duplicates=0.5)
    kept = read_back(tmp_path / "c.txt")
    every = [flat(document) for document in DOCUMENTS]
    assert result.counters["documents"]["dropped"] == {"similar_document": len(every) - len(kept)}
    assert len(kept) < len(plainly(every, True, False))
    stay = []
    for document in every:
        most = max((jaccard(document, each) for each in stay), default=0)
        if len(stay) < len(kept) and kept[len(stay)] == document and document not in stay:
            stay.append(document)
            assert most < 0.65
        else:
            assert most > 0.35
    assert stay == kept


def jaccard(first, second):
    runs = []
    for document in (first, second):
        words = " ".join(document).replace("!", "").lower().split()
        runs.append({tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4))})
    return len(runs[0] & runs[1]) / len(runs[0] | runs[1])


@pytest.mark.parametrize(("how", "old"), [("killed", True), ("failing", False)])
def test_interrupted_at_any_file_operation(tmp_path, monkeypatch, how, old):
    """An older set or the new one is there, or readers refuse; the same command completes it."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "a.txt").write_text("One here. Two here.\n")
    (tmp_path / "raw" / "b.txt").write_text("One here. Three here.\n\nFour here.\n")
    out = tmp_path / "out"

    def command(folder, *more):
        words = [
            f"--input={tmp_path / 'raw'}",
            f"--output={folder / 'c.txt'}",
            "--chunk-size=500",
            "--num-shards=2",
            *more,
        ]
        return commands.main(["split-sentences", *words, "--workers=1", "--quiet"])

    assert command(tmp_path / "whole", "--deduplicate-lines") == 0
    new = contents(tmp_path / "whole")
    if old:
        assert command(tmp_path / "before", "--num-shards=3") == 0
    before = contents(tmp_path / "before")
    run = partial(command, out, "--deduplicate-lines", *(["--overwrite"] if old else []))
    step, interrupted = 0, True
    while interrupted:
        shutil.rmtree(out, ignore_errors=True)
        if old:
            shutil.copytree(tmp_path / "before", out)
        code, interrupted = INTERRUPTIONS[how](run, step)
        assert (code == 0) is not interrupted or how == "failing"
        found = contents(out)
        if (out / ".c.txt.committing").exists():
            if any(name.startswith("c.txt") for name in found):
                with pytest.raises(
                    DataError, match="this set of text is being replaced, or its replacement was interrupted"
                ):
                    find_files(f"{out}/c.txt*")
        else:
            texts = {name: text for name, text in found.items() if name.startswith("c.txt")}
            assert texts in ({}, *({n: t for n, t in each.items() if n.startswith("c.txt")} for each in (before, new)))
        assert run() == 0 or contents(out) == new  # without --overwrite a whole set is refused
        assert contents(out) == new, step
        step += 11 if old else 19
    assert step > 70


def test_a_resumed_run_does_what_is_left(raw, tmp_path, monkeypatch, capsys):
    split(raw, tmp_path / "whole" / "c.txt", chunk_size=2000, **BOTH)
    really, done = units.leave_out, []

    def fails(unit, report):
        done.append(unit)
        if len(done) == 3:
            raise OSError(28, "No space left on device")
        return really(unit, report)

    monkeypatch.setattr(units, "leave_out", fails)
    arguments = [
        "split-sentences",
        "--input",
        raw,
        "--output",
        tmp_path / "out" / "c.txt",
        "--chunk-size=2000",
        "--workers=1",
    ]
    arguments += ["--deduplicate-documents", "--deduplicate-lines"]
    failed = run_command(capsys, *arguments)
    assert failed.code == 1
    assert "No space left on device. Nothing was put in place. Finished parts are kept" in failed.err
    monkeypatch.setattr(units, "leave_out", really)
    monkeypatch.setattr(units, "read_range", None)  # nothing is read again
    work = tmp_path / "out" / ".c.txt.work"
    os.remove(next(iter(sorted(work.glob("kept-*.lengths")))))  # of a finished unit: it is made again
    assert run_command(capsys, *arguments).code == 0
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_input_that_changes_meanwhile(tmp_path):
    path, output = tmp_path / "a.txt", tmp_path / "out" / "c.txt"
    path.write_text("One is. Two is.\n" * 40)
    request = LocalSplittingRequest(str(path), str(output), workers=1)
    plan = make_plan(request)
    path.write_text("One is. Two is.\n" * 20)
    with pytest.raises(DataError, match=r"a\.txt: has changed while it was read\. Nothing was put in place"):
        split_plan(plan, overwrite=False, workers=1, progress=False)
    assert sorted(output.parent.rglob("*")) == []
    assert nlpdata.split_sentences(str(path), str(output)).counters["sentences"]["written"] == 40


def test_the_screen(raw, tmp_path, capsys):
    done = run_command(
        capsys,
        "split-sentences",
        f"{raw}/*",
        "--output",
        tmp_path / "c.txt",
        "--workers=1",
        "--deduplicate-lines",
    )
    assert done.code == 0
    files = len(DOCUMENTS) // 2
    for line in (
        f"{files} files of text: each file is a document, line breaks in a paragraph are spaces (--documents file, "
        "--line-breaks join)",
        "2 files of JSON lines: each record is a document, each line ends a sentence (--documents record, --line-breaks end)",
    ):
        assert line in done.err
    rows = {line[:30].strip(): line[30:].strip() for line in done.out.splitlines()}
    assert rows["documents read"] == "80"
    for row in (
        "documents written",
        "left out, equal line",
        "sentences read",
        "bytes written",
        "sentences that were cut",
    ):
        assert row in done.out
    assert done.out.splitlines()[-1] == f"written: {tmp_path / 'c.txt'}, {tmp_path / 'c.sentences.json'}"


def test_through_to_records(raw, tmp_path, tiny_model):
    split(raw, tmp_path / "c.txt", num_shards=2, deduplicate_documents=True)
    made = nlpdata.create_pretraining(
        str(tmp_path / "c.txt*"), str(tmp_path / "c.tfrecord"), tiny_model, max_seq_length=64, dupe_factor=1, workers=1
    )
    assert made.counters["documents"] == len(plainly(map(flat, DOCUMENTS), True, False))
    tokenizer = nlpdata.train_tokenizer(str(tmp_path / "c.txt*"), str(tmp_path / "spm"), vocab_size=120, workers=1)
    assert tokenizer.lines_read == made.counters["sentences"]
