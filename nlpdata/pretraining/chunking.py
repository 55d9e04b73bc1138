"""Chunks: sentences of one document that become one example. What the objectives' rules of cutting share.

`ends` counts tokens cumulatively with a leading 0: sentence i is tokens ends[i] : ends[i + 1]. An objective takes the
sentences that are known of a document (`Sentences`) and the state of one of its duplicates (`Duplicate`). It returns
the chunks that later sentences cannot change, and where the next chunk starts. So a document may come in any number of
parts, with the same chunks.

The target length is the full budget, or, with probability short_seq_prob, a random shorter one; it is drawn for every
SHORT_SEQ_PERIOD sentences of a document, so that one long document is not all short (the originals draw once a
document, which is the same up to that many sentences).

Rules of create_pretraining_data.py (google-research/bert, google-research/albert); each objective states its differences.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nlpdata import keys

SHORT_SEQ_PERIOD = 1000

Target = Callable[[int], int]  # index of a sentence in its document -> target length in tokens


class Sentences(NamedTuple):
    """The sentences that are known of a document, among those of a block.

    Attributes:
      ends: where the tokens of the block's sentences end (see above).
      start, stop: the document's sentences are start : stop.
      shift: sentence i of the block is number i + shift of the document.
      token_shift: token i of the block is number i + token_shift of the document.
      final: the document ends at `stop`.
    """

    ends: Sequence[int]
    start: int
    stop: int
    shift: int
    token_shift: int
    final: bool


class ShortSequences:
    """The target length of each chunk of one document in one duplicate.

    Args:
      key: the key of (document, duplicate, purpose).
      budget: tokens that fit into an example next to the special ones.
      probability: short_seq_prob.
    """

    def __init__(self, key: int, budget: int, probability: float) -> None:
        self._key, self._budget, self._threshold = key, budget, round(probability * 2**32)
        self._period, self._target = -1, budget

    def __call__(self, sentence: int) -> int:
        period = sentence // SHORT_SEQ_PERIOD
        if period != self._period:
            self._period = period
            draw = keys.draw_int(self._key, period)
            short = (draw >> 32) < self._threshold
            self._target = 2 + (((draw & 0xFFFFFFFF) * (self._budget - 1)) >> 32) if short else self._budget
        return self._target


@dataclass(slots=True)
class Duplicate:
    """One use of a document while its sentences come in.

    Attributes:
      key: the key of (document, duplicate).
      target: the target length of a chunk, by the number in the document of the sentence in which it starts.
      start: where the next chunk starts: a number in the document, of a sentence or a token as the objective counts.
      examples: examples so far.
    """

    key: int
    target: Target
    start: int = 0
    examples: int = 0


def sentence_chunks(known: Sentences, start: int, target: Target, least: int) -> tuple[list[tuple[int, int]], int]:
    """Chunks of whole sentences, each filled until it reaches its target and holds `least` sentences.

    Fewer than `least` sentences at the document's end join the chunk before them; a document of fewer has no chunk.

    Args:
      known: the sentences.
      start: the sentence of the block where the next chunk starts.
      target: see `Target`.
      least: sentences of a chunk, 1 or more.

    Returns:
      [(first sentence, last sentence + 1)], and the sentence where the next chunk starts.
    """
    ends, stop, shift = known.ends, known.stop, known.shift
    chunks = []
    while stop - start >= least:
        end = bisect_left(ends, ends[start] + target(start + shift), start + 1, stop + 1)
        end = max(end, start + least)
        if stop - end < least:  # too few sentences are left for a chunk: they are the document's last, or wait
            if not known.final:
                break
            end = stop
        chunks.append((start, end))
        start = end
    return chunks, start
