"""Whether the messages of a command name options that it lacks.

Whoever reads "use --x" tries it at once: the option must be one of the command that wrote it, or of a command that the
sentence names.
"""

import contextlib
import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import Any

import typer

from nlpdata.cli import commands, messages, program
from pretrain.commands import COMMANDS as OF_PRETRAIN
from pretrain.settings.flags import FLAGS, names_of

_COMMAND = re.compile(rf"(nlpdata [a-z]+(?:-[a-z]+)?|pretrain (?:{'|'.join(OF_PRETRAIN)}))\b")
_OF_ANOTHER = re.compile(rf"[^;,]*? of {_COMMAND.pattern}")
_RECORDS = re.compile(r"\b[Mm]ake (them|records)\b")  # with any command that makes them
_OF_PIP = re.compile(r"`pip [^`]*$")
_OPTION = re.compile(r"(?<![\w-])--([A-Za-z][\w-]*)")
_EVERYWHERE = {"help", "version"}


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
    """While it lasts, the list gets the lines of commands, run in this process, that name an option nobody has."""
    found: list[str] = []
    running: list[tuple[str, list[str]]] = []
    run, emit = program._exit_code, messages._StandardError.emit

    def exit_code(name: str, argv: list[str], *rest: Any) -> int:
        running.append((name, argv))
        try:
            return run(name, argv, *rest)
        finally:
            running.pop()

    def emitted(self: Any, record: Any) -> None:
        line = record.getMessage()
        if running and (foreign := foreign_options(*running[-1], line)):
            found.append(f"{', '.join(foreign)}: {line}")
        emit(self, record)

    program._exit_code, messages._StandardError.emit = exit_code, emitted
    try:
        yield found
    finally:
        program._exit_code, messages._StandardError.emit = run, emit


def foreign_options(name: str, argv: Sequence[str], message: str) -> list[str]:
    """The options that a message names, and that its reader cannot use.

    Args:
      name: of the command that wrote it, as run_program has it.
      argv: its arguments: what they name may be quoted.
      message: one line.
    """
    command = f"nlpdata {argv[0]}" if name == "nlpdata" and argv else name
    given = {_plain(word.partition("=")[0].lstrip("-")) for word in argv}
    found = []
    for option in _OPTION.finditer(message):
        own, owners = _plain(option[1]), _owners(message, option) or [command]
        known = [names for owner in owners if (names := _names(owner))]
        if known and any(word.startswith("--runner") for word in argv):  # which takes Beam's options behind `--`
            known.append(_of_beam())
        if known and own not in given | _EVERYWHERE and not any(own in names for names in known):
            found.append(f"--{option[1]} is not an option of {' or '.join(owners)}")
    return found


def _owners(message: str, option: re.Match[str]) -> list[str]:
    """The commands that the sentence of an option names for it."""
    if _OF_PIP.search(message[: option.start()]):
        return ["pip"]
    if after := _OF_ANOTHER.match(message[option.end() :]):
        return [after[1]]
    sentence = re.split(r"[.;] |: error: ", message[: option.start()])[-1]
    before = _COMMAND.findall(sentence)
    if not before and _RECORDS.search(sentence):
        return ["nlpdata create-pretraining", "nlpdata create-finetuning"]
    return before[-1:]


def _plain(option: str) -> str:
    return option.replace("_", "-")


@cache
def _names(command: str) -> frozenset[str]:
    """The options of a command, with hyphens, without those in front; none of a command that there is not."""
    options = {name.lstrip("-") for each in _parameters(command) for name in (*each.opts, *each.secondary_opts)}
    if command in ("pretrain run", "pretrain submit"):  # which takes a run's behind `--`
        switches = {flag.name for flag in FLAGS if flag.kind == "switch"}
        options |= names_of(FLAGS) | {f"{no}{name}" for name in switches for no in ("no", "no_")}
    return frozenset(map(_plain, options))


@cache
def _of_beam() -> frozenset[str]:
    """Beam's options; none without Beam."""
    with contextlib.suppress(ImportError):
        return frozenset(_plain(name.lstrip("-")) for name in import_module("pipelines.runner").BeamParser().options)
    return frozenset()


def _parameters(command: str) -> list[Any]:
    if command == "pretrain run":
        return []
    if command.startswith("pretrain "):
        with contextlib.suppress(ModuleNotFoundError):
            app: Any = typer.main.get_command(import_module(command.replace(" ", ".")).app)
            return app.params
        return []
    known = commands._commands()
    name = command.removeprefix("nlpdata ")
    return known[name].params if name in known else []
