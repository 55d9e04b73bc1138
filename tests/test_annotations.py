"""Every public function of the packages declares the types of its arguments and of its result; mypy checks them (make lint)."""

import ast
from pathlib import Path

import pytest

from tests.test_architecture import modules


def unannotated(source: str) -> list[str]:
    """What the public functions and methods of a module lack: "function(argument)" or "Class.method ->"."""
    return _of_body(ast.parse(source).body, "")


def _of_body(body: list[ast.stmt], owner: str) -> list[str]:
    found = []
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            found += _of_body(node.body, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef) and (node.name in ("__init__", "__call__") or node.name[0] != "_"):
            arguments = [*node.args.posonlyargs, *node.args.args]
            if owner and not any(isinstance(d, ast.Name) and d.id == "staticmethod" for d in node.decorator_list):
                arguments = arguments[1:]
            arguments += [*node.args.kwonlyargs, *filter(None, (node.args.vararg, node.args.kwarg))]
            found += [f"{owner}{node.name}({each.arg})" for each in arguments if each.annotation is None]
            if node.returns is None and node.name != "__init__":
                found.append(f"{owner}{node.name} ->")
    return found


def test_public_functions_are_annotated():
    found = [
        f"{module}: {what}"
        for module, path in modules().items()
        for what in unannotated(path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_the_types_are_in_the_packages():
    for package in ("nlpdata", "pipelines", "pretrain"):
        assert (Path(__file__).parents[1] / package / "py.typed").is_file()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f(a: int, *, b: str = '') -> int: ...", []),
        ("def f(a, *more, b=1, **rest): ...", ["f(a)", "f(b)", "f(more)", "f(rest)", "f ->"]),
        ("def _f(a): ...\nclass _C:\n    def m(self, a): ...", []),
        ("class C:\n    def __init__(self, a): ...\n    def m(self): ...", ["C.__init__(a)", "C.m ->"]),
        ("class C:\n    @staticmethod\n    def m(a) -> int: ...", ["C.m(a)"]),
    ],
)
def test_the_rule_tells_right_from_wrong(source, expected):
    assert unannotated(source) == expected
