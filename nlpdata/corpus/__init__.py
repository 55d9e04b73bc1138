"""Corpus reading: files -> chunks -> blocks of sentences, grouped into documents.

    files, warnings = find_files(["data/*.txt", "wiki.jsonl.gz@2"])
    for portion in plan_portions(files, size=16 << 20):    # of chunks of large files, or of many small files
        for block in read_portion(portion):
            ...

A corpus is text in UTF-8, one sentence a line, blank lines between documents (or JSON lines, one document each).
The rules, the same for every chunk size, block size and compression:

- A line ends at LF, CRLF or a lone CR, and at no other character.
- A line of Unicode whitespace only (`not line.strip()`) is blank; a run of blank lines ends a document.
- A document belongs to the chunk that holds its first non-blank byte, and is read to its end by that chunk. The
  whitespace in front of that byte is not part of it.

`find.py` turns patterns into files, `source.py` opens them, `scan.py` finds documents in a byte stream, `jsonl.py`
does so in JSON lines, `reading.py` plans chunks and portions, and decodes.
"""

from nlpdata.corpus.find import find_files
from nlpdata.corpus.reading import plan_chunks, plan_portions, read_blocks, read_portion
from nlpdata.corpus.source import fingerprint
from nlpdata.corpus.types import MAX_LINE_BYTES, Block, Chunk, CorpusFile, Portion

__all__ = [
    "MAX_LINE_BYTES",
    "Block",
    "Chunk",
    "CorpusFile",
    "Portion",
    "find_files",
    "fingerprint",
    "plan_chunks",
    "plan_portions",
    "read_blocks",
    "read_portion",
]
