"""WordPiece vocabularies, as BERT uses them."""

import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path

import numpy as np

from nlpdata.text.bert import BasicTokenizer
from nlpdata.tokenizers import Tokenizer, TokenizerSpec, read_checked, refuse_sentencepiece_vocab
from nlpdata.tokenizers.hf import WordPieceSettings, load_settings
from nlpdata.tokenizers.word_memo import WordMemo
from nlpdata.tokenizers.wordpiece_vocabulary import (
    CONTINUATION,
    SPECIAL_TOKENS,
    is_cased,
    ordinary_ids,
    special_ids,
    word_starts,
)

MAX_WORD_CHARACTERS = 200  # a longer word is [UNK]: google-research/bert (Hugging Face's is 100)
# The bound of the memos: measured, a process grows by 65 to 80 MB when both are full, the blocks in work included.
_MAX_WORDS = 1 << 18  # between spaces, punctuation and all
_MAX_TOKENS = 1 << 17  # after the basic tokenizer
_BLOCK = 1 << 19  # characters that are tokenized together


class WordPieceTokenizer(Tokenizer):
    """A vocab.txt with BERT's basic tokenizer: token for token what `FullTokenizer` of google-research/bert returns.

    A word between spaces has the same ids wherever it stands, so that a bounded memo of words does most of the work.
    Special tokens are never found in text: a literal "[MASK]" is "[", "mask" and "]", as in the original, and entries
    named as special tokens match nothing even if they have no brackets.
    Where neither the caller nor a file beside the vocabulary says so, text is lower-cased unless the vocabulary
    has capitals, which is said in `notes`. Instances may be shared by threads; they pickle as their spec.
    """

    kind = "wordpiece"

    def __init__(self, spec: TokenizerSpec):
        """Loads the file at spec.path, a vocab.txt or a tokenizer.json; UsageError if it is absent or of another
        kind, DataError if it is damaged or lacks special tokens."""
        self.path = spec.path
        content, self.sha256 = read_checked(spec)
        refuse_sentencepiece_vocab(Path(spec.path), content[:65536])
        settings = load_settings(spec.path, content, self.sha256)
        self._entries = settings.entries
        self._settings = settings
        self.vocab_size = len(self._entries)
        ids = special_ids(spec.path, self._entries, settings.special_tokens)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (ids[name] for name in SPECIAL_TOKENS)
        self._reserved = {*ids.values(), *settings.other_special_ids}
        self.notes: list[str] = list(settings.notes)
        self.spec = self._complete(spec, settings)
        basic = BasicTokenizer(
            do_lower_case=self.spec.do_lower_case,
            keep_accents=self.spec.keep_accents,
            tokenize_chinese_chars=settings.tokenize_chinese_chars,
        )
        match = LongestMatch(self._entries, self._reserved, self.unk_id)
        tokens = WordMemo(match.encode, _MAX_TOKENS)
        self._words = WordMemo(lambda words: tokens.encode(basic.tokens(words)), _MAX_WORDS)
        self._basic = basic
        self._lock = threading.Lock()

    def __reduce__(self):
        return type(self), (self.spec,)

    def _complete(self, spec: TokenizerSpec, settings: WordPieceSettings) -> TokenizerSpec:
        """The spec with every option decided: given, else stored beside the file, else told from the vocabulary."""
        lower, keep = spec.do_lower_case, spec.keep_accents
        cased = is_cased(self._entries, self.ordinary_ids)
        if lower is None:
            lower = settings.do_lower_case
            if lower is None:
                lower = not cased
                self.notes.append(
                    f"{spec.path} has no normalisation options beside it; its entries "
                    + (
                        "have capitals, so text is not lower-cased. "
                        if cased
                        else "have no capitals, so text is lower-cased. "
                    )
                    + "Where that is wrong, say so with --do-lower-case or --no-do-lower-case"
                )
        elif lower == cased:
            self.notes.append(
                f"{spec.path} was made from text that was {'not ' if cased else ''}lower-cased, but text is "
                + (
                    "lower-cased: its entries with capitals are never used"
                    if lower
                    else "not: words with capitals become [UNK]"
                )
            )
        if keep is None:
            keep = settings.keep_accents
        if keep is None:
            keep = not lower
        return replace(
            spec, kind=self.kind, sha256=self.sha256, do_lower_case=lower, keep_accents=keep, digit_comma=False
        )

    def options(self) -> dict:
        return {"do_lower_case": self.spec.do_lower_case, "keep_accents": self.spec.keep_accents}

    def meta(self) -> dict:
        """As in `Tokenizer`; `tokenize_chinese_chars` and `special_tokens` only where they are not BERT's."""
        meta = super().meta()
        if not self._settings.tokenize_chinese_chars:
            meta["tokenize_chinese_chars"] = False
        if self._settings.special_tokens != SPECIAL_TOKENS:
            meta["special_tokens"] = dict(self._settings.special_tokens)
        return meta

    def normalize(self, lines: Sequence[str]) -> list[str]:
        """The lines as they are: normalisation is part of what is remembered of each word."""
        return list(lines)

    def encode_normalized(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        parts = [(np.zeros(0, np.int32), np.zeros(0, np.int64))]
        with self._lock:
            for start, stop in _blocks(lines):
                parts.append(self._words.encode(self._basic.words(lines[start:stop])))
        ids, lengths = zip(*parts[min(len(parts) - 1, 1) :], strict=True)
        return (ids[0], lengths[0]) if len(ids) == 1 else (np.concatenate(ids), np.concatenate(lengths))

    def pieces(self, ids) -> list[str]:
        return [self._entries[i] for i in np.asarray(ids).tolist()]

    def decode(self, ids) -> str:
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

    def __init__(self, entries: Sequence[str], reserved: set[int], unk_id: int):
        """reserved: ids that no text may have."""
        known = [(entry, i) for i, entry in enumerate(entries) if i not in reserved]
        self._unk_id = unk_id
        self._first = {entry: i for entry, i in known if not entry.startswith(CONTINUATION)}
        self._next = {entry.removeprefix(CONTINUATION): i for entry, i in known if entry.startswith(CONTINUATION)}
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
    found: dict[str, set[int]] = {}
    for entry in table:
        if len(entry) >= 3:
            found.setdefault(entry[:3], set()).add(len(entry))
    return {prefix: (*sorted(lengths, reverse=True), *_SHORT) for prefix, lengths in found.items()}


def _blocks(lines: Sequence[str]) -> list[tuple[int, int]]:
    """[start, stop) of blocks of whole lines with about _BLOCK characters each."""
    sizes = np.fromiter(map(len, lines), dtype=np.int64, count=len(lines))
    if sizes.sum() <= _BLOCK:
        return [(0, len(lines))] if len(lines) else []
    block_of_line = (np.cumsum(sizes) - 1) // _BLOCK
    cuts = [0, *(np.flatnonzero(np.diff(block_of_line)) + 1).tolist(), len(lines)]
    return list(pairwise(cuts))
