"""The interface of all tokenizers, and the loader that finds the kind of a file."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.files.paths import path_of
from nlpdata.registry import Registry
from nlpdata.tokenizers.files import fetch, find_tokenizer_file, read_bytes, refuse_sentencepiece_vocab, tokenizer_kind

# The class is called with a TokenizerSpec.
TOKENIZERS = Registry(
    "tokenizer type",
    {
        "sentencepiece": "nlpdata.tokenizers.sentencepiece:SentencePieceTokenizer",
        "wordpiece": "nlpdata.tokenizers.wordpiece:WordPieceTokenizer",
    },
    by_path=False,  # a meta file names the type
)
OPTIONS = ("do_lower_case", "keep_accents", "digit_comma", "tokenize_chinese_chars")
SPECIAL_ROLES = ("pad", "unk", "cls", "sep", "mask")


@dataclass(frozen=True)
class TokenizerSpec:
    """All it takes to load a tokenizer: small, picklable, and equal specs load equal tokenizers.

    An option that is None takes the value stored next to the file (`stored_options`), else the kind's default.
    """

    path: str  # a .model file, a vocab.txt, a tokenizer.json, or a folder with one of them
    do_lower_case: bool | None = None
    keep_accents: bool | None = None
    digit_comma: bool | None = None  # SentencePiece only: ALBERT's split of "9," into "9" and ","
    tokenize_chinese_chars: bool | None = None  # WordPiece only: every ideograph is a word
    special_tokens: tuple[str, ...] | None = None  # entries for SPECIAL_ROLES, then others that no text is given
    kind: str | None = None  # a key of TOKENIZERS; None: told from the name, else from the content
    sha256: str | None = None  # if given, the file must have this checksum

    @classmethod
    def from_meta(cls, entry: Mapping, folder: str | Path = ".") -> "TokenizerSpec":
        """The spec of a meta file's `tokenizer` entry; `folder` is that of the meta file, and so of `file`."""
        if "file" not in entry:
            raise DataError(f"the tokenizer entry of the meta file names no file; it has {sorted(entry)}")
        options: dict[str, Any] = {name: entry[name] for name in OPTIONS if entry.get(name) is not None}
        if entry.get("special_tokens"):
            options["special_tokens"] = tuple(entry["special_tokens"])
        return cls(str(path_of(folder) / entry["file"]), kind=entry.get("type"), sha256=entry.get("sha256"), **options)


TokenizerSource = str | PathLike[str] | TokenizerSpec | Mapping[str, Any]
"""What load_tokenizer takes: a path, a spec, or a meta file's `tokenizer` entry."""


class Tokenizer(ABC):
    """What every tokenizer offers. Ids are int32; none of the methods adds [CLS] or [SEP]."""

    kind: str  # a key of TOKENIZERS
    spec: TokenizerSpec  # complete (no option None): workers load an equal tokenizer from it
    path: str
    sha256: str  # of the file
    vocab_size: int
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    notes: list[str]  # what a user should know about the tokenizer

    @property
    @abstractmethod
    def ordinary_ids(self) -> np.ndarray:
        """Ids that may replace a token: int32, ascending; no special, control or unused ones."""

    @property
    @abstractmethod
    def word_start(self) -> np.ndarray:
        """Whether each piece begins a word (whole-word masking, token_boundary): bool (vocab_size,)."""

    @abstractmethod
    def normalize(self, lines: Sequence[str]) -> list[str]:
        """The text that is segmented, line by line."""

    def as_read(self, lines: Sequence[str]) -> list[str]:
        """What of each line reaches the vocabulary, without accents that are dropped: to report it, not to encode it."""
        return self.normalize(lines)

    @abstractmethod
    def encode_normalized(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """`encode` of lines that `normalize` has returned."""

    def encode(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of all lines, one after the other: int32 (sum of lengths,), and lengths: int64 (len(lines),).

        A line of which nothing is left has length 0. Literal "[SEP]" and the like in the text are text. TypeError for a
        single text, whose characters would be the lines.
        """
        if isinstance(lines, str):
            raise TypeError(f"expected a list of texts. Received: {lines[:40]!r}. Put it into a list: encode([text])")
        return self.encode_normalized(self.normalize(lines))

    @abstractmethod
    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The vocabulary entry of each id."""

    @abstractmethod
    def decode(self, ids: Iterable[int]) -> str:
        """Readable text of ids, for display; not an inverse of `encode`."""

    def __reduce__(self) -> tuple:
        """Pickled as its spec: another process loads an equal tokenizer from the same file."""
        return load_tokenizer, (self.spec,)

    @abstractmethod
    def special_ids(self) -> list[int]:
        """Ids of the special tokens: those of SPECIAL_ROLES, and others that no text is given; ascending."""

    @abstractmethod
    def options(self) -> dict:
        """The options that decide about ids, none of them None; keys of OPTIONS."""

    def meta(self) -> dict:
        """The meta file's `tokenizer` entry, but for `file`. `ordinary_ids` is a list of [start, stop) ranges."""
        return {
            "type": self.kind,
            "sha256": self.sha256,
            "vocab_size": self.vocab_size,
            "special_ids": {role: int(getattr(self, f"{role}_id")) for role in SPECIAL_ROLES},
            "special_tokens": list(self.spec.special_tokens or ()),
            "ordinary_ids": ranges(self.ordinary_ids),
            **self.options(),
        }


def count_unknown(ids: np.ndarray, tokenizer: Tokenizer) -> int:
    """How many ids, as `encode` returns them, stand for text that the vocabulary cannot spell.

    A word mark of SentencePiece that stands alone before an unknown piece belongs to it.
    """
    unknown = ids == tokenizer.unk_id
    count = int(np.count_nonzero(unknown))
    mark = getattr(tokenizer, "mark_id", None)
    if not count or mark is None:
        return count
    return count + int(np.count_nonzero(ids[np.flatnonzero(unknown[1:])] == mark))


def load_tokenizer(source: TokenizerSource, **options: Any) -> Tokenizer:
    """Loads a tokenizer from a TokenizerSpec, a path (str or Path) or a meta file's `tokenizer` entry (a mapping).

    `options` are fields of TokenizerSpec that override the source, and for a mapping also `folder`.
    Raises UsageError where the choice of file or option is wrong, DataError where the file is.
    """
    if isinstance(source, Mapping):
        spec = TokenizerSpec.from_meta(source, options.pop("folder", "."))
    else:
        spec = source if isinstance(source, TokenizerSpec) else TokenizerSpec(str(source))
    unknown = sorted(options.keys() - TokenizerSpec.__dataclass_fields__.keys())
    if unknown:
        raise UsageError(f"unknown tokenizer option {unknown[0]}; known: {', '.join(OPTIONS)}")
    spec = replace(spec, **{name: value for name, value in options.items() if value is not None})
    path = find_tokenizer_file(fetch(spec.path))
    refuse_sentencepiece_vocab(path, read_bytes(path))
    kind = spec.kind or tokenizer_kind(path)
    loaded: Tokenizer = TOKENIZERS.get(kind)(replace(spec, path=str(path), kind=kind))
    if not loaded.ordinary_ids.size:
        raise DataError(
            f"{path} holds special pieces only ({loaded.vocab_size}): it spells no text. Is it the right file? Train a vocabulary "
            "with nlpdata train-tokenizer"
        )
    return loaded


def ranges(ids: np.ndarray) -> list[list[int]]:
    """Ascending ids as [start, stop) pairs: [2, 3, 4, 9] -> [[2, 5], [9, 10]]."""
    ids = np.asarray(ids, dtype=np.int64)
    if not ids.size:
        return []
    cuts = np.flatnonzero(np.diff(ids) != 1)
    starts = ids[np.concatenate(([0], cuts + 1))]
    stops = ids[np.concatenate((cuts, [ids.size - 1]))] + 1
    return [[int(a), int(b)] for a, b in zip(starts, stops, strict=True)]
