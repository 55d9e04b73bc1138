"""Help screens: what a command does, examples, and its options in groups, in lines that fit the terminal.

A command's epilog is its examples, one command each; `rich_help_panel` of an option is its group.
"""

import re
import sys
import textwrap
from typing import Any

import typer

from nlpdata.cli.colours import coloured

GENERAL = "General"
"""Group of the options that every command has; shown last."""

_NAMES = 28  # characters of the column of options
_KINDS = {"int": "N", "float": "X", "str": "TEXT"}
_KIND = re.compile(r"<?(?:list\[)?(int|float|str)(?: range)?\]?>?", re.IGNORECASE)
_OLDER_KINDS = {"integer": "N", "float": "X", "text": "TEXT"}  # as Typers spell them that come with Click


class GroupedCommand(typer.core.TyperCommand):
    """A command whose help shows its options in groups."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        positional = " ".join(_place(each) for each in _shown(self, ctx) if each.param_type_name == "argument")
        usage = f"Usage: {' '.join(filter(None, [ctx.command_path, positional, '[OPTIONS]']))}"
        _write(formatter, usage, self.help, self.epilog, grouped_options(self, ctx))

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The completions of a word; of an option's two spellings, --a_b and --a-b, the first alone."""
        found = super().shell_complete(ctx, incomplete)
        values = {each.value for each in found}
        return [each for each in found if (other := _underscored(each.value)) == each.value or other not in values]


class GroupedCommands(typer.core.TyperGroup):
    """A program with commands."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        commands = [(name, self.summary(ctx, name)) for name in self.list_commands(ctx)]
        *options, help = [_row(each, ctx) for each in self.get_params(ctx)]
        options += [("--version", "Print the version, and stop."), help]
        usage = f"Usage: {ctx.command_path} COMMAND [OPTIONS]"
        _write(formatter, usage, self.help, self.epilog, {"Commands": commands, GENERAL: options})

    def summary(self, ctx: Any, name: str) -> str:
        """What a command does, in a line."""
        command: Any = self.get_command(ctx, name)
        return " ".join(command.help.split("\n\n")[0].split())


def group_of(parameter: Any) -> str:
    """The group of an option on the help screen."""
    return getattr(parameter, "rich_help_panel", None) or GENERAL


def grouped_options(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """Group -> (names with what they take, help) of the arguments and options of a command, as its help screen has them."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for each in sorted(_shown(command, ctx), key=lambda each: group_of(each) == GENERAL):
        groups.setdefault(group_of(each), []).append(_row(each, ctx))
    return groups


def _shown(command: Any, ctx: Any) -> list[Any]:
    return [each for each in command.get_params(ctx) if not getattr(each, "hidden", False)]


def _write(
    formatter: Any, usage: str, about: str | None, examples: str | None, groups: dict[str, list[tuple[str, str]]]
) -> None:
    width = formatter.width
    formatter.write(textwrap.fill(usage, width, subsequent_indent=" " * 7) + "\n")
    for paragraph in (about or "").split("\n\n"):
        formatter.write("\n" + _filled(" ".join(paragraph.split()), width, "  ") + "\n")
    if examples:
        lines = textwrap.dedent(examples).strip()
        formatter.write(f"\n{_heading('Examples')}\n{textwrap.indent(lines, '  ')}\n")
    for title, rows in groups.items():
        formatter.write(f"\n{_heading(title)}\n" + "".join(_line(names, text, width) for names, text in rows))


def _heading(title: str) -> str:
    return coloured(f"{title}:", "bold", sys.stdout)


def _line(names: str, text: str, width: int) -> str:
    body = _filled(text, width, " " * (_NAMES + 4))
    if len(names) <= _NAMES and text:
        return f"  {names:<{_NAMES}}  {body.lstrip()}\n"
    spelled = textwrap.fill(
        names, width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False, break_long_words=False
    )
    return f"{spelled}\n" + (f"{body}\n" if text else "")


def _filled(text: str, width: int, indent: str) -> str:
    return textwrap.fill(text, width, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _row(parameter: Any, ctx: Any) -> tuple[str, str]:
    """(names with what they take, help) of an option or an argument."""
    if parameter.param_type_name == "argument":
        return _place(parameter), parameter.help or ""
    record = parameter.get_help_record(ctx)
    names = _names(parameter)
    if not parameter.is_flag and not parameter.count:
        names += f" {_takes(parameter, record[0])}"
    return names, _in_words(_without_off(parameter, record[1]))


def _in_words(text: str) -> str:
    """The help of a number, with its bounds in words: 1<=x<=9 is "1 to 9"."""
    return re.sub(r"\bx>=(-?\d+)", r"at least \1", re.sub(r"(-?\d+)<=x<=(-?\d+)", r"\1 to \2", text))


def _place(argument: Any) -> str:
    """An argument that has no name on the command line."""
    if argument.metavar:
        return argument.metavar
    return argument.name.upper() if argument.required else f"[{argument.name.upper()}]"


def _names(parameter: Any) -> str:
    """The spellings of an option, without those that differ in hyphens alone; of a switch with a negative, both in one."""
    spelled = [
        name for name in parameter.opts if _underscored(name) == name or _underscored(name) not in parameter.opts
    ]
    if parameter.secondary_opts:
        no = re.sub(f"{re.escape(spelled[0][2:])}$", "", parameter.secondary_opts[0])[2:]
        spelled[0] = f"--[{no}]{spelled[0][2:]}"
    return ", ".join(spelled)


def _underscored(name: str) -> str:
    return "--" + name[2:].replace("-", "_")


def _takes(parameter: Any, names: str) -> str:
    """What an option takes, in a word, from what the parser shows of it."""
    if parameter.metavar:
        return parameter.metavar
    word = names[names.rfind(parameter.opts[-1]) + len(parameter.opts[-1]) :].strip()
    if kind := _KIND.fullmatch(word):
        return _KINDS[kind[1].lower()]
    return _OLDER_KINDS.get(word.removesuffix(" RANGE").lower(), word)


def _without_off(parameter: Any, text: str) -> str:
    """The help of a switch, with its default where it is on."""
    if not parameter.secondary_opts:
        return " ".join(text.split())
    on, off = ({name.lstrip("-") for name in names} for names in (parameter.opts, parameter.secondary_opts))
    shown = re.sub(r"\s*\[default: ([\w-]+)\]", lambda found: _default(found, on, off), text)
    return " ".join(shown.split())


def _default(found: re.Match[str], on: set[str], off: set[str]) -> str:
    if found[1] in off:
        return ""
    return " [default: on]" if found[1] in on else found[0]
