"""The commit protocol: whatever interrupts a command, and wherever, readers get a whole set or a refusal, and the same
command completes the new set without doing finished parts again, and leaves nothing else."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import nlpdata.finetuning.create
import nlpdata.pretraining.create
from nlpdata.errors import NlpdataError
from nlpdata.finetuning.create import create_finetuning
from nlpdata.pretraining.create import create_pretraining
from nlpdata.records.reader import open_records
from nlpdata.records.verification import verify
from tests.disks import in_memory
from tests.nlpdata.interruptions import run_failing, run_killed

pytestmark = pytest.mark.heavy


WORDS = "the quick brown fox jumps over lazy dogs while seven small birds sing in old trees".split()
INTERRUPTIONS = {"killed": run_killed, "failing": run_failing}
MODULES = (nlpdata.pretraining.create, nlpdata.finetuning.create)


@dataclass
class Job:
    """A small command: its function and options, those that make the old set, the splits, and the work folder."""

    function: Callable
    options: dict
    older: dict
    splits: tuple[str, ...]
    work: str

    def run(self, out, **more) -> int:
        """The exit code of the command."""
        name = "x.tfrecord" if self.function is create_pretraining else ""
        try:
            self.function(output=str(out / name), workers=1, **self.options | more)
        except NlpdataError as error:
            return error.exit_code
        return 0


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("input")
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]) + "\n")
    sentences = [" ".join(WORDS[(i * 7 + j) % len(WORDS)] for j in range(6)) for i in range(48)]
    (folder / "text.txt").write_text("\n\n".join("\n".join(sentences[i : i + 4]) for i in range(0, 48, 4)) + "\n")
    rows = "\n".join(f"{'good' if i % 2 else 'bad'}\t{sentence}" for i, sentence in enumerate(sentences[:6]))
    for split in ("train", "dev"):
        (folder / f"{split}.tsv").write_text(f"label\ttext\n{rows}\n")
    text = {"input": str(folder / "text.txt"), "tokenizer": vocabulary, "max_seq_length": 16, "dupe_factor": 1}
    table = {"input": str(folder / "train.tsv"), "dev_input": str(folder / "dev.tsv"), "tokenizer": vocabulary}
    table |= {"task": "classification", "max_seq_length": 12}
    return {
        "pretraining": Job(
            create_pretraining, text | {"eval_fraction": 0.3}, {"seed": 3, "num_shards": 2}, ("x", "x.eval"), ".x.work"
        ),
        "finetuning": Job(
            create_finetuning, table, {"max_seq_length": 10, "num_shards": 2}, ("train", "dev"), ".train.work"
        ),
    }


def everything(folder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() if path.is_file() else b"" for path in Path(folder).iterdir()}


@pytest.fixture
def folder(tmp_path):
    with in_memory(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    ("name", "how", "old"),
    [
        ("pretraining", "killed", False),
        *((name, how, True) for name in ("pretraining", "finetuning") for how in INTERRUPTIONS),
    ],
)
def test_interrupted_at_any_file_operation(jobs, folder, monkeypatch, name, how, old):
    job, out = jobs[name], folder / "out"
    assert job.run(folder / "whole") == 0
    new_set = everything(folder / "whole")
    (folder / "before").mkdir()
    if old:
        assert job.run(folder / "before", **job.older) == 0
    old_set = everything(folder / "before")
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    command = partial(job.run, out, overwrite=old)
    for step in range(1000):
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(folder / "before", out)
        code, interrupted = INTERRUPTIONS[how](command, step)
        assert code in ((None,) if interrupted and how == "killed" else (0, 1, 2) if interrupted else (0,)), step
        for split in job.splits:
            assert_whole_or_refused(out, split, old_set, new_set)
        assert_completes(command, out, job.work, new_set, monkeypatch, step)
        if not interrupted:
            break
    assert not interrupted
    assert step > 40


def assert_whole_or_refused(out, split, old_set, new_set):
    found = everything(out)
    records = [str(out / name) for name in sorted(found) if name.startswith(f"{split}.tfrecord")]
    if (out / f".{split}.committing").exists():
        for reader in (open_records, verify):
            with pytest.raises(NlpdataError, match="being replaced" if records else "no file"):
                reader(records or [str(out / f"{split}.tfrecord*")])
        return
    for whole in (old_set, new_set):
        own = {name: data for name, data in whole.items() if name.startswith((f"{split}.tfrecord", f"{split}.token"))}
        if all(found.get(name) == data for name, data in own.items()) and len(records) == sum(
            name.startswith(f"{split}.tfrecord") for name in own
        ):
            assert not records or json.loads(whole[meta_of(split, whole)]) == open_records(records).meta
            return
    raise AssertionError(f"neither the old set nor the new one: {sorted(found)}")


def meta_of(split, names):
    return f"{split}.meta.json" if f"{split}.meta.json" in names else "meta.json"


def assert_completes(command, out, work, new_set, monkeypatch, step):
    """The same command again: exit 0, or 2 where the first one had come to its very end."""
    left = os.listdir(out / work) if (out / work).exists() else []
    was_whole = {name for name in os.listdir(out) if name != work} == set(new_set) and left in ([], ["lock"])
    finished, used = [name for name in left if name.endswith(".json") and name != "commit.json"], []
    with monkeypatch.context() as patch:
        for module in MODULES:

            def counting(*arguments, run_stage=module.run_stage, **settings):
                used.extend(result for result in arguments[3] if result is not None)
                assert "commit.json" not in left, f"{step}: finished parts are made again"
                return run_stage(*arguments, **settings)

            patch.setattr(module, "run_stage", counting)
        code = command()
    assert code == 0 or (code == 2 and was_whole), step
    assert everything(out) == new_set, step
    if code == 0 and "key" in left and "commit.json" not in left:
        assert len(used) == len(finished), step


@pytest.mark.parametrize("name", ["pretraining", "finetuning"])
def test_a_damaged_journal_is_not_followed(jobs, folder, monkeypatch, name):
    """One other character in it, which JSON takes, would be one in the meta file: the parts are made again instead."""
    job, out = jobs[name], folder / "out"
    assert job.run(folder / "whole") == 0
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    journal = out / job.work / "commit.json"
    step = 10
    while not (journal.exists() and list(out.glob("*tfrecord*")) == []):
        shutil.rmtree(out, ignore_errors=True)
        run_killed(partial(job.run, out), step)
        step += 1
    content = journal.read_text()
    assert '"train_data_size": ' in content
    journal.write_text(content.replace('"train_data_size": ', '"train_data_size": 1'))
    assert job.run(out) == 0
    assert everything(out) == everything(folder / "whole")
