"""The units of split-sentences, as a worker of any executor does them.

A unit leaves files in the work folder, `<unit>.text` and `<unit>.lengths` (see texts.py) and `<unit>-<n>.keys` (see repeats.py);
then its result, `<unit>.json`. Where the result is, the files are whole.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from nlpdata.corpus.splitting import repeats
from nlpdata.corpus.splitting.documents import DIGEST_BYTES, Sentences, split_documents, tally
from nlpdata.corpus.splitting.formats import format_of
from nlpdata.corpus.splitting.options import SplittingOptions
from nlpdata.corpus.splitting.passages import Notice
from nlpdata.corpus.splitting.texts import TextWriter, lines_of
from nlpdata.corpus.types import ByteRange, Portion
from nlpdata.execution.executor import Report
from nlpdata.files.paths import AnyPath
from nlpdata.output import OutputSet, disk_errors, joining, store_result
from nlpdata.output.joining import Shard

EQUAL_DOCUMENT, SIMILAR_DOCUMENT, EQUAL_LINE = "equal_document", "similar_document", "equal_line"
"""The reasons for which text is left out that other text decides about."""


@dataclass(frozen=True)
class Setup:
    """What a worker is sent once; picklable.

    Attributes:
      options: see SplittingOptions.
      folder: where units find and leave their files.
      target: the set of text.
      num_shards: if given.
      portions: how many there are.
      left: what a failure of the disk leaves, for messages.
    """

    options: SplittingOptions
    folder: AnyPath
    target: OutputSet
    num_shards: int | None
    portions: int
    left: str


_setup: Setup  # of a worker process


def set_up(setup: Setup) -> None:
    """Sets up this process, before its first unit."""
    global _setup
    _setup = setup


# ------------------------------------------------------------------------------------------------------------------ units


@dataclass(frozen=True)
class SplitUnit:
    """A portion of the input."""

    portion: Portion

    @property
    def name(self) -> str:
        return f"portion-{self.portion.index:06d}"

    @property
    def place(self) -> str:
        return self.portion.place

    @property
    def size(self) -> int:
        return self.portion.bytes


@dataclass(frozen=True)
class RangeUnit:
    """A range of the hashes of all documents or lines: their key files, each with the number of its portion, in order."""

    kind: str
    number: int
    slots: tuple[int, int]
    files: tuple[tuple[int, str], ...]

    @property
    def name(self) -> str:
        return f"equal-{self.kind}-{self.number:04d}"

    place = name
    size = 1


@dataclass(frozen=True)
class CompareUnit:
    """All documents: the files of their signatures, by portion, and the files of numbers of those that are left out."""

    signatures: tuple[str, ...]
    left_out: tuple["LeftOut", ...]
    name: str = "similar"

    place = name
    size = 1


@dataclass(frozen=True)
class LeftOut:
    """Where the numbers of what is left out of a portion are: own key files, and files of numbers of all portions."""

    reason: str
    keys: tuple[str, ...]
    numbers: tuple[str, ...]

    def of(self, folder: AnyPath, portion: int) -> Iterator[np.ndarray]:
        """The numbers, int64, of one file after the other."""
        for name in self.keys:
            yield repeats.own_repeats(folder, name)
        for name in self.numbers:
            yield repeats.read_numbers(folder / name, portion)


def reasons_to_leave_out(left_out: Sequence[LeftOut], folder: AnyPath, portion: int, count: int) -> bytes:
    """Of each of `count` things of a portion a byte: 0 where it stays, else 1 + the place of the first reason in `left_out`.

    A file may have any number of lines, and all of them may be repeats: hence no set.
    """
    found = np.zeros(count, np.uint8)
    for place, each in reversed(list(enumerate(left_out, 1))):
        for numbers in each.of(folder, portion):
            found[numbers] = place
    return found.tobytes()


@dataclass(frozen=True)
class TextUnit:
    """The text of a portion, and the documents and lines that are to be left out of it."""

    stage: str
    portion: int
    text: str
    bytes: int
    counts: tuple[int, int]  # of its documents and lines
    documents: tuple[LeftOut, ...]
    lines: tuple[LeftOut, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.stage}-{self.portion:06d}"

    @property
    def place(self) -> str:
        return f"portion {self.portion}"

    @property
    def size(self) -> int:
        return self.bytes


# ------------------------------------------------------------------------------------------------------------------- work


def split_portion(unit: SplitUnit, report: Report) -> dict:
    """Splits the documents of a portion into sentences."""
    options = _setup.options
    counters: Counter[str] = Counter()
    keys = repeats.KeyWriter(_setup.folder, unit.name) if options.deduplicate_documents else None
    signatures, made = None, []
    if options.near_duplicates is not None:
        from nlpdata.corpus.splitting.similar import Signatures

        signatures = Signatures()
    with disk_errors("splitting", unit.place, _setup.left), ExitStack() as stack:
        writer = TextWriter(stack, _setup.folder, unit.name)
        for item in _read(unit.portion, options):
            if isinstance(item, Sentences):
                writer.add(item.data)
                if signatures:
                    signatures.add(item.data)
                continue
            tally(counters, item)
            if isinstance(item, Notice):
                report(item.bytes_read)
                continue
            if item.left_out:
                writer.drop()
            else:
                writer.keep()
                if keys:
                    keys.add(item.digest)
            if signatures:
                values = signatures.end()
                if not item.left_out:
                    made.append(values)
        runs = {"documents": keys.finish()} if keys else {}
        if signatures:
            runs["signatures"] = [f"{unit.name}.signatures"]
            (_setup.folder / runs["signatures"][0]).write_bytes(b"".join(each.tobytes() for each in made))
        return writer.finish(counters=dict(counters), runs=runs)


def _read(portion: Portion, options: SplittingOptions) -> Iterator:
    for byte_range in portion.byte_ranges:
        yield from read_range(byte_range, options)


def read_range(byte_range: ByteRange, options: SplittingOptions) -> Iterator:
    """The sentences, documents and notices of a byte range: see split_documents."""
    form = format_of(byte_range.file, options)
    return split_documents(form.read()(byte_range, options), options, options.line_breaks or form.line_breaks)


def find_range(unit: RangeUnit, report: Report) -> dict:
    """Finds what is equal to something earlier, in a range of hashes."""
    with disk_errors("finding equal text", _setup.folder, _setup.left):
        units, numbers = repeats.find_repeats(_setup.folder, unit.files, unit.slots)
        return _store_numbers(unit.name, units, numbers, report)


def _store_numbers(name: str, units: np.ndarray, numbers: np.ndarray, report: Report) -> dict:
    file = f"{name}.numbers"
    repeats.write_numbers(_setup.folder / file, units, numbers, _setup.portions)
    result = {"runs": {"numbers": [file]}}
    store_result(_setup.folder, name, result)
    report(1)
    return result


def compare(unit: CompareUnit, report: Report) -> dict:
    """Finds the documents that are similar to an earlier one."""
    from nlpdata.corpus.splitting.similar import find_similar, read_signatures

    assert _setup.options.near_duplicates is not None
    places: list[tuple[int, int]] = []

    def documents() -> Iterator[np.ndarray]:
        for portion, (name, left_out) in enumerate(zip(unit.signatures, unit.left_out, strict=True)):
            signatures = read_signatures(_setup.folder / name)
            gone = reasons_to_leave_out([left_out], _setup.folder, portion, len(signatures))
            for number, values in enumerate(signatures):
                if not gone[number]:
                    places.append((portion, number))
                    yield values

    with disk_errors("finding similar documents", _setup.folder, _setup.left):
        similar = np.fromiter(find_similar(documents(), _setup.options.near_duplicates), bool)
        found = np.array(places, np.int64).reshape(-1, 2)[similar]
        return _store_numbers(unit.name, found[:, 0], found[:, 1], report)


def hash_lines(unit: TextUnit, report: Report) -> dict:
    """Hashes the lines of those documents of a portion that are not left out."""
    with disk_errors("finding equal lines", unit.place, _setup.left):
        gone = reasons_to_leave_out(unit.documents, _setup.folder, unit.portion, unit.counts[0])
        keys, document = repeats.KeyWriter(_setup.folder, unit.name), 0
        for lines in lines_of(_setup.folder / unit.text, _setup.left):
            for line in lines:
                if not line:
                    document += 1
                elif gone[document]:
                    keys.skip()
                else:
                    keys.add(blake2b(line, digest_size=DIGEST_BYTES).digest())
            report(sum(map(len, lines)) + len(lines))
        result = {"runs": {"lines": keys.finish()}}
        store_result(_setup.folder, unit.name, result)
        return result


def leave_out(unit: TextUnit, report: Report) -> dict:
    """Writes the text of a portion again, without the documents and lines that are to be left out."""
    counters: Counter[str] = Counter()
    with disk_errors("leaving out", unit.place, _setup.left), ExitStack() as stack:
        documents, gone = (
            reasons_to_leave_out(left_out, _setup.folder, unit.portion, count)
            for left_out, count in zip((unit.documents, unit.lines), unit.counts, strict=True)
        )
        writer = TextWriter(stack, _setup.folder, unit.name)
        document = number = kept = 0
        for lines in lines_of(_setup.folder / unit.text, _setup.left):
            held: list[bytes] = []
            for line in lines:
                place = documents[document]
                reason = unit.documents[place - 1].reason if place else None
                if line:
                    if not place and gone[number]:
                        reason = unit.lines[gone[number] - 1].reason
                    number += 1
                    if reason:
                        counters[f"sentences_dropped/{reason}"] += 1
                        counters[f"bytes_dropped/{reason}"] += len(line)
                    else:
                        held.append(line)
                        kept += 1
                    continue
                if held:
                    writer.add(b"\n".join([*held, b""]))
                    held = []
                if kept:
                    writer.keep()
                else:
                    counters[f"documents_dropped/{reason or EQUAL_LINE}"] += 1
                document, kept = document + 1, 0
            if held:
                writer.add(b"\n".join([*held, b""]))
            report(sum(map(len, lines)) + len(lines))
        return writer.finish(counters=dict(counters))


def write_shard(shard: Shard, report: Report) -> dict:
    """Joins the slices of a shard."""
    with disk_errors("writing shards", _setup.folder, _setup.left):
        return joining.write_shard(_setup.folder, shard, "none", report)
