"""Steps over rows of several examples: losses, gradients and weights are those of the same steps over one example a row."""

from dataclasses import replace

import keras
import numpy as np
import pytest

import nlpdata
from nlpdata.errors import UsageError
from pretrain.registry import ENGINES, TASKS
from tests.nlpdata.conftest import as_text, random_documents, tiny_model  # noqa: F401 (a fixture)
from tests.pretrain.finetuning import records, sentence_experiment
from tests.pretrain.runs import changed, experiment, tiny

pytestmark = pytest.mark.usefixtures("eagerly")


def steps_of(config, packed, count=2):
    """(statistics of each step, rows of each step, the weights after them) of a run from the first step."""
    config = changed(config, "task.train_data", pack_sequences=packed)
    task = TASKS.get(config.task_type)(config.task)
    data = task.build_inputs(config.task.train_data)
    engine = ENGINES.get(keras.backend.backend())(task, config, count)
    parts = engine.replicas * config.trainer.gradient_accumulation_steps
    data = data.for_host(*engine.host, engine.max_lengths, parts)
    found, rows = [], []
    for step in range(count):
        batch = data.batch(step)
        rows.append(len(batch["input_ids"]))
        statistics = engine.train_step(step, batch, task.denominators(batch))
        found.append({name: float(value) for name, value in statistics.items()})
    state = engine.state()
    validation = task.build_inputs(replace(config.task.validation_data, pack_sequences=packed)).for_host(
        *engine.host, engine.max_lengths
    )
    evaluation = None
    for step in range(min(3, validation.steps_per_epoch)):
        batch = validation.batch(step)
        statistics, outputs = engine.validation_step(batch)
        real = batch["is_real_example"].reshape(-1).astype(bool)
        outputs = {name: values[real] for name, values in outputs.items()}
        evaluation = task.aggregate_logs(evaluation, {name: float(v) for name, v in statistics.items()}, outputs)
    engine.close()
    return found, rows, state, task.reduce_aggregated_logs(evaluation)


def agree(config, of_scores=1e-6):
    (one, plain_rows, weights, scores), (other, rows, others, packed_scores) = (
        steps_of(config, p) for p in (False, True)
    )
    assert all(few < many for few, many in zip(rows, plain_rows, strict=True))
    for expected, found in zip(one, other, strict=True):
        assert found == pytest.approx(expected, rel=2e-5, abs=1e-6)
    assert packed_scores == pytest.approx(scores, rel=2e-5, abs=of_scores)
    for name, values in weights.items():
        np.testing.assert_allclose(others[name], values, rtol=1e-4, atol=2e-6, err_msg=name)


@pytest.fixture(scope="module")
def short_records(tmp_path_factory, tiny_model):  # noqa: F811
    """masking -> path of records of pairs of short sentences, with much padding."""
    folder = tmp_path_factory.mktemp("short")
    short = [[" ".join(sentence.split()[:1]) for sentence in document] for document in random_documents(100, seed=4)]
    (folder / "text.txt").write_text(as_text(short))
    for masking in ("static", "dynamic"):
        options = {"max_seq_length": 32, "workers": 1, "short_seq_prob": 1.0, "dupe_factor": 2, "accept_loss": True}
        nlpdata.create_pretraining(
            str(folder / "text.txt"), str(folder / masking), tiny_model, masking=masking, **options
        )
    return {masking: folder / f"{masking}.tfrecord" for masking in ("static", "dynamic")}


@pytest.mark.parametrize(
    ("encoder", "masking", "options"),
    [("albert", "static", {"trainer": {"gradient_accumulation_steps": 2}}),
     ("bert", "dynamic", {"task": {"use_next_sentence_label": False}})],
)  # fmt: skip
def test_pretraining(short_records, encoder, masking, options):
    path = short_records[masking]
    # Large epsilon: with Adam's own, a gradient that is 0 but for rounding moves a weight by a whole step.
    config = experiment(
        path,
        eval_path=path,
        encoder=tiny(encoder, dropout=0.0),
        optimizer={"epsilon": 1e-3},
        warmup_steps=0,
        **options,
    )
    agree(config)


@pytest.mark.parametrize(
    ("kind", "options"),
    [("classification", {"class_weights": [1.0, 2.0, 0.5]}), ("multilabel", {}), ("regression", {})],
)
def test_sentence_prediction(tmp_path, kind, options):
    path = records(tmp_path / "train.tfrecord", 70, kind)
    config = sentence_experiment(
        path,
        steps=2,
        encoder=tiny("bert", dropout=0.0),
        model={"use_encoder_pooler": kind != "multilabel"},
        **options,
    )
    optimizer = config.trainer.optimizer_config.optimizer
    optimizer = replace(optimizer, options=replace(optimizer.options, epsilon=1e-3))
    config = changed(
        config, "trainer", optimizer_config=replace(config.trainer.optimizer_config, optimizer=optimizer, warmup=None)
    )
    agree(config, 1e-3 if kind == "regression" else 1e-6)  # rounding may swap neighbours in Spearman's ranks


def test_an_encoder_that_cannot(short_records):
    config = experiment(
        short_records["static"], encoder=tiny("mobilebert", dropout=0.0, embedding_size=16, intra_bottleneck_size=16)
    )
    with pytest.raises(
        UsageError, match=r"MobileBertEncoder does not read rows of several examples\. Set pack_sequences to false"
    ):
        steps_of(config, True, 1)
