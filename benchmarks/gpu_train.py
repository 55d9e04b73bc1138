"""Pretraining steps on GPUs: ours on JAX against Hugging Face transformers with torch.compile, on the same card, in turn.

    python benchmarks/gpu_train.py bert-128 --peer-python /path/to/python      a stage an invocation
    python benchmarks/gpu_train.py two-gpus | plain
    python benchmarks/gpu_train.py curve | loader --records 'out/train.tfrecord*'

    bert-128, bert-512, albert-128   batch 256 x 128 or 64 x 512, bf16, hidden dropout 0.1, attention dropout 0 and (BERT) 0.1
    plain                            the same BERT steps without the fast path
    two-gpus                         BERT on two GPUs, twice the batch, against one; whether both have the same weights then
    packed --records RECORDS         short records: ours in packed rows, transformers padded and grouped by length
    memory                           largest batches of BERT-large and ALBERT-xxlarge at 512, with gradient_checkpointing too
    albert --records RECORDS --held-out RECORDS    a small ALBERT pretrained for equal time, three seeds (gpu_train_albert.py)
    glue --weights MINILM --data GLUE    fine-tuning against transformers on the same card, five seeds (gpu_train_glue.py)
    kernels                          values and gradients of the kernels against plain operations, at those sizes
    curve                            500 steps on records: fast path and plain path, same weights and order, several dropouts
    loader                           batches a second of the loader, dynamic masking, and what the step consumes

Every program runs in a process of its own, one after the other. `stock` scores all positions, as the library does; `gathered`
scores the masked ones only. A step is the median of four rounds of ten, after eight.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SIZES = {"bert-128": ("bert", 256, 128), "bert-512": ("bert", 64, 512), "albert-128": ("albert", 256, 128)}
PEERS = {  # stage -> (head, attention dropout) of the peers, and what we must reach of their tokens a second
    "bert-128": {("stock", 0.0): 1.3, ("gathered", 0.0): 1.1, ("stock", 0.1): 1.15},
    "bert-512": {("stock", 0.0): 1.3, ("gathered", 0.0): 1.1, ("stock", 0.1): 1.15},
    "albert-128": {("stock", 0.0): 1.2, ("gathered", 0.0): 1.05},
}


def ours(encoder: str, batch: int, length: int, *options) -> dict:
    """What gpu_train_ours.py prints."""
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": _path()}
    command = [sys.executable, str(HERE / "gpu_train_ours.py"), encoder, str(batch), str(length), *map(str, options)]
    done = subprocess.run([*command, "--started", str(time.time())], env=environment, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    return json.loads(done.stdout.splitlines()[-1])


def _path() -> str:
    return os.pathsep.join([str(HERE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])


def peer(python: str, head: str, encoder: str, batch: int, length: int, dropout: float) -> float:
    """Milliseconds a step of gpu_train_peer.py."""
    command = [python, str(HERE / "gpu_train_peer.py"), head, encoder, str(batch), str(length), str(dropout)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    print(f"  {done.stdout.strip()}", flush=True)
    return float(re.search(r"([\d.]+) ms/step", done.stdout)[1])


def show(name: str, result: dict, ceiling: float) -> None:
    print(
        f"  ours {name}: {result['step_ms']:.1f} ms/step (range {result['spread_ms']:.1f}), "
        f"{result['tokens_per_second'] / 1e3:.0f}k tok/s, {result['tflops']:.0f} TFLOP/s a GPU = "
        f"{result['tflops'] * 1e12 / ceiling:.0%} of the ceiling, {result['memory_gib']:.1f} GiB, start {result['start_s']:.0f} s, "
        f"first step {result['first_step_s']:.0f} s, loss {result['loss']:.3f}",
        flush=True,
    )


def compare(stage: str, python: str) -> None:
    size = SIZES[stage]
    ceiling = matmul_ceiling()
    dropouts = sorted({dropout for _, dropout in PEERS[stage]})
    mine = {}
    for dropout in dropouts:
        mine[dropout] = ours(*size, "--attention_dropout", dropout)
        show(f"{stage}, attention dropout {dropout}", mine[dropout], ceiling)
    for (head, dropout), target in PEERS[stage].items():
        ratio = peer(python, head, *size, dropout) / mine[dropout]["step_ms"]
        print(
            f"  {head} ({dropout}): ours {ratio:.2f}x, target {target}x{'' if ratio >= target else '  MISSED'}",
            flush=True,
        )


def plain() -> None:
    ceiling = matmul_ceiling()
    for stage in ("bert-128", "bert-512"):
        for dropout in (0.0, 0.1):
            show(f"{stage}, {dropout}, plain", ours(*SIZES[stage], "--attention_dropout", dropout, "--plain"), ceiling)


def two_gpus() -> None:
    ceiling = matmul_ceiling()
    for stage in ("bert-128", "bert-512"):
        encoder, batch, length = SIZES[stage]
        one = ours(encoder, batch, length)
        two = ours(encoder, 2 * batch, length, "--devices", 2)
        show(f"{stage}, one GPU", one, ceiling)
        show(f"{stage}, two GPUs", two, ceiling)
        if two["replicas_differ_in"]:
            print(f"  NOT EQUAL: {two['replicas_differ_in']} arrays of the state of the two GPUs", flush=True)
        ratio = two["tokens_per_second"] / one["tokens_per_second"]
        print(f"  two / one: {ratio:.2f}x, target 1.9x{'' if ratio >= 1.9 else '  MISSED'}", flush=True)


def check_kernels() -> None:
    """Sizes in processes of their own, all at once."""
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join([str(HERE), _path()])}
    environment["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
    code = "import sys, gpu_train_kernels as own; sys.exit(0 if own.compare_all(sys.argv[1:]) else 3)"
    names = ("base", "float16", "odd", "large", "small")
    started = [subprocess.Popen([sys.executable, "-c", code, name], env=environment) for name in names]
    codes = [each.wait() for each in started]
    if set(codes) - {0, 3}:
        raise SystemExit(f"kernels failed: {codes}")
    print("  NOT EQUAL" if any(codes) else "  equal within the rounding of the precision", flush=True)


def matmul_ceiling() -> float:
    """FLOP/s of a bf16 matrix product, measured in a process of its own."""
    code = "from gpu_train_ours import ceiling; print(ceiling())"
    environment = {**os.environ, "KERAS_BACKEND": "jax", "PYTHONPATH": os.pathsep.join([str(HERE), _path()])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    value = float(done.stdout.split()[-1])
    print(f"  ceiling: {value / 1e12:.0f} TFLOP/s (bf16, 8192 square)", flush=True)
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "stage",
        choices=[*SIZES, "plain", "two-gpus", "kernels", "curve", "loader", "packed", "memory", "albert", "glue"],
    )
    parser.add_argument("--peer-python", default=sys.executable, help="interpreter with torch and transformers")
    parser.add_argument(
        "--records",
        default="",
        help="records of curve, loader, packed and albert: a pattern, in a folder with their meta file",
    )
    parser.add_argument("--held-out", default="", help="albert: records to evaluate on")
    parser.add_argument("--seconds", type=float, default=180, help="albert: time of each run")
    parser.add_argument("--weights", default="", help="glue: folder of a Hugging Face model")
    parser.add_argument("--data", default="", help="glue: folder of the GLUE tasks")
    parser.add_argument("--work", default="/tmp/gpu_train_glue", help="glue: folder of records and runs")
    parser.add_argument("--seeds", type=int, help="runs of each task of glue (5), or of each side of albert (3)")
    options = parser.parse_args()
    print(options.stage, flush=True)
    if options.stage in SIZES:
        compare(options.stage, options.peer_python)
    elif options.stage == "plain":
        plain()
    elif options.stage == "two-gpus":
        two_gpus()
    elif options.stage == "kernels":
        check_kernels()
    elif options.stage == "packed":
        import gpu_train_packed

        gpu_train_packed.packed(options.records, options.peer_python)
    elif options.stage == "memory":
        import gpu_train_memory

        gpu_train_memory.memory()
    elif options.stage == "albert":
        import gpu_train_albert

        gpu_train_albert.albert(
            options.records, options.held_out, options.peer_python, options.seconds, options.seeds or 3
        )
    elif options.stage == "glue":
        import gpu_train_glue

        gpu_train_glue.glue(options.weights, options.data, options.work, options.seeds or 5)
    else:
        import gpu_train_records

        getattr(gpu_train_records, options.stage)(options.records)


if __name__ == "__main__":
    main()
