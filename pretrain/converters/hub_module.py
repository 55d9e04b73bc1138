"""Encoders as TF-Hub's TF2 modules are: SavedModels to call and to train, with what readers of the Model Garden's expect.

encoder = hub.KerasLayer("out/hub", trainable=True)         encoder = tf.saved_model.load("out/hub")
outputs = encoder({"input_word_ids": ids, "input_mask": mask, "input_type_ids": segments})
pooled_output, sequence_output = encoder([ids, mask, segments])                 the form of the first modules
encoder.vocab_file, encoder.do_lower_case                                      (sp_model_file: of SentencePiece)
preprocess = hub.KerasLayer("out/hub/preprocess");  encoder(preprocess(["some text"]))
"""

import inspect
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from nlpdata.errors import UsageError, opt
from nlpdata.tokenizers.sentencepiece import SentencePieceTokenizer
from pretrain.converters import in_tensorflow
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.facts import FACTS
from pretrain.converters.format import CheckpointFormat
from pretrain.converters.load import has_pooled_output, load_model
from pretrain.converters.saved_model import INPUTS, save_model
from pretrain.converters.usage import TEXT, example_ids
from pretrain.encoders.model import EncoderModel
from pretrain.layers.dropout import dropout_scope

PREPROCESS = "preprocess"
"""Folder of the module that makes inputs of texts, in the folder of the encoder."""
HUB_INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
_POSITIONS = "masked_lm_positions"


class HubFormat(CheckpointFormat):
    """An encoder for hub.KerasLayer. Reading one is TensorFlowFormat's part."""

    writes = "an encoder as TF-Hub's, for `hub.KerasLayer`, with a module that makes its inputs of texts, see below"
    written_with = "tensorflow"
    any_encoder = True
    library = "tensorflow"
    holds = FACTS

    def write(self, folder: Path, checkpoint: Checkpoint) -> list[str]:
        if not has_pooled_output(checkpoint):
            raise UsageError(
                f"{checkpoint.source}: has no pooler, and a module for hub.KerasLayer promises pooled_output. Use "
                f"{opt('format', 'savedmodel')}."
            )
        if keras.backend.backend() != "tensorflow":
            return in_tensorflow.write("hub", folder, checkpoint)
        return _write(folder, checkpoint)

    def usage(self, folder: Path, checkpoint: Checkpoint, notes: Sequence[str]) -> str:
        """With the module that makes inputs of texts, where there is one. hub.KerasLayer loads both in the same way."""
        lines = [
            "import tensorflow as tf",
            "",
            'encoder = tf.saved_model.load(".")  # or hub.KerasLayer(".", trainable=True)',
        ]
        if (folder / PREPROCESS).is_dir():
            lines.append(f'preprocess = tf.saved_model.load("{PREPROCESS}")')
            lines.append(f'outputs = encoder(preprocess(tf.constant(["{TEXT}"])))')
        else:
            lines.append(f"ids = tf.constant([{example_ids(checkpoint)}])")
            given = '"input_word_ids": ids, "input_mask": tf.ones_like(ids), "input_type_ids": tf.zeros_like(ids)'
            lines.append(f"outputs = encoder({{{given}}})")
        return "\n".join([*lines, 'print(outputs["pooled_output"].shape)'])


def _write(folder: Path, checkpoint: Checkpoint) -> list[str]:
    """Writes the encoder and, where its tokenizer can be a graph, the module for its inputs. Returns notes for the user.

    The encoder takes a dict of input_word_ids, input_mask, input_type_ids, int32 (batch, length), and returns pooled_output,
    sequence_output, pooled_output again as default, encoder_outputs (a list, one of each layer) and the outputs of the heads
    (logits, sentence_logits); with training=True after dropout, drawn anew each time. Of a list of the three it returns the list
    [pooled_output, sequence_output]. `mlm` takes masked_lm_positions too and adds mlm_logits. `serving_default` is the signature.
    """
    import tensorflow as tf

    model = load_model(checkpoint)
    of_ids = {training: _traced(model, training) for training in (False, True)}
    specs = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in HUB_INPUTS}
    module = tf.train.Checkpoint(model=model)
    module.variables = [weight.value for weight in model.weights]
    module.trainable_variables = module.variables
    module.regularization_losses = []
    module.__call__ = tf.function(lambda inputs, training=False: _called(of_ids[training], inputs), autograph=False)
    if "masked_lm" in model.heads:
        module.mlm = tf.function(
            lambda inputs, training=False: _masked(model, of_ids[training], inputs, training), autograph=False
        )
    positions = {_POSITIONS: tf.TensorSpec([None, None], tf.int32, name=_POSITIONS)}
    for training in (False, True):
        module.__call__.get_concrete_function(specs, training=training)
        module.__call__.get_concrete_function(list(specs.values()), training=training)
        if "masked_lm" in model.heads:
            module.mlm.get_concrete_function(specs | positions, training=training)

    def serve(**inputs: Any) -> dict[str, Any]:
        return {name: value for name, value in of_ids[False](**inputs).items() if name != "encoder_outputs"}

    signatures = {"serving_default": tf.function(serve, autograph=False).get_concrete_function(**specs)}
    with tempfile.TemporaryDirectory(prefix="nlpdata-assets-") as assets:
        _keep_tokenizer(module, checkpoint, Path(assets))
        save_model(module, folder, checkpoint, signatures)
    return _write_preprocessing(folder / PREPROCESS, checkpoint)


def _traced(model: EncoderModel, training: bool) -> Any:
    """The concrete function of the inputs by name that all others call: TensorFlow traces a function again where it saves it."""
    import tensorflow as tf

    ours = dict(zip(HUB_INPUTS, INPUTS, strict=True))
    heads = [name for name in model.heads if name != "masked_lm"]
    every_layer = "every_layer" in inspect.signature(type(model.encoder).call).parameters  # else it is a user's own

    def call(**inputs: Any) -> dict[str, Any]:
        with dropout_scope(tf.random.uniform([2], tf.int32.min, tf.int32.max, tf.int32)):
            named = {ours[name]: value for name, value in inputs.items()}
            outputs = model(named, training=training, heads=heads, every_layer=every_layer)
        return outputs | {"default": outputs["pooled_output"]}

    specs = {name: tf.TensorSpec([None, None], tf.int32, name=name) for name in HUB_INPUTS}
    return tf.function(call, autograph=False).get_concrete_function(**specs)


def _called(of_ids: Any, inputs: Any) -> Any:
    """What the module returns of a dict of its inputs, or of a list of them (see _write)."""
    if hasattr(inputs, "items"):
        return of_ids(**inputs)
    outputs = of_ids(**dict(zip(HUB_INPUTS, inputs, strict=True)))
    return [outputs["pooled_output"], outputs["sequence_output"]]


def _masked(model: EncoderModel, of_ids: Any, inputs: dict[str, Any], training: bool) -> dict[str, Any]:
    """What `mlm` returns: the masked LM head's outputs too."""
    outputs = of_ids(**{name: inputs[name] for name in HUB_INPUTS})
    return outputs | model.apply_heads(outputs, {_POSITIONS: inputs[_POSITIONS]}, ["masked_lm"], training)


def _keep_tokenizer(module: Any, checkpoint: Checkpoint, folder: Path) -> None:
    """Gives a module the file of its tokenizer and whether that lower-cases, as the Model Garden's modules have them."""
    import tensorflow as tf

    tokenizer = checkpoint.tokenizer
    if isinstance(tokenizer, SentencePieceTokenizer):
        file = folder / "spiece.model"
        file.write_bytes(tokenizer.serialized())
        module.sp_model_file = tf.saved_model.Asset(str(file))
    elif tokenizer is not None and tokenizer.kind == "wordpiece":
        file = folder / "vocab.txt"
        entries = tokenizer.pieces(range(tokenizer.vocab_size))
        file.write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8", newline="\n")
        module.vocab_file = tf.saved_model.Asset(str(file))
    else:
        return
    module.do_lower_case = tf.Variable(bool(tokenizer.options().get("do_lower_case")), trainable=False)


def _write_preprocessing(folder: Path, checkpoint: Checkpoint) -> list[str]:
    """Writes the module that makes the encoder's inputs of texts. Returns a note where there is none."""
    import tensorflow as tf

    from pretrain.serving.preprocessing import Preprocessing
    from pretrain.serving.text_graph import build_graph

    if checkpoint.tokenizer is None:
        return ["no module that makes inputs of texts: no tokenizer"]
    graph, reason = build_graph(checkpoint.tokenizer)
    if graph is None:
        return [f"no module that makes inputs of texts: {reason}"]
    module = Preprocessing(graph, checkpoint.tokenizer, checkpoint.sequence_length)
    tf.saved_model.save(module, str(folder), signatures={"serving_default": module.signature()})
    return []
