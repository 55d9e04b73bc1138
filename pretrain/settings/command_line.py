"""What the command lines of this package share: errors as one line, and exit codes."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from nlpdata.cli.messages import on_standard_error, show_error
from nlpdata.cli.parsing import call_app
from nlpdata.errors import EXTRAS, NlpdataError, missing_package, spelling
from pretrain.registry import CHECKPOINT_FORMATS
from pretrain.settings.backend import use_installed
from pretrain.settings.flags import as_flag

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
    code = 0
    use_installed(os.environ)
    with on_standard_error(), spelling(as_flag):
        try:
            call_app(app, sys.argv[1:] if argv is None else argv, f"python -m pretrain.{name}")
        except ModuleNotFoundError as error:
            if error.name not in EXTRAS:
                raise
            missing = missing_package(f"`python -m pretrain.{name}`", error.name)
            show_error(f"pretrain.{name}: error: {missing}")
            code = missing.exit_code
        except NlpdataError as error:
            show_error(f"pretrain.{name}: error: {error}")
            code = error.exit_code
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
            if code == 130:
                show_error(f"pretrain.{name}: interrupted.")
    if argv is None:
        sys.exit(code)
    return code
