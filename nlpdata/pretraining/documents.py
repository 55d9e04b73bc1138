"""A document while its sentences come in: see nlpdata.pretraining.build."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nlpdata.corpus import CorpusFile
from nlpdata.pretraining.chunking import Duplicate


@dataclass
class Document:
    """The state of a document.

    Attributes:
      file, offset: its file, and its place in it.
      key, split: its key, and the split that it goes to.
      duplicate_keys: one key for each duplicate.
      duplicates: the state of each duplicate; empty where all examples are made in buckets.
      first, first_token: number in the document of the first sentence and token that are held.
      sentences: sentences so far.
      gathered: what the bucket work keeps of a document that is not held whole.
    """

    file: CorpusFile
    offset: int
    key: int
    split: str
    duplicate_keys: list[int]
    duplicates: list[Duplicate]
    first: int = 0
    first_token: int = 0
    sentences: int = 0
    gathered: Any = None


def places(documents: Sequence[Document]) -> np.ndarray:
    """File id and offset of each document, the first two ties of all that is made of it: uint64 (n, 2)."""
    found = [(document.file.file_id, document.offset) for document in documents]
    return np.array(found, np.uint64).reshape(-1, 2)
