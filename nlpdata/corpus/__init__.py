"""Corpus reading: files -> byte ranges -> blocks of sentences, grouped into documents.

    files, warnings = find_files(["data/*.txt", "wiki.jsonl.gz@2"])
    for portion in plan_portions(files, size=16 << 20):    # of byte ranges of large files, or of many small files
        for block in read_portion(portion):
            ...

A corpus is text in UTF-8, one sentence a line, blank lines between documents (or JSON lines, one document each).
The rules, the same for every byte range size, block size and compression:

- A line ends at LF, CRLF or a lone CR, and at no other character.
- A line of Unicode whitespace only (`not line.strip()`) is blank; a run of blank lines ends a document.
- A document belongs to the byte range that holds its first non-blank byte, and is read to its end by that byte range. The
  whitespace in front of that byte is not part of it.

`find.py` turns patterns into files, `source.py` opens them, `scan.py` finds documents in a byte stream, `jsonl.py`
does so in JSON lines, `reading.py` plans byte ranges and portions, and decodes.
"""

from nlpdata.corpus.find import find_files
from nlpdata.corpus.reading import plan_byte_ranges, plan_portions, read_blocks, read_portion
from nlpdata.corpus.source import fingerprint, require_unchanged
from nlpdata.corpus.types import MAX_LINE_BYTES, Block, ByteRange, CorpusFile, Portion

__all__ = [
    "MAX_LINE_BYTES",
    "Block",
    "ByteRange",
    "CorpusFile",
    "Portion",
    "find_files",
    "fingerprint",
    "plan_byte_ranges",
    "plan_portions",
    "read_blocks",
    "read_portion",
    "require_unchanged",
]
