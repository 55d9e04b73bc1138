"""pretrain submit --staging gs://BUCKET/nlpdata --display_name bert -- FLAGS: `pretrain run` as a job on Vertex AI.

Packages this project's source, copies it to the staging folder, and creates a
CustomJob that installs it and runs `python -m pretrain.run FLAGS`. Inside a job the bucket's files are at /gcs/BUCKET;
gs:// paths among the flags are written so. --dry_run prints the job and the commands, and needs neither gcloud nor a bucket.

With --study or --tune it is a HyperparameterTuningJob: the same run many times, with values that the service chooses.
"""

import logging
import re
import shlex
import shutil
import subprocess
import tempfile
import typing
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
import yaml

from nlpdata.cli.parameters import with_common
from nlpdata.cli.results import Summary
from nlpdata.cli.screens import GroupedCommand
from nlpdata.errors import DataError, UsageError, closest
from nlpdata.registry import user_modules
from pretrain.jobs.package import build_package, digest, module_sources
from pretrain.run import gin_of, resolve, run_mode
from pretrain.settings.command_line import option, run_app
from pretrain.settings.fields import Choice
from pretrain.settings.flags import FIELDS, Flag, find_flag, parse_flags
from pretrain.settings.schema import ExperimentConfig, own_modules
from pretrain.sweeps.study import Study, parameter, study_of_file
from pretrain.training.checks.settings import check_experiment, format_names

_log = logging.getLogger("pretrain.submit")

_BUCKET = re.compile(r"gs://[a-z0-9][-_a-z0-9.]{1,61}[a-z0-9](/.*)?")
_IMAGE = "python:3.11"
_WITHOUT_TENSORFLOW = {"hf", "native", "h5"}  # formats that are written without it

EXAMPLES = """
pretrain submit --staging gs://BUCKET/nlpdata --display_name bert \\
    -- --experiment=bert/pretraining --input_files=gs://BUCKET/train.tfrecord
"""

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command(cls=GroupedCommand, epilog=EXAMPLES, context_settings={"allow_extra_args": True})
@with_common
def submit_command(
    context: typer.Context,
    staging: Annotated[str, option("Job", "gs://BUCKET/FOLDER for the package and the job's model_dir.", "--staging")],
    display_name: Annotated[
        str,
        option("Job", "Name of the job, and of its folder in the bucket.", "--display_name"),
    ] = "nlpdata",
    region: Annotated[str, option("Job", "Region of Vertex AI.", "--region")] = "us-central1",
    project: Annotated[str | None, option("Job", "Google Cloud project.  [default: gcloud's]", "--project")] = None,
    machine_type: Annotated[
        str,
        option("Machine", "Machine type of the worker.", "--machine_type"),
    ] = "a2-highgpu-1g",
    accelerator_type: Annotated[
        str,
        option("Machine", "Accelerator type; empty: none.", "--accelerator_type"),
    ] = "NVIDIA_TESLA_A100",
    accelerator_count: Annotated[
        int,
        option("Machine", "Number of accelerators; 0: none.", "--accelerator_count", min=0, max=1024),
    ] = 1,
    image: Annotated[str, option("Machine", "Image with Python 3.11 to 3.13 and pip.", "--image")] = _IMAGE,
    study: Annotated[
        Path | None,
        option(
            "Tuning",
            "Tune hyperparameters by this YAML: Vertex AI's studySpec, or AI Platform's.",
            "--study",
            metavar="PATH",
        ),
    ] = None,
    tune: Annotated[
        list[str] | None,
        option(
            "Tuning",
            "Tune a flag: learning_rate=1e-5:1e-4:log, train_batch_size=16,32. Repeat it for several.",
            "--tune",
        ),
    ] = None,
    metric: Annotated[str, option("Tuning", "Metric of the tuning, e.g. accuracy.", "--metric")] = "",
    goal: Annotated[
        Literal["", "maximize", "minimize"],
        option("Tuning", "Its goal.  [default: as the task declares it]", "--goal"),
    ] = "",
    max_trials: Annotated[
        int,
        option("Tuning", "Trials of the tuning, in all.", "--max_trials", min=0, max=100_000, show_default=False),
    ] = 0,
    parallel_trials: Annotated[
        int,
        option("Tuning", "Trials at a time.  [default: 1]", "--parallel_trials", min=0, max=10_000, show_default=False),
    ] = 0,
    algorithm: Annotated[
        Literal["", "bayesian", "grid", "random"],
        option("Tuning", "How values are chosen.  [default: bayesian]", "--algorithm"),
    ] = "",
    dry_run: Annotated[
        bool,
        option("How it runs", "Print the job and the commands; do nothing.", "--dry_run"),
    ] = False,
) -> Summary:
    """Train on Vertex AI. What follows `--` are flags of `pretrain run`."""
    if not _BUCKET.fullmatch(staging):
        raise UsageError(f"--staging must be gs://BUCKET/FOLDER, with a bucket of yours. Received: {staging}")
    if not re.fullmatch(r"[\w.-]+", display_name) or not display_name.strip("."):
        raise UsageError(
            f"--display_name names a folder too: letters, digits, '.', '_' and '-'. Received: {display_name!r}"
        )
    _refuse_no_names(
        region=region,
        project=project,
        machine_type=machine_type,
        accelerator_type=accelerator_type or None,
        image=image,
    )
    if not dry_run and shutil.which("gcloud") is None:
        raise UsageError("gcloud is not installed (https://cloud.google.com/sdk). --dry_run prints what it would do.")
    flags = list(context.args)
    modules, config = _check(flags)
    own = module_sources(modules)
    counts = {"max_trials": max_trials, "parallel_trials": parallel_trials}
    options = {"metric": metric, "goal": goal.upper(), "algorithm": algorithm, **counts}
    tuning = _tuning(study, tune or [], options, flags, config)
    staging = staging.rstrip("/")
    with tempfile.TemporaryDirectory(prefix="nlpdata-submit-") as folder:
        package = build_package(Path(folder))
        source = f"{staging}/source-{digest([package, *own])}"  # another source does not replace a queued job's
        copied = f"{source}/{package.name}"
        job = job_spec(
            copied,
            [
                *flags,
                *([f"--hypertune_metric={tuning.metric}"] if tuning and not config.trainer.hypertune_metric else []),
            ],
            output=f"{staging}/{display_name}",
            machine=machine_type,
            accelerator=accelerator_type,
            accelerators=accelerator_count,
            image=image,
            modules=f"{source}/modules" if own else "",
            backend=parse_flags(flags).get("backend", "auto"),
            formats=format_names(config.trainer),
        )
        kind, sizes = "custom-jobs", []
        if tuning:
            kind, job = "hp-tuning-jobs", tuning.job(job)
            sizes = [f"--max-trial-count={job['maxTrialCount']}", f"--parallel-trial-count={job['parallelTrialCount']}"]
        text = yaml.safe_dump(job, sort_keys=False, width=1000)
        file = Path(folder) / "job.yaml"
        file.write_text(text, encoding="utf-8")
        create = ["gcloud", "ai", kind, "create", f"--region={region}", f"--display-name={display_name}", *sizes]
        create += [f"--config={file}", *([f"--project={project}"] if project else [])]
        commands = [["gcloud", "storage", "cp", str(package), copied]]
        commands += [["gcloud", "storage", "cp", "-r", str(path), f"{source}/modules/"] for path in own]
        commands.append(create)
        if dry_run:
            lines = [*text.splitlines(), *(f"# {shlex.join(command)}" for command in commands)]
            return Summary("submit", {"dry_run": True, "job": job, "commands": commands}, lines)
        _run(commands)
    return Summary("submit", {"job": job, "display_name": display_name, "model_dir": f"{staging}/{display_name}/model"})


def _refuse_no_names(**options: str | None) -> None:
    """UsageError for an option that cannot be a name in Google Cloud; None: it is not given."""
    for given, name in options.items():
        if name is not None and not re.fullmatch(r"\w[\w.:/@-]*", name):
            raise UsageError(f"--{given} must be a name, without blanks. Received: {name!r}")


_FILES = ("config_file", "gin_file")  # flags that name files of the configuration


def _check(flags: Sequence[str], quiet: bool = False) -> tuple[set[str], ExperimentConfig]:
    """(modules of the user's own parts, configuration) of a job. UsageError for flags that `pretrain run` would refuse."""
    values = parse_flags(flags)
    mode = run_mode(values)
    if mode == "predict":
        raise UsageError("a job trains or evaluates; predictions are made here: pretrain predict.")
    for flag in _FILES:
        if local := [path for path in values.get(flag, ()) if Path(path).exists()]:
            raise UsageError(
                f"--{flag}={local[0]} is a file on this machine, which the job cannot read. Copy it to the bucket and name it "
                "there (gs://...), or name a file that comes with the package."
            )
    if not {"experiment", "params", "albert_config_file", "bert_config_file"} & set(values):
        raise UsageError(
            "no flags of `pretrain run`: write them after `--`, e.g. -- --experiment=bert/local --mode=train."
        )
    here = {name: value for name, value in values.items() if not str(value).startswith("gs://")}
    here |= {flag: [path for path in values.get(flag, ()) if not path.startswith("gs://")] for flag in _FILES}
    named = {part.strip() for text in values.get("import_module", ()) for part in text.split(",") if part.strip()}
    named |= set(gin_of(here).modules)
    with user_modules(named):
        config = resolve(here, read_checkpoints=False)
        warnings = [*check_experiment(config, mode), *_relative_paths(config, here.get("model_dir", ""))]
        for warning in () if quiet else warnings:
            _log.warning(warning)
        named |= own_modules(config)
    experiment = values.get("experiment", "")
    named |= {experiment.partition(":")[0]} if ":" in experiment else set()
    return named, config


def _relative_paths(config: ExperimentConfig, model_dir: str) -> Iterator[str]:
    """Warnings about places that a job does not share with this machine."""
    task = config.task
    places = {
        "--model_dir": model_dir,
        "task.init_checkpoint": task.init_checkpoint,
        "task.train_data.input_path": task.train_data.input_path,
        "task.validation_data.input_path": task.validation_data.input_path,
    }
    for name, given in places.items():
        for path in given.split(",") if isinstance(given, str) else given:
            if path and ":" not in path and not Path(path.strip()).is_absolute():
                yield (
                    f"{name} {path.strip()}: a job starts in a folder of its own, which has nothing of this machine and is gone "
                    "at its end. Name a place in a bucket, gs://..."
                )


def _tuning(
    file: Path | None, tune: Sequence[str], options: dict[str, Any], flags: Sequence[str], config: ExperimentConfig
) -> Study | None:
    """The study that the options describe; None where they describe none.

    UsageError where it is not whole, where a run would refuse a value that it may try, or where its trials would write into one
    folder.
    """
    if file is None and not tune:
        given = [name for name, value in options.items() if value]
        if given:
            raise UsageError(f"--{given[0]} is for a tuning: name what is tuned with --tune or --study.")
        return None
    study = study_of_file(file) if file else Study()
    tuned = [_tuned(text, config) for text in tune]
    names = [each["parameterId"] for each in tuned]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise UsageError(f"--tune {twice[0]} is given twice.")
    study = study.changed(**options, parameters=tuned)
    study = study if study.metric else study.changed(metric=config.trainer.hypertune_metric)
    study.check()
    reported = config.trainer.hypertune_metric
    if reported and reported != study.metric:
        raise UsageError(
            f"the run reports {reported} (--hypertune_metric), and the tuning is for {study.metric}. Name one."
        )
    values = parse_flags(flags)
    if run_mode(values) != "train_and_eval":
        raise UsageError("the trials of a tuning must evaluate: --mode=train_and_eval.")
    places = {"model_dir": values.get("model_dir", "")}
    place = values.get("export_dir") or config.trainer.export_dir
    places["export_dir"] = place if "://" in place or place.startswith("/") else ""
    for name, place in places.items():
        if place:
            raise UsageError(f"--{name}={place}: all trials would write there. Leave it out: each has its own folder.")
    with_metric = [*flags, f"--hypertune_metric={study.metric}"]
    _check(with_metric, quiet=True)
    spelled: dict[str, str] = {}
    for name in study.parameters:
        flag = _flag(name).name
        if flag in spelled:
            raise UsageError(f"the tuning names --{flag} twice, as {spelled[flag]} and as {name}.")
        spelled[flag] = name
        if flag in values:
            _log.info(f"--{name}: the trials' values count, not {values[flag]}, which the flags give")
    for name, value in study.extremes():
        try:
            _check([*with_metric, f"--{name}={value}"], quiet=True)
        except UsageError as error:
            raise UsageError(f"the tuning may try --{name}={value}, which a run refuses: {error}") from None
    declared: dict = config.task.metrics()
    return study.with_goal(declared.get(study.metric, "lower" if study.metric == "loss" else None))


def _tuned(text: str, config: ExperimentConfig) -> dict:
    """The parameter of --tune NAME=VALUES."""
    name, equals, values = text.partition("=")
    if not equals or not values:
        raise UsageError(
            f"--tune {text}: expected NAME=LOW:HIGH:SCALE or NAME=A,B,C, e.g. learning_rate=1e-5:1e-4:log."
        )
    return parameter(name, values, whole=takes_whole_numbers(config, _flag(name).fields[0]))


def _flag(name: str) -> Flag:
    """The flag of a tuned parameter. UsageError for what does not set a field of the configuration."""
    flag = find_flag(name)
    if flag is None or not flag.fields:
        known = [each.name for each in FIELDS]
        raise UsageError(f"a tuning changes flags that set a field: {name!r} is not one.{closest(name, known)}")
    return flag


def takes_whole_numbers(config: ExperimentConfig, path: str) -> bool:
    """Whether a field of the configuration, by its dotted path, is a whole number (or null)."""
    *sections, name = path.split(".")
    owner: Any = config
    for section in sections:
        owner = getattr(owner.options if isinstance(owner, Choice) else owner, section)
    owner = owner.options if isinstance(owner, Choice) else owner
    hint = typing.get_type_hints(type(owner)).get(name)
    return hint is int or set(typing.get_args(hint)) == {int, type(None)}


def job_spec(
    package: str,
    flags: Sequence[str],
    *,
    output: str,
    machine: str,
    accelerator: str,
    accelerators: int,
    image: str,
    modules: str = "",
    backend: str = "auto",
    formats: Sequence[str] = (),
) -> dict:
    """The CustomJobSpec of Vertex AI.

    Args:
      package: gs:// path of the source's archive.
      flags: flags of `pretrain run`.
      output: gs:// folder; Vertex AI sets AIP_MODEL_DIR, the run's model_dir, to its `model`.
      machine: machine type of the worker.
      accelerator: accelerator type; "": none.
      accelerators: number of accelerators.
      image: image of the container.
      modules: gs:// folder of the user's own modules; empty: there are none.
      backend: backend of the run; auto is tensorflow, which the job then has alone.
      formats: of the model that the run exports; some are written with TensorFlow.
    """
    has_accelerator = bool(accelerator and accelerators)
    extra, for_gpus = ("jax", "jax[cuda12]") if backend == "jax" else ("train", "tensorflow[and-cuda]")
    if backend == "jax" and set(formats) - _WITHOUT_TENSORFLOW:
        extra = "jax,train"
    requirements = [f"{mounted(package)}[{extra}]", *([for_gpus] if has_accelerator else [])]
    command = f'pip install {shlex.join(requirements)} && exec python -m pretrain.run "$@"'
    machine_spec: dict = {"machineType": machine}
    if has_accelerator:
        machine_spec |= {"acceleratorType": accelerator, "acceleratorCount": accelerators}
    container: dict = {
        "imageUri": image,
        "command": ["sh", "-c", command, "pretrain.run"],
        "args": [mounted(f) for f in flags],
    }
    if modules:
        container["env"] = [{"name": "PYTHONPATH", "value": mounted(modules)}]
    return {
        "workerPoolSpecs": [{"machineSpec": machine_spec, "replicaCount": 1, "containerSpec": container}],
        "baseOutputDirectory": {"outputUriPrefix": output},
    }


def mounted(text: str) -> str:
    """gs://BUCKET/x -> /gcs/BUCKET/x, where Vertex AI mounts buckets."""
    return re.sub(r"gs://", "/gcs/", text)


def _run(commands: list[list[str]]) -> None:
    for command in commands:
        _log.info(shlex.join(command))
        code = subprocess.run(command).returncode
        if code:
            raise DataError(f"{shlex.join(command[:4])} failed with exit code {code}; its message is above")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code when called with argv, else exits."""
    return run_app(app, "submit", argv)


if __name__ == "__main__":
    main()
