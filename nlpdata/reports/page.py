"""The page of a report: what it holds, and how it is written as one HTML file and as Markdown.

Every text may come from data: HTML and Markdown in it are shown as they are written, never followed. The HTML has no script, loads
nothing, and its policy forbids both; it follows the reader's light or dark mode.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

from nlpdata.reports.charts import COLOURS, DASHES, Cell, Chart, shown, svg


@dataclass(frozen=True)
class Table:
    """Rows of figures and texts, below the names of their columns.

    caption: what it shows; empty for none. wide: whether it is as wide as the page, as tables of many columns are anyway.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    wide: bool = False


@dataclass(frozen=True)
class Examples:
    """Texts of the data, each with where it is from. caption: what they are; rows: (source, text)."""

    caption: str
    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Notes:
    """Sentences, each a point of a list."""

    lines: tuple[str, ...]


@dataclass(frozen=True)
class Code:
    """A program, shown as it is. language: for those who colour it."""

    text: str
    language: str = "python"


_NAMES = 4  # of inputs, in a title
_NARROW = 3  # columns: a table of more is as wide as the page, and on a phone shows each row as a list

Item = Table | Chart | Examples | Notes | Code


@dataclass(frozen=True)
class Section:
    """A part of a report under a heading. text: sentences below it; empty for none."""

    title: str
    text: str = ""
    items: tuple[Item, ...] = ()


@dataclass(frozen=True)
class Report:
    """A report.

    Attributes:
      title: e.g. "Corpus data/*.txt".
      subtitle: a sentence on what was read, and how much of it.
      facts: (name, value): the few figures that matter most.
      sections: in their order.
    """

    title: str
    subtitle: str = ""
    facts: tuple[tuple[str, Cell], ...] = ()
    sections: tuple[Section, ...] = field(default=())


def is_empty(item: Item) -> bool:
    """Whether an item has nothing to show."""
    match item:
        case Notes():
            return not item.lines
        case Code():
            return not item.text
        case _:
            return not item.rows


def percent(part: float, whole: float) -> str:
    """A share in words, e.g. "12.3%"; shares below a tenth of a percent keep two figures; a dash where the whole is 0."""
    if not whole:
        return "–"
    share = 100 * part / whole
    return f"{share:.1f}%" if share >= 0.1 or not part else f"{share:.2g}%"


def size(count: int) -> str:
    """A number of bytes in words, e.g. "1.2 MB"."""
    if count < 1000:
        return f"{count} bytes"
    if count > 10**30:  # of a file that anybody may have written
        return "–"
    steps = min((len(str(count)) - 1) // 3, 4)
    return f"{count / 1000**steps:.1f} {('', 'kB', 'MB', 'GB', 'TB')[steps]}"


def count_of(number: int, noun: str) -> str:
    """ "1 file", "12 files"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def names_of(given: Sequence[str]) -> str:
    """The names that a command was given; of many, such as a shell makes of a pattern, the first."""
    more = f" and {len(given) - _NAMES:,} more" if len(given) > _NAMES else ""
    return f"{', '.join(given[:_NAMES])}{more}"


def html(report: Report) -> str:
    """The report as an HTML page.

    Raises:
      UsageError: it has charts, and matplotlib is not installed.
    """
    count = iter(range(10**9))
    sections = "\n".join(_section_html(section, index, count.__next__) for index, section in enumerate(report.sections))
    facts = "".join(f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in report.facts)
    links = "".join(
        f'<li><a href="#s{index}">{_text(section.title)}</a></li>' for index, section in enumerate(report.sections)
    )
    return _PAGE.format(
        title=_text(report.title),
        generator=GENERATOR,
        style=_STYLE,
        subtitle=f"<p>{_text(report.subtitle)}</p>" if report.subtitle else "",
        facts=f'<dl class="facts">{facts}</dl>' if facts else "",
        links=f'<nav aria-label="Sections"><ul>{links}</ul></nav>' if len(report.sections) > 1 else "",
        sections=sections,
    )


def markdown(report: Report) -> str:
    """The report as Markdown; a chart is a table of its figures."""
    parts = [f"# {_mark(report.title)}"]
    if report.subtitle:
        parts.append(_mark(report.subtitle))
    if report.facts:
        parts.append("\n".join(f"- {_mark(name)}: {_mark(value)}" for name, value in report.facts))
    for section in report.sections:
        parts.append(f"## {_mark(section.title)}")
        if section.text:
            parts.append(_mark(section.text))
        parts += [_item_markdown(item) for item in section.items]
    return "\n\n".join(parts) + "\n"


def _section_html(section: Section, index: int, number: Callable[[], int]) -> str:
    text = f"<p>{_text(section.text)}</p>" if section.text else ""
    items = "\n".join(_item_html(item, f"c{number()}") for item in section.items)
    grid = f'<div class="items">\n{items}\n</div>' if items else ""
    return f'<section id="s{index}">\n<h2>{_text(section.title)}</h2>\n{text}{grid}\n</section>'


def _item_html(item: Item, name: str) -> str:
    match item:
        case Chart():
            return _chart_html(item, name)
        case Table():
            caption = f"<figcaption>{_text(item.caption)}</figcaption>" if item.caption else ""
            wide = ' class="wide"' if item.wide or len(item.columns) > _NARROW else ""
            return f"<figure{wide}>{caption}{_table_html(item.columns, item.rows)}</figure>"
        case Examples():
            rows = "".join(f'<dt>{_text(source)}</dt><dd dir="auto">{_text(text)}</dd>' for source, text in item.rows)
            return f'<figure class="wide"><figcaption>{_text(item.caption)}</figcaption><dl class="examples">{rows}</dl></figure>'
        case Notes():
            points = "".join(f"<li>{_text(line)}</li>" for line in item.lines)
            return f'<ul class="wide notes">{points}</ul>'
        case Code():
            return f'<figure class="wide scroll" tabindex="0"><pre><code>{escape(item.text)}</code></pre></figure>'


def _chart_html(chart: Chart, name: str) -> str:
    keys = "".join(_key(index, each) for index, each in enumerate(chart.legend))
    legend = f'<ul class="legend">{keys}</ul>' if keys else ""
    note = f"<p>{_text(chart.note)}</p>" if chart.note else ""
    figures = f"<details><summary>Figures</summary>{_table_html(chart.columns, chart.rows)}</details>"
    return f"<figure><figcaption>{_text(chart.title)}</figcaption>{legend}{svg(chart, name)}{note}{figures}</figure>"


def _key(index: int, name: str) -> str:
    dashes = DASHES[index // COLOURS % len(DASHES)]
    line = f'<path d="M0 5H22" stroke="var(--series-{index % COLOURS})" stroke-width="4" stroke-dasharray="{dashes}"/>'
    return f'<li><svg viewBox="0 0 22 10" aria-hidden="true">{line}</svg>{_text(name)}</li>'


def _table_html(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    classes = [' class="n"' if each else "" for each in _numeric(columns, rows)]
    heads = "".join(f'<th scope="col"{kind}>{_text(name)}</th>' for name, kind in zip(columns, classes, strict=True))
    head = f"<thead><tr>{heads}</tr></thead>" if any(columns) else ""
    lines = []
    for row in rows:
        cells = zip(columns, row, classes, strict=True)
        lines.append(
            "".join(f'<td{kind} data-of="{_text(name)}" dir="auto">{_text(cell)}</td>' for name, cell, kind in cells)
        )
    body = "\n".join(f"<tr>{line}</tr>" for line in lines)
    stacked = ' class="stacked"' if len(columns) > _NARROW else ""
    return f'<div class="scroll" tabindex="0"><table{stacked}>{head}<tbody>\n{body}\n</tbody></table></div>'


def _item_markdown(item: Item) -> str:
    match item:
        case Chart():
            table = _table_markdown(item.columns, item.rows)
            return "\n\n".join(filter(None, (f"### {_mark(item.title)}", table, item.note and _mark(item.note))))
        case Table():
            table = _table_markdown(item.columns, item.rows)
            return f"### {_mark(item.caption)}\n\n{table}" if item.caption else table
        case Examples():
            rows = "\n".join(f"- {_mark(source)}: {_mark(text)}" for source, text in item.rows)
            return f"### {_mark(item.caption)}\n\n{rows}"
        case Notes():
            return "\n".join(f"- {_mark(line)}" for line in item.lines)
        case Code():
            longest = max((len(run) for run in re.findall("`+", item.text)), default=0)
            fence = "`" * max(3, longest + 1)
            return f"{fence}{item.language}\n{item.text.rstrip()}\n{fence}"


def _table_markdown(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    dashes = ["---:" if each else "---" for each in _numeric(columns, rows)]
    lines = [[_mark(cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in ([_mark(name) for name in columns], dashes, *lines))


def _numeric(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[bool]:
    """For each column, whether it holds figures: numbers, also as text with their digits, or shares such as 12.3%."""
    by_column = list(zip(*rows, strict=True)) or [()] * len(columns)
    return [any(cell is not None for cell in cells) and all(map(_is_figure, cells)) for cells in by_column]


def _is_figure(cell: Cell) -> bool:
    return not isinstance(cell, str) or re.fullmatch(r"–|-?\d+\.\d+|[\d.e-]+%|[\d.]+ ([kMGT]B|bytes)", cell) is not None


def _text(value: Cell) -> str:
    """A text or a figure in HTML."""
    return escape(shown(value))


_MARKS = re.compile(r"([\\`*_\[\]<>|~$&#@:!{}])")


def _mark(value: Cell) -> str:
    """A text or a figure in Markdown, where none of its characters marks anything up, nor becomes a link."""
    text = _MARKS.sub(r"\\\1", shown(value)).replace("www.", r"www\.").strip()
    text = re.sub(r"^([-+=])", r"\\\1", text)  # at the start of a line these make lists and headings
    return re.sub(r"^(\d+)([.)])(?=\s|$)", r"\1\\\2", text)


GENERATOR = '<meta name="generator" content="nlpdata">'

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
{generator}
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
{subtitle}
{facts}
{links}
</header>
<main>
{sections}
</main>
</body>
</html>
"""

_STYLE = """
:root { color-scheme: light dark;
  --ink: #1b1f24; --soft: #57606a; --line: #d0d7de; --paper: #ffffff; --card: #f6f8fa; --link: #0550ae;
  --series-0: #0969da; --series-1: #bc4c00; --series-2: #1a7f37; --series-3: #8250df;
  --series-4: #9a6700; --series-5: #bf3989; --series-6: #1b7c83; --series-7: #57606a; }
@media (prefers-color-scheme: dark) {
:root { --ink: #e6edf3; --soft: #9ea7b3; --line: #3d444d; --paper: #0d1117; --card: #161b22; --link: #79c0ff;
  --series-0: #58a6ff; --series-1: #f0883e; --series-2: #56d364; --series-3: #bc8cff;
  --series-4: #e3b341; --series-5: #ff7bbf; --series-6: #39c5cf; --series-7: #9ea7b3; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 80rem; padding: 1rem; color: var(--ink); background: var(--paper);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0.5rem 0; }
h2 { font-size: 1.25rem; margin: 2rem 0 0.5rem; padding-top: 0.75rem; border-top: 1px solid var(--line); }
p { margin: 0.5rem 0; max-width: 48rem; }
a { color: var(--link); }
nav ul { display: flex; flex-wrap: wrap; gap: 0.25rem 1rem; list-style: none; margin: 1rem 0 0; padding: 0; }
dl, dd, figure { margin: 0; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(9rem, 1fr)); gap: 0.75rem; margin: 1rem 0; }
.facts div { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 0.5rem 0.75rem; }
.facts dt { color: var(--soft); font-size: 0.85rem; }
.facts dd { font-size: 1.15rem; font-weight: 600; }
.items { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 22rem), 1fr)); gap: 1rem; align-items: start; }
figure { background: var(--card); border: 1px solid var(--line); border-radius: 6px; padding: 0.75rem; min-width: 0; }
figure > svg { display: block; width: 100%; max-width: 30rem; height: auto; }
figure > svg text { font-family: system-ui, sans-serif !important; }
figure > p, summary { color: var(--soft); font-size: 0.9rem; }
figcaption { font-weight: 600; margin-bottom: 0.5rem; }
.wide { grid-column: 1 / -1; }
.legend { list-style: none; display: flex; flex-wrap: wrap; gap: 0.1rem 1rem; margin: 0 0 0.5rem; padding: 0; font-size: 0.9rem; }
.legend svg { width: 22px; height: 10px; margin-right: 0.4rem; }
.notes { margin: 0; padding-left: 1.25rem; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; overflow-wrap: normal; }
th, td { text-align: start; vertical-align: top; padding: 0.3rem 0.6rem 0.3rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; }
td { overflow-wrap: anywhere; }
td:not(.n) { min-width: 8.5rem; }
.wide td:not(.n) { min-width: 11rem; }
.n { text-align: end; font-variant-numeric: tabular-nums; }
td.n { white-space: nowrap; }
@media (max-width: 40rem) {
td:not(.n), .wide td:not(.n) { min-width: 0; }
.stacked, .stacked tbody, .stacked tr { display: block; }
.stacked thead { display: none; }
.stacked tr { border-bottom: 1px solid var(--line); padding: 0.4rem 0; }
.stacked td { display: flex; justify-content: space-between; gap: 1rem; border: 0; padding: 0.1rem 0; white-space: normal; }
.stacked td::before { content: attr(data-of); color: var(--soft); flex: none; max-width: 60%; }
.stacked td:first-child { font-weight: 600; }
.stacked td:first-child::before { display: none; }
}
.examples dt { color: var(--soft); font-size: 0.85rem; margin-top: 0.6rem; }
.examples dd { white-space: pre-wrap; unicode-bidi: isolate; }
"""
