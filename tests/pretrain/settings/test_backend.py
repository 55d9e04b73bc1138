"""Which backend a command computes on, and why."""

import json
import subprocess
from types import SimpleNamespace

import pytest

from nlpdata.errors import UsageError
from pretrain.predict import main as predict
from pretrain.settings import backend
from pretrain.settings.backend import choose_backend, set_backend, use_installed
from tests.messages import messages


@pytest.fixture
def installed(monkeypatch):
    """Sets which packages are there."""

    def only(*names):
        monkeypatch.setattr(backend, "is_installed", lambda package: package in names)

    only("jax", "tensorflow")
    return only


def choice(flag, environment, *runs, accelerator=None):
    return choose_backend(flag, environment, runs, lambda: accelerator)


def test_the_flag_then_the_environment_then_auto(installed):
    assert choice("tensorflow", {"KERAS_BACKEND": "jax"}) == ("tensorflow", "--backend")
    assert choice(None, {"KERAS_BACKEND": "jax"}) == ("jax", "KERAS_BACKEND")
    assert choice("auto", {"KERAS_BACKEND": "torch"})[0] == "tensorflow"
    assert choice(None, {}) == ("tensorflow", "auto: JAX finds no GPU or TPU")
    with pytest.raises(UsageError, match="KERAS_BACKEND=torch: there is no engine for this backend"):
        choice(None, {"KERAS_BACKEND": "torch"})
    with pytest.raises(UsageError, match=r"there is no engine for this backend\. Did you mean tensorflow"):
        choice("tensorflw", {})


def test_the_choice_is_set_and_told(installed, capsys):
    environment = {}
    assert set_backend("jax", environment) == "backend: jax (--backend)"
    assert environment == {"KERAS_BACKEND": "jax"}
    assert predict(["--model_dir=run", "--input=a.txt", "--output=a.tsv", "--backend=torch"]) == 2
    assert "predict: error: --backend=torch: there is no engine for this backend" in capsys.readouterr().err


def test_auto_takes_jax_where_it_finds_an_accelerator(installed):
    assert choice(None, {}, accelerator="gpu") == ("jax", "auto: JAX finds a GPU")
    assert choice("tensorflow", {}, accelerator="gpu") == ("tensorflow", "--backend")
    installed("tensorflow")
    assert choice(None, {}, accelerator="gpu") == ("tensorflow", "auto: JAX is not installed")
    installed("jax")
    assert choice(None, {}) == ("jax", "auto: TensorFlow is not installed")
    installed()
    with pytest.raises(UsageError, match=r"neither TensorFlow nor JAX is installed\..*pip install '\.\[train\]'"):
        choice(None, {})


def test_a_backend_that_is_not_installed(installed):
    installed("jax")
    with pytest.raises(UsageError, match=r"the backend is tensorflow \(--backend\), but it is not installed"):
        choice("tensorflow", {})


def checkpoint(folder, step, content):
    (folder / "checkpoints" / f"step-{step:08d}").mkdir(parents=True)
    (folder / "checkpoints" / f"step-{step:08d}" / "state.json").write_text(content)


def test_a_resumed_run_keeps_its_backend(installed, tmp_path):
    assert choice(None, {}, tmp_path)[0] == "tensorflow"  # nothing to resume
    checkpoint(tmp_path, 1, json.dumps({"step": 1, "backend": "jax"}))
    checkpoint(tmp_path, 2, "{damaged")
    assert choice(None, {}, tmp_path) == ("jax", "that of the run")
    kept = choice("tensorflow", {"KERAS_BACKEND": "tensorflow"}, tmp_path)
    assert kept == ("jax", "that of the run; --backend=tensorflow is not used")
    installed("tensorflow")
    with pytest.raises(UsageError, match=r"the backend is jax \(that of the run\), but it is not installed"):
        choice(None, {}, tmp_path)


def test_a_sweep_keeps_its_backend_whichever_run_was_interrupted_before_its_first_checkpoint(installed, tmp_path):
    for name in ("seed-0", "seed-1", "seed-2"):
        (tmp_path / name).mkdir()
    checkpoint(tmp_path / "seed-1", 1, json.dumps({"step": 1, "backend": "tensorflow"}))
    chosen = "tensorflow", "that of the runs of this sweep; --backend=jax is not used"
    assert choice("jax", {}, *sorted(tmp_path.iterdir())) == chosen


@pytest.mark.parametrize("stored", ["os:system", 7, None])
def test_what_a_checkpoint_names_is_data(installed, tmp_path, stored):
    checkpoint(tmp_path, 1, json.dumps({"step": 1, "backend": stored}))
    assert choice(None, {}, tmp_path)[0] == "tensorflow"


def test_jax_is_asked_in_another_process(installed):
    def answer(text, code=0, errors=""):
        return lambda *_, **__: SimpleNamespace(stdout=text, returncode=code, stderr=errors)

    assert backend._accelerator(answer("gpu\n")) is None  # no plugin is installed: nobody is asked
    installed("jax", "jax_plugins")
    assert backend._accelerator(answer("a warning\ngpu\n")) == "gpu"
    assert backend._accelerator(answer("cpu\n")) is None
    assert backend._accelerator(answer("")) is None

    def hangs(*_, **__):
        raise subprocess.TimeoutExpired("python", 120)

    assert backend._accelerator(hangs) is None
    wrong = "E1130 01:00 flags.cc:63] Couldn't interpret value abc for flag xla_dump_to.\nusage: --xla_dump_to=abc\n"
    for errors, reason in (
        (wrong, wrong.splitlines()[0]),
        ("Traceback\nRuntimeError: a reason\n", "RuntimeError: a reason"),
    ):
        with messages() as said:
            assert backend._accelerator(answer("", 1, errors)) is None
        assert said == [f"warning: JAX does not start, so its devices are not looked for: {reason}"]


def test_keras_gets_the_backend_thatis_installed(installed):
    environment = {}
    use_installed(environment)
    assert environment == {}
    installed("jax")
    use_installed(environment)
    assert environment == {"KERAS_BACKEND": "jax"}
    given = {"KERAS_BACKEND": "tensorflow"}
    use_installed(given)
    assert given == {"KERAS_BACKEND": "tensorflow"}
