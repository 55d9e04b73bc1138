"""What `import pretrain` offers where Keras or TensorFlow is not installed."""

import importlib
import subprocess
import sys

import pytest

import pretrain
from nlpdata.errors import UsageError


@pytest.mark.parametrize("package", ["keras", "tensorflow", "tensorflow.python"])
@pytest.mark.parametrize("name", ["load", "run_experiment"])
def test_a_missing_package_is_named_with_its_extra(package, name, monkeypatch):
    def fails(module):
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(importlib, "import_module", fails)
    root = package.partition(".")[0]
    with pytest.raises(
        UsageError, match=rf"pretrain.{name} needs {root}, which is not installed.*pip install '\.\[train\]'"
    ):
        getattr(pretrain, name)


def test_without_keras_at_all():
    code = "import sys; sys.modules['keras'] = None; import pretrain; pretrain.load"  # importing it fails
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1].startswith(
        "nlpdata.errors.UsageError: pretrain.load needs keras, which is not installed"
    )


def test_other_missing_modules_are_faults_of_the_program(monkeypatch):
    def fails(module):
        raise ModuleNotFoundError("No module named 'pretrain.nothing'", name="pretrain.nothing")

    monkeypatch.setattr(importlib, "import_module", fails)
    with pytest.raises(ModuleNotFoundError):
        pretrain.load  # noqa: B018
