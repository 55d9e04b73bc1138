"""A set of files as a whole: what its meta file lists, its shards, its tokenizer, its questions, and sets that were mixed."""

import gzip
import json
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import sha256

from nlpdata.errors import NlpdataError
from nlpdata.files.paths import AnyPath, file_size, open_binary, read_file
from nlpdata.files.sets import split_shard
from nlpdata.records.contract import choices_of_meta, is_choice
from nlpdata.records.reader import file_crc
from nlpdata.records.verification.report import VerifyReport
from nlpdata.records.verification.rules import RecordRules
from nlpdata.tokenizers import load_tokenizer

_SEQUENCES = ("input_ids", "input_word_ids")
_SIZES = {"train_data_size": "train", "eval_data_size": "dev", "test_data_size": "test"}
"""Key of the meta file -> the first word of the names of the splits of that kind."""
_MOST_SETTINGS = 4
_THEIR_SHARE = 0.9
"""Texts of so few pairs of ends have [CLS] and [SEP]; more are of records that have none."""


def check_set(base: AnyPath, files: Sequence[AnyPath], meta: Mapping, report: VerifyReport) -> None:
    """Files, their counts, and the tokenizer, against the meta file."""
    expected = {shard["file"]: shard for shard in meta.get("shards", [])}
    given = {path.name for path in files}
    for name in sorted(expected.keys() - given):
        if not (base.parent / name).exists():
            report.add("missing file", f"{base.parent / name}: missing; the meta file lists it")
    for path in files:
        if expected and path.name not in expected:
            listed = ", ".join(sorted(expected)[:5]) + (" ..." if len(expected) > 5 else "")
            report.add("extra file", f"{path}: not in the meta file, which lists {listed}")
    _check_sums(base, meta, report)
    _check_statements(base, meta, report)
    _check_tokenizer(base, meta.get("tokenizer", {}), report)


def _check_sums(base: AnyPath, meta: Mapping, report: VerifyReport) -> None:
    """Whether the meta file's numbers of records agree with each other."""
    sums: Counter[str] = Counter()
    for shard in meta.get("shards", []):
        sums[str(shard.get("split", meta.get("split", "")))] += shard["records"]
    stated = {f"splits.{name}.records": (name, own.get("records")) for name, own in meta.get("splits", {}).items()}
    split = meta.get("split")
    if split in ("train", "eval") and "splits" not in meta:
        stated[f"{split}_data_size"] = (split, meta.get(f"{split}_data_size"))
    for key, (name, number) in stated.items():
        if number is not None and meta.get("shards") and number != sums[name]:
            report.add(
                "record count", f"{base}: the meta file's {key} is {number}, its shards have {sums[name]} records"
            )


def _check_statements(base: AnyPath, meta: Mapping, report: VerifyReport) -> None:
    """Whether what the meta file says twice, as older tools read it and as ours do, is the same."""
    found = []
    names, labels, length = meta.get("label_names", []), meta.get("num_labels"), meta.get("max_seq_length")
    if len(set(names)) < len(names):
        found.append(f"label_names {', '.join(names)} names a class twice")
    if names and labels is not None and labels != len(names):
        found.append(f"num_labels is {labels}, its label_names are {len(names)}")
    if (choices := choices_of_meta(meta)) > 1 and labels is not None and labels != choices:
        found.append(f"num_labels is {labels}, its num_choices {choices}")
    if is_choice(meta) and choices == 1:
        found.append("num_choices is missing or below 2: multiple choice has so many sequences a record")
    for split, own in meta.get("splits", {}).items():
        widths = {width for name, _, width in own.get("features", []) if name in _SEQUENCES}
        if length is not None and widths - {choices * length}:
            of_all = f" of {choices} choices" if choices > 1 else ""
            wrong = max(widths - {choices * length})
            found.append(f"max_seq_length is {length}{of_all}, its splits.{split}.features have {wrong}")
    for key, kind in _SIZES.items():
        sizes = [own.get("records") for name, own in meta.get("splits", {}).items() if name.split("_")[0] == kind]
        if key in meta and None not in sizes and sizes and meta[key] not in sizes:
            found.append(f"{key} is {meta[key]}, its splits have {', '.join(map(str, sizes))} records")
    for text in found:
        report.add("contradiction", f"{base}: the meta file's {text}")


def _check_tokenizer(base: AnyPath, entry: Mapping, report: VerifyReport) -> None:
    if "file" not in entry or "sha256" not in entry:
        return
    file = base.parent / entry["file"]
    try:
        if not file.exists():
            report.add("tokenizer", f"{file}: missing; the meta file names it as the tokenizer")
            return
        if sha256(read_file(file)).hexdigest() != entry["sha256"]:
            report.add("tokenizer", f"{file}: is not the tokenizer of these records (its sha256 differs)")
            return
        loaded = load_tokenizer(dict(entry), folder=base.parent).meta()
    except (NlpdataError, OSError) as error:
        report.add("tokenizer", f"{file}: {error}")
        return
    for key in ("vocab_size", "special_ids"):
        if key in entry and entry[key] != loaded[key]:
            report.add("tokenizer", f"{file}: has {key} {loaded[key]}, the meta file says {entry[key]}")


def check_shards(base: AnyPath, files: Sequence[AnyPath], report: VerifyReport) -> None:
    """For a set that no meta file lists: whether shards are missing, of two numberings, or copied over one another."""
    counts = sorted({split_shard(path)[2] for path in files})
    if len(counts) > 1:
        names = " and ".join(map(str, counts))
        report.add(
            "two sets", f"{base}: shards of {names} files are there; those of one set are left over. Remove them"
        )
    for count in counts:
        present = {split_shard(path)[1] for path in base.parent.iterdir() if split_shard(path)[::2] == (base, count)}
        if 1 < count != len(present):
            first = next(i for i in range(count) if i not in present)
            report.add("missing file", f"{base}: {len(present)} of {count} shards are there; {first:05d} is missing")
    sizes = {path: file_size(path) for path in files}
    alike = Counter(sizes.values())
    seen: dict[tuple[int, str], AnyPath] = {}
    for path, size in sizes.items():
        if size and alike[size] > 1:
            first_of = seen.setdefault((size, file_crc(path)), path)
            if first_of is not path:
                report.add(
                    "same content", f"{path}: has the content of {first_of.name}; each shard has its own records"
                )


def check_questions(
    base: AnyPath, meta: Mapping, files: Sequence[AnyPath], rules: RecordRules, report: VerifyReport
) -> None:
    """The examples files of a SQuAD set, for the splits of the given record files, and whether the records name their questions."""
    of_file = {shard["file"]: shard.get("split") for shard in meta.get("shards", [])}
    splits = {of_file.get(path.name) for path in files}
    known: set[bytes] = set()
    named = [own["examples"] for name, own in meta.get("splits", {}).items() if name in splits and "examples" in own]
    for name in named:
        ids = _question_ids(base.parent / name, report)
        if ids is None:
            return
        known |= ids
    unknown = sorted(rules.example_ids - known) if len(named) == len(splits) else []
    if unknown:
        shown = unknown[0].decode("utf-8", "backslashreplace")
        report.add(
            "questions",
            f"{base}: {len(unknown)} questions of the records, such as {shown!r}, are not in {', '.join(named)}",
        )


def _question_ids(path: AnyPath, report: VerifyReport) -> set[bytes] | None:
    """The ids of an examples file's questions; None where it cannot be read, which is reported."""
    ids: set[bytes] = set()
    number = 0
    try:
        with open_binary(path) as raw, gzip.open(raw, "rt", encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                line = json.loads(text)
                name = line["example_id"].encode("utf-8", "surrogatepass")
                if not isinstance(line["context"], str) or not isinstance(line["answers"] or [], list):
                    raise ValueError("context or answers are of another kind")
                if name in ids:
                    report.add("questions", f"{path}, line {number}: question {line['example_id']!r} is there twice")
                ids.add(name)
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or f"{type(error).__name__}: {error}"
        report.add("questions", f"{path}, after line {number}: cannot be read as questions: {reason}")
        return None
    return ids


def check_mixed(sets: Sequence[tuple[AnyPath, RecordRules]], report: VerifyReport) -> None:
    """Whether sets without a meta file, of one folder, are of one setting: features, lengths, and what texts begin and end with."""
    sets = [each for each in sets if each[1].shape]
    for base, rules in sets[1:]:
        first = sets[0]
        if rules.shape != first[1].shape:
            what = _difference(first[1].shape, rules.shape)
            report.add(
                "mixed",
                f"{base}: is of another setting than {first[0].name} ({what}), and no meta file says why. If that is right, "
                "verify each by itself",
            )
    ends: Counter[tuple[int, int]] = Counter()
    for _, rules in sets:
        ends.update(rules.ends)
    top = ends.most_common(_MOST_SETTINGS)
    if len(ends) > 1 and sum(count for _, count in top) >= _THEIR_SHARE * ends.total():
        kinds = ", ".join(f"{count} of {begin} ... {end}" for (begin, end), count in top)
        names = ", ".join(base.name for base, _ in sets[:5])
        report.add(
            "mixed", f"{names}: texts begin and end with different ids ({kinds}): records of different tokenizers"
        )


def _difference(one: Mapping, other: Mapping) -> str:
    for name in [*one, *other]:
        if one.get(name) != other.get(name):
            return f"{name} is {_shape(other.get(name))}, there {_shape(one.get(name))}"
    return "their features are in another order"


def _shape(feature: tuple[str, int] | None) -> str:
    return f"{feature[0]}[{feature[1]}]" if feature else "absent"
