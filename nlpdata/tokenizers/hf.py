"""tokenizer.json of Hugging Face tokenizers: what kind it is, and the vocabulary and options of the type WordPiece.

Text is tokenized by google-research/bert's rule (WordPiece) or google-research/albert's (Unigram, see `unigram`) in every
case. A file that asks for something else is refused rather than read as if it did not. Post-processors, decoders,
truncation and padding do not change the ids of a line, and are not read.
"""

import json
from collections.abc import Mapping

from nlpdata.errors import DataError, UsageError
from nlpdata.files.json_files import JSON_FAULTS, json_fault
from nlpdata.files.json_kinds import CHARACTERS, FLAG, LIST, OBJECT, TEXT, Kind, fault, or_null, whole
from nlpdata.tokenizers.hf_steps import DROP_CONTROL, FINAL_SIGMA
from nlpdata.tokenizers.wordpiece_vocabulary import CONTINUATION

_PIECE = whole(1 << 24)
_KINDS = {  # see nlpdata.files.json_kinds.fault
    "model.type": or_null(TEXT),
    "model.unk_token": or_null(CHARACTERS),
    "added_tokens": or_null(LIST),
    "added_tokens.*": Kind(
        "an object with content and id", lambda value: isinstance(value, dict) and value.keys() >= {"content", "id"}
    ),
    "added_tokens.*.content": CHARACTERS,
    "added_tokens.*.id": _PIECE,
    "added_tokens.*.special": FLAG,
    "normalizer": or_null(OBJECT),
    "normalizer.normalizers": Kind("a list of objects", lambda value: isinstance(value, list) and value != []),
    "normalizer.normalizers.*": OBJECT,
    **{
        f"{where}.{name}": or_null(FLAG)
        for where in ("normalizer", "normalizer.normalizers.*")
        for name in ("lowercase", "strip_accents", "handle_chinese_chars")
    },
    "pre_tokenizer": or_null(OBJECT),
    "pre_tokenizer.pretokenizers": LIST,
    "pre_tokenizer.pretokenizers.*": OBJECT,
}
_WORDPIECE = {"model.vocab": or_null(OBJECT), "model.vocab.*": _PIECE}
KINDS = {"WordPiece": "wordpiece", "Unigram": "sentencepiece"}


def is_json(content: bytes) -> bool:
    """True if a file's first bytes begin a JSON object."""
    return content.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def parse_tokenizer_json(path: str, content: bytes) -> dict:
    """The object in a tokenizer.json; DataError for anything else."""
    try:
        fast = json.loads(content.decode("utf-8-sig"))
    except JSON_FAULTS as error:
        raise DataError(f"{path} cannot be read as JSON, perhaps it is cut short: {json_fault(error)}") from None
    if not isinstance(fast, dict) or not isinstance(fast.get("model"), dict):
        raise DataError(f"{path} is not a tokenizer.json: expected an object with `model`, as Hugging Face writes it")
    found = fault(fast, _KINDS) or (fault(fast, _WORDPIECE) if model_type(fast) == "WordPiece" else None)
    if found:
        raise DataError(f"{path}: {found}")
    return fast


def model_type(fast: Mapping) -> str | None:
    """The type of the model in a tokenizer.json. Files of before tokenizers 0.10 do not name it."""
    model = fast["model"]
    if "type" not in model and "max_input_chars_per_word" in model:
        return "WordPiece"
    return model.get("type")


def json_kind(path: str, content: bytes) -> str:
    """The key of TOKENIZERS for a tokenizer.json; UsageError for types that are not supported."""
    found = model_type(parse_tokenizer_json(path, content))
    if found not in KINDS:
        raise UsageError(
            f"{path} holds a tokenizer of the type {found}, expected WordPiece (BERT) or Unigram (ALBERT). Use the spiece.model "
            "that it was made from, where there is one; byte-level BPE and the like cannot be used: train a vocabulary with "
            "nlpdata train-tokenizer"
        )
    return KINDS[found]


def wordpiece_entries(path: str, fast: Mapping) -> list[str]:
    """The entries by id, added special tokens among them. UsageError for a file that does not do what BERT does."""
    if model_type(fast) != "WordPiece":
        raise UsageError(f"{path} holds a tokenizer of the type {model_type(fast)}, expected WordPiece")
    model = fast["model"]
    normalizer = _bert_normalizer(fast)
    for what, found, expected in (
        ("prefix of pieces inside words", model.get("continuing_subword_prefix", CONTINUATION), CONTINUATION),
        ("normalizer", normalizer.get("type"), "BertNormalizer"),
        ("pre_tokenizer", (fast.get("pre_tokenizer") or {}).get("type"), "BertPreTokenizer"),
        ("normalizer's clean_text", normalizer.get("clean_text", True), True),
    ):
        if found != expected:
            raise UsageError(
                f"{path}: the {what} is {found}, expected {expected}: its ids would differ from BERT's rule"
            )
    added = added_tokens(path, fast)
    return _by_id(path, dict(model.get("vocab") or {}) | added)


def wordpiece_options(path: str, fast: Mapping) -> dict:
    """What a tokenizer.json gives for the fields of a TokenizerSpec."""
    normalizer = _bert_normalizer(fast)
    options = {
        "do_lower_case": normalizer.get("lowercase", True),
        "tokenize_chinese_chars": normalizer.get("handle_chinese_chars", True),
        "special_tokens": (None, fast["model"].get("unk_token"), None, None, None, *added_tokens(path, fast)),
    }
    if normalizer.get("strip_accents") is not None:  # null: as lowercase says
        options["keep_accents"] = not normalizer["strip_accents"]
    return options


def _bert_normalizer(fast: Mapping) -> Mapping:
    """The BertNormalizer. In our own files (`hf_writing`) steps before it do what its clean_text is for."""
    normalizer = fast.get("normalizer") or {}
    *before, last = normalizer.get("normalizers") or [{}]
    if before in ([DROP_CONTROL], [DROP_CONTROL, FINAL_SIGMA]):
        return {**last, "clean_text": True}
    return normalizer


def added_tokens(path: str, fast: Mapping) -> dict[str, int]:
    """The added special tokens and their ids. UsageError for others: they are looked for in text before it is split."""
    refuse_added(path, searched_tokens(fast))
    return {token["content"]: token["id"] for token in fast.get("added_tokens") or []}


def searched_tokens(fast: Mapping) -> list[str]:
    """The added tokens that are not special: Hugging Face looks for them in text before it is split into words."""
    return [token["content"] for token in fast.get("added_tokens") or [] if not token.get("special")]


def refuse_added(path: str, searched: list[str]) -> None:
    """UsageError if there are tokens that Hugging Face looks for in text, anywhere, before it is split into words."""
    if searched:
        raise UsageError(
            f"{path} adds {len(searched)} tokens that are looked for in text before it is split into words "
            f"({', '.join(sorted(searched)[:5])}), which BERT's and ALBERT's rules do not do. Use the tokenizer without "
            "them, or put them into the vocabulary in place of unused entries"
        )


def _by_id(path: str, ids: Mapping[str, int]) -> list[str]:
    entries = sorted(ids, key=ids.__getitem__)
    for expected, entry in enumerate(entries):
        if ids[entry] != expected:
            raise DataError(
                f"{path}: {entry!r} has id {ids[entry]}, expected {expected}: "
                f"the ids of the {len(entries)} entries must be the numbers from 0 on, each once"
            )
    if not entries:
        raise DataError(f"{path}: the vocabulary is empty")
    return entries
