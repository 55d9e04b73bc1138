"""Classification and regression head: one row of logits for a text or a pair of texts."""

import keras

from pretrain.layers.dropout import Dropout


class ClassifierHead(keras.layers.Layer):
    """Computes "logits" (b, num_classes) from the pooled output, behind dropout; one class is regression."""

    def __init__(self, *, hidden_size, num_classes, dropout_prob=0.0, name="classifier"):
        super().__init__(name=name)
        self.hidden_size = hidden_size
        self.dropout = Dropout(dropout_prob)
        self.logits = keras.layers.Dense(num_classes, kernel_initializer="zeros", name="logits")

    def build(self, input_shape=None):
        self.logits.build((None, self.hidden_size))

    def call(self, encoded, inputs, training=False):
        return {"logits": self.logits(self.dropout(encoded["pooled_output"], training=training))}
