"""Encoder configurations from published files: a name in model_configs/, Google's JSON, or a Hugging Face config.json.

    read_model_config("albert_base_v2")           a name of model_configs/
    read_model_config("uncased/bert_config.json") a file
    read_model_config("checkpoint/")              a folder with bert_config.json, albert_config.json or config.json

What a file says is read as what its author's code computes, e.g. "gelu": the tanh approximation in Google's code, the exact
function in transformers. The encoder's published form (pretrain.encoders.published) declares it.
"""

import functools
import logging
from collections.abc import Collection, Iterator, Mapping, Set
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

from nlpdata.errors import UsageError, closest, opt
from nlpdata.files.disk import reading
from nlpdata.files.fetching import fetched
from nlpdata.files.json_files import parse_object, read_object
from nlpdata.files.paths import read_file
from nlpdata.files.unpacking import named_as_given, shown
from pretrain.encoders import hugging_face_config
from pretrain.encoders.published import PublishedForm, google_config_files, published_forms
from pretrain.registry import ENCODERS
from pretrain.settings.fields import Choice, check_stored_parts

HUGGING_FACE_CONFIG = "config.json"
_HUGGING_FACE = {"model_type", "architectures", "transformers_version"}
# Fields of published files that no code of their authors (or none that concerns the encoder) reads.
_NO_EFFECT = {
    *("net_structure_type", "gap_size", "num_memory_blocks", "down_scale_factor", "layers_to_keep"),
    *("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
    *("pooler_size_per_head", "pooler_type"),
}
# Hugging Face's that say what the heads of the weights next to them are.
_OF_HEADS = {"architectures", "id2label", "label2id", "model_type", "num_labels", "problem_type"}
_MISSPELT = 0.8  # how alike an unknown field and an option are where one is meant for the other
_REQUIRED = ("vocab_size", "hidden_size", "num_hidden_layers")

_log = logging.getLogger(__name__)


def config_files() -> list[str]:
    """What a configuration next to weights may be called."""
    return [*google_config_files(), HUGGING_FACE_CONFIG]


def model_config_names() -> list[str]:
    """The names of the published shapes that come with this package."""
    files = resources.files("model_configs").iterdir()
    return sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json"))


def published_shapes() -> dict[str, Choice]:
    """Name of a published shape -> its encoder."""
    shapes = {}
    for name in model_config_names():
        values = parse_object(_read(name)[1], name)
        shapes[name] = encoder_choice({key: values[key] for key in values.keys() - _NO_EFFECT}, name)
    return shapes


def read_model_config(name_or_path: str) -> Choice:
    """The encoder that a name, file or folder describes. A folder that describes none, such as a new model_dir, hides no name.

    Raises UsageError for an unknown name or key, DataError for a file that is not a JSON object.
    """
    place = fetched(name_or_path)
    with named_as_given():
        is_described = any((place / name).is_file() for name in config_files())
        if place.is_dir() and (is_described or name_or_path not in model_config_names()):
            return read_folder_config(place)
        source, raw = _read(str(place))
        return encoder_choice(parse_object(raw, source), shown(source))


def read_folder_config(folder: Path, own: Collection[str] = ()) -> Choice:
    """The encoder that the configuration files in a folder describe.

    Args:
      folder: their folder.
      own: the files that decide where several are there and state the same numbers; their author's conventions count.

    UsageError where there is none, or where two contradict each other.
    """
    names = sorted((name for name in config_files() if (folder / name).is_file()), key=lambda name: name not in own)
    if not names:
        raise UsageError(
            f"{folder}: no model configuration in this folder. Expected one of {', '.join(config_files())}."
        )
    values = {name: read_object(folder / name) for name in names}
    choices = {name: encoder_choice(values[name], str(folder / name)) for name in names}
    chosen, *others = names
    for other in others:
        for field, ours, theirs in _disagreements(choices[chosen], choices[other]):
            stated = [values[name].get(field) for name in (chosen, other)]
            if not own or field == "type" or (None not in stated and stated[0] != stated[1]):
                raise UsageError(
                    f"{folder}: {chosen} says {field} {ours!r}, {other} says {theirs!r}. Remove the file that is not this "
                    f"model's, or name the right one with {opt('model_config')} from another folder."
                )
    return choices[chosen]


def _disagreements(a: Choice, b: Choice) -> Iterator[tuple[str, Any, Any]]:
    if a.type != b.type:
        yield "type", a.type, b.type
        return
    for field in fields(a.options):
        ours, theirs = getattr(a.options, field.name), getattr(b.options, field.name)
        if not means_the_same(ours, theirs):
            yield field.name, ours, theirs


def means_the_same(a: Any, b: Any) -> bool:
    """Whether two values of an option of encoders make the same model: gelu_new and gelu_tanh are one function."""
    return a == b or (a, b) in (("gelu_new", "gelu_tanh"), ("gelu_tanh", "gelu_new"))


def encoder_choice(values: dict[str, Any], source: str) -> Choice:
    """The encoder that the fields of a published file describe.

    Args:
      values: the file's fields.
      source: its name in messages.

    UsageError where no registered encoder has such fields.
    """
    hugging_face = not _HUGGING_FACE.isdisjoint(values)
    kind, form = _family(values, values.get("model_type") if hugging_face else None, source)
    config_class = ENCODERS.config_class(kind)
    known = {field.name for field in fields(config_class)}
    options = {key: value for key, value in values.items() if key in known}
    others = {key: value for key, value in values.items() if key not in known}
    fixed = hugging_face_config.fixed_fields(values) | dict(form.fixed)
    _refuse_other_values(others, fixed, source)
    _report_others(others.keys() - fixed.keys(), known, known - values.keys(), source, hugging_face)
    published = form.hugging_face if hugging_face else form.google
    if published is not None:
        options = {name: value for name, value in published.defaults.items() if name in known} | options
        if isinstance(options.get("hidden_act"), str):
            options["hidden_act"] = published.activations.get(options["hidden_act"], options["hidden_act"])
    missing = [key for key in _REQUIRED if key in known and key not in options]
    if missing:
        raise UsageError(f"{source}: {', '.join(missing)} missing; is it the configuration of an encoder?")
    try:
        encoder = Choice(kind, config_class(**options))
        check_stored_parts(encoder.options)
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None
    return encoder


def _family(values: dict[str, Any], model_type: object, source: str) -> tuple[str, PublishedForm]:
    """The encoder of a model type; without a type, the encoder whose telling fields are there.

    What was registered later is asked first, because it may extend what was there before: a user's own before the built-in
    ones, ALBERT's relatives before ALBERT. BERT, the first, has no fields of its own: a file that no other family claims is BERT's.
    """
    forms = published_forms()
    if model_type is not None:
        found = [name for name, form in forms.items() if form.model_type == model_type]
    else:
        found = [name for name, form in forms.items() if not form.telling.isdisjoint(values)] or list(forms)[:1]
    if not found:
        supported = ", ".join(sorted(form.model_type for form in forms.values()))
        raise UsageError(
            f"{source}: model_type {model_type!r} is not supported. Supported: {supported}. A module "
            "of yours that registers it is named by --import_module (in Python: import_modules=[...])."
        )
    return found[-1], forms[found[-1]]


def _refuse_other_values(others: Mapping[str, Any], fixed: Mapping[str, Any], source: str) -> None:
    """UsageError for a field with another value than the only one that our encoders compute. None, {} and false are alike."""
    for key in sorted(others.keys() & fixed.keys()):
        if others[key] != fixed[key] and (others[key] or fixed[key]) and others[key] is not None:
            raise UsageError(
                f"{source}: {key} {others[key]!r} is not supported, only {fixed[key]!r}: our encoders do not compute it."
            )


def _report_others(others: Set[str], known: Set[str], absent: Set[str], source: str, hugging_face: bool) -> None:
    """Reports the fields that are neither options nor fixed.

    Args:
      others: these fields.
      known: the options.
      absent: options that the file does not state: an unknown field may be one of them, misspelt.
      source: the file.
      hugging_face: transformers reads none but its own fields either; Google's files have no others.

    UsageError for an unknown one in a file of Google's form, which people write by hand.
    """
    unknown = sorted(others - _NO_EFFECT - (hugging_face_config.NO_EFFECT if hugging_face else set()))
    if not hugging_face and unknown:
        raise UsageError(
            f"{source}: unknown field {unknown[0]!r}.{closest(unknown[0], known | _NO_EFFECT)} Fields of this encoder: "
            f"{', '.join(sorted(known))}."
        )
    if unknown:
        meant = "".join(f" {key}:{hint}" for key in unknown if (hint := closest(key, absent, cutoff=_MISSPELT)))
        _report_once(f"{source}: unknown fields, not read: {', '.join(unknown)}.{meant}")
    elif unused := sorted(others & _NO_EFFECT):
        _report_once(f"{source}: no effect here: {', '.join(unused)}")


@functools.cache
def _report_once(text: str) -> None:
    """Logs a line that each reading of a file would repeat."""
    _log.info(shown(text))


def _read(name: str) -> tuple[str, bytes]:
    """Where the configuration is, and its content."""
    path = Path(name)
    if path.is_file():
        with reading(path):
            return str(path), read_file(path)
    packaged = resources.files("model_configs") / f"{name}.json"
    if "/" not in name and packaged.is_file():
        return name, packaged.read_bytes()
    names = model_config_names()
    raise UsageError(
        f"no model configuration {name!r}: neither a file, a folder nor a name.{closest(name, names, 3)} Names: "
        f"{', '.join(names)}."
    )
