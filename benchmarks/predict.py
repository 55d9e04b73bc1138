"""Prints what predictions of a classifier cost: batches of one length against batches in the order of the rows, and transformers.

    python benchmarks/predict.py --model_dir MODEL --input texts.txt --rows 2000 --peer PYTHON

MODEL is a Hugging Face folder of a classifier; PYTHON an interpreter with torch and transformers, whose pipeline is then
compared. All take the same rows, in turn. Loading, tracing and a first batch of each shape are not counted.
"""

import argparse
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np
from measure import cpu_of, in_turn, table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import pretrain  # noqa: E402
from pretrain.prediction.batching import Batching, Example  # noqa: E402
from pretrain.prediction.computation import logits_of  # noqa: E402
from pretrain.prediction.rows import Row  # noqa: E402
from pretrain.prediction.sentences import encoded  # noqa: E402

PEER = """
import sys, time
from transformers import pipeline
rows = open(sys.argv[2], encoding="utf-8").read().splitlines()[: int(sys.argv[3])]
classify = pipeline("text-classification", sys.argv[1], device=-1)
options = {"truncation": True, "max_length": int(sys.argv[4]), "batch_size": int(sys.argv[5])}
classify(rows[:64], **options)
start = time.process_time()
classify(rows, **options)
print(time.process_time() - start)
"""


def in_order(examples: list[Example], size: int) -> Iterator[list[Example]]:
    """Batches in the order of the rows."""
    rows = iter(examples)
    while batch := list(islice(rows, size)):
        yield batch


def padded(compute: Callable, examples: list[Example], size: int, to: Callable[[int], int]) -> None:
    """Computes batches in the order of the rows; to: length of the longest row -> length of the batch."""
    for batch in in_order(examples, size):
        shape = len(batch), to(max(len(example.ids) for example in batch))
        arrays = {name: np.zeros(shape, np.int32) for name in ("input_ids", "input_mask", "segment_ids")}
        for row, example in enumerate(batch):
            arrays["input_ids"][row, : len(example.ids)] = example.ids
            arrays["input_mask"][row, : len(example.ids)] = 1
        compute(arrays)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_dir", required=True)
    parser.add_argument("--input", type=Path, required=True, help="texts, one a line")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peer", help="interpreter with torch and transformers")
    options = parser.parse_args()
    texts = options.input.read_text(encoding="utf-8").splitlines()[: options.rows]
    length, size = options.max_seq_length, options.batch_size
    model = pretrain.load(options.model_dir)
    compute = logits_of(model, "classifier")
    batching = Batching(compute, size, length)
    rows = [Row(str(number), text, "") for number, text in enumerate(texts)]
    examples = list(encoded(rows, model.tokenizer.encode, model.tokenizer, batching, Counter()))

    def peer() -> float:
        given = [options.model_dir, str(options.input), str(options.rows), str(length), str(size)]
        environment = {**os.environ, "GOMP_SPINCOUNT": "0"}  # threads that wait for others do not count
        done = subprocess.run(
            [options.peer, "-c", PEER, *given], capture_output=True, text=True, check=True, env=environment
        )
        return float(done.stdout.split()[-1])

    ways: dict[str, Callable[[], float]] = {
        "ours: batches of one length": lambda: cpu_of(lambda: model.predict(texts, size, max_seq_length=length)),
        "its batches alone": lambda: cpu_of(lambda: list(batching.outputs(examples))),
        "in the order of the rows, trimmed": lambda: cpu_of(
            lambda: padded(compute, examples, size, lambda longest: -(-longest // 8) * 8)
        ),
        "in the order of the rows, full length": lambda: cpu_of(
            lambda: padded(compute, examples, size, lambda _: length)
        ),
    }
    if options.peer:
        ways["transformers' pipeline"] = peer
    model.predict(texts[:64], size, max_seq_length=length)
    found = in_turn(ways, options.rounds)
    tokens = sum(len(example.ids) for example in examples)
    print(f"{len(texts)} rows, {tokens / len(texts):.1f} tokens on average, at most {length}; batches of {size}")
    first = found["ours: batches of one length"]
    lines = [(name, f"{cost:.1f}", f"{len(texts) / cost:.0f}", f"{cost / first:.2f}") for name, cost in found.items()]
    print(table(("", "CPU s", "rows per CPU s", "times ours"), lines))


if __name__ == "__main__":
    main()
