"""What an objective declares. The builder, the stages, the plan, the meta file and Beam's steps ask nothing else.

class SentenceOrder(Objective):
    label_names = ("in_order", "swapped")

    def chunks(self, known, start, duplicate): ...        # sentences of a document -> chunks
    def segments(self, ends, chunks, example_keys): ...   # chunks -> segments A and B, and labels
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nlpdata.pretraining.assemble import Segments
from nlpdata.pretraining.buckets import BucketWork, NoBuckets
from nlpdata.pretraining.chunking import Duplicate, Sentences
from nlpdata.records.contract import is_pretraining

if TYPE_CHECKING:
    from nlpdata.pretraining.options import PretrainingOptions

Chunk = tuple[int, ...]


class Objective(ABC):
    """An objective of pretraining. It holds no state: one object serves all documents.

    Attributes:
      task_type: the meta file's; ends in "pretraining".
      label_names: what next_sentence_labels 0 and 1 mean. Empty: records have one segment and no such labels.
      own_options: fields of PretrainingOptions that only objectives which list them accept.
      counts_tokens: chunks start at a token, not at a sentence: `chunks` takes and returns tokens.
      advice: what else to do about a corpus that gives no example, for the end of the message.
    """

    task_type: str = "pretraining"
    label_names: tuple[str, ...] = ()
    own_options: tuple[str, ...] = ()
    counts_tokens: bool = False
    advice: str = ""

    @property
    def pairs(self) -> bool:
        """Whether records are [CLS] A [SEP] B [SEP] with next_sentence_labels; else they are [CLS] A [SEP]."""
        return bool(self.label_names)

    @abstractmethod
    def chunks(self, known: Sentences, start: int, duplicate: Duplicate) -> tuple[Sequence[Chunk], int]:
        """Cuts sentences into chunks that later sentences of the document cannot change.

        Args:
          known: the sentences of a document that are known.
          start: where the next chunk starts: a sentence of `known`, or a token with `counts_tokens`.
          duplicate: the key of the document's duplicate, its target lengths, and the number of its examples so far.

        Returns:
          the chunks, all tuples of equal length, and where the next one starts. The numbers are those of `known`.
        """

    @abstractmethod
    def segments(self, ends: np.ndarray, chunks: np.ndarray, example_keys: np.ndarray) -> Segments:
        """The segments of chunks as slices of the tokens. Those that are too long are cut afterwards.

        Args:
          ends: int64 cumulative token counts of all sentences, with a leading 0: sentence i is ends[i] : ends[i + 1].
          chunks: int64 (n, width), what `chunks` returned, of any documents.
          example_keys: uint64 (n,); every draw comes from them (see nlpdata.keys).
        """

    def unused(self, sentences: int) -> str | None:
        """Why a document of that many sentences gives no example, e.g. "one_sentence_document"; None where it gives one.

        The meta file counts its sentences as dropped for this reason.
        """
        return None

    def bucket_work(self, options: "PretrainingOptions") -> BucketWork:
        """What examples need from other documents, which meet in buckets; by default nothing."""
        return NoBuckets()

    def fault(self) -> str | None:
        """What is wrong with the declarations, for the author of an objective."""
        for name, value in (("label_names", self.label_names), ("own_options", self.own_options)):
            if not (isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)):
                return f'{name} must be a tuple of strings, e.g. ("a", "b"). Received: {value!r}.'
        if len(self.label_names) not in (0, 2):
            return f"label_names must be two names or none. Received: {self.label_names!r}."
        if not (isinstance(self.task_type, str) and is_pretraining(self.task_type)):
            return f'task_type must end in "pretraining". Received: {self.task_type!r}.'
        return None
