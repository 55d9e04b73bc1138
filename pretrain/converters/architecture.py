"""The architecture of an encoder, from the shapes of its weights and the graph that is stored with them.

A TF-Hub module or a checkpoint of the TensorFlow Model Garden has no configuration next to it. Its weights show all sizes,
those of attention kernels (hidden, heads, size) also the number of heads; a graph shows the rest. What neither shows is taken as
the code that makes such files has it, and reported.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from nlpdata.errors import DataError, UsageError, opt
from nlpdata.files.json_kinds import as_written
from pretrain.converters.checkpoint import NoConfigurationError
from pretrain.converters.graph_facts import GraphFacts
from pretrain.encoders.model_config import means_the_same, published_shapes
from pretrain.encoders.published import published_forms
from pretrain.encoders.weight_names import WORD_EMBEDDINGS, Row
from pretrain.registry import ENCODERS
from pretrain.settings.fields import Choice

_NEEDED = (
    WORD_EMBEDDINGS,
    "/attention/query/kernel",
    "/feed_forward/intermediate/kernel",
    "encoder/embeddings/layer_norm/gamma",
)
_PLACEHOLDER = re.compile(r"\\\{(\w+)\\\}")
_AS_USUAL = {"hidden_act": "gelu_tanh", "layer_norm_eps": 1e-12}  # of google-research's code and the Model Garden's
_NOT_COMPUTED = ("hidden_dropout_prob", "attention_probs_dropout_prob", "initializer_range")  # by a trained encoder


@dataclass(frozen=True)
class Shown:
    """What weights and graph show of an encoder.

    Attributes:
      type: its name in the registry.
      options: name of an option -> its value.
      missing: options without which it cannot be built.
    """

    type: str
    options: dict[str, Any] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


def shown_by(
    shapes: Mapping[str, Sequence[int]], format: str, graph: GraphFacts | None, kind: str | None = None
) -> Shown | None:
    """What the weights of a checkpoint and its graph show; None where no registered encoder has such weights.

    Args:
      shapes: name in the checkpoint -> shape.
      format: key of PublishedForm.names, whose names they are.
      graph: of a SavedModel; None where there is none.
      kind: the encoder that a configuration names, which is asked first: another may have weights of the same names.
    """
    for name, form in sorted(published_forms().items(), key=lambda item: item[0] != kind):
        rows = form.names[format].rows if format in form.names else ()
        found = {row.ours: row for row in rows if _has_dimensions(row, shapes.get(_first(row.theirs)))}
        config_class: Any = ENCODERS.config_class(name)
        if (
            getattr(config_class, "split_over_heads", "") != "hidden_size"
        ):  # what its attention kernels show is another width
            continue
        if all(any(path.endswith(needed) for path in found) for needed in _NEEDED):
            options = _options(found, shapes, graph or GraphFacts())
            known = {each.name for each in fields(config_class)}
            missing = tuple(each for each in config_class.sizes if each not in options)
            return Shown(name, {each: value for each, value in options.items() if each in known}, missing)
    return None


def _has_dimensions(row: Row, shape: Sequence[int] | None) -> bool:
    """Whether an array of this shape, if it is there, is what a table takes it for: what is damaged is not read."""
    if shape is None:
        return False
    if row.ours.endswith("/attention/query/kernel"):
        return len(shape) == (3 if row.kind == "heads_out" else 2)
    return len(shape) == (2 if row.ours.endswith(("/kernel", "_embeddings")) else len(shape))


def _first(name: str) -> str:
    """A name of a table, of the first layer."""
    return re.sub(r"\{\w+\}", "0", name)


def _options(found: Mapping[str, Row], shapes: Mapping[str, Sequence[int]], graph: GraphFacts) -> dict[str, Any]:
    """The options that can be read; `found`: our path (with placeholders) -> row."""

    def shape(end: str) -> Sequence[int]:
        return next((shapes[_first(row.theirs)] for path, row in found.items() if path.endswith(end)), ())

    query = next(row for path, row in found.items() if path.endswith("/attention/query/kernel"))
    counts = _counts(query, shapes)
    options: dict[str, Any] = {}
    options["vocab_size"], options["embedding_size"] = shape(WORD_EMBEDDINGS)
    options["hidden_size"] = hidden = shapes[_first(query.theirs)][0]
    options["intermediate_size"] = shape("/feed_forward/intermediate/kernel")[-1]
    options["num_hidden_groups"], options["inner_group_num"] = counts.get("g", 1), counts.get("j", 1)
    for name, table in (
        ("max_position_embeddings", "position_embeddings"),
        ("type_vocab_size", "token_type_embeddings"),
    ):
        if rows := shape(f"embeddings/{table}"):
            options[name] = rows[0]
    layers = counts.get("i") or graph.attentions // options["inner_group_num"]
    if layers:
        options["num_hidden_layers"] = layers
    if query.kind == "heads_out":
        options["num_attention_heads"] = shapes[_first(query.theirs)][1]
    elif graph.attention_size and hidden % graph.attention_size == 0:
        options["num_attention_heads"] = hidden // graph.attention_size
    if shape("encoder/embedding_projection/kernel") and options["embedding_size"] == hidden:
        options["embedding_projection"] = True
    readable = ("hidden_act", "layer_norm_eps", "hidden_dropout_prob", "attention_probs_dropout_prob")
    return options | {name: value for name in readable if (value := getattr(graph, name)) is not None}


def _counts(row: Row, names: Mapping[str, Any]) -> dict[str, int]:
    """Placeholder of a row -> how many there are of it among the names."""
    pattern = re.compile(_PLACEHOLDER.sub(r"(?P<\1>[0-9]+)", re.escape(row.theirs)) + "$")
    numbers = [match.groupdict() for name in names if (match := pattern.match(name))]
    return {key: max(int(each[key]) for each in numbers) + 1 for key in (numbers[0] if numbers else {})}


def encoder_shown(shown: Shown, source: str) -> tuple[Choice, tuple[str, ...]]:
    """The encoder that weights and graph show, and notes on what they do not show. NoConfigurationError where that is too much."""
    if shown.missing:
        raise NoConfigurationError(_not_whole(shown, source))
    assumed = {name: value for name, value in _AS_USUAL.items() if name not in shown.options}
    encoder = Choice(shown.type, ENCODERS.config_class(shown.type)(**assumed | shown.options))
    others = {name: getattr(encoder.options, name) for name in _NOT_COMPUTED if name not in shown.options}
    by = "weights" if len(assumed) == len(_AS_USUAL) else "weights and graph"
    usual = ", ".join(f"{name} {value}" for name, value in (assumed | others).items())
    return encoder, (f"no configuration; its {by} show {_words(encoder)}", f"not shown, taken as usual: {usual}")


def _words(encoder: Choice) -> str:
    options = encoder.options
    return (
        f"{encoder.type}, hidden_size {options.hidden_size}, num_hidden_layers {options.num_hidden_layers}, "
        f"num_attention_heads {options.num_attention_heads}, hidden_act {options.hidden_act}, layer_norm_eps "
        f"{options.layer_norm_eps}"
    )


def _not_whole(shown: Shown, source: str) -> str:
    fitting = [name for name, encoder in published_shapes().items() if not _contradictions(shown, encoder)]
    hint = f" Of the published shapes these fit: {', '.join(fitting[:4])}." if fitting else ""
    sizes = ", ".join(
        f"{name} {shown.options[name]}" for name in ("hidden_size", "intermediate_size") if name in shown.options
    )
    return (
        f"{source}: holds no model configuration, and its weights ({shown.type}, {sizes}) do not show "
        f"{', '.join(shown.missing)}. Name the configuration with {opt('model_config')}: a file, or a name such as "
        f"bert_base_uncased.{hint}"
    )


def agreeing(shown: Shown, known: Choice, source: str, stored: bool = False) -> Choice:
    """A configuration of weights; its activation and epsilon are those of the graph, where that shows them.

    Args:
      known: the configuration.
      stored: it lies next to the weights; else the user has named it.

    DataError (stored) or UsageError where it contradicts what the weights show.
    """
    for name, there, here in _contradictions(shown, known):
        if stored:
            raise DataError(
                f"{source}: its weights show {name} {as_written(there)}, its configuration says {as_written(here)}. "
                "Is it the configuration of another model?"
            )
        raise UsageError(
            f"{source}: its weights show {name} {as_written(there)}, the configuration says {as_written(here)}. "
            f"Name the configuration of these weights with {opt('model_config')}."
        )
    own = {name: shown.options[name] for name in _AS_USUAL if name in shown.options}
    kept = {each.name: getattr(known.options, each.name) for each in fields(known.options)}
    if means_the_same(own.get("hidden_act"), kept["hidden_act"]):
        own.pop("hidden_act", None)
    return Choice(known.type, type(known.options)(**kept | own))


def _contradictions(shown: Shown, known: Choice) -> list[tuple[str, Any, Any]]:
    """(what, in the weights, in the configuration) of what differs in type, sizes or heads."""
    if known.type != shown.type:
        return [("an encoder of type", shown.type, known.type)] if ":" not in known.type else []
    skipped = (*_AS_USUAL, *_NOT_COMPUTED, "embedding_projection")
    pairs = [
        (name, value, getattr(known.options, name)) for name, value in shown.options.items() if name not in skipped
    ]
    return [(name, there, here) for name, there, here in pairs if there != here]
