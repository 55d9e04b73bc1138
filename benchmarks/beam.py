"""create-pretraining on Beam's DirectRunner against the local executor: CPU and peak memory.

    python benchmarks/beam.py --tokenizer spm.model corpus/*.txt

The first 20 and 80 MB of the text (repeated where it is shorter) go through both commands, sequences of 128 tokens,
one duplicate, sentence order. CPU seconds are those of whole processes, start and Beam's import included.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
from benchmarks.measure import Report, run_command  # noqa: E402

TARGETS = {"DirectRunner": "<= 1.3"}
COMMANDS = {"local": ["--workers=1"], "DirectRunner": ["--runner=DirectRunner"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[20, 80])
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    text = b"\n\n".join(path.read_bytes() for path in given.files)
    report = Report(TARGETS)
    for megabytes in given.megabytes:
        with tempfile.TemporaryDirectory() as folder:
            corpus, size = Path(folder, "corpus.txt"), megabytes * 1_000_000
            corpus.write_bytes((text * -(-size // len(text)))[:size].decode("utf-8", "ignore").encode())
            costs = {name: [] for name in COMMANDS}
            for number in range(given.rounds):
                for name, more in COMMANDS.items():
                    output = Path(folder, f"{number}-{name}", "t.tfrecord")
                    argv = [sys.executable, "-m", "nlpdata", "create-pretraining", "--input", str(corpus), "--quiet"]
                    argv += ["--tokenizer", given.tokenizer, "--output", str(output), "--dupe-factor=1"]
                    costs[name].append(run_command([*argv, "--max-seq-length=128", *more], ROOT))
        best = {name: min(found, key=lambda cost: cost.cpu) for name, found in costs.items()}
        for name, cost in best.items():
            report.add(f"{name}, {megabytes} MB", f"{cost.cpu:.1f} CPU s, {cost.wall:.1f} s, {cost.peak:.0f} MB")
        ratio = best["DirectRunner"].cpu / best["local"].cpu
        report.add(f"DirectRunner / local, CPU, {megabytes} MB", f"{ratio:.2f}", ratio, "DirectRunner")
    print(report)


if __name__ == "__main__":
    main()
