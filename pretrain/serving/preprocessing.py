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
            lambda texts: self.bert_pack_inputs.pack([self.tokenize.ids(texts)], length), autograph=False
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
        self._tokenizer = tokenizer
        self.__call__ = tf.function(lambda inputs, seq_length=length: self.pack(inputs, seq_length), autograph=False)
        lengths = tf.TensorSpec([], tf.int32, name="seq_length")
        for rank in (1, 2):
            for segments in (1, 2):
                ragged = [tf.RaggedTensorSpec([None] * (rank + 1), tf.int32, ragged_rank=rank) for _ in range(segments)]
                self.__call__.get_concrete_function(ragged, seq_length=lengths)
                if rank == 1:  # what `tokenize` gives
                    self.__call__.get_concrete_function(ragged)

    def pack(self, tokens: Sequence[tf.RaggedTensor], length: int | tf.Tensor) -> dict[str, tf.Tensor]:
        """[CLS] first [SEP], or with a second one [CLS] first [SEP] second [SEP], cut and padded to the length."""
        flat = [each.merge_dims(1, -1) if each.shape.rank > 2 else each for each in tokens]
        found = encoder_inputs(self._tokenizer, length, *flat)
        shape = [flat[0].nrows(), tf.cast(length, tf.int64)]
        paddings = {"input_word_ids": self._tokenizer.pad_id}
        return {
            name: tf.RaggedTensor.from_tensor(found[ours]).to_tensor(paddings.get(name, 0), shape=shape)
            for name, ours in _NAMES.items()
        }
