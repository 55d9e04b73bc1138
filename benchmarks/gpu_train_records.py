"""The stages of gpu_train.py that read records: do the paths learn alike, and does the loader keep up?"""

import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
STEPS, BATCH, LENGTH, WINDOW = 500, 64, 128, 25
AT_A_TIME = 8  # runs that share the GPU


@dataclass(frozen=True)
class Run:
    """One run of `curve`.

    Attributes:
      path: fast or plain, in bf16; float32: plain in that precision.
      dropout: rate, of hidden states and of attention.
      seed: of the dropout.
    """

    path: str
    dropout: float = 0.0
    seed: int = 1

    @property
    def name(self) -> str:
        return f"{self.path}-{self.dropout}-{self.seed}"


def curve(records: str, seeds: int = 6, steps: int = STEPS) -> None:
    """BERT-base, equal initial weights and batches: without dropout against float32, with dropout over several seeds."""
    exact = [Run("fast"), Run("plain"), Run("float32")]
    drawn = [Run(path, 0.1, seed) for seed in range(1, seeds + 1) for path in ("fast", "plain")]
    with tempfile.TemporaryDirectory() as folder:
        start(records, folder, Run("plain"), 1, "")
        weights = f"{folder}/{Run('plain').name}"
        os.rename(weights, f"{folder}/start")
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            losses = dict(
                zip(
                    [*exact, *drawn],
                    pool.map(lambda run: start(records, folder, run, steps, f"{folder}/start"), [*exact, *drawn]),
                    strict=True,
                )
            )
    show_exact({run.path: losses[run] for run in exact})
    show_drawn(*([losses[run] for run in drawn if run.path == path] for path in ("fast", "plain")))


def start(records: str, folder: str, run: Run, steps: int, weights: str) -> list[float]:
    """The losses of the steps of a run in a process of its own."""
    code = f"import gpu_train_records as own; own.train({records!r}, {folder!r}, own.{run!r}, {steps}, {weights!r})"
    paths = [str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join(paths)}
    environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{run.name}: {done.stderr[-3000:]}")
    lines = map(json.loads, Path(folder, run.name, "metrics.jsonl").read_text().splitlines())
    if weights:
        shutil.rmtree(Path(folder, run.name, "checkpoints"))  # 1.3 GB
    return [line["loss"] for line in lines if "loss" in line]


def smooth(losses: list[float]) -> list[float]:
    return [statistics.fmean(losses[i : i + WINDOW]) for i in range(0, len(losses), WINDOW)]


def apart(a: list[float], b: list[float]) -> float:
    """Mean difference of two curves."""
    return statistics.fmean(abs(x - y) for x, y in zip(a, b, strict=True))


def show_exact(losses: dict[str, list[float]]) -> None:
    print(f"  no dropout: means of {WINDOW} steps")
    print(f"  {'steps':>9} {'fast':>8} {'plain':>8} {'float32':>8} {'fast - plain':>13}")
    curves = {name: smooth(values) for name, values in losses.items()}
    count = len(curves["fast"])
    for i in sorted({0, 1, *range(3, count, 4), count - 1} & set(range(count))):
        mean = {name: values[i] for name, values in curves.items()}
        print(
            f"  {i * WINDOW + 1:>4}-{(i + 1) * WINDOW:<4} "
            + " ".join(f"{mean[name]:>8.4f}" for name in losses)
            + f" {mean['fast'] - mean['plain']:>13.5f}"
        )
    for a, b in itertools.combinations(losses, 2):
        single = [abs(x - y) for x, y in zip(losses[a], losses[b], strict=True)]
        print(
            f"  |{a} - {b}|: first step {single[0]:.1e}, single steps {statistics.fmean(single):.4f} (largest "
            f"{max(single):.4f}), smoothed {apart(curves[a], curves[b]):.4f}"
        )


def show_drawn(fast: list[list[float]], plain: list[list[float]]) -> None:
    """Whether fast and plain runs differ by more than two plain runs do, which differ in their dropout alone.

    The measure is the energy distance of the two groups of curves; its chance, if the path made no difference, is the share
    of all ways to part the runs in two that give as much.
    """
    curves, count = [smooth(losses) for losses in (*fast, *plain)], len(fast)
    everything = range(len(curves))
    distances = {pair: apart(curves[pair[0]], curves[pair[1]]) for pair in itertools.combinations(everything, 2)}

    def between(a, b) -> list[float]:
        return [distances[min(i, j), max(i, j)] for i in a for j in b if a is not b or i < j]

    def energy(group) -> float:
        rest = [i for i in everything if i not in group]
        return 2 * statistics.fmean(between(group, rest)) - sum(statistics.fmean(between(g, g)) for g in (group, rest))

    print(f"  dropout 0.1, {count} seeds each: differences of two curves of means of {WINDOW} steps")
    groups = range(count), range(count, len(curves))
    for name, a, b in (
        ("fast, plain", *groups),
        ("plain, plain", groups[1], groups[1]),
        ("fast, fast", groups[0], groups[0]),
    ):
        values = sorted(between(a, b))
        print(f"  {name:<13} mean {statistics.fmean(values):.4f}, {values[0]:.4f} to {values[-1]:.4f}")
    found = energy(groups[0])
    ways = [energy(group) for group in itertools.combinations(everything, count)]
    chance = statistics.fmean(way >= found - 1e-12 for way in ways)
    last = [statistics.fmean(curve[len(curve) * 4 // 5 :]) for curve in curves]
    of_fast, of_plain = statistics.fmean(last[:count]), statistics.fmean(last[count:])
    spread = statistics.stdev(last[count:])
    print(f"  last fifth: fast {of_fast:.5f}, plain {of_plain:.5f} (deviation of plain runs {spread:.5f})")
    verdict = "APART" if chance < 0.01 else "indistinguishable"
    print(f"  {verdict}: of {len(ways)} ways to part the runs in two, {chance:.0%} set them as far apart as by path")


def experiment(records: str, run: Run, steps: int = STEPS, weights: str = ""):
    from dataclasses import replace

    from pretrain.experiments import experiment as registered
    from pretrain.registry import ENCODERS
    from pretrain.settings.data_section import DataConfig
    from pretrain.settings.fields import choose
    from pretrain.settings.schema import RuntimeConfig
    from pretrain.settings.trainer_section import TrainerConfig

    base = registered("bert/pretraining")
    vocabulary = json.loads(next(Path(records).parent.glob("*.meta.json")).read_text())["tokenizer"]["vocab_size"]
    sizes = {"hidden_dropout_prob": run.dropout, "attention_probs_dropout_prob": run.dropout}
    encoder = choose(ENCODERS, "bert", vocab_size=vocabulary, **sizes)
    data = DataConfig(input_path=records, global_batch_size=BATCH)
    model = replace(base.task.model, encoder=encoder)
    return replace(
        base,
        task=replace(base.task, model=model, train_data=data, init_checkpoint=weights),
        trainer=TrainerConfig(train_steps=steps, summary_interval=1, steps_per_loop=1, tensorboard=False),
        runtime=RuntimeConfig(
            distribution_strategy="one_device",
            mixed_precision_dtype="float32" if run.path == "float32" else "bfloat16",
            fused_kernels=run.path == "fast",
            seed=run.seed,
        ),
    )


def train(records: str, folder: str, run: Run, steps: int, weights: str) -> None:
    from pretrain.training import run_experiment

    run_experiment(experiment(records, run, steps, weights), f"{folder}/{run.name}", "train")


def loader(records: str) -> None:
    """Batches as training takes them, made by one thread."""
    from pretrain.registry import TASKS

    config = experiment(records, Run("fast")).task
    batches = TASKS.get("pretraining")(config).build_inputs(config.train_data)
    batches.batch(0)
    start, cpu = time.perf_counter(), time.process_time()
    count = min(400, 2 * batches.steps_per_epoch)
    for step in range(count):
        batches.batch(step)
    wall, cpu = time.perf_counter() - start, time.process_time() - cpu
    rate = count * BATCH / wall
    print(f"  loader, one thread: {rate:,.0f} examples/s of {LENGTH} tokens ({cpu / wall:.2f} cores)")
    for tokens in (650e3, 725e3):
        need = tokens / LENGTH
        print(f"  a step at {tokens / 1e3:.0f}k tok/s takes {need:,.0f} examples/s: {need / rate:.2f} of the thread")
