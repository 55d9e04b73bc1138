"""The module that makes an encoder's inputs of texts, with the interface of TF-Hub's preprocessors for text.

preprocess(["a text", ...])                                           {"input_word_ids", "input_mask", "input_type_ids"}
tokens = [preprocess.tokenize(first), preprocess.tokenize(second)]     ragged int32 (batch, tokens)
preprocess.bert_pack_inputs(tokens, seq_length=64)                     the same dict
preprocess.tokenize.get_special_tokens_dict()                          ids: start_of_sequence_id, mask_id, ...
"""

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from nlpdata.tokenizers import Tokenizer
from pretrain.serving.text_graph import encoder_inputs

_NAMES = {"input_word_ids": "input_ids", "input_mask": "input_mask", "input_type_ids": "segment_ids"}


class Preprocessing(tf.train.Checkpoint):
    """Texts to inputs of a fixed length, by the rules of nlpdata.finetuning.

    Args:
      graph: the tokenizer as a graph: string (n,) -> ragged int32 (n, tokens).
      tokenizer: the same, for its special ids.
      length: tokens of a row, where a call does not say it.
    """

    def __init__(self, graph: tf.Module, tokenizer: Tokenizer, length: int) -> None:
        super().__init__()
        self.tokenize = _Tokenize(graph, tokenizer)
        self.bert_pack_inputs = _PackInputs(tokenizer, length)
        self.__call__ = tf.function(
            lambda texts: self.bert_pack_inputs.__call__([self.tokenize.ids(texts)]), autograph=False
        )
        self.__call__.get_concrete_function(tf.TensorSpec([None], tf.string, name="sentences"))

    def signature(self) -> Any:
        """The signature serving_default: sentences, string (batch,)."""
        call = tf.function(lambda sentences: self.__call__(sentences))
        return call.get_concrete_function(tf.TensorSpec([None], tf.string, name="sentences"))


class _Tokenize(tf.train.Checkpoint):
    def __init__(self, graph: tf.Module, tokenizer: Tokenizer) -> None:
        super().__init__(graph=graph)
        self.ids = graph
        self.__call__ = tf.function(lambda texts: graph(texts), autograph=False)
        self.__call__.get_concrete_function(tf.TensorSpec([None], tf.string))
        special = {
            "padding_id": tokenizer.pad_id,
            "start_of_sequence_id": tokenizer.cls_id,
            "end_of_segment_id": tokenizer.sep_id,
            "mask_id": tokenizer.mask_id,
            "vocab_size": tokenizer.vocab_size,
        }
        self.get_special_tokens_dict = tf.function(
            lambda: {name: tf.constant(value, tf.int32) for name, value in special.items()}, input_signature=[]
        )


class _PackInputs(tf.train.Checkpoint):
    def __init__(self, tokenizer: Tokenizer, length: int) -> None:
        super().__init__()
        # TensorFlow traces a function again where it saves it, so the long part is traced before: all others call it.
        packed = {segments: _packed(tokenizer, segments) for segments in (1, 2)}

        def pack(inputs: Sequence[tf.RaggedTensor], seq_length: int | tf.Tensor = length) -> dict[str, tf.Tensor]:
            flat = [each.merge_dims(1, -1) if each.shape.rank > 2 else each for each in inputs]
            columns = packed[len(flat)](flat, tf.cast(seq_length, tf.int32))
            shape = [None, seq_length if isinstance(seq_length, int) else None]
            return {name: tf.ensure_shape(column, shape) for name, column in columns.items()}

        self.__call__ = tf.function(pack, autograph=False)
        lengths = tf.TensorSpec([], tf.int32, name="seq_length")
        for rank in (1, 2):
            for segments in (1, 2):
                ragged = _ragged(rank, segments)
                self.__call__.get_concrete_function(ragged, seq_length=lengths)
                if rank == 1:  # what `tokenize` gives
                    self.__call__.get_concrete_function(ragged)


def _ragged(rank: int, segments: int) -> list[tf.RaggedTensorSpec]:
    return [tf.RaggedTensorSpec([None] * (rank + 1), tf.int32, ragged_rank=rank) for _ in range(segments)]


def _packed(tokenizer: Tokenizer, segments: int) -> Any:
    """[CLS] first [SEP], or of two segments [CLS] first [SEP] second [SEP], cut and padded to a length: a concrete function."""

    def pack(tokens: Sequence[tf.RaggedTensor], length: tf.Tensor) -> dict[str, tf.Tensor]:
        found = encoder_inputs(tokenizer, length, *tokens)
        shape = [tokens[0].nrows(), tf.cast(length, tf.int64)]
        paddings = {"input_word_ids": tokenizer.pad_id}
        return {
            name: tf.RaggedTensor.from_tensor(found[ours]).to_tensor(paddings.get(name, 0), shape=shape)
            for name, ours in _NAMES.items()
        }

    return tf.function(pack, autograph=False).get_concrete_function(_ragged(1, segments), tf.TensorSpec([], tf.int32))
