"""The tokenizer that belongs to a checkpoint: found next to it, kept with it, and written as other libraries expect it."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path

from nlpdata.errors import UsageError
from nlpdata.files import PathName
from nlpdata.files.json_files import write_file, write_json
from nlpdata.files.unpacking import shown, unpacked
from nlpdata.reports.run_facts import run_above
from nlpdata.tokenizers import SPECIAL_ROLES, Tokenizer, load_tokenizer
from nlpdata.tokenizers.files import FAST, SIDECAR_SUFFIX, read_checked
from nlpdata.tokenizers.hf_writing import tokenizer_json
from nlpdata.tokenizers.sentencepiece import SentencePieceTokenizer
from pretrain.converters import places
from pretrain.converters.checkpoint import Checkpoint

_log = logging.getLogger(__name__)

_KEPT = {".txt": "vocab.txt", ".model": "spiece.model", ".json": FAST}


def find_tokenizer(source: str | os.PathLike) -> Path | None:
    """The tokenizer file of a checkpoint: in its folder, its assets or its `vocab`, or in the folder of the run that wrote it.

    Args:
      source: as for pretrain.converters.read_checkpoint.

    None where there is none. UsageError where there are several that differ: which one is the model's is not guessed.
    """
    place = unpacked(places.find(str(source)))
    folder = place if place.is_dir() else place.parent
    found = [file for each in (folder, folder / "assets", folder / "vocab") for file in _tokenizers_in(each)]
    if not found:
        run = run_above(folder)
        found = _tokenizers_in(run) if run else []
    if len({file.read_bytes() for file in found}) > 1:
        raise UsageError(
            f"{source} has several tokenizers: {', '.join(map(str, found))}. Which one is the model's? Name it with "
            "--tokenizer, or remove the others."
        )
    return found[0] if found else None


def _tokenizers_in(folder: Path) -> list[Path]:
    """vocab.txt and SentencePiece models; tokenizer.json, which Hugging Face writes next to these too, only where it is alone."""
    named = [folder / "vocab.txt"] if (folder / "vocab.txt").is_file() else []
    named += sorted(file for file in folder.glob("*.model") if file.is_file())
    return named or ([folder / FAST] if (folder / FAST).is_file() else [])


def load_fitting(path: PathName, checkpoint: Checkpoint, do_lower_case: bool | None) -> Tokenizer:
    """Loads the tokenizer of a checkpoint. UsageError where it has more entries than the model's embedding.

    Args:
      do_lower_case: as stored with the tokenizer (see nlpdata.tokenizers) where None.
    """
    tokenizer = load_tokenizer(str(path), do_lower_case=do_lower_case)
    for note in tokenizer.notes:
        _log.info(shown(note))
    refuse_larger(tokenizer, checkpoint.known_encoder.options.vocab_size)
    return tokenizer


def refuse_larger(tokenizer: Tokenizer, rows: int) -> None:
    """UsageError where a tokenizer has more entries than the model's embedding has rows: their ids mean nothing to the model."""
    if tokenizer.vocab_size > rows:
        raise UsageError(
            f"{tokenizer.path} has {tokenizer.vocab_size} entries, the model's vocab_size is {rows}: it is another model's "
            "tokenizer"
        )


def keep_tokenizer(folder: Path, path: Path, use: Mapping) -> None:
    """Copies a tokenizer's file under its usual name, and next to it what loading it again takes (nlpdata.tokenizers.stored).

    Args:
      use: as Tokenizer.meta() or the `tokenizer` entry of a meta file has it.

    A copy that is there already stays. DataError where the disk refuses, or `use` is about another file.
    """
    kept = folder / _KEPT.get(path.suffix, "vocab.txt" if use["type"] == "wordpiece" else "spiece.model")
    content, _ = read_checked(path, use.get("sha256"))
    if not (kept.exists() and kept.read_bytes() == content):
        write_file(kept, content)
    write_json(kept.with_suffix(SIDECAR_SUFFIX), {name: value for name, value in use.items() if name != "file"})


def write_for_hugging_face(folder: Path, tokenizer: Tokenizer, longest: int) -> list[str]:
    """Writes the vocabulary under the usual name, tokenizer.json with the rule, and tokenizer_config.json.

    Args:
      longest: length of the longest sequence.

    Returns notes for the user. The class named is the one that does what tokenizer.json says; those that are named after
    models make their own rule. Where there is none it is sentencepiece's, which AutoTokenizer does not know: it stops.
    """
    fast, notes = tokenizer_json(tokenizer)
    if isinstance(tokenizer, SentencePieceTokenizer):
        (folder / "spiece.model").write_bytes(tokenizer.serialized())
    else:
        entries = tokenizer.pieces(range(tokenizer.vocab_size))
        (folder / "vocab.txt").write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8", newline="\n")
    tokens = tokenizer.spec.special_tokens or ()
    roles = dict(zip((f"{role}_token" for role in SPECIAL_ROLES), tokens[: len(SPECIAL_ROLES)], strict=True))
    names = ["input_ids", "token_type_ids", "attention_mask"]  # what it returns; segments are not the default there
    config = {"model_max_length": longest, "model_input_names": names, **tokenizer.options(), **roles}
    if others := tokens[len(SPECIAL_ROLES) :]:
        config["additional_special_tokens"] = list(others)
    if fast is None:
        config["tokenizer_class"] = "SentencePieceProcessor"
    else:
        config["tokenizer_class"] = "PreTrainedTokenizerFast"
        write_json(folder / "tokenizer.json", fast)
    write_json(folder / "tokenizer_config.json", dict(sorted(config.items())))
    return notes
