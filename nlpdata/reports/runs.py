"""The report of runs: how they went, one next to the other, from what is in their folders (`run_facts`)."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from nlpdata.errors import DataError, UsageError
from nlpdata.reports import run_words
from nlpdata.reports.charts import Cell, Chart, lines
from nlpdata.reports.page import Code, Item, Notes, Report, Section, Table, percent
from nlpdata.reports.run_facts import GLUE_FILE, SEEDS_FILE, Curve, Run, find_runs, is_finite, read_facts, read_run

MOST_IN_CHARTS = 8
"""Runs that one chart shows; further ones are in the tables."""
_MOST_RUNS = 500
_MOST_CALLS = 40
_MOST_EVALUATIONS = 60
_MOST_CLASSES = 60

Rows = tuple[tuple[Cell, ...], ...]

_METRICS = {  # title of the chart, and what its axis says
    "loss": ("Loss", "loss"),
    "learning_rate": ("Learning rate", "rate"),
    "tokens_per_second": ("Tokens per second", "tokens"),
    "padding": ("Padding", "share of the positions"),
    "gradient_norm": ("Norm of the gradient", "norm"),
}
_NO_METRICS = ("examples", "recoveries")
_PARTS = {
    "steps": "training steps",
    "compiling": "first steps of their shapes, which compile",
    "evaluation": "evaluations",
    "checkpoint": "checkpoints",
}


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
        _training(runs),
        _evaluations(runs),
        _classes(runs),
        _stages(runs),
        _time(runs),
        _calls(runs),
        _recoveries(runs),
        _data(runs),
        _configuration(runs),
        _facts_of_each("Environment", "", runs, run_words.environment),
        Section("What could not be read", "", (Notes((*faults, *(fault for run in runs for fault in run.faults))),)),
    ]
    kept = tuple(section for section in sections if any(not _is_empty(item) for item in section.items))
    if len(runs) == 1:
        return Report(f"Run {runs[0].name}", run_words.outcome(runs[0]), _main_facts(runs[0]), kept)
    done = sum(run.outcome in ("finished", "stopped_early") for run in runs)
    return Report(f"{len(runs)} runs", f"{done} of them finished", (("runs", len(runs)), ("finished", done)), kept)


def _read(folders: Sequence[str | os.PathLike]) -> Iterator[Run]:
    places: dict[Path, None] = {}
    for folder in folders:
        if not os.path.isdir(folder):
            raise UsageError(
                f"{os.fspath(folder)} is not a folder. Name that of a run (its model_dir), or one that holds runs."
            )
        try:
            found = find_runs(folder)
        except OSError as error:
            raise DataError(f"{os.fspath(folder)}: cannot be read: {error.strerror or error}") from None
        if not found:
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


def _is_empty(item: Item) -> bool:
    match item:
        case Notes():
            return not item.lines
        case Code():
            return not item.text
        case _:
            return not item.rows


# ---------------------------------------------------------------------------------------------------------------- sections


def _main_facts(run: Run) -> tuple[tuple[str, Cell], ...]:
    facts: list[tuple[str, Cell]] = [("steps", run_words.steps(run))]
    if run.encoder[0]:
        facts.append(("encoder", run_words.encoder(run)))
    if run.about.get("parameters"):
        facts.append(("parameters", run.about["parameters"]))
    facts += [(f"{name}, training", curve.last) for name, curve in run.train.items() if name == "loss"]
    chosen = {"loss", str(run.config.get("trainer.best_checkpoint_eval_metric", "loss"))}
    chosen |= set(next(([name] for name in _metrics_of(run.results) if "loss" not in name), []))
    facts += [(f"{name}, evaluation", run.results[name]) for name in sorted(chosen & run.results.keys())]
    return tuple(facts)


def _overview(runs: Sequence[Run]) -> Section:
    """The last figures of several runs: of few a column for each, of many a row."""
    if len(runs) == 1:
        return Section("Runs")
    found = {run.name: _last_figures(run) for run in runs}
    if len(runs) <= MOST_IN_CHARTS:
        return Section("Runs", "", (_side_by_side(found),))
    names = list(dict.fromkeys(name for facts in found.values() for name in facts))
    names = [name for name in names if len({facts.get(name) for facts in found.values()}) > 1 or name == "how it ended"]
    rows = tuple((run, *(facts.get(name) for name in names)) for run, facts in found.items())
    return Section("Runs", "Figures that are equal for all are left out.", (Table(("run", *names), rows),))


def _last_figures(run: Run) -> run_words.Facts:
    found: run_words.Facts = {"how it ended": run_words.outcome(run), "steps": run_words.steps(run)}
    found |= {"encoder": run_words.encoder(run)} if run.encoder[0] else {}
    found |= {"parameters": run.about["parameters"]} if "parameters" in run.about else {}
    found |= {"loss, training": run.train["loss"].last} if "loss" in run.train else {}
    return found | {f"{name}, evaluation": run.results[name] for name in _metrics_of(run.results)[:8]}


def _metrics_of(results: Mapping[str, float]) -> list[str]:
    return [name for name in results if name not in ("step", *_NO_METRICS)]


def _sweeps(folders: Sequence[str | os.PathLike], faults: list[str]) -> Iterator[Section]:
    """The tables that a sweep has written."""
    for folder in folders:
        for name in (GLUE_FILE, SEEDS_FILE):
            if content := read_facts(path := Path(folder, name), faults):
                yield _sweep(path, content)


def _sweep(path: Path, content: Mapping[str, Any]) -> Section:
    spread = ("median", "min", "max", "std")
    table, summary = content.get("table"), content.get("summary")
    columns: tuple[str, ...]
    if isinstance(table, list):
        rows = [(str(row.get("task", "")), str(row.get("metric", "")), row) for row in table if isinstance(row, dict)]
        columns = ("task", "metric", *spread)
    elif isinstance(summary, dict):
        rows = [("", str(metric), row) for metric, row in summary.items() if isinstance(row, dict)]
        columns = ("metric", *spread)
    else:
        return Section(str(path), "", (Notes((f"{path} has no table: the sweep is not finished.",)),))
    cells = tuple(
        (
            *((task,) if len(columns) == 6 else ()),
            metric,
            *(row[key] if is_finite(row.get(key)) else None for key in spread),
        )
        for task, metric, row in rows
    )
    title = "GLUE" if path.name == GLUE_FILE else "Seeds"
    return Section(title, f"Of {path}: over the seeds, std of the sample.", (Table(columns, cells),))


def _training(runs: Sequence[Run]) -> Section:
    """Charts of the train lines; of a single run with the evaluations in them."""
    if len(runs) == 1:
        (run,) = runs
        both = {name: {"training": curve, "evaluation": run.evaluations.get(name)} for name, curve in run.train.items()}
        return Section("Training", "", tuple(_charts(both)))
    text = ""
    if len(runs) > MOST_IN_CHARTS:
        text = f"Charts show the first {MOST_IN_CHARTS} of {len(runs)} runs. Name fewer folders for those of others."
    return Section("Training", text, tuple(_charts(_of_each(runs, lambda run: run.train))))


def _evaluations(runs: Sequence[Run]) -> Section:
    """A table for each run, and charts; of a single run only those of metrics that its train lines do not have."""
    curves = _of_each(runs, lambda run: run.evaluations)
    known = runs[0].train if len(runs) == 1 else ()
    curves = {name: found for name, found in curves.items() if name not in known and _are_lines(found)}
    tables = [_evaluation_table(run, len(runs) > 1) for run in runs[:MOST_IN_CHARTS]]
    return Section("Evaluations", "", (*_charts(curves), *(table for table in tables if table.rows)))


def _of_each(runs: Sequence[Run], curves: Callable[[Run], Mapping[str, Curve]]) -> dict[str, dict[str, Curve | None]]:
    """Metric -> name of a run -> its curve, of the runs that charts show."""
    names = dict.fromkeys(name for run in runs for name in curves(run))
    return {name: {run.name: curves(run).get(name) for run in runs[:MOST_IN_CHARTS]} for name in names}


def _are_lines(curves: Mapping[str, Curve | None]) -> bool:
    return any(curve is not None and len(curve.points) > 1 for curve in curves.values())


def _charts(found: Mapping[str, Mapping[str, Curve | None]]) -> Iterator[Chart]:
    """A chart for each metric, with a line for each curve that there is."""
    names = [*(name for name in _METRICS if name in found), *(name for name in found if name not in _METRICS)]
    for name in names:
        series = {key: curve.points for key, curve in found[name].items() if curve is not None}
        values = [value for points in series.values() for _, value in points if is_finite(value)]
        if values and name not in _NO_METRICS:
            title, label = _METRICS.get(name, (name, "value"))
            yield lines(title, series, "step", label)


def _evaluation_table(run: Run, several: bool) -> Table:
    """The evaluations of a run, a row for each step."""
    names = [name for name in run.evaluations if name not in _NO_METRICS]
    steps = sorted({step for name in names for step, _ in run.evaluations[name].points})
    values = {name: dict(run.evaluations[name].points) for name in names}
    rows = tuple((f"step {step:,}", *(values[name].get(step) for name in names)) for step in steps[-_MOST_EVALUATIONS:])
    caption = f"Evaluations of {run.name}" if several else "Evaluations"
    if len(steps) > _MOST_EVALUATIONS:
        caption += f", the last {_MOST_EVALUATIONS} of {len(steps)}"
    return Table(("evaluation", *names), rows, caption)


def _classes(runs: Sequence[Run]) -> Section:
    """Of a single run the scores of each class, the most frequent ones where they are many."""
    found = runs[0].classes.get("classes", []) if len(runs) == 1 else []
    names = ("precision", "recall", "f1", "support", "predicted", "right")
    kept = sorted(found, key=lambda each: -each.get("support", 0))[:_MOST_CLASSES]
    rows = tuple((str(each.get("name", "")), *(each.get(name) for name in names)) for each in found if each in kept)
    texts = [f"Scores of the evaluation at step {runs[0].classes.get('step', 0):,}."] if found else []
    if len(found) > len(rows):
        texts.append(f"The {len(rows)} most frequent of {len(found):,}; eval_report.json has all.")
    if only := run_words.only_prediction(runs[0].classes):
        texts.append(only)
    columns = ("class", "precision", "recall", "f1", "examples", "predicted", "right")
    return Section("Classes", " ".join(texts), (Table(columns, rows),))


def _stages(runs: Sequence[Run]) -> Section:
    items = []
    for run in runs:
        stages = run.about.get("stages", [])
        if len(stages) > 1:
            names = ("examples", "batch_size", "seq_length", "num_hidden_layers")
            rows = tuple(
                (
                    number,
                    f"{stage.get('first_step', 0):,} to {stage.get('last_step', 0):,}",
                    *(stage.get(name) for name in names),
                )
                for number, stage in enumerate(stages, 1)
            )
            columns = ("stage", "steps", "examples of an epoch", "examples a step", "sequence length", "layers")
            items.append(Table(columns, rows, run.name))
    return Section("Stages", "", tuple(items))


def _time(runs: Sequence[Run]) -> Section:
    """Where the time of the calls went that came to an end."""
    spent = {run.name: found for run in runs if (found := _spent(run))}
    parts = [part for part in (*_PARTS.values(), _REST) if any(part in found for found in spent.values())]
    killed = sum("total_seconds" not in call for run in runs for call in run.calls)
    text = "In seconds of all calls together."
    if killed:
        text += (
            f" {killed} call{'s' if killed > 1 else ''} without a record of an end, running or killed, are not counted."
        )
    if len(runs) == 1 and spent:
        (found,) = spent.values()
        total = sum(found.values())
        shares: Rows = tuple((part, round(found[part], 1), percent(found[part], total)) for part in parts)
        table = Table(("part", "seconds", "share"), (*shares, ("all", round(total, 1), "100.0%")))
        return Section("Time", text, (table,))
    rows: Rows = tuple((part, *(round(found.get(part, 0), 1) for found in spent.values())) for part in parts)
    sums: tuple[Cell, ...] = ("all", *(round(sum(found.values()), 1) for found in spent.values()))
    return Section("Time", text, (Table(("part", *spent), (*rows, sums)),) if spent else ())


_REST = "start, data, writing at the end"


def _spent(run: Run) -> dict[str, float]:
    """Part of the work -> seconds, of the calls that ended; what checkpoints take while training continues is none of them."""
    ended = [call for call in run.calls if "total_seconds" in call]
    if not ended:
        return {}
    own = {
        part: words
        for part, words in _PARTS.items()
        if part != "checkpoint" or run.config.get("trainer.async_checkpoints") is not True
    }
    found = {words: sum(call.get("seconds", {}).get(part, 0.0) for call in ended) for part, words in own.items()}
    rest = sum(call["total_seconds"] for call in ended) - sum(found.values())
    return {part: seconds for part, seconds in (found | {_REST: max(rest, 0.0)}).items() if seconds}


def _calls(runs: Sequence[Run]) -> Section:
    items: list[Item] = []
    for run in runs[:MOST_IN_CHARTS]:
        rows: Rows = tuple(
            (
                f"call {number}",
                str(call.get("started", "")),
                str(call.get("mode", "")),
                call.get("first_step"),
                call.get("last_step"),
                str(call.get("outcome", "no end is recorded")),
                call.get("total_seconds"),
                call.get("message"),
            )
            for number, call in enumerate(run.calls, 1)
        )
        columns: tuple[str, ...] = (
            "call",
            "began (UTC)",
            "mode",
            "first step",
            "last step",
            "how it ended",
            "seconds",
            "message",
        )
        if all(row[-1] is None for row in rows):
            columns, rows = columns[:-1], tuple(row[:-1] for row in rows)
        caption = f"Calls of {run.name}" if len(runs) > 1 else ""
        if len(rows) > _MOST_CALLS:
            caption = f"{caption or 'Calls'}, the last {_MOST_CALLS} of {len(rows)}"
        items.append(Table(columns, rows[-_MOST_CALLS:], caption))
    return Section(
        "Calls", "Each time that the run was started or resumed.", tuple(item for item in items if not _is_empty(item))
    )


def _recoveries(runs: Sequence[Run]) -> Section:
    rows = tuple(
        (run.name, run_words.cell(each.get("diverged_at")), run_words.cell(each.get("step")))
        for run in runs
        for each in run.recoveries
    )
    text = "Steps whose loss was no finite number or above its bound, and the checkpoint that the run returned to."
    return Section("Recoveries", text, (Table(("run", "diverged at step", "back to step"), rows),))


def _data(runs: Sequence[Run]) -> Section:
    """The record sets; of a single run training and evaluation next to each other, of several the training data."""
    if len(runs) > 1:
        return _facts_of_each(
            "Data",
            "What the runs were trained on.",
            runs,
            lambda run: run_words.records((run.about.get("stages") or [{}])[0]),
        )
    about = runs[0].about
    stages = about.get("stages", [])
    named = {"training" if len(stages) == 1 else f"stage {number}": stage for number, stage in enumerate(stages, 1)}
    found = {
        name: run_words.records(section, evaluation=name == "evaluation")
        for name, section in (named | {"evaluation": runs[0].evaluated_on}).items()
    }
    return Section(
        "Data",
        "As the records' meta files have it.",
        (_side_by_side({name: facts for name, facts in found.items() if facts}),),
    )


def _configuration(runs: Sequence[Run]) -> Section:
    """All fields of a single run; of several those that differ."""
    if len(runs) == 1:
        fields = tuple((path, _shown_value(value)) for path, value in runs[0].config.items())
        return Section("Configuration", "", (Table(("field", "value"), fields, wide=True),))
    given = [run for run in runs if run.config]
    paths = list(dict.fromkeys(path for run in given for path in run.config))
    values = {path: [_shown_value(run.config[path]) if path in run.config else None for run in given] for path in paths}
    differing = {path: found for path, found in values.items() if len(set(found)) > 1}
    equal = len(paths) - len(differing)
    if not differing and len(given) > 1:
        return Section("Configuration", "", (Notes((f"All {equal} fields are equal in these runs.",)),))
    text = f"The fields that differ; {equal} others are equal in all of these runs."
    rows = tuple((path, *found) for path, found in differing.items())
    return Section("Configuration", text, (Table(("field", *(run.name for run in given)), rows, wide=True),))


def _shown_value(value: object) -> str:
    return ", ".join(str(run_words.cell(each)) for each in (value if isinstance(value, list) else [value]))


def _facts_of_each(title: str, text: str, runs: Sequence[Run], facts: Callable[[Run], run_words.Facts]) -> Section:
    return Section(title, text, (_side_by_side({run.name: found for run in runs if (found := facts(run))}),))


def _side_by_side(found: Mapping[str, run_words.Facts]) -> Table:
    """A row for each fact, a column for each that has facts."""
    names = list(dict.fromkeys(name for facts in found.values() for name in facts))
    rows = tuple((name, *(facts.get(name) for facts in found.values())) for name in names)
    return Table(("", *found), rows, wide=True)
