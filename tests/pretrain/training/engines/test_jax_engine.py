"""The engine on JAX against the one on TensorFlow, each in its own processes: curves, checkpoints, hosts, and no TensorFlow."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from keras import ops

from pretrain.converters import native
from pretrain.data import example_digest, pretraining_batches
from pretrain.tasks.pretraining import PretrainingTask
from pretrain.training.trainer import Trainer
from tests import warm_python
from tests.pages import lines_of_libraries, plain_environment
from tests.ports import free_ports
from tests.pretrain.conftest import without_graphs
from tests.pretrain.finetuning import records, sentence_experiment, squad_records
from tests.pretrain.runs import ROOT, changed, curve, experiment, finish, lines, max_difference, process, run, tiny
from tests.pretrain.training.test_resume import wait_for_step

pytest.importorskip("jax")
pytestmark = pytest.mark.slow

STEPS, OWN_STEPS = 30, 4


class ClippedTask(PretrainingTask):
    """A train_step of a user's: every gradient is clipped for itself, then all of them by the engine."""

    def train_step(self, context, batch, denominators):
        (_, statistics), gradients = context.value_and_grad(self.loss, batch, denominators)
        context.apply([ops.clip(gradient, -0.01, 0.01) for gradient in gradients])
        return statistics


class Hurried(Trainer):
    """The second host alone has no time left in the eighth step."""

    def take_step(self, step, prepared):
        if step == 7 and self.engine.host[0] == 1:
            self.budget.note("loop", 3600.0)
        return super().take_step(step, prepared)


class Diverging(Trainer):
    """The part of the second host alone makes the loss of the fifth step nan; that host dies in the tenth."""

    def take_step(self, step, prepared):
        if step == 4 and self.engine.host[0] == 1 and not self.recoveries:
            prepared = replace(prepared, denominators=dict.fromkeys(prepared.denominators, np.float32(np.nan)))
        if step == 9 and self.engine.host[0] == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().take_step(step, prepared)


@pytest.fixture(scope="module")
def on_jax(tmp_path_factory):
    """Starts experiments in a process on JAX, with two logical CPU devices."""
    cache = str(tmp_path_factory.mktemp("cache"))

    def start(*jobs, **environment):
        options = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "JAX_COMPILATION_CACHE_DIR": cache}
        return process(*jobs, **options | environment)

    start.cache = cache
    return start


@pytest.fixture(scope="module")
def base(record_sets):
    """float32, no dropout, clipping on: what engines must agree on."""
    return experiment(
        record_sets["static"],
        eval_path=record_sets["static"],
        encoder=tiny(dropout=0.0),
        trainer={"train_steps": STEPS},
        optimizer={"gradient_clip_norm": 0.3},
        learning_rate=5e-3,
    )


def spread(config, replicas=2, micro_steps=2):
    config = changed(config, "trainer", gradient_accumulation_steps=micro_steps)
    return changed(config, "runtime", distribution_strategy="mirrored", num_replicas=replicas)


@pytest.fixture(scope="module")
def runs(base, on_jax, tmp_path_factory):
    """name -> model_dir: "tensorflow" in this process, the others on JAX."""
    folder = tmp_path_factory.mktemp("runs")
    own = replace(base, task_type=f"{__name__}:ClippedTask")
    half = changed(spread(base), "runtime", mixed_precision_dtype="float16")
    jobs = {
        "two": (spread(base), "train_and_eval"),
        "own": (spread(changed(own, "trainer", steps_a_call=OWN_STEPS)), "train"),
        "float16": (half, "train"),
        "one": (changed(base, "trainer", export_formats="savedmodel"), "train"),
        "tensorflow": (base, "eval"),
    }
    run(base, folder / "tensorflow", "train_and_eval")
    with without_graphs():  # the first steps show the same as all
        run(changed(own, "trainer", steps_a_call=OWN_STEPS), folder / "own_tensorflow")
    (folder / "tensorflow" / "eval_results.json").rename(folder / "eval_results.json")
    code, said = finish(on_jax(*((config, folder / name, mode) for name, (config, mode) in jobs.items())))
    assert code == 0, said
    assert "mirrored over 2 logical CPU devices" in said
    assert "step: float32; attention: plain; dropout: a counter hash; fusion: XLA alone" in said
    return folder


def relative(a, b) -> float:
    assert a.keys() == b.keys()
    return max(abs(a[step][0] - b[step][0]) / abs(a[step][0]) for step in a)


def test_engines_agree(runs):
    expected, found = curve(runs / "tensorflow"), curve(runs / "one")
    assert len(expected) == STEPS
    assert relative(expected, found) < 1e-3
    assert [line[1] for line in expected.values()] == pytest.approx([line[1] for line in found.values()])
    assert expected[1][0] - expected[STEPS][0] > 0.1  # it learned


def test_replicas_and_micro_steps_give_the_curve_of_one_device(runs):
    assert max_difference(curve(runs / "one"), curve(runs / "two")) < 1e-5


def test_a_train_step_of_the_users(runs):
    whole, own = curve(runs / "one"), curve(runs / "own")
    assert len(own) == OWN_STEPS
    assert relative(curve(runs / "own_tensorflow"), own) < 1e-3
    assert max_difference({step: whole[step] for step in own}, own) > 1e-4  # it did something


def test_float16_with_loss_scaling(runs):
    assert 0 < max_difference(curve(runs / "two"), curve(runs / "float16")) < 0.1


def test_weights_and_state_cross_over(runs, base, tmp_path):
    """A run of one backend is evaluated and resumed on the other."""
    on_tensorflow = json.loads((runs / "eval_results.json").read_text())
    found = json.loads((runs / "tensorflow" / "eval_results.json").read_text())  # of its weights, on JAX
    for metrics in (found, on_tensorflow):
        assert metrics.pop("masked_lm_perplexity") == pytest.approx(math.exp(metrics["masked_lm_loss"]))
    assert found == pytest.approx(on_tensorflow, rel=1e-5)
    shutil.copytree(runs / "two", tmp_path / "run")
    longer = changed(base, "trainer", train_steps=STEPS + 2)
    said = run(longer, tmp_path / "run")
    assert any(f"after step {STEPS} of" in line for line in said)
    assert len(curve(tmp_path / "run")) == STEPS + 2


def test_a_savedmodel_of_a_run_on_jax(runs):
    """Another process has written it, on TensorFlow."""
    from pretrain.converters import read_checkpoint

    written, own = (
        read_checkpoint(str(path)).weights for path in (runs / "one" / "export" / "savedmodel", runs / "one")
    )
    assert written.keys() == own.keys()
    assert all((written[name] == own[name]).all() for name in own)


def test_kill_9_in_either_stage_leaves_no_trace(record_sets, on_jax, tmp_path):
    """With dropout, dynamic masking and micro-steps, to the last bit. Processes after the first one compile nothing new."""
    trainer = {"train_steps": None, "checkpoint_interval": 7, "steps_per_loop": 3, "summary_interval": 3}
    trainer |= {"log_example_digest": True, "gradient_accumulation_steps": 2}
    trainer["stages"] = [{"train_steps": 15}, {"train_steps": 60, "train_data": {"masked_lm_prob": 0.3}}]
    config = experiment(record_sets["dynamic"], trainer=trainer)
    shorter = changed(config, "trainer", stages=[each | {"train_steps": 6} for each in trainer["stages"]])
    before = set(os.listdir(on_jax.cache))
    code, said = finish(on_jax((shorter, tmp_path / "short", "compile_only"), (config, tmp_path / "whole", "train")))
    assert code == 0, said
    compiled = {name for name in os.listdir(on_jax.cache) if "on_replica" in name}
    made = [name for name in compiled - before if name.endswith("-cache")]
    assert len(made) == 1, made  # for both runs, whatever their lengths
    for step in (3, 18):
        started = on_jax((config, tmp_path / "run", "train"))
        wait_for_step(started, tmp_path / "run", step)
        started.kill()
        finish(started)
    code, said = finish(on_jax((config, tmp_path / "run", "train")))
    assert code == 0, said
    assert "resuming from" in said or "nothing to do" in said
    expected = curve(tmp_path / "whole")
    assert len([loss for loss, _, _ in expected.values() if loss is not None]) == 25
    assert curve(tmp_path / "run") == expected
    assert {name for name in os.listdir(on_jax.cache) if "on_replica" in name} == compiled


def test_two_hosts_give_the_curve_of_one(runs, base, on_jax, tmp_path):
    two = changed(base, "runtime", distribution_strategy="multi_worker_mirrored")
    two = changed(two, "trainer", train_steps=STEPS, validation_interval=STEPS)
    # The same run in all else: its steps are compiled already.
    recovering = changed(two, "trainer", type=f"{__name__}:Diverging", recovery_max_trials=2)
    recovering = changed(recovering, "trainer", checkpoint_interval=3, log_example_digest=True)
    workers = [f"localhost:{port}" for port in free_ports(2)]
    started = []
    for index in range(2):
        cluster = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        hurried = changed(two, "trainer", type=f"{__name__}:Hurried", max_time="1h")
        jobs = [(each, tmp_path / "two", "train_and_eval") for each in (hurried, two)]
        jobs.append((recovering, tmp_path / "recovered", "train"))
        started.append(on_jax(*jobs, TF_CONFIG=json.dumps(cluster)))
    results = [finish(each, 300) for each in started]
    assert [code for code, _ in results] == [1, -signal.SIGKILL], results
    assert "error: another host of this run has ended, or cannot be reached" in results[0][1]
    assert f"max_time: this call ends after step 8 of {STEPS}" in results[0][1]  # what the other host decided
    assert f"step-00000008, after step 8 of {STEPS}" in results[0][1]
    assert "devices: 2 CPU of 2 hosts, 1 here" in results[0][1]
    assert max_difference(curve(runs / "one"), curve(tmp_path / "two")) < 1e-5
    one, other = lines(runs / "two", "eval")[-1], lines(tmp_path / "two", "eval")[-1]
    assert other["loss"] == pytest.approx(one["loss"], rel=1e-5)
    assert other["examples"] == one["examples"]
    # The weights are nan in the sixth step; both return to the checkpoint of step 3, and skip the three batches since then.
    assert native.read_info(native.locate(tmp_path / "recovered"))["recoveries"] == [{"step": 3, "diverged_at": 6}]
    part = pretraining_batches(base.task.train_data, base.task).for_host(0, 2, None, 2)
    digests = [digest for _, _, digest in curve(tmp_path / "recovered").values()]
    assert digests == [example_digest(part.batch(number)) for number in (0, 1, 2, 6, 7, 8, 9, 10, 11)]


@pytest.mark.parametrize(
    ("runtime", "message"),
    [
        (
            {"distribution_strategy": "mirrored", "num_replicas": 2},
            "num_replicas is 2, but XLA_FLAGS has --xla_force_host_platform_device_count=1. Remove it there, or use 1 or less",
        ),
        ({"distribution_strategy": "tpu"}, "no TPU can be reached at runtime.tpu = '' (JAX finds CPU)"),
        ({"distribution_strategy": "multi_worker_mirrored"}, "TF_CONFIG, e.g."),
    ],
)
def test_devices_that_are_not_there(base, runtime, message):
    """In a process without Keras: only the devices are looked for."""
    code = (
        "import sys; from nlpdata.errors import NlpdataError; from pretrain.settings.schema import RuntimeConfig; "
        "from pretrain.training.engines.jax_devices import find_devices\n"
        f"try: find_devices(RuntimeConfig(**{runtime!r}))\nexcept NlpdataError as error: print(error)"
    )
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=1"}
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "KERAS_BACKEND": "jax", **flags}
    environment.pop("TF_CONFIG", None)
    done = subprocess.run([*warm_python.COMMAND, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert message in done.stdout, done.stderr[-2000:]


WITHOUT = """
import os, pickle, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "tensorflow_datasets"):
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Blocker())
import pretrain
from pretrain import export, predict, run
from pretrain.settings.yaml_files import save

folder, jobs, pretraining = pickle.loads(sys.stdin.buffer.read())
assert run.main(pretraining) == 0
assert os.environ["KERAS_BACKEND"] == "jax"
for name, config in jobs.items():
    metrics = pretrain.run_experiment(config, f"{folder}/{name}", "train_and_eval")
    print(name, metrics)
texts = f"{folder}/texts.txt"
assert predict.main(["--model_dir", f"{folder}/sentence", "--input", texts, "--output", f"{folder}/out.tsv",
    "--tokenizer", f"{folder}/vocab.txt"]) == 0
assert predict.main(["--model_dir", f"{folder}/squad", "--input", jobs["squad"].task.train_data.input_path,
    "--output", f"{folder}/answers"]) == 0
for format in ("hf", "native"):
    assert export.main([f"{folder}/sentence", f"{folder}/{format}", "--format", format]) == 0
assert pretrain.load(f"{folder}/hf").name
assert export.main([f"{folder}/sentence", f"{folder}/savedmodel", "--format", "savedmodel"]) == 2
assert not [name for name in sys.modules if name.split(".")[0] == "tensorflow"]
print("DONE")
"""


def test_everything_without_tensorflow(record_sets, tmp_path):
    """Pretraining, fine-tuning, evaluation, prediction and export, where TensorFlow cannot be imported."""
    from tests.pages import WORDS

    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (tmp_path / "texts.txt").write_text("some words\nand some more\n")
    from tests.pretrain.tasks.test_question_answering import squad_experiment

    training = records(tmp_path / "train.tfrecord", 48)
    (tmp_path / "questions").mkdir()
    sentence = sentence_experiment(training, training, steps=2)
    jobs = {
        "sentence": changed(sentence, "task", init_checkpoint=str(tmp_path / "base")),
        "squad": squad_experiment(squad_records(tmp_path / "questions", 16), steps=2),
    }
    config = experiment(
        record_sets["static"], eval_path=record_sets["static"], encoder=sentence.task.model.encoder,
        trainer={"train_steps": 2}, runtime={"distribution_strategy": "one_device"},
    )  # fmt: skip
    from pretrain.settings.yaml_files import dump_yaml

    (tmp_path / "base.yaml").write_text(dump_yaml(config))
    pretraining = [
        "--experiment=bert/pretraining", f"--config_file={tmp_path}/base.yaml", f"--model_dir={tmp_path}/base",
        "--mode=train_and_eval",
    ]  # fmt: skip
    import pickle

    done = subprocess.run(
        [sys.executable, "-c", WITHOUT],
        input=pickle.dumps((str(tmp_path), jobs, pretraining)),
        cwd=ROOT,
        env=plain_environment() | {"JAX_PLATFORMS": "cpu", "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
    )
    assert done.returncode == 0, done.stdout.decode()[-3000:] + done.stderr.decode()[-6000:]
    assert done.stdout.decode().endswith("DONE\n")
    said = done.stderr.decode()
    assert not lines_of_libraries(said)
    assert "backend: jax (auto: TensorFlow is not installed)" in said
    assert "pretrain convert" in said  # the command for where TensorFlow is
    assert len((tmp_path / "out.tsv").read_text().splitlines()) == 3
    assert (tmp_path / "answers" / "predictions.json").exists()
