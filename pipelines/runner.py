"""Runners and their options: what can be known to be wrong is reported before anything runs."""

import argparse
import importlib
import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn

import apache_beam as beam
from apache_beam.options import pipeline_options

from nlpdata.errors import UsageError, closest, missing_package, opt
from nlpdata.files.paths import is_remote
from pipelines.endpoints import SECONDS, check_dask_scheduler, check_job_server
from pipelines.workers import DirectRunner

# DirectRunner means Beam's in-process runner: Beam's own DirectRunner first tries to download another one.
RUNNERS = {
    "DirectRunner": "pipelines.workers:DirectRunner",
    "DaskRunner": "pipelines.dask_runner:DaskRunner",
    "FlinkRunner": "apache_beam.runners.portability.flink_runner:FlinkRunner",
    "SparkRunner": "apache_beam.runners.portability.spark_runner:SparkRunner",
    "DataflowRunner": "apache_beam.runners.dataflow:DataflowRunner",
}
_BUCKET = re.compile(r"gs://[a-z0-9][-_a-z0-9.]{1,61}[a-z0-9]/.+")
DASK_PARTITIONS = 256  # most partitions of a collection


@dataclass(frozen=True)
class Runner:
    """A runner with its options: `make()` gives a new one."""

    name: str
    flags: tuple[str, ...]
    make: Callable[[], beam.runners.PipelineRunner]

    @property
    def is_local(self) -> bool:
        """True where all steps run on this machine."""
        return self.name == "DirectRunner"

    def check_places(self, paths: Sequence[str], dry_run: bool, options: Sequence[str] = ("input", "output")) -> None:
        """UsageError for a path, of these options, that the workers cannot reach."""
        here = [path for path in paths if not is_remote(path)]
        if self.name == "DataflowRunner" and here and not dry_run:
            named = " and ".join(map(opt, options))
            raise UsageError(
                f"Dataflow's workers share no file system with this machine: {named} must be gs:// paths. "
                f"Received: {here[0]}. Use a bucket; {opt('dry_run', True)} shows the job as it is"
            )

    @contextmanager
    def pipeline(self, units: int, offline: bool = False) -> Iterator[beam.Pipeline]:
        """An empty pipeline, whose temporary folder goes with the context: Beam deletes that of a pipeline that ran.

        UsageError where Beam's own validation finds the options at fault.

        Args:
          units: elements that it begins with; Dask would put all of a small number into one partition.
          offline: to be looked at only, so without the runner, which may look up buckets when it is made.
        """
        more, given = [], " ".join(self.flags)
        if self.name == "DaskRunner" and "--dask_npartitions" not in given and "--dask_partition_size" not in given:
            more = [f"--dask_npartitions={min(units, DASK_PARTITIONS)}"]
        options = pipeline_options.PipelineOptions([*more, *self.flags])
        place = options.view_as(pipeline_options.GoogleCloudOptions)
        if self.name == "DataflowRunner" and not place.staging_location:
            place.staging_location = f"{place.temp_location.rstrip('/')}/staging"
        try:
            pipeline = beam.Pipeline(runner=DirectRunner() if offline else self.make(), options=options)
        except ValueError as error:
            lines = [line.strip() for line in str(error).splitlines()[1:] if line.strip()]
            raise UsageError(f"{self.name}: {' '.join(lines) or error}") from None
        try:
            yield pipeline
        finally:
            shutil.rmtree(pipeline.local_tempdir, ignore_errors=True)


def find_runner(name: str, flags: Sequence[str], dry_run: bool = False) -> Runner:
    """The runner of a name, with Beam's options for it checked as far as that is possible before it starts.

    Raises UsageError for a runner or option that does not exist, lacks what it needs, or is not safe.
    """
    if name not in RUNNERS:
        raise UsageError(
            f"{opt('runner')} must be local or one of {', '.join(RUNNERS)}. Received: {name!r}.{closest(name, RUNNERS)}"
        )
    if name == "DaskRunner" and importlib.util.find_spec("distributed") is None:
        raise missing_package(opt("runner", "DaskRunner"), "distributed")
    module, _, attribute = RUNNERS[name].partition(":")
    make = getattr(importlib.import_module(module), attribute)
    found = BeamParser().read(flags)
    if found.get("runner"):
        raise UsageError(f"{opt('runner')} belongs before `--`. Received there: {name}; after it: {found['runner']}.")
    _CHECKS[name](found, dry_run)
    return Runner(name, tuple(flags), make)


class BeamParser(argparse.ArgumentParser):
    """A parser of all options that Beam knows (those of the Dask runner once it is imported).

    Unknown options are refused, where Beam leaves them out with a warning.

    Attributes:
      options: option string, e.g. "--region" -> its action.
    """

    def __init__(self) -> None:
        self.options: dict[str, argparse.Action] = {}
        super().__init__(add_help=False, allow_abbrev=False, conflict_handler="resolve")
        for group in pipeline_options.PipelineOptions.__subclasses__():
            group._add_argparse_args(self)  # the method that Beam's documentation has users override

    def add_argument(self, *args: Any, **kwargs: Any) -> argparse.Action:
        action = super().add_argument(*args, **kwargs)
        self.options |= dict.fromkeys(action.option_strings, action)
        return action

    def add_value_provider_argument(self, *args: Any, **kwargs: Any) -> None:
        """As Beam's parser has it, for options that a template leaves open: their values are not looked at here."""
        self.add_argument(*args, **kwargs)

    def read(self, flags: Sequence[str]) -> dict[str, Any]:
        """The values of all options. UsageError for an unknown option, or a value that its option does not take."""
        found, unknown = self.parse_known_args(flags)
        if unknown:
            word = unknown[0].partition("=")[0]
            hint = closest(word, self.options)
            raise UsageError(f"what follows `--` are Beam's options, and it has none called {word}.{hint}")
        return vars(found)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"Beam's options, after `--`: {message}")


def _check_direct(found: dict, dry_run: bool) -> None:
    if found["direct_running_mode"] == "multi_threading":
        raise UsageError(
            "--direct_running_mode=multi_threading is refused: in Beam 2.77 it lost records without an error in four "
            "of six runs. Use in_memory (the default), or multi_processing with --direct_num_workers"
        )
    if found["direct_num_workers"] != 1 and found["direct_running_mode"] == "in_memory":
        raise UsageError(
            f"--direct_num_workers={found['direct_num_workers']} has no effect in the mode in_memory. Add "
            "--direct_running_mode=multi_processing"
        )


def _check_dask(found: dict, dry_run: bool) -> None:
    path = found.get("scheduler_file")
    if path and not os.path.exists(path):
        raise UsageError(f"--dask_scheduler_file {path} does not exist")
    if found.get("address") is not None and not dry_run:
        bound = found.get("timeout")
        check_dask_scheduler(found["address"], min(bound, SECONDS) if isinstance(bound, int) else SECONDS)


def _check_job_server(name: str, option: str, default_jar: str) -> Callable[[dict, bool], None]:
    def check(found: dict, dry_run: bool) -> None:
        if dry_run:
            return
        if found["job_endpoint"]:
            check_job_server(found["job_endpoint"], min(found["job_server_timeout"], SECONDS))
            return
        jar = found[option]
        if not jar:
            raise UsageError(
                f"{opt('runner', name)} needs a Beam job server. Give the address of one that runs, `-- --job_endpoint="
                f"localhost:8099`, or its jar, `-- --{option}=PATH` ({default_jar} at Maven Central, org.apache.beam; "
                "without either Beam would download it)"
            )
        if "://" not in jar and not os.path.exists(jar):
            raise UsageError(f"--{option}: {jar} does not exist")
        if shutil.which("java") is None:
            raise UsageError(f"--{option} needs Java, and `java` is not on the PATH; or use --job_endpoint")

    return check


def _check_dataflow(found: dict, dry_run: bool) -> None:
    missing = [name for name in ("project", "region", "temp_location") if not found[name]]
    if missing:
        raise UsageError(
            f"{opt('runner', 'DataflowRunner')} needs {', '.join(f'--{name}' for name in missing)} after `--`, e.g. -- "
            "--project=my-project --region=europe-west4 --temp_location=gs://my-bucket/tmp"
        )
    if not _BUCKET.fullmatch(found["temp_location"]):
        raise UsageError(f"--temp_location must be gs://BUCKET/FOLDER. Received: {found['temp_location']}")
    if dry_run:
        return
    if not any(found[name] for name in ("sdk_container_image", "extra_packages", "setup_file")):
        raise UsageError(
            "Dataflow's workers need nlpdata: after `--`, name an image that holds it, --sdk_container_image=... (made by "
            "pipelines/submit.sh), or a wheel, --extra_package=nlpdata-...whl (made by `pip wheel --no-deps .`)"
        )
    if not _importable("google.cloud.storage"):
        raise missing_package(opt("runner", "DataflowRunner"), "google.cloud.storage")


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


_CHECKS: dict[str, Callable[[dict, bool], None]] = {
    "DirectRunner": _check_direct,
    "DaskRunner": _check_dask,
    "FlinkRunner": _check_job_server("FlinkRunner", "flink_job_server_jar", "beam-runners-flink-*-job-server"),
    "SparkRunner": _check_job_server("SparkRunner", "spark_job_server_jar", "beam-runners-spark-3-job-server"),
    "DataflowRunner": _check_dataflow,
}
