"""Vocabularies: SentencePiece models, WordPiece lists, Hugging Face's tokenizer.json and the files next to it."""

import json
from pathlib import Path

from nlpdata.tokenizers import load_tokenizer
from tests.fuzz.cases import ROOT, Case, target

GOLDEN = ROOT / "tests/nlpdata/golden"
PIECES = "[PAD] [UNK] [CLS] [SEP] [MASK] the house is a ##s ##e a b c d . ,".split()
WORDPIECE = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [
        {
            "id": i,
            "content": PIECES[i],
            "single_word": False,
            "lstrip": False,
            "rstrip": False,
            "normalized": False,
            "special": True,
        }
        for i in range(5)
    ],
    "normalizer": {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": True,
        "strip_accents": None,
        "lowercase": True,
    },
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": None,
    "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
    "model": {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
        "max_input_chars_per_word": 100,
        "vocab": {piece: i for i, piece in enumerate(dict.fromkeys(PIECES))},
    },
}
CONFIG = {
    "do_lower_case": True,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "pad_token": {"content": "[PAD]", "special": True},
    "unk_token": "[UNK]",
    "mask_token": "[MASK]",
    "added_tokens_decoder": {"0": {"content": "[PAD]", "special": True}},
    "additional_special_tokens": ["[X]"],
    "tokenizer_class": "BertTokenizer",
    "model_max_length": 512,
}


def _use(path: Path) -> None:
    tokenizer = load_tokenizer(path)
    ids, _ = tokenizer.encode(["The house is a house.", "²½ 漢字 \x00 é", ""])
    tokenizer.pieces(ids.tolist())
    tokenizer.decode(ids.tolist())
    tokenizer.meta()


@target("tokenizers/wordpiece")
def _wordpiece(case: Case) -> None:
    content = "\n".join(PIECES) + "\n" if case.draw.random() < 0.5 else (GOLDEN / "vocab.txt").read_text()
    _use(case.write("vocab.txt", case.damaged(content)))


def _give_small_model(folder: Path) -> None:
    import nlpdata

    nlpdata.train_tokenizer(
        [str(ROOT / "examples/corpus/english_house.txt")], str(folder / "spm"), vocab_size=200, workers=1
    )


@target("tokenizers/sentencepiece", give=_give_small_model)
def _sentencepiece(case: Case) -> None:
    _use(case.write("spm.model", case.damaged((case.given / "spm.model").read_bytes())))


@target("tokenizers/sidecar", give=_give_small_model)
def _sidecar(case: Case) -> None:
    case.write("spm.model", (case.given / "spm.model").read_bytes())
    case.write("spm.tokenizer.json", case.odd_json(json.loads((case.given / "spm.tokenizer.json").read_text())))
    _use(case.folder / "spm.model")


@target("tokenizers/tokenizer.json")
def _fast(case: Case) -> None:
    _use(case.write("tokenizer.json", case.odd_json(WORDPIECE)))


@target("tokenizers/hugging-face-folder")
def _folder(case: Case) -> None:
    case.write("vocab.txt", "\n".join(dict.fromkeys(PIECES)) + "\n")
    for name, content in (
        ("tokenizer_config.json", CONFIG),
        ("special_tokens_map.json", {key: CONFIG[key] for key in CONFIG if key.endswith(("_token", "_tokens"))}),
        ("added_tokens.json", {"[X]": 20}),
        ("tokenizer.json", WORDPIECE),
    ):
        if case.draw.random() < 0.6:
            case.write(name, case.odd_json(content) if case.draw.random() < 0.7 else json.dumps(content))
    _use(case.folder / "vocab.txt" if case.draw.random() < 0.5 else case.folder)


def _give_unigram(folder: Path) -> None:
    from nlpdata.tokenizers.hf_writing import tokenizer_json

    _give_small_model(folder)
    content, _ = tokenizer_json(load_tokenizer(folder / "spm.model"))
    (folder / "tokenizer.json").write_text(json.dumps(content))


@target("tokenizers/unigram.json", give=_give_unigram)
def _unigram(case: Case) -> None:
    _use(case.write("tokenizer.json", case.odd_json(json.loads((case.given / "tokenizer.json").read_text()))))
