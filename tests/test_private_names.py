"""nlpdata and pipelines use no private attribute of a library, apart from those listed here, each with what guards it.

That of pretrain: tests/pretrain/test_private_names.py.
"""

import ast

import pytest

from tests.test_architecture import modules

# Attribute -> why it is used, and the test that fails when it disappears.
ALLOWED = {
    "_add_argparse_args": "the method that Beam's documentation has users override; tests/pipelines/test_runner.py",
    "_exit": "os._exit is public",
}


def private_attributes(source: str) -> set[str]:
    """Names with one leading underscore that are read from objects."""
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute))
    return {node.attr for node in nodes if node.attr.startswith("_") and not node.attr.startswith("__")}


def defined(source: str) -> set[str]:
    """Names that a module defines: functions, classes, variables, fields, and attributes that it sets."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.id if isinstance(node, ast.Name) else node.attr)
    return found


def _sources() -> dict[str, str]:
    own = {module: path for module, path in modules().items() if module.startswith(("nlpdata", "pipelines"))}
    return {module: path.read_text(encoding="utf-8") for module, path in own.items()}


def test_no_private_attribute_of_a_library():
    sources = _sources()
    ours = set().union(*(defined(source) for source in sources.values())) | ALLOWED.keys()
    found = [f"{module}: {name}" for module, source in sources.items() for name in private_attributes(source) - ours]
    assert not found, "\n".join(sorted(found))


@pytest.mark.parametrize("name", ALLOWED)
def test_what_is_allowed_is_used(name):
    assert any(name in private_attributes(source) for source in _sources().values())
