"""Sections of the report of runs about how they were run: stages, calls and where their time went, recoveries."""

from collections.abc import Sequence

from nlpdata.reports import run_words
from nlpdata.reports.charts import Cell
from nlpdata.reports.page import Item, Section, Table, is_empty, percent
from nlpdata.reports.run_curves import MOST_IN_CHARTS
from nlpdata.reports.run_facts import Run

_MOST_CALLS = 40
_CALL_COLUMNS = ("call", "began (UTC)", "mode", "first step", "last step", "how it ended", "seconds", "message")

Rows = tuple[tuple[Cell, ...], ...]

_PARTS = {
    "steps": "training steps",
    "compiling": "first steps of their shapes, which compile",
    "evaluation": "evaluations",
    "checkpoint": "checkpoints",
}
_REST = "start, data, writing at the end"


def stages(runs: Sequence[Run]) -> Section:
    """A table for each run of several stages."""
    items = []
    for run in runs:
        own = run.about.get("stages", [])
        if len(own) > 1:
            names = ("examples", "batch_size", "seq_length", "num_hidden_layers")
            rows = tuple(
                (
                    number,
                    f"{stage.get('first_step', 0):,} to {stage.get('last_step', 0):,}",
                    *(stage.get(name) for name in names),
                )
                for number, stage in enumerate(own, 1)
            )
            columns = ("stage", "steps", "examples of an epoch", "examples a step", "sequence length", "layers")
            items.append(Table(columns, rows, run.name))
    return Section("Stages", "", tuple(items))


def time_spent(runs: Sequence[Run]) -> Section:
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
        shares: Rows = tuple((part, round(found[part], 2), percent(found[part], total)) for part in parts)
        table = Table(("part", "seconds", "share"), (*shares, ("all", round(total, 2), "100.0%")))
        return Section("Time", text, (table,))
    rows: Rows = tuple((part, *(round(found.get(part, 0), 2) for found in spent.values())) for part in parts)
    sums: tuple[Cell, ...] = ("all", *(round(sum(found.values()), 2) for found in spent.values()))
    return Section("Time", text, (Table(("part", *spent), (*rows, sums)),) if spent else ())


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


def calls(runs: Sequence[Run]) -> Section:
    """A table for each run, of few runs alone: a row for each call."""
    items: list[Item] = []
    for run in runs[:MOST_IN_CHARTS]:
        rows: Rows = tuple(
            (
                f"call {number}",
                str(call.get("started", "")),
                str(call.get("mode", "")),
                call.get("first_step"),
                call.get("last_step"),
                run_words.outcome(call.get("outcome", "unfinished")),
                call.get("total_seconds"),
                call.get("message"),
            )
            for number, call in enumerate(run.calls, 1)
        )
        columns: tuple[str, ...] = _CALL_COLUMNS
        if all(row[-1] is None for row in rows):  # no message
            columns, rows = columns[:-1], tuple(row[:-1] for row in rows)
        caption = f"Calls of {run.name}" if len(runs) > 1 else ""
        if len(rows) > _MOST_CALLS:
            caption = f"{caption or 'Calls'}, the last {_MOST_CALLS} of {len(rows)}"
        items.append(Table(columns, rows[-_MOST_CALLS:], caption))
    return Section(
        "Calls", "Each time that the run was started or resumed.", tuple(item for item in items if not is_empty(item))
    )


def recoveries(runs: Sequence[Run]) -> Section:
    """The recoveries of all runs, a row for each."""
    rows = tuple(
        (run.name, run_words.cell(each.get("diverged_at")), run_words.cell(each.get("step")))
        for run in runs
        for each in run.recoveries
    )
    text = "Steps whose loss was not a finite number, or above its bound, and the checkpoint that the run returned to."
    return Section("Recoveries", text, (Table(("run", "diverged at step", "back to step"), rows),))
