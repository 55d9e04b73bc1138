"""A Python for tests whose subject is what a command does, not how it starts: libraries are imported once, in a process that forks.

Importing TensorFlow, JAX, Beam and what Keras needs takes five seconds of CPU, and hundreds of tests run a command in a process
of its own. `COMMAND` in place of `[sys.executable]` runs the same code in a fork of a server process that has imported those
libraries and what of our packages needs no Keras; Keras, which chooses its backend as it is imported, and all else are imported by
the fork. No library has computed anything before the fork, so TensorFlow and JAX start their devices and threads in it, as they
always do.

The fork has the caller's arguments, folder, environment, standard streams and cores; the caller sees its exit code, and may end
it by a signal. Use `sys.executable` where the subject is

- what is imported, or what libraries write as they are imported;
- a process group, open files beyond the standard streams, or the memory of the process.

A call falls back to `sys.executable` where the server could not do the same: options of Python, variables that libraries read as
they are imported, systems without pidfd. The server starts with the first call of a test session, and ends with the session.
"""

import contextlib
import fcntl
import io
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-ISE", str(Path(__file__).resolve())]
FOLDER_VARIABLE = "NLPDATA_TESTS_WARM_PYTHON"
_SESSION, _FORK = "session.json", "fork-of-"  # files in that folder
# Variables that Python and libraries read as they start: the server has them as the session has.
_READ_EARLY = ("PYTHON", "LC_", "LANG", "LD_", "TF_", "JAX_", "OMP_", "OPENBLAS_", "MKL_", "KERAS_HOME", "MPL")
# Of these, variables that are read later, or that the fork reads.
_JAX_OPTIONS = {"JAX_PLATFORMS": "jax_platforms", "JAX_COMPILATION_CACHE_DIR": "jax_compilation_cache_dir"}
_READ_LATE = (*_JAX_OPTIONS, "PYTHONPATH", "TF_CONFIG", "TF_CPP_MIN_LOG_LEVEL", "TF_CPU_ALLOCATOR_USE_BFC")
# The libraries that commands import, and the parts of them that Keras imports.
_LIBRARIES = (
    "numpy", "tensorflow", "jax.numpy", "jax.experimental.sparse", "jax.experimental.pallas", "apache_beam", "optree",
    "rich.progress", "sklearn.utils.validation", "scipy.ndimage", "matplotlib.pyplot", "PIL.Image", "psutil", "h5py",
    "sentencepiece", "typer", "yaml", "fsspec",
)  # fmt: skip
_OURS = ("nlpdata", "pretrain.data", "pretrain.settings")  # packages, with all of their modules
_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def offer(folder: Path) -> None:
    """Lets calls of `COMMAND`, by this process and those that it starts, use one server, which ends with this process."""
    environment = {
        name: value for name, value in os.environ.items() if name not in (*_READ_LATE, "KERAS_BACKEND", "XLA_FLAGS")
    }
    session = {"owner": os.getpid(), "environment": environment | {"TF_CPP_MIN_LOG_LEVEL": "3"}}
    (folder / _SESSION).write_text(json.dumps(session), encoding="utf-8")
    os.environ[FOLDER_VARIABLE] = str(folder)


class Process(subprocess.Popen):
    """A process of `COMMAND`. Signals, SIGKILL too, go to the fork itself."""

    def send_signal(self, number: int) -> None:
        place = _place_of_fork(Path(os.environ.get(FOLDER_VARIABLE, "")), self.pid)
        if not place.is_file():
            super().send_signal(number)
        elif self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(place.read_text()), number)


# --- The caller ---------------------------------------------------------------------------------------------------------------


def _call(arguments: list[str]) -> None:
    """Runs `python arguments` in a fork of the server, and ends as it ends."""
    folder = Path(os.environ.get(FOLDER_VARIABLE, ""))
    if not (folder / _SESSION).is_file() or not hasattr(os, "pidfd_open") or not _is_plain(arguments):
        _call_cold(arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until they can be passed on
    with _connected(folder) as connection:
        request = {
            "caller": os.getpid(),
            "arguments": arguments,
            "folder": os.getcwd(),
            "environment": dict(os.environ),
            "cores": sorted(os.sched_getaffinity(0)),
            "mask": _mask(),
        }
        socket.send_fds(connection, [b"x"], [0, 1, 2])
        connection.sendall(json.dumps(request).encode() + b"\n")
        answers = connection.makefile("r")
        fork = int(answers.readline() or 0)
        if not fork:  # the server has other variables
            _call_cold(arguments)
        for each in _SIGNALS:
            signal.signal(each, lambda number, _: os.kill(fork, number))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.closerange(0, 3)  # whoever reads the standard streams waits for the fork alone
        code = int(answers.readline() or -signal.SIGKILL)
    _place_of_fork(folder, os.getpid()).unlink(missing_ok=True)  # a later process may have this number
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


def _call_cold(arguments: list[str]) -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    os.execv(sys.executable, [sys.executable, *arguments])


def _place_of_fork(folder: Path, caller: int) -> Path:
    return folder / f"{_FORK}{caller}"


def _write_whole(path: Path, text: str) -> None:
    path.with_suffix(".new").write_text(text, encoding="utf-8")
    path.with_suffix(".new").rename(path)


def _is_plain(arguments: list[str]) -> bool:
    """Whether these are `-c code`, `-m module` or a script, and no process of multiprocessing, which inherits open files."""
    named = arguments[:1] in (["-c"], ["-m"]) or (arguments and not arguments[0].startswith("-"))
    return bool(named) and not any("multiprocessing" in word for word in arguments)


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _connected(folder: Path) -> socket.socket:
    """A connection to the server, which the first caller starts."""
    place = str(folder / "socket")
    connection = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(OSError):
        connection.connect(place)
        return connection
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):  # another has started it meanwhile
            connection.connect(place)
            return connection
        _start(folder)
        for _ in range(1200):
            with contextlib.suppress(OSError):
                connection.connect(place)
                return connection
            time.sleep(0.1)
    sys.exit(f"tests/warm_python.py: the server has not started; {folder / 'log'} has its messages")


def _start(folder: Path) -> None:
    """Starts the server apart from this process: in a session of its own, with its own standard streams."""
    if os.fork():
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream, target in enumerate((nothing, nothing, log)):
        os.dup2(target, stream)
    os.closerange(3, 1024)
    os.sched_setaffinity(0, range(os.cpu_count() or 1))
    os.chdir("/")
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    environment = json.loads((folder / _SESSION).read_text(encoding="utf-8"))["environment"]
    os.execve(sys.executable, [sys.executable, __file__, "--serve", str(folder)], environment)


# --- The server ---------------------------------------------------------------------------------------------------------------


def _serve(folder: Path) -> dict[str, Any]:
    """Forks for each request; returns the request, in the fork."""
    import gc
    import selectors

    del sys.path[0]  # the folder of this file
    _import_libraries()
    gc.collect()
    gc.freeze()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(folder / "socket"))
    listening.listen(64)
    waiting = selectors.DefaultSelector()
    owner = json.loads((folder / _SESSION).read_text(encoding="utf-8"))["owner"]
    waiting.register(os.pidfd_open(owner), selectors.EVENT_READ, "owner")
    waiting.register(listening, selectors.EVENT_READ, "call")
    processes: dict[int, tuple[int, socket.socket]] = {}  # descriptor of the process -> process, connection
    callers: dict[int, int] = {}  # descriptor of the connection -> process
    while True:
        for key, _ in waiting.select():
            if key.data == "owner":
                for fork, _ in processes.values():
                    os.kill(fork, signal.SIGKILL)
                sys.exit()
            elif key.data == "call":
                connection, _ = listening.accept()
                request = _received(connection)
                if request is None:
                    connection.close()
                    continue
                process = os.fork()
                if not process:
                    waiting.close()
                    for each in (listening, connection, *(other for _, other in processes.values())):
                        each.close()
                    for each in processes:
                        os.close(each)
                    return request
                for stream in request["streams"]:
                    os.close(stream)
                _answer(connection, process)
                descriptor = os.pidfd_open(process)
                processes[descriptor] = process, connection
                callers[connection.fileno()] = process
                waiting.register(descriptor, selectors.EVENT_READ, "process")
                waiting.register(connection, selectors.EVENT_READ, "caller")
            elif key.data == "process" and key.fd in processes:
                process, connection = processes.pop(key.fd)
                waiting.unregister(key.fd)
                os.close(key.fd)
                if callers.pop(connection.fileno(), None):
                    waiting.unregister(connection)
                _answer(connection, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
                connection.close()
            elif key.data == "caller" and key.fd in callers:  # it has gone
                os.kill(callers.pop(key.fd), signal.SIGKILL)
                waiting.unregister(key.fd)


def _import_libraries() -> None:
    """Imports the libraries that are installed, without Keras, which TensorFlow would import with the backend of this process,
    and the modules of ours."""
    import importlib
    import logging
    import warnings

    refusing = _NoKeras()
    sys.meta_path.insert(0, refusing)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _LIBRARIES:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
        for name in _modules_of_ours():
            importlib.import_module(name)
        del sys.path[0]
    sys.meta_path.remove(refusing)
    logging.getLogger().handlers.clear()  # Beam logs a warning, by which Python sets up logging
    early = {name.partition(".")[0] for name in sys.modules} & {"keras", "pipelines"}
    assert not early, f"imported before the fork: {early}"


def _modules_of_ours() -> list[str]:
    """Their names. No module does anything as it is imported, and none looks at its process."""
    import importlib
    import pkgutil

    found = []
    for name in _OURS:
        modules = pkgutil.walk_packages(importlib.import_module(name).__path__, f"{name}.")
        found += [module.name for module in modules if not module.name.endswith(".__main__")]
    return found


class _NoKeras:
    """Finds Keras, as TensorFlow wants to know where it is, but does not import it."""

    def find_spec(self, name, path=None, target=None):
        from importlib.machinery import ModuleSpec, PathFinder

        found = PathFinder.find_spec(name) if name == "keras" else None
        return found and ModuleSpec(name, self, origin=found.origin)

    def create_module(self, spec):
        raise ImportError(spec.name)

    def exec_module(self, module):
        raise ImportError(module.__name__)


def _received(connection: socket.socket) -> dict[str, Any] | None:
    """A request; None where it has variables with which the libraries would have been imported otherwise."""
    _, streams, _, _ = socket.recv_fds(connection, 1, 3)
    with connection.makefile("r") as lines:
        request = json.loads(lines.readline())
    if _early(request["environment"]) != _early(os.environ):
        _answer(connection, 0)
        for stream in streams:
            os.close(stream)
        return None
    return {**request, "streams": streams}


def _early(environment) -> dict[str, str]:
    return {
        name: value for name, value in environment.items() if name.startswith(_READ_EARLY) and name not in _READ_LATE
    }


def _answer(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(OSError):  # the caller has been killed
        connection.sendall(b"%d\n" % number)


# --- The fork -----------------------------------------------------------------------------------------------------------------


def _become(request: dict[str, Any]) -> None:
    """Takes over what a new process has of its caller, and runs the code as Python would."""
    import random
    import runpy
    import tempfile
    import types

    for number, stream in enumerate(request["streams"]):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    sys.stdout, sys.stderr = _output(1), _output(2, line_buffering=True, errors="backslashreplace")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    os.chdir(request["folder"])
    os.umask(request["mask"])
    os.sched_setaffinity(0, request["cores"])
    os.environ.clear()
    os.environ.update(request["environment"])
    _write_whole(_place_of_fork(Path(os.environ[FOLDER_VARIABLE]), request["caller"]), str(os.getpid()))
    if "jax" in sys.modules:
        for variable, option in _JAX_OPTIONS.items():
            sys.modules["jax"].config.update(option, os.environ.get(variable))
    tempfile.tempdir = None  # it is looked for again
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    kind, *rest = request["arguments"]
    given = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    first = {"-c": "", "-m": os.getcwd()}.get(kind, os.path.dirname(os.path.abspath(kind)))
    sys.path[:0] = [first, *given]
    if kind == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    if kind == "-c":
        sys.argv = ["-c", *rest[1:]]
        exec(compile(rest[0], "<string>", "exec"), main.__dict__)
    else:
        sys.argv = [kind, *rest]
        main.__dict__["__file__"] = kind
        exec(compile(Path(kind).read_bytes(), kind, "exec"), main.__dict__)


def _output(number: int, **options) -> io.TextIOWrapper:
    """A standard stream as Python makes it, for a pipe or a file."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))  # the same in the server
    binary = io.FileIO(number, "w", closefd=False)
    return io.TextIOWrapper(binary if unbuffered else io.BufferedWriter(binary), write_through=unbuffered, **options)


def _end(request: dict[str, Any]) -> None:
    """Runs the code and ends as Python would, but for taking the libraries' modules apart, which takes long after a fork."""
    import atexit
    import threading

    code, interrupted = 0, False
    try:
        _become(request)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
        if code and not isinstance(error.code, int):
            print(error.code, file=sys.stderr)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code, interrupted = 1, isinstance(error, KeyboardInterrupt)
    threading._shutdown()
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = code or 120
    if interrupted:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(code & 0xFF)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        _end(_serve(Path(sys.argv[2])))
    else:
        _call(sys.argv[1:])
