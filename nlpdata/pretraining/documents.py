"""A document while its sentences come in: see nlpdata.pretraining.build."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nlpdata.corpus import CorpusFile
from nlpdata.corpus.source import place
from nlpdata.pretraining.chunking import Duplicate

PLACE = "at/"
"""Before the names of counters that are places of documents (see place_code)."""
LONGEST, EMPTY = f"{PLACE}longest_document", f"{PLACE}empty_after_tokenization"
"""The longest document, and the first one with a sentence of which the tokenizer's normalisation left nothing."""
_OFFSET_BITS = 48


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


def place_code(file: CorpusFile, offset: int) -> int:
    """A document's place as one number, ascending in the order of the corpus."""
    return (file.number << _OFFSET_BITS) + offset


def place_of(code: int, files: Sequence[CorpusFile]) -> str:
    """A place in words: file, line where it is cheap to tell, byte."""
    return place(files[code >> _OFFSET_BITS], code & ((1 << _OFFSET_BITS) - 1))


def places(documents: Sequence[Document]) -> np.ndarray:
    """File id and offset of each document, the first two ties of all that is made of it: uint64 (n, 2)."""
    found = [(document.file.file_id, document.offset) for document in documents]
    return np.array(found, np.uint64).reshape(-1, 2)
