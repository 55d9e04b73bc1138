"""The tokenizer that belongs to a checkpoint: found beside it, and written as other libraries expect it."""

import json
import shutil
from pathlib import Path

from nlpdata.errors import UsageError
from nlpdata.tokenizers import load_tokenizer
from pretrain.converters.checkpoint import Checkpoint

_NAMES = ("vocab.txt", "spiece.model", "30k-clean.model")


def find_tokenizer(source: Path) -> Path | None:
    """The tokenizer file of a checkpoint: in its folder, its assets or its `vocab`; None where there is none, or several."""
    folder = source if source.is_dir() else source.parent
    for place in (folder, folder / "assets", folder / "vocab"):
        named = [place / name for name in _NAMES if (place / name).is_file()]
        found = named[:1] or (sorted(place.glob("*.model")) if place.is_dir() else [])
        if len(found) == 1:
            return found[0]
    return None


def write_tokenizer(folder: Path, checkpoint: Checkpoint, path: Path, format: str, do_lower_case: bool | None) -> None:
    """Copies a tokenizer into a checkpoint's folder; for Hugging Face, with what AutoTokenizer needs.

    Args:
      do_lower_case: as stored with the tokenizer (see nlpdata.tokenizers) where None.

    Raises UsageError where it has more entries than the model's embedding.
    """
    tokenizer = load_tokenizer(str(path), do_lower_case=do_lower_case)
    size = checkpoint.encoder.options.vocab_size
    if tokenizer.vocab_size > size:
        raise UsageError(
            f"{path} has {tokenizer.vocab_size} entries, the model's vocab_size is {size}: it is another model's tokenizer"
        )
    if format != "hf":
        shutil.copyfile(path, folder / path.name)
        return
    wordpiece = tokenizer.kind == "wordpiece"
    shutil.copyfile(path, folder / ("vocab.txt" if wordpiece else "spiece.model"))
    pieces = tokenizer.pieces(
        [tokenizer.pad_id, tokenizer.unk_id, tokenizer.cls_id, tokenizer.sep_id, tokenizer.mask_id]
    )
    options = tokenizer.options()
    config = {
        "tokenizer_class": "BertTokenizer" if wordpiece else "AlbertTokenizer",
        "model_max_length": checkpoint.encoder.options.max_position_embeddings,
        "do_lower_case": options["do_lower_case"],
        **dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), pieces, strict=True)),
    }
    if not wordpiece:
        config["keep_accents"] = options["keep_accents"]
    text = json.dumps(config, indent=2, sort_keys=True, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")
