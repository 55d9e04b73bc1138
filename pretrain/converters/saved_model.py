"""SavedModels to serve: signatures over token ids and over text. hub_module.py writes those for training elsewhere.

Both answer in a process without this package. Their variables carry our paths, so that we read them back; the encoder's
configuration is in assets.extra.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from nlpdata.files.json_files import read_object
from nlpdata.tokenizers import Tokenizer
from pretrain.converters import in_tensorflow
from pretrain.converters.checkpoint import Checkpoint, Head, encoder_fields, stored_encoder
from pretrain.converters.facts import FACTS
from pretrain.converters.format import CheckpointFormat
from pretrain.converters.heads import CHOICE
from pretrain.converters.load import has_pooled_output, load_model
from pretrain.converters.usage import CHOICES, QUESTION, TEXT, example_ids, head_for
from pretrain.encoders.model import EncoderModel
from pretrain.settings.fields import Choice

ROOT = "model/"  # before our paths in the names of variables
_CONFIG = Path("assets.extra") / "encoder.json"
INPUTS = ("input_ids", "input_mask", "segment_ids")
_NO_TEXT = "no signature that takes text"


class SavedModelFormat(CheckpointFormat):
    """A SavedModel to serve. Reading one is TensorFlowFormat's part."""

    writes = "to serve, see below"
    library = "tensorflow"
    written_with = "tensorflow"
    any_encoder = True
    holds = FACTS

    def write(self, folder: Path, checkpoint: Checkpoint) -> list[str]:
        if keras.backend.backend() != "tensorflow":
            return in_tensorflow.write("savedmodel", folder, checkpoint)
        return _write_served(folder, checkpoint)

    def usage(self, folder: Path, checkpoint: Checkpoint, notes: Sequence[str]) -> str:
        """By a signature of text where there is one."""
        lines = ["import tensorflow as tf", "", 'model = tf.saved_model.load(".")']
        if any(note.startswith(_NO_TEXT) for note in notes):
            lines.append(f"ids = tf.constant([{example_ids(checkpoint)}])")
            given = ", ".join(("input_ids=ids", "input_mask=tf.ones_like(ids)", "segment_ids=tf.zeros_like(ids)"))
            lines.append(f'outputs = model.signatures["serving_default"]({given})')
        elif head_for(checkpoint) == "span":
            question, context = QUESTION
            lines.append(f'question, context = tf.constant(["{question}"]), tf.constant(["{context}"])')
            lines.append('outputs = model.signatures["text_pair"](text=question, text_pair=context)')
        elif head_for(checkpoint) == CHOICE:
            context, question, choices = CHOICES
            texts = ", ".join(f'"{question} {choice}"' for choice in choices)
            lines.append(f'context, choices = tf.constant(["{context}"] * {len(choices)}), tf.constant([{texts}])')
            lines.append('outputs = model.signatures["text_pair"](text=context, text_pair=choices)')
        else:
            lines.append(f'outputs = model.signatures["text"](text=tf.constant(["{TEXT}"]))')
        name = "prediction" if checkpoint.head and checkpoint.head.kind != "multilabel" else "probabilities"
        of_span = "logits" if "span/logits/kernel" in checkpoint.weights else "start_top_index"
        logits = {"span": of_span, CHOICE: "logits"}.get(head_for(checkpoint), "sequence_output")
        name = name if checkpoint.head else logits
        return "\n".join([*lines, f'print(outputs["{name}"].numpy())'])


def _write_served(folder: Path, checkpoint: Checkpoint) -> list[str]:
    """Writes a SavedModel whose signature `serving_default` takes int32 (batch, length) and returns all outputs by name.

    Inputs: input_ids, input_mask, segment_ids. A model with a masked LM head has a second signature, `masked_lm`, with
    masked_lm_positions (batch, predictions), and leaves the scores of all positions out of the first. A classifier adds what
    `_judged` says. With a tokenizer, `text` takes strings (batch,), cut to the length of the training's examples, and
    `text_pair` has a second input of that name; both return the ids too.

    Returns notes for the user: why there are no signatures of text.
    """
    import tensorflow as tf

    from pretrain.serving.text_graph import build_graph

    model = load_model(checkpoint)
    heads = [name for name in model.heads if name != "masked_lm"]
    signatures = {"serving_default": _signature(model, heads, checkpoint)}
    if "masked_lm" in model.heads:
        signatures["masked_lm"] = _masked_signature(signatures["serving_default"], model)
    module, notes = tf.Module(), []
    module.model = model
    if checkpoint.tokenizer is None:
        notes = [f"{_NO_TEXT}: no tokenizer"]
    else:
        module.tokenizer, reason = build_graph(checkpoint.tokenizer)
        notes = [f"{_NO_TEXT}: {reason}"] if reason else []
        if not reason:
            signatures |= _text_signatures(
                signatures["serving_default"], module.tokenizer, checkpoint.tokenizer, checkpoint.sequence_length
            )
    save_model(module, folder, checkpoint, signatures)
    return notes


def _signature(model: EncoderModel, heads: list[str], checkpoint: Checkpoint) -> Any:
    """The signature `serving_default`."""
    import tensorflow as tf

    pooled = has_pooled_output(checkpoint)

    def call(**inputs: Any) -> dict[str, Any]:
        outputs = _judged(model(inputs, heads=heads), checkpoint.head)
        return {name: value for name, value in outputs.items() if pooled or name != "pooled_output"}

    return tf.function(call, autograph=False).get_concrete_function(**_specs(INPUTS))


def _masked_signature(of_ids: Any, model: EncoderModel) -> Any:
    """The signature `masked_lm`; of_ids: the signature `serving_default`, which it calls."""
    import tensorflow as tf

    def call(masked_lm_positions: Any, **inputs: Any) -> dict[str, Any]:
        outputs = of_ids(**inputs)
        return outputs | model.apply_heads(outputs, {"masked_lm_positions": masked_lm_positions}, ["masked_lm"])

    specs = _specs((*INPUTS, "masked_lm_positions"))
    return tf.function(call, autograph=False).get_concrete_function(**specs)


def _specs(names: Sequence[str]) -> dict[str, Any]:
    import tensorflow as tf

    return {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in names}


def _judged(outputs: dict, head: Head | None) -> dict:
    """Adds the meaning of a classifier's logits (batch, classes), as pretrain predict writes it.

    probabilities float32 (batch, classes), of a classification (softmax) and of several labels (sigmoid); prediction: of a
    classification string (batch,), the name of the class, of a regression float32 (batch,), the number.
    """
    import tensorflow as tf

    if head is None:
        return outputs
    logits = outputs["logits"]
    if head.kind == "regression":
        return outputs | {"prediction": logits[:, 0]}
    if head.kind == "multilabel":
        return outputs | {"probabilities": tf.sigmoid(logits)}
    prediction = tf.gather(tf.constant(head.names), tf.argmax(logits, axis=1))
    return outputs | {"probabilities": tf.nn.softmax(logits), "prediction": prediction}


def _text_signatures(of_ids: Any, graph: Any, tokenizer: Tokenizer, longest: int) -> dict[str, Any]:
    """The signatures `text` and `text_pair`.

    Args:
      of_ids: the signature that takes ids.
      graph: the tokenizer as a graph.
      tokenizer: the same, for its special ids.
      longest: length of the longest row, in tokens.
    """
    import tensorflow as tf

    from pretrain.serving.text_graph import encoder_inputs

    def call(**texts: Any) -> dict[str, Any]:
        tokens = [graph(texts[name]) for name in ("text", "text_pair") if name in texts]
        inputs = encoder_inputs(tokenizer, longest, *tokens)
        return {name: inputs[name] for name in ("input_ids", "input_mask")} | of_ids(**inputs)

    specs = {name: tf.TensorSpec([None], tf.string, name=name) for name in ("text", "text_pair")}
    traced = tf.function(call, autograph=False)
    return {
        "text": traced.get_concrete_function(text=specs["text"]),
        "text_pair": traced.get_concrete_function(**specs),
    }


def save_model(module: Any, folder: Path, checkpoint: Checkpoint, signatures: dict[str, Any]) -> None:
    """Writes a SavedModel, and next to it the description with which we read it back."""
    import tensorflow as tf

    tf.saved_model.save(module, str(folder), signatures=signatures)
    (folder / _CONFIG).parent.mkdir(exist_ok=True)
    described = encoder_fields(checkpoint.known_encoder) | {"extras": checkpoint.extras}
    (folder / _CONFIG).write_text(json.dumps(described, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def read_description(folder: Path) -> tuple[Choice, dict] | None:
    """The encoder and the extras of a SavedModel that we wrote; None for any other."""
    path = folder / _CONFIG
    if not path.is_file():
        return None
    described = read_object(path)
    return stored_encoder(described, str(path)), described.get("extras", {})
