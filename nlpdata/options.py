"""Options: dataclasses of which the functions, the command line and the meta files all take their options.

    @dataclass(frozen=True)
    class MakeRequest(MakeOptions):
        output: str = option("out", "The output folder.")

    @takes(MakeRequest)
    def make(request: MakeRequest) -> Result: ...

`make(output="x", seed=3)` then has the arguments of MakeRequest, with their types and defaults: `help(make)`,
`inspect.signature`, type checkers and editors show them all.
"""

import functools
import inspect
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import Field, asdict, dataclass, field, fields
from types import NoneType, UnionType
from typing import Annotated, Any, ForwardRef, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from nlpdata.errors import HALF, Message, UsageError, closest, opt

ACCEPT_LOSS_HELP = "Write the result even where most of the text is cut off or unknown to the tokenizer."

MOST_SHARDS = 10_000  # a terabyte at the default size; one of more text has as many as it takes
MOST_WORKERS = 1024
MOST_TOKENS = 65536  # of an example
MOST_SEED = (1 << 63) - 1
_LONGEST_NAME = 255  # bytes, of a file or a folder
_PATHS = re.compile(r"input|output|tokenizer|meta|(.+_)?(input|output|dir)")
_ENDLESS = 1 << 40  # a bound that only keeps a number within 64 bits

P = ParamSpec("P")
Request = TypeVar("Request")
Result = TypeVar("Result")


def option(
    default: Any,
    text: str,
    affects_bytes: bool = True,
    *,
    flag: str | None = None,
    least: float | None = None,
    most: float | None = None,
) -> Any:
    """A field of an options dataclass that has a default; one that must be given is `name: Annotated[type, help]`.

    Args:
      default: its default.
      text: its help, which may name other options (see nlpdata.errors.opt).
      affects_bytes: whether it decides the records' bytes, and so is in the meta file.
      flag: its name on the command line, where that is not the field's; "" where the command line does not have it.
      least, most: the smallest and the largest number that it may be; see check_bounds.
    """
    about = {"help": text, "affects_bytes": affects_bytes, "flag": flag, "least": least, "most": most}
    return field(default=default, metadata=about)


def help_of(each: "Field[Any]") -> str:
    """The help of a field of an options dataclass; options in it are marked (see nlpdata.errors.opt)."""
    return get_args(each.type)[1] if get_origin(each.type) is Annotated else each.metadata["help"]


def type_of(each: "Field[Any]") -> Any:
    """The type of a field, without its help."""
    kind = get_args(each.type)[0] if get_origin(each.type) is Annotated else each.type
    return kind.__forward_arg__ if isinstance(kind, ForwardRef) else kind


@dataclass(frozen=True, kw_only=True)
class RecordOptions:
    """Base of the option dataclasses."""

    def affecting_bytes(self) -> dict[str, Any]:
        """The options that decide the records' bytes, for the meta file."""
        values = asdict(self)
        return {each.name: values[each.name] for each in fields(self) if each.metadata["affects_bytes"]}

    def check_choices(self) -> None:
        """UsageError for a value that is not one of its field's choices (Literal, with or without None)."""
        for each in fields(self):
            literals = [t for t in (each.type, *get_args(each.type)) if get_origin(t) is Literal]
            value = getattr(self, each.name)
            if not literals or (value is None and NoneType in get_args(each.type)):
                continue
            choices = get_args(literals[0])
            if value not in choices:
                raise UsageError(
                    f"{opt(each.name)} must be one of {', '.join(choices)}. Received: {value!r}.{closest(value, choices)}"
                )


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """Base of what commands take in addition to the options that decide their result.

    The arguments of a command are a subclass of this and of the class of these options, with a field `options`, in which they
    are by themselves.
    """

    def __post_init__(self) -> None:
        check_bounds(self)
        for each in fields(self):
            if each.name == "options":
                object.__setattr__(self, "options", chosen(each.type, self))


@dataclass(frozen=True, kw_only=True)
class RecordSetArguments(Arguments):
    """What the commands that make records share, on any runner."""

    meta: str | None = option(None, "Meta file.  [default: next to the records]")
    num_shards: int | None = option(
        None, "Record files of the training split.  [default: one for each 112 MiB]", least=1, most=MOST_SHARDS
    )
    do_lower_case: bool | None = option(None, "Lower-case the text.  [default: as stored with the tokenizer]")
    keep_accents: bool | None = option(None, "Keep accents.  [default: as stored with the tokenizer]")
    digit_comma: bool | None = option(
        None, "Split pieces such as '9,' (ALBERT vocabularies).  [default: as stored with the tokenizer]"
    )
    overwrite: bool = option(False, "Replace an older result of the same name.")
    progress: bool = option(False, "Show progress on standard error.", flag="")


@dataclass(frozen=True, kw_only=True)
class LocalArguments(Arguments):
    """What a command takes that runs on this machine."""

    workers: int | None = option(
        None, "Processes; they do not change the result.  [default: one for each core]", least=1, most=MOST_WORKERS
    )


@dataclass(frozen=True, kw_only=True)
class BeamArguments(Arguments):
    """What a command takes that runs on a Beam runner."""

    runner: str = option("DirectRunner", "DirectRunner, DaskRunner, FlinkRunner, SparkRunner or DataflowRunner.")
    beam_args: Sequence[str] = option((), "Beam's own options, as on a command line.", flag="")
    dry_run: bool = option(
        False, "Say what would be read and written, with estimates; with a Beam runner, show the job. Write nothing."
    )


def takes(request_class: Callable[P, Request]) -> Callable[[Callable[[Request], Result]], Callable[P, Result]]:
    """Gives a function of one request the arguments of the request's dataclass, and their help to its docstring."""

    def decorate(function: Callable[[Request], Result]) -> Callable[P, Result]:
        signature = _signature(request_class, inspect.signature(function).return_annotation)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Result:
            unknown = [name for name in kwargs if name not in signature.parameters]
            if unknown:
                hint = closest(unknown[0], signature.parameters)
                raise UsageError(
                    f"{function.__name__} has no option {unknown[0]!r}.{hint} Known: {', '.join(signature.parameters)}."
                )
            given = signature.bind(*args, **kwargs)  # TypeError in the name of this function
            for name, value in given.arguments.items():
                given.arguments[name] = _checked(name, value, signature.parameters[name])
            return function(request_class(*given.args, **given.kwargs))

        call.__signature__ = signature  # type: ignore[attr-defined]
        call.__doc__ = _with_arguments(inspect.getdoc(function) or "", request_class, signature.parameters)
        return call

    return decorate


def _signature(request_class: Any, returned: Any) -> inspect.Signature:
    types = {each.name: type_of(each) for each in fields(request_class)}
    signature = inspect.signature(request_class)
    parameters = [each.replace(annotation=types[each.name]) for each in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=returned)


def _checked(name: str, value: Any, parameter: inspect.Parameter) -> Any:
    """An argument, a scalar of numpy as Python's. UsageError for one of another type: "no" is not False, "12" not 12."""
    if type(value).__module__ == "numpy" and not getattr(value, "ndim", 1):
        value = value.item()
    kind = parameter.annotation
    if value is not parameter.default and not _is_of(value, kind):
        kinds = dict.fromkeys(_expected(each) for each in _alternatives(kind))
        raise UsageError(f"{opt(name)} must be {' or '.join(kinds)}. Received: {value!r}.")
    for each in value if isinstance(value, list | tuple) else [value]:
        if isinstance(each, str | os.PathLike) and (fault := _text_fault(name, os.fspath(each))):
            raise UsageError(f"{opt(name)} {fault}. Received: {str(each)!r}.")
    return value


def _text_fault(name: str, text: str | bytes) -> str | None:
    """What no file system takes: a text with NUL or half of a surrogate pair; in an option of paths, a name that is too long."""
    try:
        raw = os.fsencode(text)
    except UnicodeEncodeError:  # those that stand for the bytes of a file's name are another matter
        return f"has {HALF}"
    if b"\0" in raw:
        return "has a NUL character"
    longest = max(map(len, re.split(rb"[/,]", raw)))
    if longest > _LONGEST_NAME and _PATHS.fullmatch(name) and b"://" not in raw:
        return f"has a name of {longest} bytes, and file systems take at most {_LONGEST_NAME}"
    return None


def _alternatives(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if isinstance(kind, UnionType) or get_origin(kind) is Union else (kind,)


def _is_of(value: object, kind: Any) -> bool:
    """Whether a value is of a field's type. Names of types that are not loaded accept all: what takes the value checks it."""
    alternatives = _alternatives(kind)
    if len(alternatives) > 1:
        return any(_is_of(value, each) for each in alternatives)
    if get_origin(kind) is Sequence:  # or what gives its items once, such as Path.glob
        items = value if isinstance(value, list | tuple) else ()
        is_text = isinstance(value, str | bytes | os.PathLike)
        return isinstance(value, Iterable) and not is_text and all(_is_of(item, get_args(kind)[0]) for item in items)
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is str or get_origin(kind) is Literal:  # paths are texts, too
        return isinstance(value, str | os.PathLike)
    return isinstance(value, get_origin(kind) or kind) if isinstance(get_origin(kind) or kind, type) else True


def _expected(kind: Any) -> str:
    """A type in a message."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    if get_origin(kind) is Sequence:
        return "a list"
    names = {NoneType: "None", bool: "True or False", int: "an integer", float: "a number", str: "a string"}
    return names.get(kind, "a path")


def _with_arguments(doc: str, request_class: Any, names: Iterable[str]) -> str:
    """A docstring with the help of the arguments after its first paragraph."""
    known = {each.name: each for each in fields(request_class)}
    lines = [textwrap.fill(f"{name}: {Message(help_of(known[name]))}", 100, subsequent_indent="    ") for name in names]
    first, _, rest = doc.partition("\n\n")
    arguments = "Args:\n" + textwrap.indent("\n".join(lines), "  ")
    return "\n\n".join(filter(None, [first, arguments, rest]))


def chosen(options_class: Any, request: object) -> Any:
    """The options of a class among the values of a request."""
    return options_class(**{each.name: getattr(request, each.name) for each in fields(options_class) if each.init})


def check_bounds(options: Any) -> None:
    """UsageError for a field of an options dataclass that is not within the bounds which it declares; None passes."""
    for each in fields(options):
        least, most = each.metadata.get("least"), each.metadata.get("most")
        if least is not None or most is not None:
            check_range(each.name, getattr(options, each.name), -math.inf if least is None else least, most)


def check_range(name: str, value: float | None, low: float, high: float | None) -> None:
    """UsageError for a value outside of low..high; None passes; `high` None sets no upper limit."""
    if value is not None and not (low <= value and (high is None or value <= high)):
        endless = high is None or (high >= _ENDLESS and value < low)
        expected = f"at least {low}" if endless else f"from {low} to {high}"
        raise UsageError(f"{opt(name)} must be {expected}. Received: {value}.")
