"""The published form of an encoder family: what its files are called, say and mean. Converters ask for nothing else.

A family declares it in the dataclass of its options, so that a configuration is read without Keras:

    @dataclass(frozen=True, kw_only=True)
    class MyConfig(BertConfig):
        scale: float = 0.5
        published: ClassVar[PublishedForm] = PublishedForm(model_type="my_model", telling=frozenset({"scale"}), ...)

A subclass does not inherit it: what computes something else is not published under the same names.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from pretrain.encoders.weight_names import WeightNames
from pretrain.registry import ENCODERS
from pretrain.settings.fields import Choice

Fields = Mapping[str, Any]
Weights = Mapping[str, np.ndarray]
# transformers' further names of functions that we have.
_TORCH_ACTIVATIONS = {
    **{"gelu_accurate": "gelu_new", "gelu_fast": "gelu_new", "gelu_pytorch_tanh": "gelu_new"},
    "gelu_python": "gelu",
}


def _unchanged(first: Any, *_: Any) -> Any:
    return first


def _nothing(_: Any) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class GoogleForm:
    """A family in google-research's files: a TensorFlow 1 checkpoint and a JSON configuration.

    Attributes:
      checkpoint: name of the checkpoint, e.g. "bert_model.ckpt".
      config_file: name of the configuration, e.g. "bert_config.json".
      defaults: fields that a configuration may leave out -> what their code takes instead.
      activations: hidden_act in the configuration -> ours, where the two differ.
      written_activations: our hidden_act -> theirs. Their code has no other.
      to_config: fields of our options -> fields of the configuration.
      lacks: options -> what their code lacks for them, in words; "" where it has all.
    """

    checkpoint: str
    config_file: str
    defaults: Fields = field(default_factory=lambda: {"hidden_act": "gelu"})
    activations: Fields = field(default_factory=lambda: {"gelu": "gelu_tanh"})
    written_activations: Fields = field(
        default_factory=lambda: {"gelu_tanh": "gelu", "gelu_new": "gelu", "relu": "relu"}
    )
    to_config: Callable[[dict[str, Any]], dict[str, Any]] = _unchanged
    lacks: Callable[[Any], str] = _nothing


@dataclass(frozen=True, kw_only=True)
class HuggingFaceForm:
    """A family in transformers' folders.

    Attributes:
      classes: what the names of its classes start with, e.g. "Bert".
      prefix: the first word of its encoder's weights, which a bare model leaves out, e.g. "bert".
      defaults: fields that config.json may leave out -> what their code takes instead.
      activations: hidden_act in config.json -> ours, where the two differ.
      written_activations: our hidden_act -> theirs. Their code has no other.
      absent_classes: ends of names of classes that the other families have, e.g. "ForNextSentencePrediction".
      to_config: fields of our options -> fields of config.json.
      completed: (weights, options) -> the weights with those that their model has and ours may lack.
      refusal: options -> why their code cannot compute such a model, in words; "" where it can.
    """

    classes: str
    prefix: str
    defaults: Fields = field(default_factory=dict)
    activations: Fields = field(default_factory=lambda: dict(_TORCH_ACTIVATIONS))
    written_activations: Fields = field(
        default_factory=lambda: {"gelu": "gelu", "gelu_new": "gelu_new", "gelu_tanh": "gelu_new", "relu": "relu"}
    )
    absent_classes: frozenset[str] = frozenset()
    to_config: Callable[[dict[str, Any]], dict[str, Any]] = _unchanged
    completed: Callable[[Weights, Any], Weights] = _unchanged
    refusal: Callable[[Any], str] = _nothing


@dataclass(frozen=True, kw_only=True)
class PublishedForm:
    """How the models of a family are published.

    Attributes:
      model_type: its name in a Hugging Face config.json.
      telling: fields that tell the family where a configuration does not name it.
      fixed: fields of configurations that are not options -> the only value that this encoder computes.
      without: options that the files have no place for -> the only value with which a model can be published.
      counts: options -> placeholder of the tables -> how many layers it stands for, e.g. {"i": 12}.
      names: format ("tf1", "tf2", "hf", "h5", or one of yours) -> what it calls the weights.
      google: its files of google-research; None where there are none.
      hugging_face: its folders of transformers; None where there are none.
    """

    model_type: str
    telling: frozenset[str] = frozenset()
    fixed: Fields = field(default_factory=dict)
    without: Fields = field(default_factory=lambda: {"attention": "standard", "feed_forward": "standard"})
    counts: Callable[[Any], dict[str, int]] = lambda options: {"i": options.num_hidden_layers}
    names: Mapping[str, WeightNames] = field(default_factory=dict)
    google: GoogleForm | None = None
    hugging_face: HuggingFaceForm | None = None


def unpublished(encoder: Choice) -> list[str]:
    """What an encoder has and no model of its form: "attention 'talking_heads'"; [] where it declares no form."""
    form = published_form(encoder.type)
    only = form.without if form else {}
    values = {name: getattr(encoder.options, name, value) for name, value in only.items()}
    return [f"{name} {value!r}" for name, value in values.items() if value != only[name]]


def published_fields(encoder: Choice) -> dict[str, Any]:
    """The options that the configuration of a published encoder has a place for."""
    form = published_form(encoder.type)
    return {name: value for name, value in asdict(encoder.options).items() if form is None or name not in form.without}


def published_form(kind: str) -> PublishedForm | None:
    """The form that an encoder's options declare; None where they declare none.

    Args:
      kind: name in the registry of encoders, or module:attribute.
    """
    return vars(ENCODERS.config_class(kind)).get("published")


def published_forms() -> dict[str, PublishedForm]:
    """Registered encoder -> its form, in the order of their registration, without those that declare none."""
    forms = {name: published_form(name) for name in ENCODERS}
    return {name: form for name, form in forms.items() if form is not None}


def google_config_files() -> list[str]:
    """What the families call their configurations of google-research."""
    return list(dict.fromkeys(form.google.config_file for form in published_forms().values() if form.google))
