"""tokenizer.json as we write it. What Hugging Face's library makes of it: tests/pretrain/converters/test_convert.py."""

import base64
import json
import re
import unicodedata
from itertools import pairwise

import numpy as np
import pytest
import sentencepiece

from nlpdata.errors import DataError, UsageError
from nlpdata.tokenizers import load_tokenizer
from nlpdata.tokenizers.hf_steps import collapse_spaces, drop_combining
from nlpdata.tokenizers.hf_writing import tokenizer_json
from nlpdata.tokenizers.sentencepiece_model import SentencePieceModel, read_table
from tests.nlpdata.tokenizers.test_sentencepiece import SENTENCES, train
from tests.nlpdata.tokenizers.test_wordpiece import SMALL, write
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
    lines = [
        json.loads(row)["text"] for row in shared("oracle", "tokenization", "lines.jsonl").read_bytes().splitlines()
    ]
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
    assert [step["type"] for step in fast["normalizer"]["normalizers"][-3:]] == ["NFC", "Replace", "Strip"]


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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"model_type": "word", "vocab_size": 20, "hard_vocab_limit": True}, "pieces are whole words"),
        ({"treat_whitespace_as_suffix": True}, "spaces are treated otherwise than in ALBERT's"),
        (
            {"model_type": "bpe", "vocab_size": 150, "user_defined_symbols": ["fox"]},
            "user-defined symbols have several",
        ),
        ({"user_defined_symbols": ["…"]}, "user-defined symbols have characters that are replaced elsewhere (…)"),
        ({"byte_fallback": True, "vocab_size": 600}, "marks that are not pieces become bytes, and accents are kept"),
    ],
)
def test_a_model_that_cannot_be_followed_is_said(options, said, tmp_path):
    model = train(tmp_path / "m.model", **({"user_defined_symbols": []} | options))
    fast, notes = tokenizer_json(load_tokenizer(model, do_lower_case=False, keep_accents=True))
    assert fast is None
    assert notes[0].startswith("no tokenizer.json, because it would give other ids: in the model ")
    assert said in notes[0]


def joined(word, merges, vocabulary, unknown):
    """What BPE of the library makes of a word: the first pair of the list that is there, the first in the word, at a time."""
    parts = list(word)
    while pairs := [(merges[pair], at) for at, pair in enumerate(pairwise(parts)) if pair in merges]:
        _, at = min(pairs)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    ids = [vocabulary.get(part, unknown) for part in parts]
    return [i for i, before in zip(ids, [None, *ids], strict=False) if not i == before == unknown]


@pytest.mark.parametrize("symbols", [[], ["(", ")", "1"]])
def test_merges_segment_as_the_model_does(symbols, tmp_path):
    model = train(tmp_path / "m.model", model_type="bpe", vocab_size=220, user_defined_symbols=symbols)
    tokenizer = load_tokenizer(model, do_lower_case=False, keep_accents=True, digit_comma=False)
    fast, notes = tokenizer_json(tokenizer)
    assert (notes, fast["model"]["type"], fast["model"]["fuse_unk"]) == ([], "BPE", True)
    merges = {tuple(pair.split(" ")): rank for rank, pair in enumerate(fast["model"]["merges"])}
    assert not {part for pair in merges for part in pair} & {*symbols, "[CLS]", "<unk>"}
    words = " ".join(SENTENCES).split()
    rng = np.random.default_rng(3)
    words += ["".join(rng.choice(list("thequickbrown190,(☃"), 12)) for _ in range(200)]
    for word in words:
        ids = joined(f"\u2581{word}", merges, fast["model"]["vocab"], tokenizer.unk_id)
        assert tokenizer.encode([word])[0].tolist() == ids, word
    (tmp_path / "tokenizer.json").write_text(json.dumps(fast))
    with pytest.raises(UsageError, match=r"of the type BPE, expected .* Use the spiece.model that it was made from"):
        load_tokenizer(tmp_path / "tokenizer.json")


def test_pieces_across_words_are_not_split_apart(tmp_path):
    for apart in (True, False):
        model = train(tmp_path / "m.model", user_defined_symbols=[], split_by_whitespace=apart)
        tokenizer = load_tokenizer(model, digit_comma=False)
        fast, _ = tokenizer_json(tokenizer)
        assert fast["pre_tokenizer"]["split"] is apart
        (tmp_path / "tokenizer.json").write_text(json.dumps(fast))
        check_equal(tokenizer, load_tokenizer(tmp_path / "tokenizer.json"), LINES)


def test_scores_of_user_defined_symbols(tmp_path):
    """Nearly 0, so that they are always taken, as in SentencePiece: unigram_model.cc counts 0.1 off."""
    model = train(tmp_path / "m.model", user_defined_symbols=["row", "the", "("])
    tokenizer = load_tokenizer(model, digit_comma=False)
    fast, _ = tokenizer_json(tokenizer)
    scores = dict(map(tuple, fast["model"]["vocab"]))
    assert [scores[symbol] for symbol in ("row", "the", "(")] == pytest.approx([-0.1] * 3)
    (tmp_path / "tokenizer.json").write_text(json.dumps(fast))
    again = load_tokenizer(tmp_path / "tokenizer.json")
    check_equal(tokenizer, again, [*LINES, "brown other growth throw (the) thethe"])


def normalized(steps, table, text):
    """What the library makes of text, step by step; its Precompiled where single characters stand apart."""
    for step in steps:
        if step["type"] == "Replace":
            kind, pattern = next(iter(step["pattern"].items()))
            pattern = re.escape(pattern) if kind == "String" else re.sub(r"\\x\{(\w+)\}", character, pattern)
            text = re.sub(pattern, step["content"], text)
        elif step["type"] == "Precompiled":
            text = "".join(table.get(c, c) for c in text)
        elif step["type"] == "Strip":
            text = text.strip()
        else:
            text = unicodedata.normalize(step["type"], text)
    return text


def character(match):
    return re.escape(chr(int(match[1], 16)))


def test_other_steps_around_the_replacements_are_refused(tmp_path):
    model = train(tmp_path / "m.model", user_defined_symbols=[])
    fast, _ = tokenizer_json(load_tokenizer(model, do_lower_case=False, keep_accents=True))
    steps = fast["normalizer"]["normalizers"]
    aside = next(i for i, step in enumerate(steps) if "Regex" in step.get("pattern", {}) and step["content"] != " ")
    table = next(step for step in steps if step["type"] == "Precompiled")
    path = tmp_path / "tokenizer.json"
    without = steps[:aside] + steps[aside + 1 :]
    path.write_text(json.dumps(fast | {"normalizer": {"type": "Sequence", "normalizers": without}}))
    with pytest.raises(UsageError, match=r"the normalizer is Replace, .* expected ALBERT's"):
        load_tokenizer(path)
    table["precompiled_charsmap"] = table["precompiled_charsmap"][:1000]
    path.write_text(json.dumps(fast))
    with pytest.raises(DataError, match=r"the table of its Precompiled, or its model.vocab, is damaged"):
        load_tokenizer(path)


# Letters and marks of Arabic, Hebrew, Vietnamese, Greek, Hindi, Japanese and Korean; signs that the table replaces.
COMBINED = (
    "تبارك\u0651\u064e\u064f\u0650\u0654\u0670 בש\u05bc\u05c1\u05b0 aAeo\u0323\u0302\u0301\u0327\u0309 αω\u0345\u0313"
    "क\u093c\u0915か\u3099ｶ\uff9e \u1112\u1161\u11ab ﬁ½…① \u0340\u0344 가\u11a8"
)


@pytest.mark.parametrize("rule", ["nmt_nfkc", "nmt_nfkc_cf"])
def test_marks_are_left_in_their_order(rule, tmp_path):
    """Kept accents: the steps give what SentencePiece's own normalizer gives, of marks in any order."""
    content = train(tmp_path / "m.model", normalization_rule_name=rule, user_defined_symbols=[]).read_bytes()
    tokenizer = load_tokenizer(tmp_path / "m.model", do_lower_case=False, keep_accents=True)
    fast, _ = tokenizer_json(tokenizer)
    steps = fast["normalizer"]["normalizers"]
    table = read_table(
        *(base64.b64decode(step["precompiled_charsmap"]) for step in steps if step["type"] == "Precompiled")
    )
    own = sentencepiece.SentencePieceNormalizer(model_proto=content)
    rng = np.random.default_rng(11)
    lines = ["".join(rng.choice(list(COMBINED), 60)) for _ in range(30)]
    lines += ["\u062a\u0637\u0628\u0651\u064e\u0642", "e\u0302\u0301 e\u0301\u0302 o\u0327\u0301 o\u0301\u0327"]
    lines += ["\u0653\u0627", "ｶ\uff9e ﬁ\u0301"]
    # Marks that no piece has stand for each other: the ids, which is what counts, are the same.
    stand_in = "\U000e0200"
    known = "".join(map(re.escape, sorted(set().union(*SentencePieceModel(content).pieces))))
    unknown = re.compile(f"(?:{stand_in}|[^{known} ])+")  # neighbours are one
    for line in lines:
        found = normalized(steps, table, line)
        wanted = own.Normalize(tokenizer.normalize([line])[0]).removeprefix("\u2581").replace("\u2581", " ")
        assert unknown.sub("?", found) == unknown.sub("?", wanted), ascii(line)
