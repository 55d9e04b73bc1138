"""--seeds: one experiment with several seeds; sweeps that resume."""

import gc
import json
import math
import statistics

import pytest
from tensorflow.python.framework.func_graph import FuncGraph

from nlpdata.errors import DataError
from pretrain.run import main
from pretrain.settings.yaml_files import dump_yaml
from pretrain.sweeps.seeds import run_each, summarize
from tests.pretrain.finetuning import records, sentence_experiment


def graphs_in_memory() -> int:
    gc.collect()
    return sum(isinstance(each, FuncGraph) for each in gc.get_objects())


@pytest.mark.slow
def test_two_seeds_are_summed_up_and_not_run_twice(tmp_path, capsys):
    config = sentence_experiment(records(tmp_path / "train.tfrecord", 24), batch=8, steps=2)
    (tmp_path / "all.yaml").write_text(dump_yaml(config))
    line = [
        "--experiment=bert/sentence_prediction",
        f"--config_file={tmp_path}/all.yaml",
        f"--model_dir={tmp_path}/run",
    ]
    line += ["--mode=train_and_eval", "--seeds=2"]
    before = graphs_in_memory()
    assert main(line) == 0
    assert graphs_in_memory() <= before  # they hold weights and optimizers: a long sweep would fill the memory
    stored = json.loads((tmp_path / "run" / "seeds.json").read_text())
    scores = [json.loads((tmp_path / "run" / f"seed-{seed}" / "eval_results.json").read_text()) for seed in (0, 1)]
    assert stored["runs"] == {"seed-0": scores[0], "seed-1": scores[1]}
    losses = [score["loss"] for score in scores]
    assert losses[0] != losses[1]
    expected = {"median": sum(losses) / 2, "min": min(losses), "max": max(losses), "std": statistics.stdev(losses)}
    assert stored["summary"]["loss"] == pytest.approx(expected)
    printed = capsys.readouterr().out
    assert f"{sum(losses) / 2:9.4f}" in next(row for row in printed.splitlines() if row.startswith("loss "))

    stored["runs"]["seed-1"]["loss"] = 7.0  # as if it had scored so: what is finished is taken as it is
    (tmp_path / "run" / "seeds.json").write_text(json.dumps(stored))
    assert main(line) == 0
    said = capsys.readouterr()
    assert said.err.count("was finished before") == 2
    assert json.loads((tmp_path / "run" / "seeds.json").read_text())["summary"]["loss"]["max"] == 7.0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--seeds=2"], "needs --mode=train_and_eval. Received: train"),
        (["--seeds=0", "--mode=train_and_eval"], "--seeds: must be at least 1. Received: 0"),
        (["--seeds=2", "--mode=train_and_eval", "--seed=3"], "--seeds runs seeds 0 to 1; leave --seed out"),
    ],
)
def test_faults(flags, message, tmp_path, capsys):
    assert main(["--experiment=bert/local", f"--model_dir={tmp_path}/run", *flags]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_metric_that_only_some_runs_have():
    summary = summarize([{"step": 3, "examples": 8, "f1": 0.5}, {"step": 3, "examples": 8, "f1": 0.7, "accuracy": 1.0}])
    assert list(summary) == ["f1", "accuracy"]
    assert summary["accuracy"] == {"median": 1.0, "min": 1.0, "max": 1.0, "std": 0.0}


def test_a_metric_that_is_not_a_number_in_one_run_is_none_of_all():
    spread = summarize([{"f1": 0.5}, {"f1": math.nan}, {"f1": 0.7}])["f1"]
    assert list(spread) == ["median", "min", "max", "std"]
    assert all(map(math.isnan, spread.values()))


@pytest.mark.parametrize(
    "content",
    [{"runs": 5}, {"runs": {"seed-0": 5}}, {"runs": {"seed-0": {"accuracy": "x"}}}, {"runs": {"seed-0": None}}],
)
def test_results_of_another_form_are_refused_before_any_run(tmp_path, content):
    path = tmp_path / "seeds.json"
    path.write_text(json.dumps(content))
    with pytest.raises(
        DataError, match=r"seeds\.json: runs must give the metrics of each run\. Received: .*Remove the file"
    ):
        run_each({}, tmp_path / "runs", path)
    assert not (tmp_path / "runs").exists()
