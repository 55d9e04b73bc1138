"""The commands and examples of README.md and docs/ run as they stand, each page as one script in a folder of its own.

The folder has what a reader has: examples/ and, as data/, some text; here it is the demo corpus.
"""

import importlib.util
import re
from pathlib import Path

import pytest
import typer

from nlpdata.cli.commands import app
from nlpdata.records.contract import pretraining_features
from pretrain import convert, export, glue, predict, submit
from pretrain.converters import native
from pretrain.settings.flags import FLAGS
from tests.pages import BLOCK, commands_of_this_environment, give_checkpoint, give_datasets, run_script, script, times
from tests.pretrain.runs import lines

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RECIPES = sorted((ROOT / "docs" / "recipes").glob("*.md"))  # tests/test_recipes.py runs them
TEXTS = [*PAGES, *RECIPES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]  # those two have no commands to run

# What the test puts in place of what a page says; each must occur in some page.
SUBSTITUTIONS = {
    "--vocab-size 30000": "--vocab-size 1000",  # the demo corpus yields no more
    "--vocab-size 8000": "--vocab-size 1000",  # likewise
    "--eval-fraction 0.05\n": "--eval-fraction 0.2 --max-seq-length 64\n",  # what the tiny model takes
    "--model_config=albert_base_v2 --mode": "--config_file=pretrain/configs/tiny_albert.yaml --mode",
    "--num_train_epochs=3\n": "--num_train_epochs=3 --print_config\n",  # other pages train
    "--model_dir=layers ": "--model_dir=layers --print_config ",  # likewise
    "--model_dir=run0\n": "--model_dir=run0 --print_config\n",
    "--num_train_steps=400 ": "--num_train_steps=30 --train_batch_size=16 --params_override=trainer.summary_interval=10 ",
    "--num_train_steps=200 ": "--num_train_steps=2 ",
    "base --max-seq-length 512 --output out/race\n": "base --max-seq-length 16 --max-qa-length 8 --output out/race\n",
    "--config_file=race --mode": "--config_file=race --max_seq_length=16 --num_train_steps=1 --num_warmup_steps=0 "
    "--train_batch_size=2 --mode",
    "--train_steps=20 --model_dir=long --async_checkpoints --save_checkpoints_steps=5": "--train_steps=4 --model_dir=long "
    "--async_checkpoints --save_checkpoints_steps=2",
    "--model_dir=averaged --num_train_steps=20 ": "--model_dir=averaged --num_train_steps=4 ",
    "- train_steps: 12\n": "- train_steps: 2\n",
    "- train_steps: 8\n": "- train_steps: 2\n",
    "--num_train_epochs=20 --train_batch_size=8 --input": "--num_train_epochs=4 --train_batch_size=8 --input",
    "--num_train_epochs=20 --train_batch_size=8 --learning": "--num_train_epochs=1 --train_batch_size=8 --learning",
    "--train_batch_size=8 \\\n    --num_train_epochs=10 ": "--train_batch_size=32 \\\n    --num_train_epochs=1 ",
    "--params_override=task.train_data.input_path": "--params_override=trainer.train_steps=2,task.train_data.input_path",
    "--model_dir=run2 \\\n": "--model_dir=run2 --num_train_steps=2 \\\n",
    "--model_dir=straight \\\n": "--model_dir=straight --print_config \\\n",  # tests/pretrain/training/test_own_records.py trains
    "--runner DaskRunner -- --dask_client_address=tcp://scheduler:8786": "--runner DirectRunner --max-seq-length 64",
    "-- \\\n    --experiment": "--dry_run -- \\\n    --experiment",  # a job that is shown only
    "--mode=train_and_eval --model_dir=quick/bert ": "--model_dir=quick/bert ",  # the next run evaluates
    "make demo\n": "make -n demo\n",  # would install everything once more
    "make test\n": "make -n test\n",  # would run this very test
}
# Pages that use a vocabulary which they do not train themselves.
GIVEN_TOKENIZER = {"beam.md", "commands.md", "corpus.md", "differences.md", "finetuning.md", "reports.md"}
# Pages that use more of a reader's own.
GIVEN_DATASETS = {"evaluation.md", "finetuning.md"}
# Pages that run on the default, as those in docs/migration do, or write its formats; others on JAX, which starts in half the time.
ON_TENSORFLOW = {"README.md", "checkpoints.md"}

_PRINTED = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SHOWN = re.compile(r"^```console\n.*?^```$", re.MULTILINE | re.DOTALL)
_OPTION = re.compile(r"(?<![\w-])--([a-z][a-z0-9_-]*)")
_LINK = re.compile(r"\]\(([^)#]+)\)")
_PATH = re.compile(r"`((?:nlpdata|pipelines|pretrain|model_configs|tests|examples|docs|benchmarks)/[\w./*-]+)`")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    from nlpdata import train_tokenizer

    output = tmp_path_factory.mktemp("tokenizer") / "spm"
    train_tokenizer(str(ROOT / "examples" / "corpus" / "*.txt"), str(output), vocab_size=1000)
    return output.parent


@pytest.fixture
def reader(tmp_path):
    """A reader's folder and environment: the corpus, and `nlpdata`, `python` of this environment on the path."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in ("Makefile", "pyproject.toml", "examples", "pretrain", "benchmarks"):
        (folder / name).symlink_to(ROOT / name)
    (folder / "data").symlink_to(ROOT / "examples" / "corpus")
    environment = commands_of_this_environment(tmp_path / "bin")
    return folder, environment


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_what_a_page_says_works(page, reader, tokenizer):
    folder, environment = reader
    if page.name in GIVEN_TOKENIZER:
        (folder / "tok").mkdir()
        for file in tokenizer.iterdir():
            (folder / "tok" / file.name).symlink_to(file)
    if page.name in GIVEN_DATASETS:
        give_datasets(folder)
    if page.name == "evaluation.md":
        give_checkpoint(folder)
    if page.name not in ON_TENSORFLOW and importlib.util.find_spec("jax"):
        environment["KERAS_BACKEND"] = "jax"
    # Before the first step: what imports the libraries for the commands of all tests (tests/warm_python.py) may have to start.
    commands = "python3 -c pass\n" + script(page.read_text(encoding="utf-8"), SUBSTITUTIONS)
    done = run_script(commands, folder, environment, "-x", one_core=page.name != "README.md")
    assert done.returncode == 0, done.stdout
    print(f"\n{page.name}", *times(done.stdout), sep="\n")  # pytest -s shows it
    if page.name in ("worked_record.md", "reports.md"):
        printed = _PRINTED.findall(page.read_text(encoding="utf-8"))
        assert printed
        assert all(each in done.stdout for each in printed)
    if page.name == "README.md":
        assert_learned(folder / "run1")
        assert_learned(folder / "run2")


def assert_learned(model_dir: Path) -> None:
    """The loss falls, at rates above 0, the highest of which is the one that was given."""
    train = lines(model_dir)
    assert len(train) >= 3
    assert all(line["learning_rate"] > 0 for line in train)
    assert train[-1]["loss"] < train[0]["loss"] - 0.1
    newest = native.finished(model_dir / "checkpoints")[-1]
    assert native.read_info(newest)["schedule"]["peak"] == 1e-3


def test_substitutions_are_of_use():
    text = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert not [old for old in SUBSTITUTIONS if old not in text]


def test_options_exist():
    known = {"help", "logdir", "no-deps", *(spelling for flag in FLAGS for spelling in (flag.name, *flag.aliases))}
    program = typer.main.get_command(app)
    ours = [typer.main.get_command(module.app) for module in (convert, export, glue, predict, submit)]
    for command in [program, *program.commands.values(), *ours]:
        for option in command.params:
            known |= {name.lstrip("-") for name in [*option.opts, *option.secondary_opts]}
    for page in [*PAGES, *RECIPES]:
        text = page.read_text(encoding="utf-8")
        prose = _SHOWN.sub("", BLOCK.sub("", text))  # blocks are run; what is shown may be a mistake
        unknown = {name for name in _OPTION.findall(prose) if "_" not in name} - known
        assert not unknown, f"{page.name}: {unknown}"


def test_links_and_paths_lead_somewhere():
    for page in TEXTS:
        text = page.read_text(encoding="utf-8")
        missing = [link for link in _LINK.findall(text) if "://" not in link and not (page.parent / link).exists()]
        missing += [path for path in _PATH.findall(text) if not list(ROOT.glob(path))]
        assert not missing, f"{page.name}: {missing}"


def test_the_table_of_features_is_complete():
    text = (ROOT / "docs" / "records.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (int64|float32)\[(L|P|1)\] \|", text, re.MULTILINE)
    width = {64: "L", 10: "P", 1: "1"}
    expected = {(f.name, f.dtype, width[f.width]) for f in pretraining_features(64, 10)}
    assert set(rows) == expected


def test_demo_corpus_is_small_and_in_form():
    texts = [path.read_bytes() for path in sorted((ROOT / "examples" / "corpus").glob("*.txt"))]
    assert sum(map(len, texts)) < 60_000
    for text in texts:
        assert b"\r" not in text
        assert text.endswith(b"\n")
        documents = text.decode().removesuffix("\n").split("\n\n")
        assert all(2 <= len(document.split("\n")) <= 12 for document in documents)
        assert all(line.strip() == line != "" for document in documents for line in document.split("\n"))
