"""Options dataclasses -> parameters of Typer commands: the command line has the options that the functions have."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, Field, fields
from functools import wraps
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from nlpdata.cli.groups import group_of_field
from nlpdata.cli.libraries import show_libraries
from nlpdata.cli.messages import hide_progress
from nlpdata.cli.results import Summary, reserved_output
from nlpdata.cli.screens import GENERAL
from nlpdata.errors import DataError, Message, UsageError, as_flag, opt
from nlpdata.options import help_of, type_of

Command = Callable[..., Summary | None]

_PATHS = {
    *("input", "output", "tokenizer", "meta", "dev_input", "test_input", "train_output", "dev_output", "test_output"),
    *("tfds_data_dir", "model_dir", "source", "dest", "model_config", "init_checkpoint", "tf_hub_path", "config_file"),
}
"""Parameters of commands that name files or folders."""

_MORE = Annotated[
    list[str] | None, typer.Argument(metavar="[FILE]...", help="More input files.", rich_help_panel="Input")
]


def with_options(*request_classes: Any) -> Callable[[Command], Command]:
    """Gives a command the fields of options dataclasses as options, unless it declares them itself, and FILE arguments.

    What must be given may be missing on the command line: its value is then None.
    """
    found = {each.name: each for request_class in request_classes for each in fields(request_class) if each.init}

    def decorate(command: Command) -> Command:
        declared = [p for p in inspect.signature(command).parameters.values() if p.kind is not p.VAR_KEYWORD]
        own = [p.replace(kind=p.KEYWORD_ONLY) for p in declared]
        here = {p.name for p in own}
        shown = [each for each in found.values() if each.name not in here and each.metadata.get("flag") != ""]
        added = [
            _parameter(each) for each in sorted(shown, key=lambda each: bool(each.kw_only))
        ]  # input, output, ... first
        more = inspect.Parameter("more", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_MORE)
        command.__signature__ = inspect.Signature([more, *added, *own])  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in (more, *added, *own)}
        return command

    return decorate


def with_common(command: Command) -> Callable[..., int | None]:
    """Gives a command what all have: `--quiet`, `--verbose` and `--json`, and a refusal of empty paths, which would be the
    current folder. The command returns its summary, which is shown; it takes `quiet` and `json` if it declares them."""
    shown = inspect.signature(command)

    @wraps(command)
    def run(*args: Any, quiet: bool, verbose: bool, json: bool, **given: Any) -> int | None:
        if verbose:
            show_libraries()
        if quiet:
            hide_progress()
        _refuse_unnamed(shown, given)
        given |= {name: on for name, on in (("quiet", quiet), ("json", json)) if name in shown.parameters}
        try:
            with reserved_output(json):
                summary = command(*args, **given)
        except BrokenPipeError as error:  # which Click would take for standard output's, and say nothing
            raise DataError(f"{error.strerror or error}: what this command writes to has ended") from error
        if summary is None:
            return None
        summary.show(json)
        return summary.exit_code

    parameters = [*(each for name, each in shown.parameters.items() if name not in ("quiet", "json")), *_common()]
    run.__signature__ = shown.replace(parameters=parameters, return_annotation=None)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _common() -> list[inspect.Parameter]:
    """The options that all commands have."""
    helps = {
        "quiet": "Show no progress: warnings, errors and the result alone.",
        "verbose": "Also show what TensorFlow, CUDA, Beam and other libraries write.",
        "json": "Print the result as one JSON object, and nothing else, on standard output.",
    }
    return [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False,
            annotation=Annotated[bool, typer.Option(f"--{name}", help=text, rich_help_panel=GENERAL)],
        )
        for name, text in helps.items()
    ]


def _refuse_unnamed(shown: inspect.Signature, given: dict[str, Any]) -> None:
    """UsageError for an empty path, as an unset variable of a shell leaves it."""
    for name in _PATHS & given.keys():
        if given[name] == "" or (isinstance(given[name], list) and "" in given[name]):
            notes = get_args(shown.parameters[name].annotation)
            positional = any(isinstance(note, typer.models.ArgumentInfo) for note in notes)
            raise UsageError(
                f"{name.upper() if positional else opt(name)}: received '', expected a path (is a shell variable empty?)."
            )


def flag_of(each: "Field[Any]") -> str:
    """The name of a field on the command line, e.g. "--max-seq-length"."""
    return as_flag(each.metadata.get("flag") or each.name)


def _parameter(each: "Field[Any]") -> inspect.Parameter:
    flag, kind = flag_of(each), _kind(type_of(each))
    default = None if each.default is MISSING or kind == list[str] | None else each.default
    flags = [f"{flag}/--no-{flag[2:]}"] if bool in (kind, *get_args(kind)) else [flag]
    required = "  [required]" if each.default is MISSING and each.name != "input" else ""  # FILE is input, too
    text = Message(help_of(each)).spelled(as_flag) + required
    metavar = "PATH" if each.name in _PATHS else None
    option = typer.Option(*flags, help=text, metavar=metavar, rich_help_panel=group_of_field(each.name))
    return inspect.Parameter(
        each.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option]
    )


def _kind(declared: Any) -> Any:
    """The type of a field -> what Typer reads: numbers, switches, choices, one text, or a list of texts."""
    parts = [declared, *get_args(declared)]
    if any(part in (int, float, bool) or get_origin(part) is Literal for part in parts):
        return declared
    return list[str] | None if any(get_origin(part) is Sequence for part in parts) else str | None
