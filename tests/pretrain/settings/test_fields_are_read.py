"""Every field of the configuration does something: some code reads it, or a part takes it as an argument."""

import ast
import inspect
from dataclasses import fields
from pathlib import Path

import pytest

from pretrain.registry import ENCODERS, OPTIMIZERS, SCHEDULES, TASKS, WARMUPS
from pretrain.settings import schema

PACKAGE = Path(schema.__file__).parents[1]
SECTIONS = (
    *(
        schema.TextDataConfig,
        schema.PretrainingDataConfig,
        schema.ModelConfig,
        schema.TaskConfig,
        schema.OptimizationConfig,
        schema.TrainerConfig,
    ),
    *(schema.RuntimeConfig, schema.ExperimentConfig, schema.StageConfig),
)
# What only moves configurations around reads no field.
MOVERS = ("experiments", "settings", "registry.py", "run.py")


def names_read() -> set[str]:
    """Attributes that the package reads, and the strings by which it might (getattr, pop, a metric's name)."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        relative = path.relative_to(PACKAGE)
        if relative.parts[0] in MOVERS or relative.name == "configs.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
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
