"""Charts of a report: they keep their figures, so that Markdown shows them as a table, and are drawn as SVG when a page asks.

The SVG is the same bytes for the same figures. It has no colours of its own but variables of the page's style (`--ink`, `--line`,
`--series-0`, ...), so that it follows the reader's light or dark mode. Its letters are those of the page.
"""

import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import escape
from io import StringIO
from itertools import pairwise
from typing import Any

from nlpdata.errors import missing_package, printable

Cell = str | int | float | None
"""What a table holds."""

COLOURS = 8
"""Series have the variables `--series-0` to `--series-7`; further ones take them again, with other dashes."""
DASHES = ("none", "6 2", "2 2", "6 2 2 2")
"""Dashes of the lines of the first eight series, of the next eight, and so on, as SVG's stroke-dasharray has them."""

_WIDTH = 4.2  # inches: 302 units of the SVG, about a pixel each on a phone
_LETTERS = 10  # points
_MOST_POINTS = 600  # of a line; of more the smallest and the largest of each part are drawn
_MOST_ROWS = 12  # of a line in its table
_MOST_BARS = 24
_LONGEST_LABEL = 44  # characters
_SENTINELS = {
    "ink": "#0a0b01",
    "line": "#0a0b02",
    **{f"series-{index}": f"#0a0c{index:02x}" for index in range(COLOURS)},
}


@dataclass(frozen=True)
class Chart:
    """A chart with its figures.

    Attributes:
      title: what it shows.
      columns: names of the columns of its table.
      rows: the table: the figures that are drawn, of long lines a part.
      note: a sentence below it, such as what was left out; empty for none.
      legend: names of its series, in the order of their colours; empty where there is only one.
      height: of the drawing, in inches.
      paint: draws into an axes of matplotlib.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    legend: tuple[str, ...] = ()
    height: float = 2.4
    paint: Callable[[Any], None] = field(compare=False, repr=False, default=lambda axes: None)


def bars(title: str, series: Mapping[str, Mapping[str, float]], of: str, note: str = "") -> Chart:
    """Horizontal bars, in the order given; of very many the first ones, and the note says so.

    Args:
      title: what they show.
      series: name -> (label -> value); values are numbers that are not negative. A label that one lacks counts 0 there.
      of: what the labels are, e.g. "label", as head of their column.
      note: a sentence below.
    """
    labels = list(dict.fromkeys(label for values in series.values() for label in values))
    if len(labels) > _MOST_BARS:
        note = f"{note} The first {_MOST_BARS} of {len(labels):,} are shown.".strip()
        labels = labels[:_MOST_BARS]
    columns = [[values.get(label, 0) for label in labels] for values in series.values()]
    return Chart(
        title,
        (of, *series),
        tuple(zip(labels, *columns, strict=True)),
        note,
        tuple(series) if len(series) > 1 else (),
        0.2 + len(labels) * (0.22 + 0.17 * len(series)),
        partial(_paint_bars, labels, columns),
    )


def histogram(title: str, counts: Mapping[int, int], x_label: str, y_label: str, note: str = "") -> Chart:
    """How often each number occurs, in bins of one width; the last bin holds the largest half percent where they reach far.

    Args:
      title: what it shows.
      counts: number that is not negative -> how often it occurs.
      x_label: what the numbers are, with their unit, e.g. "characters".
      y_label: what is counted, e.g. "sentences".
      note: a sentence below.
    """
    edges, heights, is_open = binned(counts)
    names = [f"{low:,}" if low == high else f"{low:,} to {high:,}" for low, high in held(edges, counts)]
    if is_open:
        names[-1] = f"{edges[-2]:,} and more"
    rows = tuple(zip(names, heights, strict=True))
    return Chart(
        title,
        (x_label, y_label),
        rows,
        note,
        paint=partial(_paint_histogram, edges, heights, is_open, x_label, y_label),
    )


def lines(
    title: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    x_label: str,
    y_label: str,
    note: str = "",
    log_scale: bool = False,
) -> Chart:
    """Lines through points, a colour for each series.

    Args:
      title: what they show.
      series: name -> (x, y) in ascending order of x; where y is not finite the line has a gap.
      x_label: what x is, with its unit, e.g. "step".
      y_label: what y is, with its unit.
      note: a sentence below; where the table leaves out points, one about that follows.
      log_scale: a logarithmic axis for y; values that are not positive are left out of the drawing.
    """
    columns = (x_label, *(series if len(series) > 1 else [y_label]))
    every = [[x for x, _ in points] for points in series.values()]
    places, total = _places(every), len(set().union(*every))
    if len(places) < total:
        note = f"{note} The table has {len(places)} of {total:,} {x_label}s.".strip()
    values = [dict(points) for points in series.values()]
    rows = tuple((x, *(each.get(x) for each in values)) for x in places)
    legend = tuple(series) if len(series) > 1 else ()
    paint = partial(_paint_lines, {name: list(points) for name, points in series.items()}, x_label, y_label, log_scale)
    return Chart(title, columns, rows, note, legend, paint=paint)


def binned(counts: Mapping[int, int], most: int = 24) -> tuple[list[int], list[int], bool]:
    """(edges of at most `most` bins of one width, how many numbers each holds, whether the last holds all larger ones too).

    A bin holds its lower edge and not its upper one. Widths are 1, 2 or 5 times a power of ten.
    """
    if not counts:
        return [0, 1], [0], False
    low, high = min(counts), max(counts)
    far = quantile(counts, 0.995)
    top = far if high - low > 2 * max(far - low, 1) else high
    width = next(width for width in _round_widths() if (top // width) - (low // width) + 1 <= most)
    first = low // width
    heights = [0] * (top // width - first + 1)
    for number, count in counts.items():
        heights[min(number // width - first, len(heights) - 1)] += count
    edges = [(first + index) * width for index in range(len(heights) + 1)]
    return edges, heights, high >= edges[-1]


def held(edges: Sequence[int], counts: Mapping[int, int]) -> list[tuple[int, int]]:
    """The smallest and the largest number that each bin of `binned` may hold, none beyond those there are: 60 to 64, not to 69."""
    least, most = min(counts, default=0), max(counts, default=0)
    return [(max(low, least), min(high - 1, most)) for low, high in pairwise(edges)]


def quantile(counts: Mapping[int, int], share: float) -> int:
    """The smallest number that at least this share of the numbers does not exceed; 0 where there are none."""
    left = share * sum(counts.values())
    number = 0
    for number in sorted(counts):
        left -= counts[number]
        if left <= 0:
            break
    return number


def svg(chart: Chart, name: str) -> str:
    """A chart as an SVG element for an HTML page.

    Args:
      chart: what to draw.
      name: differs from that of every other chart of the page; letters, digits and hyphens.

    Raises:
      UsageError: matplotlib is not installed.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(_style(name)), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # the browser has its own
        figure = Figure(figsize=(_WIDTH, chart.height), layout="constrained")
        chart.paint(figure.add_subplot())
        drawn = StringIO()
        figure.savefig(drawn, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return _embedded(drawn.getvalue(), chart, name)


def require_matplotlib() -> None:
    """UsageError where matplotlib, which draws, is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError:
        raise missing_package("a report with charts", "matplotlib") from None


def shown(cell: Cell) -> str:
    """A figure or a text of a table, as people read it: 1,234, 0.1235, one line of text; a dash where there is none."""
    if isinstance(cell, float):
        return "–" if not math.isfinite(cell) else f"{cell:,.0f}" if 1000 <= abs(cell) < 1e12 else f"{cell:,.4g}"
    return "–" if cell is None else printable(f"{cell:,}" if isinstance(cell, int) else cell)


def label(text: str) -> str:
    """A label from data, as one short line."""
    text = printable(text)
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"


def _places(series: Sequence[Sequence[float]]) -> list[float]:
    """Where the table of a chart of lines has its rows: _MOST_ROWS places, if possible those that all series have, and the ends."""
    every = set().union(*series)
    ends = {max(each) for each in series if each}
    shared = set.intersection(*map(set, series)) if series else every
    places = sorted(shared if len(shared) > 1 else every)
    if len(places) > _MOST_ROWS:
        places = [places[round(index * (len(places) - 1) / (_MOST_ROWS - 1))] for index in range(_MOST_ROWS)]
    return sorted({*places, *ends})


def _round_widths() -> Iterator[int]:
    power = 1
    while True:
        yield from (power, 2 * power, 5 * power)
        power *= 10


def _style(name: str) -> dict[str, Any]:
    ink, line = _SENTINELS["ink"], _SENTINELS["line"]
    return {
        "axes.axisbelow": True,
        "axes.edgecolor": line,
        "axes.facecolor": "none",
        "axes.grid": False,
        "axes.grid.axis": "y",
        "axes.labelcolor": ink,
        "axes.labelsize": _LETTERS,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.unicode_minus": False,
        "figure.facecolor": "none",
        "font.family": ["DejaVu Sans"],
        "font.size": _LETTERS,
        "grid.color": line,
        "grid.linewidth": 0.8,
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "text.color": ink,
        "text.parse_math": False,
        "text.usetex": False,
        "xtick.color": line,
        "xtick.labelcolor": ink,
        "xtick.labelsize": _LETTERS,
        "ytick.color": line,
        "ytick.labelcolor": ink,
        "ytick.labelsize": _LETTERS,
    }


def _colour(index: int) -> str:
    return _SENTINELS[f"series-{index % COLOURS}"]


def _paint_bars(labels: Sequence[str], columns: Sequence[Sequence[float]], axes: Any) -> None:
    """The label above its bars, and the value at the right edge: long labels fit on a phone too."""
    most = max((value for column in columns for value in column), default=0) or 1
    whole = most / 0.78  # the rest of the width is for the values
    step = 0.22 + 0.17 * len(columns)  # inches, as in the chart's height
    for row, text in enumerate(labels):
        axes.text(0, row * step + 0.11, label(text), va="center", ha="left")
        for index, column in enumerate(columns):
            y = row * step + 0.29 + 0.17 * index
            least = whole / 300 if column[row] else 0  # what is there is seen
            axes.barh(y, max(column[row], least), height=0.12, color=_colour(index))
            axes.text(whole, y, shown(column[row]), va="center", ha="right")
    axes.set_xlim(0, whole)
    axes.set_ylim(max(len(labels), 1) * step, 0)
    axes.set_axis_off()


def _paint_histogram(
    edges: Sequence[int], heights: Sequence[int], is_open: bool, x_label: str, y_label: str, axes: Any
) -> None:
    axes.bar(edges[:-1], heights, width=[high - low for low, high in pairwise(edges)], align="edge", color=_colour(0))
    for bar in axes.patches:
        bar.set(linewidth=0.6, edgecolor="none", width=bar.get_width() * 0.92)
    axes.set_xlim(edges[0], edges[-1])
    if is_open:
        x_label = f"{x_label} (the last bar: {edges[-2]:,} and more)"
    _name_axes(axes, x_label, y_label)
    axes.xaxis.get_major_locator().set_params(integer=True, nbins=6)
    axes.yaxis.get_major_locator().set_params(integer=True, nbins=5)


def _paint_lines(
    series: Mapping[str, Sequence[tuple[float, float]]], x_label: str, y_label: str, log_scale: bool, axes: Any
) -> None:
    for index, points in enumerate(series.values()):
        kept = _thinned(points)
        dashes = DASHES[index // COLOURS % len(DASHES)]
        axes.plot(
            [x for x, _ in kept],
            [y if math.isfinite(y) and (y > 0 or not log_scale) else math.nan for _, y in kept],
            color=_colour(index),
            linewidth=1.6,
            linestyle="-" if dashes == "none" else (0, [float(part) for part in dashes.split()]),
            marker="o" if len(kept) <= 24 else "",
            markersize=3.5,
        )
    if log_scale:
        axes.set_yscale("log")
        axes.minorticks_off()
    else:
        axes.yaxis.get_major_locator().set_params(nbins=5)
    whole = all(float(x).is_integer() for points in series.values() for x, _ in points)  # there is no step 9.5
    axes.xaxis.get_major_locator().set_params(nbins=5, integer=whole, min_n_ticks=1)
    _name_axes(axes, x_label, y_label)


def _name_axes(axes: Any, x_label: str, y_label: str) -> None:
    """What y is stands above the axis: written upwards it is hard to read."""
    from matplotlib.ticker import FuncFormatter

    axes.set_xlabel(label(x_label))
    axes.set_title(label(y_label), loc="left", fontsize=_LETTERS)
    axes.grid(True, axis="y")
    axes.tick_params(length=0)
    axes.spines["left"].set_visible(False)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_tick))


def _tick(value: float, _: object) -> str:
    """A number at an axis, short: 0.02, 1,500, 20k, 3M."""
    size = abs(value)
    for least, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= least:
            return f"{value / (1e3 if letter == 'k' else least):,.4g}{letter}"
    return f"{value:,.0f}" if size >= 1000 else f"{value:.4g}"


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """At most _MOST_POINTS points, the smallest and largest of each part among them, so that peaks stay."""
    if len(points) <= _MOST_POINTS:
        return list(points)
    parts = _MOST_POINTS // 2
    kept = []
    for part in range(parts):
        own = range(part * len(points) // parts, (part + 1) * len(points) // parts)
        ends = {min(own, key=lambda at: points[at][1]), max(own, key=lambda at: points[at][1])}
        kept += [points[at] for at in sorted(ends)]
    return kept


def _embedded(drawn: str, chart: Chart, name: str) -> str:
    """What matplotlib drew, as an element of a page: its names differ from other charts', its colours are the page's."""
    width, height = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', drawn)[0]
    body = drawn[drawn.index("<svg") :].partition(">")[2]
    body = re.sub(r"<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    body = re.sub(r"<[^>]*>", lambda found: _own_tag(found[0], name), body)  # text is between tags, and stays as it is
    body = re.sub(r"\s*\n\s*", "\n", body).strip()
    heads = f'<title id="{name}-title">{escape(printable(chart.title))}</title>'
    heads += f'<desc id="{name}-desc">{escape(_described(chart))}</desc>'
    labelled = f'role="img" aria-labelledby="{name}-title {name}-desc"'
    return f'<svg viewBox="0 0 {width} {height}" {labelled}>{heads}\n{body}'


def _own_tag(tag: str, name: str) -> str:
    tag = re.sub(r'\bid="', f'id="{name}-', tag).replace("url(#", f"url(#{name}-")
    tag = tag.replace('xlink:href="#', f'href="#{name}-')
    for variable, colour in _SENTINELS.items():
        tag = tag.replace(colour, f"var(--{variable})")
    return tag


def _described(chart: Chart) -> str:
    """The figures in a sentence, for those who cannot see the drawing; the page has all in a table next to it."""
    told = [", ".join(shown(cell) for cell in row) for row in chart.rows[:_MOST_ROWS]]
    more = f"; and {len(chart.rows) - len(told):,} more rows" if len(chart.rows) > len(told) else ""
    return f"{', '.join(map(shown, chart.columns))}: {'; '.join(told)}{more}."
