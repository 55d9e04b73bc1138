"""Tokens with their places in the text: what span prediction needs, for every kind of tokenizer.

encoder = offset_encoder(load_tokenizer("tok/spm.model"))
tokens = encoder.encode(["Ångström was born in 1814."])
first, last = covering_tokens(tokens.starts, tokens.ends, 21, 25)      # the tokens of "1814"

Offsets count characters (code points) of the text as given, before any normalisation; a token ends behind its
last character. White space before a word is not part of it. Combining marks that normalisation drops belong to the
letter they modify; dropped control characters belong to no token.
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nlpdata.tokenizers import Tokenizer

# kind of tokenizer -> "module:class", called with the tokenizer.
OFFSET_ENCODERS = {
    "sentencepiece": "nlpdata.tokenizers.sentencepiece_offsets:SentencePieceOffsets",
    "wordpiece": "nlpdata.tokenizers.wordpiece_offsets:WordPieceOffsets",
}


@dataclass(frozen=True)
class Tokens:
    """The tokens of several texts, one after the other.

    ids: int32 (tokens,); lengths: int64 (texts,), tokens of each text; starts, ends: int64 (tokens,), characters of
    the token's own text. Starts and ends never fall within a text. A token may be empty (start == end), e.g. a word
    mark at the beginning.
    """

    ids: np.ndarray
    lengths: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


class OffsetEncoder(ABC):
    """Gives the ids that `Tokenizer.encode` gives, and where they come from."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Tokens: ...


def offset_encoder(tokenizer: Tokenizer) -> OffsetEncoder:
    """The offset encoder of a tokenizer; it may remember words, so keep it."""
    module, _, attribute = OFFSET_ENCODERS[tokenizer.kind].partition(":")
    return getattr(importlib.import_module(module), attribute)(tokenizer)


def covering_tokens(starts: np.ndarray, ends: np.ndarray, start: int, end: int) -> tuple[int, int]:
    """The smallest run of tokens (first, last) that covers the characters [start, end) of their text.

    last < first where no token has a character of it.
    """
    return int(np.searchsorted(ends, start, "right")), int(np.searchsorted(starts, end, "left")) - 1
