"""Encoder configurations from published files: a name in model_configs/, Google's JSON, or a Hugging Face config.json.

    read_model_config("albert_base_v2")           a name of model_configs/
    read_model_config("uncased/bert_config.json") a file
    read_model_config("checkpoint/")              a folder with bert_config.json, albert_config.json or config.json

Google's files say "gelu" for the tanh approximation that Google's code computes; Hugging Face's say "gelu" for the exact
one and "gelu_new" for the approximation. Both are read as what their authors' code computes.
"""

import logging
from dataclasses import fields
from difflib import get_close_matches
from importlib import resources
from pathlib import Path

from nlpdata.errors import DataError, UsageError
from nlpdata.files.json_files import parse_object
from pretrain.registry import ENCODERS
from pretrain.settings.schema import Choice

CONFIG_FILES = ("bert_config.json", "albert_config.json", "config.json")
# Fields that tell an encoder where the file does not name it.
_ONLY = {
    "mobilebert": {"intra_bottleneck_size", "trigram_input"},
    "albert": {"embedding_size", "num_hidden_groups", "inner_group_num"},
}
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
    *(
        "cls_token_id",
        "true_hidden_size",
        "eos_token_id",
        "finetuning_task",
        "gradient_checkpointing",
        "id2label",
        "label2id",
        "num_labels",
    ),
    *("output_attentions", "output_hidden_states", "output_past", "pad_token_id", "problem_type", "return_dict"),
    *("sep_token_id", "tie_word_embeddings", "torch_dtype", "use_cache", "_num_labels"),
}
# Those of them that say what the heads of the weights next to them are.
_OF_HEADS = {"architectures", "id2label", "label2id", "model_type", "num_labels", "problem_type"}
# Fields whose other values would compute something else: the only value that these encoders have.
_FIXED = {"position_embedding_type": "absolute", "is_decoder": False, "is_encoder_decoder": False, "pruned_heads": {}}
_FIXED |= {"trigram_input": True, "use_bottleneck": True, "normalization_type": "no_norm"}  # of MobileBERT

_log = logging.getLogger(__name__)


def model_config_names() -> list[str]:
    """The names of the published shapes that come with this package."""
    files = resources.files("model_configs").iterdir()
    return sorted(file.name.removesuffix(".json") for file in files if file.name.endswith(".json"))


def read_model_config(name_or_path: str) -> Choice:
    """The encoder that a name, file or folder describes.

    Raises UsageError for an unknown name or key, DataError for a file that is no JSON object.
    """
    if Path(name_or_path).is_dir():
        return read_folder_config(Path(name_or_path))
    source, raw = _read(str(name_or_path))
    return encoder_choice(parse_object(raw, source), source)


def read_folder_config(folder: Path, first: str = "") -> Choice:
    """The encoder that the configuration files in a folder describe.

    Args:
      first: the file that decides where several are there and state the same numbers; its author's conventions count.

    UsageError where there is none, or where two say different things of one encoder.
    """
    names = sorted((name for name in CONFIG_FILES if (folder / name).is_file()), key=lambda name: name != first)
    if not names:
        raise UsageError(f"{folder}: no model configuration in this folder. Expected one of {', '.join(CONFIG_FILES)}.")
    values = {name: parse_object(_read_file(folder / name), str(folder / name)) for name in names}
    choices = {name: encoder_choice(values[name], str(folder / name)) for name in names}
    chosen, *others = names
    for other in others:
        for field, ours, theirs in _disagreements(choices[chosen], choices[other]):
            stated = [values[name].get(field) for name in (chosen, other)]
            if not first or field == "type" or (None not in stated and stated[0] != stated[1]):
                raise UsageError(
                    f"{folder}: {chosen} says {field} {ours!r}, {other} says {theirs!r}. Remove the file that is not this "
                    "model's, or name the right one with --model_config from another folder."
                )
    return choices[chosen]


def _disagreements(a: Choice, b: Choice):
    if a.type != b.type:
        yield "type", a.type, b.type
        return
    for field in fields(a.options):
        ours, theirs = getattr(a.options, field.name), getattr(b.options, field.name)
        if ours != theirs and {ours, theirs} != {"gelu_new", "gelu_tanh"}:  # one function
            yield field.name, ours, theirs


def encoder_choice(values: dict, source: str) -> Choice:
    """The encoder that the fields of a published file describe; `source` is its name in messages."""
    hugging_face = not _HUGGING_FACE.isdisjoint(values)
    kind = values.get("model_type") if hugging_face else None
    if kind is None:
        kind = next((name for name, keys in _ONLY.items() if not keys.isdisjoint(values)), "bert")
    if kind not in ("albert", "bert", "mobilebert"):
        raise UsageError(f"{source}: model_type {kind!r} is not supported. Supported: albert, bert, mobilebert.")
    config_class = ENCODERS.config_class(kind)
    known = {field.name for field in fields(config_class)}
    options = {key: value for key, value in values.items() if key in known}
    unused = _check_others(set(values) - known, values, source, hugging_face, known)
    if unused:
        _log.info("%s: no effect here: %s", source, ", ".join(unused))
    if hugging_face:
        options.setdefault("hidden_act", {"bert": "gelu", "albert": "gelu_new", "mobilebert": "relu"}[kind])
        if kind == "mobilebert":
            options.setdefault("classifier_activation", True)
        if kind == "albert":
            options.setdefault("embedding_projection", True)
    elif options.get("hidden_act", "gelu") == "gelu":
        options["hidden_act"] = "gelu_tanh"
    missing = [key for key in ("vocab_size", "hidden_size", "num_hidden_layers") if key not in options]
    if missing:
        raise UsageError(f"{source}: {', '.join(missing)} missing; is it the configuration of an encoder?")
    try:
        return Choice(kind, config_class(**options))
    except UsageError as error:
        raise UsageError(f"{source}: {error}") from None


def _check_others(keys, values, source, hugging_face, known) -> list[str]:
    """Checks the keys that are not options; returns those that have no effect on anything."""
    ignored = _NO_EFFECT | (_NO_EFFECT_HUGGING_FACE if hugging_face else set())
    for key in sorted(keys):
        if key in _FIXED:
            if values[key] not in (_FIXED[key], None):
                raise UsageError(f"{source}: {key} {values[key]!r} is not supported, only {_FIXED[key]!r}.")
        elif key not in ignored:
            close = get_close_matches(key, known | ignored, 1)
            raise UsageError(
                f"{source}: unknown field {key!r}."
                + (f" Closest: {close[0]}." if close else "")
                + f" Fields of this encoder: {', '.join(sorted(known))}."
            )
    return sorted(keys & ignored - _OF_HEADS)


def _read(name: str) -> tuple[str, bytes]:
    """Where the configuration stands, and its content."""
    path = Path(name)
    if path.is_file():
        return str(path), _read_file(path)
    packaged = resources.files("model_configs") / f"{name}.json"
    if "/" not in name and packaged.is_file():
        return name, packaged.read_bytes()
    names = model_config_names()
    close = get_close_matches(name, names, 3, 0.5)
    raise UsageError(
        f"no model configuration {name!r}: neither a file, a folder nor a name."
        + (f" Closest: {', '.join(close)}." if close else "")
        + f" Names: {', '.join(names)}."
    )


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from None
