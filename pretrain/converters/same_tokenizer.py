"""Whether a tokenizer is that of a checkpoint: the same pieces under the same ids, the same special ids, the same casing.

Files are not compared: a vocab.txt and a tokenizer.json of the same entries are one tokenizer.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from nlpdata.errors import DataError, NlpdataError, UsageError, opt
from nlpdata.files import PathName
from nlpdata.files.unpacking import shown
from nlpdata.tokenizers import OPTIONS, Tokenizer, load_tokenizer
from nlpdata.tokenizers.stored import stored_options
from pretrain.converters import native, places
from pretrain.converters.tokenizer_files import find_tokenizer, refuse_larger

_log = logging.getLogger(__name__)

_PADDING = 127  # rows that embeddings have more than entries, to be a multiple of 128 at most


def refuse_other_tokenizer(
    what: str,
    use: Mapping,
    file: Path | None,
    source: str,
    allow: bool,
    options: bool = True,
) -> None:
    """UsageError where a tokenizer differs from that of a checkpoint; what cannot be compared is reported.

    Args:
      what: what was made with the tokenizer, or names it, for messages.
      use: the tokenizer as Tokenizer.meta() or a meta file describes it; {} where nothing is known.
      file: its file; None where that is not there.
      source: the checkpoint, as for read_checkpoint.
      allow: only report a difference.
      options: compare casing too.
    """
    found, unknown = _compare(use, file, source, options)
    if unknown:
        _log.warning("%s: not checked against the tokenizer of %s: %s", what, source, unknown)
    if not found:
        return
    line = f"{what}: the tokenizer is not that of {source}, so that ids mean other words: {'; '.join(found)}"
    _refuse(line, "Use the tokenizer of the weights; if another one is meant", allow)


def own_tokenizer(source: str, given: PathName | None, allow: bool, rows: int | None = None) -> Tokenizer:
    """The tokenizer given, else the one kept with a checkpoint; also where a copy of its file is given, without options next to it.

    Args:
      source: the checkpoint, as for read_checkpoint.
      given: tokenizer file; None: the one next to the checkpoint.
      allow: only report that it differs from that of the checkpoint.
      rows: of the model's embedding, where that is known: many more than entries are reported.

    Raises UsageError where there is none, where it differs, or has more entries than rows.
    """
    path = given or find_tokenizer(source)
    if path is None:
        raise UsageError(f"there is no tokenizer next to {source}. Name it with {opt('tokenizer')}.")
    tokenizer = load_tokenizer(path)
    if given and not _stated(tokenizer):
        kept, _ = _own_tokenizer(source, _stored_checksum(source))
        if kept is not None and kept.sha256 == tokenizer.sha256:
            tokenizer = kept
    for note in tokenizer.notes:
        _log.info(shown(note))
    refuse_other_tokenizer(tokenizer.path, tokenizer.meta(), Path(tokenizer.path), source, allow)
    if rows is not None:
        refuse_larger(tokenizer, rows)
        if rows - tokenizer.vocab_size > _PADDING and tokenizer.sha256 != _stored_checksum(source):
            _log.warning(
                "the tokenizer %s has %d entries, the model has %d: is it cut off, or another model's?",
                *(shown(tokenizer.path), tokenizer.vocab_size, rows),
            )
    return tokenizer


def refuse_unequal_records(
    train: tuple[Path | None, Mapping],
    validation: tuple[Path | None, Mapping],
    allow: bool,
    names: tuple[str, str] = ("task.train_data", "task.validation_data"),
) -> None:
    """UsageError where validation records were made with another tokenizer than the training records.

    Args:
      train: file and description of the training records, as pretrain.data.tokenizers.tokenizer_entry gives them.
      validation: the same of the validation records. Records without a description are not compared.
      allow: only report a difference.
      names: what the two are called.
    """
    found = _between(train, validation)
    if not found:
        return
    line = (
        f"the records of {names[1]} were made with another tokenizer than those of {names[0]}, so that ids mean "
        f"other words: {'; '.join(found)}"
    )
    _refuse(line, "Make both with one tokenizer; if this is meant", allow)


def refuse_other_than_that_of(records: tuple[Path | None, Mapping], name: str, given: PathName, allow: bool) -> None:
    """UsageError where a tokenizer file has other pieces than that of records. Records without a description are not compared.

    Args:
      records: file and description of the records' tokenizer, as pretrain.data.tokenizers.tokenizer_entry gives them.
      name: of the records' data section.
      given: the tokenizer file.
      allow: only report a difference.
    """
    tokenizer = load_tokenizer(given)
    own = {name: value for name, value in tokenizer.meta().items() if name not in OPTIONS}  # pieces alone
    found = _between(records, (Path(tokenizer.path), own))
    if found:
        line = (
            f"{given} is not the tokenizer of the records of {name}, so that ids mean other words: {'; '.join(found)}"
        )
        _refuse(line, "Name theirs, or leave it out; if this is meant", allow)


def _refuse(line: str, remedy: str, allow: bool) -> None:
    if not allow:
        raise UsageError(f"{line}. {remedy}, use --allow_other_tokenizer (task.allow_other_tokenizer).")
    _log.warning(line)


def _between(train: tuple[Path | None, Mapping], other: tuple[Path | None, Mapping]) -> list[str]:
    """How the other records' tokenizer differs from that of the training records, in words."""
    (file, use), (other_file, other_use) = train, other
    both = [name for name in OPTIONS if name in use and name in other_use]
    found = [f"{name} is {other_use[name]}, not {use[name]}" for name in both if use[name] != other_use[name]]
    checksum, other_checksum = use.get("sha256"), other_use.get("sha256")
    if checksum is None or other_checksum is None or checksum == other_checksum:
        return found
    if file is None or other_file is None:
        return [
            f"sha256 {other_checksum[:12]}..., not {checksum[:12]}... (a file is gone, so that pieces cannot be compared)"
        ]
    pieces = _pieces(_described(other_file, other_use))
    return _differences(_described(file, use), other_use, pieces, options=False) + found


def _described(file: Path, use: Mapping) -> Tokenizer:
    return load_tokenizer({**use, "file": file.name}, folder=file.parent)


def _compare(use: Mapping, file: Path | None, source: str, options: bool) -> tuple[list[str], str]:
    """(differences, what could not be compared or "")."""
    stored, checksum = _stored_checksum(source), use.get("sha256")
    own, why = _own_tokenizer(source, stored)
    if own is not None and use:
        pieces = None
        if checksum == own.sha256:
            pass  # the same file
        elif file is None:
            why = "its file is not next to them, so that pieces cannot be compared"
        else:
            try:
                pieces = _pieces(_described(file, use))
            except NlpdataError as error:
                why = f"its file cannot be loaded: {error}"
        found = _differences(own, use, pieces, options)
        if found or not why:
            return found, ""
    elif own is not None:
        why = "no meta file says which tokenizer they were made with"
    if stored and checksum:  # files are all there is to compare
        return ([] if stored == checksum else [f"sha256 {checksum[:12]}..., not {stored[:12]}... ({why})"]), ""
    return [], why


def _differences(own: Tokenizer, use: Mapping, pieces: list[str] | None, options: bool) -> list[str]:
    """How a tokenizer (`use`, `pieces`) differs from another one, in words."""
    found = []
    if use.get("vocab_size", own.vocab_size) != own.vocab_size:
        found.append(f"{use['vocab_size']} pieces, not {own.vocab_size}")
    if pieces is not None:
        pairs = zip(pieces, _pieces(own), strict=False)
        other = next(((i, a, b) for i, (a, b) in enumerate(pairs) if a != b), None)
        if other:
            found.append(f"piece {other[0]} is {other[1]!r}, not {other[2]!r}")
    mine = own.meta()["special_ids"]
    for role, number in (use.get("special_ids") or {}).items():
        if mine.get(role, number) != number:
            found.append(f"the id of {role} is {number}, not {mine[role]}")
    for name in _stated(own) if options else ():
        if name in use and bool(use[name]) != own.options()[name]:
            found.append(f"{name} is {use[name]}, not {own.options()[name]}")
    return found


def _pieces(tokenizer: Tokenizer) -> list[str]:
    return tokenizer.pieces(range(tokenizer.vocab_size))


def _stated(own: Tokenizer) -> list[str]:
    """The options stored next to a tokenizer or in it; the others were guessed from its entries."""
    if own.path.endswith(".json"):
        return list(own.options())
    stored = stored_options(Path(own.path), own.sha256)
    return [name for name in OPTIONS if name in stored and name in own.options()]


def _stored_checksum(source: str) -> str | None:
    """The checksum of the tokenizer's file, as our runs store it."""
    try:
        own = native.locate_info(places.find(source))
    except UsageError:  # a run without checkpoints
        return None
    return own[1].get("data", {}).get("tokenizer_sha256") if own else None


def _own_tokenizer(source: str, stored: str | None) -> tuple[Tokenizer | None, str]:
    """(the tokenizer stored with a checkpoint, "") or (None, why there is none to compare with)."""
    try:
        path = find_tokenizer(source)
        own = load_tokenizer(path) if path else None
    except (UsageError, DataError) as error:
        return None, str(error)
    if own is None:
        return None, "no tokenizer is next to it to compare with"
    if stored and own.sha256 != stored:
        return None, f"{own.path} is not the one that it was trained with"
    return own, ""
