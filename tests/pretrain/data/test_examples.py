"""Examples of a user's own: equal batches from arrays, a generator and tf.data; what does not fit is refused."""

from dataclasses import replace

import numpy as np
import pytest

from nlpdata.errors import UsageError
from pretrain.data import Examples, example_digest, pretraining_batches
from pretrain.data.sentences import sentence_batches, sentence_data
from pretrain.settings.data_section import EvalTextDataConfig, TextDataConfig
from pretrain.settings.tree import with_layers
from tests.pretrain.finetuning import sentence_experiment
from tests.pretrain.runs import experiment

COUNT, LENGTH = 11, 16


def arrays(count=COUNT):
    draw = np.random.default_rng(0)
    lengths = draw.integers(4, LENGTH, count)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
    ids = draw.integers(5, 150, (count, LENGTH)).astype(np.int32) * mask
    return {"input_ids": ids, "input_mask": mask, "segment_ids": np.zeros_like(ids)}


LABELS = np.arange(COUNT, dtype=np.int32) % 3


def rows(labels=True):
    """Examples one after the other, as a generator gives them."""
    for row in range(COUNT):
        features = {name: values[row] for name, values in arrays().items()}
        yield (features, LABELS[row]) if labels else features


def dataset(batched):
    import tensorflow as tf

    source = tf.data.Dataset.from_tensor_slices((arrays(), LABELS))
    return source.batch(4) if batched else source


def from_arrays(config):
    return Examples(arrays(), LABELS, label_names=["a", "b", "c"], name="mine")


def from_generator(config):
    return ((features, label) for features, label in rows())


def from_pair(config):
    return arrays(), LABELS


def from_dict(config):
    return arrays() | {"labels": LABELS.tolist()}


def from_tensorflow(config):
    return dataset(batched=True)


def from_records_of_tensorflow(config):
    return dataset(batched=False)


def inverted(config):
    return arrays() | {"input_mask": 1 - arrays()["input_mask"], "label": LABELS}


def task(classes=3):
    return sentence_experiment("", model={"num_classes": classes}).task


def section(function, **fields):
    return TextDataConfig(input_function=f"{__name__}:{function}", global_batch_size=4, **fields)


@pytest.mark.parametrize(
    "function", [from_generator, from_pair, from_dict, from_tensorflow, from_records_of_tensorflow]
)
def test_every_form_gives_the_same_batches(function):
    expected, labels = sentence_batches(section("from_arrays"), task(None))
    assert (labels.kind, labels.names) == ("classification", ("a", "b", "c"))
    batches, found = sentence_batches(section(function.__name__), task())
    assert (found.kind, found.num_classes) == ("classification", 3)
    assert batches.num_examples == COUNT
    for step in range(2 * batches.steps_per_epoch):
        assert example_digest(batches.batch(step)) == example_digest(expected.batch(step))


def test_an_evaluation_sees_them_in_their_order():
    config = EvalTextDataConfig(input_function=f"{__name__}:from_pair", global_batch_size=4)
    batches, _ = sentence_batches(config, task())
    ids = np.concatenate([batches.batch(step)["input_ids"] for step in range(3)])[:COUNT]
    np.testing.assert_array_equal(ids, arrays()["input_ids"])
    np.testing.assert_array_equal(batches.batch(2)["is_real_example"], [1, 1, 1, 0])


def test_a_mask_that_is_1_on_padding():
    batch = sentence_batches(section("inverted", invert_mask=True), task())[0].batch(0)
    assert np.all(batch["input_mask"] == (batch["input_ids"] != 0))
    with pytest.raises(
        UsageError, match=r"inverted, example \d+: input_mask is not 1 on real tokens.*Set invert_mask to true"
    ):
        sentence_batches(section("inverted"), task())


@pytest.mark.parametrize(
    ("labels", "kind", "classes"),
    [
        (np.linspace(0, 5, COUNT), "regression", 1),
        (np.eye(3, dtype=int)[LABELS], "multilabel", 3),
        (LABELS, "classification", 3),
    ],
)
def test_labels_decide_what_is_learned(labels, kind, classes):
    names = [] if kind == "regression" else ["a", "b", "c"]
    data = sentence_data(TextDataConfig(global_batch_size=4), task(None), Examples(arrays(), labels, label_names=names))
    assert (data.labels.kind, data.labels.num_classes) == (kind, classes)


def test_pretraining_takes_them_too():
    config = experiment("x").task
    own = replace(config.train_data, input_path="", input_function=f"{__name__}:masked", global_batch_size=4)
    batch = pretraining_batches(own, config).batch(0)
    assert batch["masked_lm_positions"].shape == (4, 2)
    assert batch["masked_lm_weights"].dtype == np.float32


def masked(config):
    ones = np.ones((COUNT, 2), np.int64)
    return arrays() | {
        "masked_lm_positions": ones, "masked_lm_ids": ones * 7, "masked_lm_weights": ones.astype(np.float32),
        "next_sentence_labels": LABELS % 2,
    }  # fmt: skip


def endless(config):
    return dataset(batched=True).repeat()


def ragged(config):
    yield {"input_ids": [1, 2, 3], "label": 0}
    yield {"input_ids": [1, 2], "label": 0}


def texts(config):
    return {"input_ids": [["a", "b"]], "label": [0]}


def nothing(config):
    return iter(())


def number(config):
    return 7


def broken(config):
    raise KeyError("column")


def uneven(config):
    return arrays() | {"labels": LABELS[:5]}


def lists(config):
    return [[1, 2]]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("endless", r"the dataset repeats without end\. Leave \.repeat\(\) out"),
        ("ragged", r"part 1 has another input_ids than the first: 2 of int64, not 3 of int64"),
        ("texts", r"input_ids of part 0 holds <U1; expected numbers"),
        ("nothing", r"there are no examples"),
        ("number", r"expected a dict of arrays, a generator or a tf\.data\.Dataset\. Received: int"),
        ("lists", r"expected dicts of features, or pairs of one and labels\. Received: list"),
        ("broken", r"task\.train_data\.input_function: .*:broken fails: KeyError: 'column' \(.*test_examples\.py:\d+\)"),
        ("uneven", r"arrays of different numbers of examples: \{'input_ids': 11, .*'label_ids': 5\}"),
        ("absent", r"task\.train_data\.input_function: .*:absent fails: AttributeError"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(function, message):
    with pytest.raises(UsageError, match=message):
        sentence_batches(section(function), task())


def test_a_section_has_one_source():
    with pytest.raises(UsageError, match=r"input_path and task\.train_data\.input_function are two sources"):
        sentence_batches(section("from_pair", input_path="x.tfrecord"), task())
    base = sentence_experiment("below.tfrecord")
    layer = {"task": {"train_data": {"input_function": f"{__name__}:from_pair"}}}
    config = with_layers(base, [("a", layer)])
    assert (config.task.train_data.input_path, config.task.train_data.is_given) == ("", True)
    again = with_layers(config, [("b", {"task": {"train_data": {"tfds_name": "glue/sst2"}}})]).task.train_data
    assert (again.input_path, again.input_function, again.tfds_name) == ("", "", "glue/sst2")
    assert with_layers(config, [("c", {"task": {"train_data": {"seed": 3}}})]).task.train_data.input_function


def test_a_function_must_be_named_with_its_module():
    with pytest.raises(UsageError, match=r"input_function must be module:function\. Received: 'mine'"):
        sentence_batches(TextDataConfig(input_function="mine", global_batch_size=4), task())
