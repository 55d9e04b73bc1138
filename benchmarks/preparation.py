"""What the benchmarks of data preparation run: a corpus with its tokenizer, the core by stage, the whole command."""

import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from measure import CommandCost, Stages, run_command

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nlpdata.corpus import find_files, plan_portions, read_portion  # noqa: E402
from nlpdata.execution.spill import Merge, SpillWriter  # noqa: E402
from nlpdata.pretraining import assemble, build, plan  # noqa: E402
from nlpdata.pretraining import maker as makers  # noqa: E402
from nlpdata.pretraining.options import PretrainingOptions  # noqa: E402
from nlpdata.records.writer import ShardWriter  # noqa: E402
from nlpdata.tokenizers import load_tokenizer  # noqa: E402
from nlpdata.tokenizers.training.train import train_tokenizer  # noqa: E402


class Corpus:
    """Text files and a tokenizer for them; all lines in memory, in the blocks in which they are read."""

    def __init__(self, patterns, tokenizer: Path):
        self.patterns, self.tokenizer_path = [str(pattern) for pattern in patterns], tokenizer
        self.tokenizer = load_tokenizer(tokenizer)
        self.files, _ = find_files(self.patterns)
        self.size = sum(file.size for file in self.files)
        portion_bytes = min(max(self.size // 8, plan.MIN_PORTION_BYTES), plan.MAX_PORTION_BYTES)
        self.portions = plan_portions(self.files, portion_bytes)
        self.blocks = [block.lines for portion in self.portions for block in read_portion(portion)]

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

    def keyed(self, options: PretrainingOptions, stages: Stages) -> Iterator[makers.Keyed]:
        """What build_examples yields of all portions, in this process."""
        maker = makers.ExampleMaker(options, self.tokenizer)
        for portion in self.portions:
            blocks = stages.iterate("read", read_portion(portion))
            yield from build.build_examples(blocks, maker, Counter())

    def columns(self, options: PretrainingOptions) -> tuple[makers.ExampleMaker, dict]:
        """The maker, and the columns of one batch of records as they go to the encoder."""
        maker, taken = makers.ExampleMaker(options, self.tokenizer), []
        original = makers.encode_examples
        makers.encode_examples = lambda features, columns: taken.append(columns) or original(features, columns)
        try:
            next(iter(build.build_examples(read_portion(self.portions[0]), maker, Counter())))
        finally:
            makers.encode_examples = original
        return maker, taken[0]


def core_stages(corpus: Corpus, options: PretrainingOptions) -> dict[str, float]:
    """CPU seconds of the core by stage: records are made and thrown away."""
    stages = Stages()
    targets = [
        (type(corpus.tokenizer), "encode", "tokenize"),
        (build._Builder, "_cut", "cut"),
        (makers, "make_columns", "lay out"),
        (assemble, "mask_batch", "mask"),
        (makers, "encode_examples", "encode"),
    ]
    with stages.patched(targets), stages.stage("other"):
        for _ in corpus.keyed(options, stages):
            pass
    return stages.seconds


def disk_stages(corpus: Corpus, options: PretrainingOptions, folder: Path) -> dict[str, float]:
    """CPU seconds of sorting to runs and of merging them to a shard."""
    folder.mkdir(exist_ok=True)
    stages, spill = Stages(), SpillWriter(folder / "spill")
    for item in corpus.keyed(options, Stages()):
        with stages.stage("spill"):
            spill.add(item.sort_keys, item.ties, item.payload, item.lengths)
    with stages.stage("spill"):
        spill.flush()
    with stages.stage("merge"), ShardWriter(folder / "shard.tfrecord") as writer:
        for _, _, lengths, payload in Merge(spill.runs).read():
            writer.write(payload, len(lengths))
    shutil.rmtree(folder)
    return stages.seconds


def command(inputs: Sequence[str], tokenizer: Path, folder: Path, workers: int = 1, **options) -> CommandCost:
    """One run of `nlpdata create-pretraining`, into an empty folder that is removed afterwards."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    argv = [sys.executable, "-m", "nlpdata", "create-pretraining", "--input", *inputs]
    argv += ["--tokenizer", str(tokenizer), "--output", str(folder / "records.tfrecord"), "--quiet"]
    for name, value in {"workers": workers, **options}.items():
        argv += [f"--{name.replace('_', '-')}", str(value)]
    cost = run_command(argv, ROOT)
    shutil.rmtree(folder)
    return cost


def trained(patterns, work: Path, name: str, vocab_size: int) -> Path:
    """A SentencePiece vocabulary of the text itself, made once; of a sample of its lines, where it is long."""
    output = work / f"{name}-{vocab_size}"
    if not output.with_suffix(".model").exists():
        print(f"training a vocabulary of {vocab_size} pieces for {name} ...", file=sys.stderr)
        train_tokenizer(
            [str(pattern) for pattern in patterns],
            output,
            vocab_size=vocab_size,
            sample_lines=150_000,
            hard_vocab_limit=False,
        )
    return output.with_suffix(".model")
