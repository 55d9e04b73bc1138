"""A look at the first megabytes of a corpus, for JSON, tables, markup and the like that would be read as plain text.

Files from all parts of the corpus are looked at, the start of each. What is found is reported with numbers and a remedy; it
stops nothing, since some corpora are of code, tables or markup.
"""

import csv
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from nlpdata.corpus.accents import ACCENTS, SIGNS, LostMarks, Normalize, lost_marks
from nlpdata.corpus.marks import continued, inner_ends
from nlpdata.corpus.reading import read_blocks
from nlpdata.corpus.types import Block, ByteRange, CorpusFile
from nlpdata.errors import Message, NlpdataError, as_flag, opt

FILES, BYTES = 16, 1 << 18  # files that are looked at, and bytes of each
_LINES = 2000  # of a file
_FEW = 5  # lines: fewer tell nothing
_MOST = 0.9
_TAG = re.compile(r"</?[A-Za-z][A-Za-z0-9:-]*(?:\s[^<>]*)?/?>|<!--|<!DOCTYPE|<\?xml", re.IGNORECASE)
_MARKED = 0.3  # of the lines: a file with more tags is markup
_LONG_LINE = 1000  # characters on average: longer lines are not sentences
_INNER_ENDS, _FEW_ENDS = 0.7, 10  # sentences that end inside a line, on average; in sentences of corpora below 0.1
_CONTINUED, _FEW_WRAPPED = 0.3, 20  # of the lines; lines: fewer may be wrapped by chance
_MARKDOWN = re.compile(r"#{1,6} \S|```|~~~|(?:[-*+]|\d{1,3}[.)]) \S|> ?\S|\[[^\]]+\]: ")
_MARKED_DOWN = 0.1  # of the lines, of which two are headings
_MOJIBAKE = re.compile("[\u00c3\u00c2\u00e2][\u0080-\u00bf\u20ac\u2122]")
_COMMA, _COMMA_APART = re.compile(r"[,.](?=\s)"), re.compile(r"\s[,.](?=\s)")
_FEW_MARKS = 50  # commas and full stops, or signs of letters: fewer tell nothing
_MANY_SIGNS, _MANY_ACCENTS = 0.01, 0.001  # of the characters
_SPLIT = "nlpdata split-sentences"
# Options of another command than the one that looks: always as the command line spells them.
_OF_HTML = f"{_SPLIT} {as_flag('format', 'html')} extracts its text"
_HEADER_NAME = re.compile(r"[\w .#/-]{1,30}")


@dataclass(frozen=True)
class _Sample:
    """The start of a file: its lines that are not blank, and how many documents they are."""

    name: str
    lines: Sequence[str]
    documents: int
    sentences: bool = False  # whether a line should be one
    pairs: bool = False  # whether long lines are cut to pairs
    unigram: bool = False  # whether it trains a unigram vocabulary
    normalize: Normalize | None = None


def look_at(
    files: Sequence[CorpusFile],
    *,
    invalid_utf8: str,
    text_key: str | None,
    sentences: bool = True,
    pairs: bool = False,
    unigram: bool = False,
    normalize: Normalize | None = None,
) -> list[str]:
    """What looks wrong about the text, one line for each kind.

    Args:
      files: the corpus.
      invalid_utf8, text_key: the options of the command.
      sentences: whether a line should be a sentence.
      pairs: whether the text becomes pairs of sentences.
      unigram: whether a unigram vocabulary is trained on it.
      normalize: what drops accents from lines, where the command may be told to keep them.
    """
    found: dict[Callable, list[tuple[str, str]]] = {}
    for file in _chosen(files):
        sample = _sample(file, invalid_utf8, text_key, sentences, pairs, unigram, normalize)
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


def _chosen(files: Sequence[CorpusFile]) -> Sequence[CorpusFile]:
    """Files from all parts of the corpus."""
    return files[:: max(1, -(-len(files) // FILES))]


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
    return _Sample(file.name, block.lines[:_LINES], len(block.line_counts), *about)


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
        format = as_flag("format", "tsv" if form == "tab" else "csv")
        return (
            f"its rows have {width} columns with a {form} between them, and are read as text, separators and all. "
            f"{_SPLIT} {format} makes a corpus of a column ({as_flag('text_field')})"
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
        return f"it begins {sample.lines[0].strip()[:30]!r}: its tags are read as text. {_OF_HTML}"
    if share >= _MARKED:
        kind = "XML" if sample.lines[0].lstrip().startswith("<?xml") else "HTML or XML"
        remedy = "Extract its text first" if kind == "XML" else _OF_HTML
        return f"it is {kind}: {share:.0%} of its lines have tags, which are read as text. {remedy}"
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
    remedy = _split_remedy(sample)
    blank = "there is no blank line, and " if sample.documents == 1 else ""
    return f"{blank}its lines have {mean:,.0f} characters on average. Is each line a whole document? {remedy}"


def _split_remedy(sample: _Sample) -> str:
    other = f"; or use {opt('objective', 'none')}, which takes text as it is" if sample.pairs else ""
    return f"{_SPLIT} makes sentences of text, one a line, with a blank line between documents{other}"


def _paragraphs(sample: _Sample) -> str | None:
    """Lines that hold several sentences each."""
    ends = sum(map(inner_ends, sample.lines)) if sample.sentences else 0
    if ends < max(_FEW_ENDS, _INNER_ENDS * len(sample.lines)):
        return None
    return (
        f"its lines hold {1 + ends / len(sample.lines):.1f} sentences on average, and a line should be one. "
        f"{_split_remedy(sample)}"
    )


def _wrapped(sample: _Sample) -> str | None:
    """Lines that end where a page was full."""
    share = continued(sample.lines) if sample.sentences and len(sample.lines) >= _FEW_WRAPPED else 0.0
    if share < _CONTINUED:
        return None
    return (
        f"{share:.0%} of its lines continue in the next one: sentences are wrapped over lines, and a line should be one. "
        f"{_split_remedy(sample)}"
    )


def _markdown(sample: _Sample) -> str | None:
    headings = sum(bool(re.match(r"#{1,6} \S", line)) for line in sample.lines)
    share = _share(sample, _MARKDOWN.match)
    if headings < 2 or share < _MARKED_DOWN:
        return None
    return (
        f"it is Markdown: {share:.0%} of its lines begin with its marks, which are read as text. {_SPLIT} "
        f"{as_flag('format', 'markdown')} takes the text out of them"
    )


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
    lost = None if sample.normalize is None else lost_marks(sample.lines, sample.normalize, SIGNS)
    if lost is None or lost.count < max(_FEW_MARKS, _MANY_SIGNS * lost.characters):
        return None
    return (
        f"normalisation drops accents, and with them {lost.count:,} signs of its {lost.characters:,} characters "
        f"({lost.count / lost.characters:.1%}) that are not accents{_example(lost)}. Keep them with {opt('keep_accents')}"
    )


def _example(lost: LostMarks) -> str:
    return f": {lost.letter!r} becomes {lost.without!r}" if lost.letter else ""


def dropped_accents(
    files: Sequence[CorpusFile], normalize: Normalize, *, invalid_utf8: str, text_key: str | None
) -> str | None:
    """What a tokenizer's normalisation drops of the accents of a corpus, in one line; None where it has few, or keeps them."""
    samples = [_sample(file, invalid_utf8, text_key) for file in _chosen(files)]
    return dropped_accents_of([line for sample in samples if sample for line in sample.lines], normalize)


def dropped_accents_of(lines: Sequence[str], normalize: Normalize) -> str | None:
    """The same of texts."""
    lost = lost_marks(lines, normalize, ACCENTS)
    if lost is None or lost.count < max(_FEW_MARKS, _MANY_ACCENTS * lost.characters):
        return None
    return (
        f"the tokenizer drops accents, {lost.count:,} in the {lost.characters:,} characters that were looked at{_example(lost)}. "
        f"nlpdata train-tokenizer {as_flag('keep_accents')} makes a vocabulary that has them"
    )


_KINDS_OF_TEXT = (
    _markup,
    _markdown_table,
    _markdown,
    _damaged,
    _documents_as_lines,
    _paragraphs,
    _wrapped,
    _tokenized,
    _lost_signs,
)
_KINDS = (_json, _table, *_KINDS_OF_TEXT)
