"""Encoder configurations from published files: a name in model_configs/, Google's JSON, or a Hugging Face config.json.

    read_model_config("albert_base_v2")           a name of model_configs/
    read_model_config("uncased/bert_config.json") a file
    read_model_config("checkpoint/")              a folder with bert_config.json, albert_config.json or config.json

What a file says is read as what its author's code computes, e.g. "gelu": the tanh approximation in Google's code, the exact
function in transformers. The encoder's published form (pretrain.encoders.published) declares it.
"""

import logging
from collections.abc import Collection, Iterator
from dataclasses import fields
from importlib import resources
from pathlib import Path
from typing import Any

from nlpdata.errors import DataError, UsageError, closest
from nlpdata.files.json_files import parse_object
from pretrain.encoders.published import PublishedForm, google_config_files, published_forms
from pretrain.registry import ENCODERS
from pretrain.settings.schema import Choice

HUGGING_FACE_CONFIG = "config.json"
_HUGGING_FACE = {"model_type", "architectures", "transformers_version"}
# Fields of published files that no code of their authors (or none that concerns the encoder) reads.
_NO_EFFECT = {
    *("net_structure_type", "gap_size", "num_memory_blocks", "down_scale_factor", "layers_to_keep"),
    *("directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
    *("pooler_size_per_head", "pooler_type"),
}
# Hugging Face's fields about heads, tokens and files, not about the encoder.
_NO_EFFECT_HUGGING_FACE = _HUGGING_FACE | {
    *("_name_or_path", "add_cross_attention", "bos_token_id", "classifier_dropout", "classifier_dropout_prob", "dtype"),
    *("cls_token_id", "true_hidden_size", "eos_token_id", "finetuning_task", "gradient_checkpointing", "id2label"),
    *("label2id", "num_labels"),
    *("output_attentions", "output_hidden_states", "output_past", "pad_token_id", "problem_type", "return_dict"),
    *("sep_token_id", "tie_word_embeddings", "torch_dtype", "use_cache", "_num_labels"),
}
# Those of them that say what the heads of the weights next to them are.
_OF_HEADS = {"architectures", "id2label", "label2id", "model_type", "num_labels", "problem_type"}
# Fields whose other values would compute something else: the only value that any of these encoders has.
_FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "is_encoder_decoder": False, "pruned_heads": {}}
_REQUIRED = ("vocab_size", "hidden_size", "num_hidden_layers")

_log = logging.getLogger(__name__)


def config_files() -> list[str]:
    """What a configuration next to weights may be called."""
    return [*google_config_files(), HUGGING_FACE_CONFIG]


def model_config_names() -> list[str]:
    """The names of the published shapes that come with this package."""
    files = resources.files("model_configs").iterdir()
    return sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json"))


def read_model_config(name_or_path: str) -> Choice:
    """The encoder that a name, file or folder describes.

    Raises UsageError for an unknown name or key, DataError for a file that is not a JSON object.
    """
    if Path(name_or_path).is_dir():
        return read_folder_config(Path(name_or_path))
    source, raw = _read(str(name_or_path))
    return encoder_choice(parse_object(raw, source), source)


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
    values = {name: parse_object(_read_file(folder / name), str(folder / name)) for name in names}
    choices = {name: encoder_choice(values[name], str(folder / name)) for name in names}
    chosen, *others = names
    for other in others:
        for field, ours, theirs in _disagreements(choices[chosen], choices[other]):
            stated = [values[name].get(field) for name in (chosen, other)]
            if not own or field == "type" or (None not in stated and stated[0] != stated[1]):
                raise UsageError(
                    f"{folder}: {chosen} says {field} {ours!r}, {other} says {theirs!r}. Remove the file that is not this "
                    "model's, or name the right one with --model_config from another folder."
                )
    return choices[chosen]


def _disagreements(a: Choice, b: Choice) -> Iterator[tuple[str, Any, Any]]:
    if a.type != b.type:
        yield "type", a.type, b.type
        return
    for field in fields(a.options):
        ours, theirs = getattr(a.options, field.name), getattr(b.options, field.name)
        if ours != theirs and {ours, theirs} != {"gelu_new", "gelu_tanh"}:  # one function
            yield field.name, ours, theirs


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
    unused = _check_others(set(values) - known, values, source, hugging_face, known, _FIXED | dict(form.fixed))
    if unused:
        _log.info("%s: no effect here: %s", source, ", ".join(unused))
    published = form.hugging_face if hugging_face else form.google
    if published is not None:
        options = {name: value for name, value in published.defaults.items() if name in known} | options
        if isinstance(options.get("hidden_act"), str):
            options["hidden_act"] = published.activations.get(options["hidden_act"], options["hidden_act"])
    missing = [key for key in _REQUIRED if key in known and key not in options]
    if missing:
        raise UsageError(f"{source}: {', '.join(missing)} missing; is it the configuration of an encoder?")
    try:
        return Choice(kind, config_class(**options))
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None


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


def _check_others(
    keys: set[str], values: dict[str, Any], source: str, hugging_face: bool, known: set[str], fixed: dict[str, Any]
) -> list[str]:
    """Checks the keys that are not options; returns those that have no effect on anything."""
    ignored = _NO_EFFECT | (_NO_EFFECT_HUGGING_FACE if hugging_face else set())
    for key in sorted(keys):
        if key in fixed:
            if values[key] not in (fixed[key], None):
                raise UsageError(f"{source}: {key} {values[key]!r} is not supported, only {fixed[key]!r}.")
        elif key not in ignored:
            raise UsageError(
                f"{source}: unknown field {key!r}.{closest(key, known | ignored)} Fields of this encoder: "
                f"{', '.join(sorted(known))}."
            )
    return sorted(keys & ignored - _OF_HEADS)


def _read(name: str) -> tuple[str, bytes]:
    """Where the configuration is, and its content."""
    path = Path(name)
    if path.is_file():
        return str(path), _read_file(path)
    packaged = resources.files("model_configs") / f"{name}.json"
    if "/" not in name and packaged.is_file():
        return name, packaged.read_bytes()
    names = model_config_names()
    raise UsageError(
        f"no model configuration {name!r}: neither a file, a folder nor a name.{closest(name, names, 3)} Names: "
        f"{', '.join(names)}."
    )


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
