"""Configuration dataclasses <-> trees of plain values, and merging trees.

A layer (a file, the flags, the overrides) is a tree with some of the fields. `merged` puts it over the tree of what is
below it, strictly: an unknown name, a wrong type or a misspelt choice is an error with its dotted path. `build` makes
the dataclasses once all layers are merged, so that a combination is judged only when it is complete.

A tagged choice is {type: albert, albert: {options}}. In a layer its options may also be directly next to `type`, and
a bare name means {type: name}. A layer that changes `type` drops the options of the type before; one that changes
`task_type` keeps what was set of the task before, as far as the new one has the field too (data paths, the encoder).
"""

import dataclasses
import functools
import logging
import typing
from collections.abc import Collection, Mapping
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from typing import Any

from nlpdata.errors import UsageError, closest
from nlpdata.files.json_kinds import as_written
from nlpdata.registry import Registry
from pretrain.settings.dialects import garden
from pretrain.settings.fields import Choice
from pretrain.settings.schema import ExperimentConfig
from pretrain.settings.values import parse_value, plain_value

_log = logging.getLogger(__name__)

_SOURCES = ("input_path", "input_function", "tfds_name")  # of the examples of a data section: one of them


@dataclass(frozen=True)
class Place:
    """Where a value comes from, for messages: the layer, and the dotted path in it."""

    layer: str = ""
    path: str = ""
    line: int | None = None
    stored: bool = False
    """Whether the layer is a file of a run and not the user's: then it names registered parts only (Registry.check_stored)."""
    quiet: bool = False
    """Whether fields without effect are not logged."""

    def __str__(self) -> str:
        layer = f"{self.layer}:{self.line}" if self.line else self.layer
        return f"{layer}: {self.path}" if layer else self.path

    def at(self, name: str) -> "Place":
        return dataclasses.replace(self, path=f"{self.path}.{name}" if self.path else str(name))

    def item(self, number: int) -> "Place":
        """The place of an item of the list that is here, from 0."""
        return dataclasses.replace(self, path=f"{self.path}[{number}]")

    def on_line_of(self, changes: Mapping, key: str) -> "Place":
        """The place with the line of that key, where the layer knows lines (files do)."""
        return dataclasses.replace(self, line=getattr(changes, "lines", {}).get(key, self.line))

    def error(self, message: str) -> UsageError:
        return UsageError(f"{self}: {message}")


def to_tree(value: Any) -> Any:
    """Plain dicts, lists and scalars of a configuration."""
    if isinstance(value, Choice):
        return {"type": value.type, value.type: to_tree(value.options)}
    if is_dataclass(value):
        return {field.name: to_tree(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, list | tuple):
        return [to_tree(item) for item in value]
    return value


def merged(cls: type, tree: dict, changes: dict, place: Place) -> dict:
    """The tree with a layer's changes, each of the type that the field declares.

    Args:
      cls: the dataclass that the tree describes.
      tree: what is below; not changed.
      changes: the layer.
      place: where the layer comes from.
    """
    if not isinstance(changes, dict):
        raise place.error(f"is a section with names in it: {_names(cls)}. Received: {as_written(changes)}.")
    declared = {field.name: field for field in fields(cls)}
    result = dict(tree)
    typed_by = {field.metadata["type_field"]: field for field in fields(cls) if "type_field" in field.metadata}
    # A type decides what its section may hold; an older name wins over ours where ours is empty.
    for key in sorted(changes, key=lambda key: (key not in typed_by, key not in declared)):
        here = place.on_line_of(changes, key).at(key)
        found = (key, changes[key]) if key in declared else _of_the_garden(cls, changes, key, here)
        if found is None or garden.is_unset(here.path, changes[key]):
            continue
        name, value = found
        result[name] = _merged_field(cls, declared[name], result, value, here)
        if name in typed_by and result[name] != tree.get(name):
            section = typed_by[name]
            registry = section.metadata["registry"]
            before, after = (_options_class(registry, each[name], here) for each in (tree, result))
            result[section.name] = _carried_over(before, tree[section.name], after)
    return result


def _of_the_garden(cls: type, changes: dict, key: str, here: Place) -> tuple[str, Any] | None:
    """Our name and value of a field that goes by another name; None where it changes nothing, which is logged."""
    declared, value = {field.name for field in fields(cls)}, changes[key]
    meaning = garden.meaning(here.path)
    if meaning is None:
        raise here.error(f"{cls.__name__} has no such field.{closest(key, declared)} Known: {_names(cls)}.")
    if isinstance(meaning, garden.Only) and not meaning.allows(plain_value(value)):
        raise here.error(f"is {as_written(value)}: {meaning.instead}")
    if not isinstance(meaning, garden.Ours) or meaning.name not in declared:
        if not here.quiet:
            _log.info(f"{here} has no effect here.")
        return None
    name = meaning.name
    if plain_value(value) in meaning.unset or (name in changes and not value):  # the Garden's files set both, one to ''
        return None
    if changes.get(name):
        raise here.error(f"is an older name of {name}, which is given too. Leave one out.")
    return name, meaning.words.get(value, value) if isinstance(value, str) else value


def _merged_field(cls: type, field: Field, tree: dict, value: Any, place: Place) -> Any:
    registry, type_field = field.metadata.get("registry"), field.metadata.get("type_field")
    hint = _hints(cls)[field.name]
    if registry and type_field:
        part = _options_class(registry, tree[type_field], place)
        return merged(part, _below(tree.get(field.name), part), value, place)
    if registry:
        return _merged_choice(registry, hint, tree.get(field.name), value, place)
    section = _section(hint)
    if section and (value is not None or section is hint):
        return merged(section, _below(tree.get(field.name), section), value, place)
    if item := _item_section(hint):
        return _merged_items(item, value, place)
    try:
        parsed = field.metadata.get("parse", lambda value: value)(value)
        return to_tree(parse_value(hint, parsed, field.metadata.get("bounds")))
    except ValueError as error:
        raise place.error(str(error)) from None


def _merged_items(section: type, value: Any, place: Place) -> list[dict]:
    """The items of a list of sections, each over the section's defaults: a list is given as a whole."""
    if not isinstance(value, list | tuple):
        raise place.error(
            f"is a list of sections with names in them: {_names(section)}. Received: {as_written(value)}."
        )
    items = (to_tree(each) if isinstance(each, section) else each for each in value)
    return [merged(section, _defaults(section), each, place.item(number)) for number, each in enumerate(items)]


def _merged_choice(registry: Registry, hint: Any, tree: dict | None, value: Any, place: Place) -> dict | None:
    if value in (None, {"type": None}) and type(None) in typing.get_args(hint):
        return None
    if isinstance(value, str):
        value = {"type": value}
    if not isinstance(value, dict) or not value:
        raise place.error(f"is the name of one of {', '.join(registry.names())}, or a section with its type.")
    before = (tree or {}).get("type")
    chosen = value.get("type", before)
    if not isinstance(chosen, str) or not chosen:
        raise place.error(f"give its type: one of {', '.join(registry.names())}. Received: {as_written(chosen)}.")
    given, chosen = chosen, _own_type(registry, chosen, place.on_line_of(value, "type").at("type"))
    part = _options_class(registry, chosen, place.on_line_of(value, "type").at("type"))
    options = tree[chosen] if tree and chosen == before else _defaults(part)
    for key, changes in value.items():
        if key in (chosen, given):
            options = merged(part, options, {} if changes is None else changes, place.on_line_of(value, key).at(key))
        elif key in registry.names() and key not in {field.name for field in fields(part)}:
            raise (
                place.on_line_of(value, key)
                .at(key)
                .error(f"the {registry.kind} is {chosen!r}. Set {place.path}.type={key} to choose this one.")
            )
    flat = {key: changes for key, changes in value.items() if key not in ("type", chosen, given)}
    if flat:
        flat = _with_lines(flat, value)
        options = merged(part, options, flat, place)
    if tree and chosen != before:
        inner = (value[key] for key in (chosen, given) if isinstance(value.get(key), dict))
        _report_dropped(registry, tree, chosen, options, {*flat}.union(*inner), place)
    return {"type": chosen, chosen: options}


def _report_dropped(
    registry: Registry, tree: dict, chosen: str, options: dict, named: Collection[str], place: Place
) -> None:
    """Tells what a layer that names another type drops of the options that were set for the type before.

    Args:
      options: of the type that is chosen.
      named: options that the layer gives. Where it gives some, those that only the type before has are not reported.
    """
    before = tree["type"]
    usual, unset = (_defaults(_options_class(registry, each, place)) for each in (before, chosen))
    lost = {name: value for name, value in tree[before].items() if value != usual.get(name) and name not in named}
    dropped = [
        f"{name} {value}" + (f" (now {options[name]})" if name in options else "")
        for name, value in lost.items()
        if (options[name] == unset.get(name) != value if name in options else not named)
    ]
    if dropped and not place.quiet:
        _log.warning(
            f"{place}: {chosen!r} begins with its own defaults. Set for {before!r}, and dropped: {', '.join(dropped)}. What is "
            "to stay must be given here, too"
        )


def build(cls: type, tree: dict, path: str = "") -> Any:
    """The dataclass of a complete, merged tree; of a base class's fields only, the others get their defaults."""
    hints, arguments = _hints(cls), {}
    for field in fields(cls):
        here = f"{path}.{field.name}" if path else field.name
        if field.name not in tree:
            if field.default is MISSING and field.default_factory is MISSING:
                raise UsageError(f"{here} is missing.")
            continue
        arguments[field.name] = _built_field(field, hints[field.name], tree, here)
    try:
        return cls(**arguments)
    except (ValueError, UsageError) as error:  # what the dataclass itself checks
        raise UsageError(f"{path}: {error}" if path else str(error)) from None


def _built_field(field: Field, hint: Any, tree: dict, path: str) -> Any:
    value, registry, section = tree[field.name], field.metadata.get("registry"), _section(hint)
    if registry and field.metadata.get("type_field"):
        return build(registry.config_class(tree[field.metadata["type_field"]]), value, path)
    if registry and value is not None:
        kind = value["type"]
        return Choice(kind, build(registry.config_class(kind), value[kind], f"{path}.{kind}"))
    if section and value is not None:
        return build(section, value, path)
    if item := _item_section(hint):
        return [build(item, each, f"{path}[{number}]") for number, each in enumerate(value)]
    if isinstance(value, list) and (typing.get_origin(hint) or hint) is tuple:
        return tuple(value)
    return value


def as_section(owner: Any, name: str, value: Any) -> Any:
    """What a field becomes when a dict or text is assigned to it: the section or the part that it describes, or a time's seconds.

    Args:
      owner: the section with the field.
      name: of the field. One that holds neither a section nor a part keeps the value as it is.

    Raises UsageError where the value does not fit.
    """
    cls: type = type(owner)
    field = getattr(cls, "__dataclass_fields__", {}).get(name)
    registry, type_field = (field.metadata.get(key) if field else None for key in ("registry", "type_field"))
    if field is not None and "parse" in field.metadata:
        return _merged_field(cls, field, {}, value, Place(cls.__name__, name))
    if field is None or (isinstance(value, str) and (not registry or type_field)):
        return value
    hint = _hints(cls)[name]
    if not registry and not (_item_section(hint) if isinstance(value, list) else _section(hint)):
        return value
    place, tree = Place(cls.__name__, name), _defaults(cls)
    if registry and type_field:
        tree[type_field] = getattr(owner, type_field)
        if not tree[type_field]:
            raise place.error(f"a dict takes {type_field} too: one of {', '.join(registry.names())}.")
    tree[name] = _merged_field(cls, field, tree, value, place)
    return _built_field(field, hint, tree, str(place))


def with_layers(config: ExperimentConfig, layers: list[tuple[str, dict]], quiet: bool = False) -> ExperimentConfig:
    """The experiment with layers over it, lowest first.

    Args:
      config: what the layers change.
      layers: (name for messages, tree) each. One that sets trainer.num_train_epochs or trainer.stages, and not
        trainer.train_steps, clears the steps that a layer below has set; one that names the source of a data section clears
        those of layers below.
      quiet: do not log fields without effect.
    """
    tree, epochs = to_tree(config), ""  # epochs: the layer that gave them
    for name, layer in layers:
        changes = garden.with_lifted(layer)
        tree = merged(ExperimentConfig, tree, changes, Place(name, quiet=quiet))
        trainer = changes.get("trainer") or {}
        if {"num_train_epochs", "stages"} & trainer.keys() and "train_steps" not in trainer:
            tree["trainer"]["train_steps"] = None
        if "num_train_epochs" in trainer:
            epochs = name
        for data in ("train_data", "validation_data"):
            section, given = (each.get(data) for each in (tree["task"], changes.get("task") or {}))
            if isinstance(section, dict) and isinstance(given, dict):
                tree["task"][data] = of_one_source(section, given)
    length = tree["trainer"]
    if epochs and length["train_steps"] is not None and not length["stages"] and not quiet:
        _log.info(
            f"trainer.train_steps {length['train_steps']} decides; trainer.num_train_epochs {length['num_train_epochs']} "
            f"({epochs}) is not used"
        )
    return build(ExperimentConfig, tree)


def of_one_source(section: dict, changes: dict) -> dict:
    """The tree of a data section over which `changes` were put, without the sources that they do not name, where they name one."""
    if not any(changes.get(source) for source in _SOURCES):
        return section
    return section | {each: "" for each in _SOURCES if each in section and not changes.get(each)}


def differences(before: dict, after: dict, path: str = "") -> list[str]:
    """'path: old -> new' of each leaf in which two trees differ."""
    lines = []
    for key in [*before, *(key for key in after if key not in before)]:
        old, new, here = before.get(key), after.get(key), f"{path}.{key}" if path else key
        if isinstance(old, dict) and isinstance(new, dict):
            lines += differences(old, new, here)
        elif old != new:
            lines.append(f"{here}: {as_written(old)} -> {as_written(new)}")
    return lines


@functools.cache
def _hints(cls: type) -> dict:
    return typing.get_type_hints(cls)


def _section(hint: Any) -> type | None:
    """The dataclass that a field holds, if it holds one (or null)."""
    of_several = typing.get_origin(hint) in (list, tuple, dict)
    for each in () if of_several else (hint, *typing.get_args(hint)):
        if isinstance(each, type) and is_dataclass(each) and each is not Choice:
            return each
    return None


def _item_section(hint: Any) -> type | None:
    """The dataclass of which a field holds a list, if it holds one."""
    return _section(typing.get_args(hint)[0]) if typing.get_origin(hint) is list else None


def _defaults(cls: type) -> dict:
    """The tree of a dataclass's default values; fields without one are absent."""
    values = {}
    for field in fields(cls):
        if field.default is not MISSING:
            values[field.name] = to_tree(field.default)
        elif field.default_factory is not MISSING:
            values[field.name] = to_tree(field.default_factory())
    return values


def _carried_over(before: type, tree: dict, after: type) -> dict:
    """The defaults of the section `after`, with what the tree of the section `before` sets, where both have the field."""
    result, unset = _defaults(after), _defaults(before)
    declared = {field.name: field for field in fields(before)}
    for field in fields(after):
        name = field.name
        if name not in declared or name not in tree or tree[name] == unset.get(name, MISSING):
            continue
        hints = _hints(before)[name], _hints(after)[name]
        old, new = map(_section, hints)
        if old and new and tree[name] is not None:
            result[name] = _carried_over(old, tree[name], new)
        elif hints[0] == hints[1] and declared[name].metadata.get("registry") is field.metadata.get("registry"):
            result[name] = tree[name]
    return result


def _below(tree: dict | None, cls: type) -> dict:
    return _defaults(cls) if tree is None else tree


def _own_type(registry: Registry, name: str, place: Place) -> str:
    """Our name of a type that the Model Garden may call otherwise; a name that is registered stays."""
    if name in registry:
        return name
    try:
        return garden.own_type(registry.kind, name)
    except UsageError as error:
        raise place.error(str(error)) from None


def _options_class(registry: Registry, name: str, place: Place) -> type:
    try:
        if place.stored:
            registry.check_stored(name)
        return registry.config_class(name)
    except UsageError as error:
        raise place.error(str(error)) from None


def _with_lines(part: dict, whole: dict) -> dict:
    result: Any = type(whole)(part)
    if hasattr(whole, "lines"):
        result.lines = whole.lines
    return result


def _names(cls: type) -> str:
    return ", ".join(field.name for field in fields(cls))
