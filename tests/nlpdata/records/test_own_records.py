"""Our own records take the fast way of decoding: they share their layout, so that a batch is decoded at once."""

from pathlib import Path

import numpy as np
import pytest

import nlpdata
from nlpdata.records import decoding
from tests.nlpdata.finetuning.texts import squad, write

ROOT = Path(__file__).resolve().parents[3]
VOCABULARY = ROOT / "tests" / "nlpdata" / "golden" / "vocab.txt"
PRETRAINING = {
    "static": {},
    "dynamic": {"masking": "dynamic", "feature_names": "v2"},
    "packed": {"objective": "none", "pack_across_documents": True, "short_seq_prob": 0.0},
    "long": {"max_seq_length": 200},  # lengths of more than one byte, at every depth
}
FINETUNING = {
    "classification": {"text_column": "a", "label_column": "kind"},
    "pair": {"text_column": "a", "text_b_column": "b", "label_column": "kind"},
    "regression": {"text_column": "a", "label_column": "score", "feature_names": "v2"},
    "multilabel": {"text_column": "a", "label_column": "many"},
    "albert": {"task": "classification", "text_column": "a", "label_column": "kind", "feature_names": "albert"},
    "squad": {"max_query_length": 16},
}


@pytest.fixture(scope="module")
def record_sets(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    rows = [[f"the house {i}", "a river" * (i % 3 + 1), "xy"[i % 2], "x,y"[: i % 4], str(i / 4)] for i in range(40)]
    rows = write(folder / "rows.tsv", ["a", "b", "kind", "many", "score"], *rows)
    asked = [(f"q{i}", "Where is it?", [("river", 8 + i)], False) for i in (0, 26)]
    questions = squad(folder / "train.json", ("By the river. The town's river.", asked[0]), ("House " * 90, asked[1]))

    def make(name):
        output = folder / name
        if name in PRETRAINING:
            options = {"max_seq_length": 64, "workers": 1} | PRETRAINING[name]
            source = ROOT / "examples" / "corpus" / "english_town.txt"
            return nlpdata.create_pretraining(str(source), str(output / "train"), VOCABULARY, **options)
        options = {"task": name, "max_seq_length": 64, "workers": 1, "on_bad_row": "skip", "accept_loss": True}
        source = questions if name == "squad" else rows
        return nlpdata.create_finetuning(source, str(output), VOCABULARY, **options | FINETUNING[name])

    return make


@pytest.mark.parametrize("name", [*PRETRAINING, *FINETUNING])
def test_no_record_is_decoded_on_its_own(record_sets, monkeypatch, name):
    records = nlpdata.open_records(record_sets(name).files["train"])
    batches = [np.arange(len(records)), np.array([len(records) - 1])]
    slow = []
    with monkeypatch.context() as patch:
        patch.setattr(decoding, "_decode_in_lockstep", decoding._decode_any_order)
        slow += [records[batch] for batch in batches]

    def refused(*_):
        raise AssertionError("not in lockstep")

    monkeypatch.setattr(decoding, "_decode_any_order", refused)
    for batch, expected in zip(batches, slow, strict=True):
        found = records[batch]
        assert list(found) == list(expected)
        for feature, values in found.items():
            np.testing.assert_array_equal(values, expected[feature], feature)
            assert values.dtype == expected[feature].dtype
