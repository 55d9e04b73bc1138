"""Sentence order (ALBERT): two consecutive segments of one document, in their order or swapped."""

from collections.abc import Sequence

import numpy as np

from nlpdata import keys
from nlpdata.keys import Purpose
from nlpdata.pretraining.assemble import Segments
from nlpdata.pretraining.chunking import Duplicate, Sentences, sentence_chunks
from nlpdata.pretraining.objectives.base import Chunk, Objective


class SentenceOrder(Objective):
    """Whether the two segments are in their order (label 0) or swapped (label 1)."""

    task_type = "albert_pretraining"
    label_names = ("in_order", "swapped")
    advice = "sentence order needs documents of two or more"

    def chunks(self, known: Sentences, start: int, duplicate: Duplicate) -> tuple[Sequence[Chunk], int]:
        """Chunks of two sentences or more.

        The originals pair a chunk of one sentence with a random document, and so teach another task. Here it takes the
        next sentence as well, or joins the chunk before it; a document of one sentence has no chunk.
        """
        return sentence_chunks(known, start, duplicate.target, least=2)

    def segments(self, ends: np.ndarray, chunks: np.ndarray, example_keys: np.ndarray) -> Segments:
        """Splits each chunk at a random sentence; half of the pairs are swapped."""
        first, stop = chunks.T
        middle = ends[first + 1 + keys.below(keys.draw(example_keys, Purpose.SPLIT), stop - first - 1)]
        begin, end = ends[first], ends[stop]
        swap = keys.below(keys.draw(example_keys, Purpose.SWAP), 2)
        return Segments(
            np.where(swap, middle, begin),
            np.where(swap, end - middle, middle - begin),
            np.where(swap, begin, middle),
            np.where(swap, middle - begin, end - middle),
            swap,
        )

    def unused(self, sentences: int) -> str | None:
        return "one_sentence_document" if sentences == 1 else None
