"""What each extra brings: the package in virtual environments of its own, as users install it.

They need a package index; without one these tests are skipped.
"""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml

pytestmark = [pytest.mark.heavy, pytest.mark.slow]


ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT / "examples" / "corpus"
PACKAGES = ("nlpdata", "pipelines", "pretrain", "model_configs")
# Scripts of someone who has the repository.
ONLY_IN_THE_REPOSITORY = {
    "pipelines/Dockerfile",
    "pipelines/submit.sh",
    "pretrain/train-cloud.sh",
    "pretrain/train-local.sh",
}
MOST_MEGABYTES = 150
HEAVY = ("tensorflow", "keras", "apache_beam", "jax", "tensorflow_datasets", "pyarrow")


class Environment:
    """A virtual environment, and a folder to work in."""

    def __init__(self, folder: Path, python: str = sys.executable):
        self.folder, self.python, self._made_by = folder / "work", folder / "venv" / "bin" / "python", python
        self.folder.mkdir(parents=True)
        subprocess.run([python, "-m", "venv", "--without-pip", folder / "venv"], check=True)

    def install(self, *words) -> None:
        """`pip install`, by the pip of the Python that made the environment, of which nothing else is used."""
        pip = ("-m", "pip", "--python", self.python, "--disable-pip-version-check", "install", "--quiet")
        done = self._run(self._made_by, *pip, *words)
        if "No module named pip" in done.stderr:
            pytest.skip(f"needs pip in {self._made_by}")
        if done.returncode and "No matching distribution found for setuptools" in done.stderr:
            pytest.skip("needs a package index to install from")
        assert done.returncode == 0, done.stderr

    def run(self, *words) -> subprocess.CompletedProcess:
        """Python with these arguments, in the working folder; nothing of this test's environment is on its path."""
        return self._run(self.python, *words)

    def _run(self, *command) -> subprocess.CompletedProcess:
        environment = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "KERAS_BACKEND")}
        command = list(map(str, command))
        return subprocess.run(command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False)

    def ok(self, *words) -> str:
        """What a command printed that must succeed."""
        done = self.run(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def megabytes(self) -> float:
        """What the packages take on disk, setuptools left out."""
        packages = next((self.python.parents[1] / "lib").glob("python*/site-packages"))
        own = [place for place in packages.iterdir() if not place.name.startswith(("setuptools", "pkg_resources"))]
        files = [file for place in own for file in (place.rglob("*") if place.is_dir() else [place])]
        return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """nlpdata without extras, from the wheel that is built from the source distribution of a copy of the source."""
    folder = tmp_path_factory.mktemp("install")
    source = folder / "source"
    for name in PACKAGES:
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    made = Environment(folder)
    made.install(*tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"])
    build = "import os, sys; from setuptools import build_meta; os.chdir(sys.argv[1]); build_meta.build_{}(sys.argv[2])"
    made.ok("-c", build.format("sdist"), source, folder)
    (made.source,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(made.source, folder / "unpacked")
    (unpacked,) = (folder / "unpacked").iterdir()
    made.ok("-c", build.format("wheel"), unpacked, folder)
    (made.wheel,) = folder.glob("*.whl")
    made.install("--no-compile", made.wheel)  # Python compiles the modules that it imports
    return made


def data_of_packages(names) -> set[str]:
    """Of names relative to the project, those of the packages' files that are not Python."""
    return {name for name in names if name.partition("/")[0] in PACKAGES and not name.endswith((".py", ".pyc", "/"))}


def test_the_distributions_have_all_data_of_the_packages(environment):
    done = subprocess.run(["git", "-C", ROOT, "ls-files", "--", *PACKAGES], capture_output=True, text=True, check=True)
    expected = data_of_packages(done.stdout.splitlines()) - ONLY_IN_THE_REPOSITORY
    assert {"pretrain/py.typed", "model_configs/albert_base_v2.json", "pretrain/configs/tiny_bert.yaml"} <= expected
    with zipfile.ZipFile(environment.wheel) as wheel:
        names = wheel.namelist()
        assert data_of_packages(names) == expected
        assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == set(PACKAGES)
        assert any(name.endswith("LICENSE") for name in names)
    with tarfile.open(environment.source) as source:
        names = [name.partition("/")[2] for name in source.getnames() if not name.endswith(PACKAGES)]
    assert data_of_packages(names) >= expected


def python_of(version: str) -> str | None:
    """A Python of that version: on the path, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    own = [path for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python")) if path.is_file()]
    return str(own[-1]) if own else shutil.which(f"python{version}")


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_the_wheel_works_on_another_python(environment, prepared, version, tmp_path):
    python = python_of(version)
    if python is None:
        pytest.skip(f"needs Python {version}")
    other = Environment(tmp_path, python)
    other.install("--no-compile", environment.wheel)
    for command in ("nlpdata", "pretrain"):
        shown = subprocess.run(
            [other.python.with_name(command), "--help"], cwd=other.folder, capture_output=True, text=True, check=False
        )
        assert shown.returncode == 0, shown.stderr
        assert f"Usage: {command} COMMAND [OPTIONS]" in shown.stdout
    made = environment.folder / "base"
    copied = shutil.copytree(made / "tok", other.folder / "tok")
    other.ok("-m", "nlpdata", *making_records(copied / "spm", other.folder / "out" / "a.tfrecord", 1))
    assert digest(other.folder / "out") == digest(made / "out")


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == project["version"]
    assert citation["license"] == project["license"]
    assert all(citation[name] for name in ("title", "authors", "message"))


def test_the_image_installs_what_there_is_and_runs_without_root():
    """The Dockerfile is read, not built: that takes a Docker daemon and a registry."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    for word, rest in steps:
        if word == "COPY":
            missing = [name for name in rest.split()[:-1] if not (ROOT / name).exists()]
            assert not missing
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    bases = [rest.split()[0] for word, rest in steps if word == "FROM"]
    assert set(bases) == {"python:3.12-slim"}
    (extras,) = [rest.partition("=")[2].split(",") for word, rest in steps if word == "ARG"]
    assert set(extras) <= set(project["optional-dependencies"])
    last = max(i for i, (word, _) in enumerate(steps) if word == "FROM")
    users = [rest for word, rest in steps[last:] if word == "USER"]
    assert users
    assert "root" not in users
    assert not re.search(r"(?i)(token|password|secret|key)\s*=|\bENV\b", text)


def digest(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


def test_extras_of_other_packages_exist():
    """pip only warns of one that does not, and installs less than was meant."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    for line in {line for group in groups for line in group if "[" in line and not line.startswith("nlpdata[")}:
        name, extras = re.match(r"([\w-]+)\[(.+?)\]", line).groups()
        known = set(importlib.metadata.metadata(name).get_all("Provides-Extra"))
        assert known.issuperset(extras.split(",")), line


def test_the_version_is_that_of_the_changelog():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    newest, unreleased = re.search(
        r"^## ([\d.]+)( \(unreleased\))?$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    ).groups()
    assert version == newest + (".dev0" if unreleased else "")


def test_the_base_is_small(environment):
    found = [name for name in HEAVY if environment.run("-c", f"import {name}").returncode == 0]
    assert not found
    assert environment.megabytes() < MOST_MEGABYTES


def making_records(tokenizer: Path, records: Path, workers: int) -> tuple:
    """The command that makes pretraining records, for `nlpdata`."""
    made = (
        "--tokenizer",
        f"{tokenizer}.model",
        "--max-seq-length",
        "64",
        "--eval-fraction",
        "0.2",
        "--workers",
        workers,
    )
    return ("create-pretraining", "--input", f"{CORPUS}/*.txt", *made, "--output", records)


def prepare(python, folder: Path) -> tuple[list[str], list[dict[str, str]]]:
    """Runs a chain of commands with `python(*words)`; what they print, and what they write into three folders."""
    tokenizer, records = folder / "tok" / "spm", folder / "out" / "a.tfrecord"
    rows = ("--task", "classification", "--input", ROOT / "examples" / "languages.tsv", "--eval-fraction", "0.25")
    made = ("--tokenizer", f"{tokenizer}.model", "--max-seq-length", "64")
    commands = [
        ("train-tokenizer", "--input", f"{CORPUS}/*.txt", "--output", tokenizer, "--vocab-size", "1000"),
        making_records(tokenizer, records, 2),
        ("verify", records),
        ("inspect", records, "--limit", "1"),
        ("create-finetuning", *rows, *made, "--output", folder / "ft"),
    ]
    return [python("-m", "nlpdata", *command) for command in commands], [
        digest(folder / n) for n in ("tok", "out", "ft")
    ]


def here(*words) -> str:
    """What Python prints in the environment of this test."""
    done = subprocess.run([sys.executable, *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def prepared(environment):
    return prepare(environment.ok, environment.folder / "base")


def test_the_base_prepares_data(environment, prepared):
    printed, files = prepared
    assert re.search(r"vocabulary +1,000", printed[0])
    assert re.search(r"examples, train +[1-9]", printed[1])
    assert "no faults" in printed[2]
    assert "[MASK:" in printed[3]
    assert re.search(r"train: records +98", printed[4])
    assert files == prepare(here, environment.folder / "all")[1]


@pytest.mark.parametrize(
    ("command", "needs", "extra"),
    [
        ("nlpdata split-sentences --input a.txt --output b.txt", "sentencex", "split"),
        ("nlpdata create-pretraining --input a.txt --tokenizer a --output b --runner DirectRunner", "apache-beam", "beam"),
        ("nlpdata create-pretraining --input s3://bucket/a.txt --tokenizer a --output b", "s3fs", "s3"),
        ("nlpdata create-pretraining --input a.zst --tokenizer a --output b", "zstandard", "zstd"),
        ("nlpdata create-finetuning --task classification --input a.parquet --tokenizer v.txt --output b", "pyarrow", "parquet"),
        ("pretrain.run --experiment=bert/pretraining --model_dir=run", "neither TensorFlow nor JAX", "train"),
        ("pretrain.run --experiment=bert/pretraining --model_dir=run --backend=jax", "jax", "jax"),
        ("pretrain.convert a b --format hf", "keras", "train"),
        ("pretrain.predict --model_dir=run --input a.txt --output b", "neither TensorFlow nor JAX", "train"),
        ("pretrain.export run b --format hf", "keras", "train"),
        ("pretrain.glue --init_checkpoint=a --input=b --output=c", "TensorFlow", "train"),
    ],
)  # fmt: skip
def test_a_missing_extra_is_one_line(environment, command, needs, extra):
    folder = environment.folder
    (folder / "a.txt").write_text("A line.\n")
    (folder / "a.zst").write_bytes(b"\x28\xb5\x2f\xfdrest")
    (folder / "a.parquet").write_bytes(b"PAR1")
    (folder / "v.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]) + "\n")
    done = environment.run("-m", *command.split())
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert f"pip install '.[{extra}]'" in last
    assert needs in last


_TRAINING = """
import sys
from pretrain import run
config, records, rows = sys.argv[1:]
pretraining = ["--experiment=albert/pretraining", f"--config_file={config}", "--num_train_steps=4", "--model_dir=run1"]
assert run.main([*pretraining, "--train_batch_size=8", f"--input_files={records}/a.tfrecord"]) == 0
tuning = "--experiment=albert/sentence_prediction --init_checkpoint=run1 --learning_rate=2e-3 --num_train_epochs=5 --model_dir=run2"
one_length = "task.train_data.trim_padding=false,task.validation_data.trim_padding=false"  # each one is compiled for itself
data = [f"--input_files={rows}/train.tfrecord", f"--eval_files={rows}/dev.tfrecord"]
both = ["--mode=train_and_eval", "--train_batch_size=8"]
assert run.main([*both, *tuning.split(), f"--params_override={one_length},trainer.summary_interval=20", *data]) == 0
"""
_AFTER_TRAINING = """
from pretrain import export, predict
assert predict.main("--model_dir=run2 --input=new.txt --output=predictions.tsv".split()) == 0
assert export.main("run2 hf --format hf".split()) == 0
"""


def test_the_extra_jax_trains_predicts_and_exports_without_tensorflow(environment, prepared):
    """Last in this file: the environment is no longer the base afterwards."""
    environment.install("--no-compile", f"{environment.wheel}[jax]")
    assert environment.run("-c", "import tensorflow").returncode
    folder = environment.folder
    records, rows = folder / "base" / "out", folder / "base" / "ft"
    (folder / "new.txt").write_text("Wo steht der alte Apfelbaum?\n")
    environment.ok("-c", _TRAINING, ROOT / "pretrain" / "configs" / "tiny_albert.yaml", records, rows)
    environment.ok("-c", _AFTER_TRAINING)
    losses = [
        line["loss"]
        for line in map(json.loads, (folder / "run2" / "metrics.jsonl").read_text().splitlines())
        if line["split"] == "train"
    ]
    assert losses[-1] < losses[0] / 2
    assert json.loads((folder / "run2" / "eval_results.json").read_text())["accuracy"] > 0.5
    assert "german" in (folder / "predictions.tsv").read_text().lower()
    assert (folder / "hf" / "model.safetensors").exists()
