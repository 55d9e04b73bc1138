"""The stage `memory` of gpu_train.py: the largest batch of sequences of 512 that one card trains, with and without checkpointing.

    python benchmarks/gpu_train_memory.py MODEL plan SMALL LARGE [--gradient_checkpointing] [--momentum_dtype bfloat16]
    python benchmarks/gpu_train_memory.py MODEL run BATCH [--gradient_checkpointing] [--momentum_dtype bfloat16]

XLA's own account of two compiled batches gives memory as a line over the batch; the largest batch that the line allows is
compiled, corrected by its account, and then trained for a few steps, or a smaller one where it does not fit. Pretraining with full
random sequences, 77 predictions, bf16, the published dropout.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
LENGTH = 512
SHARE = 0.95  # of the card's memory that JAX may take
SLACK = 0.99  # of that: what is left over between blocks of memory
MODELS = {
    "bert-large": ("bert", {
        "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096,
        "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1, "hidden_act": "gelu",
    }),
    "albert-xxlarge": ("albert", {
        "vocab_size": 30000, "embedding_size": 128, "hidden_size": 4096, "num_hidden_layers": 12, "num_attention_heads": 64,
        "intermediate_size": 16384, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "hidden_act": "gelu_new",
    }),
}  # fmt: skip
WAYS = {"all activations kept": [], "gradient_checkpointing": ["--gradient_checkpointing"]}
PLANNED = {  # batches that are compiled for the line: large ones, of which activations are most
    ("bert-large", "all activations kept"): (128, 256),
    ("bert-large", "gradient_checkpointing"): (512, 1024),
    ("albert-xxlarge", "all activations kept"): (48, 96),
    ("albert-xxlarge", "gradient_checkpointing"): (192, 384),
}


def memory() -> None:
    """Prints the largest batch of every model and way, and its tokens a second."""

    def plan(job):
        return _one(job[0], "plan", PLANNED[job], WAYS[job[1]])

    with ThreadPoolExecutor(len(PLANNED)) as pool:  # compiling takes cores, hardly the card
        plans = dict(zip(PLANNED, pool.map(plan, PLANNED), strict=True))
    for (model, way), found in plans.items():
        if not found:
            print(f"  {model}, {way}: no plan, its batches of {PLANNED[model, way]} do not fit", flush=True)
            continue
        print(
            f"  {model}, {way}: {found['example_mib']:.0f} MiB an example, {found['besides_gib']:.1f} GiB besides: "
            f"{found['batch']} examples, {found['gib']:.1f} GiB by XLA's account",
            flush=True,
        )
        batch = found["batch"]
        for _ in range(3):
            result = _one(model, "run", [batch], WAYS[way])
            if result:
                print(
                    f"  {model}, {way}: batch {batch} x {LENGTH}, {result['tokens_per_second'] / 1e3:.1f}k tok/s, "
                    f"{result['step_ms']:.0f} ms/step, {result['tflops']:.0f} TFLOP/s, {result['memory_gib']:.1f} GiB, "
                    f"loss {result['loss']:.3f} ({result['seconds']:.0f} s)",
                    flush=True,
                )
                break
            print(f"  {model}, {way}: batch {batch} does not fit", flush=True)
            batch -= max(8, batch // 32 // 8 * 8)


def _one(model: str, what: str, batches, options: list[str]) -> dict:
    """What a process of this file prints; {} where memory does not suffice."""
    paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join(paths)}
    environment |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false" if what == "plan" else "true"}
    environment |= {"XLA_PYTHON_CLIENT_MEM_FRACTION": str(SHARE)}
    command = [sys.executable, str(HERE / "gpu_train_memory.py"), model, what, *map(str, batches), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        if "RESOURCE_EXHAUSTED" in done.stderr:
            return {}
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("what", choices=["plan", "run"])
    parser.add_argument("batches", type=int, nargs="+")
    parser.add_argument("--gradient_checkpointing", action="store_true")
    parser.add_argument("--momentum_dtype", default="float32")
    options = parser.parse_args()
    engine, task, vocabulary = build(options)
    print(json.dumps((plan if options.what == "plan" else run)(engine, task, vocabulary, options)))


def build(options) -> tuple:
    """(engine, task, options of the encoder)."""
    from pretrain.registry import ENCODERS, OPTIMIZERS
    from pretrain.settings.fields import choose
    from pretrain.settings.schema import ExperimentConfig, ModelConfig, RuntimeConfig
    from pretrain.settings.trainer_section import OptimizationConfig, TrainerConfig
    from pretrain.tasks.pretraining import PretrainingConfig, PretrainingTask
    from pretrain.training.engines.jax_engine import JaxEngine

    kind, sizes = MODELS[options.model]
    encoder = choose(ENCODERS, kind, **sizes)
    task = PretrainingTask(PretrainingConfig(model=ModelConfig(encoder)))
    optimizer = OptimizationConfig(choose(OPTIMIZERS, "adamw", momentum_dtype=options.momentum_dtype))
    runtime = RuntimeConfig(
        distribution_strategy="one_device",
        mixed_precision_dtype="bfloat16",
        gradient_checkpointing=options.gradient_checkpointing,
    )
    trainer = TrainerConfig(optimizer_config=optimizer)
    engine = JaxEngine(task, ExperimentConfig(task=task.config, runtime=runtime, trainer=trainer), train_steps=100_000)
    return engine, task, encoder.options


def placed(engine, task, encoder, batch: int) -> tuple:
    """(a batch on the card, its denominators)."""
    from gpu_train_ours import make_batch

    made = make_batch(batch, LENGTH, encoder.vocab_size, 0)
    return engine.place(made), task.denominators(made)


def plan(engine, task, encoder, options) -> dict:
    """The largest multiple of 8 that XLA's account of the compiled step allows, by a line through the given batches."""
    import jax

    def needed(batch: int) -> int:
        """Bytes, with what lies on the card besides the step's arguments."""
        arrays, denominators = placed(engine, task, encoder, batch)
        step = engine._compile_lazily("train", arrays.path).lower(*engine._arguments(0, arrays, denominators))
        found = step.compile().memory_analysis()
        in_use = jax.local_devices()[0].memory_stats()["bytes_in_use"]
        made = found.output_size_in_bytes - found.alias_size_in_bytes
        return in_use + made + found.temp_size_in_bytes + found.generated_code_size_in_bytes

    small, large = options.batches
    first, second = needed(small), needed(large)
    slope = (second - first) / (large - small)
    room = jax.local_devices()[0].memory_stats()["bytes_limit"] * SLACK
    batch = int(small + (room - first) / slope) // 8 * 8
    while (bytes_ := needed(batch)) > room:
        batch -= max(8, -int((room - bytes_) / slope) // 8 * 8)
    return {
        "example_mib": slope / 2**20,
        "besides_gib": (first - slope * small) / 2**30,
        "batch": batch,
        "gib": bytes_ / 2**30,
    }


def run(engine, task, encoder, options, least_s: float = 4.0) -> dict:
    """Steps of a batch: one, then as many as take least_s."""
    import jax
    from gpu_train_ours import matmul_flops

    begun, (batch,) = time.time(), options.batches
    arrays, denominators = placed(engine, task, encoder, batch)
    statistics = jax.block_until_ready(engine.train_step(0, arrays, denominators))
    timed, steps = time.perf_counter(), 0
    while time.perf_counter() - timed < least_s:
        steps += 1
        statistics = jax.block_until_ready(engine.train_step(steps, arrays, denominators))
    seconds = (time.perf_counter() - timed) / steps
    return {
        "tokens_per_second": batch * LENGTH / seconds,
        "step_ms": seconds * 1e3,
        "tflops": matmul_flops(encoder, batch, LENGTH) / seconds / 1e12,
        "memory_gib": (jax.local_devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0) / 2**30,
        "loss": float(statistics["masked_lm_loss"]) / float(statistics["masked_lm_weight"]),
        "seconds": time.time() - begun,
    }


if __name__ == "__main__":
    main()
