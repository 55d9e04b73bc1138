"""What pages of the documentation take for granted: a reader's commands, datasets and checkpoint, as small as can be."""

import contextlib
import json
import os
import random
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from tests import warm_python

ROOT = Path(__file__).resolve().parents[1]
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(5, 200))]

BLOCK = re.compile(r"^```(bash|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
_BEGUN = re.compile(r"^section (\d+\.\d+) (.*)$", re.MULTILINE)
_PRINTED = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"((?:\d+[hm])*\d+s\b|-?\d[\d,.]*(?:e-?\d+)?)")  # a time, 2m05s, is one, too
_SPACES = re.compile(r"(\\ )+")  # as re.escape writes them
_OF_LIBRARIES = re.compile(
    r"^([IWEF]\d{4} |\d{4}-\d\d-\d\d .*: [IWEF] |WARNING|.*(absl|oneDNN|cuInit|CUDA|AVX2|TF-TRT|[A-Z]\w+Warning:))",
    re.MULTILINE,
)


def lines_of_libraries(text: str) -> list[str]:
    """What TensorFlow, absl, CUDA, JAX and Python's warnings have written of their own on a screen."""
    return [line for line in text.splitlines() if _OF_LIBRARIES.match(line)]


def plain_environment() -> dict[str, str]:
    """The environment of a user who has set nothing about libraries."""
    of_tests = (
        "MAKEFLAGS",
        "MAKELEVEL",
        "MFLAGS",
        "TF_CPP_MIN_LOG_LEVEL",
        "PYTHONWARNINGS",
        "KERAS_BACKEND",
    )  # as `make test` has
    return {name: value for name, value in os.environ.items() if name not in of_tests} | {"PYTHONPATH": str(ROOT)}


def commands_of_this_environment(folder: Path, command: Sequence[str] = warm_python.COMMAND) -> dict[str, str]:
    """A plain environment in which `nlpdata`, `pretrain` and `python` are this environment's, by scripts in a new folder.

    Args:
      command: what runs Python; `[sys.executable]` where libraries shall be imported by each command.
    """
    folder.mkdir()
    python = shlex.join(command)
    ours = [(name, f"{python} -m {name}") for name in ("nlpdata", "pretrain")]
    for name, command in (*ours, ("python3", python), ("python", python)):
        (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (folder / name).chmod(0o755)
    return plain_environment() | {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}


def stay_on_one_core() -> None:
    """Then commands start no worker processes, which would take most of the time here; README.md runs with them."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {random.choice(sorted(os.sched_getaffinity(0)))})


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """The same for commands in this process, while it lasts."""
    before = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    stay_on_one_core()
    try:
        yield
    finally:
        if before:
            os.sched_setaffinity(0, before)


def run_script(
    text: str, folder: Path, environment: Mapping[str, str], options: str = "", one_core: bool = True
) -> subprocess.CompletedProcess:
    """Runs commands of a page as one bash script, which ends at the first that fails; its output holds standard error, too."""
    return subprocess.run(
        ["bash", "-euo", "pipefail", *options.split(), "-c", text],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=stay_on_one_core if one_core else None,
    )


def script(text: str, stand_ins: Mapping[str, str]) -> str:
    """The bash blocks of a page, and its Python blocks as files that are run, in their order.

    Args:
      stand_ins: part of a command -> what runs instead, because the page's would take hours, a GPU or a cloud.
    """
    pieces = ["", *_SECTION.split(text)]
    parts = []
    for heading, section in zip(pieces[::2], pieces[1::2], strict=True):
        for number, (language, code) in enumerate(BLOCK.findall(section)):
            if not number:
                parts.append(_mark(heading or "before the first heading"))
            parts.append(code if language == "bash" else f"cat > example.py <<'END'\n{code}END\npython3 example.py\n")
    commands = "\n".join(parts)
    for part, stand_in in stand_ins.items():
        commands = commands.replace(part, stand_in)
    return commands + _mark("end")


def _mark(heading: str) -> str:
    return f"printf 'section %s %s\\n' $EPOCHREALTIME {shlex.quote(heading)}\n"


def times(output: str) -> list[str]:
    """A table of the sections of a page and the seconds that their commands took, of what its script printed."""
    begun = [(float(at), heading) for at, heading in _BEGUN.findall(output)]
    rows = [(heading, ended - at) for (at, heading), (ended, _) in pairwise(begun)]
    width = max((len(heading) for heading, _ in rows), default=4)
    return [f"{'step':{width}}  seconds", *(f"{heading:{width}}  {seconds:7.1f}" for heading, seconds in rows)]


def printed(text: str) -> list[str]:
    """What a page says its commands print, its `text` blocks: a regular expression for each line, in which numbers are any."""
    lines = [line for block in _PRINTED.findall(text) for line in block.splitlines() if line.strip(" .")]
    return [f"^{_SPACES.sub(' +', ''.join(_any_number(line)))}$" for line in lines]


def _any_number(line: str) -> Iterator[str]:
    for number, part in enumerate(_NUMBER.split(line)):
        any_like_it = r"[\dhms]+" if part.endswith("s") else r"-?\d[\d,.]*(e-?\d+)?"
        yield any_like_it if number % 2 else re.escape(part)


def give_datasets(folder: Path) -> None:
    """MRPC's folder, SQuAD's two files, RACE, tables of pairs and of choices, a question, and a vocabulary of the words in them."""
    mrpc = folder / "glue" / "MRPC"
    mrpc.mkdir(parents=True)
    texts = [(f"w{20 + i} w40 w41", f"w{30 + i} w{42 + i % 9}") for i in range(40)]
    rows = [f"{i % 2}\t{i}\t{i + 100}\t{a}\t{b}" for i, (a, b) in enumerate(texts)]
    for split in ("train", "dev"):
        (mrpc / f"{split}.tsv").write_text("\n".join(["Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows]) + "\n")
    rows = [f"{i}\t{i}\t{i + 100}\t{a}\t{b}" for i, (a, b) in enumerate(texts)]
    (mrpc / "test.tsv").write_text("\n".join(["index\t#1 ID\t#2 ID\t#1 String\t#2 String", *rows]) + "\n")
    for split in ("train", "dev"):
        answers = {"answers": [{"text": "w31 w32", "answer_start": 4}], "is_impossible": False}
        paragraph = {"context": "w30 w31 w32 w33", "qas": [{"id": "1", "question": "w30 w34"} | answers]}
        content = {"version": "v2.0", "data": [{"title": "t", "paragraphs": [paragraph]}]}
        (folder / f"{split}-v2.0.json").write_text(json.dumps(content))
    table = [f"w{i} w{i + 1},w{i + 2},{'yes' if i % 2 else 'no'}" for i in range(5, 45)]
    (folder / "pairs.csv").write_text("\n".join(["question,answer,good", *table]) + "\n")
    table = [f"w{i} w{i + 1},w{i} _ w9,w{i + 2},w{i + 3},w{i + 4},w{i + 5},{'ABCD'[i % 4]}" for i in range(5, 45)]
    (folder / "quiz.csv").write_text("\n".join(["context,question,a,b,c,d,answer", *table]) + "\n")
    article = {"article": "w10 w11 w12", "questions": ["w13 _ w14", "w15"], "answers": ["B", "D"]}
    article |= {"options": [["w16", "w17", "w18", "w19"], ["w20", "w21", "w22", "w23"]]}
    for place in (f"{split}/{level}" for split in ("train", "dev", "test") for level in ("middle", "high")):
        (folder / "RACE" / place).mkdir(parents=True)
        (folder / "RACE" / place / "1.txt").write_text(json.dumps(article))
    question = {"context": "w10 w11", "question": "w12", "choices": ["w13", "w14"]}
    (folder / "questions.jsonl").write_text(json.dumps(question) + "\n")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")


def give_checkpoint(folder: Path) -> None:
    """A tiny BERT with that vocabulary, as a Hugging Face folder: `base`."""
    import numpy as np

    from pretrain.converters import Checkpoint
    from pretrain.converters.write import write_checkpoint
    from pretrain.encoders.model import build_encoder, new_model, weights_by_path
    from tests.pretrain.runs import tiny

    encoder = tiny("bert", max_position_embeddings=128)
    weights = {
        path: np.asarray(weight) for path, weight in weights_by_path(new_model(build_encoder(encoder), {}, 0)).items()
    }
    write_checkpoint(folder / "base", Checkpoint("native", "tests", encoder, weights), "hf")
    (folder / "base" / "vocab.txt").write_text("\n".join(WORDS) + "\n")
