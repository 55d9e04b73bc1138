"""Question answering head: where an answer starts and ends."""

import keras


class SpanHead(keras.layers.Layer):
    """Computes "logits" (b, L, 2): a score for each token as the first and as the last one of the answer."""

    def __init__(self, *, hidden_size, name="span"):
        super().__init__(name=name)
        self.hidden_size = hidden_size
        self.logits = keras.layers.Dense(2, kernel_initializer="zeros", name="logits")

    def build(self, input_shape=None):
        self.logits.build((None, None, self.hidden_size))

    def call(self, encoded, inputs, training=False):
        return {"logits": self.logits(encoded["sequence_output"])}
