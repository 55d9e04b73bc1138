"""What create-pretraining costs, as ratios to encoding the same text with its tokenizer, all measured in one run.

    python benchmarks/create_pretraining.py --corpus /tmp/nlpdata-corpus              # everything; about 20 minutes
    python benchmarks/create_pretraining.py --corpus ... --parts 128 --rounds 1       # one part of it

`--corpus` is the folder that corpus.py has filled. CPU seconds (user and system) count, not wall time: the machine may
be shared. Whatever is compared is measured in turn, in the same rounds; the medians are printed. Raw encode =
Tokenizer.normalize + encode_normalized over the same lines in the same blocks, one thread.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from measure import CommandCost, Report, cpu_of, in_turn, own_folder, run_command
from preparation import ROOT, Corpus, command, core_stages, disk_stages, trained

from nlpdata import keys
from nlpdata.pretraining.masking import mask_batch
from nlpdata.pretraining.options import PretrainingOptions
from nlpdata.records.encoding import encode_examples

OTHERS = ("ja", "zh", "ar")
PARTS = ("encode", "128", "512", "kernels", "workers", "others")
STAGES = ("read", "tokenize", "cut", "lay out", "mask", "encode", "other")
BATCH = 256  # records that a loader masks at a time
REPEATS = 10  # times that a batch is encoded in a turn: one alone takes some milliseconds
TARGETS = {
    "core": "<= 1.8",
    "command": "<= 2.2",
    "duplicate": "<= 0.5",
    "normalize": "<= 0.15",
    "encoder": ">= 6",
    "memory": "<= 400",
    "workers": ">= 1.6",
}


def measure_encode(corpus: Corpus, report: Report, rounds: int, name: str = "") -> None:
    """Raw encode, what normalisation adds to it, and the start-up of the command."""
    code = "import nlpdata.cli.commands, nlpdata.pretraining.create, nlpdata.tokenizers.sentencepiece"
    costs = in_turn(
        {
            "raw": lambda: cpu_of(corpus.encode_raw),
            "plain": lambda: cpu_of(corpus.encode_plain),
            "normalize": lambda: cpu_of(corpus.normalize),
            "start": lambda: run_command([sys.executable, "-c", code], ROOT).cpu,
        },
        rounds,
    )
    share = costs["normalize"] / costs["plain"]
    report.add(f"{name}text", f"{corpus.size / 1e6:.1f} MB")
    report.add(f"{name}raw encode", f"{costs['raw']:.2f} s = {corpus.size / 1e6 / costs['raw']:.2f} MB/CPU s")
    report.add(f"{name}plain encode, text as it is", f"{costs['plain']:.2f} s")
    report.add(f"{name}normalisation / plain encode", f"{share:.3f}", share, None if name else "normalize")
    if not name:
        report.add("imports of the command, in its figures", f"{costs['start']:.2f} s")


def measure_length(corpus: Corpus, report: Report, length: int, args, name: str = "") -> None:
    """Core and command at one sequence length, against raw encode in the same rounds.

    With `name`, of sop only and without targets: those are for 40 MB of English.
    """
    stage_runs: list[dict[str, float]] = []
    peaks: list[float] = []

    def core(dupe: int = 1, **options) -> float:
        stages = core_stages(corpus, PretrainingOptions(max_seq_length=length, dupe_factor=dupe, **options))
        if dupe == 1 and not options:
            stage_runs.append(stages)
        return sum(stages.values())

    def whole(dupe: int = 1, **options) -> float:
        folder, options = args.work / "run", {"max_seq_length": length, "dupe_factor": dupe, **options}
        cost = command(corpus.patterns, corpus.tokenizer_path, folder, **options)
        peaks.append(cost.peak)
        return cost.cpu

    functions: dict[str, Callable[[], float]] = {"raw": lambda: cpu_of(corpus.encode_raw), "core": core, "sop": whole}
    if not name:
        functions |= {
            "core 3": lambda: core(3),
            "sop 3": lambda: whole(3),
            "nsp": lambda: whole(objective="nsp"),
            "none": lambda: whole(objective="none"),
            "sop, dynamic masking": lambda: whole(masking="dynamic"),
        }
    costs = in_turn(functions, args.rounds)
    raw, head = costs["raw"], f"{name}{length}: "
    report.add(f"{head}raw encode", f"{raw:.2f} s")
    report.ratio(f"{head}core, sop", costs["core"], raw, None if name else "core")
    for key in ("sop", "nsp", "none", "sop, dynamic masking"):
        if key in costs:
            report.ratio(f"{head}command, {key}", costs[key], raw, None if name else "command")
    if name:
        return
    for key, label in (("core", "core"), ("sop", "command")):
        report.ratio(f"{head}each further duplicate, {label}", (costs[f"{key} 3"] - costs[key]) / 2, raw, "duplicate")
    report.add(f"{head}peak RSS of the command, one process", f"{max(peaks):.0f} MB", max(peaks), "memory")
    disk = disk_stages(corpus, PretrainingOptions(max_seq_length=length, dupe_factor=1), args.work / "stages")
    shares = {key: float(np.median([run.get(key, 0.0) for run in stage_runs])) / raw for key in STAGES}
    shares |= {key: value / raw for key, value in disk.items()}
    report.add(f"{head}stages / raw", "  ".join(f"{key} {value:.2f}" for key, value in shares.items()))


def measure_workers(corpus: Corpus, report: Report, args) -> None:
    """Wall time of 2 workers against 1, and what each process takes; the machine must be idle."""
    for dupe in (1, 10):
        best: dict[int, CommandCost] = {}
        for workers in (1, 2) * args.rounds:
            options = {"workers": workers, "max_seq_length": 128, "dupe_factor": dupe}
            cost = command(corpus.patterns, corpus.tokenizer_path, args.work / "run", **options)
            if workers not in best or cost.wall < best[workers].wall:
                best[workers] = cost
        head = f"128: command, sop, dupe {dupe}, "
        for workers, cost in best.items():
            peaks = [cost.peak, *cost.children_peak]
            value = f"{cost.wall:.1f} s wall, {cost.cpu:.1f} CPU s, {' / '.join(f'{peak:.0f}' for peak in peaks)} MB"
            report.add(f"{head}{workers} workers: peak RSS of each process", value, max(peaks), "memory")
        ratio = best[1].wall / best[2].wall
        report.add(f"{head}2 workers / 1, wall", f"{ratio:.2f}x", ratio, "workers")


def measure_encoder(corpus: Corpus, report: Report, length: int, rounds: int) -> None:
    """Example encoding against protobuf on the same columns, byte for byte the same."""
    from tensorflow.core.example import example_pb2

    recipe, columns = corpus.columns(PretrainingOptions(max_seq_length=length, dupe_factor=1))
    count = len(columns["input_mask"])
    lists = {feature.name: columns[feature.name].tolist() for feature in recipe.features}
    dtypes = {feature.name: feature.dtype for feature in recipe.features}

    def protobuf() -> list[bytes]:
        out = []
        for i in range(count):
            example = example_pb2.Example()
            for name, rows in lists.items():
                field = example.features.feature[name]
                (field.float_list if dtypes[name] == "float32" else field.int64_list).value.extend(rows[i])
            out.append(example.SerializeToString(deterministic=True))
        return out

    payload, sizes = encode_examples(recipe.features, columns)
    starts = np.cumsum(sizes) - sizes
    ours = [payload[a + 12 : a + n - 4] for a, n in zip(starts.tolist(), sizes.tolist(), strict=True)]
    assert ours == protobuf()
    costs = in_turn(
        {
            "ours": lambda: (
                cpu_of(lambda: [encode_examples(recipe.features, columns) for _ in range(REPEATS)]) / REPEATS
            ),
            "protobuf": lambda: cpu_of(lambda: [protobuf() for _ in range(REPEATS)]) / REPEATS,
        },
        max(rounds, 5),
    )
    ratio = costs["protobuf"] / costs["ours"]
    value = f"{ratio:.1f}x ({costs['ours'] / count * 1e6:.1f} us, protobuf {costs['protobuf'] / count * 1e6:.1f} us)"
    report.add(f"{length}: Example encoding, framed, against protobuf", value, ratio, "encoder")


def measure_masking(corpus: Corpus, report: Report, length: int, rounds: int) -> None:
    """mask_batch on batches of the arrays that a record of dynamic masking holds."""
    recipe, columns = corpus.columns(PretrainingOptions(max_seq_length=length, dupe_factor=1, masking="dynamic"))
    options = PretrainingOptions(max_seq_length=length, dupe_factor=1)
    rule = type(recipe)(options, corpus.tokenizer).layout.masking
    ids, boundary = (columns[name].astype(np.int64) for name in ("input_ids", "token_boundary"))
    lengths = columns["input_mask"].sum(axis=1, dtype=np.int64)
    example_keys = keys.draw(1, np.arange(len(ids)))
    batches = [slice(at, at + BATCH) for at in range(0, len(ids) - BATCH + 1, BATCH)]

    def mask() -> None:
        for rows in batches:
            mask_batch(ids[rows], lengths[rows], boundary[rows], example_keys[rows], rule)

    cost = in_turn({"mask": lambda: cpu_of(mask)}, max(rounds, 5))["mask"]
    rate = len(batches) * BATCH / cost
    report.add(f"{length}: mask_batch in a loader, batches of {BATCH}", f"{rate:,.0f} examples/s on one core")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="folder that corpus.py has filled")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir(), "nlpdata-benchmark"))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    args = parser.parse_args()
    if not (args.corpus / "manifest.json").exists():
        sys.exit(f"{args.corpus} holds no finished corpus: python benchmarks/corpus.py --output {args.corpus}")
    args.work = own_folder(args.work)
    english = [args.corpus.resolve() / "en" / "*.txt"]
    corpus = Corpus(english, trained(english, args.work, "en", 30000))
    report = Report(TARGETS)
    for part in args.parts:
        if part == "encode":
            measure_encode(corpus, report, args.rounds)
        elif part in ("128", "512"):
            measure_length(corpus, report, int(part), args)
        elif part == "kernels":
            for length in (128, 512):
                measure_encoder(corpus, report, length, args.rounds)
                measure_masking(corpus, report, length, args.rounds)
        elif part == "workers":
            measure_workers(corpus, report, args)
        else:
            for name in OTHERS:
                pattern = [args.corpus.resolve() / name / "*.txt"]
                other = Corpus(pattern, trained(pattern, args.work, name, 8000))
                measure_encode(other, report, 5, f"{name} ")
                for length in (128, 512):
                    measure_length(other, report, length, args, f"{name} ")
    print(report)


if __name__ == "__main__":
    main()
