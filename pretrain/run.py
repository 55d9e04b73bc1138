"""pretrain run: flags in, one experiment run. Nothing heavy is imported before it is needed.

`nlpdata.cli.program` has the exit codes.
"""

import contextlib
import logging
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nlpdata.cli.libraries import show_libraries
from nlpdata.cli.messages import hide_progress
from nlpdata.cli.program import run_program
from nlpdata.cli.results import Summary, reserved_output
from nlpdata.cli.summaries import of_estimate
from nlpdata.cli.version import version_line
from nlpdata.errors import UsageError, closest
from nlpdata.files.fetching import local_only
from nlpdata.files.paths import is_remote
from nlpdata.output.estimate import Estimate, sizes
from nlpdata.records.contract import read_meta
from nlpdata.registry import user_modules
from nlpdata.reports.run_facts import CHECKPOINTS, CONFIG_FILE, METRICS
from pretrain.data.record_set import kind_of
from pretrain.data.tokenizers import reads_text
from pretrain.experiments import encoder_layer, experiment_lines, names_sizes, stored_encoder
from pretrain.prediction.at_end import check_tokenizer, file_to_predict, predict_at_end
from pretrain.settings.backend import set_backend, use_installed
from pretrain.settings.dialects.gin_files import GinBindings, gin_layers, read_gin
from pretrain.settings.face import face_of
from pretrain.settings.flag_help import flags_app, help_text
from pretrain.settings.flags import FIELDS, RUN, fields_of, names_of, notes_of, parse_flags
from pretrain.settings.overrides import parse_overrides
from pretrain.settings.schema import ExperimentConfig, registered
from pretrain.settings.tree import to_tree, with_layers
from pretrain.settings.values import parse_value
from pretrain.settings.yaml_files import dump_yaml, read_yaml
from pretrain.training.checks.settings import EVALUATIONS, check_experiment, refuse_shared_export
from pretrain.training.engines.cluster import is_chief

_log = logging.getLogger("pretrain.run")

_CONTINUOUS = ("continuous_eval", "continuous_train_and_eval")
MODES = ("train", "eval", "train_and_eval", "eval_all", *_CONTINUOUS, "predict", "train_and_predict")
EXAMPLES = """
pretrain run --experiment=albert/pretraining --model_config=albert_base_v2 \\
    --input_files='out/train.tfrecord*' --model_dir=run1
pretrain run --experiment=bert/sentence_prediction --mode=train_and_eval \\
    --init_checkpoint=run1 --input_files=out/mrpc/train.tfrecord \\
    --eval_files=out/mrpc/dev.tfrecord --model_dir=run2
pretrain run --experiment=help
"""

app = flags_app(MODES, EXAMPLES)

_ARCHITECTURE_FLAGS = {"albert_config_file": "albert", "bert_config_file": "bert"}
_QUESTION_FLAGS = {
    "predict_file",
    "version_2_with_negative",
    "n_best_size",
    "max_answer_length",
    "null_score_diff_threshold",
    "doc_stride",
    "max_query_length",
}
_TEXT_FLAGS = {"task_name", "input_data_dir", "do_predict", "classifier_dropout"}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code."""
    left = " The same command resumes from the last checkpoint."
    face = face_of(names_of((*RUN, *FIELDS)))
    return run_program("pretrain run", sys.argv[1:] if argv is None else argv, _main, face, left)


def _main(argv: Sequence[str]) -> int:
    values = parse_flags(argv)
    if values.get("verbose"):
        show_libraries()
    if values.get("quiet"):
        hide_progress()
    if values.get("version"):
        print(version_line())
        return 0
    if values.get("help"):
        print(help_text(app))
        return 0
    if values.get("experiment") in ("help", "list"):
        use_installed(os.environ)  # a user's module may import Keras
        with user_modules(values.get("import_module", ())):
            print("\n".join(experiment_lines()))
        return 0
    for note in notes_of(values):
        _log.info(note)
    mode = run_mode(values)
    about_backend = set_backend(values.get("backend"), os.environ, _resumed(values, mode))
    if "tfhub_cache_dir" in values:
        os.environ["TFHUB_CACHE_DIR"] = values["tfhub_cache_dir"]
    as_json = bool(values.get("json"))
    with user_modules([*values.get("import_module", ()), *gin_of(values).modules]), reserved_output(as_json):
        summary = _run(values, mode, about_backend)
    summary.show(as_json)
    return summary.exit_code


def _run(values: dict, mode: str, about_backend: str) -> Summary:
    if mode in _CONTINUOUS and not values.get("print_config"):
        _wait_for_run(values, mode)
    config = resolve(values)
    if values.get("print_config"):
        return Summary("run", {"config": to_tree(config)}, dump_yaml(config).splitlines())
    model_dir = find_model_dir(values.get("model_dir"), os.environ)
    to_predict = file_to_predict(values)
    batch_size = config.task.validation_data.global_batch_size
    if mode == "predict" and to_predict:
        predict_at_end(to_predict, model_dir, values, batch_size)
        return Summary("run", {"model_dir": model_dir, "mode": mode, "predicted": to_predict})
    check_tokenizer(values, config)
    check_experiment(config, mode)  # before anything heavy is imported; the run gives its warnings
    _log.info(about_backend)
    if "seeds" in values:
        return _run_seeds(config, model_dir, mode, values)
    from pretrain.training import run_experiment

    if mode == "dry_run":
        return _dry_run(config, model_dir, run_experiment(config, model_dir, mode))
    metrics = run_experiment(config, model_dir, mode)
    if to_predict and is_chief(config.runtime, os.environ):
        predict_at_end(to_predict, model_dir, values, batch_size)
    return Summary("run", {"mode": mode, **_state_of(model_dir), "eval": metrics, "predicted": to_predict})


def _dry_run(config: ExperimentConfig, model_dir: str, figures: Mapping[str, Any]) -> Summary:
    """What a run would do, from the figures of its first steps."""
    from nlpdata.records.reader import find_records
    from pretrain.training.final_export import export_folders

    if not figures:
        return Summary("run", {"dry_run": True, "model_dir": model_dir, "steps": 0}, ["no step is left: see above."])
    paths = [data.input_path for data in (config.task.train_data, config.task.validation_data) if data.input_path]
    read = [path for given in paths if not str(given).startswith("toy:") for path in find_records(given)]
    own = [Path(model_dir, name) for name in (CHECKPOINTS, METRICS, CONFIG_FILE)]
    estimate = Estimate(
        sizes(read),
        [*map(str, own), *map(str, export_folders(config.trainer, Path(model_dir)).values())],
        [],
        f"estimated from a few steps of {figures['seconds_a_step']:.2g} s in memory; the size is that of checkpoints, and "
        "evaluations come on top",
        {"examples": figures["examples"], "steps": figures["steps"]},
        figures["output_bytes"],
        seconds=figures["seconds"],
        memory_bytes=figures.get("memory_bytes"),
    )
    return of_estimate("run", estimate, figures)


def _state_of(model_dir: str) -> dict[str, Any]:
    """Facts about a run, from its folder: the newest checkpoint, its step, and the last line about training."""
    from pretrain.converters import native
    from pretrain.training.logs.metrics import read_lines

    checkpoint = next(reversed(native.finished(Path(model_dir, CHECKPOINTS))), None)
    step = None if checkpoint is None else native.step_of(checkpoint)
    train = [line for line in read_lines(Path(model_dir, METRICS)) if line.get("split") == "train"]
    return {
        "model_dir": model_dir,
        "step": step,
        "checkpoint": checkpoint,
        "train": {name: value for name, value in train[-1].items() if name != "split"} if train else {},
    }


def _wait_for_run(values: dict, mode: str) -> None:
    """Until the run that is followed has a checkpoint, which says what model it is of."""
    from pretrain.training.checkpoints.waiting import wait_for_checkpoint

    config = resolve(values, read_checkpoints=False)
    own = mode == "continuous_eval"
    followed = find_model_dir(values.get("model_dir"), os.environ) if own else config.task.init_checkpoint
    if followed:
        name = "--model_dir" if own else "task.init_checkpoint"
        wait_for_checkpoint(Path(followed), config.trainer.continuous_eval_timeout, name)


def _resumed(values: dict, mode: str) -> list[Path]:
    """The folders of the run, or of the runs of a sweep, that this command would resume."""
    folder = values.get("model_dir") or os.environ.get("AIP_MODEL_DIR")
    if mode in EVALUATIONS or not folder or is_remote(folder):
        return []
    return sorted(Path(folder).glob("seed-*")) if "seeds" in values else [Path(folder)]


def _run_seeds(config: ExperimentConfig, model_dir: str, mode: str, values: dict) -> Summary:
    try:
        count = parse_value(int, values["seeds"], (1, 1000))
    except ValueError as error:
        raise UsageError(f"--seeds: {error}") from None
    if mode != "train_and_eval":
        raise UsageError(f"--seeds compares scores: it needs --mode=train_and_eval. Received: {mode}.")
    if "seed" in values:
        raise UsageError(f"--seeds runs seeds 0 to {count - 1}; leave --seed out.")
    refuse_shared_export(config.trainer, "--seeds")
    from pretrain.sweeps.seeds import run_seeds, summary_lines

    summary = run_seeds(config, model_dir, count)
    facts = {"mode": mode, "model_dir": model_dir, "seeds": count, "eval": summary}
    return Summary("run", facts, summary_lines(summary, count))


def resolve(values: dict, read_checkpoints: bool = True) -> ExperimentConfig:
    """The configuration that flags describe: experiment < --params < config files in order < gin < flags < overrides.

    Args:
      values: as parse_flags returns them; the modules that gin files import have been imported.
      read_checkpoints: where only the experiment names an encoder, or task.hub_module_url a module, take the encoder of the run's
        checkpoints or of init_checkpoint.
    """
    layers, name = [], values.get("experiment")
    if "params" in values:
        from pretrain.settings.dialects.cerebras import read_params

        name, layer = read_params(values["params"], name)
        layers.append((f"--params {values['params']}", layer))
    if "export_dir" in values:  # who names a place wants a model there; files and flags may name other formats
        layers.append(("--export_dir", {"trainer": {"export_formats": "hf"}}))
    layers += [(path, read_yaml(path)) for path in values.get("config_file", ())]
    layers += gin_layers(gin_of(values))
    layers += _flag_layers(values)
    layers += [("--params_override", parse_overrides(text)) for text in values.get("params_override", ())]
    base = _experiment(name, values)
    config = with_layers(base, layers)
    if _evaluates_training_data(config, values):
        layers.append(("--do_eval", {"task": {"validation_data": {"input_path": config.task.train_data.input_path}}}))
        config = with_layers(base, layers, quiet=True)
    by_module = _is_by_module(values, layers)
    if read_checkpoints and (by_module or not any(names_sizes(tree) for _, tree in layers)):
        source = _weights_of(config, values)
        encoder = stored_encoder(config, source)
        if encoder is not None:
            _log.info(
                f"the model is of type {encoder.type}, with the sizes of {source}; --model_config names another one"
            )
            own = (source, encoder_layer(encoder))
            layers = [*layers, own] if by_module else [own, *layers]
            config = with_layers(base, layers, quiet=True)  # the first one has logged them
    tokenizer = _tokenizer_of_texts(config, values)
    return with_layers(base, [*layers, ("--tokenizer", tokenizer)], quiet=True) if tokenizer else config


def gin_of(values: dict) -> GinBindings:
    """What --gin_file and --gin_params bind."""
    return read_gin(values.get("gin_file", ()), values.get("gin_params", ()))


def _evaluates_training_data(config: ExperimentConfig, values: dict) -> bool:
    """Whether --do_eval is that of the run_pretraining.py of google-research, which evaluates on --input_file."""
    train, evaluated = config.task.train_data, config.task.validation_data
    return (
        bool(values.get("do_eval")) and config.task_type == "pretraining" and train.is_given and not evaluated.is_given
    )


def _tokenizer_of_texts(config: ExperimentConfig, values: dict) -> dict:
    """A layer with --tokenizer for the data sections that are text, and name none themselves; {} where there are none."""
    found = {}
    for name in ("train_data", "validation_data") if "tokenizer" in values else ():
        section: Any = getattr(config.task, name)
        if reads_text(section) and not section.vocab_file:
            found[name] = {"vocab_file": values["tokenizer"]}
    return {"task": found} if found else {}


def _is_by_module(values: dict, layers: list[tuple[str, dict]]) -> bool:
    """Whether the encoder is that of task.hub_module_url, whatever a file says of sizes: so it is in the Model Garden."""
    named = any((tree.get("task") or {}).get("hub_module_url") for _, tree in layers)
    return named and not {"model_config", *_ARCHITECTURE_FLAGS} & values.keys()


def _weights_of(config: ExperimentConfig, values: dict) -> str:
    """Where the run's weights come from: its folder with the newest checkpoint, else init_checkpoint, which may be ""."""
    from pretrain.converters import native

    own = []
    with contextlib.suppress(UsageError):  # no model_dir: reported later, where it is needed
        folder = Path(find_model_dir(values.get("model_dir"), os.environ))
        places = [folder, *(sorted(folder.glob("seed-*")) if "seeds" in values else [])]
        own = [place for place in places if native.finished(place / CHECKPOINTS)]
    return str(own[-1]) if own else config.task.init_checkpoint


def run_mode(values: dict) -> str:
    """What is done before any prediction: one of MODES, validate_only, compile_only or dry_run; predict where nothing else is."""
    only = [name for name in ("validate_only", "compile_only", "dry_run") if values.get(name)]
    if len(only) > 1:
        raise UsageError(f"--{only[0]} and --{only[1]} exclude each other; --{only[1]} does both.")
    mode = values.get("mode") or _older_mode(values)
    if mode not in MODES:
        raise UsageError(f"--mode must be one of {', '.join(MODES)}. Received: {mode!r}.{closest(mode, MODES)}")
    if mode == "train_and_predict":
        mode = "train_and_eval" if "eval_files" in values else "train"
    if "dry_run" in only and mode in (*EVALUATIONS, *_CONTINUOUS, "predict"):
        raise UsageError(f"--dry_run is of a run that trains: --mode=train or train_and_eval. Received: {mode}.")
    return only[0] if only else mode


def _older_mode(values: dict) -> str:
    """The mode that --do_train, --do_eval and --do_predict stand for; without them, train."""
    asked = [values.get(name, False) for name in ("do_train", "do_eval")]
    if any(asked):
        return {(True, False): "train", (False, True): "eval"}.get(tuple(asked), "train_and_eval")
    if values.get("do_predict"):
        return "predict"
    if "do_train" in values or "do_eval" in values:
        raise UsageError("none of --do_train, --do_eval and --do_predict is on: nothing to do. Give one, or --mode.")
    return "train"


def find_model_dir(flag: str | None, environment: Mapping[str, str], mounts: Path = Path("/gcs")) -> str:
    """The folder of the run: the flag, else AIP_MODEL_DIR, which Vertex AI sets.

    gs://BUCKET/x is /gcs/BUCKET/x where buckets are mounted there, as in jobs of Vertex AI; elsewhere a UsageError.
    """
    given = flag or environment.get("AIP_MODEL_DIR")
    if not given:
        raise UsageError("--model_dir is missing: the folder for checkpoints and logs, e.g. --model_dir=run1.")
    if not given.startswith("gs://"):
        local_only(
            given,
            "--model_dir",
            f"Train into a local folder, and copy it; --export_dir={given} writes the trained model there.",
        )
        return given
    bucket, _, rest = given.removeprefix("gs://").partition("/")
    if not (mounts / bucket).is_dir():
        raise UsageError(
            f"--model_dir {given}: {mounts / bucket} is not there, so this bucket is not mounted. Train into a local folder, and "
            f"copy it: gcloud storage cp -r run1 {given}; --export_dir={given} writes the trained model there; or run as a job: "
            "pretrain submit."
        )
    return str(mounts / bucket / rest)


def _experiment(name: str | None, values: dict) -> ExperimentConfig:
    encoder = next((encoder for flag, encoder in _ARCHITECTURE_FLAGS.items() if flag in values), None)
    if not name and encoder:
        name = f"{encoder}/{_implied_task(values)}"
        _log.info(f"experiment: {name}, which --experiment would name")
    if not name:
        raise UsageError("--experiment is missing. --experiment=help lists them, e.g. --experiment=bert/local.")
    return registered(name)


def _implied_task(values: dict) -> str:
    """The end of the experiment's name for the older scripts: what their records, else their flags, are for."""
    path = values.get("meta_data_file_path")
    kind = kind_of(read_meta(path)) if path and Path(path).is_file() else None
    if kind is None and _QUESTION_FLAGS & set(values):
        kind = "squad"
    if kind is None and _TEXT_FLAGS & set(values):
        kind = "classification"
    known = {None: "pretraining", "pretraining": "pretraining", "squad": "squad", "choice": "multiple_choice"}
    return known.get(kind, "sentence_prediction")


def _flag_layers(values: dict) -> list[tuple[str, dict]]:
    """A layer for each flag, in the table's order: a choice's type comes before its options."""
    layers: list[tuple[str, dict]] = []
    for name in ("model_config", *_ARCHITECTURE_FLAGS):
        if name in values:
            layers.append((f"--{name}", {"task": {"model": {"encoder": _architecture(name, values[name])}}}))
    if values.get("tpu") and "strategy_type" not in values:
        layers.append(("--tpu", {"runtime": {"distribution_strategy": "tpu"}}))
    for flag, path, value in fields_of(values):
        if flag.name == "tpu" and not value:  # --tpu=$TPU_NAME with nothing in it
            continue
        layers.append((f"--{flag.name}", _nested(path, value)))
    return layers


def _architecture(flag: str, name_or_path: str) -> dict:
    from pretrain.encoders.model_config import read_model_config

    encoder = read_model_config(name_or_path)
    expected = _ARCHITECTURE_FLAGS.get(flag, encoder.type)
    if encoder.type != expected:
        raise UsageError(
            f"--{flag}={name_or_path}: this file describes an encoder of type {encoder.type!r}, not {expected!r}. "
            f"Use --model_config, or --{encoder.type}_config_file."
        )
    return to_tree(encoder)


def _nested(path: str, value: Any) -> dict:
    for name in reversed(path.split(".")):
        value = {name: value}
    return value


if __name__ == "__main__":
    sys.exit(main())
