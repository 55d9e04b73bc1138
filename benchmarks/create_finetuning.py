"""What create-finetuning costs, as a ratio to its own tokenization, both measured in one run.

    python benchmarks/create_finetuning.py                       # GLUE and SQuAD in ../shared/data, repeated to 20 MB

CPU seconds (user and system) count. Tokenization is `Tokenizer.encode` over the same texts in the same batches, one thread:
for SQuAD each context once and each question once. The command is `python -m nlpdata create-finetuning --workers 1`; its
start-up (the same imports and the tokenizer, no work) is taken off. What is compared runs in turn; medians are printed.
"""

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from measure import Stages, cpu_of, in_turn, run_command, table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nlpdata.finetuning import encode, windows  # noqa: E402
from nlpdata.finetuning.batches import Tally, read_batches  # noqa: E402
from nlpdata.finetuning.datasets import choose_splits, open_dataset  # noqa: E402
from nlpdata.finetuning.encode import encode_columns  # noqa: E402
from nlpdata.finetuning.options import FinetuningOptions  # noqa: E402
from nlpdata.finetuning.stages import EncoderSpec, encoder_of  # noqa: E402
from nlpdata.tokenizers import load_tokenizer  # noqa: E402

SHARED = ROOT.parent / "shared"
WORDPIECE = SHARED / "data" / "models" / "vocab" / "bert_base_uncased_vocab.txt"
SENTENCEPIECE = SHARED / "data" / "models" / "spm" / "albert_30k-clean.privately-corp.model"
TARGET = 2.0
GLUE = {"rte": "RTE", "mrpc": "MRPC", "sst2": "SST-2"}


def repeated_glue(task: str, megabytes: float, folder: Path) -> Path:
    """train.tsv of a GLUE task, its rows repeated."""
    lines = (SHARED / "data" / "glue" / GLUE[task] / "train.tsv").read_bytes().decode("utf-8-sig").splitlines()
    body = "\n".join(lines[1:]) + "\n"
    target = folder / GLUE[task] / "train.tsv"
    target.parent.mkdir(parents=True, exist_ok=True)
    count = int(megabytes * 1e6 / len(body.encode())) + 1
    target.write_text(lines[0] + "\n" + body * count, encoding="utf-8")
    return target.parent


def repeated_squad(megabytes: float, folder: Path) -> Path:
    """XQuAD's English questions as a training file, repeated under new ids."""
    entries = json.loads((SHARED / "data" / "squad" / "xquad" / "xquad.en.json").read_text(encoding="utf-8"))["data"]
    size = len(json.dumps(entries, ensure_ascii=False).encode())
    data = []
    for i in range(int(megabytes * 1e6 / size) + 1):
        copy = json.loads(json.dumps(entries))
        for qa in (qa for entry in copy for paragraph in entry["paragraphs"] for qa in paragraph["qas"]):
            qa["id"] = f"{qa['id']}-{i}"
        data += copy
    target = folder / "train.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps({"version": "1.1", "data": data}, ensure_ascii=False), encoding="utf-8")
    return target


class Case:
    """One task with one tokenizer: what is tokenized, and the command."""

    def __init__(self, task: str, source: Path, tokenizer: Path, work: Path):
        self.task, self.source, self.tokenizer, self.work = task, source, tokenizer, work
        self.options = FinetuningOptions(task=task, splits="train")
        self.dataset = open_dataset([str(source)], self.options)
        self.loaded = load_tokenizer(tokenizer, do_lower_case=True)
        split = choose_splits(self.dataset, "train")[0]
        self.batches = list(read_batches(self.dataset, split, self.options, Tally(False)))
        self.texts = [self._texts(batch) for batch in self.batches]
        self.size = sum(len(text.encode()) for texts in self.texts for text in texts)

    def _texts(self, batch) -> list[str]:
        if self.dataset.kind == "squad":
            return [*batch.rows.contexts, *batch.rows.questions]
        return [text for row in batch.rows for text in row[:2] if text]

    def tokenize(self) -> float:
        tokenizer = load_tokenizer(self.tokenizer, do_lower_case=True)  # cold: nothing remembered
        return cpu_of(lambda: [tokenizer.encode(texts) for texts in self.texts])

    def command(self) -> float:
        output = self.work / "out"
        shutil.rmtree(output, ignore_errors=True)
        argv = [sys.executable, "-m", "nlpdata", "create-finetuning", "--task", self.task, "--input", str(self.source)]
        argv += ["--tokenizer", str(self.tokenizer), "--output", str(output), "--splits", "train", "--do-lower-case"]
        return run_command([*argv, "--workers", "1", "--quiet"], ROOT).cpu

    def start_up(self) -> float:
        code = "import nlpdata.cli.commands, nlpdata.finetuning.create, nlpdata.finetuning.tabular\n"
        code += "from nlpdata.tokenizers import load_tokenizer\n"
        code += f"load_tokenizer({str(self.tokenizer)!r}, do_lower_case=True)"
        return run_command([sys.executable, "-c", code], ROOT).cpu

    def stages(self) -> dict[str, float]:
        """CPU seconds by stage of making the records, in this process."""
        stages = Stages()
        spec = EncoderSpec(self.options, self.loaded.spec, self.dataset.kind, len(self.dataset.labels or "x"))
        encoder = encoder_of(spec, load_tokenizer(self.loaded.spec))  # cold: nothing remembered
        targets = [(type(encoder.tokenizer), "encode", "tokenize"), (encode, "lay_out", "lay out")]
        if self.dataset.kind == "squad":
            targets += [(type(encoder._offsets), "encode", "tokenize with places"), (encoder, "_lay_out", "lay out")]
            targets += [(windows.SquadEncoder, "_answer_tokens", "answers")]
        with stages.patched(targets):
            split = choose_splits(self.dataset, "train")[0]
            batches = read_batches(self.dataset, split, self.options, Tally(False))
            for batch in stages.iterate("read", batches):
                with stages.stage("other"):
                    made = encoder.windows(batch)[0] if spec.numbered else encoder.columns(batch)[0]
                    columns = encoder.columns(made, 0) if spec.numbered else made
                with stages.stage("encode"):
                    encode_columns(encoder, encoder.features("train", True), columns)
        return stages.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=float, default=21, help="size of each input")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tasks", nargs="+", default=["rte", "mrpc", "sst2", "squad"])
    args = parser.parse_args()
    rows, notes = [], []
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        for task in args.tasks:
            source = (
                repeated_squad(args.megabytes, work) if task == "squad" else repeated_glue(task, args.megabytes, work)
            )
            for name, tokenizer in (("SentencePiece", SENTENCEPIECE), ("WordPiece", WORDPIECE)):
                case = Case(task, source, tokenizer, work)
                costs = in_turn({k: getattr(case, k) for k in ("tokenize", "command", "start_up")}, args.rounds)
                ratio = (costs["command"] - costs["start_up"]) / costs["tokenize"]
                shown = [f"{costs[k]:.2f} s" for k in ("tokenize", "start_up", "command")]
                met = "met" if ratio <= TARGET else "short"
                rows.append([task, name, f"{case.size / 1e6:.1f} MB", *shown, f"{ratio:.2f}", met])
                parts = Counter(case.stages()).most_common()
                notes.append(f"{task}, {name}: " + ", ".join(f"{stage} {s:.2f}" for stage, s in parts))
    header = ["task", "tokenizer", "text", "tokenization", "start-up", "command", f"ratio (<= {TARGET:g})", ""]
    print(table(header, rows))
    print("\nCPU seconds by stage:\n" + "\n".join(notes))


if __name__ == "__main__":
    main()
