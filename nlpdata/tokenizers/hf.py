"""What Hugging Face folders and our own meta files say about a WordPiece vocabulary.

Read are vocab.txt and tokenizer.json as the vocabulary, and beside it special_tokens_map.json, tokenizer_config.json
and tokenizer.json for its options. Text is tokenized by google-research/bert's rule in every case; where the files ask
for something else (another pre-tokenizer, say), they are refused rather than read as if they did not.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nlpdata.errors import DataError, UsageError
from nlpdata.tokenizers import SIDECAR_SUFFIX, stored_options
from nlpdata.tokenizers.wordpiece_vocabulary import CONTINUATION, SPECIAL_TOKENS, read_vocabulary

_MODEL_PATTERNS = ("spiece.model", "*.model")


@dataclass
class WordPieceSettings:
    """A vocabulary and what is known about it; options are None where nothing says."""

    entries: list[str]  # by id
    do_lower_case: bool | None = None
    keep_accents: bool | None = None
    tokenize_chinese_chars: bool = True
    special_tokens: dict[str, str] = field(default_factory=lambda: dict(SPECIAL_TOKENS))
    other_special_ids: set[int] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)


def load_settings(path: str, content: bytes, sha256: str) -> WordPieceSettings:
    """The vocabulary in `content`, the bytes of the file at `path`, with the options that lie beside it.

    Options come, the first that says something, from our own sidecar or meta file, tokenizer_config.json and
    special_tokens_map.json, tokenizer.json. Raises DataError, or UsageError for a file of another kind.
    """
    fast = _as_tokenizer_json(content)
    own = _own_entry(Path(path))
    if fast is not None:
        settings = _from_tokenizer_json(path, fast)
    else:
        settings = WordPieceSettings(read_vocabulary(path, content))
    if own is None:
        if fast is None:
            _apply_fast_beside(settings, Path(path))
        _apply_config(settings, Path(path))
        return settings
    stored = stored_options(Path(path), sha256) or {}  # checks that the entry belongs to this content
    settings.do_lower_case = stored.get("do_lower_case", settings.do_lower_case)
    settings.keep_accents = stored.get("keep_accents", settings.keep_accents)
    settings.tokenize_chinese_chars = own.get("tokenize_chinese_chars", settings.tokenize_chinese_chars)
    settings.special_tokens |= own.get("special_tokens", {})
    return settings


def _own_entry(path: Path) -> Mapping | None:
    """What our own sidecar, or the meta file of the records that the vocabulary lies beside, says of it."""
    sidecar = path.with_suffix(SIDECAR_SUFFIX)
    if sidecar.exists():
        return _read_json(sidecar)
    if path.stem.endswith(".tokenizer"):
        meta = path.with_name(path.stem.removesuffix(".tokenizer") + ".meta.json")
        entry = _read_json(meta).get("tokenizer") if meta.exists() else None
        if isinstance(entry, Mapping) and entry.get("file") == path.name:
            return entry
    return None


def _apply_config(settings: WordPieceSettings, path: Path) -> None:
    """special_tokens_map.json and tokenizer_config.json; the latter wins, as in Hugging Face transformers."""
    others = set()
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        file = path.with_name(name)
        config = _read_json(file) if file.exists() else {}
        for role in SPECIAL_TOKENS:
            token = _token(config.get(f"{role}_token"))
            if token is not None:
                settings.special_tokens[role] = token
        others.update(filter(None, map(_token, config.get("additional_special_tokens") or [])))
    _apply_options(settings, file, config)
    settings.other_special_ids |= {i for i, entry in enumerate(settings.entries) if entry in others}
    added = path.with_name("added_tokens.json")
    extra = _read_json(added).keys() - set(settings.entries) if added.exists() else ()
    if extra:
        settings.notes.append(
            f"{added} adds {len(extra)} tokens that are not in {path.name} ({', '.join(sorted(extra)[:5])}); they are "
            f"not used, and the vocabulary size is that of {path.name}"
        )


def _apply_options(settings: WordPieceSettings, file: Path, config: Mapping) -> None:
    for name in ("do_lower_case", "strip_accents", "tokenize_chinese_chars", "do_basic_tokenize"):
        value = config.get(name)
        if value is not None and not isinstance(value, bool):
            raise DataError(f"{file}: {name} is {value!r}, expected true, false or null")
    tokenizer_class = config.get("tokenizer_class") or ""
    word_tokenizer = config.get("word_tokenizer_type", "basic")
    if config.get("do_basic_tokenize") is False or word_tokenizer != "basic" or "BertJapanese" in tokenizer_class:
        what = f"word_tokenizer_type {word_tokenizer}" if word_tokenizer != "basic" else "no basic tokenizer"
        raise UsageError(
            f"{file} asks for {tokenizer_class or 'a tokenizer'} with {what}; "
            "expected one that begins with BERT's basic tokenizer. With another one the ids would differ"
        )
    if config.get("do_lower_case") is not None:
        settings.do_lower_case = config["do_lower_case"]
    if config.get("strip_accents") is not None:
        settings.keep_accents = not config["strip_accents"]
    if config.get("tokenize_chinese_chars") is not None:
        settings.tokenize_chinese_chars = config["tokenize_chinese_chars"]


def _apply_fast_beside(settings: WordPieceSettings, path: Path) -> None:
    """The options of a tokenizer.json beside a vocab.txt with the same entries."""
    file = path.with_name("tokenizer.json")
    if not file.exists():
        return
    try:
        fast = _from_tokenizer_json(str(file), _read_json(file))
    except (DataError, UsageError):
        return  # nobody asked for that file
    if fast.entries[: len(settings.entries)] != settings.entries:
        return
    settings.do_lower_case = fast.do_lower_case
    settings.keep_accents = fast.keep_accents
    settings.tokenize_chinese_chars = fast.tokenize_chinese_chars


def _as_tokenizer_json(content: bytes) -> dict | None:
    if content.lstrip()[:1] != b"{":
        return None
    try:
        value = json.loads(content)
    except ValueError:
        return None
    return value if isinstance(value, dict) and "model" in value else None


def _from_tokenizer_json(path: str, fast: Mapping) -> WordPieceSettings:
    """A tokenizer.json of the type WordPiece that does what BERT does; UsageError for any other."""
    model = fast.get("model")
    kind = model.get("type") if isinstance(model, Mapping) else None
    if kind is None and isinstance(model, Mapping) and "max_input_chars_per_word" in model:
        kind = "WordPiece"  # files of before tokenizers 0.10 have no type
    if kind != "WordPiece":
        raise UsageError(f"{path} holds a tokenizer of the type {kind}, expected WordPiece{_model_beside(Path(path))}")
    prefix = model.get("continuing_subword_prefix", CONTINUATION)
    if prefix != CONTINUATION:
        raise UsageError(f"{path}: pieces inside words begin with {prefix!r}, expected {CONTINUATION!r}")
    normalizer = fast.get("normalizer") or {}
    splitter = fast.get("pre_tokenizer") or {}
    for what, found, expected in (
        ("normalizer", normalizer.get("type"), "BertNormalizer"),
        ("pre_tokenizer", splitter.get("type"), "BertPreTokenizer"),
        ("normalizer's clean_text", normalizer.get("clean_text", True), True),
    ):
        if found != expected:
            raise UsageError(f"{path}: the {what} is {found}, expected {expected}: text would be split otherwise")
    added = [token for token in fast.get("added_tokens") or [] if isinstance(token, Mapping)]
    ids = dict(model.get("vocab") or {}) | {token["content"]: token["id"] for token in added}
    settings = WordPieceSettings(
        entries=_by_id(path, ids),
        do_lower_case=normalizer.get("lowercase", True),
        tokenize_chinese_chars=normalizer.get("handle_chinese_chars", True),
        other_special_ids={token["id"] for token in added if token.get("special")},
    )
    if normalizer.get("strip_accents") is not None:
        settings.keep_accents = not normalizer["strip_accents"]
    if model.get("unk_token"):
        settings.special_tokens["unk"] = model["unk_token"]
    return settings


def _by_id(path: str, ids: Mapping[str, int]) -> list[str]:
    entries = sorted(ids, key=ids.get)
    for expected, entry in enumerate(entries):
        if ids[entry] != expected:
            raise DataError(
                f"{path}: {entry!r} has id {ids[entry]}, expected {expected}: "
                f"the ids of the {len(entries)} entries must be the numbers from 0 on, each once"
            )
    if not entries:
        raise DataError(f"{path}: the vocabulary is empty")
    return entries


def _model_beside(path: Path) -> str:
    for pattern in _MODEL_PATTERNS:
        found = sorted(path.parent.glob(pattern))
        if found:
            return f"; pass {found[0]}, which lies beside it and holds the same pieces"
    return (
        ". For a type Unigram (ALBERT) pass the spiece.model it was made from: the slow tokenizer's save_pretrained "
        "writes that file"
    )


def _token(value) -> str | None:
    """The text of a special token in a JSON file: a string, or an object with `content`."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) and value else None


def _read_json(path: Path) -> dict:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise DataError(f"{path} holds {type(value).__name__}, expected an object")
    return value
