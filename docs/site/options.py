"""The pages about options: those of every command, and the fields of a configuration, from the code that reads them."""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

import typer

from docs.site.markdown import escaped
from nlpdata.cli import commands as nlpdata_commands
from nlpdata.cli.screens import grouped_options
from pretrain import commands as pretrain_commands
from pretrain.registry import EXPERIMENTS, TASKS, Registry
from pretrain.settings.fields import Choice
from pretrain.settings.schema import RuntimeConfig
from pretrain.settings.trainer_section import TrainerConfig

_PIPE = re.compile(r"(`[^`]*`)|\|")


def commands_page(program: str, app: typer.Typer) -> str:
    """The Markdown of a page with the options of every command of a program, in the groups of its help screens."""
    group: Any = typer.main.get_command(app)
    parts = [f"# Options of {program}", f"`{program} COMMAND --help` prints the same. Hyphens and underscores are one."]
    with group.make_context(program, [], resilient_parsing=True) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            parts.append(f"## {program} {name}")
            parts += [escaped(" ".join(paragraph.split())) for paragraph in (command.help or "").split("\n\n")]
            parts.append(f"```text\n{textwrap.dedent(command.epilog or '').strip()}\n```")
            with command.make_context(name, [], parent=context, resilient_parsing=True) as inner:
                for title, rows in grouped_options(command, inner).items():
                    parts += [
                        f"**{title}**",
                        _table(("option", ""), ((f"`{names}`", escaped(text)) for names, text in rows)),
                    ]
    return "\n\n".join(parts) + "\n"


def configuration_page() -> str:
    """The Markdown of the page with every field of a configuration: its dotted path, values, default and meaning."""
    experiments = ((f"`{name}`", _summary(EXPERIMENTS.get(name))) for name in EXPERIMENTS.names())
    parts = [
        "# Fields of a configuration",
        "Each section of a configuration is a table of its fields. A file has them as YAML; `--params_override` as dotted "
        "paths, e.g. `task.train_data.global_batch_size=64`; `pretrain run --print_config` prints those of a run. Where a field "
        "names a part (an encoder, an optimizer), the part's own fields are in its section, e.g. "
        "`task.model.encoder.bert.hidden_size`. Defaults are those of the section: an experiment may have others.",
        "## Experiments",
        _table(("name", "what it is"), experiments),
    ]
    written: set[tuple[str, type]] = set()
    for path, section in (("trainer", TrainerConfig()), ("runtime", RuntimeConfig())):
        parts += _sections(path, section, written)
    for task in TASKS.names():
        parts.append(f"## Task {task}")
        parts += _sections("task", TASKS.config_class(task)(), written)
    return "\n\n".join(parts) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "options/nlpdata.md": lambda: commands_page("nlpdata", nlpdata_commands.app),
    "options/pretrain.md": lambda: commands_page("pretrain", pretrain_commands.app),
    "options/configuration.md": configuration_page,
}


def field_texts(section: type) -> dict[str, str]:
    """Name -> the text below the field, of a dataclass and those that it inherits from."""
    found: dict[str, str] = {}
    for kind in reversed(section.__mro__):
        if not is_dataclass(kind):
            continue
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, [*tree.body[1:], None], strict=True):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                text = below.value if isinstance(below, ast.Expr) else None
                described = isinstance(text, ast.Constant) and isinstance(text.value, str)
                found[field.target.id] = (
                    escaped(" ".join(str(text.value).split())) if described else found.get(field.target.id, "")
                )
    return found


def _sections(path: str, section: Any, written: set[tuple[str, type]]) -> Iterator[str]:
    """The tables of a section and of all below it; one that a page has had at that path is left out."""
    if (path, type(section)) in written:
        return
    written.add((path, type(section)))
    texts, rows, below = field_texts(type(section)), [], []
    for each in fields(section):
        value, inner = getattr(section, each.name), f"{path}.{each.name}"
        registry = each.metadata.get("registry")
        if isinstance(value, Choice) and isinstance(registry, Registry):
            below += [(f"{inner}.{name}", registry.config_class(name)) for name in registry.names()]
            names = ", ".join(f"`{name}`" for name in registry.names())
            rows.append((f"`{each.name}`", texts[each.name], names, f"`{value.type}`"))
        elif is_dataclass(value):
            below.append((inner, type(value)))
        elif each.init:
            rows.append((f"`{each.name}`", texts[each.name], _values(each), _default(value)))
            mark = "[]" if isinstance(value, list) else ""
            below += [(inner + mark, kind) for kind in get_args(each.type) if is_dataclass(kind)]
    yield f"### `{path}`"
    yield _summary(type(section))
    if rows:
        yield _table(("field", "", "values", "default"), rows)
    for inner, kind in below:
        yield from _sections(inner, kind(), written)


def _values(each: Any) -> str:
    """What a field may be."""
    words = list(_kinds(each.type)) + (["a time, e.g. 90s or 2h"] if "parse" in each.metadata else [])
    least = each.metadata.get("bounds", (None,))[0]
    return ", ".join(words) + ("" if least is None else f"; at least {least:,}")


def _kinds(kind: Any) -> Iterator[str]:
    plain = {int: "whole number", float: "number", str: "text", bool: "true or false", type(None): "null"}
    if get_origin(kind) is Literal:
        yield from (f"`{value}`" for value in get_args(kind))
    elif get_origin(kind) in (Union, UnionType):
        for part in get_args(kind):
            yield from _kinds(part)
    elif is_dataclass(kind):
        yield "a section"
    else:
        yield plain.get(kind) or ("list" if get_origin(kind) is list else "mapping")


def _default(value: Any) -> str:
    """A default as YAML has it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return f"`{value}`" if value not in ("", [], {}) else "empty"


def _summary(part: Any) -> str:
    return escaped(" ".join((inspect.getdoc(part) or "").split("\n\n")[0].split()))


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table; what would end a cell, which code does not, is escaped."""
    head = list(header)
    lines = [
        head,
        ["---"] * len(head),
        *([_PIPE.sub(lambda found: found[1] or r"\|", cell) for cell in row] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
