"""Sentence pair head: is B what follows A (next sentence), or are the two in order (sentence order)?"""

import keras


class SentencePairHead(keras.layers.Layer):
    """Computes "sentence_logits" (b, 2) from the pooled output."""

    def __init__(self, *, hidden_size, name="sentence_pair"):
        super().__init__(name=name)
        self.hidden_size = hidden_size
        self.logits = keras.layers.Dense(2, kernel_initializer="zeros", name="logits")

    def build(self, input_shape=None):
        self.logits.build((None, self.hidden_size))

    def call(self, encoded, inputs, training=False):
        return {"sentence_logits": self.logits(encoded["pooled_output"])}
