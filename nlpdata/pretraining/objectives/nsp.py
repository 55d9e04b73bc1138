"""Next sentence (BERT): the second segment follows the first, or is a random one of another document."""

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np

from nlpdata import keys
from nlpdata.keys import Purpose
from nlpdata.pretraining.assemble import Segments
from nlpdata.pretraining.buckets import BucketWork
from nlpdata.pretraining.chunking import Duplicate, Sentences
from nlpdata.pretraining.objectives.base import Chunk, Objective
from nlpdata.pretraining.options import PretrainingOptions
from nlpdata.pretraining.random_next import RandomSecond


class NextSentence(Objective):
    """Whether the second segment follows the first (label 0) or is of another document (label 1)."""

    task_type = "bert_pretraining"
    label_names = ("next", "random")
    own_options = ("nsp_scope",)

    def chunks(self, known: Sentences, start: int, duplicate: Duplicate) -> tuple[Sequence[Chunk], int]:
        """Chunks with their split; what a random second segment replaces is put back and chunked again.

        Returns (first sentence, split, last sentence + 1, tokens wanted of a random B, or 0 where B follows A) of each
        chunk, and the sentence where the next one starts. With a random B, the chunk ends at the split.
        """
        ends, stop, shift, target = known.ends, known.stop, known.shift, duplicate.target
        pair_key, example = keys.fold_int(duplicate.key, Purpose.PAIR), duplicate.examples
        chunks = []
        while start < stop:
            goal = target(start + shift)
            end = bisect_left(ends, ends[start] + goal, start + 1, stop + 1)
            if end > stop:
                if not known.final:
                    break
                end = stop
            draw = keys.draw_int(pair_key, example)
            split = start + 1 + (((draw >> 32) * (end - start - 1)) >> 32)
            if end - start == 1 or draw & 1:
                chunks.append((start, split, split, max(1, goal - (ends[split] - ends[start]))))
                start = split
            else:
                chunks.append((start, split, end, 0))
                start = end
            example += 1
        return chunks, start

    def segments(self, ends: np.ndarray, chunks: np.ndarray, example_keys: np.ndarray) -> Segments:
        """The segments of chunks whose B follows A."""
        start, middle, stop = ends[chunks[:, :3]].T
        return Segments(start, middle - start, middle, stop - middle, np.zeros(len(chunks), np.int64))

    def bucket_work(self, options: PretrainingOptions) -> BucketWork:
        return RandomSecond(
            window=options.max_seq_length,
            by_file=options.nsp_scope == "file",
            purpose="next-sentence prediction takes a random second segment from another document",
        )
