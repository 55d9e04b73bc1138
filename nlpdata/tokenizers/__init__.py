"""Tokenizers: one interface, one loader. A new kind is one module and one line in nlpdata.tokenizers.interface.TOKENIZERS.

    tokenizer = load_tokenizer("tok/spm.model")
    ids, lengths = tokenizer.encode(["First line.", "Second line."])     # int32 of all lines, int64 (2,)

What is imported from here is loaded when first used: options of commands are in modules of this package, and need none of it.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nlpdata.tokenizers.interface import (
        OPTIONS,
        SPECIAL_ROLES,
        TOKENIZERS,
        Tokenizer,
        TokenizerSource,
        TokenizerSpec,
        count_unknown,
        load_tokenizer,
        ranges,
    )

__all__ = [
    "OPTIONS",
    "SPECIAL_ROLES",
    "TOKENIZERS",
    "Tokenizer",
    "TokenizerSource",
    "TokenizerSpec",
    "count_unknown",
    "load_tokenizer",
    "ranges",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("nlpdata.tokenizers.interface"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
