"""TensorFlow reads what create-pretraining writes, plain and gzip."""

import numpy as np
import pytest

from nlpdata.cli import commands
from nlpdata.records.reader import open_records
from tests.nlpdata.commands import create_arguments

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_tensorflow_reads_the_records(tmp_path, corpus_folder, tiny_model, compression):
    tf = pytest.importorskip("tensorflow")
    output = tmp_path / "x.tfrecord"
    more = ("--compression", compression, "--num-shards", 2)
    assert commands.main(create_arguments(corpus_folder / "a.txt", output, tiny_model, *more)) == 0
    records = open_records(f"{output}*")
    features = {
        f.name: tf.io.FixedLenFeature([f.width], tf.int64 if f.dtype == "int64" else tf.float32)
        for f in records.features
    }
    names = [str(path) for path in records.paths]
    data = tf.data.TFRecordDataset(names, "GZIP" if compression == "gzip" else "").batch(100_000)
    parsed = tf.io.parse_example(next(iter(data)), features)
    ours = records[:]
    assert len(ours["input_ids"]) == len(records) > 100
    for name in features:
        np.testing.assert_array_equal(parsed[name].numpy(), ours[name])
