"""Records that a run makes itself."""

import pytest

import nlpdata
from nlpdata.errors import UsageError
from nlpdata.records.contract import read_meta
from pretrain.data.toy import (
    SEQ_LENGTH,
    make_toy_records,
    toy_meta,
    toy_objective,
    toy_text,
    toy_vocabulary,
    with_toy_records,
)
from pretrain.experiments import experiment
from tests.messages import messages


def test_the_vocabulary_covers_the_text():
    assert set(toy_text().split()) <= set(toy_vocabulary())
    assert toy_vocabulary()[:5] == ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    assert len(toy_vocabulary()) == len(set(toy_vocabulary()))


@pytest.mark.parametrize("objective", ["nsp", "sop", "none"])
def test_records_are_made_once_and_are_whole(tmp_path, objective):
    config = experiment("bert/local", {"task": {"train_data": {"input_path": f"toy:{objective}"}}})
    with messages() as notes:
        task = with_toy_records(config, ["train_data"], tmp_path / "toy", make_toy_records).task
    assert len(notes) == 1
    assert task.validation_data.input_path == "toy:nsp"
    data, said = task.train_data, toy_meta(objective)
    meta = read_meta(tmp_path / "toy" / f"{objective}.meta.json")
    assert said == {name: meta[name] for name in said} | {"tokenizer": {"vocab_size": meta["tokenizer"]["vocab_size"]}}
    assert not nlpdata.verify(data.input_path).faults
    records = nlpdata.open_records(data.input_path)
    assert len(records) > 2000
    assert records[0]["input_ids"].shape == (SEQ_LENGTH,)
    assert 1 not in {int(token) for i in range(0, 200) for token in records[i]["input_ids"]}  # no [UNK]
    bytes_before = [path.read_bytes() for path in sorted((tmp_path / "toy").iterdir())]
    with messages() as notes:
        with_toy_records(config, ["train_data"], tmp_path / "toy", make_toy_records)
    assert notes == []
    assert bytes_before == [path.read_bytes() for path in sorted((tmp_path / "toy").iterdir())]


def test_other_paths_stay(tmp_path):
    config = experiment("bert/pretraining", {"task": {"train_data": {"input_path": "data/toy:nsp"}}})
    assert with_toy_records(config, ["train_data", "validation_data"], tmp_path / "toy", make_toy_records) == config
    assert toy_objective(["toy:nsp"]) is None
    assert not any(tmp_path.iterdir())


def test_an_unknown_objective():
    with pytest.raises(UsageError, match="toy records are toy:nsp, toy:sop or toy:none"):
        toy_objective("toy:mlm")
