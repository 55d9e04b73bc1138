"""train-tokenizer on Beam: the files of the local executor, byte for byte."""

import json

import pytest

from nlpdata.cli import commands
from nlpdata.tokenizers.training import train
from pipelines import vocabulary
from tests.nlpdata.commands import contents, run_command


def train_arguments(corpus, folder, *more):
    return ["train-tokenizer", "--input", f"{corpus}/*.txt", "--output", f"{folder}/v", "--vocab-size=150", *more]


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(train, "_PORTION_BYTES", 20_000)


@pytest.mark.parametrize("lines", [10_000, 700])
@pytest.mark.parametrize("type", ["unigram", "wordpiece"])
def test_sample_and_files_are_the_local_ones(type, lines, tmp_path, corpus_folder, small_chunks):
    given = ("--type", type, "--sample-lines", str(lines))
    assert commands.main(train_arguments(corpus_folder, tmp_path / "local", *given, "--workers=1")) == 0
    more = ("--runner=DirectRunner", "--", "--direct_runner_bundle_repeat=1")
    assert commands.main(train_arguments(corpus_folder, tmp_path / "beam", *given, *more)) == 0
    assert contents(tmp_path / "beam") == contents(tmp_path / "local")
    assert not [path for path in (tmp_path / "beam").iterdir() if path.name.startswith(".")]


def test_input_that_changes_is_noticed(tmp_path, corpus_folder, capsys, monkeypatch):
    select = vocabulary.SampleFn.process

    def changed(self, grouped):
        (portion, counts, *rest), *_ = grouped[1]
        return select(self, (grouped[0], [(portion, counts | {"usable": counts["usable"] + 1}, *rest)]))

    monkeypatch.setattr(vocabulary.SampleFn, "process", changed)
    outcome = run_command(capsys, *train_arguments(corpus_folder, tmp_path, "--runner=DirectRunner"))
    assert outcome.code == 1
    assert "the input has changed" in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_dry_run(tmp_path, corpus_folder, capsys):
    place = ("--project=my-project", "--region=europe-west4", "--temp_location=gs://my-bucket/tmp")
    more = ("--runner=DataflowRunner", "--dry-run", "--", *place)
    outcome = run_command(capsys, *train_arguments(corpus_folder, tmp_path / "out", *more))
    assert outcome.code == 0, outcome.err
    names = [transform["name"] for transform in json.loads(outcome.out)["transforms"]]
    assert names[-1] == "Sum"
    assert {"Count lines", "Plan sample", "Sample lines"} <= set(names)
