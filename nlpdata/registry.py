"""Registries: a name and "module:attribute", imported when first asked for. A new part is one file and one line.

PARTS = Registry("part", {"small": "package.parts.small:Small"})
PARTS.get("small")            the class Small
PARTS.get("smal")             UsageError that names the closest entries
PARTS.get("my.module:Part")   a user's own part, without registering it

Names in a file are data: `check_stored(name)` first. It lets registered names pass, and those of modules that the user has
named in this call (`user_modules`).
"""

import contextlib
import importlib
import os
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import is_dataclass
from typing import Any, TypeVar

from nlpdata.errors import NlpdataError, UsageError, closest

T = TypeVar("T")

_STANDARD_LIBRARY = os.path.dirname(os.__file__)

_named: ContextVar[frozenset[str]] = ContextVar("modules that the user has named", default=frozenset())


@contextlib.contextmanager
def user_modules(names: Iterable[str]) -> Iterator[None]:
    """Imports a user's modules, which may register parts; while the context lasts, stored names of their parts are accepted.

    Args:
      names: dotted names; one may hold several, separated by commas.

    UsageError where one cannot be imported.
    """
    modules = [part.strip() for name in names for part in name.split(",") if part.strip()]
    for module in modules:
        try:
            importlib.import_module(module)
        except Exception as error:  # it is the user's code: whatever it raises
            missing = isinstance(error, ModuleNotFoundError) and error.name in (module, module.partition(".")[0])
            advice = (
                ". Give its dotted name, e.g. --import_module my_parts, with its folder on the import path (PYTHONPATH)."
                if missing
                else _place(error)
            )
            raise UsageError(
                f"module {module!r} cannot be imported: {type(error).__name__}: {' '.join(str(error).split())}{advice}"
            ) from None
    token = _named.set(_named.get() | set(modules))
    try:
        yield
    finally:
        _named.reset(token)


@contextlib.contextmanager
def users_code(what: str) -> Iterator[None]:
    """While the context lasts, what a user's own code raises becomes a UsageError of one line that ends in file and line.

    Args:
      what: what fails, e.g. "the dataset my_data:load cannot be read"; options in it are named with `opt`.
    """
    try:
        yield
    except NlpdataError:
        raise
    except Exception as error:  # not SystemExit, which is also how a signal ends a command
        raise users_fault(what, error) from error


def users_fault(what: str, error: Exception, file: str = "") -> UsageError:
    """The error for what a user's own code has raised; see users_code. file: of that code, if it is known."""
    text = " ".join(str(error).split())
    return UsageError(f"{what}: {type(error).__name__}: {text}{_place(error, file)}")


def _place(error: Exception, file: str = "") -> str:
    """ " (file:line)" of where a user's code failed; "" where the error names it itself.

    That is the last line of its file, or else that is not of Python's own modules: the definition of a class, not the decorator
    that refuses it.
    """
    all_frames = list(traceback.extract_tb(error.__traceback__))
    frames = [frame for frame in all_frames if frame.filename == file] or all_frames
    own = [frame for frame in frames if os.path.dirname(frame.filename) not in (_STANDARD_LIBRARY, "")]
    frame = next(reversed(own or frames), None)
    return f" ({frame.filename}:{frame.lineno})" if frame and not isinstance(error, SyntaxError) else ""


class Registry:
    """Named parts of one kind, in the order in which they were registered.

    Args:
      kind: what the parts are, for messages, e.g. "encoder".
      entries: name -> "module:attribute".
      configs: name -> "module:attribute" of the dataclass of its options, where that is lighter to import than the part.
      by_path: whether a part may also be named as "module:attribute". False where names come from files.
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, str],
        configs: Mapping[str, str] | None = None,
        *,
        by_path: bool = True,
    ) -> None:
        self.kind = kind
        self._entries = dict(entries)
        self._built_in = frozenset(entries)
        self._configs = dict(configs or {})
        self._by_path = by_path

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def is_built_in(self, name: str) -> bool:
        """Whether a registered name is the package's, not one that the user has registered."""
        return name in self._built_in

    def names(self) -> list[str]:
        """The registered names, sorted."""
        return sorted(self._entries)

    def register(self, name: str, target: str | None = None) -> Callable[[Any], Any]:
        """Adds a part; a name that is taken by another target is a ValueError.

        Args:
          name: a short name.
          target: "module:attribute"; None: what the result decorates, e.g. `@TASKS.register("weighted_lm")`.

        Returns a decorator that registers a class or function of a module and gives it back.
        """

        def register_part(part: Any) -> Any:
            if "." in part.__qualname__:
                raise ValueError(f"{self.kind} {name!r}: {part.__qualname__} is not at the top level of its module")
            self.register(name, f"{part.__module__}:{part.__qualname__}")
            return part

        if target is not None:
            if self._entries.get(name, target) != target:
                raise ValueError(f"{self.kind} {name!r} is already {self._entries[name]!r}, not {target!r}")
            self._entries[name] = target
        return register_part

    def target(self, name: str) -> str:
        """The "module:attribute" that a name means, without importing it. UsageError for a name that is not registered."""
        target = self._entries.get(name, name if self._by_path and ":" in name else None)
        if target is not None:
            return target
        own = "; or name your own as module:attribute" if self._by_path else ""
        raise UsageError(
            f"unknown {self.kind} {name!r}.{closest(name, self._entries, 3)} Known: {', '.join(self.names())}{own}."
        )

    def get(self, name: str) -> Any:
        """The part of that name, or at that "module:attribute". UsageError where there is none."""
        target = self.target(name)
        try:
            return _import(target)
        except (ModuleNotFoundError, AttributeError, ValueError) as error:  # ValueError: of a name such as ":x"
            if name in self._entries:
                raise
            raise UsageError(
                f"{self.kind} {name!r} cannot be imported: {error}. It must be module:attribute, with the module on the "
                "import path (PYTHONPATH)."
            ) from None

    def get_class(self, name: str, base: type[T]) -> type[T]:
        """As get, a subclass of `base`. UsageError for anything else."""
        part = self.get(name)
        if not (isinstance(part, type) and issubclass(part, base)):
            raise UsageError(
                f"{self.kind} {name!r} is not a subclass of {base.__module__}.{base.__qualname__}: {part!r}."
            )
        return part

    def check_stored(self, name: str) -> None:
        """UsageError for a name that a file gives, unless it is registered or of a module that the user has named."""
        module, colon, _ = name.partition(":")
        if name in self._entries or (colon and module in _named.get()):
            return
        if colon:
            raise UsageError(
                f"{self.kind} {name!r} is not part of this program, and what a checkpoint names is not imported by itself. If it "
                f"is yours, or you trust it, name its module: --import_module {module} (in Python: import_modules=[{module!r}])."
            )
        raise UsageError(
            f"unknown {self.kind} {name!r}. Known: {', '.join(self.names())}. A module of yours that registers it is named by "
            "--import_module (in Python: import_modules=[...])."
        )

    def has_light_options(self, name: str) -> bool:
        """Whether the options of the part of that name are read without importing the part."""
        return name in self._configs

    def config_class(self, name: str) -> type:
        """The dataclass of the options of the part of that name: its attribute `config_class`. UsageError where it has none."""
        if name in self._configs:
            return _import(self._configs[name])
        part = self.get(name)
        if not is_dataclass(getattr(part, "config_class", None)):
            raise UsageError(
                f"{self.kind} {name!r} declares no options: give it an attribute `config_class`, a dataclass, e.g. "
                "`config_class = MyConfig`."
            )
        return part.config_class


def _import(target: str) -> Any:
    module, attribute = target.split(":", 1)
    return getattr(importlib.import_module(module), attribute)
