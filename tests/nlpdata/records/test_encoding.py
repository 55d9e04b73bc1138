"""Encoding is byte for byte protobuf's; the only tests of the codec that load TensorFlow."""

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlpdata.records.contract import Feature, pretraining_features
from nlpdata.records.encoding import encode_examples, masked_crc

tf = pytest.importorskip("tensorflow")


def protobuf(features, columns, row) -> bytes:
    example = tf.train.Example()
    example.features.SetInParent()
    for f in features:
        value = columns[f.name][row]
        slot = example.features.feature[f.name]
        kind = {"int64": slot.int64_list, "float32": slot.float_list, "bytes": slot.bytes_list}[f.dtype]
        kind.SetInParent()
        kind.value.extend(value.tolist())
    return example.SerializeToString(deterministic=True)


def frame(example: bytes) -> bytes:
    header = len(example).to_bytes(8, "little")
    return header + masked_crc(header).to_bytes(4, "little") + example + masked_crc(example).to_bytes(4, "little")


def assert_equals_protobuf(features, columns, count):
    data, lengths = encode_examples(features, columns)
    expected = [frame(protobuf(features, columns, row)) for row in range(count)]
    assert lengths.dtype == np.int64
    assert lengths.tolist() == [len(record) for record in expected]
    assert data == b"".join(expected)


@st.composite
def batches(draw):
    count = draw(st.integers(0, 5))
    names = draw(st.lists(st.text(max_size=6) | st.just("n" * 200), unique=True, max_size=5))
    # Protobuf's Python runtime sorts a name behind those that it begins; see example.py.
    names = [name for name in names if not any(other != name and other.startswith(name) for other in names)]
    features, columns = [], {}
    for name in names:
        dtype = draw(st.sampled_from(["int64", "float32", "bytes"]))
        feature = Feature(name, dtype, draw(st.integers(0, 4) | st.sampled_from([127, 300])))
        shape = (count, feature.width)
        if dtype == "float32":
            column = draw(hnp.arrays(np.float32, shape, elements=st.floats(width=32, allow_nan=True)))
        elif dtype == "bytes":
            flat = [draw(st.binary(max_size=3) | st.just(b"x" * 200)) for _ in range(min(count * feature.width, 20))]
            column = np.empty(shape, object)
            for at in range(column.size):
                column.flat[at] = flat[at % len(flat)]
        else:
            kind = draw(st.sampled_from([np.uint8, np.uint16, np.int32, np.int64, np.uint64]))
            high = min(np.iinfo(kind).max, draw(st.sampled_from([1, 127, 128, 16383, 16384, 2**21, 2**32, 2**63 - 1])))
            low = draw(st.sampled_from([0, 0, 0, -1])) if np.iinfo(kind).min < 0 else 0
            column = draw(hnp.arrays(kind, shape, elements=st.integers(low, high)))
        features.append(feature)
        columns[name] = column
    return features, columns, count


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(batches())
def test_any_batch(batch):
    features, columns, count = batch
    if not features:
        count = 0
    assert_equals_protobuf(features, columns, count)


@pytest.mark.parametrize("dtype", [np.uint16, np.int32, np.int64])
@pytest.mark.parametrize(("length", "predictions"), [(16, 3), (128, 20), (512, 77)])
def test_pretraining_layout(dtype, length, predictions):
    generator = np.random.default_rng(length)
    count = 300  # more than one tile
    real = np.arange(length) < generator.integers(3, length + 1, count)[:, None]
    columns = {
        "input_ids": np.where(real, generator.integers(2, 30000, real.shape), 0).astype(dtype),
        "input_mask": real.astype(np.uint8),
        "segment_ids": (real & (np.arange(length) > 5)).astype(np.uint8),
        "token_boundary": (real & (generator.random(real.shape) < 0.6)).astype(dtype),
        "masked_lm_positions": generator.integers(0, length, (count, predictions)).astype(dtype),
        "masked_lm_ids": generator.integers(0, 30000, (count, predictions)).astype(dtype),
        "masked_lm_weights": generator.integers(0, 2, (count, predictions)).astype(np.float32),
        "next_sentence_labels": generator.integers(0, 2, (count, 1)).astype(dtype),
    }
    features = pretraining_features(length, predictions)
    assert_equals_protobuf(features, columns, count)
    # Views that are not contiguous, and features in another order.
    turned = {name: np.asfortranarray(column)[::-2] for name, column in columns.items()}
    assert_equals_protobuf(features[::-1], turned, count // 2)


def test_odd_floats():
    odd = np.array([[0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38]], np.float32)
    features = [Feature("x", "float32", odd.shape[1])]
    assert_equals_protobuf(features, {"x": odd}, 1)
    assert_equals_protobuf(features, {"x": odd.astype(">f4")}, 1)


def test_the_file_is_tensorflows_own(tmp_path):
    columns = {"x": np.arange(2000).reshape(-1, 2)}
    features = [Feature("x", "int64", 2)]
    with tf.io.TFRecordWriter(str(tmp_path / "x")) as writer:
        for row in range(1000):
            writer.write(protobuf(features, columns, row))
    assert (tmp_path / "x").read_bytes() == encode_examples(features, columns)[0]
