"""What holds for all tests."""

import os
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path

import hypothesis
import pytest

from nlpdata.cli import faults
from tests import light, named_options, repository, warm_python

# How long examples take tells how busy the machine is, not whether the code is right.
hypothesis.settings.register_profile("no times", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("no times")


def pytest_addoption(parser):
    parser.addoption("--light", action="store_true", help="only tests that need no TensorFlow, Keras, JAX or Beam")


def pytest_configure(config):
    _heed_interrupts()
    _keep_bytecode()
    _compile_quickly()
    if warm_python.FOLDER_VARIABLE not in os.environ:  # a worker, and pytest in a test, have that of the session
        folder = Path(tempfile.mkdtemp(prefix="warm-python-"))
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
        _compile_once(folder / "jax")
        warm_python.offer(folder)
    if config.getoption("--light"):
        sys.modules.update(
            dict.fromkeys(light.BLOCKED)
        )  # importing one fails: a test that needs it must be marked `heavy`


def _heed_interrupts():
    """In the background of a script a process ignores SIGINT, and so would all that it starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _keep_bytecode():
    """Compiles each module once, not in every process of the tests: hundreds start, with most of our modules each."""
    sys.dont_write_bytecode = False
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def _compile_quickly():
    """XLA, of JAX and of TensorFlow, leaves out optimizations, which take longer than all steps of a test's run.

    Its newer code for fused operations, and code in several parts, took it 2.7 seconds for a step that it else compiles in 0.8.
    A version that no longer knows one of these flags ends the process and names the flag.
    """
    own = (
        "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
        "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
    )
    os.environ["XLA_FLAGS"] = " ".join([*own, os.environ.get("XLA_FLAGS", "")]).strip()


def _compile_once(folder: Path):
    """The many runs of the same small models on JAX share what they have compiled, however fast it was."""
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


def pytest_ignore_collect(collection_path, config):
    if config.getoption("--light") and collection_path.suffix == ".py" and light.needs_heavy(collection_path):
        return True
    return None


def pytest_collection_modifyitems(config, items):
    if config.getoption("--light"):
        items[:] = [item for item in items if not item.get_closest_marker("heavy")]
    # Files with slow tests come first, so that at the end no worker has a long test while the others wait.
    with_slow_tests = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in with_slow_tests)


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """The models of these tests are so small that threads mostly wait for each other, and test processes share the cores."""
    if sys.modules.get("tensorflow"):  # collected tests have imported it
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


@pytest.fixture(scope="session", autouse=True)
def _fault_folder(tmp_path_factory):
    """Where commands, also those in processes of their own, leave the tracebacks of the program's faults."""
    folder = tmp_path_factory.mktemp("faults")
    os.environ[faults.FOLDER_VARIABLE] = str(folder)
    return folder


@pytest.fixture(autouse=True)
def _same_variables():
    """What a library sets in the environment, as Dask does for its workers, is not there in the next test."""
    before = dict(os.environ)
    yield
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(autouse=True)
def fault_files(_fault_folder):
    """Takes the tracebacks of faults that a test provokes; the test fails of any other."""

    def take():
        found = []
        for path in sorted(_fault_folder.iterdir()):
            found.append(path.read_text(encoding="utf-8"))
            path.unlink()
        return found

    yield take
    left = take()
    assert not left, "a command ended in a fault of the program:\n" + "\n".join(left)


@pytest.fixture(autouse=True)
def foreign_options():
    """The messages of a test's commands that name an option which they lack; the test fails where it leaves one."""
    with named_options.watched() as foreign:
        yield foreign
    assert not foreign, "a message names an option that its reader does not have:\n" + "\n".join(foreign)


@pytest.fixture(scope="module", autouse=True)
def _nothing_left():
    """The tests of a file write into folders of their own: they fail where one leaves a file in the repository."""
    before = repository.files(repository.ROOT)
    yield
    left = repository.without_committed(repository.files(repository.ROOT) - before, repository.ROOT)
    assert not left, f"these files are new in the repository since the tests of this file began: {sorted(left)}"


@pytest.fixture(autouse=True)
def _bound(request):
    """No test runs for ever: one that hangs fails after ten minutes, or after the seconds of its mark `bound`."""
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return
    mark = request.node.get_closest_marker("bound")
    seconds = mark.args[0] if mark else 600

    def stop(*_):
        pytest.fail(f"the test ran for more than {seconds} seconds")  # which no `except Exception` takes for its own

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
