"""The kind of value that each key of a meta file has: the file is data that anybody may have written, or damaged.

Readers rely on these kinds, and on the bounds, which keep what they make of a value within memory.
"""

from collections.abc import Mapping

from nlpdata.files.json_kinds import FLAG, OBJECT, TEXT, TEXTS, Kind, fault, is_characters, or_null, whole

_DTYPES = ("int64", "float32", "bytes")
_MOST = 1 << 62
_WIDEST = 1 << 20  # values of a feature
_MOST_PIECES = 1 << 24  # of a vocabulary
LEAST_CHOICES, MOST_CHOICES = 2, 64  # of a record of multiple choice


def _is_feature(value: object) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and isinstance(value[0], str)
        and value[1] in _DTYPES
        and whole(_WIDEST).fits(value[2])
    )


def _is_range(value: object) -> bool:
    ids = whole(_MOST_PIECES)
    return isinstance(value, list) and len(value) == 2 and all(map(ids.fits, value)) and value[0] <= value[1]


_SPECIAL = Kind(
    "a list of five texts or more",
    lambda value: isinstance(value, list) and len(value) >= 5 and all(map(is_characters, value)),
)
_FEATURES = Kind(
    f"a list of [name, {' or '.join(_DTYPES)}, width up to {_WIDEST}]",
    lambda value: isinstance(value, list) and all(map(_is_feature, value)),
)
_RANGES = Kind(
    f"a list of at most 65536 [first, behind the last], up to {_MOST_PIECES}",
    lambda value: (
        isinstance(value, list)
        and len(value) <= 1 << 16
        and all(map(_is_range, value))
        and sum(stop - start for start, stop in value) <= _MOST_PIECES
    ),
)

_KINDS = {  # see nlpdata.files.json_kinds.fault
    "task_type": TEXT,
    "objective": TEXT,
    "label_names": TEXTS,
    "num_labels": whole(_MOST_PIECES),
    "num_choices": whole(MOST_CHOICES),
    "max_seq_length": whole(_WIDEST),
    "max_predictions_per_seq": whole(_WIDEST),
    "options": OBJECT,
    **{f"options.{name}": or_null(whole(_WIDEST)) for name in ("doc_stride", "max_query_length", "max_qa_length")},
    "options.blank": or_null(TEXT),
    "train_data_size": whole(_MOST),
    "eval_data_size": whole(_MOST),
    "shards.*.split": TEXT,
    "splits": OBJECT,
    "splits.*": OBJECT,
    "splits.*.features": _FEATURES,
    "tokenizer": OBJECT,
    "tokenizer.type": TEXT,
    "tokenizer.sha256": TEXT,
    "tokenizer.vocab_size": whole(_MOST_PIECES),
    "tokenizer.special_tokens": _SPECIAL,
    "tokenizer.ordinary_ids": _RANGES,
    "tokenizer.do_lower_case": FLAG,
    "tokenizer.keep_accents": FLAG,
    "tokenizer.digit_comma": FLAG,
    "tokenizer.tokenize_chinese_chars": FLAG,
}


def type_fault(meta: Mapping) -> str | None:
    """A value of another kind than its key expects: key, value and kind, for a message; None where all are right."""
    return fault(meta, _KINDS)
