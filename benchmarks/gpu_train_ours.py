"""Our side of gpu_train.py: pretraining steps by the runner's engine on JAX; prints one JSON object.

python benchmarks/gpu_train_ours.py bert|albert BATCH LENGTH [--attention_dropout 0.1] [--plain] [--devices 2]
                                    [--profile FOLDER]
"""

import argparse
import collections
import gzip
import json
import statistics
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from nlpdata.cli.messages import on_standard_error
from pretrain.registry import ENCODERS
from pretrain.settings.fields import Choice
from pretrain.settings.schema import ExperimentConfig, ModelConfig, RuntimeConfig
from pretrain.tasks.pretraining import PretrainingConfig, PretrainingTask
from pretrain.training.engines.jax_engine import JaxEngine

PREDICTIONS = {128: 20, 512: 77}
SHAPES = {
    "bert": {"hidden_act": "gelu"},
    "albert": {
        "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12, "intermediate_size": 3072,
        "hidden_act": "gelu_new", "hidden_dropout_prob": 0.1,
    },
}  # fmt: skip


def make_batch(batch: int, length: int, vocabulary: int, seed: int) -> dict[str, np.ndarray]:
    """Random ids in full sequences, as the peer has."""
    generator = np.random.default_rng(seed)
    predictions = PREDICTIONS[length]
    order = np.argsort(generator.random((batch, length - 2)), axis=1)[:, :predictions] + 1
    return {
        "input_ids": generator.integers(5, vocabulary, (batch, length)).astype(np.int32),
        "segment_ids": (np.arange(length) >= length // 2).astype(np.int32)[None].repeat(batch, 0),
        "input_mask": np.ones((batch, length), np.int32),
        "masked_lm_positions": np.sort(order).astype(np.int32),
        "masked_lm_ids": generator.integers(5, vocabulary, (batch, predictions)).astype(np.int32),
        "masked_lm_weights": np.ones((batch, predictions), np.float32),
        "next_sentence_labels": generator.integers(0, 2, (batch, 1)).astype(np.int32),
    }


def matmul_flops(options, batch: int, length: int) -> float:
    """Floating point operations of the matrix products of a step, forward and backward."""
    hidden, inner, layers = options.hidden_size, options.intermediate_size, options.num_hidden_layers
    embedding = getattr(options, "embedding_size", hidden)
    token = layers * (2 * (4 * hidden**2 + 2 * hidden * inner) + 4 * length * hidden)
    token += 2 * embedding * hidden if embedding != hidden else 0
    prediction = 2 * (hidden * embedding + embedding * options.vocab_size)
    return 3 * batch * (length * token + PREDICTIONS[length] * prediction)


def ceiling() -> float:
    """FLOP/s of a product of two bf16 matrices, 8192 square, of random numbers."""
    size, times = 8192, 20
    a, b = (jax.random.normal(jax.random.key(i), (size, size), jnp.bfloat16) for i in range(2))
    product = jax.jit(lambda a, b: (a @ b) * jnp.bfloat16(1 / 90))
    product(a, b).block_until_ready()
    start = time.perf_counter()
    for _ in range(times):
        a = product(a, b)
    a.block_until_ready()
    return 2 * size**3 * times / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoder", choices=SHAPES)
    parser.add_argument("batch", type=int)
    parser.add_argument("length", type=int)
    parser.add_argument("--attention_dropout", type=float, default=0.0)
    parser.add_argument("--hidden_dropout", type=float, default=0.1)
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--devices", type=int, default=1)
    parser.add_argument("--profile")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--started", type=float, help="when this process was started, as time.time() counts")
    options = parser.parse_args()
    shape = SHAPES[options.encoder] | {
        "attention_probs_dropout_prob": options.attention_dropout, "hidden_dropout_prob": options.hidden_dropout,
        "num_hidden_layers": options.layers,
    }  # fmt: skip
    with on_standard_error():  # which devices, which kernels
        print(json.dumps(measure(options, ENCODERS.config_class(options.encoder)(**shape))), flush=True)


def build(encoder: str, shape, devices: int = 1, **runtime) -> tuple[PretrainingTask, JaxEngine]:
    """The task and the engine of a bfloat16 run."""
    task = PretrainingTask(PretrainingConfig(model=ModelConfig(Choice(encoder, shape))))
    strategy = "mirrored" if devices > 1 else "one_device"
    runtime |= {"distribution_strategy": strategy, "num_replicas": devices, "mixed_precision_dtype": "bfloat16"}
    config = ExperimentConfig(task=task.config, runtime=RuntimeConfig(**runtime))
    return task, JaxEngine(task, config, train_steps=100_000)


def measure(options, shape, rounds: int = 4, steps: int = 10) -> dict:
    begun_building = time.time()
    task, engine = build(options.encoder, shape, options.devices, fused_kernels=not options.plain)
    batches = [make_batch(options.batch, options.length, shape.vocab_size, seed) for seed in range(4)]
    denominators = [task.denominators(batch) for batch in batches]
    placed = [engine.place(batch) for batch in batches]
    built = time.time()

    def take(step):
        at = step % len(placed)
        return engine.train_step(step, placed[at], denominators[at])

    float(take(0)["masked_lm_loss"])
    first = time.time()
    for step in range(1, 8):
        statistics_ = take(step)
    jax.block_until_ready(statistics_)
    seconds = []
    for r in range(rounds):
        begun = time.perf_counter()
        for step in range(8 + r * steps, 8 + (r + 1) * steps):
            statistics_ = take(step)
        jax.block_until_ready(statistics_)
        seconds.append((time.perf_counter() - begun) / steps)
    losses = {name: float(value) for name, value in statistics_.items()}
    best = statistics.median(seconds)
    memory = jax.local_devices()[0].memory_stats() or {}
    kernels = _profile(options.profile, take) if options.profile else None
    flops = matmul_flops(shape, options.batch, options.length)
    return {
        "step_ms": best * 1e3,
        "spread_ms": (max(seconds) - min(seconds)) * 1e3,
        "tokens_per_second": options.batch * options.length / best,
        "tflops": flops / best / 1e12 / options.devices,
        "memory_gib": memory.get("peak_bytes_in_use", 0) / 2**30,
        "start_s": built - (options.started or begun_building),
        "first_step_s": first - built,
        "loss": losses["masked_lm_loss"] / losses["masked_lm_weight"],
        "replicas_differ_in": differing(engine._taken()),
        "device": jax.devices()[0].device_kind,
        **({"kernels": kernels} if kernels else {}),
    }


def differing(state) -> int:
    """How many arrays of a state are not to the last bit the same on every device."""
    return sum(
        len({np.asarray(shard.data).tobytes() for shard in array.addressable_shards}) > 1
        for array in jax.tree.leaves(state)
    )


def _profile(folder: str, take, steps: int = 3) -> list:
    """[name, launches a step, ms a step] of the kernels of the GPU, the longest first."""
    with jax.profiler.trace(folder, create_perfetto_trace=True):
        for step in range(steps):
            last = take(100 + step)
        jax.block_until_ready(last)
    path = next(Path(folder).rglob("perfetto_trace.json.gz"))
    events = json.loads(gzip.decompress(path.read_bytes()))
    events = events.get("traceEvents", events) if isinstance(events, dict) else events
    threads = {(e["pid"], e.get("tid")): e["args"]["name"] for e in events if e.get("name") == "thread_name"}
    totals = collections.defaultdict(lambda: [0, 0.0])
    for event in events:
        if event.get("ph") == "X" and "Stream" in threads.get((event["pid"], event.get("tid")), ""):
            total = totals[event["name"]]
            total[0] += 1
            total[1] += event["dur"]
    rows = sorted(totals.items(), key=lambda item: -item[1][1])
    return [[name, count / steps, round(duration / steps / 1e3, 3)] for name, (count, duration) in rows]


if __name__ == "__main__":
    main()
