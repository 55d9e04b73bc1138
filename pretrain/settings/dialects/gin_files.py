"""Gin files: arguments of encoders, layers, optimizers and learning rates, bound by the names of classes.

    TransformerScaffold.attention_cls = @TalkingHeadsAttention
    AdamW.weight_decay_rate = 0.05

gin-config parses them. A binding is not put into a call, as gin does: it becomes a field of the configuration. So it is checked and
saved with the run, and later commands need no gin file. Names are our classes' and the TensorFlow Model Garden's.
"""

import importlib
import logging
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from nlpdata.errors import UsageError, closest, missing_package
from nlpdata.files.fetching import fetched
from nlpdata.files.paths import is_remote, read_file
from nlpdata.files.yaml_faults import MOST_YAML_BYTES
from nlpdata.registry import Registry
from pretrain.registry import ATTENTIONS, ENCODERS, FEED_FORWARDS, OPTIMIZERS, SCHEDULES, WARMUPS

_log = logging.getLogger(__name__)

_SHIPPED = Path(__file__).parents[2] / "configs" / "gin"
_OPTIMIZATION = "trainer.optimizer_config"
_ENCODER = "task.model.encoder"
_PARTS = {
    _ENCODER: ENCODERS,
    f"{_OPTIMIZATION}.optimizer": OPTIMIZERS,
    f"{_OPTIMIZATION}.learning_rate": SCHEDULES,
    f"{_OPTIMIZATION}.warmup": WARMUPS,
}
_MOST_FILES = 100  # that include each other


@dataclass(frozen=True)
class Reference:
    """@name: a class."""

    name: str


@dataclass(frozen=True)
class Macro:
    """%name: the value that a line `name = value` gives."""

    name: str


@dataclass(frozen=True)
class Binding:
    """name.argument = value; `place` is file and line."""

    place: str
    name: str
    argument: str
    value: Any


@dataclass(frozen=True)
class GinBindings:
    """What gin files and bindings say.

    Attributes:
      modules: the user's modules that they import.
      aliases: name in references -> module, where `import` gives one.
      bindings: in their order; a later one of the same argument counts.
      notes: what the user should know of the files.
    """

    modules: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    bindings: tuple[Binding, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Field:
    """An argument that is a field of the configuration."""

    path: str


@dataclass(frozen=True)
class _Class:
    """An argument that is a class: the name of a part. `names`: of the Garden's classes -> ours; None leaves it as it is."""

    path: str
    registry: Registry
    names: Mapping[Any, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class _Only:
    """An argument with one value at which it computes what this package computes."""

    value: Any


_GARDEN: dict[str, dict[str, _Field | _Class | _Only]] = {
    "official.nlp.configs.encoders.build_encoder": {
        "encoder_cls": _Class(_ENCODER, ENCODERS, {"EncoderScaffold": None, None: None}),
        "bypass_config": _Only(False),
    },
    "official.nlp.modeling.networks.encoder_scaffold.EncoderScaffold": {
        "hidden_cls": _Only(Reference("TransformerScaffold")),
        "layer_norm_before_pooling": _Only(False),
    },
    "official.nlp.modeling.layers.transformer_scaffold.TransformerScaffold": {
        "attention_cls": _Class(
            f"{_ENCODER}.attention",
            ATTENTIONS,
            {"MultiHeadAttention": "standard", "TalkingHeadsAttention": "talking_heads"},
        ),
        "feedforward_cls": _Class(
            f"{_ENCODER}.feed_forward", FEED_FORWARDS, {None: "standard", "GatedFeedforward": "gated"}
        ),
        "num_attention_heads": _Field(f"{_ENCODER}.num_attention_heads"),
        "inner_dim": _Field(f"{_ENCODER}.intermediate_size"),
        "dropout_rate": _Field(f"{_ENCODER}.hidden_dropout_prob"),
        "attention_dropout_rate": _Field(f"{_ENCODER}.attention_probs_dropout_prob"),
        "norm_epsilon": _Field(f"{_ENCODER}.layer_norm_eps"),
        "norm_first": _Only(False),
    },
    "official.nlp.modeling.layers.talking_heads_attention.TalkingHeadsAttention": {"use_bias": _Only(True)},
    "official.nlp.modeling.layers.gated_feedforward.GatedFeedforward": {
        "use_gate": _Only(True),
        "num_blocks": _Only(1),
        "apply_output_layer_norm": _Only(True),
        "dropout_position": _Only("before_residual"),
    },
    # Ours: which optimizer, learning rate and warm-up.
    "pretrain.settings.trainer_section.OptimizationConfig": {
        path.rpartition(".")[2]: _Class(path, registry) for path, registry in _PARTS.items() if path != _ENCODER
    },
}


def read_gin(files: Sequence[str], params: Sequence[str]) -> GinBindings:
    """The bindings of gin files, and those after them; nothing is imported.

    Args:
      files: paths; talking_gated_encoder.gin comes with the package.
      params: lines such as "AdamW.beta_2 = 0.98".

    UsageError, with file and line, for what is not gin's, and where gin-config is not installed.
    """
    if not files and not params:
        return GinBindings()
    modules, aliases, statements = [], {}, []
    notes: list[str] = []
    for statement, place in _statements(files, params, notes):
        if hasattr(statement, "arg_name"):
            statements.append((statement, place))
        elif hasattr(statement, "module"):
            modules.append(statement.module)
            if statement.alias or statement.is_from:
                aliases[statement.bound_name()] = statement.module
    macros = {each.selector: each.value for each, _ in statements if not each.arg_name}
    bindings = []
    for each, place in statements:
        if each.scope:
            raise UsageError(f"{place}: {each.scope}/ is a scope; there are none here. Bind {each.selector} itself.")
        if each.arg_name:
            bindings.append(Binding(place, each.selector, each.arg_name, _expanded(each.value, macros, place)))
    return GinBindings(tuple(modules), aliases, tuple(bindings), tuple(notes))


def gin_layers(gin: GinBindings) -> list[tuple[str, dict]]:
    """(file and line, tree) of each binding, lowest first; those that choose a part come before those of its arguments.

    The modules that the files import must have been imported (nlpdata.registry.user_modules).

    UsageError, with file and line, for a class or an argument that there is not, and for a value that is not available here.
    """
    for note in gin.notes:
        _log.info(note)
    chosen: list[tuple[str, dict]] = []
    others: list[tuple[str, dict]] = []
    for binding in gin.bindings:
        meaning = _meaning(binding, gin)
        if isinstance(meaning, _Only):
            _refuse_other(binding, meaning.value)
        elif isinstance(meaning, _Field):
            if isinstance(binding.value, Reference):
                raise UsageError(f"{_named(binding)} is a value, not a class. Received: @{binding.value.name}.")
            others.append((binding.place, _tree(meaning.path, binding.value)))
        elif (name := _part(binding, meaning, gin)) is not None:
            is_type = meaning.path in _PARTS
            path = f"{meaning.path}.type" if is_type else meaning.path
            (chosen if is_type else others).append((binding.place, _tree(path, name)))
    return [*chosen, *others]


def _statements(files: Sequence[str], params: Sequence[str], notes: list[str]) -> Iterator[tuple[Any, str]]:
    """(statement, its place) of files, of those that they include, and of lines; adds to the notes."""
    seen = 0
    todo = [(_found(path, notes), path) for path in files]
    while todo:
        place, shown = todo.pop(0)
        seen += 1
        if seen > _MOST_FILES:
            raise UsageError(f"{shown}: more than {_MOST_FILES} gin files. Do they include each other?")
        try:
            text = read_file(place, MOST_YAML_BYTES).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UsageError(f"gin file {shown} cannot be read: {reason}") from None
        included = []
        for statement, line in _parsed(text, shown):
            if hasattr(statement, "filename"):
                path = statement.filename
                near = place.parent / path
                included.append((near if near.is_file() else _found(path, notes), path))
            else:
                yield statement, f"{shown}:{line}"
        todo = included + todo
    for text in params:
        for statement, _ in _parsed(text, f"--gin_params {text!r}"):
            yield statement, f"--gin_params {text!r}"


def _found(path: str, notes: list[str]) -> Path:
    """The file at a path, or the one of that name that comes with the package, which is noted."""
    if is_remote(path) or Path(path).exists():
        return fetched(path)
    shipped = _SHIPPED / Path(path).name
    if shipped.is_file():
        if path != shipped.name:
            notes.append(f"{path} is not there; the {shipped.name} that comes with the package is used")
        return shipped
    names = [file.name for file in _SHIPPED.glob("*.gin")]
    raise UsageError(f"there is no gin file {path}.{closest(Path(path).name, names)}")


def _parsed(text: str, source: str) -> Iterator[tuple[Any, int]]:
    """(statement of gin-config, its line)."""
    try:
        from gin import config_parser
    except ModuleNotFoundError:
        raise missing_package("--gin_file and --gin_params", "gin") from None

    class Delegate(config_parser.ParserDelegate):
        def configurable_reference(self, scoped_configurable_name: str, evaluate: bool) -> Reference:
            return Reference(f"{scoped_configurable_name}()" if evaluate else scoped_configurable_name)

        def macro(self, macro_name: str) -> Macro:
            return Macro(macro_name)

    try:
        for statement in config_parser.ConfigParser(text, Delegate()):
            yield statement, statement.location.line_num
    except SyntaxError as error:
        raise UsageError(f"{source}:{error.lineno or 1}: is not valid gin: {str(error.msg).splitlines()[0]}") from None
    except (tokenize.TokenError, ValueError, RecursionError) as error:
        raise UsageError(f"{source}: is not valid gin: {' '.join(str(error).split())}") from None


def _expanded(value: Any, macros: Mapping[str, Any], place: str, depth: int = 0) -> Any:
    """The value without macros."""
    if isinstance(value, Macro):
        if value.name not in macros or depth > len(macros):
            why = "names itself" if value.name in macros else f"has no value.{closest(value.name, macros)}"
            raise UsageError(f"{place}: %{value.name} {why}")
        return _expanded(macros[value.name], macros, place, depth + 1)
    if isinstance(value, list | tuple):
        return [_expanded(each, macros, place, depth) for each in value]
    if isinstance(value, dict):
        return {str(key): _expanded(each, macros, place, depth) for key, each in value.items()}
    return value


def _meaning(binding: Binding, gin: GinBindings) -> _Field | _Class | _Only:
    """What an argument is here."""
    arguments = _arguments(binding.name)
    if arguments is None:
        if _own(binding.name, gin) is not None:
            raise UsageError(
                f"{_named(binding)}: arguments of your own classes are not bound. Give {binding.argument} this default in the "
                "class, or make it a field of your encoder's config_class."
            )
        raise UsageError(
            f"{binding.place}: there is no class {binding.name} here.{closest(binding.name, _short_names())} Known: "
            f"{', '.join(_short_names())}."
        )
    if binding.argument not in arguments:
        known = f" Known: {', '.join(arguments)}." if arguments else ""
        raise UsageError(
            f"{binding.place}: {binding.name} has no argument {binding.argument} here."
            f"{closest(binding.argument, arguments)}{known}"
        )
    return arguments[binding.argument]


def _arguments(name: str) -> Mapping[str, _Field | _Class | _Only] | None:
    """Argument -> what it is, of the class of that name; None where there is none."""
    for selector, arguments in _GARDEN.items():
        if _is(name, selector):
            return arguments
    for path, registry in _PARTS.items():
        for part in registry:
            if _is(name, registry.target(part).replace(":", ".")):
                known = [each.name for each in fields(registry.config_class(part))]
                return {each: _Field(f"{path}.{part}.{each}") for each in known}
    return None


def _is(name: str, selector: str) -> bool:
    """Whether a name is a selector's, of which it may leave out the first words."""
    return f".{selector}".endswith(f".{name}")


def _short_names() -> list[str]:
    parts = [registry.target(part) for registry in _PARTS.values() for part in registry]
    return sorted({each.replace(":", ".").rpartition(".")[2] for each in (*_GARDEN, *parts)})


def _part(binding: Binding, meaning: _Class, gin: GinBindings) -> str | None:
    """The name of the part that a binding chooses; None: the one that there is."""
    value = binding.value
    given = value.name if isinstance(value, Reference) else value
    if not isinstance(value, Reference | str) and value is not None:
        raise UsageError(
            f"{_named(binding)} takes a class, e.g. @{next(iter(_classes(meaning)))}. Received: {value!r}."
        )
    for theirs, ours in meaning.names.items():
        if given == theirs or (isinstance(given, str) and theirs and given.endswith(f".{theirs}")):
            return ours
    for part in meaning.registry:
        if given == part or (given and _is(given, meaning.registry.target(part).replace(":", "."))):
            return part
    own = _own(given, gin) if given else None
    if own is None:
        known = list(_classes(meaning))
        raise UsageError(
            f"{_named(binding)} is {given!r}.{closest(given, known)} Known: {', '.join(known)}, and classes of modules that the "
            "file imports."
        )
    return own


def _classes(meaning: _Class) -> Iterator[str]:
    """The names of the classes that an argument may be."""
    yield from (name for name in meaning.names if name)
    yield from (meaning.registry.target(part).rpartition(":")[2] for part in meaning.registry)


def _own(name: str, gin: GinBindings) -> str | None:
    """module:attribute of a class in one of the modules that the files import; None where none has it."""
    head, dot, rest = name.partition(".")
    name = f"{gin.aliases[head]}{dot}{rest}" if head in gin.aliases else name
    for module in gin.modules:
        attribute = name.removeprefix(f"{module}.") if name.startswith(f"{module}.") else name
        if "." not in attribute and isinstance(getattr(importlib.import_module(module), attribute, None), type):
            return f"{module}:{attribute}"
    return None


def _refuse_other(binding: Binding, only: Any) -> None:
    value = binding.value
    if isinstance(value, Reference) and isinstance(only, Reference):
        if _is(only.name, value.name) or value.name == only.name:
            return
        value, only = f"@{value.name}", f"@{only.name}"
    if value != only or type(value) is not type(only):
        raise UsageError(f"{_named(binding)} is {value!r}: only {only!r} is available here. Leave it out.")


def _named(binding: Binding) -> str:
    return f"{binding.place}: {binding.name}.{binding.argument}"


def _tree(path: str, value: Any) -> dict:
    for name in reversed(path.split(".")):
        value = {name: value}
    return value
