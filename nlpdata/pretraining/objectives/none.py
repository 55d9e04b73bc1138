"""Masked words alone: one segment, of one document or of several that are packed together."""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from nlpdata.pretraining.assemble import Segments, single_segments
from nlpdata.pretraining.buckets import BucketWork, NoBuckets
from nlpdata.pretraining.chunking import Duplicate, Sentences
from nlpdata.pretraining.objectives.base import Chunk, Objective
from nlpdata.pretraining.options import PretrainingOptions
from nlpdata.pretraining.packing import PackedDocuments


class MaskedWords(Objective):
    """No label; sentences are cut where an example is full."""

    task_type = "mlm_pretraining"
    own_options = ("pack_across_documents",)
    counts_tokens = True

    def chunks(self, known: Sentences, start: int, duplicate: Duplicate) -> tuple[Sequence[Chunk], int]:
        """Runs of tokens of exactly the target length, the document's last one shorter.

        Returns (first token, last token + 1) of each chunk, and the token where the next one starts.
        """
        ends, stop, shift, target = known.ends, known.stop, known.shift, duplicate.target
        chunks = []
        total = ends[stop]
        while start < total:
            sentence = bisect_right(ends, start, known.start, stop + 1) - 1
            end = start + target(sentence + shift)
            if end > total:
                if not known.final:
                    break
                end = total
            chunks.append((start, end))
            start = end
        return chunks, start

    def segments(self, ends: np.ndarray, chunks: np.ndarray, example_keys: np.ndarray) -> Segments:
        return single_segments(chunks[:, 0], chunks[:, 1] - chunks[:, 0])

    def bucket_work(self, options: PretrainingOptions) -> BucketWork:
        return PackedDocuments() if options.pack_across_documents else NoBuckets()
