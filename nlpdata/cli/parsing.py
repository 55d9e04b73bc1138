"""How the command lines run a Typer app: what its parser refuses becomes one line, like every other error of a user."""

import re
from collections.abc import Sequence
from typing import Any

import typer

from nlpdata.errors import UsageError, closest

# All errors of the parser: click's UsageError, or the copy of it in newer Typers, which has no public name.
ParserError: Any = typer.BadParameter.__base__
_UNKNOWN_COMMAND = re.compile(r"No such command '(.*?)'\..*", re.DOTALL)
_OTHER_NAMES = {  # what people type for a command, as other tools name it -> ours
    "create_pretraining_data": "nlpdata create-pretraining",
    "spm_train": "nlpdata train-tokenizer",
    "train": "pretrain run",
    "pretrain": "pretrain run --experiment=bert/pretraining",
    "finetune": "pretrain run --experiment=bert/sentence_prediction",
    "fine-tune": "pretrain run --experiment=bert/sentence_prediction",
    "eval": "pretrain run --mode=eval",
    "evaluate": "pretrain run --mode=eval",
}
_EXPECTED = {  # pydantic's name of an error, which newer Typers have as its cause -> what an option must be
    "int_parsing": "an integer",
    "float_parsing": "a number",
    "greater_than_equal": "{ge} or more",
    "less_than_equal": "{le} or less",
}


def call_app(app: typer.Typer, argv: Sequence[str], name: str) -> None:
    """Runs a Typer app under a program name.

    Raises UsageError for what the parser refuses, SystemExit where the app ends with another code than 0.
    """
    try:
        code = app(list(argv), prog_name=name, standalone_mode=False)
    except ParserError as error:
        if not argv and app.info.no_args_is_help:
            error.show()
            raise SystemExit(error.exit_code) from None
        command = error.ctx.command_path if error.ctx else name
        what = "commands" if _is_group(error.ctx) else "options"
        raise UsageError(f"{_reason(error)} `{command} --help` lists the {what}.") from None
    if code:
        raise SystemExit(code)


def _is_group(context: Any) -> bool:
    return hasattr(getattr(context, "command", None), "commands")


def _reason(error: Any) -> str:
    if _is_group(error.ctx) and (word := _UNKNOWN_COMMAND.fullmatch(error.format_message())):
        ours = _OTHER_NAMES.get(word[1].lower())
        hint = f" Here it is `{ours}`." if ours else closest(word[1], error.ctx.command.list_commands(error.ctx))
        return f"no command {word[1]!r}.{hint}"
    details: list[dict[str, Any]] = getattr(error.__cause__, "errors", list)()
    if not details:
        return f"{error.format_message().rstrip('.')}."
    option, detail = error.param.opts[0], details[0]
    if detail["type"] in _EXPECTED:
        expected = _EXPECTED[detail["type"]].format(**detail.get("ctx", {}))
        return f"{option} must be {expected}. Received: {detail['input']!r}."
    return f"{option}: {detail['msg'].removeprefix('Value error, ').rstrip('.')}. Received: {detail['input']!r}."
