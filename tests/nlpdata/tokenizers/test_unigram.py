"""tokenizer.json of the type Unigram: the same ids as the SentencePiece model that it was made from."""

import base64
import gzip
import json
import shutil

import numpy as np
import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.pretraining.create import create_pretraining
from nlpdata.protobuf import fields, float32
from nlpdata.tokenizers import load_tokenizer
from tests.nlpdata.tokenizers.test_sentencepiece import SENTENCES, train
from tests.shared import shared

SPECIAL = ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")


def converted(model_path, lower=True, keep_accents=False):
    """What transformers' AlbertConverter writes for a model."""
    pieces, table = [], b""
    for number, _, value in fields(model_path.read_bytes()):
        if number == 1:
            piece = {name: content for name, _, content in fields(value)}
            pieces.append([piece[1].decode(), float32(piece[2])])
        elif number == 3:
            table = next((content for name, _, content in fields(value) if name == 2), b"")
    names = [piece for piece, _ in pieces]
    steps = [{"type": "Replace", "pattern": {"String": quotes}, "content": '"'} for quotes in ("``", "''")]
    steps += [] if keep_accents else [{"type": "NFKD"}, {"type": "StripAccents"}]
    steps += [{"type": "Lowercase"}] if lower else []
    steps += [{"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}] if table else []
    steps += [{"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "}]
    return {
        "added_tokens": [{"id": names.index(name), "content": name, "special": True} for name in SPECIAL],
        "normalizer": {"type": "Sequence", "normalizers": steps},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
        "model": {"type": "Unigram", "unk_id": names.index("<unk>"), "vocab": pieces, "byte_fallback": False},
    }


def save(path, value):
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def same(first, second, lines):
    return all(np.array_equal(a, b) for a, b in zip(first.encode(lines), second.encode(lines), strict=True))


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return train(tmp_path_factory.mktemp("spm") / "small.model", user_defined_symbols=[])


@pytest.mark.parametrize(("lower", "keep"), [(True, False), (False, True), (True, True), (False, False)])
def test_a_folder_with_nothing_else_equals_its_model(small, tmp_path, lower, keep):
    save(tmp_path / "tokenizer.json", converted(small, lower, keep))
    found = load_tokenizer(tmp_path)
    model = load_tokenizer(small, do_lower_case=lower, keep_accents=keep, digit_comma=False)
    assert found.notes == []
    assert found.options() == {"do_lower_case": lower, "keep_accents": keep, "digit_comma": False}
    for name in ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id", "vocab_size"):
        assert getattr(found, name) == getattr(model, name)
    assert np.array_equal(found.ordinary_ids, model.ordinary_ids)
    assert np.array_equal(found.word_start, model.word_start)
    assert same(found, model, [*SENTENCES, "", " two  spaces ", "``quoted''", "unknown ☃☃ signs", "ﬁ ｶ ①"])


def test_alberts_vocabulary_on_real_lines(tmp_path):
    path = shared("data", "models", "spm", "albert_30k-clean.privately-corp.model")
    found = load_tokenizer(save(tmp_path / "tokenizer.json", converted(path)))
    lines = []
    for file in sorted(shared("data", "ospl").glob("*.gz")):
        with gzip.open(file, "rt", encoding="utf-8", newline="\n") as text:
            lines += [line.rstrip("\n") for line in text if line.strip()][:2100:7]
    assert len(lines) > 1000
    assert same(found, load_tokenizer(path, digit_comma=False), lines)


def test_next_to_its_model_the_model_is_used(small, tmp_path):
    shutil.copy(small, tmp_path / "spiece.model")
    save(tmp_path / "tokenizer.json", converted(small))
    assert load_tokenizer(tmp_path).path.endswith("spiece.model")


def test_a_literal_special_piece_is_text(small, tmp_path):
    found = load_tokenizer(save(tmp_path / "tokenizer.json", converted(small)))
    assert not {0, 2, 3, 4} & set(found.encode(["[SEP] a[MASK]b <pad>"])[0].tolist())


def test_a_copy_next_to_records_loads_from_the_meta_file(small, tmp_path):
    folder = tmp_path / "hf"
    folder.mkdir()
    save(folder / "tokenizer.json", converted(small, lower=False))
    (tmp_path / "text.txt").write_text("\n".join(SENTENCES) + "\n\n" + "\n".join(SENTENCES) + "\n", encoding="utf-8")
    create_pretraining(
        str(tmp_path / "text.txt"), str(tmp_path / "out" / "train"), str(folder), max_seq_length=32, workers=1
    )
    entry = json.loads((tmp_path / "out" / "train.meta.json").read_text())["tokenizer"]
    assert entry["file"] == "train.tokenizer.hf.json"
    assert (entry["type"], entry["do_lower_case"], entry["special_tokens"]) == ("sentencepiece", False, list(SPECIAL))
    original = load_tokenizer(folder)
    for again in (
        load_tokenizer(entry, folder=tmp_path / "out"),
        load_tokenizer(tmp_path / "out" / "train.tokenizer.hf.json"),
    ):
        assert again.meta() == original.meta()
        assert same(again, original, SENTENCES)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"normalizer": {"type": "NFKC"}}, "the normalizer is NFKC; expected ALBERT's"),
        ({"normalizer": None}, "the normalizer is none"),
        ({"pre_tokenizer": {"type": "ByteLevel"}}, "expected Metaspace"),
        ({"pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"}}, "expected Metaspace"),
        ({"model": {"type": "Unigram", "vocab": {"a": 0}, "unk_id": 0}}, r"list of \[piece, score\]"),
        ({"model": {"type": "Unigram", "vocab": [["a", 0.0]], "unk_id": None}}, "unk_id"),
        *(
            (
                {"model": {"type": "Unigram", "vocab": [["<unk>", 0.0], ["a", score]], "unk_id": 0}},
                r"vocab\[1\]: the score of 'a'",
            )
            for score in (1e39, -1e300, float("inf"), float("nan"))
        ),
        (
            {"model": {"type": "Unigram", "vocab": [["\ud800", 0.0]], "unk_id": 0}},
            r"vocab\[0\]: .* half of a surrogate pair",
        ),
        ({"added_tokens": [{"id": 999, "content": "<x>", "special": True}]}, "<x> are not pieces"),
        ({"added_tokens": [{"id": 999, "content": "word", "special": False}]}, "looked for in text"),
    ],
)
def test_refused(small, tmp_path, change, said):
    with pytest.raises((DataError, UsageError), match=said):
        load_tokenizer(save(tmp_path / "tokenizer.json", converted(small) | change))


def test_damaged_file(tmp_path):
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "Unig')
    with pytest.raises(DataError, match="cut short"):
        load_tokenizer(tmp_path)
