"""What WordPiece costs: encoding against Hugging Face tokenizers, and the whole command against its own encoding.

    python benchmarks/wordpiece.py --input 'corpus/en/*.txt' --hf-python /path/to/python

--hf-python: an interpreter that has the package `tokenizers`. Both sides read the same lines in the same blocks, in
processes of their own that have seen no text before (cold), with the same vocabulary, and count CPU seconds of encoding
alone; they run in turn, and medians are printed.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from measure import in_turn, own_folder, run_command, table
from preparation import Corpus, command

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nlpdata.tokenizers.training.train import train_tokenizer  # noqa: E402

SIZES = {5: 2.0, 40: 1.6}  # MB of text -> how many times the speed of tokenizers
COMMAND = 1.8
# Run by each side's interpreter: argv are blocks (JSON lines), vocabulary, result file.
OURS = """
import json, sys, time
from nlpdata.tokenizers import load_tokenizer
start = time.process_time()
t = load_tokenizer(sys.argv[2], do_lower_case=True)
t.ordinary_ids, t.word_start
load = time.process_time() - start
spent = tokens = 0
for block in open(sys.argv[1], encoding="utf-8"):
    lines = json.loads(block)
    start = time.process_time()
    ids, lengths = t.encode(lines)
    spent += time.process_time() - start
    tokens += len(ids)
json.dump({"spent": spent, "tokens": tokens, "load": load}, open(sys.argv[3], "w"))
"""
THEIRS = """
import json, sys, time
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers
start = time.process_time()
t = Tokenizer(models.WordPiece.from_file(sys.argv[2], unk_token="[UNK]", max_input_chars_per_word=200))
t.normalizer = normalizers.BertNormalizer(lowercase=True)
t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
load = time.process_time() - start
spent = tokens = 0
for block in open(sys.argv[1], encoding="utf-8"):
    lines = json.loads(block)
    start = time.process_time()
    encoded = [e.ids for e in t.encode_batch_fast(lines, add_special_tokens=False)]
    spent += time.process_time() - start
    tokens += sum(map(len, encoded))
json.dump({"spent": spent, "tokens": tokens, "load": load}, open(sys.argv[3], "w"))
"""


def take(blocks: list[list[str]], size: int | None, path: Path) -> float:
    """Writes the first `size` bytes of text, all of it for None, as JSON lines, a block a line; MB written."""
    taken = 0
    with path.open("w", encoding="utf-8") as file:
        for lines in blocks:
            if size is not None and taken >= size:
                break
            file.write(json.dumps(lines) + "\n")
            taken += sum(len(line.encode()) + 1 for line in lines)
    return taken / 1e6


def encode(python: str, code: str, blocks: Path, vocabulary: Path) -> dict:
    """What one side reports of a cold run: `spent` and `load` in CPU seconds, `tokens`."""
    result = blocks.with_suffix(".result")
    run_command([python, "-c", code, str(blocks), str(vocabulary), str(result)], ROOT)
    return json.loads(result.read_text())


def compare(corpus: Corpus, size: int | None, args, rows: list[list[str]]) -> None:
    """Rows of one size: MB per CPU second of both sides, and their ratio."""
    blocks = args.work / "blocks.jsonl"
    megabytes = take(corpus.blocks, None if size is None else size * 1_000_000, blocks)
    if size is not None and megabytes < 0.95 * size:
        print(f"{megabytes:.1f} MB of text are too little for the row of {size} MB", file=sys.stderr)
        return
    sides = {"ours": (sys.executable, OURS), "tokenizers": (args.hf_python, THEIRS)}
    last: dict[str, dict] = {}

    def side(name: str) -> float:
        last[name] = encode(*sides[name], blocks, corpus.tokenizer_path)
        return last[name]["spent"]

    costs = in_turn({name: lambda name=name: side(name) for name in sides if sides[name][0]}, args.rounds)
    shown = ", ".join(f"{name} {megabytes / cost:.2f}" for name, cost in costs.items())
    row = [f"encode {megabytes:.1f} MB cold, MB/CPU s", shown, "", ""]
    if "tokenizers" in costs:
        ratio = costs["tokenizers"] / costs["ours"]
        target = SIZES.get(size)
        row[1] += f": {ratio:.2f}x"
        row[2:] = [f">= {target:g}x", "met" if ratio >= target else "short"] if target else ["", ""]
        difference = last["ours"]["tokens"] - last["tokenizers"]["tokens"]
        rows.append(["tokens, ours - tokenizers", str(difference), "", ""])
    rows.append(row)
    rows.append(["loading the vocabulary, CPU s", ", ".join(f"{n} {r['load']:.3f}" for n, r in last.items()), "", ""])


def compare_command(corpus: Corpus, args, rows: list[list[str]]) -> None:
    """The whole command, sop, dupe 1, against encoding the same text cold."""
    blocks = args.work / "blocks.jsonl"
    take(corpus.blocks, None, blocks)
    for length in (128, 512):
        costs = in_turn(
            {
                "encode": lambda: encode(sys.executable, OURS, blocks, corpus.tokenizer_path)["spent"],
                "command": lambda n=length: (
                    command(
                        corpus.patterns, corpus.tokenizer_path, args.work / "run", max_seq_length=n, dupe_factor=1
                    ).cpu
                ),
            },
            args.rounds,
        )
        ratio = costs["command"] / costs["encode"]
        name = f"{length}: command, sop / its own encode, {corpus.size / 1e6:.1f} MB"
        rows.append([name, f"{ratio:.2f}", f"<= {COMMAND}", "met" if ratio <= COMMAND else "short"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", nargs="+", required=True, help="English text files or patterns")
    parser.add_argument("--vocabulary", type=Path, help="vocab.txt, lower-cased; default: 30,000 entries of the input")
    parser.add_argument("--hf-python", help="interpreter with tokenizers; without it only our side is measured")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir(), "nlpdata-benchmark"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--no-command", action="store_true", help="encoding only")
    args = parser.parse_args()
    args.work = own_folder(args.work)
    vocabulary = args.vocabulary or args.work / "wordpiece-30000.txt"
    if not vocabulary.exists():
        train_tokenizer(
            args.input, vocabulary.with_suffix(""), type="wordpiece", vocab_size=30000, hard_vocab_limit=False
        )
    corpus = Corpus(args.input, vocabulary.resolve())
    rows: list[list[str]] = []
    sizes = [size for size in SIZES if corpus.size >= 0.95e6 * size] or [None]
    for size in sizes:
        compare(corpus, size, args, rows)
    if not args.no_command:
        compare_command(corpus, args, rows)
    print(table(["what", "measured", "target", ""], rows))


if __name__ == "__main__":
    main()
