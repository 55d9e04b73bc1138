"""Runs a pipeline to its end: progress, what the runner writes, and every way to end early."""

import gc
import logging
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import apache_beam as beam
import grpc

from nlpdata.cli.streams import screen
from nlpdata.errors import BEGINS_ANEW, DataError
from nlpdata.execution.executor import Progress
from pipelines import progress
from pipelines.faults import fault_in, log_no_marked_faults
from pipelines.quiet import held_back
from pipelines.runner import Runner
from pipelines.watching import WorkerDied, run_watched
from pipelines.workers import DirectRunner

_log = logging.getLogger(__name__)

_CANCEL_SECONDS = 10


def run_pipeline(
    runner: Runner,
    build: Callable[[beam.Pipeline], object],
    *,
    units: int,
    input_bytes: int,
    quiet: bool,
) -> None:
    """Builds a pipeline and runs it to its end.

    Args:
      build: adds the steps to a pipeline.
      units, input_bytes: amount of work, for progress and its division.
      quiet: show no progress.

    Raises the fault that a worker met, else DataError with the root of the runner's error.
    """
    logging.getLogger("distributed").setLevel(logging.ERROR)
    log_no_marked_faults()
    gc.freeze()  # Beam's modules are 100,000 objects, which every full collection would look at
    try:
        with held_back() as keep_log, runner.pipeline(units) as pipeline:
            build(pipeline)
            _log.info(f"{runner.name}: {units} units of work, {input_bytes / 1e6:.1f} MB")
            start = time.monotonic()
            job = _Job(pipeline)
            shown = Progress("tokenizing", input_bytes, quiet=quiet, stream=screen())
            try:
                with progress.shown(shown):
                    state = run_watched(job.run, job.give_up)
            except WorkerDied as death:
                raise DataError(f"{runner.name}: {_how_it_ended(death.code)}{keep_log()}. {BEGINS_ANEW}") from None
            except Exception as error:
                fault = fault_in(error)
                if fault is None:
                    raise DataError(f"{runner.name} failed: {_root_line(error)}{keep_log()}") from error
                raise fault from error
            finally:
                job.close()
            if state not in (None, "DONE"):
                raise DataError(f"{runner.name} ended in the state {state}: its log says why{keep_log()}")
            _log.info(f"{runner.name}: done in {time.monotonic() - start:.0f} s")
    finally:
        gc.unfreeze()


class _Job:
    """A pipeline while it runs."""

    def __init__(self, pipeline: beam.Pipeline) -> None:
        self._pipeline = pipeline
        self._result: Any = None

    def run(self) -> str | None:
        """Runs it; the state in which it ends."""
        self._result = self._pipeline.run()
        return self._result.wait_until_finish()

    def give_up(self) -> None:
        """Ends it early, also where the runner does not answer."""
        if isinstance(self._pipeline.runner, DirectRunner):
            self._pipeline.runner.end_workers()
        if self._result is not None:
            cancelling = threading.Thread(target=self._cancel, daemon=True)
            cancelling.start()
            cancelling.join(_CANCEL_SECONDS)

    def _cancel(self) -> None:
        with suppress(Exception):  # some runners cannot
            self._result.cancel()

    def close(self) -> None:
        """Ends what was started for this pipeline, such as the cluster of the Dask runner; leaves a cluster that was there."""
        if isinstance(self._pipeline.runner, DirectRunner):
            self._pipeline.runner.forget_workers()
        client = getattr(self._result, "client", None)
        if client is not None:
            cluster = client.cluster
            client.close()
            if cluster is not None:
                cluster.close()


def _root_line(error: BaseException) -> str:
    if isinstance(error, grpc.RpcError):
        return f"the job server does not answer any more: {error.details()}"
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _how_it_ended(code: int) -> str:
    if code == -signal.SIGKILL:
        return (
            "a worker process was killed by SIGKILL. The usual cause is that memory ran out (look for 'Out of memory' in the "
            "system log): use a smaller --direct_num_workers or more memory"
        )
    if code < 0:
        return f"a worker process was killed by {signal.Signals(-code).name}"
    return f"a worker process ended with the exit code {code}"
