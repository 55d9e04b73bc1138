"""The stage `packed` of gpu_train.py: BERT-base on short records of 512, ours packed against transformers padded and grouped.

    python benchmarks/gpu_train_packed.py RECORDS padded|grouped|packed ATTENTION_DROPOUT [STEPS]      # one of ours, JSON

A step has 128 examples on both sides. Each side takes the same steps of an epoch twice: the first time compiles, the second
is timed. Tokens are real ones. Ours reads the records while it trains, the peer has its batches on the card before.
"""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
BATCH, STEPS = 128, 40
PADDED, GROUPED = 1.2, 1.2  # times the padded peer's tokens, and times the grouped peer's


def packed(records: str, python: str) -> None:
    """Prints padding, lengths and tokens a second of each way, and whether ours are high enough."""
    describe(records)
    for dropout in (0.1, 0.0):
        ours = {way: _ours(records, way, dropout) for way in ("packed", *(["grouped"] if dropout else []))}
        peers = {("stock", way): _peer(python, records, "stock", way, dropout) for way in ("padded", "grouped")}
        for (head, way), rate in peers.items():
            # The first target is in tokens of the padded peer, of which padding is a part: 1.2 / (1 - padding) times its real ones.
            target = PADDED if way == "padded" else GROUPED
            share = ours["packed"]["padding"]
            of_padded = 1 / (1 - ours["packed"]["peer_padding"]) if way == "padded" else 1.0
            ratio = ours["packed"]["tokens_per_second"] / rate
            wanted = target * of_padded
            print(
                f"  dropout {dropout}: packed (padding {share:.1%}) / {head} {way}: {ratio:.2f}x, target {wanted:.2f}x"
                f"{'' if ratio >= wanted else '  MISSED'}",
                flush=True,
            )


def describe(records: str) -> None:
    import numpy as np

    from nlpdata import open_records

    rows = open_records(records)
    mask = rows[: len(rows)]["input_mask"]
    lengths = mask.sum(axis=1)
    shares = " ".join(f"{int(each)}" for each in np.percentile(lengths, [0, 10, 25, 50, 75, 90, 100]))
    print(
        f"  {len(rows)} records of {mask.shape[1]}: {lengths.mean():.0f} tokens on average, padding {1 - mask.mean():.1%}; "
        f"lengths at 0, 10, 25, 50, 75, 90, 100%: {shares}",
        flush=True,
    )


def _environment() -> dict:
    paths = [str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join(paths)}


def _ours(records: str, way: str, dropout: float) -> dict:
    command = [sys.executable, str(HERE / "gpu_train_packed.py"), records, way, str(dropout)]
    done = subprocess.run(command, env=_environment(), stdout=subprocess.PIPE, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    print(
        f"  ours {way}, attention dropout {dropout}: {found['tokens_per_second'] / 1e3:.0f}k real tok/s, "
        f"{found['step_ms']:.1f} ms/step, padding {found['padding']:.1%}, shapes {found['shapes']}, compiling pass "
        f"{found['first_s']:.0f} s, {found['memory_gib']:.1f} GiB, loss {found['loss']:.4f}",
        flush=True,
    )
    return found


def _peer(python: str, records: str, head: str, way: str, dropout: float) -> float:
    command = [python, str(HERE / "gpu_train_packed_peer.py"), records, head, way, str(dropout)]
    done = subprocess.run(command, env=_environment(), stdout=subprocess.PIPE, text=True)
    print(f"  {done.stdout.strip()}", flush=True)
    found = re.search(r"([\d.]+)k real tok/s", done.stdout)
    return float(found[1]) * 1e3 if found else float("nan")


def batches_of(records: str, way: str, **more):
    """Training batches of 128 examples: padded, grouped or packed."""
    from pretrain.data import pretraining_batches
    from pretrain.registry import ENCODERS
    from pretrain.settings.schema import DataConfig, ModelConfig, choose
    from pretrain.tasks.configs import PretrainingConfig

    ways = {"group_by_length": way == "grouped", "pack_sequences": way == "packed"}
    data = DataConfig(input_path=records, global_batch_size=BATCH, prefetch_buffer_size=8, **ways)
    model = ModelConfig(choose(ENCODERS, "bert", **more))
    config = PretrainingConfig(model=model, train_data=data)
    return pretraining_batches(data, config), config


def measure(records: str, way: str, dropout: float, steps: int = STEPS) -> dict:
    import jax

    from pretrain.data import prefetch
    from pretrain.settings.schema import ExperimentConfig, RuntimeConfig
    from pretrain.tasks.pretraining import PretrainingTask
    from pretrain.training.jax_engine import JaxEngine

    data, config = batches_of(records, way, attention_probs_dropout_prob=dropout, hidden_dropout_prob=0.1)
    plain, _ = batches_of(records, "padded")
    task = PretrainingTask(config)
    runtime = RuntimeConfig(distribution_strategy="one_device", mixed_precision_dtype="bfloat16")
    engine = JaxEngine(task, ExperimentConfig(task=config, runtime=runtime), train_steps=100_000)
    data = data.for_host(0, 1, engine.max_lengths)
    shapes: dict[str, int] = {}
    real = places = 0

    def prepare(step):
        nonlocal real, places
        batch = data.batch(step)
        real += int(batch["input_mask"].sum())
        places += batch["input_mask"].size
        shape = "x".join(map(str, batch["input_ids"].shape))
        shapes[shape] = shapes.get(shape, 0) + 1
        return engine.place(batch), task.denominators(batch)

    seconds = []
    for turn in range(2):
        real = places = 0
        shapes.clear()
        begun = time.perf_counter()
        for step, (batch, denominators) in prefetch(prepare, range(steps), 8):
            statistics = engine.train_step(turn * steps + step, batch, denominators)
        jax.block_until_ready(statistics)
        seconds.append(time.perf_counter() - begun)
    memory = jax.local_devices()[0].memory_stats() or {}
    mask = [plain.batch(step)["input_mask"] for step in range(steps)]
    return {
        "tokens_per_second": real / seconds[1],
        "step_ms": seconds[1] / steps * 1e3,
        "first_s": seconds[0],
        "padding": 1 - real / places,
        "peer_padding": 1 - sum(each.sum() for each in mask) / sum(each.size for each in mask),
        "shapes": shapes,
        "memory_gib": memory.get("peak_bytes_in_use", 0) / 2**30,
        "loss": float(statistics["masked_lm_loss"]) / float(statistics["masked_lm_weight"]),
    }


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], float(sys.argv[3]), *map(int, sys.argv[4:]))))
