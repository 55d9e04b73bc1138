"""Which files of the repository are pages of the site, and links between them.

Pages link to each other as files of the repository do, so that the links also work where the files are read.
"""

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "LICENSE": "license.md",
    "benchmarks/README.md": "benchmarks.md",
}
"""File outside docs/ -> its page."""

_LINK = re.compile(r"\[([^\]\[]*)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_ROW = re.compile(r"^\|.*`.*$", re.MULTILINE)
_CODE = re.compile(r"`[^`]*`")
_FENCE = re.compile(r"^(```.*?^```$)", re.MULTILINE | re.DOTALL)


def file_of(page: str) -> str:
    """The file of the repository that a page is; both are paths with slashes."""
    return next((file for file, name in OUTSIDE.items() if name == page), f"docs/{page}")


def page_of(file: str) -> str | None:
    """The page that a file of the repository is; None where it is not one."""
    return file.removeprefix("docs/") if file.startswith("docs/") else OUTSIDE.get(file)


def outside_text(file: str) -> str:
    """The Markdown of a file outside docs/."""
    text = (ROOT / file).read_text(encoding="utf-8")
    return text if file.endswith(".md") else f"# {file.capitalize()}\n\n```text\n{text}```\n"


def with_page_links(text: str, page: str) -> str:
    """The Markdown of a page whose links to files of the repository are links to their pages.

    Of a link to another file of the repository the text is left. One that leads nowhere stays, which the strict build reports.
    """
    parts = _FENCE.split(text)
    return "".join(
        part if i % 2 else _LINK.sub(lambda link: _to_page(link, page), part) for i, part in enumerate(parts)
    )


def with_plain_pipes(text: str) -> str:
    """Markdown whose tables have no backslash before | in code: GitHub's tables need one, and the site would show it."""
    return _ROW.sub(lambda row: _CODE.sub(lambda code: code[0].replace("\\|", "|"), row[0]), text)


def _to_page(link: re.Match[str], page: str) -> str:
    text, target, anchor = link[1], link[2], link[3] or ""
    if "://" in target:
        return link[0]
    file = posixpath.normpath(posixpath.join(posixpath.dirname(file_of(page)), target))
    found = page_of(file)
    if found is not None:
        return f"[{text}]({posixpath.relpath(found, posixpath.dirname(page) or '.')}{anchor})"
    return text if (ROOT / file).is_file() else link[0]
