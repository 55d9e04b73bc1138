"""Classification and regression head: one row of logits for a text or a pair of texts."""

import keras

from pretrain.layers.dropout import Dropout


class ClassifierHead(keras.layers.Layer):
    """Computes "logits" (b, num_classes) from the pooled output, behind dropout; one class is regression.

    Args:
      hidden_size: of the encoder.
      pooler: a dense layer with tanh of its own over the first token, instead of the encoder's pooled output.
    """

    def __init__(self, *, hidden_size, num_classes, dropout_prob=0.0, pooler: bool = False, name="classifier"):
        super().__init__(name=name)
        self.hidden_size = hidden_size
        self.pooler = None
        if pooler:
            self.pooler = keras.layers.Dense(hidden_size, activation="tanh", kernel_initializer="zeros", name="pooler")
        self.dropout = Dropout(dropout_prob)
        self.logits = keras.layers.Dense(num_classes, kernel_initializer="zeros", name="logits")

    def build(self, input_shape=None):
        if self.pooler is not None:
            self.pooler.build((None, self.hidden_size))
        self.logits.build((None, self.hidden_size))

    def call(self, encoded, inputs, training=False):
        pooled = encoded["pooled_output"]
        if self.pooler is not None:
            pooled = self.pooler(encoded["sequence_output"][:, 0])
        return {"logits": self.logits(self.dropout(pooled, training=training))}
