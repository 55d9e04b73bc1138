"""What a report is given, told apart: folders of runs, files of records, or text."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from nlpdata.corpus.folders import TEXT, ending
from nlpdata.errors import UsageError, opt
from nlpdata.files.json_files import read_object
from nlpdata.files.paths import AnyPath, path_of
from nlpdata.files.patterns import each_named, find_paths
from nlpdata.records.contract import find_meta, is_record_name, read_meta
from nlpdata.records.reader import is_record_file
from nlpdata.reports.run_facts import find_runs
from nlpdata.tokenizers.files import is_tokenizer_name

_META_BYTES = 16 << 20


def named_paths(inputs: Sequence[str]) -> list[AnyPath]:
    """The files and folders that paths, patterns or lists of them name; none for one that names nothing, or has a weight."""
    return [path_of(name) for given in inputs for _, names in each_named(given, find_paths) for name in names]


def run_folders(named: Sequence[AnyPath]) -> list[Path]:
    """Those of some paths that are folders of runs, or hold some; none where they are something else. UsageError for a mixture."""
    runs = {path: find_runs(path) for path in named if isinstance(path, Path) and path.is_dir()}
    found = [path for path, held in runs.items() if held]
    others = [path for path in named if path not in found]
    if found and others:
        raise UsageError(
            f"{opt('input')}: {found[0]} holds runs, and {others[0]} does not. A report is of one kind: name the "
            "folders of runs alone."
        )
    for folder in found:
        if runs[folder] != [folder]:
            _refuse_text_in(folder, f"runs, such as {runs[folder][0].name}", set())
    return found


def record_files(named: Sequence[AnyPath], of_json_lines: bool = False) -> list[AnyPath] | None:
    """The record files of some paths; None where they are text. UsageError for a mixture.

    of_json_lines: whether a file that ends in .json is text, and not a meta file.
    """
    records: list[AnyPath] = []
    others: list[AnyPath] = []
    for path in named:
        is_text = of_json_lines and path.name.endswith(".json")
        own = [] if is_text else _records_at(path, is_first=not records and not others)
        records += own
        others += [] if own else [path]
    if records and others:
        others = [path for path in others if path not in _next_to(records)]
    if records and others:
        raise UsageError(
            f"{opt('input')}: {records[0]} holds records, and {others[0]} does not. A report is of one kind: name the record files "
            "or their meta file alone, or the text alone."
        )
    for path in named if records else ():
        if isinstance(path, Path) and path.is_dir():
            _refuse_text_in(path, f"records, such as {records[0].name}", _next_to(records))
    return list(dict.fromkeys(records)) or None


def _refuse_text_in(folder: Path, held: str, belongs: Collection[AnyPath]) -> None:
    """UsageError where a folder that holds runs or records holds text, too, which the report would leave out."""
    for path in sorted(folder.iterdir()):
        if ending(path.name) in TEXT and path not in belongs and path.is_file() and not is_tokenizer_name(path):
            raise UsageError(
                f"{opt('input')}: {folder} holds {held}, and text, such as {path.name}. A report is of one kind: name what it is "
                "to be about alone."
            )


def _records_at(path: AnyPath, is_first: bool) -> list[AnyPath]:
    """The record files of a folder or a meta file, or a record file itself; none where it is something else."""
    if path.is_dir():
        return sorted((each for each in path.iterdir() if is_record_name(each)), key=str)
    if path.name.endswith(".json"):
        meta = _meta(path)
        if meta and not meta.get("shards"):
            raise UsageError(
                f"{opt('input')}: {path} is a meta file that lists no record files. Name the record files."
            )
        return [path.parent / shard["file"] for shard in meta.get("shards", ())]
    if is_record_name(path) or (is_first and path.exists() and is_record_file(path)):
        return [path]
    return []


def _next_to(records: Sequence[AnyPath]) -> set[AnyPath]:
    """The tokenizer files and files of questions of record sets, which a pattern may match as well."""
    found: set[AnyPath] = set()
    for meta in {find_meta(path) for path in records}:
        if meta is None:
            continue
        content = read_meta(meta)
        names = [content.get("tokenizer", {}).get("file")]
        names += [split.get("examples") for split in content.get("splits", {}).values()]
        found |= {meta.parent / name for name in names if name}
    return found


def _meta(path: AnyPath) -> Mapping:
    """A meta file of records; {} where a file of this name is something else."""
    if isinstance(path, Path) and path.stat().st_size <= _META_BYTES and "task_type" in read_object(path):
        return read_meta(path)
    return {}
