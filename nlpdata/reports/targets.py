"""The files of a report: what they may replace, and how they are written, all or none."""

import os
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from nlpdata.errors import UsageError, opt
from nlpdata.files import PathName
from nlpdata.files.disk import why_unwritable, writing
from nlpdata.files.paths import AnyPath, file_size, is_device, open_binary, path_of
from nlpdata.files.writing import new_file
from nlpdata.reports import overlap, page
from nlpdata.reports.bounds import bounded
from nlpdata.reports.page import Report

_MARKDOWN_END = "<!-- made by nlpdata report -->\n"
_HEAD_BYTES = 4096


class Targets:
    """The page, its Markdown (`markdown`), and with evaluation sets the list of contaminated rows (`listed`).

    Args:
      output: the page. UsageError where its name is not that of one.
      with_list: whether there are evaluation sets.
      overwrite: whether an older report may be replaced.
      named: the input, which is never replaced.
    """

    def __init__(self, output: PathName, with_list: bool, overwrite: bool, named: Sequence[AnyPath]) -> None:
        self.page = path_of(output)
        if not self.page.name.endswith((".html", ".htm")):
            raise UsageError(f"{opt('output')} is the page, e.g. report.html. Received: {os.fspath(output)!r}.")
        stem = self.page.name.rpartition(".")[0]
        self.markdown = self.page.with_name(f"{stem}.md")
        self.listed = self.page.with_name(f"{stem}.contaminated.tsv")
        self._with_list, self._overwrite, self._named = with_list, overwrite, named

    def refuse(self) -> None:
        """UsageError where files exist that are not to be replaced, or none can be made. Writes nothing."""
        if reason := why_unwritable(self.page.parent):
            raise UsageError(f"cannot write to {self.page.parent}/: {reason}. Use another {opt('output')}.")
        of_older_report = self._with_list or _is_report(self.listed)
        wanted = [self.page, self.markdown, *([self.listed] if of_older_report else [])]
        there = [path for path in wanted if path.exists()]
        read = {os.path.realpath(str(path)) for path in self._named}
        for path in there:
            if os.path.realpath(str(path)) in read:
                raise UsageError(
                    f"{opt('input')} names {path}, which the report would replace. Give {opt('output')} another name or folder."
                )
        if there and not self._overwrite:
            names = ", ".join(path.name for path in there)
            raise UsageError(
                f"{self.page.parent}/ already holds {names}. Use {opt('overwrite', True)}, or another {opt('output')}."
            )
        for path in there:
            if not _is_report(path):
                raise UsageError(
                    f"{path} is not of a report, and {opt('overwrite', True)} would replace it. Move it elsewhere, or use another "
                    f"{opt('output')}."
                )

    def write(self, made: Report, matches: str | None) -> list[str]:
        """Writes the files, all or none, the page last; a list of an older report goes. Their names.

        Raises UsageError as `refuse`: another process may have written there meanwhile.
        """
        self.refuse()
        made = bounded(made)
        texts = {self.markdown: f"{page.markdown(made)}\n{_MARKDOWN_END}", self.page: page.html(made)}
        if matches is not None:
            texts = {self.listed: matches, **texts}
        files = {path: text.encode("utf-8", "backslashreplace") for path, text in texts.items()}
        with writing(self.page):
            if isinstance(self.page, Path):
                self.page.parent.mkdir(parents=True, exist_ok=True)
            with ExitStack() as stack:  # they get their names once all are written, the one that was entered first last
                places: dict[AnyPath, AnyPath] = {
                    path: stack.enter_context(new_file(path)) for path in reversed(files) if isinstance(path, Path)
                }
                for path, content in files.items():
                    places.get(path, path).write_bytes(content)
            if matches is None and _is_report(self.listed):
                self.listed.unlink()
        return [str(path) for path in (self.page, self.markdown, *([self.listed] if matches is not None else []))]


def _is_report(path: AnyPath) -> bool:
    """Whether a path is a file that a report is made of."""
    if not path.exists() or path.is_dir() or is_device(path):
        return False
    with open_binary(path) as file:
        if path.name.endswith(".md"):
            file.seek(max(file_size(path) - len(_MARKDOWN_END), 0))
            return file.read() == _MARKDOWN_END.encode()
        head = file.read(_HEAD_BYTES)
    return (
        head.startswith(overlap.LIST_HEAD.encode()) if path.name.endswith(".tsv") else page.GENERATOR.encode() in head
    )
