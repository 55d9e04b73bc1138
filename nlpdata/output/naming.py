"""What a set of records, or of text, is called, and which files are its own: those that may be replaced and removed with it."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from nlpdata.errors import UsageError, opt
from nlpdata.files.compression import COMPRESSED
from nlpdata.files.paths import AnyPath, path_of
from nlpdata.files.sets import SHARD_SUFFIX, marker_of, shards_of, split_shard
from nlpdata.records.contract import committing_marker, meta_path, record_stem, shard_names

SHARD_BYTES = 112 << 20  # records or text of a shard, unless their number is given
TEXT_SUFFIXES = (".txt", ".text")
QUESTIONS_SUFFIX = ".examples.jsonl.gz"
_COMPRESSED = (*COMPRESSED, ".bz2", ".xz")

_RECORDS = r"\.tf_?record(-\d{5,}-of-\d{5,})?"
_COPY = r"(\.hf\.json|(?!\.json$)\.[^./\0]+)?"  # of a tokenizer; `.tokenizer.json` is what train-tokenizer writes


@dataclass(frozen=True)
class OutputSet:
    """One set of records, or of text.

    Attributes:
      output: its name, as given to --output; of several names the first.
      meta: its meta file.
      kin: pattern of the stems of other sets in the folder that the same meta file may describe; "": of none.
      copy_stem: of the tokenizer's copy; None: the set's own.
      names: base names of the record files, where --output names each of them; (): as many shards of one name as it takes.
      is_text: whether it is a set of text.
    """

    output: str
    meta: AnyPath
    kin: str = ""
    copy_stem: str | None = None
    names: tuple[str, ...] = ()
    is_text: bool = False

    @property
    def folder(self) -> AnyPath:
        return path_of(self.output).parent

    @property
    def stem(self) -> str:
        """What its work folder and marker are named by: of text its whole name, so that `X.tfrecord` next to `X.txt` has others."""
        return path_of(self.output).name if self.is_text else record_stem(self.output).name

    @property
    def stems(self) -> list[str]:
        """That of each name."""
        return [record_stem(name).name for name in self.names] or [self.stem]

    @property
    def markers(self) -> list[AnyPath]:
        """The files that exist while the set is being replaced; each record file's reader looks for its own."""
        if self.is_text:
            return [marker_of(self.folder / self.stem)]
        return [committing_marker(self.folder / name) for name in self.names] or [committing_marker(self.output)]

    def shards(self, record_bytes: int, given: int | None = None) -> list[str]:
        """Base names of the record files: those named, else as many as given, else one for each 112 MiB of records."""
        if self.names:
            return list(self.names)
        count = given or max(1, -(-record_bytes // SHARD_BYTES))
        if self.is_text:
            return shards_of(self.stem, count)
        return [Path(name).name for name in shard_names(self.output, count)]


def output_set(output: str, meta: str | None = None, kin: str = "", copy_stem: str | None = None) -> OutputSet:
    """The set that `--output` (and `--meta`) names. UsageError for a name that cannot be one."""
    name = os.path.basename(output)
    if not name or name.startswith(".") or any(character in name for character in "*?["):
        raise UsageError(
            f"{opt('output')} names the record file, e.g. out/train.tfrecord. Received: {output!r}"
            + (", a folder." if not name else ", which readers' patterns would not match.")
        )
    parts = [part.strip() for part in output.split(",") if part.strip()]
    if _are_names(output, parts):
        return _set_of_names(parts, meta, kin, copy_stem)
    if split_shard(output)[2] > 1 or re.search(r"-of-\d{5,}$", name):
        raise UsageError(
            f"{opt('output')} names the set, not one shard of it. Received: {output!r}. Expected: "
            f"{os.path.join(os.path.dirname(output), split_shard(output)[0].name)!r} and, if wanted, {opt('num_shards')}."
        )
    if Path(name).suffix in _COMPRESSED:
        raise UsageError(
            f"{opt('output')}: record files that are compressed have no other names. Received: {output!r}. Expected: "
            f"{output.removesuffix(Path(name).suffix)!r} and, if wanted, {opt('compression', 'gzip')}."
        )
    if path_of(output).is_dir():
        raise UsageError(f"{opt('output')} {output} is a folder. Name the record file in it: {output}/train.tfrecord")
    return OutputSet(output, path_of(meta) if meta else meta_path(output), kin, copy_stem)


def text_set(output: str) -> OutputSet:
    """The set of text that `--output` names: `a/X.txt`, or its shards, with `a/X.sentences.json`. UsageError for another name."""
    name = os.path.basename(output)
    stem, suffix = os.path.splitext(name)
    if (
        not stem
        or stem.startswith(".")
        or any(character in name for character in "*?[,")
        or suffix not in TEXT_SUFFIXES
    ):
        raise UsageError(
            f"{opt('output')} names a text file, {' or '.join(f'*{each}' for each in TEXT_SUFFIXES)}, e.g. out/corpus.txt. "
            f"Received: {output!r}."
        )
    path = path_of(output)
    if path.is_dir():
        raise UsageError(f"{opt('output')} {output} is a folder. Name the text file in it: {output}/corpus.txt")
    return OutputSet(output, path.with_name(f"{stem}.sentences.json"), is_text=True)


def _are_names(output: str, parts: list[str]) -> bool:
    """Whether commas separate names of record files, and are not part of the name of a folder (`q,v/train.tfrecord`)."""
    if "," not in output or ("," in os.path.dirname(output) and path_of(os.path.dirname(output)).is_dir()):
        return False
    one_folder = len({os.path.dirname(part) for part in parts}) == 1
    return one_folder or all(re.search(_RECORDS + "$", part) for part in parts)


def _set_of_names(outputs: list[str], meta: str | None, kin: str, copy_stem: str | None) -> OutputSet:
    """The set whose record files are named one by one, with commas between them. Its meta file is the folder's, meta.json."""
    each = [output_set(output) for output in outputs]
    stems = [one.stem for one in each]
    if len(set(stems)) < len(stems):
        raise UsageError(f"{opt('output')} names a file twice. Received: {','.join(outputs)}.")
    folders = {str(one.folder) for one in each}
    if len(folders) > 1:
        raise UsageError(
            f"{opt('output')}: the files of a set are in one folder. Received: {', '.join(sorted(folders))}."
        )
    names = tuple(Path(shard_names(output, 1)[0]).name for output in outputs)
    place = path_of(meta) if meta else each[0].folder / "meta.json"
    return OutputSet(outputs[0], place, kin, copy_stem, names if len(names) > 1 else ())


def is_own(target: OutputSet, name: str) -> bool:
    """Whether a file of this name next to the records may belong to the set: the rule by which we name its files.

    The names in a meta file or marker are data, which anybody may have written: what does not pass here is left alone.
    Own are of a set of text `<stem>.txt`, whole or as a numbered shard; of records `<stem>.tfrecord` and `.tf_record`,
    likewise, `<stem>.examples.jsonl.gz`, and the copy of the tokenizer.
    """
    if target.is_text:
        return bool(re.fullmatch(_text_files(target), name))
    stems = f"(?:{'|'.join([*map(re.escape, target.stems), *([target.kin] if target.kin else [])])})"
    of_set = rf"{stems}({_RECORDS}|{re.escape(QUESTIONS_SUFFIX)})"
    stem = target.stem if target.copy_stem is None else target.copy_stem
    copy = re.escape(f"{stem}.tokenizer".removeprefix(".")) + _COPY
    return bool(re.fullmatch(of_set, name) or re.fullmatch(copy, name))


def set_files(target: OutputSet) -> list[AnyPath]:
    """The files of records or text under the set's name, one file or numbered shards of any count."""
    if not target.folder.is_dir():
        return []
    names = _text_files(target) if target.is_text else f"(?:{'|'.join(map(re.escape, target.stems))}){_RECORDS}"
    return sorted(path for path in target.folder.iterdir() if re.fullmatch(names, path.name))


def _text_files(target: OutputSet) -> str:
    return f"{re.escape(target.stem)}(?:{SHARD_SUFFIX})?"
