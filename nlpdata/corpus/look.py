"""A look at the first megabytes of a corpus, for JSON, tables, markup and the like that would be read as plain text.

Files from all parts of the corpus are looked at, the start of each. What is found is reported with numbers and a remedy; it
stops nothing, since some corpora are of code, tables or markup.
"""

import csv
import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from nlpdata.corpus.reading import read_blocks
from nlpdata.corpus.types import Block, ByteRange, CorpusFile
from nlpdata.errors import Message, NlpdataError, opt

FILES, BYTES = 16, 1 << 18  # files that are looked at, and bytes of each
_LINES = 2000  # of a file
_FEW = 5  # lines: fewer tell nothing
_MOST = 0.9
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9:-]*(?:\s[^<>]*)?/?>|<!--|<!DOCTYPE|<\?xml", re.IGNORECASE)
_MARKED = 0.3  # of the lines: a file with more tags is markup
_LONG_LINE = 1000  # characters on average: longer lines are not sentences
_MOJIBAKE = re.compile("[\u00c3\u00c2\u00e2][\u0080-\u00bf\u20ac\u2122]")
_COMMA, _COMMA_APART = re.compile(r"[,.](?=\s)"), re.compile(r"\s[,.](?=\s)")
_FEW_MARKS = 50  # commas and full stops, or signs of letters: fewer tell nothing
_SCRIPTS = re.compile("[\u0900-\u17ff\u3099\u309a]")  # Devanagari to Khmer, voicing of kana: parts of letters
_MANY_SIGNS = 0.01  # of the characters
_HEADER_NAME = re.compile(r"[\w .#/-]{1,30}")


@dataclass(frozen=True)
class _Sample:
    """The start of a file: its lines that are not blank, and how many documents they are."""

    name: str
    lines: Sequence[str]
    documents: int
    is_whole: bool
    pairs: bool  # whether long lines are cut to pairs
    unigram: bool  # whether it trains a unigram vocabulary
    normalize: Callable[[Sequence[str]], list[str]] | None


def look_at(
    files: Sequence[CorpusFile],
    *,
    invalid_utf8: str,
    text_key: str | None,
    pairs: bool = False,
    unigram: bool = False,
    normalize: Callable[[Sequence[str]], list[str]] | None = None,
) -> list[str]:
    """What looks wrong about the text, one line for each kind.

    Args:
      files: the corpus.
      invalid_utf8, text_key: the options of the command.
      pairs: whether the text becomes pairs of sentences.
      unigram: whether a unigram vocabulary is trained on it.
      normalize: what drops accents from lines, where the command may be told to keep them.
    """
    found: dict[Callable, list[tuple[str, str]]] = {}
    for file in files[:: max(1, -(-len(files) // FILES))]:
        sample = _sample(file, invalid_utf8, text_key, pairs, unigram, normalize)
        if sample is None or not sample.lines:
            continue
        for kind in _KINDS if text_key is None else _KINDS_OF_TEXT:
            if message := kind(sample):
                found.setdefault(kind, []).append((file.path, message))
                break  # what a file is explains the rest
    return [
        f"{entries[0][0]}{f' and {len(entries) - 1} more of the files looked at' if len(entries) > 1 else ''}: "
        f"{Message(entries[0][1])}"
        for entries in found.values()
    ]


def _sample(file: CorpusFile, invalid_utf8: str, text_key: str | None, *about: Any) -> _Sample | None:
    """Of a file; None where nothing can be read. `about`: the other attributes."""
    stop = min(file.size, BYTES) if file.compression == "none" else None
    try:
        blocks = read_blocks(
            ByteRange(0, file, 0, stop), block_bytes=BYTES, invalid_utf8=invalid_utf8, text_key=text_key
        )
        block: Block | None = next(iter(blocks), None)
    except NlpdataError:
        return None  # the command itself meets it, and reports where
    if block is None:
        return None
    lines = block.lines[:_LINES]
    whole = not block.ends_inside and (stop is None or file.size <= BYTES)
    return _Sample(file.name, lines, len(block.line_counts), whole, *about)


def _share(sample: _Sample, is_such: Callable[[str], object]) -> float:
    return sum(1 for line in sample.lines if is_such(line)) / len(sample.lines)


def _json(sample: _Sample) -> str | None:
    def value(line: str) -> object:
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            return None

    objects = [
        found for line in sample.lines[:200] if line.lstrip()[:1] == "{" and isinstance(found := value(line), dict)
    ]
    if objects and len(objects) >= _MOST * min(len(sample.lines), 200):
        texts = {key: sum(_characters(each.get(key)) for each in objects) for key in objects[0]}
        key = max(texts, key=lambda name: texts[name], default=None)
        remedy = (
            f"Name the key of the text: {opt('text_key', key)}"
            if key is not None and texts[key]
            else "None of the keys holds text: write the text that is inside to a text file, one sentence a line"
        )
        return (
            f"its lines are JSON objects (keys {', '.join(list(objects[0])[:8])}), and are read as text, braces and keys "
            f"and all. {remedy}"
        )
    first = sample.lines[0].lstrip()
    if first[:1] in ("[", "{") and _share(sample, lambda line: re.match(r'\s*([\[{\]},]|"[^"]+"\s*:)', line)) > _MOST:
        return (
            "it is a JSON file, and is read as text, brackets and keys and all. Make it one object a line (jq -c '.[]'), "
            f"and name the key of the text with {opt('text_key')}"
        )
    return None


def _characters(value: Any) -> int:
    """Of a text, or a list of texts, which `text_key` takes, too; 0 for anything else."""
    texts = value if isinstance(value, list) else [value]
    return sum(map(len, texts)) if all(isinstance(text, str) for text in texts) else 0


def _table(sample: _Sample) -> str | None:
    """CSV or TSV: nearly all rows have the same number of columns, two or more."""
    if len(sample.lines) < _FEW:
        return None
    for mark, form in (("\t", "tab"), (",", "comma"), (";", "semicolon")):
        try:
            rows = list(csv.reader(sample.lines[:500], delimiter=mark, strict=True))
        except csv.Error:
            rows = [line.split(mark) for line in sample.lines[:500]]
        width = len(rows[0])
        if width < 2 or sum(len(row) == width for row in rows) < _MOST * len(rows):
            continue
        if mark != "\t" and not _is_separator(sample, rows, mark):
            continue
        return (
            f"its rows have {width} columns with a {form} between them, and are read as text, separators and all. Write "
            f"the column of the text to a text file, or to JSON lines for {opt('text_key')}"
        )
    return None


def _is_separator(sample: _Sample, rows: list[list[str]], mark: str) -> bool:
    """Whether a mark that sentences have too separates columns: a header, or no space after it."""
    if PurePath(sample.name).suffix == ".csv":
        return True
    fields = [field for row in rows for field in row[1:] if field]
    spaced = sum(field[0] == " " for field in fields)
    header = all(_HEADER_NAME.fullmatch(field) and field == field.strip() for field in rows[0])
    return spaced * 10 < len(fields) and (header or spaced == 0)


def _markup(sample: _Sample) -> str | None:
    share = _share(sample, _TAG.search)
    if share < _MARKED and re.match(r"\s*(<!doctype|<html|<\?xml)", sample.lines[0], re.IGNORECASE):
        return f"it begins {sample.lines[0].strip()[:30]!r}: its tags are read as text. Extract its text first"
    if share >= _MARKED:
        kind = "XML" if sample.lines[0].lstrip().startswith("<?xml") else "HTML or XML"
        return f"it is {kind}: {share:.0%} of its lines have tags, which are read as text. Extract its text first"
    if sample.lines[0].startswith("<doc id="):
        return (
            "it has the <doc> marks of WikiExtractor, which are read as text. Use its --json, and "
            f"{opt('text_key', 'text')} here"
        )
    return None


def _markdown_table(sample: _Sample) -> str | None:
    share = _share(sample, lambda line: line.count("|") >= 2 and line.strip()[:1] == line.strip()[-1:] == "|")
    if len(sample.lines) >= _FEW and share >= _MARKED:
        return f"{share:.0%} of its lines are rows of tables (| a | b |), which are read as text. Leave them out of the corpus"
    return None


def _damaged(sample: _Sample) -> str | None:
    """Text that was decoded with the wrong encoding somewhere before."""
    characters = sum(map(len, sample.lines))
    lost = sum(line.count("\ufffd") for line in sample.lines)
    if lost * 200 > characters:
        return (
            f"{lost} of its first {characters} characters are U+FFFD: it was decoded with the wrong encoding. Convert it "
            "anew from its source"
        )
    twice = sum(len(_MOJIBAKE.findall(line)) for line in sample.lines)
    if twice * 100 > characters:
        return (
            f"its first {characters} characters hold {twice} pairs such as '\u00c3\u00a9': UTF-8 that was read as Latin-1 "
            "and encoded again. Convert it back (iconv -f UTF-8 -t WINDOWS-1252)"
        )
    controls = sum(1 for line in sample.lines for character in line if character < " " and character != "\t")
    if controls * 50 > characters:
        return (
            f"{controls} of its first {characters} characters are control characters: is it a binary file? Leave it out"
        )
    return None


def _documents_as_lines(sample: _Sample) -> str | None:
    mean = sum(map(len, sample.lines)) / len(sample.lines)
    if mean < _LONG_LINE or len(sample.lines) < _FEW:
        return None
    remedy = "Split them into sentences, one a line, with a blank line between documents"
    if sample.pairs:
        remedy += f"; or use {opt('objective', 'none')}, which cuts nothing"
    blank = "there is no blank line, and " if sample.documents == 1 else ""
    return f"{blank}its lines have {mean:,.0f} characters on average. Is each line a whole document? {remedy}"


def _tokenized(sample: _Sample) -> str | None:
    """Text whose punctuation is set apart, as in the Penn Treebank and NLTK's corpora.

    SentencePiece takes as candidates what different characters follow. A word that only a space follows is none, unless a
    longer word begins with it.
    """
    text = "\n".join(sample.lines)
    marks, apart = len(_COMMA.findall(text)), len(_COMMA_APART.findall(text))
    if not sample.unigram or marks < _FEW_MARKS or apart * 2 < marks:
        return None
    return (
        f"{apart / marks:.0%} of its commas and full stops have spaces around them, as in tokenized text. A unigram "
        "vocabulary of such text lacks frequent words, which no punctuation follows. Use the original text, or "
        f"{opt('type', 'bpe')} or {opt('type', 'wordpiece')}"
    )


def _lost_signs(sample: _Sample) -> str | None:
    """Text of a script whose signs are parts of letters, and are dropped as if they were accents."""
    if sample.normalize is None:
        return None
    before = _signs("\n".join(sample.lines))
    if before < _FEW_MARKS:
        return None
    lost, characters = before - _signs("\n".join(sample.normalize(sample.lines))), sum(map(len, sample.lines))
    if lost < max(_FEW_MARKS, _MANY_SIGNS * characters):
        return None
    return (
        f"normalisation drops accents, and with them {lost:,} signs of its {characters:,} characters ({lost / characters:.1%}) "
        f"that are not accents{_example(sample)}. Keep them with {opt('keep_accents')}"
    )


def _signs(text: str) -> int:
    return sum(unicodedata.category(sign) == "Mn" for sign in _SCRIPTS.findall(unicodedata.normalize("NFD", text)))


def _example(sample: _Sample) -> str:
    """A letter with a sign that is lost, and without it."""
    assert sample.normalize is not None
    text = unicodedata.normalize("NFD", "\n".join(sample.lines))
    letters = (text[found.start() - 1 : found.end()] for found in _SCRIPTS.finditer(text) if found.start())
    for letter in dict.fromkeys(letters):
        (without,) = sample.normalize([letter])
        if _signs(without) < _signs(letter):
            return f": {unicodedata.normalize('NFC', letter)!r} becomes {without!r}"
    return ""


_KINDS_OF_TEXT = (_markup, _markdown_table, _damaged, _documents_as_lines, _tokenized, _lost_signs)
_KINDS = (_json, _table, *_KINDS_OF_TEXT)
