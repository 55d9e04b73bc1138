"""The data contract: what a pretraining record holds, how its files are named, and the meta file next to them.

A pretraining record is one `tf.train.Example` of fixed lengths, L = max_seq_length and P = max_predictions_per_seq.
Here with L = 12, P = 3 and a vocabulary in which "the" is 10, "quick" 11, "fox" 12, "jump" 13, "##ed" 14, "high" 15 and
[PAD] [UNK] [CLS] [SEP] [MASK] are 0 to 4. The text is "the quick fox" (segment A) and "jumped high" (segment B); the
words "quick" and "jumped" were chosen for prediction:

    position              0     1     2      3    4     5      6      7     8     9     10    11
    token              [CLS]   the [MASK]  fox  [SEP] [MASK] ##ed   high  [SEP] [PAD] [PAD] [PAD]

    input_ids             2    10     4     12    3     4     14     15    3     0     0     0      int64[L]
    input_mask            1     1     1      1    1     1      1      1    1     0     0     0      int64[L]
    segment_ids           0     0     0      0    0     1      1      1    1     0     0     0      int64[L]
    token_boundary        1     1     1      1    1     1      0      1    1     0     0     0      int64[L]
    masked_lm_positions   2     5     6                                                             int64[P]
    masked_lm_ids        11    13    14                                                             int64[P]
    masked_lm_weights   1.0   1.0   1.0                                                             float32[P]
    next_sentence_labels  0                                                                         int64[1]

input_ids             The tokens after masking: [CLS] A [SEP] B [SEP], or [CLS] A [SEP] where there is one segment;
                      padded with the id of [PAD]. Of the predictions, 80% read [MASK] here, 10% a random word, 10%
                      the true word ("##ed" above).
input_mask            1 for a token, 0 for padding. (Foreign records may have it the other way round; ours never.)
segment_ids           0 for [CLS], A and the [SEP] behind it; 1 for B and its [SEP]; 0 for padding.
token_boundary        1 where a word starts; special tokens are words too; 0 for padding.
masked_lm_positions   Where predictions are, in rising order; unused places at the end are 0.
masked_lm_ids         The true token at each of those positions; unused places are 0.
masked_lm_weights     1.0 for a prediction, 0.0 for an unused place. With P = 5 the example above would have
                      masked_lm_positions 2 5 6 0 0, masked_lm_ids 11 13 14 0 0, masked_lm_weights 1 1 1 0 0.
next_sentence_labels  Objective sop: 0 = A and B in their order, 1 = swapped. Objective nsp: 0 = B follows A, 1 = B is
                      from another document. Absent with objective none.

With dynamic masking the three masked_* features are absent, input_ids are the true tokens, and the loader masks each
epoch anew. Feature names "v2" call input_ids `input_word_ids` and segment_ids `input_type_ids`; all else is equal.

Files: a set of records is one file X.tfrecord, or the shards X.tfrecord-00000-of-00003, ...; its meta file is
X.meta.json, or the folder's meta.json, or a file with "meta" in its name that lists the set's files. While a set is being
replaced, the marker .X.committing is next to it, and every reader refuses.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.files import PathName
from nlpdata.files.disk import reading
from nlpdata.files.json_files import JSON_FAULTS, json_fault
from nlpdata.files.paths import AnyPath, is_plain_name, open_binary, path_of, read_file
from nlpdata.files.sets import marker_of, refuse_marked, shards_of, split_shard
from nlpdata.files.writing import sync_folder, write_whole
from nlpdata.options import check_range
from nlpdata.records.meta_types import type_fault

FORMAT_VERSION = 1
_META_BYTES = (
    16 << 20
)  # a file that might be a meta file under another name is read up to here; 5,000 shards take 1 MiB

MASKINGS = ("static", "dynamic")
FEATURE_NAMES = ("v1", "v2")

V2_NAMES = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}

_INTEGERS = ("input_ids", "input_mask", "segment_ids", "token_boundary", "masked_lm_positions", "masked_lm_ids",
             "next_sentence_labels", "start_positions", "end_positions")  # fmt: skip
_DTYPES = dict.fromkeys(_INTEGERS, ("int64",)) | dict.fromkeys(("masked_lm_weights", "label_ids"), ("int64", "float32"))
_AS_WIDE = dict.fromkeys(("input_mask", "segment_ids", "token_boundary"), "input_ids")
_AS_WIDE |= dict.fromkeys(("masked_lm_ids", "masked_lm_weights"), "masked_lm_positions")

_SPECIAL = {"pad": 0, "unk": 0, "cls": 0, "sep": 0, "mask": 0}  # the special ids that a meta file gives

_SUFFIXES = (".tfrecord", ".tf_record")


@dataclass(frozen=True)
class Feature:
    """One feature of a record: `width` values of `dtype` under `name`."""

    name: str
    dtype: str  # "int64" | "float32" | "bytes"
    width: int  # values per record

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}[{self.width}]"


def pretraining_features(
    max_seq_length: int,
    max_predictions_per_seq: int,
    pairs: bool = True,
    masking: str = "static",
    names: str = "v1",
) -> tuple[Feature, ...]:
    """The features of a pretraining record (see the top of this file), in the order in which they are written: by name.

    Args:
      max_seq_length, max_predictions_per_seq: L and P.
      pairs: whether records have two segments, and so next_sentence_labels.
      masking: "static" or "dynamic".
      names: "v1" or "v2".

    Raises UsageError for an unknown masking or naming.
    """
    for option, value, known in (
        ("masking", masking, MASKINGS),
        ("feature names", names, FEATURE_NAMES),
    ):
        if value not in known:
            raise UsageError(f"{option}: received {value!r}, expected one of {', '.join(known)}")
    sequence, predictions = max_seq_length, max_predictions_per_seq
    features = [
        Feature(name, "int64", sequence) for name in ("input_ids", "input_mask", "segment_ids", "token_boundary")
    ]
    if masking == "static":
        features += [
            Feature("masked_lm_positions", "int64", predictions),
            Feature("masked_lm_ids", "int64", predictions),
            Feature("masked_lm_weights", "float32", predictions),
        ]
    if pairs:
        features.append(Feature("next_sentence_labels", "int64", 1))
    if names == "v2":
        features = [Feature(V2_NAMES.get(f.name, f.name), f.dtype, f.width) for f in features]
    return tuple(sorted(features, key=lambda f: f.name))


def odd_features(features: Sequence[Feature]) -> list[Feature]:
    """Those that have a name of the contract or of fine-tuning records, and another dtype or width: nothing can be told of them."""
    v1_names = {new: old for old, new in V2_NAMES.items()}
    own = {v1_names.get(feature.name, feature.name): feature for feature in features}

    def is_odd(name: str, feature: Feature) -> bool:
        width = own.get(_AS_WIDE.get(name, name), feature).width
        return feature.dtype not in _DTYPES.get(name, (feature.dtype,)) or feature.width != width or not width

    return [feature for name, feature in own.items() if name in _DTYPES and is_odd(name, feature)]


def is_pretraining(task_type: str | None) -> bool:
    """Whether a meta file's task_type is of pretraining records: bert_pretraining, albert_pretraining, ..."""
    return task_type is not None and task_type.endswith("pretraining")


def features_of_meta(meta: dict | None, file: str = "") -> tuple[Feature, ...] | None:
    """The features that a meta file promises for its records; None where it says too little (an older tool's).

    file: base name of the record file; the splits of a fine-tuning set may differ.
    """
    split = split_of_meta(meta, file)
    if split is not None:
        return tuple(Feature(*each) for each in split["features"]) if "features" in split else None
    if not meta or meta.get("format_version") is None or not is_pretraining(meta.get("task_type")):
        return None
    options = meta.get("options", {})
    dynamic = options.get("masking") == "dynamic"
    needed = {"max_seq_length", "label_names", *(("max_predictions_per_seq",) if not dynamic else ())}
    if not needed <= meta.keys():
        return None
    return pretraining_features(
        meta["max_seq_length"],
        meta.get("max_predictions_per_seq", 0),
        bool(meta["label_names"]),
        options.get("masking", "static"),
        options.get("feature_names", "v1"),
    )


def choices_of_meta(meta: Mapping | None) -> int:
    """How many sequences a record of a set has, one behind the other: the choices of multiple choice; 1 of all others."""
    return (meta.get("num_choices") or 1) if meta and is_choice(meta) else 1


def is_choice(meta: Mapping) -> bool:
    """Whether a meta file is of records of multiple choice."""
    return str(meta.get("task_type")).endswith("_choice")


def split_of_meta(meta: dict | None, file: str) -> dict | None:
    """The entry of a fine-tuning set's meta file for the split that a record file belongs to; None for other sets."""
    return (meta or {}).get("splits", {}).get(split_name(meta, file))


def split_name(meta: dict | None, file: str) -> str | None:
    """The split of a fine-tuning set that a record file belongs to, as its meta file lists it; None for other sets."""
    return next((shard.get("split") for shard in (meta or {}).get("shards", []) if shard["file"] == file), None)


# ---------------------------------------------------------------------------------------------------------- file names


def is_record_name(path: PathName | AnyPath) -> bool:
    """Whether a file's name is that of records: `X.tfrecord`, `X.tf_record`, or a shard of one."""
    return split_shard(path)[0].name.endswith(_SUFFIXES)


def record_stem(output: PathName | AnyPath) -> AnyPath:
    """The name without shard and record suffix: `a/X.tfrecord-00001-of-00003`, `a/X.tf_record`, `a/X` -> `a/X`."""
    path = split_shard(output)[0]
    for suffix in _SUFFIXES:
        if path.name.endswith(suffix) and path.name != suffix:
            return path.with_name(path.name.removesuffix(suffix))
    return path


def meta_path(output: PathName | AnyPath) -> AnyPath:
    """Where the meta file of a set of records is: `X.tfrecord`, a shard of it, or bare `X` -> `X.meta.json`."""
    stem = record_stem(output)
    return stem.with_name(f"{stem.name}.meta.json")


def committing_marker(output: PathName | AnyPath) -> AnyPath:
    """The marker that exists while the set is being replaced: `a/X.tfrecord` -> `a/.X.committing`."""
    return marker_of(record_stem(output))


def refuse_while_committing(output: PathName | AnyPath) -> None:
    """Raises DataError while the set has its commit marker: its files are then partly old, partly new."""
    refuse_marked(committing_marker(output), f"{output}: this set of records")


def shard_names(output: PathName | AnyPath, num_shards: int) -> list[str]:
    """The files of a set: [`X.tfrecord`] for one shard, else `X.tfrecord-00000-of-00003`, ... in order.

    A name without .tfrecord or .tf_record gets .tfrecord.
    """
    check_range("num_shards", num_shards, 1, None)
    name = str(output)
    if not name.endswith(_SUFFIXES):
        name += ".tfrecord"
    return shards_of(name, num_shards)


def find_meta(path: PathName | AnyPath) -> AnyPath | None:
    """The meta file of a record file: `X.meta.json` next to it, else the folder's `meta.json`, else one of another name.

    A `meta.json` counts if it lists the file or, an older tool's, lists none and has a `task_type`. One of another name, as
    `--meta mnli_meta_data` makes it, has "meta" in its name and lists the file.
    """
    own = meta_path(path)
    if own.exists():
        return own
    path = path_of(path)
    folder = path.parent / "meta.json"
    if folder.exists():
        try:
            meta = read_meta(folder)
        except DataError:
            if _is_of_records(folder):  # its reader reports the damage
                return folder
        else:
            if lists(meta, path) or ("shards" not in meta and "task_type" in meta):
                return folder
    return _of_another_name(path)


def lists(meta: dict, path: AnyPath) -> bool:
    """Whether a meta file's content names a record file of its folder."""
    return any(shard["file"] == path.name for shard in meta.get("shards", []))


def _of_another_name(path: AnyPath) -> AnyPath | None:
    if not path.parent.is_dir():
        return None
    for candidate in sorted(each for each in path.parent.iterdir() if "meta" in each.name.lower()):
        if candidate.name.endswith(".meta.json") or not _is_of_records(candidate):
            continue
        try:
            if lists(read_meta(candidate), path):
                return candidate
        except DataError:
            continue  # whether it is this file's cannot be known
    return None


def _is_of_records(path: AnyPath) -> bool:
    """Whether a file is a JSON object with the keys that only meta files of records have."""
    if isinstance(path, Path) and not path.is_file():
        return False  # a FIFO would never end
    try:
        with open_binary(path) as file:
            content = file.read(_META_BYTES + 1)
        value = json.loads(content) if len(content) <= _META_BYTES else None
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(value, dict) and ("shards" in value or "task_type" in value)


# ----------------------------------------------------------------------------------------------------------- meta file


def _plain(value: object) -> object:
    """numpy scalars and arrays as JSON; anything else is a programming error."""
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.floating):
        return float(value)
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"not JSON: {type(value).__name__} {value!r}")


def meta_bytes(meta: dict) -> bytes:
    """The content of a meta file: equal metas are equal bytes.

    `format_version` is added where absent. Keys are sorted, two spaces of indentation, one newline at the end. Lone
    surrogates, which UTF-8 cannot hold, are written as JSON's \\udcff.
    """
    text = json.dumps(
        {"format_version": FORMAT_VERSION} | meta,
        indent=2,
        sort_keys=True,
        ensure_ascii=False,
        allow_nan=False,
        default=_plain,
    )
    return f"{text}\n".encode("utf-8", "backslashreplace")


def write_meta(path: PathName | AnyPath, meta: dict) -> None:
    """Writes a meta file in one step: nobody ever reads half of it. DataError where the disk refuses."""
    try:
        write_whole(path, meta_bytes(meta))
    except OSError as error:
        raise DataError(f"{path}: cannot write the meta file: {error.strerror or error}") from error
    sync_folder(path_of(path).parent)


def read_meta(path: PathName | AnyPath) -> dict:
    """Reads a meta file, ours or an older tool's (which has no `format_version`).

    Raises DataError where it is unreadable, not a JSON object, or written by a later format.
    """
    try:
        with reading(path):
            meta = json.loads(read_file(path).decode("utf-8-sig"))
    except JSON_FAULTS as error:
        raise DataError(f"{path}: not a meta file: {json_fault(error)}") from error
    if not isinstance(meta, dict):
        raise DataError(f"{path}: not a meta file: received a JSON {type(meta).__name__}, expected an object")
    version = meta.get("format_version", FORMAT_VERSION)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise DataError(f"{path}: format_version is {version!r}, expected a whole number from 1 to {FORMAT_VERSION}")
    if version > FORMAT_VERSION:
        raise DataError(
            f"{path}: written in format {version}; this nlpdata reads formats up to {FORMAT_VERSION}: upgrade nlpdata"
        )
    _check_meta(path, meta)
    return meta


def _check_meta(path: PathName | AnyPath, meta: dict) -> None:
    """What readers rely on, where it is there: DataError for anything else under these keys."""
    if fault := type_fault(meta):
        raise DataError(f"{path}: {fault}")
    shards, tokenizer = meta.get("shards", []), meta.get("tokenizer", {})
    of_shard = {"file": str, "records": int, "crc32c": str}
    if not isinstance(shards, list) or not all(
        isinstance(shard, dict) and all(isinstance(shard.get(key), kind) for key, kind in of_shard.items())
        for shard in shards
    ):
        raise DataError(f"{path}: shards is {str(shards)[:80]}, expected a list of objects with {', '.join(of_shard)}")
    named = [shard["file"] for shard in shards]
    named += [split["examples"] for split in meta.get("splits", {}).values() if "examples" in split]
    named += [tokenizer["file"]] if "file" in tokenizer else []
    for name in named:
        if not is_plain_name(name):
            raise DataError(
                f"{path}: names the file {str(name)[:80]!r}, expected the name of a file next to the records"
            )
    if not isinstance(meta.get("options", {}), dict):
        raise DataError(f"{path}: options is {str(meta['options'])[:80]}, expected an object")
    special = tokenizer.get("special_ids", _SPECIAL)
    if not isinstance(special, dict) or not all(isinstance(special.get(name), int) for name in _SPECIAL):
        raise DataError(
            f"{path}: tokenizer is {str(tokenizer)[:80]}, expected an object whose special_ids give {', '.join(_SPECIAL)}"
        )
    if "shards" in meta and is_pretraining(meta.get("task_type")):
        try:
            features_of_meta({"format_version": FORMAT_VERSION} | meta)
        except (KeyError, TypeError, AttributeError, UsageError) as error:
            raise DataError(f"{path}: says too little of its records, or what is unknown: {error}") from None
