"""Worker processes of DirectRunner (--direct_running_mode=multi_processing), which end with the job that they belong to.

    python -m pipelines.workers PARENT

Beam's own stay when the command is interrupted or killed, until they have finished their bundle.
"""

import os
import shlex
import shutil
import signal
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from apache_beam.portability import python_urns
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.worker import sdk_worker_main

_LOOK_SECONDS = 0.2


class DirectRunner(FnApiRunner):
    """Beam's in-process runner, with worker processes that can be ended. (On Windows they are Beam's own.)"""

    def __init__(self) -> None:
        super().__init__()
        self._ids: Path | None = None  # a folder, in which each worker makes one that its process id names

    def run_via_runner_api(self, pipeline_proto: Any, options: Any) -> Any:
        for environment in pipeline_proto.components.environments.values():
            if environment.urn == python_urns.SUBPROCESS_SDK and os.name == "posix":
                environment.payload = self._command().encode()
        return super().run_via_runner_api(pipeline_proto, options)

    def _command(self) -> str:
        """For the shell that Beam starts, and that becomes the worker; an interrupt is for the parent to decide about."""
        self._ids = Path(tempfile.mkdtemp(prefix="nlpdata-workers-"))
        worker = shlex.join([sys.executable, "-m", __name__, str(os.getpid())])
        return f"trap '' INT; mkdir {shlex.quote(str(self._ids))}/$$ 2>/dev/null && exec {worker}"

    def end_workers(self) -> None:
        """Ends the worker processes, whatever they are doing, also those that are only starting."""
        if self._ids is None:
            return
        # After this, no worker starts: its mkdir fails. And each that made its folder before is in the list.
        ended = self._ids.with_suffix(".ended")
        with suppress(FileNotFoundError):
            self._ids.rename(ended)
            for each in ended.iterdir():
                with suppress(ChildProcessError, ProcessLookupError):
                    number = int(each.name)
                    os.waitid(os.P_PID, number, os.WEXITED | os.WNOHANG | os.WNOWAIT)  # only a child of this process
                    os.kill(number, signal.SIGKILL)
            shutil.rmtree(ended)

    def forget_workers(self) -> None:
        """To be called when they have ended."""
        if self._ids is not None:
            shutil.rmtree(self._ids, ignore_errors=True)


def main(parent: str) -> None:
    """A worker: Beam's, until the process `parent` is gone."""
    # Ends at once and in silence: what pipelines/__init__.py has set is for commands.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(int(parent),), daemon=True).start()
    sdk_worker_main.main(sys.argv)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
