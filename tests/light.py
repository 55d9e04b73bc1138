"""Which test files `make check` runs: those that need no TensorFlow, Keras, JAX or Beam, told from the imports.

A test file is heavy if it, or a module of tests/ that it imports, imports such a package anywhere in its text, or a module of
ours that loads one when it is imported. What is heavy in another way, such as a command in a process of its own, says so by the
mark `heavy`.
"""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEAVY = frozenset({"apache_beam", "jax", "keras", "tensorflow", "tensorflow_datasets", "torch"})
BLOCKED = HEAVY - {"jax", "torch"}  # SciPy looks for those two among the loaded modules
_OURS = ("nlpdata", "pipelines", "pretrain", "tests")


@cache
def needs_heavy(path: Path) -> bool:
    """Whether a Python file of this project is heavy."""
    seen, waiting = set(), [path]
    while waiting:
        place = waiting.pop()
        if place in seen:
            continue
        seen.add(place)
        names = _imported(place, everywhere=place.is_relative_to(ROOT / "tests"))
        if any(name.partition(".")[0] in HEAVY for name in names):
            return True
        waiting += [found for name in names if name.partition(".")[0] in _OURS for found in _files(name)]
    return False


@cache
def _imported(path: Path, everywhere: bool) -> frozenset[str]:
    """The names that import statements of a file give; those within functions only where asked for."""
    names = set()
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting += node.orelse  # what is imported for type checkers alone is not loaded
        elif everywhere or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += ast.iter_child_nodes(node)
    return frozenset(names)


def _files(name: str) -> list[Path]:
    """The files that importing a dotted name of ours reads: packages on the way, and the module."""
    found, place = [], ROOT
    for word in name.split("."):
        place /= word
        found += [file for file in (place / "__init__.py", place.with_suffix(".py")) if file.is_file()]
    return found
