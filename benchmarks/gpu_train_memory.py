"""The stage `memory` of gpu_train.py: the largest batch of sequences of 512 that one card trains, with and without checkpointing.

    python benchmarks/gpu_train_memory.py MODEL plan|run BATCH [--gradient_checkpointing] [--momentum_dtype bfloat16]

XLA's own account of two small batches gives memory as a line over the batch; the largest batch that the line allows is then
trained for a few steps, and a smaller one where it does not fit. Pretraining with full random sequences, 77 predictions, bf16,
the published dropout.
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
LENGTH, SMALL = 512, (8, 16)
SHARE = 0.95  # of the card's memory that JAX may take
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


def memory() -> None:
    """Prints the largest batch of every model and way, and its tokens a second."""
    jobs = [(model, way) for model in MODELS for way in WAYS]

    def plan(job):
        model, way = job
        return [_one(model, "plan", batch, WAYS[way]) for batch in SMALL]

    with ThreadPoolExecutor(len(jobs)) as pool:  # compiling takes cores, hardly the card
        plans = dict(zip(jobs, pool.map(plan, jobs), strict=True))
    for (model, way), found in plans.items():
        (small, first), (large, second) = zip(SMALL, (each["bytes"] for each in found), strict=True)
        slope = (second - first) / (large - small)
        room = found[0]["limit"] * SHARE
        batch = int((room - first) / slope) + small
        print(
            f"  {model}, {way}: {slope / 2**20:.0f} MiB an example, {(first - slope * small) / 2**30:.1f} GiB besides: "
            f"{batch} examples",
            flush=True,
        )
        batch -= batch % 8
        for _ in range(4):
            result = _one(model, "run", batch, WAYS[way])
            if "tokens_per_second" in result:
                print(
                    f"  {model}, {way}: batch {batch} x {LENGTH}, {result['tokens_per_second'] / 1e3:.1f}k tok/s, "
                    f"{result['step_ms']:.0f} ms/step, {result['memory_gib']:.1f} GiB, loss {result['loss']:.3f}",
                    flush=True,
                )
                break
            print(f"  {model}, {way}: batch {batch} does not fit", flush=True)
            batch -= max(8, batch // 16 // 8 * 8)


def _one(model: str, what: str, batch: int, options: list[str]) -> dict:
    paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join(paths)}
    environment |= {"XLA_PYTHON_CLIENT_PREALLOCATE": "false" if what == "plan" else "true"}
    environment |= {"XLA_PYTHON_CLIENT_MEM_FRACTION": str(SHARE)}
    command = [sys.executable, str(HERE / "gpu_train_memory.py"), model, what, str(batch), *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        if "RESOURCE_EXHAUSTED" in done.stderr or "Out of memory" in done.stderr:
            return {}
        raise RuntimeError(f"{' '.join(command)}: {done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("what", choices=["plan", "run"])
    parser.add_argument("batch", type=int)
    parser.add_argument("--gradient_checkpointing", action="store_true")
    parser.add_argument("--momentum_dtype", default="float32")
    options = parser.parse_args()
    print(json.dumps(measure(options)))


def measure(options, steps: int = 4) -> dict:
    import jax
    from gpu_train_ours import make_batch, matmul_flops

    from pretrain.registry import ENCODERS, OPTIMIZERS
    from pretrain.settings.schema import (
        ExperimentConfig,
        ModelConfig,
        OptimizationConfig,
        RuntimeConfig,
        TrainerConfig,
        choose,
    )
    from pretrain.tasks.pretraining import PretrainingConfig, PretrainingTask
    from pretrain.training.jax_engine import JaxEngine

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
    batch = make_batch(options.batch, LENGTH, encoder.options.vocab_size, 0)
    denominators, placed = task.denominators(batch), engine.place(batch)
    card = jax.local_devices()[0]
    if options.what == "plan":
        step = engine._compile_lazily("train", placed.path).lower(*engine._arguments(0, placed, denominators))
        found = step.compile().memory_analysis()
        kept = found.argument_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes
        limit = (card.memory_stats() or {}).get("bytes_limit", 140 * 2**30) / SHARE
        return {"bytes": kept + found.temp_size_in_bytes + found.generated_code_size_in_bytes, "limit": limit}
    for number in range(2):
        statistics = engine.train_step(number, placed, denominators)
    jax.block_until_ready(statistics)
    begun = time.perf_counter()
    for number in range(2, 2 + steps):
        statistics = engine.train_step(number, placed, denominators)
    jax.block_until_ready(statistics)
    seconds = (time.perf_counter() - begun) / steps
    return {
        "tokens_per_second": options.batch * LENGTH / seconds,
        "step_ms": seconds * 1e3,
        "tflops": matmul_flops(encoder.options, options.batch, LENGTH) / seconds / 1e12,
        "memory_gib": (card.memory_stats() or {}).get("peak_bytes_in_use", 0) / 2**30,
        "loss": float(statistics["masked_lm_loss"]) / float(statistics["masked_lm_weight"]),
    }


if __name__ == "__main__":
    main()
