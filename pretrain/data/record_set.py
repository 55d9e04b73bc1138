"""What all record readers share: finding the files and their meta file, and checks of records against a model."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.files.paths import AnyPath, path_of
from nlpdata.files.sets import set_stem, split_shard
from nlpdata.records.contract import V2_NAMES, find_meta, lists, odd_features, read_meta
from nlpdata.records.reader import Records, find_records
from pretrain.data.examples import own_examples
from pretrain.settings.data_section import DataConfig
from pretrain.settings.flags import flag_of

SEQUENCE = ("input_ids", "input_mask", "segment_ids")
RENAME = {new: old for old, new in V2_NAMES.items()}  # of features, to our names


def open_record_set(config: DataConfig, name: str) -> tuple[Records, dict]:
    """The records of a data section, and what their meta file says ({} where there is none).

    Of a section with an input_function: its examples, which have the same interface.

    Raises UsageError where nothing is found or sets are mixed that do not belong together, DataError where there are no
    examples or fewer than the meta file lists.
    """
    if config.input_function:
        examples: Any = own_examples(config, name)
        return examples, examples.meta
    records = Records(find_paths(config, name), config.remote_cache_gb)
    if not len(records):
        raise DataError(f"{name}: no examples in {', '.join(map(str, records.paths[:5]))}")
    if odd := odd_features(records.features):
        raise DataError(
            f"{name}: {records.paths[0]}: {', '.join(map(str, odd))}: another type or length than such records have. All features: "
            f"{', '.join(map(str, records.features))}. Make the records again"
        )
    return records, _read_metas(config, records, name)


def meta_of(config: DataConfig, path: AnyPath) -> AnyPath | None:
    """The meta file of a record file of a data section; None where there is none.

    It is `meta_path`, except where that lists other files than this one, which has its own: one option may name the meta file of
    the training records for both sections.
    """
    if not config.meta_path:
        return find_meta(path)
    given = path_of(config.meta_path)
    content = read_meta(given)
    own = None if "shards" not in content or lists(content, path) else find_meta(path)
    return own or given


def find_paths(config: DataConfig, name: str) -> list[AnyPath]:
    """The record files of a data section. UsageError where there are none."""
    paths = config.input_path
    if not paths or (isinstance(paths, str) and not paths.strip(" ,")):
        field = f"{name}.input_path"
        raise UsageError(
            f"{field} is empty. Name the record files, e.g. {flag_of(field)}='out/train.tfrecord*'; `nlpdata create-pretraining` "
            "and `nlpdata create-finetuning` make them."
        )
    try:
        return find_records(paths)
    except UsageError as error:
        raise UsageError(f"{name}.input_path: {error}") from None


def kind_of(meta: Mapping) -> str | None:
    """The kind of fine-tuning task that a meta file names, "bert_regression" -> "regression"; None where it names none."""
    task_type = meta.get("task_type")
    return None if task_type is None else str(task_type).rpartition("_")[2]


def check_length(length: int, config: DataConfig, meta: Mapping, name: str) -> None:
    """UsageError where records of this length are not as long as the configuration or their meta file says."""
    field, stated = f"{name}.seq_length", meta.get("max_seq_length")
    if config.seq_length is not None and config.seq_length != length:
        raise UsageError(
            f"{name}: the records have max_seq_length {length}, {field} says {config.seq_length}. Set it to {length} "
            f"({flag_of(field)}={length}), or make records with --max-seq-length {config.seq_length}."
        )
    if stated is not None and stated != length:
        raise UsageError(
            f"{name}: the records have max_seq_length {length}, their meta file says {stated}. It belongs to other records: "
            "make them again, or restore the files."
        )


def check_fits_model(meta: Mapping, length: int, encoder: Any, name: str, of_text: bool = False) -> None:
    """UsageError where ids or positions of the records have no embedding in an encoder of these options.

    of_text: whether the run itself makes them, of text.
    """
    vocab_size, longest = meta.get("tokenizer", {}).get("vocab_size", 0), encoder.max_position_embeddings
    if vocab_size > encoder.vocab_size:
        whose = "the" if of_text else "the records'"
        raise UsageError(
            f"{name}: {whose} tokenizer has {vocab_size} entries, the model vocab_size {encoder.vocab_size}: ids "
            f"beyond it have no embedding. Set task.model.encoder's vocab_size to {vocab_size}."
        )
    if length > longest:
        field = f"{name}.seq_length"
        what, remedy = (
            f"the records have max_seq_length {length}",
            f"Make records with --max-seq-length {longest} or less",
        )
        if of_text:
            what, remedy = f"{field} is {length}", f"Set it to {longest} or less, e.g. {flag_of(field)}={longest}"
        raise UsageError(
            f"{name}: {what}, the model max_position_embeddings {longest}. {remedy}, or use a model with more positions."
        )


def sequence_features(
    records: Records, rows: Mapping[str, np.ndarray], config: DataConfig, encoder: Any, examples: np.ndarray
) -> dict[str, np.ndarray]:
    """input_ids, input_mask, segment_ids int32 (n, L) of rows with our names, in the range that the encoder takes."""
    limits = {"input_ids": encoder.vocab_size, "input_mask": 2, "segment_ids": encoder.type_vocab_size}
    for name, limit in limits.items():
        check_range(records, name, rows[name], limit, examples)
    batch = {name: rows[name].astype(np.int32) for name in SEQUENCE}
    set_mask(batch, records, config, examples)
    return batch


def real_examples(rows: Mapping[str, np.ndarray], count: int) -> np.ndarray:
    """Which of `count` rows with our names are examples, and not what fills up a batch of another tool: bool (count,)."""
    return np.reshape(rows["is_real_example"], -1) != 0 if "is_real_example" in rows else np.ones(count, bool)


def set_mask(batch: dict[str, np.ndarray], records: Records, config: DataConfig, examples: np.ndarray) -> None:
    """Turns the input_mask of a batch around where config.invert_mask wants it.

    UsageError, with file and record, where a text then begins with padding: the mask has the other meaning.
    """
    if config.invert_mask:
        batch["input_mask"] = 1 - batch["input_mask"]
    wrong = np.flatnonzero((batch["input_mask"][:, 0] == 0) & (batch["input_ids"][:, 0] != 0))
    if len(wrong):
        meaning = "padding" if config.invert_mask else "real tokens"
        raise UsageError(
            f"{records.where(int(examples[wrong[0]]))}: input_mask is not 1 on {meaning}, as invert_mask {config.invert_mask} "
            f"says. Set invert_mask to {str(not config.invert_mask).lower()} in this data section."
        )


class Sources:
    """Where the records of a set come from: files, of which the shards of one are one, or splits.

    Args:
      records: with the interface of `nlpdata.open_records`.
      names: of their files; default: what set_stem calls them, e.g. dev_matched, dev_mismatched.

    Attributes:
      names: each once.
    """

    def __init__(self, records: Any, names: Sequence[str] = ()) -> None:
        of_files = list(names) or [set_stem(path.name) for path in records.paths]
        self.names = list(dict.fromkeys(of_files))
        self._of_file = np.array([self.names.index(each) for each in of_files])
        self._stops = np.cumsum(records.counts)

    def of(self, records: np.ndarray) -> np.ndarray:
        """The number among `names` of what each record is from; int64 as `records`, which are numbers in all files."""
        return self._of_file[np.searchsorted(self._stops, records, side="right")]


def ends_of_files(records: Records) -> np.ndarray:
    """The numbers of the first and last record of every file: reading them finds most files of another kind at once."""
    stops = np.cumsum(records.counts)
    ends = np.concatenate([stops - records.counts, stops - 1])[np.tile(records.counts, 2) > 0]
    return np.unique(ends)


def check_range(records: Records, name: str, values: np.ndarray, limit: int, examples: np.ndarray) -> None:
    """DataError, with file and record, where an integer of a feature is not in [0, limit).

    Args:
      values: int64 (n, width).
      examples: number of the record of each row, int64 (n,).
    """
    if values.dtype != np.int64:
        raise DataError(f"{records.paths[0]}: {name} holds {values.dtype}, expected int64")
    unsigned = values.view(np.uint64)  # negative values are the largest
    if unsigned.max() < limit:
        return
    row = int(np.flatnonzero((unsigned >= limit).any(axis=1))[0])
    found = values[row][unsigned[row] >= limit][0]
    raise DataError(
        f"{records.where(int(examples[row]))}: {name} holds {found}, expected 0 to {limit - 1}. Do the records "
        "belong to this model (vocab_size, type_vocab_size)?"
    )


def _read_metas(config: DataConfig, records: Records, name: str) -> dict:
    """The meta file's content ({} where there is none), after comparing the sets of records with it and each other."""
    metas: dict[AnyPath, dict] = {}
    promised: dict[AnyPath, int] = {}
    for path, count in zip(records.paths, records.counts, strict=True):
        base = split_shard(path)[0]
        if base not in metas:
            found = meta_of(config, path)
            metas[base] = read_meta(found) if found else {}
            promised |= {path.with_name(shard["file"]): shard["records"] for shard in metas[base].get("shards", [])}
        if promised.get(path, count) != count:
            raise DataError(
                f"{path} holds {count} records, its meta file says {promised[path]}: the file is not whole. Make or copy "
                "it again."
            )
    first, *others = metas.items()
    for base, meta in others:
        for what, value in _identity(meta).items():
            if value != _identity(first[1])[what]:
                raise UsageError(
                    f"{name}.input_path mixes records that differ in {what}: {first[0]} has "
                    f"{_identity(first[1])[what]}, {base} has {value}."
                )
    return first[1]


def _identity(meta: Mapping) -> dict:
    """What must be equal in all sets of records that are read together."""
    tokenizer = meta.get("tokenizer", {})
    named = {what: meta.get(what) for what in ("task_type", "num_choices")}
    return {"tokenizer checksum": tokenizer.get("sha256"), **named}
