"""The documentation site: built as `make docs` builds it, and what its pages hold."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer

import nlpdata
import pretrain
from docs.site import options, pages
from docs.site.markdown import escaped
from nlpdata.cli.commands import app
from pretrain.registry import EXPERIMENTS
from pretrain.settings.flags import FIELDS, RUN
from pretrain.settings.tree import to_tree
from tests import light

ROOT = Path(__file__).resolve().parents[1]
# Stands in for `python -m mkdocs`; what the pages are made from must not need these.
BUILD = f"""
import runpy, sys
sys.modules.update(dict.fromkeys({light.BLOCKED!r}))
runpy.run_module("mkdocs", run_name="__main__", alter_sys=True)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site."""
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run(
        [sys.executable, "-c", BUILD, "build", "--strict", "--site-dir", folder],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return folder


class _Loads(HTMLParser):
    """What a browser fetches for a page by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in ("script", "img", "iframe") and given.get("src"):
            self.found.add(given["src"])
        if tag == "link":
            self.found.add(given["href"])


def test_pages_are_read_without_a_network(site):
    written = list(site.rglob("*.html"))
    assert len(written) > 30
    for page in written:
        parser = _Loads()
        parser.feed(page.read_text(encoding="utf-8"))
        assert any(name.endswith(".css") for name in parser.found), page
        folders = {name: site if name.startswith("/") else page.parent for name in parser.found}  # "/": of 404.html
        elsewhere = [
            name for name, folder in folders.items() if "//" in name or not (folder / name.lstrip("/")).exists()
        ]
        assert not elsewhere, f"{page}: {elsewhere}"
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(.?(https?:)?//", style.read_text(encoding="utf-8")), style


def test_every_exported_name_has_its_description(site):
    for package in (nlpdata, pretrain):
        text = (site / "reference" / f"{package.__name__}.html").read_text(encoding="utf-8")
        missing = [name for name in package.__all__ if f'id="{package.__name__}.{name}"' not in text]
        assert not missing
    text = (site / "reference" / "nlpdata.html").read_text(encoding="utf-8")
    assert "Share of the tokens to mask, 0 to 1." in text  # of an argument that create_pretraining takes as an option


def test_every_option_is_on_a_page():
    text = options.PAGES["options/nlpdata.md"]()
    for name, command in typer.main.get_command(app).commands.items():
        (part,) = re.findall(rf"^## nlpdata {name}$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        for option in command.params:
            if option.param_type_name == "option" and not option.hidden:
                spelled = [each.removeprefix("--") for each in option.opts]
                assert any(re.search(rf"^\| `--(\[no-?\])?{each}\b", part, re.MULTILINE) for each in spelled), (
                    option.opts
                )
    text = options.PAGES["options/pretrain.md"]()
    missing = [
        flag.name for flag in (*RUN, *FIELDS) if not re.search(rf"^\| `--(\[no\])?{flag.name}\b", text, re.MULTILINE)
    ]
    assert not missing


def test_every_field_of_a_configuration_is_on_the_page():
    text = options.PAGES["options/configuration.md"]()
    found: dict[str, set[str]] = {}
    for path, part in re.findall(r"^### `([\w.]+)(?:\[\])?`$(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL):
        found.setdefault(path, set()).update(re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE))

    def missing(path, tree):
        for name, value in tree.items():
            inner = f"{path}.{name}"
            if isinstance(value, dict) and value.get("type") in value:  # a choice and its options
                yield from [] if name in found[path] else [inner]
                yield from missing(f"{inner}.{value['type']}", value[value["type"]])
            elif isinstance(value, dict) and inner in found:
                yield from missing(inner, value)
            elif name not in found[path]:
                yield inner

    for name in EXPERIMENTS.names():
        tree = to_tree(EXPERIMENTS.get(name)())
        assert not [path for part in ("task", "trainer", "runtime") for path in missing(part, tree[part])], name
    assert not re.findall(r"^\| `\w+` \| *\|.*", text, re.MULTILINE)  # a field that the page does not explain
    assert not re.findall(r"^### .*\n\n+\|.*", text, re.MULTILINE)  # nor a section
    assert re.search(r"\| `global_batch_size` \| Examples a step.* \| whole number; at least 1 \| `32` \|", text)
    assert re.search(r"\| `num_train_epochs` \| .*\| whole number; at least 1 \| `1` \|", text)


@pytest.mark.parametrize(
    ("page", "text", "expected"),
    [
        ("training.md", "[b](../benchmarks/README.md#speed)", "[b](benchmarks.md#speed)"),
        ("migration/cerebras.md", "[t](../training.md)", "[t](../training.md)"),
        ("migration/cerebras.md", "[r](../../README.md)", "[r](../index.md)"),
        ("index.md", "[t](docs/training.md#resuming)", "[t](training.md#resuming)"),
        ("index.md", "[LICENSE](LICENSE)", "[LICENSE](license.md)"),
        ("benchmarks.md", "[t](../docs/training.md)", "[t](training.md)"),
        ("training.md", "[its file](../pretrain/configs/tiny_bert.yaml)", "its file"),
        ("training.md", "[gone](../pretrain/gone.yaml)", "[gone](../pretrain/gone.yaml)"),
        ("training.md", "[w](https://example.org/a.md)", "[w](https://example.org/a.md)"),
        ("training.md", "```text\n[b](../benchmarks/README.md)\n```\n", "```text\n[b](../benchmarks/README.md)\n```\n"),
    ],
)
def test_links_to_files_are_links_to_pages(page, text, expected):
    assert pages.with_page_links(text, page) == expected


def test_code_in_tables_shows_no_backslash(site):
    rows = "| `a \\| b` | c \\| d |\n"
    assert pages.with_plain_pipes(rows + "`e \\| f`") == "| `a | b` | c \\| d |\n`e \\| f`"
    assert "&lt;fail|replace|skip&gt;" in (site / "options" / "nlpdata.html").read_text(encoding="utf-8")
    assert "<code>nlpdata inspect ... | head</code>" in (site / "reliability.html").read_text(encoding="utf-8")


def test_plain_text_stays_plain():
    assert escaped("<output>.eval of data/*.txt, [CLS] and `a_b <c>`") == (
        r"\<output>.eval of data/\*.txt, \[CLS\] and `a_b <c>`"
    )
