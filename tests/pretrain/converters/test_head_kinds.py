"""What a classifier's logits mean, and its labels, survive every format and back."""

import json
from dataclasses import replace

import numpy as np
import pytest

from nlpdata.errors import DataError, UsageError
from pretrain.converters import read_checkpoint
from pretrain.converters.heads import head_of
from pretrain.converters.load import load_model
from pretrain.converters.write import write_checkpoint
from tests.pretrain.converters.heads import KINDS, classifier, edit
from tests.pretrain.converters.test_round_trips import make

# ------------------------------------------------------------------------------------------------------------- round trips


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("format", ["native", "hf", "tf1"])
def test_a_kind_survives_the_round_trip(format, kind, tmp_path):
    checkpoint = classifier(kind, seq_length=12)
    write_checkpoint(tmp_path / "out", checkpoint, format)
    again = read_checkpoint(str(tmp_path / "out"))
    assert again.head == checkpoint.head
    assert (again.head.kind, again.sequence_length) == (kind, 12)
    write_checkpoint(tmp_path / "back", again, "native")
    assert read_checkpoint(str(tmp_path / "back")).head == checkpoint.head


def test_questions_without_answers_survive_too(tmp_path):
    for format in ("hf", "tf1"):
        for may_be_none in (True, False):
            facts = {"kind": "squad", "version_2_with_negative": may_be_none, "seq_length": 12}
            folder = tmp_path / f"{format}{may_be_none}"
            write_checkpoint(folder, replace(make("bert", "span"), extras=facts), format)
            again = read_checkpoint(str(folder)).extras
            assert again["version_2_with_negative"] is may_be_none
            assert again["seq_length"] == 12


def _scores(kind, logits):
    if kind == "classification":
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)
    return 1 / (1 + np.exp(-logits))


@pytest.mark.slow
def test_saved_models_say_what_the_kind_means(tmp_path):
    """Softmax, sigmoid or the number itself; and they are read again with kind and names."""
    import tensorflow as tf

    ids = tf.constant([[2, 7, 8, 3], [2, 9, 3, 0]])
    inputs = {"input_ids": ids, "input_mask": tf.minimum(ids, 1), "segment_ids": tf.zeros_like(ids)}
    for kind in KINDS:
        checkpoint = classifier(kind, "bert thin", seq_length=12)
        write_checkpoint(tmp_path / kind, checkpoint, "savedmodel")
        again = read_checkpoint(str(tmp_path / kind))
        assert (again.head, again.sequence_length) == (checkpoint.head, 12)
        outputs = tf.saved_model.load(str(tmp_path / kind)).signatures["serving_default"](**inputs)
        logits = np.asarray(load_model(checkpoint)({name: value.numpy() for name, value in inputs.items()})["logits"])
        np.testing.assert_allclose(outputs["logits"], logits, atol=1e-5)
        if kind == "regression":
            assert "probabilities" not in outputs
            np.testing.assert_allclose(outputs["prediction"], logits[:, 0], atol=1e-5)
            continue
        np.testing.assert_allclose(outputs["probabilities"], _scores(kind, logits), atol=1e-5)
        named = [KINDS[kind][i].encode() for i in logits.argmax(axis=1)]
        assert kind == "multilabel" or outputs["prediction"].numpy().tolist() == named


@pytest.mark.slow
def test_a_module_for_keras_layer(tmp_path):
    """Called as hub.KerasLayer does: the head's logits are there, training=True drops, and gradients are those of the model."""
    import tensorflow as tf

    checkpoint = classifier("multilabel", "bert thin")
    write_checkpoint(tmp_path / "hub", checkpoint, "hub")
    again = read_checkpoint(str(tmp_path / "hub"))
    assert again.head == checkpoint.head
    loaded = tf.saved_model.load(str(tmp_path / "hub"))
    ids = np.array([[2, 7, 8, 3], [2, 9, 3, 0]], np.int32)
    ours = {"input_ids": ids, "input_mask": np.minimum(ids, 1), "segment_ids": np.zeros_like(ids)}
    theirs = {"input_word_ids": ids, "input_mask": np.minimum(ids, 1), "input_type_ids": np.zeros_like(ids)}
    inputs = {name: tf.constant(value) for name, value in theirs.items()}
    model = load_model(checkpoint)
    outputs, wanted = loaded(inputs, training=False), model(ours)
    assert outputs.keys() == {"sequence_output", "pooled_output", "encoder_outputs", "default", "logits"}
    for name, value in wanted.items():
        np.testing.assert_allclose(outputs[name], np.asarray(value), atol=1e-5)
    np.testing.assert_array_equal(loaded(inputs)["logits"], outputs["logits"])
    first, second = (loaded(inputs, training=True)["sequence_output"].numpy() for _ in range(2))
    assert np.abs(first - second).max() > 0.1
    assert np.abs(first - outputs["sequence_output"]).max() > 0.1

    def gradients(call, weights):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(call()["logits"] ** 2)
        return tape.gradient(loss, weights)

    dropped = gradients(lambda: loaded(inputs, training=True), loaded.trainable_variables)
    assert len(dropped) == len(checkpoint.weights)
    assert all(gradient is not None for gradient in dropped)
    found = gradients(lambda: loaded(inputs), loaded.trainable_variables)
    expected = gradients(lambda: model(ours), [weight.value for weight in model.weights])
    for weight, one, other in zip(model.weights, found, expected, strict=True):
        np.testing.assert_allclose(*map(tf.convert_to_tensor, (one, other)), rtol=1e-4, atol=1e-4, err_msg=weight.path)


def test_a_model_without_pooler_does_not_pretend(tmp_path):
    """What reads pooled_output is refused."""
    for encoder, format, message in (("bert", "hub", "promises pooled_output"), ("albert", "h5", "has no pooler")):
        checkpoint = make(encoder, "encoder")
        weights = {path: array for path, array in checkpoint.weights.items() if "pooler" not in path}
        with pytest.raises(UsageError, match=message):
            write_checkpoint(tmp_path / format, replace(checkpoint, weights=weights), format)
        assert not (tmp_path / format).exists()


def test_a_format_of_all_heads_does_not_drop_one(tmp_path):
    checkpoint = make("albert", "pretraining")
    weights = {path: array for path, array in checkpoint.weights.items() if head_of(path) != "sentence_pair"}
    with pytest.raises(UsageError, match="has the heads masked_lm; a file of format h5 has both"):
        write_checkpoint(tmp_path / "h5", replace(checkpoint, weights=weights), "h5")


def test_fields_of_transformers(tmp_path):
    problems = {
        "classification": ("single_label_classification", {"0": "no", "1": "maybe", "2": "yes"}),
        "multilabel": ("multi_label_classification", {"0": "a", "1": "b", "2": "c"}),
        "regression": ("regression", {"0": "LABEL_0"}),
    }
    for kind, (problem, labels) in problems.items():
        write_checkpoint(tmp_path / kind, classifier(kind), "hf")
        fields = json.loads((tmp_path / kind / "config.json").read_text())
        assert fields["architectures"] == ["BertForSequenceClassification"]
        assert (fields["problem_type"], fields["id2label"]) == (problem, labels)
        assert fields["label2id"] == {name: int(id) for id, name in labels.items()}
        assert fields["num_labels"] == len(labels)


def test_a_sidecar_that_is_not_ours(tmp_path):
    write_checkpoint(tmp_path / "out", classifier("multilabel"), "tf1")
    for content, message in (
        ('{"kind": 3}', "kind must be a word"),
        ('{"kind": "tagging"}', "its kind is 'tagging'. Expected one of classification, regression, multilabel"),
        ('{"label_names": "abc"}', "label_names must be a list of names"),
        ('{"label_names": ["a", "b"]}', r"label_names has 2 names \(a, b\), the classifier 3 rows"),
        ('{"label_names": ["a", "b", "a"]}', "two classes are called 'a'"),
        ('{"start_n_top": 0}', "start_n_top must be a whole number from 1 to 256. Received: 0"),
        ('{"seq_length": -1}', "seq_length must be a whole number above 0"),
        ("[]", "expected a JSON object"),
    ):
        (tmp_path / "out" / "nlpdata.json").write_text(content)
        with pytest.raises(DataError, match=message):
            read_checkpoint(str(tmp_path / "out"))


def test_names_that_our_own_checkpoint_contradicts(tmp_path):
    write_checkpoint(tmp_path / "out", classifier("classification", names=["a", "b"]), "native")
    with pytest.raises(DataError, match=r"label_names has 2 names \(a, b\), the classifier 3 rows"):
        read_checkpoint(str(tmp_path / "out"))


# ---------------------------------------------------------------------------------------------------------------- labels

LABELS = {  # change of config.json -> part of the message
    "two names": ({"id2label": {"0": "a", "1": "b"}, "label2id": ...}, "id2label has 2 names, the classifier .* 3 rows"),
    "four names": ({"id2label": dict(zip("0123", "abcd", strict=True))}, "id2label has 4 names, the classifier .* 3 rows"),
    "a gap": ({"id2label": {"0": "a", "1": "b", "3": "c"}, "label2id": ...}, "ids of the labels must be 0 to 2"),
    "twice": ({"id2label": {"0": "a", "1": "b", "2": "a"}, "label2id": ...}, "calls two classes 'a'"),
    "swapped": ({"label2id": {"no": 0, "maybe": 2, "yes": 1}}, "label2id contradicts id2label, e.g. in id 1, 'maybe'"),
    "one less": ({"label2id": {"no": 0, "maybe": 1}}, "label2id contradicts id2label, e.g. in id 2, 'yes'"),
    "number": ({"num_labels": 2}, "num_labels is 2, the classifier .* has 3 rows"),
    "number alone": ({"num_labels": 4, "id2label": ..., "label2id": ...}, "num_labels is 4, .* has 3 rows"),
    "a list": ({"id2label": ["a", "b", "c"]}, "id2label must give a name to each id"),
    "words as ids": ({"id2label": {"x": "a", "y": "b", "z": "c"}}, "id2label must give a name to each id"),
    "names of a list": ({"id2label": {"0": ["a"], "1": "b", "2": "c"}}, "id2label must give a name to each id"),
    "ids in words": ({"label2id": {"no": "zero"}}, "label2id must give an id to each name"),
    "problem": ({"problem_type": "tagging"}, "problem_type must be one of single_label_classification, .*'tagging'"),
    "architectures": ({"architectures": "BertForSequenceClassification"}, "architectures must be a list of names"),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A classifier of three classes in Hugging Face's format."""
    place = tmp_path_factory.mktemp("labels") / "hf"
    write_checkpoint(place, classifier("classification"), "hf")
    return place


def changed(folder, target, **fields):
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    edit(target, **fields)
    return target


@pytest.mark.parametrize("case", LABELS)
def test_labels_that_contradict_each_other_or_the_weights(case, folder, tmp_path):
    fields, message = LABELS[case]
    with pytest.raises(DataError, match=rf"config\.json: .*{message}"):
        read_checkpoint(str(changed(folder, tmp_path / "hf", **fields)))


def test_labels_as_transformers_leaves_them(folder, tmp_path):
    filler = {f"LABEL_{i}": i for i in range(2)}
    for number, (fields, names) in enumerate(
        (
            ({"label2id": filler}, ["no", "maybe", "yes"]),  # left from before id2label was set
            ({"id2label": ..., "num_labels": ...}, ["no", "maybe", "yes"]),
            ({"label2id": ..., "num_labels": ...}, ["no", "maybe", "yes"]),
            ({"id2label": {str(i): f"LABEL_{i}" for i in range(3)}, "label2id": ...}, None),
            ({"id2label": ..., "label2id": ...}, None),
        )
    ):
        again = read_checkpoint(str(changed(folder, tmp_path / str(number), **fields)))
        assert again.extras.get("label_names") == names
        assert again.head.names == tuple(names or "012")


def test_kinds_where_no_problem_type_says_them(folder, tmp_path):
    assert read_checkpoint(str(changed(folder, tmp_path / "a", problem_type=None))).head.kind == "classification"
    write_checkpoint(tmp_path / "one", classifier("regression"), "hf")
    edit(tmp_path / "one", problem_type=...)
    assert read_checkpoint(str(tmp_path / "one")).head.kind == "regression"
    several = read_checkpoint(str(changed(folder, tmp_path / "b", problem_type="regression")))
    assert several.head is None
    assert several.left_out == {"classifier": "a regression of 3 numbers: our heads have one"}
