"""A tokenizer.json next to a vocabulary: the vocabulary decides, and where the two contradict each other that is reported.

Hugging Face's AutoTokenizer takes tokenizer.json, so a model may have been trained with its ids.
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path

from nlpdata.errors import Message, NlpdataError, opt
from nlpdata.tokenizers.files import FAST, read_bytes
from nlpdata.tokenizers.hf import KINDS, model_type, parse_tokenizer_json, searched_tokens, wordpiece_options
from nlpdata.tokenizers.unigram import unigram_options


def contradiction(path: Path, kind: str, entries: Sequence[str], options: Mapping[str, object]) -> str:
    """A note about a tokenizer.json that is not path itself, next to it; "" where there is none, or it says the same.

    Args:
      path: a vocabulary (vocab.txt, spiece.model).
      kind: its key in TOKENIZERS.
      entries: its entries, by id.
      options: the options that files decided, by name.
    """
    fast_file = path.with_name(FAST)
    if fast_file == path or not fast_file.is_file():
        return ""
    found = _difference(fast_file, kind, entries, options)
    return str(Message(f"{fast_file}, next to {path.name}, {found}")) if found else ""


def _difference(fast_file: Path, kind: str, entries: Sequence[str], options: Mapping[str, object]) -> str:
    try:
        fast = parse_tokenizer_json(str(fast_file), read_bytes(fast_file))
        if KINDS.get(model_type(fast) or "") != kind:
            return f"is a tokenizer of the type {model_type(fast)}. This vocabulary decides"
        searched = searched_tokens(fast)
        special = {token["content"] for token in fast.get("added_tokens") or [] if token.get("special")}
        theirs = _entries(fast, kind)
        read_options = wordpiece_options if kind == "wordpiece" else unigram_options
        stated = read_options(str(fast_file), fast)
    except (NlpdataError, OSError, TypeError, ValueError, KeyError, AttributeError) as error:
        return f"cannot be compared: {error}. This vocabulary decides"
    advice = f"This vocabulary decides; where the model was trained with {FAST}, name that file with {opt('tokenizer')}"
    for number, (own, other) in enumerate(zip_longest(entries, theirs)):
        if own != other and not (own is None and other in special):
            return f"has {_shown(other)} for the id {number}, not {_shown(own)}. {advice}"
    for name, value in options.items():
        if stated.get(name, value) != value:
            return f"says {name} {_shown(stated[name])}, not {_shown(value)}. {advice}"
    if searched:
        return (
            f"looks for {', '.join(sorted(searched)[:5])}{', ...' if len(searched) > 5 else ''} before it splits text into words, "
            "so that it gives other ids to what follows them. This vocabulary decides, as in transformers' slow tokenizer"
        )
    return ""


def _entries(fast: Mapping, kind: str) -> Collection[str]:
    vocabulary = fast["model"]["vocab"]
    if kind == "wordpiece":
        return sorted(vocabulary, key=vocabulary.__getitem__)
    return [piece for piece, _ in vocabulary]


def _shown(value: object) -> str:
    return "none" if value is None else repr(value) if isinstance(value, str) else str(value).lower()
