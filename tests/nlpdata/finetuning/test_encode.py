"""From texts to sequences: truncation, layout, names."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlpdata.finetuning.encode import lay_out, rename_features, truncate_pair
from nlpdata.records.contract import Feature
from nlpdata.records.encoding import Packed, VarintRuns, encode_examples
from tests.nlpdata.finetuning.texts import squad, write


class _Ids:
    pad_id, cls_id, sep_id = 0, 2, 3


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 40))
def test_pairs_lose_tokens_as_in_the_original(a, b, budget):
    """`_truncate_seq_pair` of google-research/bert: one token at a time, of the longer, of the second at a tie."""
    first, second = a, b
    while first + second > budget:
        if first > second:
            first -= 1
        else:
            second -= 1
    kept = truncate_pair(np.array([a]), np.array([b]), budget)
    assert (int(kept[0][0]), int(kept[1][0])) == (first, second)


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=6), st.integers(8, 16))
def test_layout_against_a_plain_one(sizes, length):
    texts = [([10 + i for i in range(a)], [50 + i for i in range(b)]) for a, b in sizes]
    flat = [
        (np.array([i for text in texts for i in text[k]], np.int32), np.array([len(text[k]) for text in texts]))
        for k in (0, 1)
    ]
    columns, cut = lay_out(_Ids, length, *flat)
    for i, (a, b) in enumerate(texts):
        first, second = list(a), list(b)
        if second:
            while len(first) + len(second) > length - 3:
                (first if len(first) > len(second) else second).pop()
            ids = [2, *first, 3, *second, 3] if second else [2, *first, 3]
        else:
            first = first[: length - 2]
            ids = [2, *first, 3]
        pad = [0] * (length - len(ids))
        assert columns["input_ids"][i].tolist() == ids + pad
        assert columns["input_mask"][i].tolist() == [1] * len(ids) + pad
        inside_b = len(ids) - len(first) - 2
        assert columns["segment_ids"][i].tolist() == [0] * (len(first) + 2) + [1] * inside_b + pad
        assert cut[i] == len(a) + len(b) - len(first) - len(second)


def test_names_and_types():
    features = [
        Feature("paragraph_mask", "int64", 8),
        Feature("input_ids", "int64", 8),
        Feature("is_impossible", "int64", 1),
    ]
    assert [str(f) for f in rename_features(features, "v1")] == [
        "input_ids int64[8]",
        "is_impossible int64[1]",
        "paragraph_mask int64[8]",
    ]
    assert [str(f) for f in rename_features(features, "albert")] == [
        "input_ids int64[8]",
        "is_impossible float32[1]",
        "p_mask float32[8]",
    ]
    assert rename_features(features, "v2")[0].name == "input_word_ids"


@pytest.mark.parametrize("names", ["v1", "v2", "albert"])
def test_records_under_other_names_hold_the_same(tmp_path, make, records, names):
    context = "the fox jumped high over the lazy dog"
    path = squad(tmp_path / "train.json", (context, ("1", "who ?", [("fox", 4)], False), ("2", "who ?", [], True)))
    for each in ("v1", names):
        options = {"max_seq_length": 32, "max_query_length": 8, "overwrite": True}
        make(path, output=each, task="squad", feature_names=each, **options)
    ours, theirs = records(output="v1")[:], records(output=names)[:]
    if names == "albert":
        assert theirs["p_mask"].dtype == theirs["is_impossible"].dtype == np.float32
        assert (theirs["p_mask"] == 1 - ours["paragraph_mask"]).all()
        assert (theirs["cls_index"] == 0).all()
        assert "paragraph_mask" not in theirs
    elif names == "v2":
        assert (theirs["input_word_ids"] == ours["input_ids"]).all()
        assert (theirs["input_type_ids"] == ours["segment_ids"]).all()


def test_a_second_text_without_tokens_is_none(tmp_path, make, records):
    row = "the fox\t\u200b\t"
    path = write(tmp_path / "a.tsv", "a\tb\tlabel", f"{row}0", f"{row}1")
    make(path, task="pair", text_column="a", text_b_column="b", max_seq_length=16)
    assert not records()[0]["segment_ids"].any()


@given(st.lists(st.integers(0, 2**62), min_size=4, max_size=30), st.data())
def test_packed_columns_are_encoded_as_arrays(values, data):
    first = np.array(data.draw(st.lists(st.integers(0, len(values) - 3), min_size=1, max_size=5)))
    features = [Feature("a", "int64", 3), Feature("b", "int64", 1)]
    rows = np.array(values)[first[:, None] + np.arange(3)]
    packed = Packed(VarintRuns(np.array(values)).runs(first, np.full(len(first), 3)))
    made = [encode_examples(features, {"a": column, "b": rows[:, :1]}) for column in (rows, packed)]
    assert made[0][0] == made[1][0]
    assert np.array_equal(made[0][1], made[1][1])
