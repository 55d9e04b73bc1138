"""Every option of nlpdata's commands with extreme values: the command must run, or refuse them."""

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import nlpdata
from nlpdata.cli import commands
from tests.fuzz import mutations
from tests.fuzz.cases import ROOT, Case, target

GOLDEN = ROOT / "tests/nlpdata/golden"
_COMMANDS = ("split-sentences", "train-tokenizer", "create-pretraining", "create-finetuning", "inspect", "verify")
_NEVER = {"--help", "--runner"}  # a Beam runner takes seconds to start


def _give(folder: Path) -> None:
    text = (ROOT / "examples/corpus/english_house.txt").read_text()[:1500]
    (folder / "a.txt").write_text(text)
    (folder / "rows.csv").write_text("text,text_b,label\n" + "".join(f"a text {i},words,{i % 2}\n" for i in range(12)))
    nlpdata.create_pretraining(
        str(folder / "a.txt"),
        str(folder / "r.tfrecord"),
        GOLDEN / "vocab.txt",
        max_seq_length=32,
        dupe_factor=1,
        workers=1,
    )


def _base(command: str, case: Case) -> list[object]:
    given, out, vocab = case.given, case.folder, GOLDEN / "vocab.txt"
    small = ["--max-seq-length", 32, "--workers", 1, "--quiet"]
    if command == "split-sentences":
        return ["--input", given / "a.txt", "--output", out / "c.txt", "--workers", 1, "--quiet"]
    if command == "train-tokenizer":
        wordpiece = ["--vocab-size", 60, "--type", "wordpiece", "--workers", 1]
        return ["--input", given / "a.txt", "--output", out / "t", *wordpiece]
    if command == "create-pretraining":
        return ["--input", given / "a.txt", "--tokenizer", vocab, "--output", out / "r", "--dupe-factor", 1, *small]
    if command == "create-finetuning":
        rows = ["--task", "classification", "--input", given / "rows.csv"]
        return [*rows, "--tokenizer", vocab, "--output", out / "f", *small]
    return [given / "r.tfrecord"]


def odd_options(case: Case, parameters: Iterable[Any], never: Collection[str]) -> list[str]:
    """One to three of a command's options with extreme values; parameters: as Typer's parser has them."""
    known = [
        (name, bool(each.secondary_opts) or getattr(each, "is_flag", False))
        for each in parameters
        for name in [*each.opts, *each.secondary_opts]
        if name.startswith("--") and name not in never
    ]
    words = []
    for _ in range(case.draw.choice((1, 1, 2, 3)) if known else 0):
        name, switch = case.draw.choice(known)
        value = mutations.number(case.draw) if case.draw.random() < 0.6 else mutations.text(case.draw)
        words += [name] if switch else [f"{name}={value}"]
    return words


def _odd(case: Case, command: str) -> list[str]:
    if command == "verify":  # has none
        return [mutations.text(case.draw)]
    return odd_options(case, commands._commands()[command].params, _NEVER)


def _at_work(command: str):
    def run(case: Case) -> None:
        case.command(commands.main, command, *_base(command, case), *_odd(case, command))

    return run


for _command in _COMMANDS:
    target(f"options/{_command}", give=_give, cost=2)(_at_work(_command))


@target("options/words", give=_give)
def _words(case: Case) -> None:
    """The command line itself: words left out, repeated, in another order, misspelt."""
    command = case.draw.choice(_COMMANDS)
    words = [command, *map(str, _base(command, case)), *_odd(case, command)]
    for _ in range(case.draw.randint(1, 3)):
        at = case.draw.randrange(len(words))
        words[at : at + 1] = case.draw.choice(
            ([], [words[at]] * 2, [mutations.text(case.draw)], [words[at][:-1]], [words[at], "--"])
        )
    if not any(word.startswith(("--runner", "--r")) for word in words):
        case.command(commands.main, *words)
