"""What a set of records is called, and which files are its own: those that may be replaced and removed with it."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from nlpdata.errors import UsageError, opt
from nlpdata.files.paths import AnyPath, path_of
from nlpdata.records.contract import meta_path, record_stem, shard_names, split_shard

SHARD_BYTES = 112 << 20  # records of a shard, unless their number is given
QUESTIONS_SUFFIX = ".examples.jsonl.gz"

_RECORDS = r"\.tf_?record(-\d{5,}-of-\d{5,})?"
_COPY = r"(\.hf\.json|(?!\.json$)\.[^./\0]+)?"  # of a tokenizer; `.tokenizer.json` is what train-tokenizer writes


@dataclass(frozen=True)
class OutputSet:
    """One set of records.

    Attributes:
      output: its name, as given to --output.
      meta: its meta file.
      kin: pattern of the stems of other sets in the folder that the same meta file may describe; "": of none.
      copy_stem: of the tokenizer's copy; None: the set's own.
    """

    output: str
    meta: AnyPath
    kin: str = ""
    copy_stem: str | None = None

    @property
    def folder(self) -> AnyPath:
        return path_of(self.output).parent

    @property
    def stem(self) -> str:
        return record_stem(self.output).name

    def shards(self, record_bytes: int, given: int | None = None) -> list[str]:
        """Base names of the record files: as many as given, else one for each 112 MiB of records."""
        count = given or max(1, -(-record_bytes // SHARD_BYTES))
        return [Path(name).name for name in shard_names(self.output, count)]


def output_set(output: str, meta: str | None = None, kin: str = "", copy_stem: str | None = None) -> OutputSet:
    """The set that `--output` (and `--meta`) names. UsageError for a name that cannot be one."""
    name = os.path.basename(output)
    if not name or name.startswith(".") or any(character in name for character in "*?["):
        raise UsageError(
            f"{opt('output')} names the record file, e.g. out/train.tfrecord. Received: {output!r}"
            + (", a folder." if not name else ", which readers' patterns would not match.")
        )
    if "," in output:
        raise UsageError(
            f"{opt('output')} names one set of records. Received: {output!r}. For several files give one name, and "
            f"{opt('num_shards')}."
        )
    if split_shard(output)[2] > 1 or re.search(r"-of-\d{5,}$", name):
        raise UsageError(
            f"{opt('output')} names the set, not one shard of it. Received: {output!r}. Expected: "
            f"{os.path.join(os.path.dirname(output), split_shard(output)[0].name)!r} and, if wanted, {opt('num_shards')}."
        )
    if path_of(output).is_dir():
        raise UsageError(f"{opt('output')} {output} is a folder. Name the record file in it: {output}/train.tfrecord")
    return OutputSet(output, path_of(meta) if meta else meta_path(output), kin, copy_stem)


def is_own(target: OutputSet, name: str) -> bool:
    """Whether a file of this name next to the records may belong to the set: the rule by which we name its files.

    The names in a meta file or marker are data, which anybody may have written: what does not pass here is left alone.
    Own are `<stem>.tfrecord` and `.tf_record`, whole or as a numbered shard, `<stem>.examples.jsonl.gz`, and the copy of
    the tokenizer.
    """
    stems = f"(?:{re.escape(target.stem)}{'|' if target.kin else ''}{target.kin})"
    of_set = rf"{stems}({_RECORDS}|{re.escape(QUESTIONS_SUFFIX)})"
    stem = target.stem if target.copy_stem is None else target.copy_stem
    copy = re.escape(f"{stem}.tokenizer".removeprefix(".")) + _COPY
    return bool(re.fullmatch(of_set, name) or re.fullmatch(copy, name))


def set_files(target: OutputSet) -> list[AnyPath]:
    """The record files under the set's name, one file or numbered shards of any count."""
    if not target.folder.is_dir():
        return []
    names = re.escape(target.stem) + _RECORDS
    return sorted(path for path in target.folder.iterdir() if re.fullmatch(names, path.name))
