"""Runners and their options: what can be known to be wrong is said before anything runs."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.options.pipeline_options import DirectOptions, PipelineOptions

from nlpdata.errors import DataError, UsageError
from pipelines.faults import fault_in


@dataclass(frozen=True)
class Runner:
    name: str
    options: PipelineOptions
    make: Callable


def runner_for(name: str, beam_args: Sequence[str]) -> Runner:
    options = PipelineOptions(list(beam_args))
    if name == "DirectRunner":
        from apache_beam.runners.portability.fn_api_runner import FnApiRunner

        if options.view_as(DirectOptions).direct_running_mode == "multi_threading":
            raise UsageError("x")
        return Runner(name, options, FnApiRunner)
    if name == "DaskRunner":
        from apache_beam.runners.dask.dask_runner import DaskRunner

        return Runner(name, options, DaskRunner)
    raise UsageError("unknown")


class Run:
    def __init__(self, runner: Runner, log):
        self._runner, self._log = runner, log

    def __call__(self, build, chunks: int, input_bytes: int) -> None:
        pipeline = beam.Pipeline(runner=self._runner.make(), options=self._runner.options)
        build(pipeline)
        try:
            pipeline.run().wait_until_finish()
        except Exception as error:
            found = fault_in(error)
            if found:
                raise found from error
            raise
