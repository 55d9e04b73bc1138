"""What create-pretraining costs, as ratios to encoding the same text with its tokenizer, all measured in one run.

    python benchmarks/create_pretraining.py                                  # English in ../shared/data/ospl
    python benchmarks/create_pretraining.py --input 'corpus/en/*.txt' --other 'ja=corpus/ja/*.txt'

CPU seconds (user and system) count, not wall time: the machine may be shared. Whatever is compared is measured in turn,
in the same rounds; the medians are printed. Raw encode = Tokenizer.normalize + encode_normalized over the same lines in
the same blocks, one thread.
"""

import argparse
import gzip
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
from measure import Stages, cpu_of, in_turn, run_command, table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nlpdata.corpus import find_files, plan_chunks, read_blocks  # noqa: E402
from nlpdata.pretraining import assemble, build, create  # noqa: E402
from nlpdata.pretraining.options import PretrainingOptions  # noqa: E402
from nlpdata.spill import Merge, SpillWriter  # noqa: E402
from nlpdata.tfrecord import ShardWriter  # noqa: E402
from nlpdata.tokenizers import load_tokenizer  # noqa: E402
from nlpdata.tokenizers.training import train_tokenizer  # noqa: E402

DATA = ROOT.parent / "shared" / "data" / "ospl"
ENGLISH = ("debian-handbook.en-US", "gutenberg_chapters_dev", "imdb_unsup_dev_3000")
OTHERS = {"ja": "debian-handbook.ja-JP", "zh": "debian-handbook.zh-CN", "ar": "debian-handbook.ar-MA"}
LENGTHS = (128, 512)
TARGETS = {
    "core": 1.8,
    "command": 2.2,
    "duplicate": 0.5,
    "normalize": 0.15,
    "encoder": 6.0,
    "memory": 400,
    "workers": 1.6,
}


class Corpus:
    """Text files and a tokenizer for them; all lines in memory, in the blocks in which they are read."""

    def __init__(self, patterns, tokenizer: Path):
        self.patterns, self.tokenizer_path = [str(pattern) for pattern in patterns], tokenizer
        self.tokenizer = load_tokenizer(tokenizer)
        self.files, _ = find_files(self.patterns)
        self.size = sum(file.size for file in self.files)
        chunk_bytes = min(max(self.size // 8, create.MIN_CHUNK_BYTES), create.MAX_CHUNK_BYTES)
        self.chunks = plan_chunks(self.files, chunk_bytes)
        self.blocks = [block.lines for chunk in self.chunks for block in read_blocks(chunk)]

    def encode_raw(self) -> None:
        for lines in self.blocks:
            self.tokenizer.encode_normalized(self.tokenizer.normalize(lines))

    def encode_plain(self) -> None:
        model = self.tokenizer._model
        for lines in self.blocks:
            model.encode(lines, return_type="numpy", num_threads=1)

    def normalize(self) -> None:
        for lines in self.blocks:
            self.tokenizer.normalize(lines)

    def keyed(self, options: PretrainingOptions, stages: Stages):
        """What build_examples yields of all chunks, in this process."""
        recipe = build.Recipe(options, self.tokenizer)
        for number, chunk in enumerate(self.chunks):
            blocks = stages.iterate("read", read_blocks(chunk))
            yield from build.build_examples(blocks, chunk.file, number, recipe, Counter())


def core_stages(corpus: Corpus, options: PretrainingOptions) -> dict[str, float]:
    """CPU seconds of the core by stage: records are made and thrown away."""
    stages = Stages()
    targets = [
        (type(corpus.tokenizer), "encode", "tokenize"),
        (build._Builder, "_cut", "cut"),
        (build, "make_columns", "lay out"),
        (assemble, "mask_batch", "mask"),
        (build, "encode_examples", "encode"),
    ]
    with stages.patched(targets), stages.stage("other"):
        for _ in corpus.keyed(options, stages):
            pass
    return stages.seconds


def disk_stages(corpus: Corpus, options: PretrainingOptions, folder: Path) -> dict[str, float]:
    """CPU seconds of sorting to runs and of merging them to a shard."""
    stages, spill = Stages(), SpillWriter(folder / "spill")
    for item in corpus.keyed(options, Stages()):
        with stages.stage("spill"):
            spill.add(item.sort_keys, item.ties, item.payload, item.lengths)
    with stages.stage("spill"):
        spill.flush()
    with stages.stage("merge"), ShardWriter(folder / "shard.tfrecord") as writer:
        for _, _, lengths, payload in Merge(spill.runs).read():
            writer.write(payload, len(lengths))
    for path in folder.iterdir():
        path.unlink()
    return stages.seconds


def command(corpus: Corpus, folder: Path, workers: int = 1, **options):
    """One run of the command, into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    argv = [sys.executable, "-m", "nlpdata", "create-pretraining", "--input", *corpus.patterns]
    argv += ["--tokenizer", str(corpus.tokenizer_path), "--output", str(folder / "records.tfrecord"), "--quiet"]
    for name, value in {"workers": workers, **options}.items():
        argv += [f"--{name.replace('_', '-')}", str(value)]
    cost = run_command(argv, ROOT)
    shutil.rmtree(folder)
    return cost


class Report:
    """Rows of the table: what, measured, target, met or short."""

    def __init__(self):
        self.rows: list[list[str]] = []

    def add(self, what: str, value: str, number: float | None = None, target: str | None = None) -> None:
        print(f"{what}: {value}", file=sys.stderr, flush=True)
        if target is None:
            self.rows.append([what, value, "", ""])
            return
        limit = TARGETS[target]
        at_least = target in ("encoder", "workers")
        met = number >= limit if at_least else number <= limit
        self.rows.append([what, value, f"{'>=' if at_least else '<='} {limit:g}", "met" if met else "short"])

    def __str__(self) -> str:
        return table(["what", "measured", "target", ""], self.rows)


def measure_encode(corpus: Corpus, report: Report, rounds: int, name: str = "") -> None:
    costs = in_turn(
        {
            "raw": lambda: cpu_of(corpus.encode_raw),
            "plain": lambda: cpu_of(corpus.encode_plain),
            "normalize": lambda: cpu_of(corpus.normalize),
        },
        rounds,
    )
    share = costs["normalize"] / costs["plain"]
    report.add(f"{name}text", f"{corpus.size / 1e6:.1f} MB")
    report.add(f"{name}raw encode", f"{costs['raw']:.2f} s = {corpus.size / 1e6 / costs['raw']:.2f} MB/CPU s")
    report.add(f"{name}plain encode, text as it is", f"{costs['plain']:.2f} s")
    report.add(f"{name}normalisation / plain encode", f"{share:.3f}", share, "normalize")


def measure_length(corpus: Corpus, report: Report, length: int, args, name: str = "", full: bool = True) -> None:
    """Core and command at one sequence length, against raw encode in the same rounds."""
    stage_runs: list[dict[str, float]] = []

    def core(dupe: int, objective: str = "sop") -> float:
        options = PretrainingOptions(objective=objective, max_seq_length=length, dupe_factor=dupe)
        stages = core_stages(corpus, options)
        if dupe == 1 and objective == "sop":
            stage_runs.append(stages)
        return sum(stages.values())

    def whole(dupe: int, objective: str = "sop") -> float:
        return command(corpus, args.work / "run", max_seq_length=length, dupe_factor=dupe, objective=objective).cpu

    functions = {"raw": lambda: cpu_of(corpus.encode_raw), "core": lambda: core(1), "whole": lambda: whole(1)}
    if full:
        functions |= {
            "core 3": lambda: core(3),
            "raw again": lambda: cpu_of(corpus.encode_raw),
            "whole 3": lambda: whole(3),
            "core none": lambda: core(1, "none"),
            "whole none": lambda: whole(1, "none"),
            "whole nsp": lambda: whole(1, "nsp"),
        }
    costs = in_turn(functions, args.rounds)
    raw = costs["raw"]
    head = f"{name}{length}: "
    for key, label, target in (
        ("core", "core, sop / raw", "core"),
        ("whole", "command, sop / raw", "command"),
        ("core none", "core, none / raw", "core"),
        ("whole none", "command, none / raw", "command"),
        ("whole nsp", "command, nsp / raw", "command"),
    ):
        if key in costs:
            report.add(head + label, f"{costs[key] / raw:.2f}", costs[key] / raw, target)
    if full:
        for key, label in (("core", "core"), ("whole", "command")):
            each = (costs[f"{key} 3"] - costs[key]) / 2 / raw
            report.add(f"{head}each further duplicate, {label} / raw", f"{each:.2f}", each, "duplicate")
        folder = args.work / "stages"
        folder.mkdir(exist_ok=True)
        disk = disk_stages(corpus, PretrainingOptions(max_seq_length=length, dupe_factor=1), folder)
        names = ["read", "tokenize", "cut", "lay out", "mask", "encode", "other"]
        shares = {key: float(np.median([run.get(key, 0.0) for run in stage_runs])) / raw for key in names}
        shares |= {key: value / raw for key, value in disk.items()}
        report.add(f"{head}stages / raw", "  ".join(f"{key} {value:.2f}" for key, value in shares.items()))


def measure_startup(report: Report, rounds: int) -> None:
    code = "import nlpdata.cli, nlpdata.pretraining.create, nlpdata.tokenizers.sentencepiece"
    costs = in_turn({"start": lambda: run_command([sys.executable, "-c", code], ROOT).cpu}, rounds)
    report.add("start-up of the command, in its figures", f"{costs['start']:.2f} s")


def measure_memory(corpus: Corpus, report: Report, args) -> None:
    one, two = (
        [command(corpus, args.work / "run", workers=n, max_seq_length=128, dupe_factor=3) for _ in range(args.rounds)]
        for n in (1, 2)
    )
    workers = [peak for cost in two for peak in cost.children_peak]
    worker = max([cost.peak for cost in one] + workers)
    report.add("peak RSS of a worker, 128, dupe 3", f"{worker:.0f} MB", worker, "memory")
    ratio = min(cost.wall for cost in one) / min(cost.wall for cost in two)
    report.add("2 workers / 1, wall (needs an idle machine)", f"{ratio:.2f}x", ratio, "workers")


def measure_encoder(corpus: Corpus, report: Report, length: int, rounds: int) -> None:
    """Example encoding against protobuf on the same columns, byte for byte the same."""
    try:
        from tensorflow.core.example import example_pb2
    except ImportError:
        return
    recipe = build.Recipe(PretrainingOptions(max_seq_length=length, dupe_factor=1), corpus.tokenizer)
    taken: list[dict] = []
    original = build.encode_examples
    build.encode_examples = lambda features, columns: taken.append(columns) or original(features, columns)
    try:
        chunk = corpus.chunks[0]
        next(iter(build.build_examples(read_blocks(chunk), chunk.file, 0, recipe, Counter())))
    finally:
        build.encode_examples = original
    columns = taken[0]
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

    payload, sizes = original(recipe.features, columns)
    starts = np.cumsum(sizes) - sizes
    ours = [payload[a + 12 : a + n - 4] for a, n in zip(starts.tolist(), sizes.tolist(), strict=True)]
    assert ours == protobuf()
    costs = in_turn(
        {"ours": lambda: cpu_of(lambda: original(recipe.features, columns)), "protobuf": lambda: cpu_of(protobuf)},
        max(rounds, 5),
    )
    ratio = costs["protobuf"] / costs["ours"]
    value = f"{ratio:.1f}x ({costs['ours'] / count * 1e6:.1f} us, protobuf {costs['protobuf'] / count * 1e6:.1f} us)"
    report.add(f"{length}: Example encoding, framed, against protobuf", value, ratio, "encoder")


def default_input(names, folder: Path) -> list[Path]:
    """The named files of the data folder, decompressed into `folder`: chunks by byte ranges need plain files."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name in names:
        path = folder / f"{name}.txt"
        if not path.exists():
            path.write_bytes(gzip.decompress((DATA / f"{name}.txt.gz").read_bytes()))
        paths.append(path)
    return paths


def trained(patterns, work: Path, name: str, vocab_size: int) -> Path:
    """A SentencePiece vocabulary of the text itself, made once."""
    output = work / f"{name}-{vocab_size}"
    if not output.with_suffix(".model").exists():
        print(f"training a vocabulary of {vocab_size} pieces for {name} ...", file=sys.stderr)
        train_tokenizer([str(pattern) for pattern in patterns], output, vocab_size=vocab_size, hard_vocab_limit=False)
    return output.with_suffix(".model")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", nargs="+", help="English text files or patterns")
    parser.add_argument("--name", default="en", help="of the input: its vocabulary is kept under this name")
    parser.add_argument("--tokenizer", type=Path, help="SentencePiece model; default: 30,000 pieces of the input")
    parser.add_argument("--other", nargs="*", metavar="NAME=PATTERN", help="text in other languages, shorter rows")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir(), "nlpdata-benchmark"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    parser.add_argument("--quick", action="store_true", help="core and command of sop only")
    args = parser.parse_args()
    args.work = args.work.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    patterns = args.input or default_input(ENGLISH, args.work / "text")
    corpus = Corpus(patterns, args.tokenizer or trained(patterns, args.work, args.name, 30000))
    report = Report()
    measure_encode(corpus, report, args.rounds)
    measure_startup(report, args.rounds)
    for length in args.lengths:
        measure_length(corpus, report, length, args, full=not args.quick)
        if not args.quick:
            measure_encoder(corpus, report, length, args.rounds)
    if not args.quick:
        measure_memory(corpus, report, args)
    others = [item.partition("=")[::2] for item in args.other or []]
    if args.other is None and not args.quick and DATA.is_dir():
        others = [(name, *default_input([stem], args.work / "text")) for name, stem in OTHERS.items()]
    for name, pattern in others:
        other = Corpus([pattern], trained([pattern], args.work, name, 8000))
        measure_encode(other, report, args.rounds, f"{name} ")
        for length in args.lengths:
            measure_length(other, report, length, args, f"{name} ", full=False)
    print(report)


if __name__ == "__main__":
    main()
