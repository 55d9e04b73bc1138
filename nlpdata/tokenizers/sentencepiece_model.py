"""The content of a serialized SentencePiece model: pieces, scores, replacements of characters (sentencepiece_model.proto)."""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from nlpdata.protobuf import fields, float32

_PIECE, _TRAINER, _NORMALIZER = 1, 2, 3  # fields of ModelProto
# TrainerSpec.ModelType, and ModelProto.SentencePiece.Type
UNIGRAM, BPE, WORD, CHAR = 1, 2, 3, 4
NORMAL, USER_DEFINED, UNUSED = 1, 4, 5


class SentencePieceModel:
    """The fields that matter for segmentation.

    Attributes:
      pieces, scores, types: of each id.
      model_type: UNIGRAM, BPE, WORD or CHAR.
      table: the replacements of characters in their serialized form; b"" where there are none.
      byte_fallback: unknown characters become pieces of one byte.
    """

    def __init__(self, serialized: bytes) -> None:
        parts: dict[int, list[dict[int, Any]]] = {}
        for number, _, value in fields(serialized):
            if number in (_PIECE, _TRAINER, _NORMALIZER):
                parts.setdefault(number, []).append({name: content for name, _, content in fields(value)})
        pieces = parts.get(_PIECE, [])
        self.pieces: list[str] = [piece[1].decode() for piece in pieces]
        self.scores = [float32(piece[2]) if 2 in piece else 0.0 for piece in pieces]
        self.types: list[int] = [piece.get(3, NORMAL) for piece in pieces]
        self._trainer, self._normalizer = (parts.get(number, [{}])[0] for number in (_TRAINER, _NORMALIZER))
        self.table: bytes = self._normalizer.get(2, b"")
        self.byte_fallback = bool(self._trainer.get(35, 0))
        self.model_type: int = self._trainer.get(3, UNIGRAM)

    @property
    def has_usual_spaces(self) -> bool:
        """Spaces are treated as in ALBERT's models: one before each word, none kept next to it."""
        spaces = (self._normalizer.get(number, 1) for number in (3, 4, 5))  # dummy prefix, extra ones removed, escaped
        return (self._trainer.get(24, 0), *spaces) == (0, 1, 1, 1)

    @cached_property
    def path_scores(self) -> np.ndarray:
        """Scores of the pieces as unigram_model.cc adds them up, float32: a user-defined symbol has a special one.

        That is its bytes times the best score of a piece, less 0.1. The best is sought from FLT_MIN up, so it is about 0.
        """
        scores, types = np.array(self.scores, np.float32), np.array(self.types)
        best = scores[types == NORMAL].max(initial=np.finfo(np.float32).tiny)
        for i in np.flatnonzero(types == USER_DEFINED).tolist():
            scores[i] = len(self.pieces[i].encode()) * best - 0.1
        return scores

    @property
    def replacements(self) -> Mapping[str, str]:
        """The table as text -> replacement; of keys that begin alike the longest goes first."""
        return read_table(self.table)


@lru_cache(maxsize=1)  # nearly all models have the same one, of 200,000 keys
def read_table(table: bytes) -> Mapping[str, str]:
    """Text -> replacement of a serialized table (precompiled_charsmap); {} for b"".

    Its form: the size of a double-array trie (4 bytes), the trie (github.com/s-yata/darts-clone, units of 4 bytes), whose
    values are offsets into what follows, strings that end with a zero byte.
    """
    size = int.from_bytes(table[:4], "little")
    units = np.frombuffer(table[4 : 4 + size], "<u4").astype(np.int64)
    strings = table[4 + size :]
    if not size:
        return {}
    # A unit at u with the label b is a child of the node whose base is u ^ b.
    labels = units & 0x800000FF
    units_at = np.flatnonzero((labels > 0) & (labels < 256))
    parents = units_at ^ labels[units_at]
    order = np.argsort(parents, kind="stable")
    units_at, parents = units_at[order], parents[order]
    found, keys, bases = {}, [b""], _offset(units[:1])
    while keys:
        first, last = np.searchsorted(parents, bases, "left"), np.searchsorted(parents, bases, "right")
        above = np.repeat(np.arange(len(keys)), last - first)
        within = np.arange(len(above)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
        nodes = units_at[np.repeat(first, last - first) + within]
        keys = [keys[i] + bytes([b]) for i, b in zip(above.tolist(), labels[nodes].tolist(), strict=True)]
        bases = nodes ^ _offset(units[nodes])
        for i in np.flatnonzero(units[nodes] >> 8 & 1).tolist():  # a key ends here
            start = int(units[bases[i]]) & 0x7FFFFFFF
            found[keys[i].decode()] = strings[start : strings.index(b"\0", start)].decode()
    return found


def _offset(units: np.ndarray) -> np.ndarray:
    return units >> 10 << ((units & 1 << 9) >> 6)
