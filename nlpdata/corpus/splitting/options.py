"""The options of split-sentences: one dataclass that the command line, the function and the result's JSON file all use."""

import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Literal

from nlpdata.corpus.splitting.filters import check_scripts
from nlpdata.errors import UsageError, opt
from nlpdata.files import PathName, PathNames
from nlpdata.options import (
    MOST_SHARDS,
    Arguments,
    BeamArguments,
    LocalArguments,
    RecordOptions,
    check_bounds,
    option,
)

LEAST_SENTENCE_BYTES, MOST_SENTENCE_BYTES = 16, 1 << 14
_MOST_CHARACTERS = 1 << 40
_SCRIPT_SHARE = 0.5
_LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]+)*")


@dataclass(frozen=True, kw_only=True)
class SplittingOptions(RecordOptions):
    """All that decides about the text that is written, except the input."""

    format: Literal["text", "markdown", "html", "jsonl", "csv", "tsv", "parquet"] | None = option(
        None, "Format of the files.  [default: by their names]"
    )
    documents: Literal["file", "blank-lines", "line", "record"] | None = option(
        None,
        "What one document is: a file, what blank lines enclose, a line, or a record.  [default: file; record of JSON lines "
        "and tables]",
    )
    line_breaks: Literal["join", "end"] | None = option(
        None,
        "join: a line break in a paragraph is a space (wrapped text); end: it ends a sentence.  [default: join for text and "
        "Markdown, else end]",
    )
    text_field: str = option("text", "Key or column of the text, of JSON lines and tables.")
    language: str = option("en", "Language of the text, e.g. en, de or zh; auto: as identified, document by document.")
    max_sentence_bytes: int = option(
        2048,
        "Longer sentences are cut at white space, else between characters.",
        least=LEAST_SENTENCE_BYTES,
        most=MOST_SENTENCE_BYTES,
    )
    deduplicate_documents: bool = option(False, "Leave out documents with the same sentences as an earlier one.")
    deduplicate_lines: bool = option(False, "Leave out sentences that occurred before.")
    near_duplicates: float | None = option(
        None,
        "Leave out documents at least this similar to an earlier one (Jaccard, of runs of five words), e.g. 0.8.",
        least=0.1,
        most=1,
    )
    min_characters: int = option(0, "Leave out shorter documents.", least=0, most=_MOST_CHARACTERS)
    max_characters: int | None = option(None, "Leave out longer documents.", least=1, most=_MOST_CHARACTERS)
    scripts: Sequence[str] = option(
        (),
        "Leave out documents with few letters of this script, e.g. Latin. Repeat it, or use commas, for several.",
        flag="script",
    )
    min_script_share: float = option(_SCRIPT_SHARE, "Least share of letters of these scripts, 0 to 1.", least=0, most=1)
    keep_languages: Sequence[str] = option(
        (),
        "Leave out documents in other languages than this one, e.g. en. Repeat it, or use commas, for several.",
        flag="keep_language",
    )
    invalid_utf8: Literal["fail", "replace", "skip"] = option(
        "fail", "What to do about bytes that are not UTF-8: stop, put U+FFFD, or leave the line out."
    )
    on_bad_row: Literal["fail", "skip"] = option("fail", "What to do about rows of tables that cannot be used.")

    def __post_init__(self) -> None:
        check_bounds(self)
        self.check_choices()
        for name in ("scripts", "keep_languages"):
            if isinstance(getattr(self, name), str):
                raise UsageError(f"{opt(name)} must be a list of strings. Received: {getattr(self, name)!r}.")
            parts = (part.strip() for each in getattr(self, name) for part in each.split(","))
            object.__setattr__(self, name, tuple(parts))
        check_scripts(self.scripts)
        if not self.scripts and self.min_script_share != _SCRIPT_SHARE:
            raise UsageError(
                f"{opt('min_script_share', self.min_script_share)} needs the script whose letters count: "
                f"{opt('scripts', 'Latin')}, for example."
            )
        for name, values in (("language", [self.language]), ("keep_languages", self.keep_languages)):
            for each in values:
                if not _LANGUAGE.fullmatch(each) and not (name == "language" and each == "auto"):
                    also = ", or auto" if name == "language" else ""
                    raise UsageError(f"{opt(name)} must be a code such as en, de or zh{also}. Received: {each!r}.")
        if self.max_characters is not None and self.max_characters < self.min_characters:
            raise UsageError(
                f"{opt('max_characters')} must be at least {opt('min_characters', self.min_characters)}. "
                f"Received: {self.max_characters}."
            )
        if not self.text_field:
            raise UsageError(f"{opt('text_field')} is empty; expected the key or column of the text.")

    @property
    def identifies_languages(self) -> bool:
        return self.language == "auto" or bool(self.keep_languages)

    @property
    def leaves_out_repeats(self) -> bool:
        """Whether what is written of a document depends on others."""
        return self.deduplicate_documents or self.deduplicate_lines or self.near_duplicates is not None


@dataclass(frozen=True)
class SplittingRequest(Arguments, SplittingOptions):
    """What split-sentences takes on any runner. UsageError for a value that is wrong."""

    input: Annotated[
        PathNames,
        "Raw documents (txt, md, html, jsonl, csv, tsv, parquet): paths or quoted patterns, e.g. 'raw/*.txt'.",
    ]
    output: Annotated[PathName, "Text file, e.g. data/corpus.txt."]
    _: KW_ONLY
    num_shards: int | None = option(None, "Text files.  [default: one for each 112 MiB]", least=1, most=MOST_SHARDS)
    chunk_size: int | None = option(
        None,
        "Input bytes of a unit of work; they do not change the result.  [default: by the size of the input]",
        least=500,
        most=1 << 40,
    )
    overwrite: bool = option(False, "Replace an older result of the same name.")
    progress: bool = option(False, "Show progress on standard error.", flag="")
    options: SplittingOptions = field(init=False, repr=False)


@dataclass(frozen=True)
class LocalSplittingRequest(LocalArguments, SplittingRequest):
    """What split-sentences takes on this machine."""


@dataclass(frozen=True)
class BeamSplittingRequest(BeamArguments, SplittingRequest):
    """What split-sentences takes on a Beam runner."""
