"""vocab.txt: reading the list of WordPiece entries, and refusing what would give wrong ids."""

import re
from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from nlpdata.errors import DataError

CONTINUATION = "##"  # begins the entries that continue a word
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # in the order of nlpdata.tokenizers.SPECIAL_ROLES
# Entries without a meaning: BERT's reserve, and two of the published Chinese vocabulary's.
_UNUSED = re.compile(r"\[unused[^\]]*\]|<[ST]>", re.IGNORECASE)
_SHOWN = 5  # faults named in a message


def read_vocabulary(path: str, content: bytes) -> list[str]:
    """The entries of a vocab.txt, by id: the id is the line number from 0, as in google-research/bert's `load_vocab`.

    Lines end at LF or CRLF and at nothing else, so that an entry may hold U+2028, U+0085 or a CR. Entries are
    stripped; a byte order mark before the first is dropped. A blank last line is not an entry.
    Raises DataError, with line numbers, where readers of the file disagree about ids: for blank lines, for two
    entries of whitespace only (stripped, they are one: trueto/medbert#6) and for entries that are there twice.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text (byte {error.start}); {_EXPECTED}") from None
    if "\0" in text:
        raise DataError(f"{path} is a binary file (byte 0 at {content.index(0)}); {_EXPECTED}")
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1].strip(" \t\r"):
        lines.pop()
    if not lines:
        raise DataError(f"{path} is empty; {_EXPECTED}")
    stripped = [line.strip() for line in lines]
    if "" in stripped:
        _refuse_blank(path, lines)
    # bert-base-chinese has U+2028 and "##" with U+2028: they keep their ids, and match no text.
    entries = [short if short not in ("", CONTINUATION) else line for line, short in zip(lines, stripped, strict=True)]
    _refuse_duplicates(path, entries)
    return entries


_EXPECTED = (
    "expected a WordPiece vocabulary: one entry a line, such as [PAD], the and ##ing. "
    "A SentencePiece model must be named *.model, or given with the tokenizer type sentencepiece"
)


def _refuse_blank(path: str, lines: list[str]) -> None:
    empty = [i for i, line in enumerate(lines, start=1) if not line.strip(" \t\r")]
    if empty:
        raise DataError(
            f"{path}: {_lines(empty)} blank. Ids are line numbers, and programs that skip blank lines would number "
            "all entries below differently. If the model was trained with ids that count them, put a placeholder "
            f"there ([unused_{empty[0]}]); if not, delete them"
        )
    invisible = [i for i, line in enumerate(lines, start=1) if not line.strip()]
    if len(invisible) > 1:
        raise DataError(
            f"{path}: the entries on {_lines(invisible, verb=False)} are whitespace only, and are one and the same "
            f"to readers that strip lines. Put placeholders there ([unused_{invisible[0]}]): such entries match no text"
        )


def _refuse_duplicates(path: str, entries: list[str]) -> None:
    if len(set(entries)) == len(entries):
        return
    places = defaultdict(list)
    for number, entry in enumerate(entries, start=1):
        places[entry].append(number)
    twice = [(entry, numbers) for entry, numbers in places.items() if len(numbers) > 1]
    shown = "; ".join(f"{entry!r} on {_lines(numbers, verb=False)}" for entry, numbers in twice[:_SHOWN])
    more = f"; and {len(twice) - _SHOWN} more" if len(twice) > _SHOWN else ""
    raise DataError(
        f"{path}: {len(twice)} {'entry is' if len(twice) == 1 else 'entries are'} there more than once: {shown}{more}. "
        "An entry has one id. To keep the ids of the others, put a placeholder ([unused_N]) in place of all but one"
    )


def _lines(numbers: list[int], verb: bool = True) -> str:
    shown = ", ".join(map(str, numbers[:_SHOWN])) + (", ..." if len(numbers) > _SHOWN else "")
    if len(numbers) == 1:
        return f"line {shown}" + (" is" if verb else "")
    return f"lines {shown}" + (" are" if verb else "")


def special_ids(path: str, entries: list[str], names: Sequence[str]) -> list[int]:
    """The ids of the entries that stand for pad, unk, cls, sep and mask; DataError that names those that are missing."""
    wanted = set(names)
    found = {entry: i for i, entry in enumerate(entries) if entry in wanted}
    missing = [name for name in names if name not in found]
    if missing:
        raise DataError(
            f"{path} lacks the special tokens {', '.join(missing)} (it has {len(entries)} entries, the first: "
            f"{' '.join(entries[:_SHOWN])}), so sequences cannot be built with it. Other names for them are taken from "
            "a special_tokens_map.json or tokenizer_config.json next to it; to give them room, replace [unusedN] entries"
        )
    return [found[name] for name in names]


def ordinary_ids(entries: list[str], reserved: set[int]) -> np.ndarray:
    """int32, ascending: the ids that may replace a token; neither reserved (special) nor unused nor invisible."""
    keep = [
        i
        for i, entry in enumerate(entries)
        if not (entry[:1] in ("[", "<") and _UNUSED.fullmatch(entry)) and i not in reserved and not entry.isspace()
    ]
    return np.array(keep, dtype=np.int32)


def word_starts(entries: list[str]) -> np.ndarray:
    """bool (len(entries),): the entry begins a word."""
    return np.array([not entry.startswith(CONTINUATION) for entry in entries], dtype=bool)


def is_cased(entries: list[str], ordinary: np.ndarray) -> bool:
    """True if the vocabulary was made from text that was not lower-cased: over one in a hundred has a capital."""
    capitals = sum(entries[i] != entries[i].lower() for i in ordinary.tolist())
    return capitals > 0.01 * ordinary.size
