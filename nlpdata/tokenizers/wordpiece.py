"""WordPiece vocabularies, as BERT uses them.

Words repeat, so each distinct word between spaces is tokenized once and remembered. The memory is bounded: at most
2^18 words and 2^17 basic tokens, 16 characters each on average, and what one block of text adds. Full, it takes
about 80 MB (see `WordMemo`); ids never depend on it.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from nlpdata.errors import Message, opt
from nlpdata.text.bert import BasicTokenizer
from nlpdata.tokenizers import SPECIAL_ROLES, Tokenizer, TokenizerSpec
from nlpdata.tokenizers.files import read_checked, refuse_sentencepiece_vocab
from nlpdata.tokenizers.hf import is_json, parse_tokenizer_json, wordpiece_entries, wordpiece_options
from nlpdata.tokenizers.hf_next_to import contradiction
from nlpdata.tokenizers.stored import complete_special_tokens, stored_options
from nlpdata.tokenizers.word_memo import WordMemo
from nlpdata.tokenizers.wordpiece_vocabulary import (
    CONTINUATION,
    SPECIAL_TOKENS,
    is_cased,
    ordinary_ids,
    read_vocabulary,
    special_ids,
    word_starts,
)

MAX_WORD_CHARACTERS = 200  # a longer word is [UNK]: google-research/bert (Hugging Face's is 100)
MEMO_WORDS = 1 << 18  # between spaces, punctuation and all
MEMO_TOKENS = 1 << 17  # after the basic tokenizer
_BLOCK = 1 << 19  # characters that are tokenized together


class WordPieceTokenizer(Tokenizer):
    """A vocab.txt with BERT's basic tokenizer: token for token what `FullTokenizer` of google-research/bert returns.

    Special tokens are never found in text: a literal "[MASK]" is "[", "mask" and "]", as in the original, and entries
    named as special tokens match nothing even if they have no brackets.
    Where neither the caller nor a file next to the vocabulary decides, text is lower-cased unless the vocabulary
    has capitals, which `notes` reports. Threads may share an instance.
    """

    kind = "wordpiece"

    def __init__(self, spec: TokenizerSpec) -> None:
        """Loads the file at spec.path, a vocab.txt or a tokenizer.json; UsageError if it is absent or of another
        kind, DataError if it is damaged or lacks special tokens."""
        self.path = spec.path
        content, self.sha256 = read_checked(spec.path, spec.sha256)
        refuse_sentencepiece_vocab(Path(spec.path), content)
        described: dict[str, Any] = {}
        if is_json(content):
            fast = parse_tokenizer_json(spec.path, content)
            self._entries, described = wordpiece_entries(spec.path, fast), wordpiece_options(spec.path, fast)
        else:
            self._entries = read_vocabulary(spec.path, content)
        self.vocab_size = len(self._entries)
        self.notes: list[str] = []
        stored = stored_options(Path(spec.path), self.sha256)
        special = spec.special_tokens or complete_special_tokens(
            SPECIAL_TOKENS, stored.get("special_tokens", ()), described.get("special_tokens", ())
        )
        self._reserve(special)
        options = self._decide(spec, described | stored)
        if spec.special_tokens is None:
            from_files = {name: value for name, value in options.items() if getattr(spec, name) is None}
            note = contradiction(Path(spec.path), self.kind, self._entries, from_files)
            self.notes += [note] if note else []
        self.spec = replace(spec, kind=self.kind, sha256=self.sha256, special_tokens=special, **options)
        self._basic = BasicTokenizer(**options)
        match = LongestMatch(self._entries, self._reserved, self.unk_id)
        self._tokens = WordMemo(match.encode, MEMO_TOKENS)
        self._words = WordMemo(lambda words: self._tokens.encode(self._basic.tokens(words)), MEMO_WORDS)
        self._lock = threading.Lock()

    def _reserve(self, special: tuple[str, ...]) -> None:
        """Ids of the special tokens; the others than SPECIAL_ROLES may be absent, which is reported."""
        count = len(SPECIAL_ROLES)
        ids = special_ids(self.path, self._entries, special[:count])
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = ids
        others = set(special[count:])
        found = {i: entry for i, entry in enumerate(self._entries) if entry in others} if others else {}
        self._reserved = {*ids, *found}
        if absent := sorted(others - set(found.values())):
            self.notes.append(
                f"{len(absent)} special tokens named next to {self.path} are not in it ({', '.join(absent[:5])}); they are "
                f"not used, and the vocabulary has {self.vocab_size} entries"
            )

    def _decide(self, spec: TokenizerSpec, known: dict[str, Any]) -> dict[str, Any]:
        """Every option: given, else known from files, else told from the vocabulary."""
        cased = is_cased(self._entries, self.ordinary_ids)
        lower = spec.do_lower_case
        if lower is None:
            lower = known.get("do_lower_case")
            if lower is None:
                lower = not cased
                found = "have capitals, so text is not" if cased else "have no capitals, so text is"
                note = Message(
                    f"{spec.path} has no normalisation options next to it; its entries {found} lower-cased. Where that is "
                    f"wrong, use {opt('do_lower_case', not lower)}"
                )
                self.notes.append(str(note))
        elif lower == cased:
            found = (
                "not lower-cased, but text is: its entries with capitals are never used"
                if cased
                else "lower-cased, but text is not: words with capitals become [UNK]"
            )
            self.notes.append(f"{spec.path} was made from text that was {found}")
        keep = spec.keep_accents if spec.keep_accents is not None else known.get("keep_accents")
        chinese = spec.tokenize_chinese_chars
        return {
            "do_lower_case": lower,
            "keep_accents": not lower if keep is None else keep,
            "tokenize_chinese_chars": known.get("tokenize_chinese_chars", True) if chinese is None else chinese,
        }

    def options(self) -> dict:
        names = ("do_lower_case", "keep_accents", "tokenize_chinese_chars")
        return {name: getattr(self.spec, name) for name in names}

    def normalize(self, lines: Sequence[str]) -> list[str]:
        """The lines as they are: normalisation is part of what is remembered of each word."""
        return list(lines)

    def as_read(self, lines: Sequence[str]) -> list[str]:
        """The basic tokens of each line, with a space between them."""
        with self._lock:
            return self._basic.lines(lines)

    def encode_normalized(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        parts = [(np.zeros(0, np.int32), np.zeros(0, np.int64))]
        with self._lock:
            for start, stop in _blocks(lines):
                parts.append(self._words.encode(self._basic.words(lines[start:stop])))
        ids, lengths = zip(*parts, strict=True)
        return np.concatenate(ids), np.concatenate(lengths)

    def special_ids(self) -> list[int]:
        return sorted(self._reserved)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        return [self._entries[i] for i in np.asarray(ids).tolist()]

    def decode(self, ids: Iterable[int]) -> str:
        return " ".join(self.pieces(ids)).replace(f" {CONTINUATION}", "")

    @cached_property
    def ordinary_ids(self) -> np.ndarray:
        """int32, ascending: neither special nor unused."""
        return ordinary_ids(self._entries, self._reserved)

    @cached_property
    def word_start(self) -> np.ndarray:
        """bool (vocab_size,): the entry does not begin with "##"."""
        return word_starts(self._entries)


class LongestMatch:
    """Greedy longest match first, the `WordpieceTokenizer` of google-research/bert.

    Of all prefixes of the rest of a word only those are tried whose length some entry with the same first three
    characters has.
    """

    def __init__(self, entries: Sequence[str], reserved: set[int], unk_id: int) -> None:
        """reserved: ids that no text may have."""
        self._unk_id = unk_id
        self._first: dict[str, int] = {}
        self._next: dict[str, int] = {}
        for i, entry in enumerate(entries):
            if i in reserved:
                continue
            if entry.startswith(CONTINUATION):
                self._next[entry[len(CONTINUATION) :]] = i
            else:
                self._first[entry] = i
        self._first_lengths = _lengths(self._first)
        self._next_lengths = _lengths(self._next)

    def encode(self, tokens: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Basic tokens, none empty -> ids int32 of all of them, and how many each has, int64 (len(tokens),)."""
        ids, lengths = [], []
        first = self._first
        for token in tokens:
            whole = first.get(token)
            if whole is not None and len(token) <= MAX_WORD_CHARACTERS:
                ids.append(whole)
                lengths.append(1)
            else:
                pieces = self._match(token)
                ids += pieces
                lengths.append(len(pieces))
        return np.array(ids, dtype=np.int32), np.array(lengths, dtype=np.int64)

    def _match(self, token: str) -> list[int]:
        if len(token) > MAX_WORD_CHARACTERS:
            return [self._unk_id]
        ids = []
        table, lengths = self._first, self._first_lengths
        start, stop = 0, len(token)
        while start < stop:
            for length in lengths.get(token[start : start + 3], _SHORT):
                piece = table.get(token[start : start + length])  # near the end the slice is shorter than `length`
                if piece is not None:
                    break
            else:
                return [self._unk_id]
            ids.append(piece)
            start += length
            table, lengths = self._next, self._next_lengths
        return ids


_SHORT = (2, 1)


def _lengths(table: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """First three characters -> the lengths of the entries that begin with them, and 2 and 1, longest first."""
    found: dict[str, int] = {}  # bit n: an entry of length n
    for entry in table:
        if len(entry) >= 3:
            prefix = entry[:3]
            found[prefix] = found.get(prefix, 0) | 1 << len(entry)
    tuples = {
        bits: tuple(n for n in range(bits.bit_length() - 1, 2, -1) if bits >> n & 1) for bits in {*found.values()}
    }
    return {prefix: tuples[bits] + _SHORT for prefix, bits in found.items()}


def _blocks(lines: Sequence[str]) -> list[tuple[int, int]]:
    """[start, stop) of blocks of whole lines with about _BLOCK characters each."""
    sizes = np.fromiter(map(len, lines), dtype=np.int64, count=len(lines))
    if sizes.sum() <= _BLOCK:
        return [(0, len(lines))] if len(lines) else []
    block_of_line = (np.cumsum(sizes) - 1) // _BLOCK
    cuts = [0, *(np.flatnonzero(np.diff(block_of_line)) + 1).tolist(), len(lines)]
    return list(pairwise(cuts))
