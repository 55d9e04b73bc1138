"""tokenizer.json of Hugging Face's tokenizers library, for a tokenizer of ours: the same ids from the same text.

Three differences remain, of which `notes` reports the second. Special tokens in text are special tokens there, because people
write "[MASK]" into it; here they are text. ALBERT's digit-comma rule, which looks at the pieces that were found, becomes
a penalty on pieces such as "9,", as in transformers' own converter: nearly the same. Of segmentations whose scores are equal
SentencePiece takes one by the rounding of float32, the library another. A model that the library cannot follow is not
written.
"""

import base64
from collections.abc import Mapping

from nlpdata.tokenizers import Tokenizer, hf_bpe
from nlpdata.tokenizers.hf_marks import mark_steps
from nlpdata.tokenizers.hf_steps import (
    DROP_CONTROL,
    FINAL_SIGMA,
    LEADING_MARK,
    NFC,
    STRIP,
    collapse_spaces,
    drop_combining,
    replace,
)
from nlpdata.tokenizers.scripts import WORD_MARK
from nlpdata.tokenizers.sentencepiece import SentencePieceTokenizer
from nlpdata.tokenizers.sentencepiece_model import BPE, CHAR, UNIGRAM, UNUSED, USER_DEFINED, SentencePieceModel
from nlpdata.tokenizers.wordpiece import MAX_WORD_CHARACTERS
from nlpdata.tokenizers.wordpiece_vocabulary import CONTINUATION

_PENALTY = 100.0  # more than scores of pieces add up to


def tokenizer_json(tokenizer: Tokenizer) -> tuple[dict | None, list[str]]:
    """The object to write, and notes for the user; None for SentencePiece models that the library cannot follow."""
    described, notes = (
        _sentencepiece(tokenizer) if isinstance(tokenizer, SentencePieceTokenizer) else _wordpiece(tokenizer)
    )
    if described is None:
        return None, notes
    ids = tokenizer.special_ids()
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": i, "content": piece, **plain} for i, piece in zip(ids, tokenizer.pieces(ids), strict=True)]
    general = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added}
    return general | described | {"post_processor": _template(tokenizer)}, notes


def _wordpiece(tokenizer: Tokenizer) -> tuple[dict | None, list[str]]:
    options = tokenizer.options()
    entries = tokenizer.pieces(range(tokenizer.vocab_size))
    bert = {
        "type": "BertNormalizer",
        "clean_text": False,  # DROP_CONTROL does it
        "handle_chinese_chars": options["tokenize_chinese_chars"],
        "strip_accents": not options["keep_accents"],
        "lowercase": options["do_lower_case"],
    }
    described = {
        "normalizer": _sequence(DROP_CONTROL, *([FINAL_SIGMA] if options["do_lower_case"] else []), bert),
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "decoder": {"type": "WordPiece", "prefix": CONTINUATION, "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": entries[tokenizer.unk_id],
            "continuing_subword_prefix": CONTINUATION,
            "max_input_chars_per_word": MAX_WORD_CHARACTERS,
            "vocab": {entry: i for i, entry in enumerate(entries)},
        },
    }
    return described, []


def _sentencepiece(tokenizer: SentencePieceTokenizer) -> tuple[dict | None, list[str]]:
    options = tokenizer.options()
    model = SentencePieceModel(tokenizer.serialized())
    if reason := _reason_against(model, options["keep_accents"]):
        return None, [
            f"no tokenizer.json, because it would give other ids: in the model {tokenizer.path} {reason}. AutoTokenizer refuses "
            "the folder; use its spiece.model with the library sentencepiece"
        ]
    split = tokenizer.split_pieces()
    notes = [
        f"tokenizer.json: {len(split)} pieces of a digit and a comma are avoided, not split: a few numbers differ"
    ] * bool(split)
    apart = WORD_MARK in model.pieces and not any(WORD_MARK in piece[1:] for piece in model.pieces)
    mark = {"type": "Metaspace", "replacement": WORD_MARK, "prepend_scheme": "always", "split": apart}
    described = {
        "normalizer": _sequence(*_albert_steps(options, model)),
        "pre_tokenizer": mark,
        "decoder": mark,
        "model": _merging(tokenizer, model, split) if model.model_type == BPE else _scoring(tokenizer, model, split),
    }
    return described, notes


def _scoring(tokenizer: Tokenizer, model: SentencePieceModel, split: Mapping) -> dict:
    scores = [float(score) - _PENALTY * (i in split) for i, score in enumerate(model.path_scores)]
    return {
        "type": "Unigram",
        "unk_id": tokenizer.unk_id,
        "vocab": [list(row) for row in zip(model.pieces, scores, strict=True)],
        "byte_fallback": model.byte_fallback,
    }


def _merging(tokenizer: Tokenizer, model: SentencePieceModel, split: Mapping) -> dict:
    return {
        "type": "BPE",
        "dropout": None,
        "unk_token": model.pieces[tokenizer.unk_id],
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": True,
        "byte_fallback": model.byte_fallback,
        "vocab": {piece: i for i, piece in enumerate(model.pieces)},
        "merges": hf_bpe.merges(model, split),
    }


def _reason_against(model: SentencePieceModel, keep_accents: bool) -> str | None:
    """What the library cannot do as the model does it; None where there is nothing."""
    own = [piece for piece, kind in zip(model.pieces, model.types, strict=True) if kind == USER_DEFINED]
    if model.model_type not in (UNIGRAM, BPE, CHAR):
        return "pieces are whole words"
    if not model.has_usual_spaces:
        return "spaces are treated otherwise than in ALBERT's"
    if UNUSED in model.types:
        return "some pieces are unused"
    if model.model_type != UNIGRAM and any(len(piece) > 1 for piece in own):
        return "user-defined symbols have several characters"
    changed = model.replacements.keys() & set().union(*own)
    if changed:
        return f"user-defined symbols have characters that are replaced elsewhere ({' '.join(sorted(changed)[:5])})"
    if model.byte_fallback and model.table and keep_accents:
        return "marks that are not pieces become bytes, and accents are kept"  # hf_marks takes them for unknown
    return hf_bpe.reason_against(model) if model.model_type == BPE else None


def _albert_steps(options: dict, model: SentencePieceModel) -> list[dict]:
    """ALBERT's normalisation (nlpdata.text.albert), then that of the model."""
    steps = [collapse_spaces(), STRIP]
    steps += [{"type": "Replace", "pattern": {"String": quotes}, "content": '"'} for quotes in ("``", "''")]
    if not options["keep_accents"]:
        steps += [{"type": "NFKD"}, drop_combining()]
    if options["do_lower_case"]:
        steps += [FINAL_SIGMA, {"type": "Lowercase"}]
    if model.table:
        replaced = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(model.table).decode()}
        # Without accents there are no marks either.
        aside, back = mark_steps(model.replacements, model.pieces) if options["keep_accents"] else ([], [])
        steps += [*aside, NFC, replaced, NFC, *back]
    steps += [replace(" {2,}", " "), STRIP]
    return steps if WORD_MARK in model.replacements else [*steps, LEADING_MARK]


def _sequence(*steps: dict) -> dict:
    return {"type": "Sequence", "normalizers": list(steps)}


def _template(tokenizer: Tokenizer) -> dict:
    """[CLS] A [SEP] in segment 0, B [SEP] in segment 1."""
    ids = [tokenizer.cls_id, tokenizer.sep_id]
    cls, sep = tokenizer.pieces(ids)

    def part(kind: str, name: str, segment: int) -> dict:
        return {kind: {"id": name, "type_id": segment}}

    single = [part("SpecialToken", cls, 0), part("Sequence", "A", 0), part("SpecialToken", sep, 0)]
    return {
        "type": "TemplateProcessing",
        "single": single,
        "pair": [*single, part("Sequence", "B", 1), part("SpecialToken", sep, 1)],
        "special_tokens": {
            name: {"id": name, "ids": [i], "tokens": [name]} for name, i in zip((cls, sep), ids, strict=True)
        },
    }
