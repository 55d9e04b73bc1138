"""The parts in docs/extending.md, run as they are printed; and what stored names may lead to."""

import json
import re
import shlex
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from keras import ops

import pretrain
from nlpdata.cli import commands
from nlpdata.errors import UsageError
from nlpdata.registry import Registry, user_modules
from pretrain import convert, export, predict, run
from pretrain.converters import native, read_checkpoint
from pretrain.encoders.model import build_encoder, new_model, weights_by_path
from pretrain.encoders.model_config import read_model_config
from pretrain.layers.classifier_head import ClassifierHead
from pretrain.registry import ATTENTIONS, CHECKPOINT_FORMATS, ENCODERS, FEED_FORWARDS, TASKS
from pretrain.settings.fields import Choice
from pretrain.settings.schema import ModelConfig
from tests.pages import WORDS
from tests.pretrain.models import batch, bert, randomize, to_numpy

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
    config = example["WeightedConfig"](model=ModelConfig(bert(num_hidden_layers=1)), later=0.5, variable_clip_norm=0.01)
    job = example["WeightedTask"](config)
    model = job.build_model()
    before = randomize(model)
    data = batch()
    denominators = job.denominators(data)
    weights = data["masked_lm_weights"] * np.array([1, 0.5, 0.25])
    assert denominators["masked_lm"] == pytest.approx(weights.sum())
    losses = []
    for _ in range(10):
        statistics = job.train_step(Context(model), data, denominators)
        losses.append(job.reduce_aggregated_logs(job.aggregate_logs(None, statistics))["loss"])
        if len(losses) == 1:
            after = {path: weight.numpy() for path, weight in weights_by_path(model).items()}
            steps = [np.linalg.norm(after[path] - value) for path, value in before.items()]
            assert max(steps) == pytest.approx(0.01, rel=1e-3)
    assert float(statistics["masked_lm_weight"]) == pytest.approx(weights.sum())
    assert losses[-1] < losses[0] - 0.05


def blocks(language: str, words: str) -> list[str]:
    """The document's code blocks of a language that hold `words`."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.S | re.M)
    return [code for kind, code in found if kind == language and words in code]


def run_documented(words: str, capsys) -> str:
    """Runs the commands of the block that holds `words` in the working directory; what the last one printed on both streams."""
    (block,) = blocks("", words)
    mains = {
        "run": run.main,
        "predict": predict.main,
        "export": export.main,
        "convert": convert.main,
        "nlpdata": commands.main,
    }
    for line in block.splitlines():
        name, *argv = shlex.split(line.removeprefix("pretrain "))
        main = mains[name]
        code = main(argv)
        said = capsys.readouterr()
        assert code == 0, said.err
    return said.out + said.err


@pytest.fixture
def own_modules(tmp_path, monkeypatch):
    """The document's modules my_encoder and my_format on the import path; afterwards they are forgotten."""
    for name, words in (("my_encoder", "class ScaledEncoder"), ("my_format", "class NumpyFormat")):
        (code,) = blocks("python", words)
        (tmp_path / f"{name}.py").write_text(code)
    (model,) = blocks("json", "scale")
    (tmp_path / "my_model.json").write_text(model)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for registry in (ENCODERS, CHECKPOINT_FORMATS):
        monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    yield
    forget()


def forget():
    """As if the modules had never been imported."""
    for name in ("my_encoder", "my_format"):
        sys.modules.pop(name, None)
    ENCODERS._entries.pop("scaled", None)
    CHECKPOINT_FORMATS._entries.pop("numpy", None)


def write_run(kind, folder="finetuned"):
    """A run of the document's encoder, with a classifier and a vocabulary; texts.txt next to it."""
    source = bert(vocab_size=len(WORDS))
    options = asdict(source.options) | ({"scale": 0.25} if "caled" in kind else {})
    head = ClassifierHead(hidden_size=options["hidden_size"], num_classes=2)
    arrays = {
        f"model/{path}": array
        for path, array in randomize(new_model(build_encoder(source), {"classifier": head}, 0)).items()
    }
    info = {"step": 1, "encoder": {"type": kind, "options": options}, "data": {"label_names": ["no", "yes"]}}
    native.write(Path(folder, "checkpoints", "step-00000001"), arrays, info)
    Path(folder, "vocab.txt").write_text("\n".join(WORDS) + "\n")
    Path("texts.txt").write_text("w20 w30\nw40\n")


def weights_of(place, *modules):
    return read_checkpoint(place, import_modules=modules).weights


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_the_documented_encoder_and_format_from_a_file_to_other_tools(own_modules, capsys):
    """Trained some steps, exported and read again in every form that it declares, bit for bit."""
    run_documented("--model_config=my_model.json", capsys)
    trained = weights_of("run2", "my_encoder")
    start = native.read_info(native.locate("run2"))
    assert (start["step"], start["encoder"]["type"], start["encoder"]["options"]["scale"]) == (4, "scaled", 0.25)
    before = weights_by_path(
        new_model(build_encoder(Choice("scaled", read_model_config("my_model.json").options)), {}, 12345)
    )
    moved = [np.abs(trained[path] - weight.numpy()).max() for path, weight in before.items()]
    assert min(moved) > 0
    config = json.loads(Path("out/hf/config.json").read_text())
    assert (config["model_type"], config["architectures"], config["scale"]) == (
        "scaled-bert",
        ["ScaledForPreTraining"],
        0.25,
    )
    assert json.loads(Path("out/tf1/bert_config.json").read_text())["scale"] == 0.25
    for name in ("hf", "tf1"):
        again = read_checkpoint(f"out/{name}")
        assert (again.format, again.encoder.type, again.encoder.options.scale) == (name, "scaled", 0.25)
        assert again.weights.keys() == trained.keys()
        for path, array in trained.items():
            np.testing.assert_array_equal(again.weights[path], array)
    forget()
    with pytest.raises(UsageError, match="model_type 'scaled-bert' is not supported"):
        read_checkpoint("out/hf")
    with pytest.raises(UsageError, match="--import_module"):
        read_checkpoint("run2")


def test_the_documented_format_is_read_and_written(own_modules, capsys):
    write_run("bert", "run2")
    Path("run2/vocab.txt").rename("run2/checkpoints/step-00000001/vocab.txt")
    said = run_documented("--format numpy", capsys)
    assert "out/numpy (numpy): " in said
    assert Path("out/numpy/vocab.txt").is_file()
    again = read_checkpoint("out/back")
    assert again.extras["label_names"] == ["no", "yes"]
    for path, array in weights_of("run2").items():
        np.testing.assert_array_equal(again.weights[path], array)
        np.testing.assert_array_equal(weights_of("out/numpy", "my_format")[path], array)
    forget()
    assert convert.main(["out/numpy", "out/more", "--format", "native"]) == 2
    assert "out/numpy: no checkpoint in this folder" in capsys.readouterr().err


@pytest.mark.parametrize(("kind", "format"), [("scaled", "savedmodel"), ("my_encoder:ScaledEncoder", "native")])
def test_the_documented_encoder_predicts_and_is_exported(own_modules, kind, format, capsys):
    write_run(kind)
    (line,) = [line for block in blocks("", "pretrain predict") for line in block.splitlines()]
    exported = f"pretrain export finetuned exported --format {format} --import_module my_encoder"
    for main, words in ((predict.main, shlex.split(line)[2:]), (export.main, shlex.split(exported)[2:])):
        assert main(words[: words.index("--import_module")]) == 2
        said = capsys.readouterr().err
        assert "state.json: " in said
        assert "--import_module" in said
        assert "my_encoder" not in sys.modules
        assert main(words) == 0, capsys.readouterr().err
        with pytest.raises(UsageError, match="--import_module") if ":" in kind else user_modules(["my_encoder"]):
            pretrain.load("finetuned")  # named in the call before, not in this one
        forget()
    scores = [line.split("\t") for line in Path("predictions.tsv").read_text().splitlines()]
    assert len(scores) == 3
    model = pretrain.load("finetuned", import_modules=["my_encoder"])
    ids = np.array([[2, WORDS.index("w20"), WORDS.index("w30"), 3]], np.int32)
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    logits = ops.convert_to_numpy(model(inputs)["logits"])[0]
    expected = np.exp(logits) / np.exp(logits).sum()
    assert [float(value) for value in scores[1][-2:]] == pytest.approx(expected, abs=1e-4)
    assert pretrain.load("exported", import_modules=["my_encoder"]).encoder.scale == 0.25


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_the_documented_objective_is_learned_with_the_head_of_its_labels(tmp_path, monkeypatch, capsys):
    (code,) = blocks("python", "class SentenceGap")
    (tmp_path / "my_objective.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for folder in ("data", "tok"):
        (tmp_path / folder).mkdir()
    documents = ["\n".join(f"w{5 + (i + 7 * j) % 190} w{5 + j % 190} w40" for j in range(9)) for i in range(60)]
    Path("data/a.txt").write_text("\n\n".join(documents) + "\n")
    Path("tok/vocab.txt").write_text("\n".join(WORDS) + "\n")
    (block,) = blocks("", "my_objective:SentenceGap")
    monkeypatch.setattr(sys.modules[__name__], "blocks", lambda *_: [block.replace("tok/spm.model", "tok/vocab.txt")])
    run_documented("", capsys)
    lines = [json.loads(line) for line in Path("run3/metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 4
    assert all(np.isfinite(line["next_sentence_loss"]) for line in lines)


def test_formats_of_other_tools_refuse_an_encoder_that_declares_no_form(own_modules, capsys):
    code = Path("my_encoder.py").read_text()
    Path("my_encoder.py").write_text(re.sub(r"    published: .*?\n    \)\n", "", code, flags=re.S))
    write_run("my_encoder:ScaledEncoder")
    for format, words in (
        ("hf", "native, savedmodel, hub"),
        ("tf1", "native, savedmodel, hub"),
        ("h5", "one shared layer"),
    ):
        assert export.main(["finetuned", f"out-{format}", "--format", format, "--import_module", "my_encoder"]) == 2
        assert words in capsys.readouterr().err


def test_a_stored_name_needs_its_module_named_in_this_call(own_modules):
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


def write_module(name, words, folder, monkeypatch):
    """A module of the document, on the import path; afterwards it is forgotten, and what it registered."""
    (code,) = blocks("python", words)
    (folder / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(sys.modules, name, None)
    del sys.modules[name]
    for registry in vars(pretrain.registry).values():
        if isinstance(registry, Registry):
            monkeypatch.setattr(registry, "_entries", dict(registry._entries))


@pytest.mark.slow
def test_the_documented_examples_are_learned_and_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_module("my_data", "def examples(config)", tmp_path, monkeypatch)
    write_module("my_inputs", "class OwnInputs", tmp_path, monkeypatch)
    sizes = {
        name: value
        for name, value in asdict(bert(vocab_size=200, num_hidden_layers=1).options).items()
        if "dropout" not in name
    }
    Path("my_sizes.json").write_text(json.dumps(sizes))
    run_documented("my_data:examples", capsys)
    results = json.loads(Path("run4/eval_results.json").read_text())
    assert results["accuracy"] > 0.95
    assert {"f1", "matthews_corrcoef"} <= results.keys()
    assert native.read_info(native.locate("run4"))["data"]["label_names"] == ["forty", "forty-one"]

    import my_inputs

    config = pretrain.experiment("bert/sentence_prediction")
    job = my_inputs.OwnInputs(config.task)
    batch = job.build_inputs(config.task.train_data).batch(0)
    assert batch["input_ids"].shape == (32, 4)
    np.testing.assert_array_equal(batch["label_ids"], batch["input_ids"][:, 2] - 40)
    assert set(batch["label_ids"].tolist()) == {0, 1}


def lines_of(model_dir, split="train"):
    found = [json.loads(line) for line in Path(model_dir, "metrics.jsonl").read_text().splitlines()]
    return [line for line in found if line["split"] == split]


def tagged(seed, count):
    """Ids (count, 8) padded with 0, and tags that follow from them."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(5, 50, (count, 8)) * (np.arange(8) < draw.integers(4, 9, count)[:, None])
    return {"input_ids": ids, "tag_ids": np.where(ids % 5 == 0, 2, ids % 2) * (ids > 0)}


@pytest.mark.slow
def test_the_documented_task_from_data_to_metrics(tmp_path, monkeypatch, capsys):
    """On TensorFlow, and in the process on JAX (test_on_jax)."""
    monkeypatch.chdir(tmp_path)
    write_module("my_tagging", "class TaggingTask", tmp_path, monkeypatch)
    np.savez("train.npz", **tagged(0, 160))
    np.savez("dev.npz", **tagged(1, 41))  # the last batch of an evaluation is filled up
    run_documented("words/tagging", capsys)
    evaluations = lines_of("run5", "eval")
    assert [line["step"] for line in evaluations] == [20, 40]
    assert evaluations[-1]["examples"] == 41
    assert evaluations[-1]["macro_f1"] > 0.95
    assert all(line["gradient_norm"] > 0 for line in lines_of("run5"))

    import my_tagging

    job = my_tagging.TaggingTask(my_tagging.words_tagging().task)
    assert type(job.config.validation_data) is my_tagging.EvalTagDataConfig
    job.build_inputs(job.config.train_data)
    model = job.build_model()
    job.initialize(model)
    bias = to_numpy(model.heads["tags"].logits.bias)
    np.testing.assert_allclose(np.exp(bias), job.frequencies / (160 * 8 + 3), rtol=1e-5)
    batch = job.build_inputs(job.config.validation_data).batch(2)
    sums, statistics = job.losses(model, batch, training=False)
    logits = ops.convert_to_numpy(model(batch)["tag_logits"]).astype(np.float64)
    words = (batch["input_ids"] > 0) * batch["is_real_example"][:, None]
    each = np.log(np.exp(logits).sum(-1)) - np.take_along_axis(logits, batch["tag_ids"][..., None], -1)[..., 0]
    assert float(sums["tag"]) == pytest.approx((each * words).sum(), rel=1e-5)
    assert (
        float(statistics["words"]) == float(job.denominators(batch)["tag"]) == words.sum() < batch["input_mask"].sum()
    )
    assert float(statistics["correct"]) == ((logits.argmax(-1) == batch["tag_ids"]) * words).sum()


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def test_the_documented_layers_equal_numpy(tmp_path, monkeypatch):
    """On TensorFlow, and in the process on JAX (test_on_jax)."""
    write_module("my_layers", "class AddedTalk", tmp_path, monkeypatch)
    import my_layers

    from pretrain.encoders.base import attention_mask_adder

    draw = np.random.default_rng(0)
    x, mask = draw.normal(size=(2, 6, 8)).astype(np.float32), np.array([[1] * 6, [1] * 4 + [0] * 2])
    sizes = {"hidden_size": 8, "hidden_dropout_prob": 0.0, "layer_norm_eps": 1e-12}

    def computed(layer, *arguments):
        layer.build()
        weights = {}
        for weight in layer.weights:
            weights[weight.path.partition("/")[2]] = value = draw.normal(size=weight.shape).astype(np.float32)
            weight.assign(value)
        return (
            ops.convert_to_numpy(layer(x, *arguments)),
            lambda x, name: x @ weights[f"{name}/kernel"] + weights[f"{name}/bias"],
            weights,
        )

    def normed(x, weights):
        x = (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True)
        return x * weights["layer_norm/gamma"] + weights["layer_norm/beta"]

    layer = my_layers.AddedTalk(num_attention_heads=2, attention_probs_dropout_prob=0.0, **sizes)
    found, dense, weights = computed(layer, attention_mask_adder(mask))
    query, key, value = (dense(x, name).reshape(2, 6, 2, 4) for name in ("query", "key", "value"))
    scores = np.einsum("bqhw,bkhw->bhqk", query, key) / 2
    scores = scores + np.einsum("bhqk,hg->bgqk", scores, weights["of_scores"])
    probs = softmax(np.where(mask[:, None, None] == 1, scores, -np.inf))
    probs = probs + np.einsum("bhqk,hg->bgqk", probs, weights["of_probs"])
    context = np.einsum("bhqk,bkhw->bqhw", probs, value).reshape(x.shape)
    np.testing.assert_allclose(found, normed(x + dense(context, "output"), weights), atol=1e-4)

    layer = my_layers.HalfOpen(intermediate_size=12, hidden_act="relu", **sizes)
    found, dense, weights = computed(layer)
    inner = np.maximum(dense(x, "intermediate"), 0) * 2 / (1 + np.exp(-dense(x, "gate")))
    np.testing.assert_allclose(found, normed(x + dense(inner, "output"), weights), atol=1e-4)


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_the_documented_layers_train_resume_and_are_exported(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_module("my_layers", "class AddedTalk", tmp_path, monkeypatch)
    (sizes,) = blocks("yaml", "talking_gated")
    Path("talking_gated.yaml").write_text(sizes)
    run_documented("--config_file=talking_gated.yaml", capsys)
    assert lines_of("run7")[-1]["step"] == 6
    info = native.read_info(native.locate("run7"))
    assert info["encoder"]["options"]["attention"] == "added_talk"
    weights = weights_of("run7", "my_layers")
    own = {path: array for path, array in weights.items() if "layer_0" in path and ("/of_" in path or "/gate/" in path)}
    assert len(own) == 4
    exported = weights_of("out/talking", "my_layers")
    for path, array in own.items():
        np.testing.assert_array_equal(exported[path], array)
    for format in ("hf", "tf1", "h5"):
        assert export.main(["run7", f"out-{format}", "--format", format, "--import_module", "my_layers"]) == 2
    sys.modules.pop("my_layers")
    for registry, name in ((ENCODERS, "talking_gated"), (ATTENTIONS, "added_talk"), (FEED_FORWARDS, "half_open")):
        del registry._entries[name]
    with pytest.raises(UsageError, match="--import_module"):
        read_checkpoint("run7")


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_short_names_of_every_part_on_the_command_line(tmp_path, monkeypatch, capsys):
    """Task, optimizer, learning rate, trainer and format, registered by modules that --import_module names."""
    monkeypatch.chdir(tmp_path)
    for name, words in (
        ("my_task", "class WeightedTask"),
        ("my_optimizer", "class Lion"),
        ("my_trainer", "class StopAtTarget"),
        ("my_format", "class NumpyFormat"),
    ):
        write_module(name, words, tmp_path, monkeypatch)
    with Path("my_task.py").open("a") as file:
        file.write("\nfrom pretrain.registry import TASKS\nTASKS.register('weighted_lm', 'my_task:WeightedTask')\n")
    with Path("my_trainer.py").open("a") as file:
        file.write("\nStopAtTarget.target = 100.0  # of any evaluation\n")
    (command,) = [line for block in blocks("", "--optimizer=lion") for line in block.splitlines()]
    more = (
        "--mode=train_and_eval --import_module=my_task,my_trainer --import_module=my_format --export_formats=numpy "
        "--params_override=task_type=weighted_lm,task.later=0.25,trainer.type=until_target,trainer.validation_interval=3,"
        "trainer.summary_interval=1,trainer.steps_per_loop=1,task.validation_data.global_batch_size=64,"
        "trainer.validation_steps=1"
    )
    argv = shlex.split(command)[2:] + shlex.split(more)
    assert run.main(argv) == 0, capsys.readouterr().err
    train = lines_of("run6")
    assert [line["learning_rate"] for line in train] == pytest.approx([1e-4, 1e-4, 5e-5])
    assert [line["step"] for line in train] == [1, 2, 3]  # the trainer's target
    info = native.read_info(native.locate("run6"))
    assert (info["config"]["task_type"], info["config"]["task"]["later"]) == ("weighted_lm", 0.25)
    assert "lion" in "".join(native.read_arrays(native.locate("run6")))
    for command in (["--print_config"], ["--mode=eval"]):
        assert run.main([*argv, *command]) == 0, capsys.readouterr().err
