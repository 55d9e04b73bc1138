"""Sets of TensorFlow Datasets: real ones, prepared here without a network, and what is not prepared."""

import sys

import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.finetuning.older_flags import tfds_options
from nlpdata.records.contract import read_meta
from tests.nlpdata.finetuning.texts import write
from tests.tfds_sets import ROWS, prepare


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """(TSV folders, TFDS data folder) of the same rows."""
    return prepare(tmp_path_factory.mktemp("tfds"), ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("task", ROWS)
def test_records_are_those_of_the_tsv_files(prepared, make, tmp_path, task):
    glue, data = prepared
    options = {"max_seq_length": 32} | ({"label_order": "tfds"} if task == "mnli" else {})
    from_files = make(glue, output="files", task=task, **options)
    from_tfds = make(None, output="tfds", tfds=f"glue/{task}", tfds_data_dir=str(data), max_seq_length=32)
    assert from_files.counters.keys() == from_tfds.counters.keys()
    for split in from_files.files:
        first, second = ((tmp_path / output / f"{split}.tfrecord").read_bytes() for output in ("files", "tfds"))
        assert first == second, split
    meta = read_meta(from_tfds.meta)
    if task == "mnli":
        assert meta["label_names"] == ["entailment", "neutral", "contradiction"]
        assert not meta["splits"]["test_matched"]["labelled"]


@pytest.mark.slow
def test_glue_order_of_labels_from_tfds(prepared, make, tmp_path):
    glue, data = prepared
    make(glue, output="files", task="mnli", max_seq_length=32)
    make(None, output="tfds", tfds="glue/mnli", tfds_data_dir=str(data), label_order="glue", max_seq_length=32)
    assert (tmp_path / "files" / "train.tfrecord").read_bytes() == (tmp_path / "tfds" / "train.tfrecord").read_bytes()


@pytest.mark.slow
def test_keys_and_splits_can_be_named(prepared, make):
    _, data = prepared
    options = {"tfds": "glue/rte", "tfds_data_dir": str(data), "max_seq_length": 32}
    result = make(None, text_column="sentence2", tfds_splits="train=validation,dev=train", **options)
    assert set(result.files) == {"train", "dev"}
    with pytest.raises(UsageError, match=r"no 'sentence9'; its features: .*sentence1"):
        make(None, output="x", text_column="sentence9", **options)
    with pytest.raises(UsageError, match=r"'dev=nowhere', expected .* one of glue/rte's splits: "):
        make(None, output="x", tfds_splits="dev=nowhere", **options)


@pytest.mark.slow
def test_the_task_that_is_given_decides(prepared, make):
    _, data = prepared
    options = {"tfds_data_dir": str(data), "max_seq_length": 32, "tfds_splits": "train=train"}
    result = make(None, tfds="glue/stsb", task="classification", **options)
    assert read_meta(result.meta)["label_names"] == ["0.25", "2.5"]
    with pytest.raises(UsageError, match="the labels of glue/rte are classes: entailment, not_entailment"):
        make(None, output="x", tfds="glue/rte", task="Regression", **options)


@pytest.mark.parametrize(
    ("name", "hint"), [("glue/rte", "Prepared there: nothing"), ("glue/mnlii", "Did you mean glue/mnli")]
)
def test_what_is_not_prepared_is_said_at_once(make, tmp_path, monkeypatch, name, hint):
    """No minutes of downloading first, and neither TFDS nor TensorFlow is loaded for it."""
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)  # an import fails
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    if "mnli" in name:
        write(tmp_path / "data" / "glue" / "mnli" / "2.0.0" / "dataset_info.json", "{}")
    with pytest.raises(DataError) as raised:
        make(None, tfds=name, tfds_data_dir=str(tmp_path / "data"))
    for word in (name, hint, "download_and_prepare", "tfds_data_dir"):
        assert word in str(raised.value)


def test_the_model_gardens_params():
    text = "dataset=glue/rte,data_dir=/d,text_key=sentence1,text_b_key=sentence2,train_split=train,dev_split=validation"
    assert tfds_options(text) == [
        *("--tfds", "glue/rte", "--tfds-data-dir", "/d", "--text-column", "sentence1"),
        *("--text-b-column", "sentence2", "--tfds-splits", "train=train,dev=validation"),
    ]
    assert tfds_options("dataset=a,is_regression=true")[2:] == ["--task", "regression"]
    assert tfds_options("dataset=a,is_regression=false") == ["--tfds", "a"]
