"""Functions with the decorator `takes`: pages show the arguments that callers give, which griffe does not find in the source."""

import importlib
import inspect
from typing import Any

import griffe

from docs.site.markdown import escaped

_KINDS = {
    inspect.Parameter.POSITIONAL_OR_KEYWORD: griffe.ParameterKind.positional_or_keyword,
    inspect.Parameter.KEYWORD_ONLY: griffe.ParameterKind.keyword_only,
}


class TakenOptions(griffe.Extension):
    """Imports those functions, which load no TensorFlow, and takes their signature and their docstring."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """griffe has read a function."""
        if not any(str(each.value).startswith("takes(") for each in func.decorators) or func.docstring is None:
            return
        module, _, name = func.path.rpartition(".")
        function = getattr(importlib.import_module(module), name)
        func.docstring.value = escaped(inspect.getdoc(function) or "")
        given = inspect.signature(function).parameters.values()
        func.parameters = griffe.Parameters(*map(_parameter, given))


def _parameter(each: inspect.Parameter) -> griffe.Parameter:
    default = None if each.default is each.empty else repr(each.default)
    return griffe.Parameter(each.name, annotation=_shown(each.annotation), kind=_KINDS[each.kind], default=default)


def _shown(annotation: Any) -> str:
    """A type, without the modules of its parts."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    for module in ("collections.abc.", "typing.", "os.", "pathlib."):
        text = text.replace(module, "")
    return text
