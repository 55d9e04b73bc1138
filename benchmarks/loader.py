"""Reading records on one core: nlpdata.open_records by shuffled index against tf.data in file order.

    taskset -c 0 python benchmarks/loader.py

Records are static SOP records of random ids, at sequence lengths 128 and 512. Ours: batches of 256 by shuffled index.
tf.data: TFRecordDataset, sequential, batches of 32 through parse_example, each feature of fixed length; one core for
TensorFlow too (taskset). The two are run in turn; the median of the rounds is printed.
"""

import math
import tempfile
import time
from pathlib import Path

import numpy as np
import tensorflow as tf
from measure import in_turn

from nlpdata import open_records
from nlpdata.records.contract import pretraining_features
from nlpdata.records.encoding import encode_examples
from nlpdata.records.writer import ShardWriter

RECORDS = {128: 20_480, 512: 10_240}  # sequence length -> records
ROUNDS = 5


def write_records(path: Path, length: int, count: int):
    """Writes `count` records of random ids; returns their features."""
    features = pretraining_features(length, math.ceil(length * 0.15), "sop")
    rng = np.random.default_rng(length)
    below = {"input_ids": 30_000, "masked_lm_ids": 30_000, "masked_lm_positions": length}
    columns = {f.name: rng.integers(0, below.get(f.name, 2), (count, f.width)).astype(f.dtype) for f in features}
    payload, _ = encode_examples(features, columns)
    with ShardWriter(path) as writer:
        writer.write(payload, count)
    return features


def read_ours(path: Path) -> float:
    """Seconds to read every record once, in shuffled order."""
    records = open_records(path)
    order = np.random.default_rng(0).permutation(len(records))
    start = time.perf_counter()
    for i in range(0, len(order), 256):
        records[order[i : i + 256]]
    return time.perf_counter() - start


def read_tf_data(path: Path, features) -> float:
    """Seconds to read every record once, in file order."""
    spec = {f.name: tf.io.FixedLenFeature([f.width], getattr(tf, f.dtype)) for f in features}
    dataset = tf.data.TFRecordDataset(str(path)).batch(32).map(lambda batch: tf.io.parse_example(batch, spec))
    start = time.perf_counter()
    for _ in dataset:
        pass
    return time.perf_counter() - start


def main() -> None:
    print(f"{'seq':>4}  {'reader':<28}{'records/s':>10}{'MB/s':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for length, count in RECORDS.items():
            path = Path(folder) / f"{length}.tfrecord"
            features = write_records(path, length, count)
            readers = {
                "open_records, shuffled": lambda path=path: read_ours(path),
                "tf.data, sequential": lambda path=path, features=features: read_tf_data(path, features),
            }
            for name, seconds in in_turn(readers, ROUNDS).items():
                megabytes = path.stat().st_size / 1e6
                print(f"{length:>4}  {name:<28}{count / seconds:>10,.0f}{megabytes / seconds:>8.1f}")


if __name__ == "__main__":
    main()
