"""Corpus reading: files -> chunks -> blocks of sentences, grouped into documents.

    files, warnings = find_files(["data/*.txt", "wiki.jsonl.gz@2"])
    for chunk in plan_chunks(files, chunk_size=16 << 20):
        for block in read_blocks(chunk):
            ...

A corpus is text in UTF-8, one sentence a line, blank lines between documents (or JSON lines, one document each).
The rules, the same for every chunk size, block size and compression:

- A line ends at LF, CRLF or a lone CR, and at no other character.
- A line of Unicode whitespace only (`not line.strip()`) is blank; a run of blank lines ends a document.
- A document belongs to the chunk that holds its first non-blank byte, and is read to its end by that chunk. The
  whitespace in front of that byte is not part of it.

`find.py` turns patterns into files, `source.py` opens them, `scan.py` finds documents in a byte stream, `jsonl.py`
does so in JSON lines, `reading.py` plans chunks and decodes.
"""

from nlpdata.corpus.find import find_files
from nlpdata.corpus.reading import plan_chunks, read_blocks
from nlpdata.corpus.source import fingerprint
from nlpdata.corpus.types import MAX_LINE_BYTES, Block, Chunk, CorpusFile

__all__ = [
    "MAX_LINE_BYTES",
    "Block",
    "Chunk",
    "CorpusFile",
    "find_files",
    "fingerprint",
    "plan_chunks",
    "read_blocks",
]
