"""Pages: HTML and Markdown of a report, where every text may be an attack, and the charts in them."""

import json
import math
import re
import sys
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from markdown_it import MarkdownIt

from nlpdata.errors import UsageError
from nlpdata.reports import charts, page
from nlpdata.reports.page import Examples, Notes, Report, Section, Table, html, markdown, percent

ATTACK = (
    "<script>alert(1)</script><img src=x onerror=a()> | [a](javascript:b) `c` **d** &amp; $x$ "
    "http://e.example \"'\n# f\x00\u202e"
)
MARKED = (
    "- a",
    "1. a",
    "2) b",
    "+ c",
    "=== ",
    "# d",
    "> e",
    "---",
    "    fff",
    "http://g.example",
    "www.h.example",
    "~~k~~",
    "i@j.k",
)
SHAPES = set(
    "html head meta title style body header h1 h2 p dl dt dd nav ul li a main section div figure figcaption table thead tbody tr "
    "th td details summary svg g path text defs use clippath rect desc".split()
)


def _report(text: str) -> Report:
    points = [(step, 7 / (step + 1)) for step in range(2000)]
    points[999] = (999, 50.0)
    items = (
        charts.bars(text, {text: {text: 3, "b": 2.5}, "second": {"b": 1}}, text, text),
        charts.histogram(text, {1: 5, 2: 9, 400: 1}, text, text),
        charts.lines(
            text, {text: points, "other": [(0, 7.0), (1000, float("nan")), (1999, 3.0)]}, text, text, log_scale=True
        ),
        Table((text, "share", "count"), ((text, "12.3%", 1234), (None, "–", 5)), text),
        Examples(text, ((text, text),)),
        Notes((text,)),
    )
    return Report(text, text, ((text, text), ("rows", 1234)), (Section(text, text, items), Section("empty")))


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict]] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)


def _read(page: str) -> _Reader:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    return reader


def test_html_shows_texts_and_never_follows_them():
    page = html(_report(ATTACK))
    read = _read(page)
    assert {tag for tag, _ in read.tags} <= SHAPES
    attributes = {name: value for _, each in read.tags for name, value in each.items()}
    assert not [name for name in attributes if name.startswith("on") or name == "src"]
    assert {each["href"][0] for _, each in read.tags if "href" in each} == {"#"}
    names = [each["id"] for _, each in read.tags if "id" in each]
    assert len(names) == len(set(names))
    policy = next(each["content"] for tag, each in read.tags if tag == "meta" and "http-equiv" in each)
    assert policy.startswith("default-src 'none';")
    assert "script-src" not in policy
    shown = ATTACK.replace("\n", "\\n").replace("\x00", "\\x00")
    assert sum(shown in text for text in read.texts) > 12  # also in the drawings
    assert page == html(_report(ATTACK))
    assert not re.search(r"#0a0[bc]", page.replace(ATTACK, ""))  # every colour is the page's
    for drawing in re.findall(r"<svg viewBox.*?</svg>", page, flags=re.DOTALL):
        ElementTree.fromstring(drawing)


@pytest.mark.parametrize("text", [ATTACK, *MARKED])
def test_markdown_shows_texts_and_never_follows_them(text):
    read = _read(MarkdownIt("gfm-like", {"linkify": False}).render(markdown(_report(text))))
    assert {tag for tag, _ in read.tags} <= set("h1 h2 h3 p ul li table thead tbody tr th td".split())
    shown = text.strip().replace("\n", "\\n").replace("\x00", "\\x00")
    assert sum(each.count(shown) for each in read.texts) == markdown(_report("zzzz")).count("zzzz")
    assert "1,234" in read.texts


def test_a_chart_keeps_its_figures():
    chart = charts.lines(
        "loss", {"a": [(step, 1.0 / step) for step in range(1, 1001)], "b": [(1, 2.0)]}, "step", "loss"
    )
    assert chart.columns == ("step", "a", "b")
    assert [row[0] for row in chart.rows][:2] == [1, 92]
    assert chart.rows[0] == (1, 1.0, 2.0)
    assert chart.rows[-1] == (1000, 0.001, None)
    assert chart.note == "The table has 12 of 1,000 steps."
    assert chart.legend == ("a", "b")
    short = {"a": [(step, 1.0) for step in range(1, 21)], "b": [(step, 2.0) for step in range(100, 112)]}
    assert (20, 1.0, None) in charts.lines("loss", short, "step", "loss").rows  # where a line ends its figure is told
    assert charts.lines("loss", {"a": [(1, 1.0)]}, "step", "loss").note == ""
    bars = charts.bars("labels", {"train": {str(n): n for n in range(100)}}, "label")
    assert len(bars.rows) == 24
    assert bars.note == "The first 24 of 100 are shown."


def test_peaks_stay_in_a_line_that_is_thinned():
    flat = [(step, 1.0) for step in range(10_000)]
    peak = [*flat[:7777], (7777, 900.0), *flat[7778:]]
    names = [charts.svg(charts.lines("x", {"a": points}, "x", "y"), "c0") for points in (flat, peak)]
    assert ">800<" not in names[0]
    assert ">800<" in names[1]
    assert len(names[1]) < 60_000


@pytest.mark.parametrize(
    ("counts", "edges", "heights", "is_open"),
    [
        ({}, [0, 1], [0], False),
        ({7: 3}, [7, 8], [3], False),
        ({0: 1, 3: 2}, [0, 1, 2, 3, 4], [1, 0, 0, 2], False),
        ({3: 1, 45: 1}, list(range(2, 47, 2)), [1, *[0] * 20, 1], False),
        ({1: 500, 2: 499, 9000: 1}, [1, 2, 3], [500, 500], True),  # the farthest is in the last bin
    ],
)
def test_bins(counts, edges, heights, is_open):
    assert charts.binned(counts) == (edges, heights, is_open)


def test_numbers_at_the_limit_are_drawn():
    assert "<svg" in charts.svg(charts.lines("t", {"a": [(0, 1e300), (1 << 62, -1e300)]}, "step", "value"), "c")


def test_a_line_of_one_step_has_no_other_steps():
    drawn = charts.svg(charts.lines("loss", {"a": [(10, 7.0)]}, "step", "loss"), "c0")
    assert ">10<" in drawn
    assert ">9.75<" not in drawn


def test_a_histogram_names_what_occurs():
    """A bin of two numbers at the end, of which the second cannot be, is called by the first."""
    rows = charts.histogram("x", {3: 1, 4: 1, 30: 7, 64: 5}, "tokens", "records").rows
    assert (rows[0][0], rows[1][0], rows[-1]) == ("3 to 4", "5 to 9", ("60 to 64", 5))
    rows = charts.histogram("x", {19: 2, 64: 5}, "tokens", "records").rows
    assert (rows[0], rows[1], rows[-1]) == (("19", 2), ("20 to 21", 0), ("64", 5))


def test_figures_as_people_read_them():
    cells = [9999.6, 12388.2, -1e6, 1e15, 0.0000741, math.nan, None, 12388]
    assert list(map(charts.shown, cells)) == [
        "10,000", "12,388", "-1,000,000", "1e+15", "7.41e-05", "–", "–", "12,388",
    ]  # fmt: skip
    assert page._numeric(("a", "b", "c"), ((None, 1, "x"), (None, None, 2))) == [False, True, False]


def test_shares_and_quantiles():
    shares = [percent(1, 8), percent(1, 90_000), percent(0, 5), percent(1, 0)]
    assert shares == ["12.5%", "0.0011%", "0.0%", "–"]
    counts = {1: 50, 2: 45, 90: 5}
    assert [charts.quantile(counts, share) for share in (0.5, 0.51, 0.95, 0.96, 1)] == [1, 2, 2, 90, 90]


def test_what_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(
        UsageError, match=r"charts needs matplotlib, which is not installed. .*pip install '\.\[plot\]'"
    ):
        html(_report("a"))
    assert json.dumps(markdown(_report("a")))  # Markdown needs no drawing
