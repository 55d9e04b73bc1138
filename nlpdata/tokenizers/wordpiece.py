"""WordPiece vocabularies, as BERT uses them.

Words repeat, so each distinct whitespace-separated word is tokenized once and remembered as rows of a flat table of
ids; a block of text is one dictionary look-up a word and one numpy gather. The memory holds at most MEMO_WORDS words
(about 200 bytes each) between blocks and starts afresh when it is full; ids never depend on it.
"""

import re
from array import array
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.text.bert import basic_tokens, split_words
from nlpdata.tokenizers import Tokenizer, TokenizerSpec, read_checked, stored_options

MEMO_WORDS = 1 << 18  # words and basic tokens remembered: about 50 MB each when full
MAX_WORD_CHARACTERS = 200  # a longer word is [UNK], as in google-research/bert
SPECIAL_TOKENS = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
_UNUSED = re.compile(r"\[unused\d+\]")
_UPPER = re.compile("[A-Z]")


class WordPieceTokenizer(Tokenizer):
    """A BERT vocabulary: greedy longest match over basic tokens (google-research/bert, tokenization.py).

    `normalize` leaves lines as they are: cleaning and lower-casing are part of what is remembered of a word.
    Literal "[MASK]" and the like in the text are text.
    """

    kind = "wordpiece"

    def __init__(self, spec: TokenizerSpec):
        """Loads the vocabulary at spec.path; DataError if it is none, or lacks special tokens."""
        self.path = spec.path
        content, self.sha256 = read_checked(spec)
        self._pieces = parse_vocabulary(Path(spec.path), content)
        self._ids = {piece: i for i, piece in enumerate(self._pieces)}
        self.vocab_size = len(self._pieces)
        missing = [token for token in SPECIAL_TOKENS.values() if token not in self._ids]
        if missing:
            raise DataError(
                f"{spec.path} lacks {', '.join(missing)}, which BERT's examples need. Expected a vocab.txt of a BERT "
                "model; `nlpdata train-tokenizer --type wordpiece` makes one"
            )
        for name, token in SPECIAL_TOKENS.items():
            setattr(self, f"{name}_id", self._ids[token])
        special = set(SPECIAL_TOKENS.values())
        ordinary = [i for i, p in enumerate(self._pieces) if p not in special and not _UNUSED.fullmatch(p)]
        self.ordinary_ids = np.array(ordinary, np.int32)
        self.word_start = np.array([not piece.startswith("##") for piece in self._pieces])
        self.notes: list[str] = []
        self.spec = self._complete(spec)
        self._longest = max(len(piece) for piece in self._pieces)
        self._forget()

    def _complete(self, spec: TokenizerSpec) -> TokenizerSpec:
        stored = stored_options(Path(spec.path), self.sha256) or {}
        lower = spec.do_lower_case if spec.do_lower_case is not None else stored.get("do_lower_case")
        if lower is None:
            cased = any(_UPPER.search(p) for p in self._pieces if p not in SPECIAL_TOKENS.values())
            lower = not cased
            why = (
                "upper-case entries, so text is kept as it is"
                if cased
                else "no upper-case entries, so text is lower-cased"
            )
            self.notes.append(
                f"{spec.path} has no normalisation options beside it; it has {why}. Where that is wrong, say so with "
                "--do-lower-case/--no-do-lower-case and --keep-accents"
            )
        accents = spec.keep_accents if spec.keep_accents is not None else stored.get("keep_accents")
        return replace(spec, do_lower_case=lower, keep_accents=not lower if accents is None else accents)

    def _forget(self) -> None:
        self._words = _Memo(self._word)
        self._tokens = _Memo(self._wordpiece)
        self._table = array("i")  # ids of all remembered words, one after the other
        self._lengths = array("q")

    def normalize(self, lines: Sequence[str]) -> list[str]:
        return list(lines)

    def encode_normalized(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        split = split_words(lines)
        counts = np.fromiter(map(len, split), np.int64, len(split))
        total = int(counts.sum())
        words = np.fromiter(map(self._words.__getitem__, chain.from_iterable(split)), np.int64, total)
        table, lengths = np.array(self._table, np.int32), np.array(self._lengths, np.int64)
        ids, line_lengths = _gather(table, lengths, words, counts)
        if max(len(self._words), len(self._tokens)) > MEMO_WORDS:
            self._forget()
        return ids, line_lengths

    def _word(self, word: str) -> int:
        """Tokenizes a word that is new; its number in the table."""
        tokens = basic_tokens(word, self.spec.do_lower_case, self.spec.keep_accents)
        size = len(self._table)
        for token in tokens:
            self._table.extend(self._tokens[token])
        self._lengths.append(len(self._table) - size)
        return len(self._lengths) - 1

    def _wordpiece(self, token: str) -> list[int]:
        """Greedy longest match of one basic token."""
        known = self._ids
        if token in known:
            return [known[token]]
        if len(token) > MAX_WORD_CHARACTERS:
            return [self.unk_id]
        ids, start, size = [], 0, len(token)
        while start < size:
            prefix = "##" if start else ""
            stop = min(size, start + self._longest)
            while stop > start and (piece := prefix + token[start:stop]) not in known:
                stop -= 1
            if stop == start:
                return [self.unk_id]
            ids.append(known[piece])
            start = stop
        return ids

    def pieces(self, ids) -> list[str]:
        return [self._pieces[int(i)] for i in ids]

    def decode(self, ids) -> str:
        return " ".join(self.pieces(ids)).replace(" ##", "")

    def options(self) -> dict:
        return {"do_lower_case": self.spec.do_lower_case, "keep_accents": self.spec.keep_accents}


class _Memo(dict):
    """A dictionary that computes what it does not hold."""

    def __init__(self, compute):
        super().__init__()
        self._compute = compute

    def __missing__(self, key):
        value = self[key] = self._compute(key)
        return value


def _gather(table, lengths, words, counts) -> tuple[np.ndarray, np.ndarray]:
    """Ids of a sequence of words, and ids of each line of counts[i] words."""
    sizes = lengths[words] if len(words) else np.zeros(0, np.int64)
    ends = np.cumsum(sizes)
    starts = (np.cumsum(lengths) - lengths)[words] if len(words) else sizes
    ids = table[np.arange(int(ends[-1]) if len(ends) else 0) + np.repeat(starts - (ends - sizes), sizes)]
    borders = np.concatenate([[0], ends])[np.concatenate([[0], np.cumsum(counts)])]
    return ids, np.diff(borders)


def parse_vocabulary(path: Path, content: bytes) -> list[str]:
    """The entries of a vocab.txt: an entry's id is its line number from 0. Lines end at LF or CRLF, nowhere else.

    DataError, with line numbers, for duplicates and blank lines (which would shift or collide ids) and for files of
    another kind.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not a vocabulary: byte {error.start} is not UTF-8. Expected one entry a line; a SentencePiece "
            "model's name ends in .model"
        ) from None
    if "\0" in text:
        raise DataError(f"{path} is not a vocabulary: it holds NUL bytes. Expected one entry a line")
    lines = text.split("\n")
    while lines and not lines[-1].strip("\r"):
        lines.pop()
    pieces = [line.removesuffix("\r") for line in lines]
    if not pieces:
        raise UsageError(f"{path} is empty. Expected a vocabulary, one entry a line")
    # Not strip: entries may be or hold U+2028 and the like, which the text cannot reach but which have ids.
    blank = [i + 1 for i, piece in enumerate(pieces) if not piece.strip(" \t")]
    if blank:
        raise DataError(
            f"{path}: blank line {_some(blank)}. An entry's id is its line number, and readers disagree about blank "
            "lines; put the missing entry, or e.g. [unused0], there"
        )
    first: dict[str, int] = {}
    double = []
    for i, piece in enumerate(pieces):
        if piece in first:
            double.append(f"{i + 1} ({piece!r}, first on line {first[piece] + 1})")
        else:
            first[piece] = i
    if double:
        raise DataError(f"{path}: duplicate entries on line {_some(double)}. Each entry must have one id")
    return pieces


def _some(items: list) -> str:
    return ", ".join(str(item) for item in items[:5]) + (f" and {len(items) - 5} more" if len(items) > 5 else "")
