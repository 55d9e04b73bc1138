"""What a finished job says of itself: Beam's counters, and the end-of-run report."""

from collections import Counter

import apache_beam as beam
import pytest

from nlpdata.records import read_meta
from tests.nlpdata.commands import run_command
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
        for name, more in (("local", ()), ("beam", ("--runner=DirectRunner",)))
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
