"""Worker processes of DirectRunner (--direct_running_mode=multi_processing), which end with the job that they belong to.

    python -m pipelines.workers LEASH PARENT

Beam's own stay when the command is interrupted or killed, until they have finished their bundle.
"""

import os
import shlex
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from apache_beam.portability import python_urns
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.runners.worker import sdk_worker_main

_LOOK_SECONDS = 0.2


class DirectRunner(FnApiRunner):
    """Beam's in-process runner, whose worker processes end when `release` is called, or this process ends."""

    def __init__(self) -> None:
        super().__init__()
        self._leash: str | None = None

    def run_via_runner_api(self, pipeline_proto: Any, options: Any) -> Any:
        for environment in pipeline_proto.components.environments.values():
            if environment.urn == python_urns.SUBPROCESS_SDK:
                environment.payload = self._command().encode()
        return super().run_via_runner_api(pipeline_proto, options)

    def _command(self) -> str:
        descriptor, self._leash = tempfile.mkstemp(prefix="nlpdata-workers-")
        os.close(descriptor)
        words = [sys.executable, "-m", __name__, self._leash, str(os.getpid())]
        # The shell that Beam starts becomes the worker: its exit code is the worker's.
        return f"exec {shlex.join(words)}" if os.name == "posix" else " ".join(words)

    def release(self) -> None:
        """Ends the worker processes, whatever they are doing."""
        if self._leash is not None:
            Path(self._leash).unlink(missing_ok=True)


def main(leash: str, parent: str) -> None:
    """A worker: Beam's, until the file `leash` or the process `parent` is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    threading.Thread(target=_end_with, args=(leash, int(parent)), daemon=True).start()
    sdk_worker_main.main(sys.argv)


def _end_with(leash: str, parent: int) -> None:
    while os.path.exists(leash) and (os.name != "posix" or os.getppid() == parent):
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:])
