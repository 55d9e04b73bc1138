"""The stages of gpu_train.py that read records: do the paths learn alike, and does the loader keep up?"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
STEPS, BATCH, LENGTH = 500, 64, 128


def curve(records: str) -> None:
    """BERT-base, no dropout, 500 steps on the same batches: fast path and plain path in bf16, and float32 as the measure."""
    with tempfile.TemporaryDirectory() as folder:
        losses = {}
        for name in ("fast", "plain", "float32"):
            code = f"import gpu_train_records; gpu_train_records.run({records!r}, {folder + '/' + name!r}, {name!r})"
            paths = [str(HERE), str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
            environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join(paths)}
            done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
            if done.returncode:
                raise SystemExit(f"{name}: {done.stderr[-3000:]}")
            lines = map(json.loads, Path(folder, name, "metrics.jsonl").read_text().splitlines())
            losses[name] = [line["loss"] for line in lines if "loss" in line]
    print("  losses of single steps (means of 25 steps after the first)")
    print(f"  {'steps':>9} {'fast':>8} {'plain':>8} {'float32':>8} {'fast - plain':>13}")
    for start in (0, 1, 25, *range(75, STEPS, 75)):
        chosen = {name: values[start : start + (25 if start else 1)] for name, values in losses.items()}
        mean = {name: sum(values) / len(values) for name, values in chosen.items()}
        print(
            f"  {start + 1:>4}-{start + len(chosen['fast']):<4} "
            + " ".join(f"{mean[name]:>8.4f}" for name in losses)
            + f" {mean['fast'] - mean['plain']:>13.5f}"
        )
    for a, b in (("fast", "plain"), ("fast", "float32"), ("plain", "float32")):
        apart = [abs(x - y) for x, y in zip(losses[a], losses[b], strict=True)]
        print(f"  |{a} - {b}|: first step {apart[0]:.1e}, mean {sum(apart) / len(apart):.4f}, largest {max(apart):.4f}")


def experiment(records: str, name: str, steps: int = STEPS):
    from dataclasses import replace

    from pretrain.experiments import experiment as registered
    from pretrain.registry import ENCODERS
    from pretrain.settings.schema import DataConfig, RuntimeConfig, TrainerConfig, choose

    base = registered("bert/pretraining")
    vocabulary = json.loads(next(Path(records).parent.glob("*.meta.json")).read_text())["tokenizer"]["vocab_size"]
    encoder = choose(ENCODERS, "bert", vocab_size=vocabulary, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    data = DataConfig(input_path=records, global_batch_size=BATCH)
    return replace(
        base,
        task=replace(base.task, model=replace(base.task.model, encoder=encoder), train_data=data),
        trainer=TrainerConfig(train_steps=steps, summary_interval=1, steps_per_loop=1, tensorboard=False),
        runtime=RuntimeConfig(
            distribution_strategy="one_device",
            mixed_precision_dtype="float32" if name == "float32" else "bfloat16",
            fused_kernels=name == "fast",
        ),
    )


def run(records: str, model_dir: str, name: str) -> None:
    from pretrain.training import run_experiment

    run_experiment(experiment(records, name), model_dir, "train", lambda line: None)


def loader(records: str) -> None:
    """Batches as training takes them, made by one thread."""
    from pretrain.registry import TASKS

    config = experiment(records, "fast").task
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
