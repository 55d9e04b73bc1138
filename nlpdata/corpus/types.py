"""The data types of corpus reading: files, the byte ranges of a plan, and blocks of text."""

from dataclasses import dataclass

MAX_LINE_BYTES = 16 << 20
"""A longer line is left out and counted as `line_too_long`: no sentence is that long, and memory stays bounded."""


@dataclass(frozen=True)
class CorpusFile:
    """One input file, as `find_files` found it."""

    path: str
    """As opened."""
    name: str
    """Base name without compression suffix (.gz, .zst)."""
    file_id: int
    """uint64, a hash of `name` and its occurrence among equal names; the element of every random key."""
    size: int
    """Bytes on disk."""
    compression: str
    """"none", "gzip" or "zstd", told by content, not by suffix."""
    weight: float = 1.0
    """From `GLOB@2`."""
    number: int = 0
    """Position among all files of the corpus."""


@dataclass(frozen=True)
class ByteRange:
    """A byte range of one file: the documents whose first byte is in it."""

    index: int
    """Position in the plan."""
    file: CorpusFile
    start: int
    stop: int | None
    """Offsets in the decompressed file; a compressed file is one byte range, 0 to None."""
    max_documents: int | None = None
    """Documents to read at most; set by `limit_documents` on the last byte range."""

    @property
    def place(self) -> str:
        """For messages: the file and the range."""
        return f"{self.file.path}, bytes {self.start}-{self.stop or 'end'}"


@dataclass(frozen=True)
class Portion:
    """What one unit of work reads: a byte range, or many small ones that follow each other."""

    index: int
    """Position in the plan."""
    byte_ranges: tuple[ByteRange, ...]

    @property
    def bytes(self) -> int:
        """Input bytes on disk."""
        return sum((byte_range.stop or byte_range.file.size) - byte_range.start for byte_range in self.byte_ranges)

    @property
    def place(self) -> str:
        """For messages: the file and the range, or the first and the last file."""
        first, last = self.byte_ranges[0], self.byte_ranges[-1]
        if first is last:
            return first.place
        return f"{first.file.path} to {last.file.path}, {len(self.byte_ranges)} parts of files"


@dataclass(frozen=True)
class Block:
    """Many lines of text in file order: one batch for the tokenizer."""

    lines: list[str]
    """The sentences of all documents, one after the other; none is blank, none holds a line ending."""
    line_counts: list[int]
    """Lines of each document in this block; 0 where every line of it was left out."""
    files: list[CorpusFile]
    """The file of each document."""
    offsets: list[int]
    """Byte offset of each document's first non-blank byte in the decompressed file, also where it began earlier."""
    starts_inside: bool
    """The first document continues from the previous block."""
    ends_inside: bool
    """The last document continues in the next block."""
    bytes_read: int
    """Input bytes (on disk, where compressed) between the previous block's end and this one's; for progress."""
    dropped: dict[str, int]
    """Lines left out, by reason: `invalid_utf8`, `line_too_long`."""
