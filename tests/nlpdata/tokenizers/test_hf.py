"""Hugging Face folders: options and special tokens are found, and what would give other ids is refused."""

import json

import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.tokenizers import load_tokenizer
from tests.nlpdata.tokenizers.test_wordpiece import SMALL, SPECIAL, split, write
from tests.shared import shared


def fast(entries=SMALL, **changes):
    """A tokenizer.json as BertTokenizerFast saves it."""
    value = {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": entry, "special": True} for i, entry in enumerate(entries[:5])],
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {entry: i for i, entry in enumerate(entries)},
        },
    }
    for name, change in changes.items():
        value[name] = value[name] | change if isinstance(value[name], dict) else change
    return value


def lower_and_accents(tokenizer):
    return tokenizer.spec.do_lower_case, tokenizer.spec.keep_accents


def save(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def test_folder_with_vocab_and_config(tmp_path):
    write(tmp_path / "vocab.txt", SMALL)
    save(tmp_path / "tokenizer_config.json", {"do_lower_case": False, "strip_accents": None})
    t = load_tokenizer(tmp_path)
    assert lower_and_accents(t) == (False, True)
    assert lower_and_accents(load_tokenizer(tmp_path, do_lower_case=True)) == (True, False)


def test_a_real_folder(tmp_path):
    for name in ("tokenizer_config.json", "special_tokens_map.json", "config.json"):
        (tmp_path / name).write_bytes(shared("data", "models", "minilm_l6_config", name).read_bytes())
    (tmp_path / "vocab.txt").write_bytes(shared("data", "models", "vocab", "bert_base_uncased_vocab.txt").read_bytes())
    t = load_tokenizer(tmp_path)
    assert t.vocab_size == 30522
    assert t.notes == []
    assert lower_and_accents(t) == (True, False)


@pytest.mark.parametrize("strip", [None, True, False])
@pytest.mark.parametrize("lower", [True, False])
def test_strip_accents(tmp_path, lower, strip):
    write(tmp_path / "vocab.txt", SMALL)
    save(tmp_path / "tokenizer_config.json", {"do_lower_case": lower, "strip_accents": strip})
    t = load_tokenizer(tmp_path)
    assert lower_and_accents(t) == (lower, (not lower) if strip is None else not strip)


def test_special_tokens(tmp_path):
    """Strings and objects; tokenizer_config.json goes before special_tokens_map.json."""
    write(tmp_path / "vocab.txt", ["<pad>", "<unk>", "<s>", "</s>", "<mask>", "<x>", "<doc>", "a"])
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "cls_token": "<s>", "sep_token": "<x>"}
    save(tmp_path / "special_tokens_map.json", names | {"mask_token": {"content": "<mask>", "lstrip": True}})
    config = {"sep_token": "</s>", "additional_special_tokens": ["<doc>"], "do_lower_case": True}
    save(tmp_path / "tokenizer_config.json", config)
    t = load_tokenizer(tmp_path)
    assert (t.pad_id, t.unk_id, t.cls_id, t.sep_id, t.mask_id) == (0, 1, 2, 3, 4)
    assert t.ordinary_ids.tolist() == [5, 7]
    save(tmp_path / "tokenizer_config.json", config | {"mask_token": "<MASK>"})
    with pytest.raises(DataError, match="<MASK>"):
        load_tokenizer(tmp_path)


def test_tokenizer_json(tmp_path):
    t = load_tokenizer(save(tmp_path / "tokenizer.json", fast()))
    assert t.pieces(range(t.vocab_size)) == SMALL
    assert lower_and_accents(t) == (True, False)
    plain = load_tokenizer(write(tmp_path / "small-vocab.txt", SMALL))
    lines = ["The [MASK] fox", "中国", "a" * 150]
    assert split(*t.encode(lines)) == split(*plain.encode(lines))


def test_tokenizer_json_copied_next_to_records_by_another_name(tmp_path):
    path = save(tmp_path / "train.tokenizer.txt", fast())
    assert load_tokenizer(path).vocab_size == len(SMALL)


def test_options_of_a_tokenizer_json_next_to_a_vocab(tmp_path):
    write(tmp_path / "vocab.txt", SMALL)
    save(tmp_path / "tokenizer.json", fast(normalizer={"lowercase": False, "strip_accents": True}))
    t = load_tokenizer(tmp_path)
    assert lower_and_accents(t) == (False, False)


def test_chinese_characters_left_in_their_words(tmp_path):
    entries = [*SPECIAL, "中", "国", "##国", "中国"]
    path = save(tmp_path / "tokenizer.json", fast(entries, normalizer={"handle_chinese_chars": False}))
    t = load_tokenizer(path)
    assert t.pieces(t.encode(["中国 中中国"])[0]) == ["中国", "[UNK]"]
    assert t.meta()["tokenize_chinese_chars"] is False


def test_special_tokens_outside_the_vocabulary_are_told(tmp_path):
    write(tmp_path / "vocab.txt", SMALL)
    save(tmp_path / "added_tokens.json", {"[DOC]": len(SMALL)})
    config = {"do_lower_case": True, "additional_special_tokens": ["[DOC]"]}
    save(tmp_path / "tokenizer_config.json", config)
    t = load_tokenizer(tmp_path)
    assert t.vocab_size == len(SMALL)
    assert "[DOC]" in t.notes[0]


@pytest.mark.parametrize("where", ["added_tokens.json", "tokenizer_config.json", "tokenizer.json"])
def test_tokens_looked_for_in_unsplit_text_are_refused(tmp_path, where):
    token = {"id": len(SMALL), "content": "covid-19", "special": False}
    if where == "tokenizer.json":
        save(tmp_path / where, fast(added_tokens=[token]))
    else:
        write(tmp_path / "vocab.txt", SMALL)
        values = {"added_tokens.json": {"covid-19": len(SMALL)}}
        values["tokenizer_config.json"] = {"added_tokens_decoder": {str(len(SMALL)): token}}
        save(tmp_path / where, values[where])
    with pytest.raises(UsageError, match="covid-19"):
        load_tokenizer(tmp_path)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"model": {"type": "BPE"}}, "type BPE, expected WordPiece"),
        ({"model": {"type": "Unigram"}}, "the pre_tokenizer is 'BertPreTokenizer' .* expected Metaspace"),
        ({"model": {"continuing_subword_prefix": ""}}, "prefix of pieces inside words"),
        ({"normalizer": {"type": "Sequence"}}, "Sequence, expected BertNormalizer"),
        ({"normalizer": {"clean_text": False}}, "clean_text"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "BertPreTokenizer"),
        ({"model": {"vocab": {"a": 0, "b": 2}}, "added_tokens": []}, "'b' has id 2, expected 1"),
        ({"model": {"vocab": {"a": 0, "b": 0}}, "added_tokens": []}, "'b' has id 0, expected 1"),
        ({"model": {"vocab": {}}, "added_tokens": []}, "empty"),
    ],
)
def test_tokenizer_json_refused(tmp_path, changes, said):
    with pytest.raises((DataError, UsageError), match=said):
        load_tokenizer(save(tmp_path / "tokenizer.json", fast(**changes)))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"do_lower_case": "yes"}, "do_lower_case is 'yes'"),
        ({"word_tokenizer_type": "mecab"}, "mecab"),
        ({"do_basic_tokenize": False}, "basic tokenizer"),
    ],
)
def test_config_refused(tmp_path, config, said):
    write(tmp_path / "vocab.txt", SMALL)
    save(tmp_path / "tokenizer_config.json", config)
    with pytest.raises((DataError, UsageError), match=said):
        load_tokenizer(tmp_path)


def test_damaged_json(tmp_path):
    write(tmp_path / "vocab.txt", SMALL)
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(DataError, match="tokenizer_config"):
        load_tokenizer(tmp_path)
