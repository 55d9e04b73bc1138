"""The pages about the functions and classes of the packages: what they export, one after another; mkdocstrings reads the rest."""

import importlib
from collections.abc import Callable
from functools import partial


def page(package: str) -> str:
    """The Markdown of the page of a package."""
    names = sorted(importlib.import_module(package).__all__, key=lambda name: (name[0].isupper(), name))
    return f"# {package} from Python\n\n" + "\n".join(f"::: {package}.{name}\n" for name in names)


PAGES: dict[str, Callable[[], str]] = {f"reference/{name}.md": partial(page, name) for name in ("nlpdata", "pretrain")}
