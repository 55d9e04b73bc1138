"""Sentence pair head: is B what follows A (next sentence), or are the two in order (sentence order)?"""

import keras


class SentencePairHead(keras.layers.Layer):
    """Computes "sentence_logits" (b, 2) from the pooled output.

    Args:
      hidden_size: of the encoder.
      pooler: a dense layer with tanh of its own over the first token, instead of the encoder's pooled output, as heads of
        the TensorFlow Model Garden have.
    """

    def __init__(self, *, hidden_size, pooler: bool = False, name="sentence_pair"):
        super().__init__(name=name)
        self.hidden_size = hidden_size
        self.pooler = None
        if pooler:
            self.pooler = keras.layers.Dense(hidden_size, activation="tanh", kernel_initializer="zeros", name="pooler")
        self.logits = keras.layers.Dense(2, kernel_initializer="zeros", name="logits")

    def build(self, input_shape=None):
        if self.pooler is not None:
            self.pooler.build((None, self.hidden_size))
        self.logits.build((None, self.hidden_size))

    def call(self, encoded, inputs, training=False):
        pooled = encoded["pooled_output"]
        if self.pooler is not None:
            pooled = self.pooler(encoded["sequence_output"][:, 0])
        return {"sentence_logits": self.logits(pooled)}
