"""A tokenizer.json next to a vocabulary: silent where it says the same, reported where it does not."""

import json

import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.tokenizers import load_tokenizer
from nlpdata.tokenizers.hf_writing import tokenizer_json
from tests.nlpdata.tokenizers.test_hf import fast, save
from tests.nlpdata.tokenizers.test_wordpiece import SMALL, write
from tests.shared import shared


@pytest.fixture
def albert(tmp_path):
    """(folder with ALBERT's model and the tokenizer_config.json of AlbertTokenizerFast 4.48, the tokenizer)."""
    (tmp_path / "spiece.model").write_bytes(shared("oracle", "spm", "30k-clean.model").read_bytes())
    special = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"]
    symbols = ["(", ")", '"', "-", ".", "–", "£", "€"]
    added = {str(i): {"content": piece, "special": i < 5} for i, piece in enumerate([*special, *symbols])}
    roles = {
        "pad_token": "<pad>",
        "unk_token": "<unk>",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "mask_token": "[MASK]",
    }
    config = roles | {"do_lower_case": True, "keep_accents": False, "added_tokens_decoder": added}
    save(tmp_path / "tokenizer_config.json", config)
    return tmp_path, load_tokenizer(tmp_path)


def next_to(folder, value):
    save(folder / "tokenizer.json", value)
    return load_tokenizer(folder).notes


def test_the_models_own_symbols_are_not_added_tokens(albert):
    folder, tokenizer = albert
    assert tokenizer.notes == []
    plain = load_tokenizer(shared("oracle", "spm", "30k-clean.model"))
    lines = ["one-sentence-per-line (with 5 of them).", '"Cass" Beard--had']
    assert [list(part) for part in tokenizer.encode(lines)] == [list(part) for part in plain.encode(lines)]
    config = json.loads((folder / "tokenizer_config.json").read_text())
    for number, content in (
        ("2000", "foobar"),
        ("5", "-"),
        ("40", tokenizer.pieces([40])[0]),
    ):  # new; at another id; not a symbol
        changed = config | {"added_tokens_decoder": {number: {"content": content, "special": False}}}
        save(folder / "tokenizer_config.json", changed)
        with pytest.raises(UsageError, match=r"adds 1 tokens that are looked for in text before it is split"):
            load_tokenizer(folder)


def test_what_says_the_same_is_silent(albert):
    folder, tokenizer = albert
    assert next_to(folder, tokenizer_json(tokenizer)[0]) == []


def test_what_contradicts_a_model_is_reported(albert):
    folder, tokenizer = albert
    written = tokenizer_json(tokenizer)[0]
    pieces = written["model"]["vocab"]
    swapped = written | {"model": written["model"] | {"vocab": [*pieces[:50], pieces[51], pieces[50], *pieces[52:]]}}
    (note,) = next_to(folder, swapped)
    own, other = tokenizer.pieces([50, 51])
    assert (
        f"tokenizer.json, next to spiece.model, has {other!r} for the id 50, not {own!r}. This vocabulary decides"
        in note
    )
    symbols = [{"id": i, "content": piece, "special": False} for i, piece in enumerate("()", start=5)]
    (note,) = next_to(folder, written | {"added_tokens": written["added_tokens"] + symbols})
    assert "looks for (, ) before it splits text into words" in note
    cased = tokenizer_json(load_tokenizer(folder, do_lower_case=False))[0]
    (note,) = next_to(folder, cased)
    assert "says do_lower_case false, not true" in note
    save(folder / "tokenizer.json", cased)
    assert load_tokenizer(folder, do_lower_case=False).notes == []  # the user decided
    (note,) = next_to(folder, fast())
    assert "is a tokenizer of the type WordPiece" in note
    (note,) = next_to(folder, {"model": None})
    assert "cannot be compared" in note


def test_what_contradicts_a_vocabulary_is_reported(tmp_path):
    write(tmp_path / "vocab.txt", SMALL)
    save(tmp_path / "tokenizer_config.json", {"do_lower_case": True})
    assert next_to(tmp_path, fast()) == []
    more = [{"id": len(SMALL), "content": "[X]", "special": True}]
    assert next_to(tmp_path, fast(added_tokens=fast()["added_tokens"] + more)) == []  # special, and never in text
    (note,) = next_to(tmp_path, fast([*SMALL[:-2], SMALL[-1], SMALL[-2]]))
    assert f"has {SMALL[-1]!r} for the id {len(SMALL) - 2}, not {SMALL[-2]!r}" in note
    (note,) = next_to(tmp_path, fast(normalizer={"lowercase": False}))
    assert "says do_lower_case false, not true" in note
    (note,) = next_to(tmp_path, fast(SMALL[:-1]))
    assert f"has none for the id {len(SMALL) - 1}" in note


def test_a_byte_order_mark_in_every_file(albert, tmp_path):
    folder, tokenizer = albert
    save(folder / "tokenizer.json", tokenizer_json(tokenizer)[0])
    save(folder / "special_tokens_map.json", {"mask_token": "[MASK]"})
    for file in folder.glob("*.json"):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes())
    again = load_tokenizer(folder)
    assert (again.notes, again.meta()) == ([], tokenizer.meta())


def test_a_piece_that_is_there_twice(albert):
    folder, tokenizer = albert
    written = tokenizer_json(tokenizer)[0]
    written["model"]["vocab"][60] = written["model"]["vocab"][61]
    with pytest.raises(DataError, match=r"model.vocab has '.*' twice, so that its id is not known"):
        load_tokenizer(save(folder / "tokenizer.json", written))
