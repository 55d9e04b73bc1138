"""Examples as text again, for people: the pieces of each segment, put together."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from nlpdata.errors import NlpdataError
from nlpdata.tokenizers import Tokenizer, load_tokenizer
from pretrain.data.tokenizers import tokenizer_entry
from pretrain.settings.data_section import DataConfig


def decoding_tokenizer(config: DataConfig, name: str) -> Tokenizer | None:
    """The tokenizer of a data section's examples; None where there is none, or it cannot be read: it only decodes.

    Args:
      name: the section's dotted path.
    """
    try:
        path, use = tokenizer_entry(config, name)
        return None if path is None else load_tokenizer({**use, "file": path.name}, folder=path.parent)
    except NlpdataError:
        return None


def numbered(record: np.ndarray, rows: Mapping[str, np.ndarray]) -> list[dict[str, Any]]:
    """What people find records by: its number, as record, and, where records have it, that of its row in the source, as id.

    Args:
      record: numbers of the records, int64 (n,).
      rows: their features, with our names.
    """
    ids = rows.get("example_id")
    if ids is None or ids.dtype.kind != "i":
        return [{"record": int(number)} for number in record]
    return [{"record": int(number), "id": int(id)} for number, id in zip(record, ids[:, 0], strict=True)]


def decoded(batch: Mapping[str, np.ndarray], tokenizer: Tokenizer) -> list[tuple[str, str]]:
    """The texts of the first and the second segment ("": none) of each row, as the tokenizer has normalised and cut them.

    Args:
      batch: input_ids, input_mask, segment_ids (n, L).
    """
    frame = (tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id)
    texts = []
    for ids, mask, segments in zip(batch["input_ids"], batch["input_mask"], batch["segment_ids"], strict=True):
        ids = np.where(ids < tokenizer.vocab_size, ids, tokenizer.unk_id)
        is_text = (mask == 1) & ~np.isin(ids, frame)
        texts.append(
            (tokenizer.decode(ids[is_text & (segments == 0)]), tokenizer.decode(ids[is_text & (segments == 1)]))
        )
    return texts
