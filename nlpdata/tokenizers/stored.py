"""What the files next to a tokenizer file say about its use: ours, and those of Hugging Face folders."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from nlpdata.errors import DataError, UsageError
from nlpdata.files.json_files import read_object
from nlpdata.files.json_kinds import LIST, OBJECT, TEXT, Kind, as_written, fault, is_characters, or_null
from nlpdata.records.contract import committing_marker
from nlpdata.tokenizers import OPTIONS, SPECIAL_ROLES
from nlpdata.tokenizers.files import FAST, SIDECAR_SUFFIX, meta_of_copy, read_bytes
from nlpdata.tokenizers.hf import parse_tokenizer_json, refuse_added, wordpiece_options

_TOKEN = Kind(
    "text, or an object with content",
    lambda value: is_characters(value.get("content") if isinstance(value, dict) else value),
)
_TOKEN_OR_NONE = or_null(Kind("text", is_characters))
_KINDS = {  # see nlpdata.files.json_kinds.fault
    **{f"{role}_token": or_null(_TOKEN) for role in SPECIAL_ROLES},
    "additional_special_tokens": or_null(LIST),
    "additional_special_tokens.*": _TOKEN,
    "added_tokens_decoder": or_null(OBJECT),
    "added_tokens_decoder.*": Kind(
        "an object with content", lambda value: isinstance(value, dict) and _TOKEN.fits(value)
    ),
    "word_tokenizer_type": or_null(TEXT),
}
_USUAL = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "<pad>", "<unk>"}  # special, whether a file says so or not


def stored_options(path: Path, sha256: str, symbols: Callable[[], Mapping[str, int]] = dict) -> dict:
    """Fields of TokenizerSpec that are stored next to a tokenizer file; empty where none are.

    Looked for in the order of this list: `<prefix>.tokenizer.json`, which train-tokenizer writes; the meta file of
    the records next to which a copy of the tokenizer is (`<stem>.tokenizer.model`, `<stem>.meta.json`); Hugging
    Face's files. `special_tokens` from those may hold None for roles they do not name. DataError if one of the first
    two belongs to other content (checksum).
    """
    sidecar = path.with_suffix(SIDECAR_SUFFIX)
    if sidecar.exists() and sidecar != path:
        return _checked_options(read_object(sidecar), sidecar, path, sha256)
    meta = meta_of_copy(path)
    if meta is not None:
        _refuse_while_committing(path, meta)
    if meta is not None and meta.exists():
        entry = read_object(meta).get("tokenizer")
        if isinstance(entry, Mapping) and entry.get("file") == path.name:
            return _checked_options(entry, meta, path, sha256)
    return _folder_options(path, symbols)


def _refuse_while_committing(path: Path, meta: Path) -> None:
    """DataError for the copy of a tokenizer while its set is replaced: what is known of it is then in no file."""
    one = [committing_marker(meta.with_name(meta.name.removesuffix(".meta.json")))]
    found = meta.parent.glob(".*.committing") if meta.name == "meta.json" else one
    markers = [marker for marker in found if marker.exists()]
    for marker in markers:
        raise DataError(
            f"{path} belongs to a set of records that is being replaced, or whose replacement was interrupted ({marker} "
            "exists). Run the command that writes the set again to complete it, with another copy of this file if it "
            "named this one"
        )


def _checked_options(stored: Mapping, source: Path, path: Path, sha256: str) -> dict:
    if stored.get("sha256") != sha256:
        raise DataError(
            f"{source} was written for another {path.name}: it says sha256 {as_written(stored.get('sha256'))[:80]}, the file has "
            f"{sha256}. Restore the file that belongs to it, or remove {source.name} and give the options yourself"
        )
    options = {name: stored[name] for name in OPTIONS if name in stored}
    for name, value in options.items():
        if not isinstance(value, bool):
            raise DataError(f"{source}: {name} is {as_written(value)[:80]}, expected true or false")
    special = stored.get("special_tokens")
    if special:
        if (
            not isinstance(special, list)
            or len(special) < len(SPECIAL_ROLES)
            or not all(map(_TOKEN_OR_NONE.fits, special))
        ):
            raise DataError(f"{source}: special_tokens is {str(special)[:60]!r}, expected a list of five texts or more")
        options["special_tokens"] = tuple(special)
    return options


def _folder_options(path: Path, symbols: Callable[[], Mapping[str, int]]) -> dict:
    """tokenizer_config.json, before special_tokens_map.json, before a tokenizer.json next to a vocab.txt."""
    config_file = path.with_name("tokenizer_config.json")
    config = _hugging_face(config_file)
    options = _config_options(config_file, config)
    special = _special_tokens(_hugging_face(path.with_name("special_tokens_map.json")), config)
    searched = {token: i for token, i in _added(path, config).items() if token not in _USUAL and token not in special}
    if searched:
        own = symbols()
        refuse_added(str(path.parent), sorted(token for token, i in searched.items() if own.get(token) != i))
    if any(special):
        options["special_tokens"] = special
    fast_file = path.with_name(FAST)
    if path.suffix == ".txt" and "do_lower_case" not in options and fast_file.exists():
        fast = parse_tokenizer_json(str(fast_file), read_bytes(fast_file))
        options = wordpiece_options(str(fast_file), fast) | options
    return options


def _hugging_face(path: Path) -> dict:
    """The content of one of Hugging Face's small files; {} where it is not there. DataError where it cannot be one."""
    content = read_object(path) if path.exists() else {}
    if found := fault(content, _KINDS):
        raise DataError(f"{path}: {found}")
    return content


def _config_options(file: Path, config: Mapping) -> dict:
    for name in (*OPTIONS, "strip_accents", "do_basic_tokenize"):
        if not isinstance(config.get(name, None), bool | None):
            raise DataError(f"{file}: {name} is {config[name]!r}, expected true, false or null")
    words = config.get("word_tokenizer_type") or "basic"
    if config.get("do_basic_tokenize") is False or words != "basic":
        what = f"word_tokenizer_type {words}" if words != "basic" else "do_basic_tokenize false"
        raise UsageError(f"{file} says {what}; expected BERT's basic tokenizer: with another one the ids would differ")
    options = {name: config[name] for name in OPTIONS if config.get(name) is not None}
    if config.get("strip_accents") is not None:  # null: as do_lower_case says
        options["keep_accents"] = not config["strip_accents"]
    return options


def _special_tokens(*configs: Mapping) -> tuple[str | None, ...]:
    """Entries for SPECIAL_ROLES, None where no file names one, and the other special tokens. Later files win."""
    roles: dict[str, str | None] = dict.fromkeys(SPECIAL_ROLES)
    others: dict[str, None] = {}
    for config in configs:
        named = {role: _token(config.get(f"{role}_token")) for role in SPECIAL_ROLES}
        roles |= {role: token for role, token in named.items() if token}
        extra = [_token(token) for token in config.get("additional_special_tokens") or []]
        extra += [t["content"] for t in (config.get("added_tokens_decoder") or {}).values() if t.get("special")]
        others |= dict.fromkeys(token for token in extra if token)
    return (*roles.values(), *(token for token in others if token not in roles.values()))


def _added(path: Path, config: Mapping) -> dict[str, int]:
    """Added tokens that are not declared special -> their ids."""
    added = _hugging_face(path.with_name("added_tokens.json"))
    for i, token in (config.get("added_tokens_decoder") or {}).items():
        if not token.get("special"):
            added[token["content"]] = int(i) if i.isdecimal() else i
    return added


def complete_special_tokens(defaults: Sequence[str], *sources: Sequence[str | None]) -> tuple[str, ...]:
    """Entries for SPECIAL_ROLES from the first source that names one, else the default; then all other ones, once."""
    first = [source[: len(defaults)] for source in sources if source]
    roles = [next(filter(None, choices)) for choices in zip(*first, defaults, strict=True)]
    others = dict.fromkeys(token for source in sources for token in source[len(roles) :] if token not in roles)
    return (*roles, *others)


def _token(value: object) -> str | None:
    """The text of a special token in a JSON file: a string, or an object with `content`."""
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) and value else None
