"""A small sample of a corpus, from places spread evenly over its bytes: what a dry run measures."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nlpdata.corpus.reading import read_blocks
from nlpdata.corpus.types import Block, ByteRange, Portion

PLACES = 8
DOCUMENT_PLACES = 64
_BLOCK_BYTES = 1 << 16


@dataclass(frozen=True)
class Sample:
    """Text files with what was read, as plain text.

    Attributes:
      files: paths, as a pattern for find_files, with the weight of the file that each is from.
      bytes_read, bytes_total: of the corpus on disk; equal where all of it was read.
    """

    files: Sequence[str]
    bytes_read: int
    bytes_total: int

    @property
    def scale(self) -> float:
        """How often the sample fits into the corpus."""
        return self.bytes_total / max(self.bytes_read, 1)

    @property
    def is_whole(self) -> bool:
        return self.bytes_read >= self.bytes_total

    @property
    def in_words(self) -> str:
        """What estimates from it are based on."""
        return basis(self.bytes_read, self.bytes_total)


def basis(done: int, total: int) -> str:
    """What estimates from `done` of `total` bytes are based on, in words."""
    if done >= total:
        return f"estimated from the whole input, {total:,} bytes"
    return f"estimated from {done:,} of {total:,} bytes of the input, at {PLACES} places"


def store_sample(
    folder: Path, portions: Sequence[Portion], most: int, *, invalid_utf8: str, text_key: str | None
) -> Sample:
    """Reads about `most` bytes of the portions of a corpus, all of a smaller one, into text files in a folder.

    Raises DataError for what cannot be read.
    """
    ranges = [byte_range for portion in portions for byte_range in portion.byte_ranges]
    total = sum(portion.bytes for portion in portions)
    spread = [(each, None) for each in ranges] if total <= most else [*_places(ranges, total, most // PLACES)]
    first = [(each, most) for each in ranges[:1]]  # where documents are so long that none begins at the places
    for chosen in (spread, first):
        files, done = [], 0
        for number, (byte_range, budget) in enumerate(chosen):
            path = folder / f"{number:06d}.txt"
            blocks = read_blocks(byte_range, block_bytes=_BLOCK_BYTES, invalid_utf8=invalid_utf8, text_key=text_key)
            done += _store(path, blocks, budget)
            files.append(f"{path}@{byte_range.file.weight:g}")
        if done:
            break
    return Sample(files, total if total <= most else max(done, 1), total)


def sampled_portions(portions: Sequence[Portion], most: int) -> list[Portion]:
    """Portions of about `most` bytes from evenly spread places: parts of what can be divided, whole files of at most that size.

    All portions, where they are smaller; none, where all files are whole and larger.
    """
    total = sum(portion.bytes for portion in portions)
    if total <= most:
        return list(portions)
    ranges = [byte_range for portion in portions for byte_range in portion.byte_ranges]
    found = [
        each for each, _ in _places(ranges, total, most // PLACES) if each.stop is not None or each.file.size <= most
    ]
    return [Portion(number, (each,)) for number, each in enumerate(found)]


def sampled_documents(portions: Sequence[Portion], most: int) -> list[Portion]:
    """Portions of about `most` documents and no more, from evenly spread places, each from another part of the corpus.

    Of a compressed file, which is read from its beginning, they are the first ones.
    """
    count = min(DOCUMENT_PLACES, most)
    shares = [most * (place + 1) // count - most * place // count for place in range(count)]
    total = sum(portion.bytes for portion in portions)
    wanted = [total * place // count for place in range(count)]
    found: list[ByteRange] = []
    before = 0
    for byte_range in (each for portion in portions for each in portion.byte_ranges):
        start, stop = byte_range.start, byte_range.stop
        size = (stop or byte_range.file.size) - start
        inside = [
            (start + at - before, share)
            for at, share in zip(wanted, shares, strict=True)
            if before <= at < before + size
        ]
        if stop is None and inside:
            found.append(replace(byte_range, max_documents=sum(share for _, share in inside)))
        elif stop is not None:
            ends = [*(at for at, _ in inside[1:]), stop]
            found += [
                replace(byte_range, start=at, stop=end, max_documents=share)
                for (at, share), end in zip(inside, ends, strict=False)
            ]
        before += size
    return [Portion(number, (each,)) for number, each in enumerate(found)]


def _places(ranges: Sequence[ByteRange], total: int, budget: int) -> Iterator[tuple[ByteRange, int | None]]:
    """Byte ranges at evenly spread places, and the bytes to read of those that cannot be cut."""
    before, wanted = 0, [total * (2 * i + 1) // (2 * PLACES) for i in range(PLACES)]
    for byte_range in ranges:
        start, stop = byte_range.start, byte_range.stop
        size = (stop or byte_range.file.size) - start
        inside = [start + place - before for place in wanted if before <= place < before + size]
        if stop is not None:
            yield from ((replace(byte_range, start=at, stop=min(at + budget, stop)), None) for at in inside)
        elif inside:  # compressed: it is read from its beginning
            yield byte_range, budget * len(inside)
        before += size


def _store(path: Path, blocks: Iterator[Block], budget: int | None) -> int:
    """Writes the documents of blocks, until those have `budget` bytes on disk; returns the bytes that were read."""
    done = 0
    with path.open("w", encoding="utf-8", errors="surrogatepass", newline="\n") as file:
        for block in blocks:
            at = 0
            for number, count in enumerate(block.line_counts):
                if number or not block.starts_inside:
                    file.write("\n")
                file.writelines(f"{line}\n" for line in block.lines[at : at + count])
                at += count
            done += block.bytes_read
            if budget is not None and done >= budget:
                break
    return done
