"""Tokenizer files: which one a path means, what kind it is, and the name of its copy next to records."""

import atexit
import hashlib
import shutil
import tempfile
from pathlib import Path

from nlpdata.errors import DataError, UsageError, closest
from nlpdata.files.disk import reading
from nlpdata.files.paths import is_remote, read_file
from nlpdata.files.pointers import refuse_pointer
from nlpdata.files.remote import RemotePath
from nlpdata.tokenizers.hf import is_json, json_kind

SIDECAR_SUFFIX = ".tokenizer.json"  # what train-tokenizer writes next to a tokenizer file
FAST = "tokenizer.json"
_COPY = ".tokenizer"
_FAST_COPY = ".tokenizer.hf.json"  # not the sidecar's name: a vocabulary of the same stem may be there
_NEXT_TO_IT = (FAST, "tokenizer_config.json", "special_tokens_map.json")  # Hugging Face's, of any name
_HEAD = 65536  # bytes that tell what a file is


def fetch(path: str) -> str:
    """A tokenizer's path on this machine: a remote one is copied, with the files next to it, until this process ends."""
    if not is_remote(path):
        return path
    source = RemotePath(path)
    if not source.exists():
        raise UsageError(f"tokenizer file {path} does not exist")
    whole = source.is_dir()
    stem = source.name.partition(".")[0]
    place = Path(tempfile.mkdtemp(prefix="nlpdata-tokenizer-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    for each in (source if whole else source.parent).iterdir():
        of_it = whole or each.name.startswith(f"{stem}.") or each.name in _NEXT_TO_IT
        if each.name.endswith((".model", ".txt", ".json")) and of_it:
            each.copy_to(place / each.name)
    return str(place if whole else place / source.name)


def find_tokenizer_file(path: str | Path) -> Path:
    """The tokenizer file that a path means: itself, or the one in a folder. UsageError where there is none, or several."""
    path = Path(path)
    if not path.is_dir():
        if path.exists():
            return path
        siblings = [p.name for p in path.parent.iterdir() if is_tokenizer_name(p)] if path.parent.is_dir() else []
        hint = closest(path, (path.with_name(name) for name in siblings))
        raise UsageError(f"tokenizer file {path} does not exist.{hint}")
    found = sorted(p for p in path.iterdir() if is_tokenizer_name(p) and p.is_file())
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(
            f"{path} holds more than one tokenizer: {', '.join(p.name for p in found)}; pass the path of one of them"
        )
    if (path / FAST).is_file():  # Hugging Face writes it next to the others
        return path / FAST
    raise UsageError(
        f"folder {path} holds no tokenizer: expected one *.model (SentencePiece), vocab.txt (WordPiece) or {FAST}"
    )


def is_tokenizer_name(path: Path) -> bool:
    """True of names that say tokenizer: *.model, *vocab.txt, tokenizer.txt, <stem>.tokenizer.txt, and *.txt with a sidecar."""
    if path.suffix == ".txt":
        named = path.name.endswith(("vocab.txt", ".tokenizer.txt")) or path.name == copy_name("", path)
        return named or path.with_suffix(SIDECAR_SUFFIX).exists()
    return path.suffix == ".model"


def tokenizer_kind(path: Path) -> str:
    """The kind of a tokenizer file, from its name, or from its content where the name does not tell."""
    if path.suffix == ".model":
        return "sentencepiece"
    content = read_bytes(path)
    refuse_sentencepiece_vocab(path, content)
    if is_json(content):
        return json_kind(str(path), content)
    if path.suffix == ".txt":
        return "wordpiece"
    # A SentencePiece model is a sequence of messages in binary form; a vocabulary is text.
    return "sentencepiece" if b"\0" in content[:_HEAD] else "wordpiece"


def refuse_sentencepiece_vocab(path: Path, content: bytes) -> None:
    """UsageError if a file is the list of pieces and scores that SentencePiece writes next to a model.

    It is mistaken for the model, and for a WordPiece vocabulary (google-research/electra#8).
    """
    lines = content[:_HEAD].split(b"\n")[:50]
    rows = [line.rstrip(b"\r") for line in lines[: -1 if len(content) >= _HEAD else None] if line.strip()]
    if path.suffix != ".vocab" and not (rows and all(_is_score_row(row) for row in rows)):
        return
    if path.suffix == ".vocab" and rows and not any(b"\t" in row for row in rows):
        return  # one entry a line: a WordPiece vocabulary by another name
    model = path.with_suffix(".model")
    is_there = model != path and model.exists()
    which = f"{model}, which is next to it" if is_there else "the model itself, a binary *.model file"
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


def copy_name(stem: str, path: str | Path) -> str:
    """The name of a tokenizer file's copy next to the records of this stem; "" in a folder of fine-tuning records."""
    suffix = Path(path).suffix
    return (stem + (_FAST_COPY if suffix == ".json" else f"{_COPY}{suffix}")).removeprefix(".")


def meta_of_copy(path: Path) -> Path | None:
    """The meta file of the records next to which such a copy is, if its name is that of a copy."""
    if path.name in (copy_name("", name) for name in ("a.json", "a.model", "a.txt")):
        return path.with_name("meta.json")
    for ending in (_FAST_COPY, f"{_COPY}{path.suffix}"):
        if path.name.endswith(ending):
            return path.with_name(path.name.removesuffix(ending) + ".meta.json")
    return None


def read_bytes(path: str | Path) -> bytes:
    """The content of a tokenizer file; UsageError if it is absent, DataError if it cannot be read."""
    with reading(path):
        try:
            content = read_file(path)
        except FileNotFoundError:
            raise UsageError(f"tokenizer file {path} does not exist") from None
    refuse_pointer(path, content)
    return content


def read_checked(path: str | Path, expected: str | None) -> tuple[bytes, str]:
    """The content of a tokenizer file and its sha256 (hex); DataError if another one is expected."""
    content = read_bytes(path)
    sha256 = hashlib.sha256(content).hexdigest()
    if expected is not None and expected != sha256:
        raise DataError(f"{path} has sha256 {sha256}, expected {expected}: it is another file than was used")
    return content, sha256
