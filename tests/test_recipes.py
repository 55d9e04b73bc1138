"""The commands of docs/recipes run, each page as one script: its own but for sizes, and for a cloud, whose jobs are shown.

What a page says that they print is looked for in what they print.
"""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from tests import warm_python
from tests.migration import given
from tests.pages import ROOT, commands_of_this_environment, plain_environment, printed, run_script, script, times
from tests.pretrain.runs import lines

FOLDER = ROOT / "docs" / "recipes"
# Jobs are built and checked, from files of this machine, and shown instead of started. On one GPU a run would take days.
EVERYWHERE = {
    "pretrain submit ": "pretrain submit --dry_run ",
    "--runner DataflowRunner -- ": "--runner DataflowRunner --dry-run -- ",
    "--input 'gs://my-bucket/": "--input '",
    "--tokenizer gs://my-bucket/": "--tokenizer ",
    "--output gs://my-bucket/": "--output my-bucket/",
}


@dataclass(frozen=True)
class Recipe:
    """How the test follows a page.

    Attributes:
      stand_ins: part of a command -> what the test runs instead; each must be on the page.
      falls: model_dirs in which the loss falls, from the first logged line to the last.
    """

    stand_ins: Mapping[str, str]
    falls: tuple[str, ...]


RECIPES = {
    "albert.md": Recipe(
        {
            "--vocab-size 8000": "--vocab-size 400",
            "--vocab-size 30000": "--vocab-size 400",
            "--input_files=albert/train.tfrecord ": "--input_files=albert/train.tfrecord --num_train_steps=20 "
            "--train_batch_size=16 --params_override='trainer.summary_interval=5,task.model.encoder.albert={vocab_size: 400, "
            "hidden_size: 32, num_hidden_layers: 1}' ",
            "--train_batch_size=4096 --gradient_accumulation_steps=32": "--train_batch_size=32 --gradient_accumulation_steps=2",
            "--model_dir=albert/base ": "--model_dir=albert/base --print_config ",
        },
        ("albert/run",),
    ),
    "domain.md": Recipe(
        {
            "--max-seq-length 128": "--max-seq-length 64",
            "--learning_rate=1e-4 --train_batch_size=32 --num_train_epochs=3": "--learning_rate=1e-3 --train_batch_size=16 "
            "--num_train_epochs=2 --params_override=trainer.summary_interval=4",
            "--learning_rate=5e-5 --train_batch_size=16 --num_train_epochs=4": "--learning_rate=1e-2 --train_batch_size=16 "
            "--num_train_epochs=6 --params_override=trainer.summary_interval=10,task.train_data.trim_padding=false,"
            "task.validation_data.trim_padding=false",
        },
        ("domain/run", "domain/classifier"),
    ),
    "bert_128_512.md": Recipe(
        {
            "--vocab-size 4000": "--vocab-size 400",
            "global_batch_size: 64}": "global_batch_size: 8}",
            "global_batch_size: 16}": "global_batch_size: 4}",
            "train_steps: 810": "train_steps: 18",
            "train_steps: 90\n": "train_steps: 6\n",
            "trainer:\n  stages": "trainer:\n  train_steps: 24\n  summary_interval: 6\n  stages",
            "bert: {": "bert: {hidden_size: 32, num_hidden_layers: 1, vocab_size: 400, ",
            "--model_dir=bert/base ": "--model_dir=bert/base --print_config --params_override=task.train_data.global_batch_size=8 ",
        },
        ("bert/run",),
    ),
    "glue.md": Recipe(
        {
            "cola,mrpc,rte,stsb": "cola",
            "--seeds 3": "--seeds 1 --params_override=trainer.train_steps=40,trainer.summary_interval=10,"
            "trainer.optimizer_config.learning_rate.polynomial.initial_learning_rate=0.01",
        },
        ("sweep/cola/seed-0",),
    ),
    "squad.md": Recipe(
        {
            "--output squad/records": "--max-seq-length 64 --max-query-length 16 --output squad/records",
            "--eval_files=squad/records/dev.tfrecord": "--eval_files=squad/records/dev.tfrecord --max_seq_length=64 "
            "--train_batch_size=8 --learning_rate=1e-2 --num_train_epochs=6 --params_override=trainer.summary_interval=6",
        },
        ("squad/run",),
    ),
}


@pytest.fixture(scope="module")
def reader(tmp_path_factory):
    """(a folder with what readers have, small: text, a published ALBERT with its tokenizer, CoLA, SQuAD; their environment)."""
    folder = tmp_path_factory.mktemp("reader")
    words = given.give_english(folder / "data")
    given.give_cola(folder / "glue" / "CoLA", words)
    given.give_questions(folder / "squad", words)
    # In a process of TensorFlow: the module is one of its formats.
    code = "import sys; from pathlib import Path; from tests.migration.given import *; folder = Path(sys.argv[1])\n"
    code += "give_albert(folder / 'albert', str(folder / 'data' / '*.txt')); pack_module(folder / 'albert', folder / '2.tar.gz')"
    subprocess.run([*warm_python.COMMAND, "-c", code, folder], cwd=ROOT, env=plain_environment(), check=True)
    given.unpack(folder / "2.tar.gz", folder / "base")
    for name in ("examples", "pretrain", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    return folder, commands_of_this_environment(tmp_path_factory.mktemp("commands") / "bin")


@pytest.mark.heavy
@pytest.mark.parametrize("page", RECIPES)
def test_a_recipe_leads_to_its_result(page, reader):
    folder, environment = reader
    recipe = RECIPES[page]
    text = (FOLDER / page).read_text(encoding="utf-8")
    done = run_script(script(text, EVERYWHERE | recipe.stand_ins), folder, environment)
    assert done.returncode == 0, done.stdout
    print(f"\n{page}", *times(done.stdout), sep="\n")  # pytest -s shows it
    missing = [line for line in printed(text) if not re.search(line, done.stdout, re.MULTILINE)]
    assert not missing, f"{missing}\n{done.stdout}"
    assert '"runner": "DataflowRunner"' in done.stdout
    assert "workerPoolSpecs:" in done.stdout
    for model_dir in recipe.falls:
        logged = lines(folder / model_dir)
        assert len(logged) >= 3
        assert all(line["learning_rate"] > 0 for line in logged)
        assert logged[-1]["loss"] < logged[0]["loss"] - 0.1, logged


def test_every_recipe_is_followed():
    texts = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    assert RECIPES.keys() == texts.keys() - {"README.md"}
    for page, recipe in RECIPES.items():
        assert not [part for part in recipe.stand_ins if part not in texts[page]], page
    assert not [part for part in EVERYWHERE if not any(part in text for text in texts.values())]
