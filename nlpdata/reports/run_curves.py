"""Sections of the report of runs about what they measured: charts over the steps, evaluations, scores of classes."""

from collections.abc import Callable, Iterator, Mapping, Sequence

from nlpdata.reports import run_words
from nlpdata.reports.charts import Chart, lines
from nlpdata.reports.page import Notes, Section, Table, is_empty
from nlpdata.reports.run_facts import EVAL_REPORT, Curve, Run, is_finite

MOST_IN_CHARTS = 8
"""Runs that one chart shows; further ones are in the tables."""
_MOST_EVALUATIONS = 60
_MOST_CLASSES = 60

_METRICS = {  # title of the chart, and what its axis says
    "loss": ("Loss", "loss"),
    "learning_rate": ("Learning rate", "rate"),
    "tokens_per_second": ("Tokens per second", "tokens"),
    "padding": ("Padding", "share of the positions"),
    "gradient_norm": ("Norm of the gradient", "norm"),
}
_NO_METRICS = ("examples", "recoveries")


def metrics_of(results: Mapping[str, float]) -> list[str]:
    """The names of an evaluation's metrics, without those of its size and place."""
    return [name for name in results if name not in ("step", *_NO_METRICS)]


def training(runs: Sequence[Run]) -> Section:
    """Charts of the train lines; of a single run with the evaluations in them."""
    if len(runs) == 1:
        (run,) = runs
        both = {name: {"training": curve, "evaluation": run.evaluations.get(name)} for name, curve in run.train.items()}
        return Section("Training", "", tuple(_charts(both)))
    text = ""
    if len(runs) > MOST_IN_CHARTS:
        text = f"Charts show the first {MOST_IN_CHARTS} of {len(runs)} runs. Name fewer folders for those of others."
    return Section("Training", text, tuple(_charts(_of_each(runs, lambda run: run.train), of_several=True)))


def evaluations(runs: Sequence[Run]) -> Section:
    """A table for each run, and charts; of a single run only those of metrics that its train lines do not have."""
    curves = _of_each(runs, lambda run: run.evaluations)
    known = runs[0].train if len(runs) == 1 else ()
    curves = {name: found for name, found in curves.items() if name not in known and _are_lines(found)}
    tables = [_evaluation_table(run, len(runs) > 1) for run in runs[:MOST_IN_CHARTS]]
    units = run_words.units({name for run in runs for name in run.evaluations})
    return Section("Evaluations", units, (*_charts(curves, len(runs) > 1), *(table for table in tables if table.rows)))


def _of_each(runs: Sequence[Run], curves: Callable[[Run], Mapping[str, Curve]]) -> dict[str, dict[str, Curve | None]]:
    """Metric -> name of a run -> its curve, of the runs that charts show."""
    names = dict.fromkeys(name for run in runs for name in curves(run))
    return {name: {run.name: curves(run).get(name) for run in runs[:MOST_IN_CHARTS]} for name in names}


def _are_lines(curves: Mapping[str, Curve | None]) -> bool:
    return any(curve is not None and len(curve.points) > 1 for curve in curves.values())


def _charts(found: Mapping[str, Mapping[str, Curve | None]], of_several: bool = False) -> Iterator[Chart]:
    """A chart for each metric, with a line for each curve that there is. Of several runs, it names one that alone has a curve."""
    names = [*(name for name in _METRICS if name in found), *(name for name in found if name not in _METRICS)]
    for name in names:
        series = {key: curve.points for key, curve in found[name].items() if curve is not None}
        values = [value for points in series.values() for _, value in points if is_finite(value)]
        if values and name not in _NO_METRICS:
            title, label = _METRICS.get(name, (name, "value"))
            note = f"Of {next(iter(series))} alone." if of_several and len(series) == 1 else ""
            yield lines(title, series, "step", label, note)


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


def classes(runs: Sequence[Run]) -> Section:
    """Of a single run the scores of each class, the most frequent ones where they are many; and remarks on predictions."""
    if len(runs) > 1:
        told = ((run.name, run_words.remark(run.classes)) for run in runs)
        return Section("Predictions", "", (Notes(tuple(f"{name}: {remark}" for name, remark in told if remark)),))
    found = runs[0].classes.get("classes", [])
    names = ("precision", "recall", "f1", "support", "predicted", "right")
    kept = found
    if len(found) > _MOST_CLASSES:
        kept = sorted(found, key=lambda each: -each.get("support", 0))[:_MOST_CLASSES]
    rows = tuple((str(each.get("name", "")), *(each.get(name) for name in names)) for each in kept)
    texts = [f"Scores of the evaluation at step {runs[0].classes.get('step', 0):,}."] if found else []
    if len(found) > len(kept):
        texts.append(f"The {len(kept)} most frequent of {len(found):,}; {EVAL_REPORT} has all.")
    remark = run_words.remark(runs[0].classes)
    columns = ("class", "precision", "recall", "f1", "examples", "predicted", "right")
    items = (Table(columns, rows), Notes((remark,) if remark else ()))
    return Section("Predictions", " ".join(texts), tuple(item for item in items if not is_empty(item)))
