"""The console command `pretrain`: `pretrain run ...` is `python -m pretrain.run ...`, and so on.

Each command is the module of its name, which is imported where it is called.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Any, cast

import typer

from nlpdata.cli.parsing import call_app
from nlpdata.cli.program import find_modules_here, run_program
from nlpdata.cli.screens import GroupedCommands
from nlpdata.errors import as_flag

COMMANDS = {
    "run": "Train and evaluate encoders.",
    "predict": "Write the predictions of a model.",
    "export": "Write a run's checkpoint in the format of another tool.",
    "convert": "Convert a checkpoint to another format.",
    "glue": "Fine-tune on GLUE tasks, and print the table of their scores.",
    "submit": "Train on Vertex AI.",
}
"""Name -> what it does, which its own help says, too."""


class _Commands(GroupedCommands):
    """The commands, imported where their own options are asked for: by the completion of a shell."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, name: str) -> Any:
        if name not in COMMANDS:
            return None
        command: Any = typer.main.get_command(_module(name).app)
        command.name = name
        return command

    def summary(self, ctx: Any, name: str) -> str:
        return COMMANDS[name]


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog="""
    pretrain run --experiment=albert/pretraining --model_config=albert_base_v2 \\
        --input_files='out/train.tfrecord*' --model_dir=run1
    pretrain run --experiment=help
    pretrain predict --help
    pretrain --version
    """,
)


@app.callback()
def about() -> None:
    """Records to weights to scores: pretraining and fine-tuning of BERT-family encoders."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code when called with argv, else exits."""
    given = list(sys.argv[1:] if argv is None else argv)
    if argv is None:
        find_modules_here()
    if given[:1] and given[0] in COMMANDS:
        code = cast(int, _module(given[0]).main(given[1:]))
    else:
        code = run_program("pretrain", given, lambda words: call_app(app, words, "pretrain"), as_flag)
    if argv is None:
        sys.exit(code)
    return code


def _module(name: str) -> Any:
    return importlib.import_module(f"pretrain.{name}")
