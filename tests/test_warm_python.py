"""A fork of the server runs code as a new Python would."""

import os
import select
import signal
import subprocess
import sys

import pytest

from tests import warm_python

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        not hasattr(os, "pidfd_open"), reason="the server needs Linux; elsewhere COMMAND is Python itself"
    ),
]

SHOW = """
import json, os, sys
found = {name.partition(".")[0] for name in sys.modules}
print(json.dumps({
    "argv": sys.argv, "path": sys.path, "folder": os.getcwd(), "input": sys.stdin.read(), "name": __name__,
    "variables": {name: value for name, value in os.environ.items() if not name.startswith("NLPDATA_TESTS")},
    "cores": sorted(os.sched_getaffinity(0)), "streams": [os.readlink(f"/proc/self/fd/{n}").split(":")[0] for n in range(3)],
    "ours": sorted(found & {"keras", "pipelines", "tests"}),
}))
print("to standard error", file=sys.stderr)
sys.exit(7)
"""


def both(*arguments, text="", **settings) -> list[subprocess.CompletedProcess]:
    """The same code by Python itself and by a fork."""
    return [
        subprocess.run([*command, *arguments], input=text, capture_output=True, text=True, check=False, **settings)
        for command in ([sys.executable], warm_python.COMMAND)
    ]


@pytest.mark.parametrize("kind", ["-c", "-m", "script"])
def test_a_fork_has_what_a_process_has(kind, tmp_path):
    (tmp_path / "shown.py").write_text(SHOW)
    (tmp_path / "on_path").mkdir()
    given = {"-c": ["-c", SHOW], "-m": ["-m", "shown"], "script": ["shown.py"]}[kind]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "on_path"), "SOMETHING": "new"}
    core = {min(os.sched_getaffinity(0))}
    settings = {"cwd": tmp_path, "env": environment, "preexec_fn": lambda: os.sched_setaffinity(0, core)}
    plain, warm = both(*given, "-a", "b c", text="a line\n", **settings)
    assert plain.returncode == 7
    assert plain.stdout.count('"a line\\n"') == plain.stdout.count('"ours": []') == 1
    assert (warm.returncode, warm.stdout, warm.stderr) == (plain.returncode, plain.stdout, plain.stderr)


@pytest.mark.parametrize(
    "code",
    [
        "import os, signal; print('begun', flush=True); os.kill(os.getpid(), signal.SIGKILL)",
        "import atexit; atexit.register(print, 'at the end'); raise SystemExit('a reason')",
        "import threading, time; threading.Thread(target=lambda: (time.sleep(0.1), print('later'))).start()",
        "import os; print('lost?'); os._exit(3)",
    ],
)
def test_a_fork_ends_as_a_process_does(code):
    plain, warm = both("-c", code)
    assert (warm.returncode, warm.stdout, warm.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_an_uncaught_exception_is_shown():
    plain, warm = both("-c", "1 / 0")
    assert warm.returncode == plain.returncode == 1
    assert warm.stderr.splitlines()[-2:] == plain.stderr.splitlines()[-2:]


def test_the_libraries_are_there_and_each_fork_starts_its_own_devices():
    code = (
        "import sys; warm = {'tensorflow', 'jax', 'apache_beam'} <= set(sys.modules)\n"
        "import keras, jax, tensorflow as tf, numpy as np\n"
        "print(warm, keras.backend.backend(), jax.device_count(), float(tf.reduce_sum(keras.ops.ones(3).__array__())))"
    )
    for backend, devices in (("tensorflow", 1), ("jax", 3)):
        variables = {"KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}
        flags = {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
        done = subprocess.run(
            [*warm_python.COMMAND, "-c", code], env={**os.environ, **variables, **flags}, capture_output=True, text=True
        )
        assert done.stdout == f"True {backend} {devices} 3.0\n", done.stderr


def test_variables_that_libraries_read_as_they_are_imported_make_a_process_of_its_own():
    code = "import sys; print('tensorflow' in sys.modules, sys.flags.hash_randomization)"
    done = subprocess.run(
        [*warm_python.COMMAND, "-c", code], env={**os.environ, "PYTHONHASHSEED": "0"}, capture_output=True, text=True
    )
    assert done.stdout == "False 0\n", done.stderr


WAITING = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
try:
    print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted")
    raise
"""


@pytest.mark.parametrize(
    ("number", "code", "rest"), [("SIGINT", -2, b"interrupted\n"), ("SIGTERM", 143, b""), ("SIGKILL", -9, b"")]
)
def test_signals_reach_the_fork(number, code, rest):
    command = [*warm_python.COMMAND, "-c", WAITING]
    with warm_python.Process(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as started:
        assert started.stdout.readline() == b"True\n"
        started.send_signal(signal.Signals[number])
        left, _ = started.communicate(timeout=60)
    assert (started.returncode, left) == (code, rest)


def test_a_fork_ends_with_its_caller():
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen([*warm_python.COMMAND, "-c", code], stdout=subprocess.PIPE) as caller:
        fork = os.pidfd_open(int(caller.stdout.readline()))
        caller.kill()
    assert select.select([fork], [], [], 60)[0]
    os.close(fork)
