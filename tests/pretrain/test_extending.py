"""The task and the encoder in docs/extending.md, run as they stand there; and what stored names may lead to."""

import re
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from keras import ops

import pretrain
from nlpdata.errors import UsageError
from pretrain import export, predict
from pretrain.converters import native
from pretrain.encoders.model import build_encoder, new_model, weights_by_path
from pretrain.layers.classifier_head import ClassifierHead
from pretrain.registry import ENCODERS, TASKS, user_modules
from pretrain.settings.schema import ModelConfig
from tests.pages import WORDS
from tests.pretrain.models import batch, bert, randomize

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "extending.md"


class Context:
    """Steps of plain gradient descent with rate 1: what an engine gives to train_step, at its smallest."""

    def __init__(self, model):
        self.model = model

    def value_and_grad(self, function, batch, denominators):
        import tensorflow as tf

        with tf.GradientTape() as tape:
            loss, statistics = function(self.model, batch, denominators, training=False)
        variables = [weight.value for weight in self.model.trainable_variables]
        return (loss, statistics), [tf.convert_to_tensor(each) for each in tape.gradient(loss, variables)]

    def apply(self, gradients):
        for weight, gradient in zip(self.model.trainable_variables, gradients, strict=True):
            weight.assign_sub(gradient)


@pytest.fixture
def example():
    code = re.search(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.S).group(1)
    namespace = {"__name__": "my_task"}
    exec(compile(code, str(DOCUMENT), "exec"), namespace)
    return namespace


def test_the_documented_task_trains(example):
    config = example["WeightedConfig"](model=ModelConfig(bert()), later=0.5, variable_clip_norm=0.01)
    job = example["WeightedTask"](config)
    model = job.build_model()
    before = randomize(model)
    data = batch()
    denominators = job.denominators(data)
    weights = data["masked_lm_weights"] * np.array([1, 0.5, 0.25])
    assert denominators["masked_lm"] == pytest.approx(weights.sum())
    losses = []
    for _ in range(20):
        statistics = job.train_step(Context(model), data, denominators)
        losses.append(job.reduce_aggregated_logs(job.aggregate_logs(None, statistics))["loss"])
        if len(losses) == 1:
            after = {path: weight.numpy() for path, weight in weights_by_path(model).items()}
            steps = [np.linalg.norm(after[path] - value) for path, value in before.items()]
            assert max(steps) == pytest.approx(0.01, rel=1e-3)
    assert float(statistics["masked_lm_weight"]) == pytest.approx(weights.sum())
    assert losses[-1] < losses[0] - 0.1


@pytest.fixture
def own_encoder(tmp_path, monkeypatch):
    """The document's module my_encoder on the import path; afterwards it is forgotten."""
    code = re.search(r"```python\n((?:(?!```).)*class ScaledEncoder.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.S)
    (tmp_path / "my_encoder.py").write_text(code.group(1))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("my_encoder", None)
    ENCODERS._entries.pop("scaled", None)


def write_run(kind):
    """A run of the document's encoder, with a classifier; run2/vocab.txt and texts.txt beside it."""
    source = bert(vocab_size=len(WORDS))
    options = asdict(source.options) | {"scale": 0.25}
    head = ClassifierHead(hidden_size=options["hidden_size"], num_classes=2)
    arrays = {
        f"model/{path}": array
        for path, array in randomize(new_model(build_encoder(source), {"classifier": head}, 0)).items()
    }
    info = {"step": 1, "encoder": {"type": kind, "options": options}, "data": {"label_names": ["no", "yes"]}}
    native.write(Path("run2/checkpoints/step-00000001"), arrays, info)
    Path("run2/vocab.txt").write_text("\n".join(WORDS) + "\n")
    Path("texts.txt").write_text("w20 w30\nw40\n")


@pytest.mark.parametrize("kind", ["scaled", "my_encoder:ScaledEncoder"])
def test_the_documented_encoder_predicts_and_is_exported(own_encoder, kind, capsys):
    write_run(kind)
    commands = re.findall(r"^python -m pretrain\.(predict|export) (.*)$", DOCUMENT.read_text(encoding="utf-8"), re.M)
    assert [name for name, _ in commands] == ["predict", "export"]
    for name, line in commands:
        main = {"predict": predict.main, "export": export.main}[name]
        words = shlex.split(line)
        assert main(words[: words.index("--import_module")]) == 2
        said = capsys.readouterr().err
        assert "state.json: " in said
        assert "--import_module" in said
        assert "my_encoder" not in sys.modules
        assert main(words) == 0, capsys.readouterr().err
        with pytest.raises(UsageError, match="--import_module") if ":" in kind else user_modules(["my_encoder"]):
            pretrain.load("run2")  # named in the call before, not in this one
        ENCODERS._entries.pop("scaled", None)
        sys.modules.pop("my_encoder", None)
    scores = [line.split("\t") for line in Path("predictions.tsv").read_text().splitlines()]
    assert len(scores) == 3
    model = pretrain.load("run2", import_modules=["my_encoder"])
    ids = np.array([[2, WORDS.index("w20"), WORDS.index("w30"), 3]], np.int32)
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    logits = ops.convert_to_numpy(model(inputs)["logits"])[0]
    expected = np.exp(logits) / np.exp(logits).sum()
    assert [float(value) for value in scores[1][-2:]] == pytest.approx(expected, abs=1e-4)
    assert pretrain.load("exported", import_modules=["my_encoder"]).encoder.scale == 0.25


def test_formats_of_other_tools_refuse_a_users_encoder(own_encoder, capsys):
    write_run("my_encoder:ScaledEncoder")
    for format in ("hf", "tf1", "h5"):
        assert export.main(["run2", f"out-{format}", "--format", format, "--import_module", "my_encoder"]) == 2
        assert "native" in capsys.readouterr().err or format == "h5"


def test_a_stored_name_needs_its_module_named_in_this_call(own_encoder):
    stored = "my_encoder:ScaledEncoder"
    with pytest.raises(UsageError, match=r"--import_module my_encoder "):
        ENCODERS.check_stored(stored)
    with user_modules(["my_encoder,json"]), user_modules(["os"]):
        ENCODERS.check_stored(stored)
        ENCODERS.check_stored("scaled")  # what it registered
        with pytest.raises(UsageError, match=r"--import_module my_encoder\.inner "):
            ENCODERS.check_stored("my_encoder.inner:ScaledEncoder")
    with pytest.raises(UsageError):
        ENCODERS.check_stored(stored)
    with pytest.raises(UsageError, match="unknown task 'scaled'"):
        TASKS.check_stored("scaled")
    with (
        pytest.raises(UsageError, match=r"'no_such_module_x' cannot be imported: ModuleNotFoundError"),
        user_modules(["no_such_module_x"]),
    ):
        pass
