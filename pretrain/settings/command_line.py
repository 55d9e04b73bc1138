"""What the command lines of this package share: errors as one line, and exit codes."""

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

ImportModules = Annotated[
    list[str] | None,
    typer.Option(
        "--import_module",
        "--import-module",
        help="A module of your own parts, which the checkpoint may name. Repeat it, or use commas, for several.",
    ),
]

Format = Annotated[
    str,
    typer.Option(
        "--format",
        help=f"What to write: {', '.join(CHECKPOINT_FORMATS)}, or a format of a module that --import_module names.",
    ),
]

EncoderOnly = Annotated[bool, typer.Option("--encoder_only", "--encoder-only", help="Leave the heads out.")]

StoredTokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer", help="Tokenizer file to store with the weights.  [default: the one that is kept with them]"
    ),
]

DoLowerCase = Annotated[
    bool | None,
    typer.Option(
        "--do_lower_case/--nodo_lower_case", help="Whether the tokenizer lower-cases.  [default: as stored with it]"
    ),
]

AllowOtherTokenizer = Annotated[
    bool,
    typer.Option(
        "--allow_other_tokenizer",
        "--allow-other-tokenizer",
        help="Accept a tokenizer that is not that of the weights.",
    ),
]


def run_app(app: typer.Typer, name: str, argv: Sequence[str] | None) -> int:
    """Runs the command line of `pretrain.<name>`; returns the exit code when called with argv, else exits with it."""

    def work(given: list[str]) -> None:
        use_installed(os.environ)
        call_app(app, given, f"python -m pretrain.{name}")

    code = run_program(f"pretrain.{name}", sys.argv[1:] if argv is None else argv, work, face_of(_names(app)))
    if argv is None:
        sys.exit(code)
    return code


def _names(app: typer.Typer) -> set[str]:
    """The options of an app, with underscores."""
    options = cast(Any, typer.main.get_command(app)).params
    return {name.lstrip("-").replace("-", "_") for each in options for name in (*each.opts, *each.secondary_opts)}
