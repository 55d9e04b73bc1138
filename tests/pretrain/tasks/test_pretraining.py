"""The pretraining task's sums against numpy, its metrics, and what must count nowhere."""

import math

import numpy as np
import pytest
from keras import ops

from pretrain.layers.dropout import dropout_scope
from tests.messages import messages
from tests.pretrain.models import albert, batch, bert, randomize, task
from tests.pretrain.reference import Reference, softmax


def numbers(values):
    return {name: float(ops.convert_to_numpy(value)) for name, value in values.items()}


def expected_sums(encoder, weights, data):
    outputs = Reference(encoder.options, weights)(data)
    labels, w = data["masked_lm_ids"], data["masked_lm_weights"]
    probabilities = np.take_along_axis(softmax(outputs["mlm_logits"]), labels[..., None], -1)[..., 0]
    order = data["next_sentence_labels"]
    sentence = np.take_along_axis(softmax(outputs["sentence_logits"]), order, -1)
    pieces = outputs["mlm_logits"].argmax(-1)
    digits = range(encoder.options.vocab_size.bit_length())
    return {
        **{f"masked_lm_digit_{digit}": (w * (pieces >> digit & 1)).sum() for digit in digits},
        "masked_lm_loss": (w * -np.log(probabilities)).sum(),
        "masked_lm_correct": (w * (outputs["mlm_logits"].argmax(-1) == labels)).sum(),
        "masked_lm_weight": w.sum(),
        "next_sentence_loss": -np.log(sentence).sum(),
        "next_sentence_correct": (outputs["sentence_logits"].argmax(-1) == order[:, 0]).sum(),
        "next_sentence_weight": len(order),
        "next_sentence_seconds": outputs["sentence_logits"].argmax(-1).sum(),
    }


@pytest.mark.parametrize("encoder", [bert(), albert()], ids=["bert", "albert"])
def test_sums_equal_numpy(encoder):
    job = task(encoder)
    model = job.build_model()
    weights = randomize(model)
    data = batch()
    data["masked_lm_ids"][::2] = Reference(encoder.options, weights)(data)["mlm_logits"].argmax(-1)[::2]
    expected = expected_sums(encoder, weights, data)
    loss, statistics = job.loss(model, data, job.denominators(data), training=False)
    assert numbers(statistics) == pytest.approx(expected, rel=1e-4)
    assert 0 < expected["masked_lm_correct"] < expected["masked_lm_weight"]
    total = expected["masked_lm_loss"] / expected["masked_lm_weight"] + expected["next_sentence_loss"] / 5
    assert float(loss) == pytest.approx(total, rel=1e-4)


def test_one_answer_to_all_sentence_pairs_is_told_and_so_is_one_piece_in_all_masked_places():
    """Their accuracies are the share of one class, which look as if the model had learned something."""
    job = task(bert())
    model = job.build_model()
    randomize(model)
    ends = ("sentence_pair/logits/bias", "masked_lm/output_bias")
    bias, of_pieces = (next(each for each in model.weights if each.path.endswith(end)) for end in ends)
    data = batch(size=16)
    data["next_sentence_labels"] = np.arange(16, dtype=np.int32)[:, None] % 4 // 3  # a quarter is of class 1
    places = np.argwhere(data["masked_lm_weights"])
    data["masked_lm_ids"][tuple(places.T)] = np.where(np.arange(len(places)) % 5, 7, 11)  # a fifth is piece 11

    def told(towards, piece=None):
        bias.assign(np.array([0.0, towards], np.float32))
        of_pieces.assign(np.where(np.arange(of_pieces.shape[0]) == piece, 1e4, 0.0).astype(np.float32))
        state = None
        for _ in range(2):
            state = job.aggregate_logs(state, *job.validation_step(model, data))
        with messages() as said:
            job.reduce_aggregated_logs(state)
        return said

    (first,), (second,) = told(-1e4), told(1e4)
    assert "all 32 sentence pairs are given the same answer, which is right for 75% of them" in first
    assert "which is right for 25% of them: the model does not tell the pairs apart. If that stays" in second
    logits = ops.convert_to_numpy(model(data, training=False)["sentence_logits"])
    middle = float(np.median(logits[:, 0] - logits[:, 1])) + 1e4
    assert told(middle) == []
    (line,) = told(middle, 11)
    right = np.mean(np.arange(len(places)) % 5 == 0)
    assert (
        f"in all {2 * len(places)} masked places the same piece is predicted, that of id 11, which is right for {right:.0%}"
        in line
    )
    data["masked_lm_ids"][:] = 11
    assert told(middle, 11) == []  # there is nothing to tell apart


def test_examples_that_fill_a_batch_count_nowhere():
    job = task(bert())
    model = job.build_model()
    randomize(model)
    data = batch(size=6)
    padded = {name: np.concatenate([value[:4], value[:2]]) for name, value in data.items()}
    padded["is_real_example"] = np.array([[1], [1], [1], [1], [0], [0]], np.int32)
    four = {name: value[:4] for name, value in data.items()}
    assert job.denominators(padded) == job.denominators(four)
    expected, _ = job.validation_step(model, four)
    found, outputs = job.validation_step(model, padded)
    assert numbers(found) == pytest.approx(numbers(expected), rel=1e-5)
    assert outputs == {}


def test_parts_of_a_batch_add_up_to_the_whole():
    job = task(albert())
    model = job.build_model()
    randomize(model)
    data = batch(size=6)
    whole, _ = job.loss(model, data, job.denominators(data), training=False)
    parts = [{name: value[i : i + 2] for name, value in data.items()} for i in (0, 2, 4)]
    shares = [float(job.loss(model, part, job.denominators(data), training=False)[0]) for part in parts]
    assert sum(shares) == pytest.approx(float(whole), rel=1e-5)


def test_metrics_divide_once_over_all_steps():
    job = task(bert())
    state = None
    for correct, weight in ((1.0, 2.0), (6.0, 8.0)):
        state = job.aggregate_logs(
            state,
            {
                "masked_lm_loss": np.float32(weight * 3),
                "masked_lm_correct": correct,
                "masked_lm_weight": weight,
                "next_sentence_loss": 2.0,
                "next_sentence_correct": 1.0,
                "next_sentence_weight": 4.0,
            },
            {},
        )
    assert job.reduce_aggregated_logs(state) == {
        "loss": 3.5,
        "masked_lm_accuracy": 0.7,
        "masked_lm_loss": 3.0,
        "masked_lm_perplexity": pytest.approx(math.exp(3)),
        "next_sentence_accuracy": 0.25,
        "next_sentence_loss": 0.5,
    }


def test_without_sentence_labels():
    job = task(bert(), use_next_sentence_label=False)
    model = job.build_model()
    data = batch()
    del data["next_sentence_labels"]
    with dropout_scope(np.zeros(2, np.int32)):
        _, statistics = job.loss(model, data, job.denominators(data), training=True)
    assert set(statistics) == {"masked_lm_loss", "masked_lm_correct", "masked_lm_weight"}
    assert set(job.build_metrics()) == {"masked_lm_accuracy", "masked_lm_loss"}


def test_a_batch_without_predictions_is_finite():
    job = task(bert())
    model = job.build_model()
    data = batch()
    data["masked_lm_weights"] = np.zeros_like(data["masked_lm_weights"])
    loss, statistics = job.loss(model, data, job.denominators(data), training=False)
    assert np.isfinite(float(loss))
    assert float(statistics["masked_lm_loss"]) == 0
    assert job.reduce_aggregated_logs(numbers(statistics))["masked_lm_accuracy"] == 0
