"""A page has a bounded size, whatever its data holds: long texts are cut, what does not fit is left out, and the page says so."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape

from nlpdata.reports.charts import Cell, Chart, shown
from nlpdata.reports.page import Code, Examples, Item, Notes, Report, Section, Table, count_of

MOST_CHARACTERS = 5_000_000
"""Of the HTML, about."""
_MOST_OF_ITEM = 1_000_000
_MOST_TEXT = 2000  # characters of one text
_MOST_NAME = 200  # of a column, a title, a source
_TAGS = 50  # characters around a text
_LINE = 15_000  # characters of a line of a chart


def bounded(report: Report) -> Report:
    """The report with what fits into a page of MOST_CHARACTERS, in its order. A section at its end counts what is left out."""
    room = _Room()
    facts = tuple((_cut(name, _MOST_NAME), _cell(value)) for name, value in report.facts)
    sections = [
        Section(_cut(each.title, _MOST_NAME), _cut(each.text), tuple(filter(None, map(room.fitted, each.items))))
        for each in report.sections
    ]
    if room.left_out:
        lines = tuple(count_of(count, noun) for noun, count in room.left_out.items())
        sections.append(Section("What is left out", "This page has no room for:", (Notes(lines),)))
    return Report(_cut(report.title, _MOST_NAME), _cut(report.subtitle), facts, tuple(sections))


class _Room:
    """What is left of a page, and how many things did not fit."""

    def __init__(self) -> None:
        self._left = MOST_CHARACTERS
        self.left_out: dict[str, int] = {}

    def fitted(self, item: Item) -> Item | None:
        """An item as far as it fits; None where it does not at all."""
        match item:
            case Table():
                columns = tuple(_cut(name, _MOST_NAME) for name in item.columns)
                rows, caption = self._rows("row", item.rows, columns), _cut(item.caption, _MOST_NAME)
                if len(rows) < len(item.rows):
                    caption = f"{caption or 'Rows'}, the first {len(rows):,} of {len(item.rows):,}"
                return replace(item, columns=columns, rows=rows, caption=caption)
            case Examples():
                texts = self._rows("example", item.rows)
                return Examples(
                    _cut(item.caption, _MOST_NAME), tuple((str(source), str(text)) for source, text in texts)
                )
            case Notes():
                lines = self._rows("note", [(line,) for line in item.lines])
                return Notes(tuple(str(line) for (line,) in lines))
            case Chart():
                return self._chart(item)
            case Code():
                if self._take(_size(item.text)):
                    return item
                self._leave_out("program")
                return None

    def _chart(self, chart: Chart) -> Chart | None:
        if not self._take(_LINE * max(len(chart.legend), 1)):
            self._leave_out("chart")
            return None
        return replace(
            chart,
            title=_cut(chart.title, _MOST_NAME),
            columns=tuple(_cut(name, _MOST_NAME) for name in chart.columns),
            rows=tuple(tuple(_cell(cell, _MOST_NAME) for cell in row) for row in chart.rows),
            legend=tuple(_cut(name, _MOST_NAME) for name in chart.legend),
        )

    def _rows(
        self, noun: str, rows: Sequence[tuple[Cell, ...]], columns: tuple[str, ...] = ()
    ) -> tuple[tuple[Cell, ...], ...]:
        """The first rows, with their texts cut, that fit; each has the names of its columns in it."""
        kept: list[tuple[Cell, ...]] = []
        heads = sum(map(_size, columns))
        room = _MOST_OF_ITEM - heads
        for row in rows:
            cells = tuple(map(_cell, row))
            size = heads + sum(map(_size, cells))
            if size > room or not self._take(size):
                self._leave_out(noun, len(rows) - len(kept))
                break
            room -= size
            kept.append(cells)
        return tuple(kept)

    def _take(self, characters: int) -> bool:
        """Takes room, if there is enough."""
        fits = characters <= self._left
        self._left -= characters if fits else 0
        return fits

    def _leave_out(self, noun: str, count: int = 1) -> None:
        self.left_out[noun] = self.left_out.get(noun, 0) + count


def _cut(text: str, most: int = _MOST_TEXT) -> str:
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters in all)"


def _cell(cell: Cell, most: int = _MOST_TEXT) -> Cell:
    return _cut(cell, most) if isinstance(cell, str) else cell


def _size(text: Cell) -> int:
    return len(escape(shown(text))) + _TAGS
