"""What the command lines of this package share: options, help screens, errors as one line, and exit codes."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any, cast

import typer

from nlpdata.cli.parsing import call_app
from nlpdata.cli.program import run_program
from pretrain.registry import CHECKPOINT_FORMATS
from pretrain.settings.backend import use_installed
from pretrain.settings.face import face_of


def option(group: str, help: str, *names: str, **more: Any) -> Any:
    """An option of a command: its group and text on the help screen, and its names, each of which may also have hyphens."""
    spelled = [each for name in names for each in dict.fromkeys((name, "--" + name[2:].replace("_", "-")))]
    return typer.Option(*(spelled if "/" not in names[0] else names), help=help, rich_help_panel=group, **more)


ImportModules = Annotated[
    list[str] | None,
    option(
        "Model",
        "A module of your own parts, which the checkpoint may name. Repeat it, or use commas, for several.",
        "--import_module",
    ),
]

Backend = Annotated[
    str | None,
    option(
        "How it runs",
        "Library to compute with: auto, tensorflow or jax.  [default: KERAS_BACKEND, else auto]",
        "--backend",
        show_default=False,
    ),
]

Format = Annotated[
    str,
    option(
        "Output",
        f"What to write: {', '.join(CHECKPOINT_FORMATS)}, or a format of a module that --import_module names.",
        "--format",
    ),
]

EncoderOnly = Annotated[
    bool,
    option("Output", "Leave the heads out.", "--encoder_only"),
]

StoredTokenizer = Annotated[
    str | None,
    option(
        "Output", "Tokenizer file to store with the weights.  [default: the one that is kept with them]", "--tokenizer"
    ),
]

DoLowerCase = Annotated[
    bool | None,
    option(
        "Output",
        "Whether the tokenizer lower-cases.  [default: as stored with it]",
        "--do_lower_case/--nodo_lower_case",
    ),
]

AllowOtherTokenizer = Annotated[
    bool,
    option("Model", "Accept a tokenizer that is not that of the weights.", "--allow_other_tokenizer"),
]


def run_app(app: typer.Typer, name: str, argv: Sequence[str] | None) -> int:
    """Runs `pretrain NAME`; returns the exit code when called with argv, else exits with it."""

    def work(given: list[str]) -> None:
        use_installed(os.environ)
        call_app(app, given, f"pretrain {name}")

    code = run_program(f"pretrain {name}", sys.argv[1:] if argv is None else argv, work, face_of(_names(app)))
    if argv is None:
        sys.exit(code)
    return code


def _names(app: typer.Typer) -> set[str]:
    """The options of an app, with underscores."""
    options = cast(Any, typer.main.get_command(app)).params
    return {name.lstrip("-").replace("-", "_") for each in options for name in (*each.opts, *each.secondary_opts)}
