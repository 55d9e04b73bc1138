"""The flags of `pretrain run` as the parser of the other commands would have them: for its help screen and for shell completion.

Nothing is parsed by it: pretrain.settings.flags does that.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from nlpdata.cli.screens import GENERAL, GroupedCommand
from pretrain.registry import EXPERIMENTS
from pretrain.settings.backend import BACKENDS
from pretrain.settings.flags import ACCEPTED, FIELDS, RUN, Flag

_GROUPS = {
    "The run": (
        "experiment", "mode", "model_dir", "config_file", "params", "gin_file", "gin_params", "params_override",
        "import_module", "backend", "seeds", "seed", "hypertune_metric",
    ),
    "Data": (
        "input_files", "eval_files", "meta_data_file_path", "max_seq_length", "max_predictions_per_seq", "doc_stride",
        "max_query_length", "tokenizer", "max_train_samples", "max_eval_samples",
        "train_batch_size", "eval_batch_size", "max_eval_steps", "log_example_digest",
    ),
    "Model": (
        "model_config", "albert_config_file", "bert_config_file", "init_checkpoint", "init_heads", "allow_other_tokenizer",
        "classifier_dropout", "tfhub_cache_dir",
    ),
    "Steps": (
        "num_train_epochs", "num_train_steps", "steps", "max_time", "preemption_deadline", "gradient_accumulation_steps",
        "iterations_per_loop",
    ),
    "Optimizer": (
        "optimizer", "learning_rate", "poly_power", "warmup_proportion", "num_warmup_steps", "weight_decay", "adam_epsilon",
    ),
    "Checkpoints and exports": (
        "save_checkpoints_steps", "async_checkpoints", "keep_checkpoint_max", "export_formats", "export_dir",
    ),
    "Devices": ("strategy_type", "num_gpus", "tpu", "mixed_precision_dtype", "enable_xla"),
    "Questions and predictions": (
        "version_2_with_negative", "n_best_size", "max_answer_length", "null_score_diff_threshold", "predict_file",
        "answer_layer", "start_n_top", "end_n_top", "squad_dropout",
    ),
    "Checks, without training": ("dry_run", "validate_only", "compile_only", "print_config"),
    "Older forms": ("do_train", "do_eval", "do_predict", "input_data_dir", "task_name", "eval_steps", "hp_tune"),
    GENERAL: ("quiet", "verbose", "json", "version"),
}  # fmt: skip
_PATHS = {
    "model_dir", "config_file", "params", "gin_file", "model_config", "albert_config_file", "bert_config_file", "input_files",
    "eval_files", "meta_data_file_path", "init_checkpoint", "tokenizer", "export_dir", "predict_file", "input_data_dir",
    "tfhub_cache_dir",
}  # fmt: skip


def flags_app(modes: Sequence[str], examples: str) -> typer.Typer:
    """An app whose one command has the flags of `pretrain run`.

    Args:
      modes: values of --mode.
      examples: command lines for the help.
    """
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    known = {"mode": list(modes), "backend": list(BACKENDS), "experiment": EXPERIMENTS.names()}

    def command(**given: Any) -> None:
        raise AssertionError("flags are parsed by pretrain.settings.flags")

    command.__doc__ = (
        "Train and evaluate encoders.\n\n"
        "The configuration is the experiment's, then --config_file in order, then --gin_file and --gin_params, then flags, then "
        "--params_override.\n\n"
        f"Accepted, without effect: {', '.join('--' + flag.name for flag in ACCEPTED)}."
    )
    order = [name for names in _GROUPS.values() for name in names]
    flags = sorted((flag for flag in (*RUN, *FIELDS) if flag.name != "help"), key=lambda flag: order.index(flag.name))
    parameters = [_parameter(flag, known.get(flag.name)) for flag in flags]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    app.command(cls=GroupedCommand, epilog=examples)(command)
    return app


def help_text(app: typer.Typer) -> str:
    """What --help prints."""
    command: Any = typer.main.get_command(app)
    with command.make_context("pretrain run", [], resilient_parsing=True) as context:
        return command.get_help(context)


def group_of_flag(name: str) -> str:
    """The group of a flag on the help screen."""
    return next(title for title, names in _GROUPS.items() if name in names)


def _parameter(flag: Flag, known: Sequence[str] | None) -> inspect.Parameter:
    group = group_of_flag(flag.name)
    names = [f"--{flag.name}", *(f"--{alias}" if len(alias) > 1 else f"-{alias}" for alias in flag.aliases)]
    kind: Any = {"value": str | None, "switch": bool, "many": list[str] | None}[flag.kind]
    if flag.kind == "switch" and group not in (GENERAL, "Checks, without training"):
        names[0] += f"/--no{flag.name}"
    option = typer.Option(
        *names,
        help=flag.help,
        show_default=False,
        rich_help_panel=group,
        metavar=None if flag.kind == "switch" else "PATH" if flag.name in _PATHS else "VALUE",
        autocompletion=_completion(known) if known else None,
    )
    default = False if flag.kind == "switch" else None
    return inspect.Parameter(
        flag.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _completion(known: Sequence[str]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return complete
