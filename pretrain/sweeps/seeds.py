"""Sweeps: several runs, one after the other, each in its own folder and scored at its end; and one experiment with several
seeds, whose scores are summed up. A sweep that was interrupted resumes; finished runs are not repeated."""

import gc
import logging
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from nlpdata.errors import DataError
from nlpdata.files import PathName
from nlpdata.files.json_files import read_object, write_json
from nlpdata.files.json_kinds import as_written
from nlpdata.reports.run_facts import CONFIG_FILE, EVAL_RESULTS, SEEDS_FILE
from nlpdata.reports.run_words import sweep_score
from pretrain.settings.schema import ExperimentConfig
from pretrain.settings.yaml_files import compare_saved

_log = logging.getLogger(__name__)

_NO_METRICS = ("step", "examples")


def run_each(
    runs: Mapping[str, tuple[ExperimentConfig, str]],
    folder: Path,
    results_file: Path,
) -> dict[str, dict]:
    """Runs experiments, each in folder/name. A run that the results file has with the same configuration is not trained again.

    Args:
      runs: name -> configuration and mode of a run.
      folder: folder of the runs' folders.
      results_file: JSON file {"runs": {name: results}}; it keeps the results of these runs and of others that it had.

    Returns name -> content of its eval_results.json: "step", "examples" and the metrics.
    """
    from pretrain.training import run_experiment

    known = _known_results(results_file)
    folder.mkdir(parents=True, exist_ok=True)
    for name, (config, mode) in runs.items():
        model_dir = folder / name
        trained = name in known and (model_dir / CONFIG_FILE).exists() and not compare_saved(config, model_dir)
        if trained and mode != "eval":
            _log.info(f"{name}: was finished before")
            continue
        _log.info(f"{name}: {model_dir}")
        run_experiment(config, model_dir, mode)
        gc.collect()  # model and graphs refer to each other
        known[name] = read_object(model_dir / EVAL_RESULTS)
        write_json(results_file, {"runs": known})
    return {name: known[name] for name in runs}


def _known_results(path: Path) -> dict[str, dict]:
    """The results of finished runs in a sweep's file; {} where there is no file. DataError for anything else in it."""
    runs = read_object(path).get("runs", {}) if path.exists() else {}
    results = list(runs.values()) if isinstance(runs, dict) else [None]
    for result in results:
        if not isinstance(result, dict) or not all(isinstance(value, int | float) for value in result.values()):
            raise DataError(
                f"{path}: runs must give the metrics of each run. Received: {as_written(runs)[:60]}. Remove the file: "
                "finished runs are not trained again."
            )
    return runs


def with_seed(config: ExperimentConfig, seed: int) -> ExperimentConfig:
    """The experiment with this seed for weights, dropout and the order of the training data."""
    data = replace(config.task.train_data, seed=seed)
    return replace(config, runtime=replace(config.runtime, seed=seed), task=replace(config.task, train_data=data))


def seed_runs(config: ExperimentConfig, count: int) -> dict[str, ExperimentConfig]:
    """seed-0, seed-1, ... -> the experiment with that seed."""
    return {f"seed-{seed}": with_seed(config, seed) for seed in range(count)}


def run_seeds(config: ExperimentConfig, model_dir: PathName, count: int) -> dict[str, dict]:
    """Runs the experiment with seeds 0 to count - 1 in model_dir/seed-N; writes model_dir/seeds.json.

    Returns metric -> {"median", "min", "max", "std"} over the seeds (std: of the sample, 0 for one seed).
    """
    path = Path(model_dir) / SEEDS_FILE
    runs = {name: (each, "train_and_eval") for name, each in seed_runs(config, count).items()}
    results = run_each(runs, Path(model_dir), path)
    summary = summarize(list(results.values()))
    write_json(path, {"runs": read_object(path)["runs"], "seeds": list(results), "summary": summary})
    return summary


def summarize(results: Sequence[Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """metric -> {"median", "min", "max", "std"} over the runs that have it; all are nan where one of its values is."""
    names = dict.fromkeys(name for result in results for name in result if name not in _NO_METRICS)
    return {name: _spread([result[name] for result in results if name in result]) for name in names}


def _spread(values: list[float]) -> dict[str, float]:
    if any(map(math.isnan, values)):  # it has no order
        return dict.fromkeys(("median", "min", "max", "std"), math.nan)
    return {
        "median": statistics.median(values),
        "min": min(values),
        "max": max(values),
        "std": statistics.stdev(values) if len(values) > 1 else 0.0,
    }


def summary_lines(summary: Mapping[str, Mapping[str, float]], count: int) -> list[str]:
    """A table of what summarize returns."""
    width = max(map(len, [*summary, "metric"]))
    rows = [f"{'metric':<{width}}  {'median':>9}  {'min':>9}  {'max':>9}  {'std':>9}   ({count} seeds)"]
    for name, spread in summary.items():
        cells = (f"{sweep_score(value, in_percent=False) or value:>9}" for value in spread.values())
        rows.append(f"{name:<{width}}  " + "  ".join(cells))
    return rows
