"""The stage `packed` of gpu_train.py: BERT-base on short records of 512, ours packed against transformers padded and grouped.

    python benchmarks/gpu_train_packed.py RECORDS grouped|packed ATTENTION_DROPOUT      # one of ours, JSON

A step has 128 examples on both sides, and tokens are real ones. Processes compile all at once, say "ready", and are timed one
after the other. Ours reads the records while it trains; the peer has its batches on the card before, a process for each length.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
BATCH, STEPS, TURNS = 128, 40, 3
BUCKETS = 8  # lengths of grouped batches: multiples of 64
AT_ONCE = 1600  # lengths of the peers that compile at once, summed: about 60 MB each
PADDED, GROUPED = 1.2, 1.2  # times the padded peer's tokens, and times the grouped peer's


def packed(records: str, python: str) -> None:
    """Prints padding, lengths and tokens a second of each way, and whether ours are high enough."""
    describe(records)
    counts = lengths_of(records)
    ways = [("packed", 0.1), ("packed", 0.0), ("grouped", 0.1)]
    found = in_turn({job: Waiting([sys.executable, _OURS, records, *job]) for job in ways})
    for (way, rate), result in found.items():
        _show_ours(way, rate, result)
    waiting = [(512, 0.0), *((length, 0.1) for length in sorted({*counts, 512}, reverse=True))]
    timed: dict[tuple, dict] = {}
    while waiting:  # as many at once as fit on the card
        group = [waiting.pop(0)]
        while waiting and sum(length for length, _ in (*group, waiting[0])) <= AT_ONCE:
            group.append(waiting.pop(0))
        timed |= in_turn({job: Waiting([python, _PEER, records, *job]) for job in group})
    for way, rate in (("padded", 0.1), ("grouped", 0.1), ("padded", 0.0)):
        _compare(found["packed", rate], timed, counts if way == "grouped" else {512: STEPS}, rate, way)


def _compare(ours: dict, timed: dict, counts: dict, rate: float, way: str) -> None:
    """The peer's time for these numbers of batches of each length."""
    real = ours["real"]
    padding = 1 - real / sum(BATCH * length * count for length, count in counts.items())
    # The first target is in tokens of the padded peer, of which padding is a part: 1.2 / (1 - padding) times its real ones.
    target = PADDED / (1 - padding) if way == "padded" else GROUPED
    for how in ("compiled", "eager"):
        seconds = sum(timed[length, rate][how] * count for length, count in counts.items())
        ratio = ours["tokens_per_second"] / (real / seconds)
        print(
            f"  HF {way}, {how}, attention dropout {rate}: {real / seconds / 1e3:.0f}k real tok/s, "
            f"{seconds / STEPS * 1e3:.1f} ms/step, padding {padding:.1%}; ours {ratio:.2f}x, target {target:.2f}x"
            f"{'' if ratio >= target else '  MISSED'}",
            flush=True,
        )


class Waiting:
    """A program that prints "ready" when it has compiled, goes on at a line of its input, and prints a JSON object at the end."""

    def __init__(self, command: list):
        self._command = list(map(str, command))
        self._process = subprocess.Popen(
            self._command, env=_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ready(self) -> None:
        """Waits until it is ready."""
        while (line := self._process.stdout.readline()).strip() != "ready":
            if not line:
                raise SystemExit(f"{' '.join(self._command)} failed")

    def go(self) -> None:
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def result(self) -> dict:
        """What it printed last, when it has ended."""
        out, _ = self._process.communicate()
        if self._process.returncode:
            raise SystemExit(f"{' '.join(self._command)} failed")
        return json.loads(out.splitlines()[-1])


def in_turn(programs: dict) -> dict:
    """The results of these programs, which go one after the other when all are ready."""
    for each in programs.values():
        each.ready()
    results = {}
    for name, each in programs.items():
        each.go()
        results[name] = each.result()
    return results


def wait_for_turn() -> None:
    """The other side of Waiting."""
    print("ready", flush=True)
    sys.stdin.readline()


_OURS, _PEER = HERE / "gpu_train_packed.py", HERE / "gpu_train_packed_peer.py"


def lengths_of(records: str) -> dict[int, int]:
    """How many of the batches grouped by length have each length."""
    data = batches_of(records, "grouped")[0].for_host(0, 1, BUCKETS)
    lengths = [data.batch(step)["input_ids"].shape[1] for step in range(STEPS)]
    return {length: lengths.count(length) for length in lengths}


def _show_ours(way: str, rate: float, found: dict) -> None:
    print(
        f"  ours {way}, attention dropout {rate}: {found['tokens_per_second'] / 1e3:.0f}k real tok/s, "
        f"{found['step_ms']:.1f} ms/step, padding {found['padding']:.1%}, shapes {found['shapes']}, compiled in "
        f"{found['compile_s']:.0f} s, {found['memory_gib']:.1f} GiB, loss {found['loss']:.4f}",
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
    own = {"KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join(paths), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
    return {**os.environ, **own}


def batches_of(records: str, way: str, **more):
    """Training batches of 128 examples: padded, grouped or packed."""
    from pretrain.data import pretraining_batches
    from pretrain.registry import ENCODERS
    from pretrain.settings.data_section import DataConfig
    from pretrain.settings.fields import choose
    from pretrain.settings.schema import ModelConfig
    from pretrain.tasks.configs import PretrainingConfig

    ways = {"group_by_length": way == "grouped", "pack_sequences": way == "packed"}
    data = DataConfig(input_path=records, global_batch_size=BATCH, prefetch_buffer_size=8, **ways)
    model = ModelConfig(choose(ENCODERS, "bert", **more))
    config = PretrainingConfig(model=model, train_data=data)
    return pretraining_batches(data, config), config


def measure(records: str, way: str, dropout: float) -> dict:
    import jax

    from pretrain.data import prefetch
    from pretrain.settings.schema import ExperimentConfig, RuntimeConfig
    from pretrain.tasks.pretraining import PretrainingTask
    from pretrain.training.engines.jax_engine import JaxEngine

    data, config = batches_of(records, way, attention_probs_dropout_prob=dropout, hidden_dropout_prob=0.1)
    task = PretrainingTask(config)
    runtime = RuntimeConfig(distribution_strategy="one_device", mixed_precision_dtype="bfloat16")
    engine = JaxEngine(task, ExperimentConfig(task=config, runtime=runtime), train_steps=100_000)
    data = data.for_host(0, 1, engine.max_lengths)
    batches = [data.batch(step) for step in range(STEPS)]
    shapes = ["x".join(map(str, batch["input_ids"].shape)) for batch in batches]
    begun = time.perf_counter()
    compile_all(engine, task, {shape: batch for shape, batch in zip(shapes, batches, strict=True)}.values())
    compiled = time.perf_counter() - begun
    real, places = (
        sum(int(count(batch["input_mask"])) for batch in batches) for count in (lambda m: m.sum(), lambda m: m.size)
    )

    def prepare(step):
        batch = data.batch(step % STEPS)
        return engine.place(batch), task.denominators(batch)

    wait_for_turn()
    seconds = []
    for turn in range(TURNS):
        begun = time.perf_counter()
        for step, (batch, denominators) in prefetch(prepare, range(turn * STEPS, (turn + 1) * STEPS), 8):
            statistics_ = engine.train_step(step, batch, denominators)
        jax.block_until_ready(statistics_)
        seconds.append(time.perf_counter() - begun)
    best = statistics.median(seconds)
    memory = jax.local_devices()[0].memory_stats() or {}
    return {
        "tokens_per_second": real / best,
        "step_ms": best / STEPS * 1e3,
        "real": real,
        "compile_s": compiled,
        "padding": 1 - real / places,
        "shapes": {shape: shapes.count(shape) for shape in sorted(shapes)},
        "memory_gib": memory.get("peak_bytes_in_use", 0) / 2**30,
        "loss": float(statistics_["masked_lm_loss"]) / float(statistics_["masked_lm_weight"]),
    }


def compile_all(engine, task, batches) -> None:
    """Compiles the step for the shapes of these batches, several at once, into JAX's cache of compiled steps; then takes each."""
    import jax

    batches = list(batches)
    engine.trace(batches[0], task.denominators(batches[0]))  # places the state
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda batch: engine.compile(batch, task.denominators(batch)), batches))
    for batch in batches:
        jax.block_until_ready(engine.train_step(0, batch, task.denominators(batch)))


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], float(sys.argv[3]))))
