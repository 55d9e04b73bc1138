"""Every field of the configuration does something: some code reads it, or a part takes it as an argument."""

import ast
import inspect
from dataclasses import fields
from pathlib import Path

import pytest

from pretrain.registry import ENCODERS, OPTIMIZERS, SCHEDULES, TASKS, WARMUPS
from pretrain.settings import schema
from tests.pretrain.settings.config_parts import SECTIONS

PACKAGE = Path(schema.__file__).parents[1]
# What only moves configurations around reads no field.
MOVERS = ("experiments", "settings", "registry.py", "run.py")


def names_read() -> set[str]:
    """Attributes that the package reads, and the strings by which it might (getattr, pop, a metric's name, a module's table)."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        relative = path.relative_to(PACKAGE)
        if relative.parts[0] in MOVERS or relative.name == "configs.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        tables = [each.value for each in tree.body if isinstance(each, ast.Assign) and isinstance(each.value, ast.Dict)]
        found |= {str(key.value) for table in tables for key in table.keys if isinstance(key, ast.Constant)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                found.add(node.attr)
            elif isinstance(node, ast.Call):
                words = [each.value for each in node.args if isinstance(each, ast.Constant)]
                found |= {word for word in words if isinstance(word, str)}
    return found


def test_every_field_of_the_sections_is_read():
    read = names_read()
    unread = [f"{cls.__name__}.{field.name}" for cls in SECTIONS for field in fields(cls) if field.name not in read]
    assert not unread, f"nothing reads {', '.join(unread)}"


@pytest.mark.heavy
@pytest.mark.parametrize(
    "registry", [ENCODERS, OPTIMIZERS, SCHEDULES, WARMUPS, TASKS], ids=lambda registry: registry.kind
)
def test_every_option_of_a_part_is_an_argument_of_it_or_read(registry):
    read = names_read()
    for name in registry.names():
        part = registry.get(name)
        assert registry.config_class(name) is part.config_class
        arguments = {parameter for each in part.__mro__[:3] for parameter in inspect.signature(each).parameters}
        options = {field.name for field in fields(part.config_class)}
        assert not (unread := options - arguments - read), f"{registry.kind} {name}: nothing reads {unread}"
