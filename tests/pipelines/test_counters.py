"""What a finished job reports: Beam's counters, and the end-of-run report."""

from collections import Counter

import apache_beam as beam
import pytest

from nlpdata.records.contract import read_meta
from tests.nlpdata.commands import contents, run_command, visible
from tests.nlpdata.conftest import random_sentences
from tests.pipelines.conftest import arguments


@pytest.mark.parametrize("objective", ["sop", "nsp"])
def test_counters_and_report_are_those_of_the_local_executor(
    objective, tmp_path, corpus_folder, tiny_model, capsys, monkeypatch
):
    (tmp_path / "lone.txt").write_text("A document of one sentence.\n\nAnother of one.\n")
    inputs, results, run = ("--input", str(tmp_path / "lone.txt")), [], beam.Pipeline.run

    def keep(self, *args, **kwargs):
        results.append(run(self, *args, **kwargs))
        return results[-1]

    monkeypatch.setattr(beam.Pipeline, "run", keep)
    local, on_beam = (
        run_command(capsys, *arguments(corpus_folder, tmp_path / name, tiny_model, objective, 3, *inputs, *more))
        for name, more in (("local", ("--workers=1",)), ("beam", ("--runner=DirectRunner",)))
    )
    assert local.code == on_beam.code == 0
    rows = [outcome.out.splitlines()[:-4] for outcome in (local, on_beam)]  # the last ones name files
    assert rows[0] == rows[1]
    found = Counter()
    for each in results[0].metrics().query()["counters"]:  # of each step
        found[each.key.metric.name] += each.committed
    counters = read_meta(tmp_path / "beam" / "t.meta.json")["counters"]
    for name in ("documents", "sentences", "sentences_used", "tokens", "examples_train", "examples_eval"):
        assert found[name] == counters[name], name
    dropped = {name.removeprefix("dropped/"): count for name, count in found.items() if name.startswith("dropped/")}
    assert dropped == counters["dropped"]
    assert (objective == "sop") == bool(dropped)
    for split in ("train", "eval"):
        assert found[f"records_{split}"] == counters[f"examples_{split}"] > 0


def test_text_that_is_lost_is_refused_and_counted_as_by_the_local_executor(tmp_path, tiny_model, capsys):
    text = [" ".join(random_sentences(20, seed=i)) for i in range(30)]
    (tmp_path / "a.txt").write_text("\n\n".join(text))
    runs = {}
    for name, more in (("local", ("--workers=1",)), ("beam", ("--runner=DirectRunner",))):
        given = arguments(tmp_path, tmp_path / name, tiny_model, "nsp", None)
        given = [word for word in given if word not in ("--eval-fraction", "0.2")]
        refused = run_command(capsys, *given, *more)
        assert refused.code == 1
        assert "tokens were cut off at --max-seq-length" in refused.err
        assert "--accept-loss" in refused.err
        assert visible(tmp_path / name) == []
        accepted = run_command(capsys, *given, "--accept-loss", *more)
        assert accepted.code == 0
        runs[name] = [line for line in accepted.err.splitlines() if line.startswith("warning: ")]
    assert runs["local"] == runs["beam"] != []
    assert contents(tmp_path / "local") == contents(tmp_path / "beam")
