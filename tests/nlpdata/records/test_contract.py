"""The data contract: features, file names, meta files."""

import json
import os

import numpy as np
import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.records.contract import (
    FORMAT_VERSION,
    Feature,
    committing_marker,
    features_of_meta,
    find_meta,
    meta_path,
    pretraining_features,
    read_meta,
    record_stem,
    refuse_while_committing,
    shard_names,
    write_meta,
)
from tests.shared import shared


def test_pretraining_features():
    assert pretraining_features(128, 20) == (
        Feature("input_ids", "int64", 128),
        Feature("input_mask", "int64", 128),
        Feature("masked_lm_ids", "int64", 20),
        Feature("masked_lm_positions", "int64", 20),
        Feature("masked_lm_weights", "float32", 20),
        Feature("next_sentence_labels", "int64", 1),
        Feature("segment_ids", "int64", 128),
        Feature("token_boundary", "int64", 128),
    )
    assert [f.name for f in pretraining_features(64, 10, False, "dynamic", "v2")] == [
        "input_mask",
        "input_type_ids",
        "input_word_ids",
        "token_boundary",
    ]
    assert "next_sentence_labels" in {f.name for f in pretraining_features(64, 10, True, "dynamic")}


@pytest.mark.parametrize("arguments", [(True, "sometimes"), (True, "static", "v3")])
def test_unknown_choices_are_named(arguments):
    with pytest.raises(UsageError, match=f"received '{arguments[-1]}', expected one of "):
        pretraining_features(128, 20, *arguments)


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("out/train.tfrecord", "train"),
        ("out/train.tf_record", "train"),
        ("out/train", "train"),
        ("out/train.tfrecord-00001-of-00003", "train"),
        ("out/train.eval.tfrecord", "train.eval"),
        ("out/v1.2", "v1.2"),
        ("out/.tfrecord", ".tfrecord"),
    ],
)
def test_names_of_a_set(name, stem):
    assert record_stem(name).name == stem
    assert str(meta_path(name)) == f"out/{stem}.meta.json"
    assert str(committing_marker(name)) == f"out/.{stem}.committing"


def test_shard_names():
    assert shard_names("a/x", 1) == ["a/x.tfrecord"]
    assert shard_names("a/x.tf_record", 1) == ["a/x.tf_record"]
    assert shard_names("a/x.tfrecord", 2) == ["a/x.tfrecord-00000-of-00002", "a/x.tfrecord-00001-of-00002"]
    with pytest.raises(UsageError, match="num_shards must be at least 1"):
        shard_names("a/x", 0)


def test_meta_round_trip_is_stable(tmp_path):
    path = tmp_path / "x.meta.json"
    write_meta(path, {"b": np.int64(3), "a": {"z": np.array([1, 2]), "y": "é"}, "p": np.float32(0.5)})
    first = path.read_bytes()
    assert first.endswith(b"}\n")
    assert b"\xc3\xa9" in first
    write_meta(path, {"p": 0.5, "a": {"y": "é", "z": [1, 2]}, "b": 3})
    assert path.read_bytes() == first
    assert read_meta(path) == {"format_version": FORMAT_VERSION, "b": 3, "a": {"z": [1, 2], "y": "é"}, "p": 0.5}
    assert [p.name for p in tmp_path.iterdir()] == ["x.meta.json"]


def test_meta_faults(tmp_path):
    path = tmp_path / "x.meta.json"
    with pytest.raises(DataError, match="cannot be read: No such file or directory"):
        read_meta(path)
    for text, message in (
        ("{", "not a meta file"),
        ("[1]", "received a JSON list"),
        (json.dumps({"format_version": FORMAT_VERSION + 1}), "upgrade nlpdata"),
        ('{"format_version": "one"}', "format_version is 'one'"),
        ('{"shards": [{"records": 1}]}', "shards is .* expected a list of objects with file, records, crc32c"),
        ('{"tokenizer": "spm.model"}', "tokenizer is 'spm.model', expected an object"),
        ("[" * 100_000, "not a meta file: it is nested too deeply"),
        ('{"max_seq_length": 1e9}', "max_seq_length is 1000000000.0, expected a whole number from 0 to 1048576"),
        ('{"num_labels": true}', "num_labels is true, expected a whole number"),
        ('{"label_names": {"0": "a"}}', "label_names is .*, expected a list of texts"),
        ('{"splits": {"dev": []}}', r"splits.dev is \[\], expected an object"),
        (
            '{"splits": {"dev": {"features": [["a", "int64"]]}}}',
            r"splits.dev.features is .*, expected a list of \[name",
        ),
        ('{"splits": {"dev": {"features": [["a", "int64", 1048577]]}}}', "width up to 1048576"),
        ('{"tokenizer": {"vocab_size": "1"}}', "tokenizer.vocab_size is '1', expected a whole number"),
        ('{"tokenizer": {"type": {}}}', "tokenizer.type is {}, expected text"),
        ('{"objective": []}', r"objective is \[\], expected text"),
        ('{"tokenizer": {"special_tokens": ["a"]}}', r"tokenizer.special_tokens is \['a'\], expected a list of five"),
        ('{"tokenizer": {"special_tokens": ["a", "b", "c", "d", "\\ud800"]}}', "expected a list of five texts"),
        ('{"tokenizer": {"ordinary_ids": [[0, 999999999999]]}}', "tokenizer.ordinary_ids is .*, expected a list of at"),
        ('{"tokenizer": {"do_lower_case": 1}}', "tokenizer.do_lower_case is 1, expected true or false"),
    ):
        path.write_text(text)
        with pytest.raises(DataError, match=message):
            read_meta(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="not a meta file"):
        read_meta(path)
    with pytest.raises(DataError, match="cannot write the meta file"):
        write_meta(tmp_path / "nowhere" / "x.meta.json", {})


def test_older_meta_files_load(tmp_path):
    path = tmp_path / "meta.json"
    path.write_text('\ufeff{"task_type": "albert_pretraining", "train_data_size": 30, "max_seq_length": 64}')
    meta = read_meta(path)
    assert meta["train_data_size"] == 30
    assert features_of_meta(meta) is None
    assert read_meta(shared("oracle", "create_pretraining", "kamalkraj_meta.json"))["max_predictions_per_seq"] == 10


def test_features_of_meta():
    meta = {"format_version": 1, "task_type": "mlm_pretraining", "max_seq_length": 32, "max_predictions_per_seq": 5}
    meta["options"] = {"objective": "none", "masking": "static", "feature_names": "v2"}
    assert features_of_meta(meta) is None  # the set may have labels or not
    meta["label_names"] = []
    assert features_of_meta(meta) == pretraining_features(32, 5, False, "static", "v2")
    # Of an objective that is not known here the meta file says enough; what it names is not imported.
    meta |= {"objective": "no_such_module:Own", "task_type": "pretraining", "label_names": ["near", "far"]}
    meta["options"] |= {"objective": "no_such_module:Own"}
    assert features_of_meta(meta) == pretraining_features(32, 5, True, "static", "v2")
    assert features_of_meta(meta | {"task_type": "bert_classification"}) is None
    assert features_of_meta(None) is None


@pytest.mark.parametrize("damage", [{"format_version": 99}, {"tokenizer": [1]}, {"shards": 5}, {"max_seq_length": "x"}])
def test_a_damaged_meta_file_of_a_folder_is_not_passed_over(tmp_path, damage):
    path = tmp_path / "meta.json"
    whole = {
        "format_version": 1,
        "task_type": "bert_classification",
        "shards": [{"file": "train.tfrecord", "records": 1, "crc32c": 0}],
    }
    path.write_text(json.dumps(whole | damage))
    assert find_meta(tmp_path / "train.tfrecord") == path
    with pytest.raises(DataError, match=r"meta\.json"):
        read_meta(path)


def test_find_meta(tmp_path):
    assert find_meta(tmp_path / "train.tfrecord") is None
    write_meta(tmp_path / "meta.json", {"shards": [{"file": "train.tfrecord", "records": 1, "crc32c": "00000000"}]})
    assert find_meta(tmp_path / "train.tfrecord") == tmp_path / "meta.json"
    assert find_meta(tmp_path / "other.tfrecord") is None
    for text, found in (("[]", None), ('{"a": 1}', None), ('{"task_type": "x"}', tmp_path / "meta.json")):
        (tmp_path / "meta.json").write_text(text)
        assert find_meta(tmp_path / "train.tfrecord") == found
    write_meta(tmp_path / "train.meta.json", {})
    assert find_meta(tmp_path / "train.tfrecord-00000-of-00002") == tmp_path / "train.meta.json"


def test_a_meta_file_of_another_name_is_found_by_what_it_lists(tmp_path):
    listed = {"file": "mnli_train.tf_record", "records": 1, "crc32c": "00000000"}
    write_meta(tmp_path / "mnli_meta_data", {"shards": [listed]})
    (tmp_path / "a_meta").write_text("no JSON")
    (tmp_path / "b_metadata").write_text('{"shards": 3}')
    (tmp_path / "c_meta.txt").write_bytes(b" " * (17 << 20) + b'{"shards": []}')
    (tmp_path / "d_meta").mkdir()
    os.mkfifo(tmp_path / "e_meta")
    assert find_meta(tmp_path / "mnli_train.tf_record") == tmp_path / "mnli_meta_data"
    assert find_meta(tmp_path / "other.tf_record") is None
    write_meta(tmp_path / "meta.json", {"shards": [listed]})
    assert find_meta(tmp_path / "mnli_train.tf_record") == tmp_path / "meta.json"


def test_readers_refuse_a_set_that_is_being_replaced(tmp_path):
    refuse_while_committing(tmp_path / "x.tfrecord")
    committing_marker(tmp_path / "x").touch()
    with pytest.raises(DataError, match="is being replaced"):
        refuse_while_committing(tmp_path / "x.tfrecord-00000-of-00002")
