"""The formats of raw documents: how each is known, divided and read."""

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from nlpdata.corpus.folders import ending
from nlpdata.corpus.splitting.options import SplittingOptions
from nlpdata.corpus.splitting.passages import Notice, Passage
from nlpdata.corpus.types import ByteRange, CorpusFile
from nlpdata.errors import UsageError, opt

Reader = Callable[[ByteRange, SplittingOptions], Iterator[Passage | Notice]]


@dataclass(frozen=True)
class Format:
    """A format of raw documents.

    Attributes:
      name: as --format names it.
      called: in messages.
      endings: of the names of its files.
      documents: what a document may be; the first one unless another is chosen.
      line_breaks: what a line break means, unless that is chosen.
      reader: "module:function" of its Reader.
      packages: what its reader needs, as imported.
      is_divisible: whether a part of a file can be read by itself, where a file is not one document.
      is_binary: whether its files are not looked into before they are read.
    """

    name: str
    called: str
    endings: tuple[str, ...]
    documents: tuple[str, ...]
    line_breaks: str
    reader: str
    packages: tuple[str, ...] = ()
    is_divisible: bool = False
    is_binary: bool = False

    def read(self) -> Reader:
        module, _, attribute = self.reader.partition(":")
        return getattr(importlib.import_module(module), attribute)


_HERE = "nlpdata.corpus.splitting"
_ROWS = f"{_HERE}.rows:read_rows"
FORMATS = {
    each.name: each
    for each in (
        Format(
            *("text", "text", (".txt", ".text"), ("file", "blank-lines", "line"), "join"),
            reader=f"{_HERE}.passages:read_text",
            is_divisible=True,
        ),
        Format(
            *("markdown", "Markdown", (".md", ".markdown"), ("file",), "join"),
            reader=f"{_HERE}.markdown:read_markdown",
            packages=("markdown_it",),
        ),
        Format(
            *("html", "HTML", (".html", ".htm"), ("file",), "end"),
            reader=f"{_HERE}.html:read_html",
            packages=("trafilatura",),
        ),
        Format(
            *("jsonl", "JSON lines", (".jsonl", ".ndjson"), ("record",), "end"),
            reader=f"{_HERE}.passages:read_json_lines",
            is_divisible=True,
        ),
        Format("csv", "CSV", (".csv",), ("record",), "end", _ROWS, is_binary=True),
        Format("tsv", "TSV", (".tsv",), ("record",), "end", _ROWS, is_binary=True),
        Format("parquet", "Parquet", (".parquet",), ("record",), "end", _ROWS, ("pyarrow",), is_binary=True),
    )
}
ENDINGS = tuple(each for form in FORMATS.values() for each in form.endings)


def is_text(path: str, options: SplittingOptions) -> bool:
    """Whether a file is text, by the given format or its name; its content is then looked at before the work begins."""
    if options.format is not None:
        return not FORMATS[options.format].is_binary
    return not any(each.is_binary and ending(path) in each.endings for each in FORMATS.values())


def format_of(file: CorpusFile, options: SplittingOptions) -> Format:
    """The format of a file, as given or by its name. UsageError where it cannot be told."""
    if options.format is not None:
        return FORMATS[options.format]
    found = next((each for each in FORMATS.values() if ending(file.path) in each.endings), None)
    if found is None:
        raise UsageError(
            f"{file.path}: cannot tell its format; expected a name ending in {', '.join(ENDINGS)} (also with .gz or .zst), or a "
            f"{opt('format')}, one of {', '.join(FORMATS)}."
        )
    return found


def documents_of(file: CorpusFile, form: Format, options: SplittingOptions) -> str:
    """What a document of a file is. UsageError where its format has no such documents."""
    if options.documents is None:
        return form.documents[0]
    if options.documents not in form.documents:
        raise UsageError(
            f"{opt('documents', options.documents)}: {file.path} is {form.called}, of which a document is "
            f"a {' or '.join(form.documents)}. Give such files in a run of their own."
        )
    return options.documents
