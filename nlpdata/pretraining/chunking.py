"""Sentences of a document -> chunks of about the target length; one function an objective.

`ends` counts tokens cumulatively with a leading 0: sentence i is tokens ends[i] : ends[i + 1]. A chunker takes the
sentences start : stop that are known of a document and whether it ends there; it returns the chunks that later
sentences cannot change, and where the next chunk starts. So a document may come in any number of pieces, with the same
chunks.

The target length is the full budget, or, with probability short_seq_prob, a random shorter one; it is drawn for every
SHORT_SEQ_PERIOD sentences of a document, so that one long document is not all short (the originals draw once a
document, which is the same up to that many sentences).

Rules of create_pretraining_data.py (google-research/bert, google-research/albert); differences are stated below.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence

from nlpdata import keys

SHORT_SEQ_PERIOD = 1000

Target = Callable[[int], int]  # index of a sentence in its document -> target length in tokens


class ShortSequences:
    """The target length of each chunk of one document in one duplicate.

    Args:
      key: the key of (document, duplicate, purpose).
      budget: tokens that fit into an example beside the special ones.
      probability: short_seq_prob.
    """

    def __init__(self, key: int, budget: int, probability: float):
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


def sentence_order_chunks(
    ends: Sequence[int], start: int, stop: int, shift: int, target: Target, final: bool
) -> tuple[list[tuple[int, int]], int]:
    """Chunks of at least two sentences each.

    A chunk is filled until it reaches its target. One that a single sentence fills takes the next sentence as well; a
    single sentence at the document's end joins the chunk before it (the originals pair both with a random document and
    so teach another task). A document of one sentence has no chunk.

    Args:
      ends: see above.
      start, stop: the known sentences.
      shift: sentence i is number i + shift of its document.
      target: see `Target`.
      final: the document ends at `stop`.

    Returns:
      [(first sentence, last sentence + 1)], and the sentence where the next chunk starts.
    """
    chunks = []
    while stop - start > 1:
        end = bisect_left(ends, ends[start] + target(start + shift), start + 1, stop + 1)
        end = max(end, start + 2)
        if stop - end < 2:  # too few sentences behind it to be a chunk of their own: the document's last, or wait
            if not final:
                break
            end = stop
        chunks.append((start, end))
        start = end
    return chunks, start


def next_sentence_chunks(
    ends: Sequence[int],
    start: int,
    stop: int,
    shift: int,
    target: Target,
    final: bool,
    bits: Callable[[int], int],
    example: int,
) -> tuple[list[tuple[int, int, int, int]], int]:
    """Chunks with their split; what a random second segment replaces is put back and chunked again.

    Args: as `sentence_order_chunks`, and
      bits: example number -> 64 random bits.
      example: number of the first example.

    Returns:
      [(first sentence, split, last sentence + 1, tokens wanted of a random B, or 0 where B follows A)], and the
      sentence where the next chunk starts. With a random B, the chunk ends at the split.
    """
    chunks = []
    while start < stop:
        goal = target(start + shift)
        end = bisect_left(ends, ends[start] + goal, start + 1, stop + 1)
        if end > stop:
            if not final:
                break
            end = stop
        draw = bits(example)
        split = start + 1 + (((draw >> 32) * (end - start - 1)) >> 32)
        if end - start == 1 or draw & 1:
            chunks.append((start, split, split, max(1, goal - (ends[split] - ends[start]))))
            start = split
        else:
            chunks.append((start, split, end, 0))
            start = end
        example += 1
    return chunks, start


def stream_chunks(
    ends: Sequence[int], position: int, start: int, stop: int, shift: int, target: Target, final: bool
) -> tuple[list[tuple[int, int]], int]:
    """Runs of tokens of exactly the target length, the document's last one shorter.

    Args: as `sentence_order_chunks`, and
      position: the token to start from, in one of the known sentences.

    Returns:
      [(first token, last token + 1)], and the token where the next chunk starts.
    """
    chunks = []
    total = ends[stop]
    while position < total:
        start = bisect_right(ends, position, start, stop + 1) - 1
        end = position + target(start + shift)
        if end > total:
            if not final:
                break
            end = total
        chunks.append((position, end))
        position = end
    return chunks, position
