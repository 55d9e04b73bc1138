"""tokenizer.json of Hugging Face's tokenizers library, for a tokenizer of ours: the same ids from the same text.

Two things stay different, and `notes` says the second. Special tokens in text are special tokens there, because people
write "[MASK]" into it; here they are text. ALBERT's digit-comma rule, which looks at the pieces that were found, becomes
a penalty on pieces such as "9,", as in transformers' own converter: nearly the same.
"""

import base64

from nlpdata.tokenizers import Tokenizer
from nlpdata.tokenizers.hf_steps import DROP_CONTROL, FINAL_SIGMA, STRIP, collapse_spaces, drop_combining, replace
from nlpdata.tokenizers.scripts import WORD_MARK
from nlpdata.tokenizers.sentencepiece_model import SentencePieceModel
from nlpdata.tokenizers.wordpiece import MAX_WORD_CHARACTERS
from nlpdata.tokenizers.wordpiece_vocabulary import CONTINUATION

_PENALTY = 100.0  # more than scores of pieces add up to


def tokenizer_json(tokenizer: Tokenizer) -> tuple[dict | None, list[str]]:
    """The object to write, and notes for the user; None for SentencePiece models of another type than unigram."""
    described, notes = _wordpiece(tokenizer) if tokenizer.kind == "wordpiece" else _unigram(tokenizer)
    if described is None:
        return None, notes
    ids = tokenizer.special_ids()
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    added = [{"id": i, "content": piece, **plain} for i, piece in zip(ids, tokenizer.pieces(ids), strict=True)]
    general = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added}
    return general | described | {"post_processor": _template(tokenizer)}, notes


def _wordpiece(tokenizer: Tokenizer) -> tuple[dict, list[str]]:
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


def _unigram(tokenizer: Tokenizer) -> tuple[dict | None, list[str]]:
    options = tokenizer.options()
    model = SentencePieceModel(tokenizer.serialized())
    if not model.is_usual:
        return None, [
            f"no tokenizer.json: {tokenizer.path} is no unigram model, or treats spaces otherwise than ALBERT's does, so "
            "that AutoTokenizer would give other ids"
        ]
    split = tokenizer.split_pieces()
    scores = [score - _PENALTY * (i in split) for i, score in enumerate(model.scores)]
    notes = [
        f"tokenizer.json: {len(split)} pieces of a digit and a comma are avoided, not split: a few numbers differ"
    ] * bool(split)
    mark = {"type": "Metaspace", "replacement": WORD_MARK, "prepend_scheme": "always", "split": True}
    described = {
        "normalizer": _sequence(*_albert_steps(options, model.table)),
        "pre_tokenizer": mark,
        "decoder": mark,
        "model": {
            "type": "Unigram",
            "unk_id": tokenizer.unk_id,
            "vocab": [list(row) for row in zip(model.pieces, scores, strict=True)],
            "byte_fallback": model.byte_fallback,
        },
    }
    return described, notes


def _albert_steps(options: dict, table: bytes) -> list[dict]:
    """ALBERT's normalisation (nlpdata.text.albert), then that of the model; `table` is its replacements of characters."""
    steps = [collapse_spaces(), STRIP]
    steps += [{"type": "Replace", "pattern": {"String": quotes}, "content": '"'} for quotes in ("``", "''")]
    if not options["keep_accents"]:
        steps += [{"type": "NFKD"}, drop_combining()]
    if options["do_lower_case"]:
        steps += [FINAL_SIGMA, {"type": "Lowercase"}]
    if table:  # the library looks single characters up, the model also what they combine with
        steps += [{"type": "NFC"}, {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}]
    return [*steps, replace(" {2,}", " "), STRIP]


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
