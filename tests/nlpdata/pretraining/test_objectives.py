"""Objectives: what the three declare, a user's own from docs/extending.md, and what is wrong about one."""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from nlpdata.errors import UsageError, as_flag
from nlpdata.pretraining.objectives import OBJECTIVES, find_objective
from nlpdata.pretraining.options import PretrainingOptions
from nlpdata.records.reader import open_records
from tests.nlpdata.commands import contents, create_arguments, run_command
from tests.nlpdata.pretraining.examples import NumberTokenizer, build_all, numbered_documents, write_corpus

ROOT = Path(__file__).resolve().parents[3]


def documented() -> str:
    """The module of docs/extending.md."""
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    (code,) = (code for code in re.findall(r"```python\n(.*?)```", text, re.S) if "(Objective)" in code)
    return code


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    """Writes a module of the user's, importable here and in worker processes; gives its name."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{ROOT}")
    name = f"own_{abs(hash(tmp_path)):x}"

    def write(code):
        (folder / f"{name}.py").write_text(code)
        return name

    yield write
    sys.modules.pop(name, None)


def test_what_the_three_declare():
    found = {name: find_objective(name) for name in OBJECTIVES}
    assert {name: each.task_type for name, each in found.items()} == {
        "sop": "albert_pretraining",
        "nsp": "bert_pretraining",
        "none": "mlm_pretraining",
    }
    assert [each.label_names for each in found.values()] == [("in_order", "swapped"), ("next", "random"), ()]
    assert [each.unused(1) for each in found.values()] == ["one_sentence_document", None, None]
    packed = PretrainingOptions(objective="none", pack_across_documents=True)
    works = [find_objective(options.objective).bucket_work(options) for options in (PretrainingOptions(), packed)]
    assert not works[0].used
    assert (works[1].makes_all, works[1].by_file, works[1].needs_another) == (True, False, None)
    by_file = PretrainingOptions(objective="nsp", nsp_scope="file")
    work = find_objective("nsp").bucket_work(by_file)
    assert (work.makes_all, work.by_file) == (False, True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"objective": "spo"},
            "unknown objective 'spo'. Did you mean sop or nsp? Known: none, nsp, sop; or name your own",
        ),
        ({"objective": 3}, "--objective must be a name. Received: 3."),
        (
            {"objective": "json:loads"},
            "--objective json:loads is not an objective: expected a class that extends nlpdata.",
        ),
        ({"objective": "no_such_module:A"}, "objective 'no_such_module:A' cannot be imported: No module named"),
        ({"nsp_scope": "file"}, "--nsp-scope belongs to --objective nsp. Received: --objective sop."),
        (
            {"objective": "nsp", "pack_across_documents": True},
            "--pack-across-documents belongs to --objective none. Received: --objective nsp.",
        ),
    ],
)
def test_a_wrong_objective(options, message):
    with pytest.raises(UsageError) as error:
        PretrainingOptions(**options)
    assert error.value.spelled(as_flag).startswith(message)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise RuntimeError('broken\\nhere')", "RuntimeError: broken here ("),
        (documented().replace('("follows", "gap")', "None"), "label_names must be a tuple of strings"),
        (documented().replace('("follows", "gap")', '"ab"'), "label_names must be a tuple of strings"),
        (
            documented().replace("    label_names", '    own_options = "pack_across_documents"\n    label_names', 1),
            "own_options must be a tuple of strings",
        ),
        (documented().replace("    label_names", "    task_type = 3\n    label_names", 1), "Received: 3."),
        ("class SentenceGap: pass", "is not an objective: expected a class that extends"),
        (
            documented().replace("def segments", "def segmnets"),
            "TypeError: Can't instantiate abstract class SentenceGap",
        ),
        (
            documented().replace('("follows", "gap")', '("follows", "gap", "more")'),
            "label_names must be two names or none.",
        ),
        (
            documented().replace("    label_names", '    task_type = "gap"\n    label_names', 1),
            'must end in "pretraining"',
        ),
    ],
)
def test_a_fault_of_a_users_own(own_module, code, message):
    name = own_module(code)
    with pytest.raises(UsageError) as error:
        PretrainingOptions(objective=f"{name}:SentenceGap")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_the_documented_objective_asks_for_the_gap(tmp_path, own_module):
    lengths = [[3 + (i + j) % 5 for j in range(1 + i % 12)] for i in range(150)]
    documents = numbered_documents(lengths)
    corpus = write_corpus(tmp_path / "a.txt", documents)
    name = own_module(documented())
    built = build_all(corpus, NumberTokenizer(60_000, None), objective=f"{name}:SentenceGap", max_seq_length=128)
    owner = {token: sentence for document in documents for sentence in map(tuple, document) for token in sentence}
    following = {
        tuple(first): tuple(second)
        for document in documents
        for first, second in zip(document, document[1:])  # noqa: B905, RUF007
    }
    labels = built.columns["next_sentence_labels"][:, 0]
    for ids, segment_ids, mask, label in zip(
        built.original_ids(), built.columns["segment_ids"], built.columns["input_mask"], labels, strict=True
    ):
        length, second = int(mask.sum()), int(segment_ids.argmax())
        last, first = owner[ids[second - 2]], owner[ids[second]]
        expected = following[following[last]] if label else following[last]
        assert first == expected
        assert ids[length - 2] in owner
    assert abs(labels.mean() - 0.5) < 4 * 0.5 / len(labels) ** 0.5
    few = sum(len(document) for document in documents if len(document) < 3)
    assert built.counters["dropped/fewer_than_three_sentences"] == few > 20
    assert built.counters["sentences_used"] == sum(map(len, documents)) - few
    for options in ({"block_bytes": 200}, {"chunk_size": 300}):
        again = build_all(
            corpus, NumberTokenizer(60_000, None), objective=f"{name}:SentenceGap", max_seq_length=128, **options
        )
        assert again.records() == built.records()


@pytest.mark.heavy
def test_the_documented_objective_on_workers_and_on_beam(tmp_path, own_module, corpus_folder, tiny_model, capsys):
    """The same bytes wherever it runs. Readers need neither the module nor its name."""
    name = own_module(documented())
    inputs, found = corpus_folder / "*.txt", {}
    for place, more in (
        ("one", ()),
        ("two", ("--chunk-size", 8000)),
        ("beam", ("--runner", "DirectRunner")),
    ):
        arguments = create_arguments(
            inputs,
            tmp_path / place / "gap.tfrecord",
            tiny_model,
            "--objective",
            f"{name}:SentenceGap",
            *more,
            workers=2,
        )
        if place == "beam":
            at = arguments.index("--workers")
            del arguments[at : at + 2]
        outcome = run_command(capsys, *arguments)
        assert outcome.code == 0, outcome.err
        found[place] = contents(tmp_path / place)
    assert found["one"] == found["two"] == found["beam"]

    sys.modules.pop(name)
    find_objective.cache_clear()
    (tmp_path / "modules" / f"{name}.py").unlink()
    records = tmp_path / "one" / "gap.tfrecord"
    outcome = run_command(capsys, "verify", records)
    assert outcome.code == 0, outcome.out
    shown = run_command(capsys, "inspect", records, "--limit", 30).out
    assert f"objective {name}:SentenceGap" in shown
    assert "label 0 (follows)" in shown
    assert "label 1 (gap)" in shown
    opened = open_records(str(records))
    assert opened.meta["task_type"] == "pretraining"
    assert opened.meta["label_names"] == ["follows", "gap"]
    assert set(np.unique(opened[:]["next_sentence_labels"])) == {0, 1}
    assert name not in sys.modules


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("method", ["segments", "chunks"])
def test_an_objective_that_fails_at_work(tmp_path, own_module, corpus_folder, tiny_model, capsys, method, workers):
    """One line with its name, and the file and line of the user's code, wherever the work is done."""
    code = "from nlpdata.pretraining.objectives.sop import SentenceOrder\n\n\nclass Failing(SentenceOrder):\n"
    name = own_module(
        f"{code}    def {method}(self, *given):\n        import numpy\n        return numpy.zeros(3)[7]\n"
    )
    arguments = (
        corpus_folder / "*.txt",
        tmp_path / "r",
        tiny_model,
        "--objective",
        f"{name}:Failing",
        "--chunk-size",
        8000,
    )
    outcome = run_command(capsys, *create_arguments(*arguments, workers=workers))
    assert outcome.code == 2, outcome.err
    assert len(outcome.err.splitlines()) <= 2
    line = outcome.err.splitlines()[-1]
    assert line.startswith(f"nlpdata: error: --objective {name}:Failing failed: IndexError: index 7 is out of bounds")
    assert line.endswith(f"({tmp_path / 'modules' / name}.py:7)")


def test_no_example_is_explained_in_the_objectives_words(tmp_path, own_module, tiny_model, capsys):
    name = own_module(documented())
    (tmp_path / "short.txt").write_text("One sentence.\nAnother one.\n\nA third.\n")
    outcome = run_command(
        capsys,
        *create_arguments(
            tmp_path / "short.txt", tmp_path / "x.tfrecord", tiny_model, "--objective", f"{name}:SentenceGap"
        ),
    )
    assert outcome.code == 1
    assert "left out: 3 fewer than three sentences" in outcome.err
    assert "(a gap needs documents of three or more), or --objective none" in outcome.err
