"""The merges of Hugging Face's BPE that segment as a SentencePiece model of the type BPE does.

SentencePiece joins the two neighbours whose piece has the best score, the first of equals; merges are an order of pairs. So
the pairs of a piece are all its parts that are pieces, and pieces come by their scores.
"""

from collections.abc import Collection

from nlpdata.tokenizers.sentencepiece_model import NORMAL, SentencePieceModel


def merges(model: SentencePieceModel, avoided: Collection[int] = ()) -> list[str]:
    """Pairs "a b", the first to be joined first.

    Args:
      avoided: ids of pieces that are never made.
    """
    normal = {
        piece: (-score, i)
        for i, (piece, score, kind) in enumerate(zip(model.pieces, model.scores, model.types, strict=True))
        if kind == NORMAL and i not in avoided
    }
    found = []
    for piece in sorted(normal, key=normal.__getitem__):
        # Of two pairs that share a piece the first in the text begins with the longer part, but for texts such as "ababa".
        pairs = ((piece[:at], piece[at:]) for at in range(len(piece) - 1, 0, -1))
        found += [f"{first} {second}" for first, second in pairs if first in normal and second in normal]
    return found


def reason_against(model: SentencePieceModel) -> str | None:
    """Why merges would give other ids; None where they give the same."""
    joined = [
        (piece, score)
        for piece, score, kind in zip(model.pieces, model.scores, model.types, strict=True)
        if kind == NORMAL and len(piece) > 1
    ]
    if len({score for _, score in joined}) < len(joined):
        return "some pieces have equal scores"
    single = {
        piece for piece, kind in zip(model.pieces, model.types, strict=True) if kind == NORMAL and len(piece) == 1
    }
    if any(not single.issuperset(piece) for piece, _ in joined):
        return "some pieces have characters that are not pieces"
    return None
