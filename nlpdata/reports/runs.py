"""The report of runs: how they went, one next to the other, from what is in their folders (`run_facts`)."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nlpdata.errors import UsageError
from nlpdata.reports import run_calls, run_curves, run_words
from nlpdata.reports.charts import Cell
from nlpdata.reports.page import Notes, Report, Section, Table, count_of, is_empty
from nlpdata.reports.run_curves import MOST_IN_CHARTS, metrics_of
from nlpdata.reports.run_facts import GLUE_FILE, SEEDS_FILE, Run, find_runs, read_facts, read_run

_MOST_RUNS = 500


def runs_report(folders: Sequence[str | os.PathLike]) -> Report:
    """The report of the runs in some folders.

    Args:
      folders: each that of a run, or one that holds runs: of seeds, of a sweep, of a study.

    Raises UsageError for a folder without runs, DataError for one that cannot be read.
    """
    runs, faults = list(_read(folders)), list[str]()
    sections = [
        *_sweeps(folders, faults),
        _overview(runs),
        run_curves.training(runs),
        run_curves.evaluations(runs),
        run_curves.classes(runs),
        run_calls.stages(runs),
        run_calls.time_spent(runs),
        run_calls.calls(runs),
        run_calls.recoveries(runs),
        _data(runs),
        _configuration(runs),
        _facts_of_each("Environment", "", runs, run_words.environment),
        Section("What could not be read", "", (Notes((*faults, *(fault for run in runs for fault in run.faults))),)),
    ]
    kept = tuple(section for section in sections if any(not is_empty(item) for item in section.items))
    if len(runs) == 1:
        return Report(f"Run {runs[0].name}", run_words.outcome(runs[0].outcome), _main_facts(runs[0]), kept)
    done = sum(run.outcome in ("finished", "stopped_early") for run in runs)
    return Report(f"{len(runs)} runs", f"{done} of them finished", (("runs", len(runs)), ("finished", done)), kept)


def _read(folders: Sequence[str | os.PathLike]) -> Iterator[Run]:
    places: dict[Path, None] = {}
    for folder in folders:
        if not os.path.isdir(folder):
            raise UsageError(
                f"{os.fspath(folder)} is not a folder. Name that of a run (its model_dir), or one that holds runs."
            )
        if not (found := find_runs(folder)):
            raise UsageError(
                f"{os.fspath(folder)} holds no run: expected metrics.jsonl, run.json or checkpoints/step-..., in it or in a folder "
                "at most three levels below."
            )
        places |= dict.fromkeys(found)
    if len(places) > _MOST_RUNS:
        raise UsageError(
            f"{len(places)} runs are too many for a page, which shows {_MOST_RUNS}. Name folders of some of them."
        )
    names = _names(list(places))
    return (read_run(place, name) for place, name in zip(places, names, strict=True))


def _names(places: Sequence[Path]) -> list[str]:
    """A name for each folder: as many of its last parts as tell it from the others."""
    parts = [place.resolve().parts[1:] or (str(place),) for place in places]
    names = ["/".join(part[-1:]) for part in parts]
    for depth in range(2, max(map(len, parts)) + 1):
        if len(set(names)) == len(names):
            break
        names = ["/".join(part[-depth:]) for part in parts]
    return names


def _main_facts(run: Run) -> tuple[tuple[str, Cell], ...]:
    facts: list[tuple[str, Cell]] = [("steps", run_words.steps(run))]
    if run.encoder[0]:
        facts.append(("encoder", run_words.encoder(run)))
    if run.about.get("parameters"):
        facts.append(("parameters", run.about["parameters"]))
    facts += [(f"{name}, training", curve.last) for name, curve in run.train.items() if name == "loss"]
    chosen = {"loss", str(run.config.get("trainer.best_checkpoint_eval_metric", "loss"))}
    chosen |= set(next(([name] for name in metrics_of(run.results) if "loss" not in name), []))
    facts += [(f"{name}, evaluation", run.results[name]) for name in sorted(chosen & run.results.keys())]
    return tuple(facts)


def _overview(runs: Sequence[Run]) -> Section:
    """The last figures of several runs: of few a column for each, of many a row."""
    if len(runs) == 1:
        return Section("Runs")
    found = {run.name: _last_figures(run) for run in runs}
    units = run_words.units({name for run in runs for name in run.results})
    if len(runs) <= MOST_IN_CHARTS:
        return Section("Runs", units, (_side_by_side(found),))
    names = list(dict.fromkeys(name for facts in found.values() for name in facts))
    names = [name for name in names if len({facts.get(name) for facts in found.values()}) > 1 or name == "how it ended"]
    rows = tuple((run, *(facts.get(name) for name in names)) for run, facts in found.items())
    return Section(
        "Runs", f"Figures that are equal for all are left out. {units}".rstrip(), (Table(("run", *names), rows),)
    )


def _last_figures(run: Run) -> run_words.Facts:
    found: run_words.Facts = {"how it ended": run_words.outcome(run.outcome), "steps": run_words.steps(run)}
    found |= {"encoder": run_words.encoder(run)} if run.encoder[0] else {}
    found |= {"parameters": run.about["parameters"]} if "parameters" in run.about else {}
    found |= {"loss, training": run.train["loss"].last} if "loss" in run.train else {}
    return found | {f"{name}, evaluation": run.results[name] for name in metrics_of(run.results)[:8]}


def _sweeps(folders: Sequence[str | os.PathLike], faults: list[str]) -> Iterator[Section]:
    """The tables that a sweep has written."""
    for folder in folders:
        for name in (GLUE_FILE, SEEDS_FILE):
            if content := read_facts(path := Path(folder, name), faults):
                yield _sweep(path, content)


def _sweep(path: Path, content: Mapping[str, Any]) -> Section:
    is_glue = path.name == GLUE_FILE
    title, unit = ("GLUE", "in percent, ") if is_glue else ("Seeds", "")
    table, summary = content.get("table"), content.get("summary")
    head: tuple[str, ...] = ("metric",)
    if isinstance(table, list):
        head = ("task", "metric")
        rows = [(tuple(str(row.get(name, "")) for name in head), row) for row in table if isinstance(row, dict)]
    elif isinstance(summary, dict):
        rows = [((str(metric),), row) for metric, row in summary.items() if isinstance(row, dict)]
    else:
        return Section(str(path), "", (Notes((f"{path} has no table: the sweep is not finished.",)),))
    spread = ("median", "min", "max", "std")
    cells = tuple((*names, *(run_words.sweep_score(row.get(key), is_glue) for key in spread)) for names, row in rows)
    text = f"Of {path}: {unit}over the seeds; std is the standard deviation of a sample."
    return Section(title, text, (Table((*head, *spread), cells),))


def _data(runs: Sequence[Run]) -> Section:
    """The record sets; of a single run training and evaluation next to each other, of several the training data."""
    if len(runs) > 1:
        of_each = {run.name: run_words.records((run.about.get("stages") or [{}])[0]) for run in runs}
        of_each = {name: facts for name, facts in of_each.items() if facts}
        text = f"What the runs were trained on.{_of_whole_text(of_each.values())}"
        return Section("Data", text, (_side_by_side(of_each),))
    about = runs[0].about
    stages = about.get("stages", [])
    named = {"training" if len(stages) == 1 else f"stage {number}": stage for number, stage in enumerate(stages, 1)}
    found = {
        name: run_words.records(section, evaluation=name == "evaluation")
        for name, section in (named | {"evaluation": runs[0].evaluated_on}).items()
    }
    return Section(
        "Data",
        f"As the records' meta files have it.{_of_whole_text(found.values())}",
        (_side_by_side({name: facts for name, facts in found.items() if facts}),),
    )


def _of_whole_text(found: Iterable[run_words.Facts]) -> str:
    parts = any("tokens of the text" in facts for facts in found)
    return " Sentences and tokens are of the whole text, documents set aside for evaluation included." if parts else ""


def _configuration(runs: Sequence[Run]) -> Section:
    """All fields of a single run; of several those that differ. Without those that a run did not use."""
    left_out = {path for run in runs for path in run.config.keys() - run.used_config.keys()}
    idle = f"Left out where records are read: {count_of(len(left_out), 'field')} for text." if left_out else ""
    if len(runs) == 1:
        fields = tuple((path, _shown_value(value)) for path, value in runs[0].used_config.items())
        return Section("Configuration", idle, (Table(("field", "value"), fields, wide=True),))
    given = {run.name: run.used_config for run in runs if run.config}
    paths = list(dict.fromkeys(path for config in given.values() for path in config))
    values = {
        path: [_shown_value(config[path]) if path in config else None for config in given.values()] for path in paths
    }
    differing = {path: found for path, found in values.items() if len(set(found)) > 1}
    equal = len(paths) - len(differing)
    if not differing and len(given) > 1:
        return Section("Configuration", idle, (Notes((f"All {equal} fields are equal in these runs.",)),))
    text = f"The fields that differ; {equal} others are equal in all of these runs. {idle}".strip()
    rows = tuple((path, *found) for path, found in differing.items())
    return Section("Configuration", text, (Table(("field", *given), rows, wide=True),))


def _shown_value(value: object) -> str:
    return ", ".join(str(run_words.cell(each)) for each in (value if isinstance(value, list) else [value]))


def _facts_of_each(title: str, text: str, runs: Sequence[Run], facts: Callable[[Run], run_words.Facts]) -> Section:
    return Section(title, text, (_side_by_side({run.name: found for run in runs if (found := facts(run))}),))


def _side_by_side(found: Mapping[str, run_words.Facts]) -> Table:
    """A row for each fact, a column for each that has facts."""
    names = list(dict.fromkeys(name for facts in found.values() for name in facts))
    rows = tuple((name, *(facts.get(name) for facts in found.values())) for name in names)
    return Table(("", *found), rows, wide=True)
