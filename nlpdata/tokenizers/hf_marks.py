"""Steps of Hugging Face's tokenizers library that do what a SentencePiece model's replacements do.

Its Precompiled looks single characters up (and short groups of a character and its marks, by the first key that they
begin with). The model takes the longest key that comes next, and a key may be a letter and its marks; so composition, NFC,
goes before and after. But NFC also sorts marks, and composes across them, which the model does not do: marks behind
a character with which no key has them are replaced meanwhile by code points without a character.
"""

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import pairwise

from nlpdata.tokenizers.hf_steps import character_class, replace

# Unassigned, and ignored by every property that matters: one for all marks that no piece has, then one for each other.
_PLACES = range(0xE0200, 0xE1000)


def mark_steps(replacements: Mapping[str, str], pieces: Iterable[str]) -> tuple[list[dict], list[dict]]:
    """(steps that put marks aside, steps that put them back).

    Args:
      replacements: of the model.
      pieces: of the model. Marks of which none has a character have the same id, that of what is unknown; one stands for all.
    """
    before: dict[str, set[str]] = defaultdict(set)  # character -> those that it follows in a key
    for key in replacements:
        for first, second in pairwise(key):
            before[second].add(first)
    known = set().union(*pieces)
    aside: list[dict] = []
    back: list[dict] = []
    unknown: dict[frozenset, list[str]] = defaultdict(list)
    for mark in _marks():
        inner = frozenset(before.get(mark, ()))
        result = replacements.get(mark, mark)
        if known.isdisjoint(result):
            unknown[inner].append(mark)
        else:
            place = chr(_PLACES[len(back) + 1])
            aside.append(replace(_alone([mark], inner), place))
            back.append({"type": "Replace", "pattern": {"String": place}, "content": result})
    aside += [replace(_alone(marks, inner), chr(_PLACES[0])) for inner, marks in unknown.items()]
    return aside, back


def _alone(marks: list[str], inner: frozenset) -> str:
    """The pattern of one of some marks that is not behind one of some characters."""
    mark = character_class(marks)
    return f"{mark}(?<!{character_class(sorted(inner))}{mark})" if inner else mark


@cache
def _marks() -> tuple[str, ...]:
    """The characters with a canonical combining class."""
    return tuple(filter(unicodedata.combining, map(chr, range(0x110000))))
