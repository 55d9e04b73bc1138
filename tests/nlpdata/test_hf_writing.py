"""tokenizer.json as we write it. What Hugging Face's library makes of it: tests/pretrain/test_convert.py."""

import json
import re
import unicodedata

import numpy as np
import pytest

from nlpdata.tokenizers import load_tokenizer
from nlpdata.tokenizers.hf_steps import collapse_spaces, drop_combining
from nlpdata.tokenizers.hf_writing import tokenizer_json
from tests.nlpdata.test_sentencepiece import SENTENCES, train
from tests.nlpdata.test_wordpiece import SMALL, write
from tests.shared import shared

LINES = [*SENTENCES, "ΟΔΟΣ Ἀθήνα  ｶﾞ ﬁn 한국어 नमस्ते", "``quoted'' \u00a0 [MASK] \ue000 x\u0301", "", "0" * 150]
# Where it lies under ../shared/oracle/tokenization, lower-cased, accents kept.
PUBLISHED = [
    ("bert-base-uncased-vocab.txt", True, False),
    ("bert-base-cased-vocab.txt", False, True),
    ("30k-clean.model", True, False),
    ("cased.model", False, True),
]


def written(tokenizer, folder):
    """What reading our own file gives."""
    fast, notes = tokenizer_json(tokenizer)
    (folder / "tokenizer.json").write_text(json.dumps(fast), encoding="utf-8")
    return load_tokenizer(folder), fast, notes


def check_equal(tokenizer, again, lines):
    for ours, read in zip(tokenizer.encode(lines), again.encode(lines), strict=True):
        np.testing.assert_array_equal(ours, read)
    assert tokenizer.special_ids() == again.special_ids()
    assert tokenizer.pieces(range(tokenizer.vocab_size)) == again.pieces(range(again.vocab_size))
    assert tokenizer.options() | {"digit_comma": False} == again.options() | {"digit_comma": False}
    for role in ("pad", "unk", "cls", "sep", "mask"):
        assert getattr(tokenizer, f"{role}_id") == getattr(again, f"{role}_id")


@pytest.mark.parametrize(("file", "lower", "keep"), PUBLISHED)
def test_it_is_read_back(file, lower, keep, tmp_path):
    lines = [json.loads(row)["text"] for row in shared("oracle", "tokenization", "lines.jsonl").open(encoding="utf-8")]
    tokenizer = load_tokenizer(shared("oracle", "tokenization", file), do_lower_case=lower, keep_accents=keep)
    again, _, notes = written(tokenizer, tmp_path)
    check_equal(tokenizer, again, lines)
    assert notes == []


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("keep", [True, False])
def test_small_ones_are_read_back(lower, keep, tmp_path):
    options = {"do_lower_case": lower, "keep_accents": keep}
    wordpiece = load_tokenizer(write(tmp_path / "vocab.txt", SMALL), **options)
    (tmp_path / "w").mkdir()
    again, fast, _ = written(wordpiece, tmp_path / "w")
    check_equal(wordpiece, again, LINES)
    assert fast["model"]["max_input_chars_per_word"] == 200
    sentencepiece = load_tokenizer(train(tmp_path / "m.model", user_defined_symbols=[]), digit_comma=False, **options)
    (tmp_path / "s").mkdir()
    again, fast, notes = written(sentencepiece, tmp_path / "s")
    check_equal(sentencepiece, again, LINES)
    assert notes == []
    assert [step["type"] for step in fast["normalizer"]["normalizers"][-4:]] == [
        "NFC",
        "Precompiled",
        "Replace",
        "Strip",
    ]


def test_sequences_are_built_as_bert_does(tmp_path):
    fast, _ = tokenizer_json(load_tokenizer(write(tmp_path / "vocab.txt", SMALL)))
    template = fast["post_processor"]
    parts = [(next(iter(part)), *next(iter(part.values())).values()) for part in template["pair"]]
    assert parts == [
        ("SpecialToken", "[CLS]", 0),
        ("Sequence", "A", 0),
        ("SpecialToken", "[SEP]", 0),
        ("Sequence", "B", 1),
        ("SpecialToken", "[SEP]", 1),
    ]
    assert template["single"] == template["pair"][:3]
    assert {name: entry["ids"] for name, entry in template["special_tokens"].items()} == {"[CLS]": [2], "[SEP]": [3]}
    assert [(token["id"], token["content"]) for token in fast["added_tokens"]] == list(enumerate(SMALL[:5]))


def test_classes_of_characters():
    everything = "".join(map(chr, range(0x110000)))

    def found(step):
        pattern = re.sub(r"\\x\{(\w+)\}", lambda match: chr(int(match[1], 16)), step["pattern"]["Regex"])
        return "".join(re.findall(pattern, everything))

    assert found(drop_combining()) == "".join(filter(unicodedata.combining, everything))
    assert found(collapse_spaces()) == "".join(filter(str.isspace, everything))


def test_pieces_of_a_digit_and_a_comma_are_avoided(tmp_path):
    model = train(tmp_path / "m.model", user_defined_symbols=[], split_by_number=False)
    plain, none = tokenizer_json(load_tokenizer(model, digit_comma=False))
    fast, notes = tokenizer_json(load_tokenizer(model, digit_comma=True))
    lowered = [
        piece
        for (piece, before), (_, now) in zip(plain["model"]["vocab"], fast["model"]["vocab"], strict=True)
        if now < before
    ]
    assert lowered
    assert all(re.fullmatch(r".*\d,", piece) for piece in lowered)
    assert (none, notes) == ([], [notes[0]])
    assert notes[0].startswith(f"tokenizer.json: {len(lowered)} pieces of a digit and a comma")


def test_another_type_of_model_is_said(tmp_path):
    model = train(tmp_path / "m.model", user_defined_symbols=[], model_type="bpe", vocab_size=150)
    fast, notes = tokenizer_json(load_tokenizer(model))
    assert fast is None
    assert "m.model is no unigram model" in notes[0]
