"""What many small files cost, compared with one file of the same text: CPU and wall seconds, peak memory, open files.

    python benchmarks/many_files.py                                    # 100,000 files; about 10 minutes, 1 GB of disk
    python benchmarks/many_files.py --files 10000 --only "sop;shards;verify"

Every command runs under a limit of 256 open files. The text is made here: a file is one document of six sentences, a
review, or one line; `shards` are record files of a few records each.
"""

import argparse
import random
import sys
import tempfile
from pathlib import Path

from measure import CommandCost, run_command
from preparation import ROOT

LIMIT = 256  # open files of each process
SHARDS = 5000
SMALL = ["--max-seq-length", "64", "--dupe-factor", "1"]
PRETRAINING = {
    "sop": ["--workers", "1"],
    "sop, 2 workers": ["--workers", "2"],
    "nsp": ["--workers", "1", "--objective", "nsp"],
    "packed": ["--workers", "1", "--objective", "none", "--pack-across-documents", "--masking", "dynamic"],
    "DirectRunner, nsp": ["--runner", "DirectRunner", "--objective", "nsp"],
}
OTHERS = ("wordpiece, 2 workers", "imdb", "shards", "verify", "inspect")


def write_corpus(folder: Path, count: int) -> None:
    """folder/many/*.txt, folder/one.txt with the same text, and folder/aclImdb with at most 50,000 reviews."""
    rng = random.Random(1)
    words = ["".join(rng.choice("aeioutnsrlkmdg") for _ in range(rng.randint(2, 8))) for _ in range(400)]
    (folder / "many").mkdir()
    for label in ("pos", "neg"):
        (folder / "aclImdb" / "train" / label).mkdir(parents=True)
    with open(folder / "one.txt", "w") as one:
        for number in range(count):
            lines = [" ".join(rng.choices(words, k=rng.randint(3, 12))) for _ in range(6)]
            text = "\n".join(lines) + "\n\n"
            (folder / "many" / f"{number:06d}.txt").write_text(text)
            one.write(text)
            if number < 50_000:
                review = folder / "aclImdb" / "train" / ("pos", "neg")[number % 2] / f"{number}_5.txt"
                review.write_text(" ".join(lines))


def nlpdata(*words) -> CommandCost:
    """Runs an nlpdata command under the limit of open files."""
    limited = ["bash", "-c", f'ulimit -n {LIMIT}; exec "$@"', "limited"]
    return run_command([*limited, sys.executable, "-m", "nlpdata", *map(str, words)], ROOT)


def measure(folder: Path, name: str, source: str) -> CommandCost:
    tokenizer, output = folder / "vocab.txt", folder / "out"
    to = ["--tokenizer", tokenizer, "--output", output / "x.tfrecord", "--overwrite", "--quiet", *SMALL]
    if name in PRETRAINING:
        return nlpdata("create-pretraining", "--input", source, *to, *PRETRAINING[name])
    if name == "imdb":
        flags = ["--tokenizer", tokenizer, "--output", folder / "imdb", "--overwrite", "--max-seq-length", 64]
        return nlpdata("create-finetuning", "--task", "imdb", "--input", folder / "aclImdb", *flags)
    if name == "shards":
        return nlpdata("create-pretraining", "--input", source, *to, "--workers", 1, "--num-shards", SHARDS)
    if name in ("verify", "inspect"):
        return nlpdata(name, f"{output}/x.tfrecord*")
    flags = ["--type", "wordpiece", "--vocab-size", 400, "--output", folder / "v", "--overwrite", "--workers", 2]
    return nlpdata("train-tokenizer", "--input", source, *flags)


def show(name: str, what: str, cost: CommandCost) -> None:
    peak = max([cost.peak, *cost.children_peak])
    row = f"{name:24s} {what:10s} {cost.cpu:8.1f} CPU s {cost.wall:8.1f} s {peak:6.0f} MB {cost.open_files:4d} open"
    print(row, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--only", help="rows, with semicolons between them", default=";".join([*PRETRAINING, *OTHERS]))
    parser.add_argument("--work", help="folder for the temporary files")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.work) as folder:
        folder = Path(folder)
        write_corpus(folder, args.files)
        flags = ["--type", "wordpiece", "--vocab-size", 400, "--output", folder / "vocab"]
        nlpdata("train-tokenizer", "--input", folder / "one.txt", *flags)
        size = (folder / "one.txt").stat().st_size
        print(f"{args.files} files, {size / 1e6:.1f} MB; at most {LIMIT} open files")
        for name in args.only.split(";"):
            if name in PRETRAINING or name == "wordpiece, 2 workers":
                show(name, "one file", measure(folder, name, str(folder / "one.txt")))
            show(name, "many files", measure(folder, name, f"{folder}/many/*.txt"))


if __name__ == "__main__":
    main()
