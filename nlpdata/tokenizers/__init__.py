"""Tokenizers: one interface, one loader. A new kind is one module and one line in TOKENIZERS.

tokenizer = load_tokenizer("tok/spm.model")
ids, lengths = tokenizer.encode(["First line.", "Second line."])     # int32 of all lines, int64 (2,)
"""

import hashlib
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError, UsageError

# kind -> "module:class", imported when first used; the class is called with a TokenizerSpec.
TOKENIZERS = {
    "sentencepiece": "nlpdata.tokenizers.sentencepiece:SentencePieceTokenizer",
    "wordpiece": "nlpdata.tokenizers.wordpiece:WordPieceTokenizer",
}
OPTIONS = ("do_lower_case", "keep_accents", "digit_comma")
SIDECAR_SUFFIX = ".tokenizer.json"
_HEAD = 65536  # bytes that tell what a file is


@dataclass(frozen=True)
class TokenizerSpec:
    """All it takes to load a tokenizer: small, picklable, and equal specs load equal tokenizers.

    An option that is None takes the value stored beside the file (`stored_options`), else the kind's default.
    """

    path: str  # a .model file, a vocab.txt, or a folder with one of them
    do_lower_case: bool | None = None
    keep_accents: bool | None = None
    digit_comma: bool | None = None  # SentencePiece only: ALBERT's split of "9," into "9" and ","
    kind: str | None = None  # a key of TOKENIZERS; None: told from the name, else from the content
    sha256: str | None = None  # if given, the file must have this checksum

    @classmethod
    def from_meta(cls, entry: Mapping, folder: str | Path = ".") -> "TokenizerSpec":
        """The spec of a meta file's `tokenizer` entry; `folder` is where the meta file, and so `file`, lies."""
        if "file" not in entry:
            raise DataError(f"the tokenizer entry of the meta file names no file; it has {sorted(entry)}")
        options = {name: entry[name] for name in OPTIONS if entry.get(name) is not None}
        return cls(str(Path(folder, entry["file"])), kind=entry.get("type"), sha256=entry.get("sha256"), **options)


class Tokenizer(ABC):
    """What every tokenizer offers. Ids are int32; none of the methods adds [CLS] or [SEP]."""

    kind: str  # a key of TOKENIZERS
    spec: TokenizerSpec  # complete (no option None): workers load an equal tokenizer from it
    path: str
    sha256: str  # of the file
    vocab_size: int
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    ordinary_ids: np.ndarray  # int32, ascending: ids that may replace a token; no special, control or unused ones
    word_start: np.ndarray  # bool (vocab_size,): this piece begins a word (whole-word masking, token_boundary)
    notes: list[str]  # sentences that the command line prints about the tokenizer

    @abstractmethod
    def normalize(self, lines: Sequence[str]) -> list[str]:
        """The text that is segmented, line by line."""

    @abstractmethod
    def encode_normalized(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """`encode` of lines that `normalize` has returned."""

    def encode(self, lines: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Ids of all lines, one after the other: int32 (sum of lengths,), and lengths: int64 (len(lines),).

        A line of which nothing is left has length 0. Literal "[SEP]" and the like in the text are text.
        """
        return self.encode_normalized(self.normalize(lines))

    @abstractmethod
    def pieces(self, ids) -> list[str]:
        """The vocabulary entry of each id."""

    @abstractmethod
    def decode(self, ids) -> str:
        """Readable text of ids, for display; not an inverse of `encode`."""

    @abstractmethod
    def options(self) -> dict:
        """The options that decide about ids, none of them None; keys of OPTIONS."""

    def meta(self) -> dict:
        """The meta file's `tokenizer` entry, but for `file`. `ordinary_ids` is a list of [start, stop) ranges."""
        return {
            "type": self.kind,
            "sha256": self.sha256,
            "vocab_size": self.vocab_size,
            "special_ids": {name: int(getattr(self, f"{name}_id")) for name in ("pad", "unk", "cls", "sep", "mask")},
            "ordinary_ids": ranges(self.ordinary_ids),
            **self.options(),
        }


def load_tokenizer(source, **options) -> Tokenizer:
    """Loads a tokenizer from a TokenizerSpec, a path (str or Path) or a meta file's `tokenizer` entry (a mapping).

    `options` are fields of TokenizerSpec that go before what the source says, and for a mapping also `folder`.
    Raises UsageError where the choice of file or option is wrong, DataError where the file is.
    """
    if isinstance(source, Mapping):
        spec = TokenizerSpec.from_meta(source, options.pop("folder", "."))
    else:
        spec = source if isinstance(source, TokenizerSpec) else TokenizerSpec(str(source))
    unknown = sorted(options.keys() - TokenizerSpec.__dataclass_fields__.keys())
    if unknown:
        raise UsageError(f"unknown tokenizer option {unknown[0]}; known: {', '.join(OPTIONS)}")
    spec = replace(spec, **{name: value for name, value in options.items() if value is not None})
    path = find_tokenizer_file(spec.path)
    kind = spec.kind or tokenizer_kind(path)
    if kind not in TOKENIZERS:
        near = get_close_matches(kind, TOKENIZERS, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise UsageError(f"unknown tokenizer type {kind!r}; known: {', '.join(TOKENIZERS)}{hint}")
    refuse_sentencepiece_vocab(path, read_bytes(path)[:_HEAD])
    module, _, attribute = TOKENIZERS[kind].partition(":")
    return getattr(importlib.import_module(module), attribute)(replace(spec, path=str(path), kind=kind))


def find_tokenizer_file(path: str | Path) -> Path:
    """The tokenizer file that a path means: itself, or the one in a folder. UsageError if there is none or several."""
    path = Path(path)
    if not path.is_dir():
        if path.exists():
            return path
        siblings = [p.name for p in path.parent.iterdir() if is_tokenizer_name(p)] if path.parent.is_dir() else []
        near = get_close_matches(path.name, siblings, n=1, cutoff=0.5)
        hint = f"; {path.with_name(near[0])} does" if near else ""
        raise UsageError(f"tokenizer file {path} does not exist{hint}")
    found = sorted(p for p in path.iterdir() if is_tokenizer_name(p) and p.is_file())
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{path} holds more than one tokenizer: {', '.join(p.name for p in found)}; pass the path of one of them"
        )
    hint = ""
    if (path / "tokenizer.json").exists():
        hint = "; its tokenizer.json alone cannot be read: save the slow tokenizer's files as well"
    raise UsageError(f"folder {path} holds no tokenizer: expected one *.model (SentencePiece) or vocab.txt{hint}")


def is_tokenizer_name(path: Path) -> bool:
    """True of names that say tokenizer: *.model, *vocab.txt, <stem>.tokenizer.txt, and *.txt with a sidecar."""
    if path.suffix == ".txt":
        return path.name.endswith(("vocab.txt", ".tokenizer.txt")) or path.with_suffix(SIDECAR_SUFFIX).exists()
    return path.suffix == ".model"


def tokenizer_kind(path: Path) -> str:
    """The kind of a tokenizer file, from its name, or from its content where the name does not tell."""
    if path.suffix == ".model":
        return "sentencepiece"
    head = read_bytes(path)[:_HEAD]
    refuse_sentencepiece_vocab(path, head)
    if path.suffix == ".txt":
        return "wordpiece"
    # A SentencePiece model is a sequence of messages in binary form; a vocabulary is text.
    binary = b"\0" in head
    return "sentencepiece" if binary else "wordpiece"


def refuse_sentencepiece_vocab(path: Path, head: bytes) -> None:
    """UsageError if a file is the list of pieces and scores that SentencePiece writes beside a model.

    It is mistaken for the model, and for a WordPiece vocabulary (google-research/electra#8).
    """
    lines = head.split(b"\n")[:50]
    rows = [line.rstrip(b"\r") for line in lines[: -1 if len(head) >= _HEAD else None] if line.strip()]
    if path.suffix != ".vocab" and not (rows and all(_is_score_row(row) for row in rows)):
        return
    if path.suffix == ".vocab" and rows and not any(b"\t" in row for row in rows):
        return  # one entry a line: a WordPiece vocabulary by another name
    model = path.with_suffix(".model")
    beside = model != path and model.exists()
    which = f"{model}, which lies beside it" if beside else "the model itself, a binary *.model file"
    raise UsageError(
        f"{path} is the readable list of a SentencePiece model's pieces (piece, tab, score), which cannot "
        f"segment text; pass {which}"
    )


def _is_score_row(row: bytes) -> bool:
    piece, tab, score = row.rpartition(b"\t")
    try:
        float(score)
    except ValueError:
        return False
    return bool(tab and piece)


def stored_options(path: Path, sha256: str) -> dict | None:
    """The normalisation options that lie beside a tokenizer file, or None.

    Looked for in the order of this list: `<prefix>.tokenizer.json`, which train-tokenizer writes; the meta file of
    the records beside which a copy of the tokenizer lies (`<stem>.tokenizer.model`, `<stem>.meta.json`); Hugging
    Face's `tokenizer_config.json`. DataError if one of the first two belongs to other content (checksum).
    """
    sidecar = path.with_suffix(SIDECAR_SUFFIX)
    if sidecar.exists():
        return _checked_options(_read_json(sidecar), sidecar, path, sha256)
    if path.stem.endswith(".tokenizer"):
        meta = path.with_name(path.stem.removesuffix(".tokenizer") + ".meta.json")
        entry = _read_json(meta).get("tokenizer") if meta.exists() else None
        if isinstance(entry, Mapping) and entry.get("file") == path.name:
            return _checked_options(entry, meta, path, sha256)
    config = path.with_name("tokenizer_config.json")
    if config.exists():
        stored = _read_json(config)
        return {name: stored[name] for name in OPTIONS if isinstance(stored.get(name), bool)} or None
    return None


def _checked_options(stored: Mapping, source: Path, path: Path, sha256: str) -> dict:
    if stored.get("sha256") != sha256:
        raise DataError(
            f"{source} was written for another {path.name}: it says sha256 {stored.get('sha256')}, the file has "
            f"{sha256}. Restore the file that belongs to it, or remove {source.name} and give the options yourself"
        )
    options = {name: stored[name] for name in OPTIONS if name in stored}
    for name, value in options.items():
        if not isinstance(value, bool):
            raise DataError(f"{source}: {name} is {value!r}, expected true or false")
    return options


def _read_json(path: Path) -> dict:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{path} holds {type(value).__name__}, expected an object")
    return value


def read_bytes(path: str | Path) -> bytes:
    """The content of a tokenizer file; UsageError if it is absent, DataError if it cannot be read."""
    try:
        return Path(path).read_bytes()
    except FileNotFoundError:
        raise UsageError(f"tokenizer file {path} does not exist") from None
    except OSError as error:
        raise DataError(f"tokenizer file {path} cannot be read: {error.strerror}") from None


def read_checked(spec: TokenizerSpec) -> tuple[bytes, str]:
    """The content of a spec's file and its sha256 (hex); DataError if the spec expects another one."""
    content = read_bytes(spec.path)
    sha256 = hashlib.sha256(content).hexdigest()
    if spec.sha256 is not None and spec.sha256 != sha256:
        raise DataError(f"{spec.path} has sha256 {sha256}, expected {spec.sha256}: it is another file than was used")
    return content, sha256


def ranges(ids: np.ndarray) -> list[list[int]]:
    """Ascending ids as [start, stop) pairs: [2, 3, 4, 9] -> [[2, 5], [9, 10]]."""
    ids = np.asarray(ids, dtype=np.int64)
    if not ids.size:
        return []
    cuts = np.flatnonzero(np.diff(ids) != 1)
    starts = ids[np.concatenate(([0], cuts + 1))]
    stops = ids[np.concatenate((cuts, [ids.size - 1]))] + 1
    return [[int(a), int(b)] for a, b in zip(starts, stops, strict=True)]
