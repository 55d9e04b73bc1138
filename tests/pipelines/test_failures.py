"""Bundles that fail, run twice or lose data; and the faults of users, which must read as they do locally."""

import threading
import traceback
import zlib
from contextlib import suppress

import apache_beam as beam
import pytest
from apache_beam.runners.dataflow.dataflow_runner import DataflowRuntimeException

from nlpdata.cli import commands
from nlpdata.errors import BEGINS_ANEW
from nlpdata.output import committing
from nlpdata.pretraining import build
from pipelines import faults, pretraining, runner, steps, watching
from tests.nlpdata.commands import contents, create_arguments, run_command, visible
from tests.nlpdata.conftest import as_text, random_documents
from tests.pipelines.conftest import arguments

STEPS = [
    steps.BuildFn,
    steps.PlanBucketsFn,
    steps.SpreadFn,
    steps.FillFn,
    steps.PlanShardsFn,
    steps.DivideFn,
    steps.ShardFn,
    steps.CommitFn,
]
ON_BEAM = "--runner=DirectRunner"


@pytest.mark.slow
def test_first_attempt_of_each_step_fails(tmp_path, corpus_folder, tiny_model, local_files, monkeypatch):
    """Beam's bundle-based runner tries a failed bundle again; what the first attempt left on disk does no harm."""
    retrying = "apache_beam.runners.direct.direct_runner:BundleBasedDirectRunner"
    monkeypatch.setitem(runner.RUNNERS, "DirectRunner", retrying)
    failed = []

    def flaky(step, process):
        def fails_at_first(self, element):
            made = list(process(self, element))
            if step not in failed:
                failed.append(step)
                raise RuntimeError("injected")
            return made

        return fails_at_first

    for step in STEPS:
        monkeypatch.setattr(step, "process", flaky(step, step.process))
    assert commands.main(arguments(corpus_folder, tmp_path, tiny_model, "nsp", 3, ON_BEAM)) == 0
    assert {*failed} == {*STEPS}
    assert contents(tmp_path) == local_files("nsp", 3)


def at_once_and_again(process, twice):
    """A step that does its work in two threads, and raises what one of them does."""

    def doubled(self, element):
        if isinstance(element, tuple) and not isinstance(element[1], bytes | str):
            element = (element[0], list(element[1]))  # may be read once only
        made, errors, start = [], [], threading.Barrier(2)

        def attempt():
            start.wait()
            try:
                made.append(list(process(self, element)))
            except BaseException as error:  # (to be raised in the test's own thread)
                errors.append(error)

        threads = [threading.Thread(target=attempt) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]
        twice.append(type(self))
        return made[-1]

    return doubled


def test_bundles_run_twice_at_once(tmp_path, corpus_folder, tiny_model, local_files, monkeypatch):
    twice = []
    for step in STEPS:
        monkeypatch.setattr(step, "process", at_once_and_again(step.process, twice))
    for attempt in range(2):
        folder = tmp_path / str(attempt)
        assert commands.main(arguments(corpus_folder, folder, tiny_model, "nsp", 3, ON_BEAM)) == 0
        assert contents(folder) == local_files("nsp", 3)
        assert not [path for path in folder.iterdir() if path.name.startswith(".")]
    assert {*twice} == {*STEPS}


@pytest.mark.parametrize("change", [lambda made: made[1:], lambda made: [*made, made[-1]]], ids=["lost", "repeated"])
def test_lost_and_repeated_elements_are_found(change, tmp_path, corpus_folder, tiny_model, monkeypatch, capsys):
    process = steps.DivideFn.process
    monkeypatch.setattr(steps.DivideFn, "process", lambda self, element: change(list(process(self, element))))
    outcome = run_command(capsys, *arguments(corpus_folder, tmp_path, tiny_model, "sop", 3, ON_BEAM))
    assert outcome.code == 1
    assert "the runner lost or repeated data" in outcome.err
    assert visible(tmp_path) == []


def _without_file(line):
    return line.partition(", is in ")[0]


def test_fault_of_the_program_reads_as_it_does_locally(
    tmp_path, corpus_folder, tiny_model, monkeypatch, capsys, fault_files
):
    """One line, exit code 70, and a file with the worker's traceback, which holds nothing of the data."""
    monkeypatch.setattr(build, "Document", None)  # which is called for each document
    given = arguments(corpus_folder, tmp_path, tiny_model, "sop", 3)
    local, beam = (run_command(capsys, *given, more) for more in ("--workers=1", ON_BEAM))
    assert local.code == beam.code == 70
    last = [_without_file(outcome.err.splitlines()[-1]) for outcome in (local, beam)]
    assert last[0] == last[1]
    assert "TypeError in nlpdata/pretraining/build.py, line " in last[1]
    assert visible(tmp_path) == []
    for text in fault_files():
        assert "builtins.TypeError: 'NoneType' object is not callable" in text
        assert "nlpdata/pretraining/build.py" in text


@pytest.mark.parametrize(
    "error",
    [KeyError("poison"), UnicodeDecodeError("utf-8", b"poison", 0, 1, "why"), zlib.error("poison"), OSError("poison")],
    ids=lambda error: type(error).__name__,
)
def test_what_a_worker_raises_arrives_through_any_wrapping(error):
    """As Dataflow has it: the traceback as text in an exception of its own, indented, cut to the last lines."""

    def step():
        with faults.marked_faults("tokenizing", "a.txt"):
            raise error

    with pytest.raises(faults.WorkerError) as raised:
        watching.run_watched(step, lambda: None)
    wrapped = "\n".join(f"  {line}" for line in traceback.format_exception(raised.value)[-3:])
    found = faults.fault_in(
        DataflowRuntimeException(f"Dataflow pipeline failed. State: FAILED, Error:\n{wrapped}\n", None)
    )
    if isinstance(error, OSError):
        assert str(found) == f"tokenizing (a.txt): poison. Nothing was put in place. {BEGINS_ANEW}"
    else:
        assert type(found) is (KeyError if isinstance(error, KeyError) else RuntimeError)
        assert str(error).strip("'") in str(found)
        assert "test_failures.py" in found.__notes__[0]


def test_existing_output_is_refused_and_overwritten(tmp_path, corpus_folder, tiny_model, local_files, capsys):
    given = arguments(corpus_folder, tmp_path, tiny_model, "sop", 3, ON_BEAM)
    assert run_command(capsys, *given).code == 0
    again = run_command(capsys, *given)
    assert again.code == 2
    assert "Use --overwrite" in again.err
    assert run_command(capsys, *given, "--overwrite").code == 0
    assert contents(tmp_path) == local_files("sop", 3)


def test_output_whose_name_is_not_utf8(tmp_path, corpus_folder, tiny_model, capsys):
    given = create_arguments(corpus_folder / "a.txt", f"{tmp_path}/bad\udcff.tfrecord", tiny_model)
    outcome = run_command(capsys, *given[: given.index("--workers")], ON_BEAM)
    assert outcome.code == 2
    assert "bad\\xff.tfrecord: Beam takes names in UTF-8 only" in outcome.err
    assert list(tmp_path.iterdir()) == []


class Death(BaseException):
    """Stands for the end of a worker."""


@pytest.mark.parametrize("dies_at", ["marker", "meta"])
def test_late_attempt_dies_after_another_finished_the_commit(
    dies_at, tmp_path, corpus_folder, tiny_model, local_files, monkeypatch, capsys
):
    """An attempt that looked before the other one was done writes its marker, and dies then or one change later."""
    process = steps.CommitFn.process

    def twice(self, element):
        element = (element[0], list(element[1]))
        yield from process(self, element)
        looks, stand = [], committing._are_in_place

        def not_at_first(*about):
            looks.append(about)
            return len(looks) > (1 if dies_at == "marker" else 2) and stand(*about)

        def dies(*_):
            raise Death

        with monkeypatch.context() as patch, suppress(Death):
            patch.setattr(committing, "_are_in_place", not_at_first)
            patch.setattr(committing, "remove_markers" if dies_at == "marker" else "_move", dies)
            list(process(self, element))
        assert (tmp_path / ".t.committing").exists()

    monkeypatch.setattr(steps.CommitFn, "process", twice)
    given = arguments(corpus_folder, tmp_path, tiny_model, "sop", 3, ON_BEAM)
    outcome = run_command(capsys, *given)
    if dies_at == "meta":
        assert outcome.code == 1
        assert "Run the same command again to complete the set" in outcome.err
        monkeypatch.setattr(steps.CommitFn, "process", process)
        outcome = run_command(capsys, *given)
    assert outcome.code == 0, outcome.err
    assert contents(tmp_path) == local_files("sop", 3)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("command", ["create", "train"])
def test_interrupted_run_says_that_it_begins_anew(command, tmp_path, corpus_folder, tiny_model, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(beam.Pipeline, "run", interrupted)
    given = {
        "create": arguments(corpus_folder, tmp_path, tiny_model, "sop", 3, "--runner", "DirectRunner"),
        "train": ["train-tokenizer", f"--input={corpus_folder}/*.txt", f"--output={tmp_path}/v", ON_BEAM],
    }[command]
    outcome = run_command(capsys, *given)
    assert outcome.code == 130
    assert outcome.err.splitlines()[-1] == (
        "nlpdata: interrupted. A run on Beam keeps no finished parts: the same command begins anew."
    )
    assert list(tmp_path.iterdir()) == []


def test_input_that_changes_meanwhile(tmp_path, tiny_model, monkeypatch, capsys):
    path, plans = tmp_path / "a.txt", pretraining.make_plan
    path.write_text(as_text(random_documents(6)))

    def then_changed(request):
        made = plans(request)
        path.write_text(as_text(random_documents(5)))
        return made

    monkeypatch.setattr(pretraining, "make_plan", then_changed)
    words = [
        "--input",
        path,
        "--output",
        tmp_path / "out" / "x.tfrecord",
        "--tokenizer",
        tiny_model,
        "--max-seq-length",
        64,
    ]
    outcome = run_command(capsys, "create-pretraining", *map(str, words), ON_BEAM)
    assert outcome.code == 1
    assert f"{path}: has changed while it was read. Nothing was put in place" in outcome.err
    assert [*(tmp_path / "out").rglob("*")] == []
