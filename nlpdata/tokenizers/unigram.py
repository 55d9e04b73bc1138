"""tokenizer.json of the type Unigram (ALBERT's fast tokenizer), as the model that SentencePiece loads.

A Unigram vocabulary is what a SentencePiece model holds: pieces with scores, and a table of character replacements.
So it is written as one, field by field of sentencepiece_model.proto (google/sentencepiece), and encoded by the library
itself. Around it, Hugging Face's normalizer is ALBERT's normalisation in single steps, which become our options.

Ids are those of the SentencePiece path with these options. Hugging Face's may differ where two segmentations have equal
scores, and where text holds nonspacing marks without a combining class, such as vowel signs of Thai and Hindi: its
StripAccents drops them, ALBERT's code does not.
"""

import base64
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from nlpdata.errors import HALF, DataError, UsageError
from nlpdata.files.json_kinds import as_written, is_characters
from nlpdata.protobuf import bytes_field, float_field, int_field
from nlpdata.tokenizers.hf import added_tokens, model_type
from nlpdata.tokenizers.hf_marks import mark_steps
from nlpdata.tokenizers.hf_steps import FINAL_SIGMA, LEADING_MARK, STRIP, collapse_spaces, drop_combining
from nlpdata.tokenizers.scripts import WORD_MARK
from nlpdata.tokenizers.sentencepiece_model import read_table

_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6  # ModelProto.SentencePiece.Type
_MOST_SCORE = (2 - 2**-23) * 2.0**127  # of float32
_BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")
# The normalizer as letters, one a step (see `_letter`), of which ALBERT's and XLNet's converters and `hf_writing` write these.
_CHAIN = re.compile("(WT)?Q`Q'(?P<accents>D[AC])?(?P<lower>F?L)?(?P<table>N?PN?)?S?T?M?")


def read_unigram(path: str, fast: Mapping) -> tuple[bytes, dict]:
    """(the serialized SentencePiece model, what the file gives for the fields of a TokenizerSpec).

    UsageError, DataError for a file that cannot be a model. It has no digit-comma rule.
    """
    if model_type(fast) != "Unigram":
        raise UsageError(f"{path} holds a tokenizer of the type {model_type(fast)}, expected Unigram")
    _check_split(path, fast.get("pre_tokenizer"))
    options = unigram_options(path, fast)
    model = fast["model"]
    vocabulary, unknown = model.get("vocab"), model.get("unk_id")
    try:
        pieces = [(str(piece), float(score)) for piece, score in vocabulary]
        special = added_tokens(path, fast)
        misplaced = [token for token, i in special.items() if not (i < len(pieces) and pieces[i][0] == token)]
        unknown_piece = pieces[unknown][0]
    except (TypeError, ValueError, IndexError, KeyError):
        raise DataError(
            f"{path}: expected model.vocab as a list of [piece, score] and model.unk_id as one's number"
        ) from None
    _check_pieces(path, pieces)
    repeated = [piece for piece, count in Counter(piece for piece, _ in pieces).items() if count > 1]
    if repeated:
        raise DataError(
            f"{path}: model.vocab has {', '.join(map(repr, repeated[:5]))} twice, so that its id is not known"
        )
    if misplaced:
        raise UsageError(
            f"{path}: the added tokens {', '.join(misplaced[:5])} are not pieces of model.vocab at their ids"
        )
    message = b"".join(
        bytes_field(
            1,
            bytes_field(1, piece.encode())
            + float_field(2, score)
            + int_field(3, _type(i, piece, unknown, special, model)),
        )
        for i, (piece, score) in enumerate(pieces)
    )
    trainer = int_field(3, 1) + int_field(4, len(pieces)) + int_field(35, bool(model.get("byte_fallback")))
    trainer += int_field(40, unknown) + b"".join(int_field(field, -1) for field in (41, 42, 43))  # no bos, eos, pad
    trainer += bytes_field(45, unknown_piece.encode())
    normalizer = bytes_field(1, b"tokenizer.json") + bytes_field(2, _table(path, fast))
    content = message + bytes_field(2, trainer)
    content += bytes_field(3, normalizer + int_field(3, 1) + int_field(4, 1) + int_field(5, 1))
    return content, options | {
        "digit_comma": False,
        "special_tokens": (None, unknown_piece, None, None, None, *special),
    }


def _check_pieces(path: str, pieces: Sequence[tuple[str, float]]) -> None:
    """DataError for what SentencePiece's model cannot hold: scores that are not finite as float32, and half characters."""
    for i, (piece, score) in enumerate(pieces):
        if not abs(score) <= _MOST_SCORE:
            raise DataError(
                f"{path}: model.vocab[{i}]: the score of {piece!r} is {score}, expected a number that fits float32"
            )
        if not is_characters(piece):
            raise DataError(f"{path}: model.vocab[{i}]: the piece {piece!r} has {HALF}")


def unigram_options(path: str, fast: Mapping) -> dict[str, bool]:
    """The options of normalisation in a tokenizer.json of the type Unigram. UsageError where it is not ALBERT's."""
    chain = _chain(path, fast)
    return {"do_lower_case": bool(chain["lower"]), "keep_accents": not chain["accents"]}


def _chain(path: str, fast: Mapping) -> re.Match:
    letters = "".join(map(_letter, _without_mark_steps(path, fast)))
    chain = _CHAIN.fullmatch(letters)
    if chain is None:
        found = ", ".join(str(step.get("type")) for step in _steps(fast)) or "none"
        raise UsageError(
            f"{path}: the normalizer is {found}; expected ALBERT's: Replace of two backticks and of two apostrophes, "
            "NFKD with StripAccents or neither, Lowercase or not, Precompiled, Replace of several spaces"
        )
    return chain


def _steps(fast: Mapping) -> list[Mapping]:
    """The normalizer's steps, without the Sequences that hold them."""
    waiting, steps = [fast.get("normalizer")], []
    while waiting:
        step = waiting.pop(0)
        if isinstance(step, Mapping) and step.get("type") == "Sequence":
            waiting = list(step.get("normalizers") or []) + waiting
        elif isinstance(step, Mapping):
            steps.append(step)
    return steps


def _table(path: str, fast: Mapping) -> bytes:
    """The replacements of characters, serialized; b"" where there are none."""
    stored = next((step.get("precompiled_charsmap") for step in _steps(fast) if _letter(step) == "P"), None)
    try:
        return base64.b64decode(stored or "")
    except (TypeError, ValueError):
        raise DataError(f"{path}: precompiled_charsmap is {str(stored)[:40]!r}, expected base64") from None


def _without_mark_steps(path: str, fast: Mapping) -> list[Mapping]:
    """The normalizer's steps without those around a table that put marks aside and back, which follow from the rest of the file."""
    steps = _steps(fast)
    at = next((i for i, step in enumerate(steps) if _letter(step) == "P"), len(steps))
    if [_letter(step) for step in steps[at - 1 : at + 2]] != ["N", "P", "N"]:
        return steps
    try:
        aside, back = mark_steps(read_table(_table(path, fast)), [piece for piece, _ in fast["model"]["vocab"]])
    except (ValueError, IndexError, TypeError, KeyError):
        raise DataError(f"{path}: the table of its Precompiled, or its model.vocab, is damaged") from None
    start, stop = max(at - 1 - len(aside), 0), at + 2 + len(back)
    if steps[start : at - 1] == aside and steps[at + 2 : stop] == back:
        return steps[:start] + steps[at - 1 : at + 2] + steps[stop:]
    return steps


def _letter(step: Mapping) -> str:
    letters = {"W": collapse_spaces(), "C": drop_combining(), "F": FINAL_SIGMA, "T": STRIP, "M": LEADING_MARK}
    for letter, ours in letters.items():
        if step == ours:
            return letter
    kind, pattern = str(step.get("type")), step.get("pattern")
    if kind == "Replace" and isinstance(pattern, Mapping):
        replacements = {("String", "``", '"'): "Q`", ("String", "''", '"'): "Q'", ("Regex", " {2,}", " "): "S"}
        return next(
            (replacements.get((form, str(text), str(step.get("content"))), "?") for form, text in pattern.items()), "?"
        )
    return {"NFC": "N", "NFKD": "D", "StripAccents": "A", "Lowercase": "L", "Precompiled": "P"}.get(kind, "?")


def _check_split(path: str, splitter: Mapping | None) -> None:
    splitter = splitter or {}
    parts = splitter.get("pretokenizers", []) if splitter.get("type") == "Sequence" else [splitter]
    if parts and parts[0].get("type") == "WhitespaceSplit":
        parts = parts[1:]
    last = parts[0] if len(parts) == 1 else {}
    prefix = last.get("prepend_scheme", "always" if last.get("add_prefix_space", True) else "never")
    # Whether words are split apart first makes no difference where no piece goes across.
    if (last.get("type"), last.get("replacement"), prefix) != ("Metaspace", WORD_MARK, "always"):
        raise UsageError(
            f"{path}: the pre_tokenizer is {as_written(splitter.get('type'))} "
            f"{as_written([part.get('type') for part in parts])}; expected "
            f"Metaspace with {WORD_MARK} before every word, after WhitespaceSplit or alone"
        )


def _type(i: int, piece: str, unknown: int, special: Mapping, model: Mapping) -> int:
    if i == unknown:
        return _UNKNOWN
    if piece in special:
        return _CONTROL
    return _BYTE if model.get("byte_fallback") and _BYTE_PIECE.fullmatch(piece) else _NORMAL
