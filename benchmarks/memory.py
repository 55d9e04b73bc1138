"""Peak memory of create-pretraining as input and dupe factor grow: it must stay flat.

    python benchmarks/memory.py --corpus /tmp/nlpdata-corpus                  # about 10 minutes, 2 GB of disk
    python benchmarks/memory.py --corpus ... --runs "dupe 40, 100 MB"         # 10 GB of disk

The text is the English one of corpus.py, repeated under distinct names where it is not enough. Every figure is the
largest resident set of a process of the command, as the kernel counts it (VmHWM).
"""

import argparse
import itertools
import shutil
import sys
import tempfile
from pathlib import Path

from measure import Report, own_folder
from preparation import command, trained

# name -> megabytes of text, as one document, workers, options
RUNS = {
    "sop, 20 MB": (20, False, 1, {}),
    "sop, 50 MB": (50, False, 1, {}),
    "sop, 100 MB": (100, False, 1, {}),
    "sop, 200 MB": (200, False, 1, {}),
    "sop, 200 MB, 2 workers": (200, False, 2, {}),
    "sop, 200 MB, one document": (200, True, 1, {}),
    "sop, 20 MB, dupe 10": (20, False, 1, {"dupe_factor": 10}),
    "nsp, 20 MB": (20, False, 1, {"objective": "nsp"}),
    "nsp, 200 MB": (200, False, 1, {"objective": "nsp"}),
    "nsp, 20 MB, dupe 10": (20, False, 1, {"objective": "nsp", "dupe_factor": 10}),
    "sop, 100 MB, dupe 40": (100, False, 1, {"dupe_factor": 40}),
}
BY_DEFAULT = [name for name in RUNS if "dupe 40" not in name]
TARGETS = {"memory": "<= 400"}


def write_text(corpus: Path, folder: Path, megabytes: int, one_document: bool) -> None:
    """Files of that many megabytes together, cut at a line; without blank lines where it is to be one document."""
    left = megabytes * 10**6
    for number, path in enumerate(itertools.cycle(sorted((corpus / "en").glob("*.txt")))):
        data = path.read_bytes()
        part = data if len(data) <= left else data[: data.rfind(b"\n", 0, left) + 1]
        with open(folder / ("one.txt" if one_document else f"{number:03d}-{path.name}"), "ab") as file:
            file.write(part.replace(b"\n\n", b"\n") if one_document else part)
        left -= len(part)
        if len(part) < len(data) or not left:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--corpus", type=Path, required=True, help="folder that corpus.py has filled")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir(), "nlpdata-benchmark"))
    parser.add_argument("--length", type=int, default=512, help="max_seq_length")
    parser.add_argument("--runs", nargs="+", default=BY_DEFAULT, choices=list(RUNS), metavar="NAME")
    args = parser.parse_args()
    if not (args.corpus / "manifest.json").exists():
        sys.exit(f"{args.corpus} holds no finished corpus: python benchmarks/corpus.py --output {args.corpus}")
    args.work = own_folder(args.work)
    tokenizer = trained([args.corpus.resolve() / "en" / "*.txt"], args.work, "en", 30000)
    report = Report(TARGETS)
    for name in args.runs:
        megabytes, one_document, workers, options = RUNS[name]
        text = args.work / "text"
        shutil.rmtree(text, ignore_errors=True)
        text.mkdir()
        write_text(args.corpus, text, megabytes, one_document)
        options = {"max_seq_length": args.length, "dupe_factor": 1, **options}
        cost = command([str(text / "*.txt")], tokenizer, args.work / "run", workers, **options)
        shutil.rmtree(text)
        peaks = [cost.peak, *cost.children_peak]
        value = f"{' / '.join(f'{peak:.0f}' for peak in peaks)} MB ({cost.cpu:.0f} CPU s)"
        report.add(f"{name}: peak RSS of each process", value, max(peaks), "memory")
    print(report)


if __name__ == "__main__":
    main()
