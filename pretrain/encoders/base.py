"""The base of all encoders: embeddings, a sequence of layers, a pooler."""

from collections.abc import Callable, Mapping
from typing import Any

import keras
from keras import ops

from pretrain.layers.dropout import redrawn
from pretrain.layers.pooled_head import first_tokens
from pretrain.layers.tensors import Tensor

_MASKED = -10000.0  # added to the scores of padding


class Encoder(keras.layers.Layer):
    """Token ids to vectors. A kind of encoder is a subclass that builds the parts.

    call({"input_ids", "input_mask" (1 on real tokens), "segment_ids"}, int32 (b, L) each) ->
    {"sequence_output": (b, L, hidden_size), "pooled_output": (b, hidden_size)}; with every_layer also "encoder_outputs", a list of
    what each layer gives, (b, L, hidden_size) each.

    Rows of several examples (pretrain.data.packing) have position_ids and sequence_ids, int32 (b, L), and sequence_starts
    (b, S) in addition; pooled_output is then (b * S, hidden_size).

    Args:
      embeddings: layer, (input_ids, segment_ids) -> (b, L, width); with position_ids for packed rows.
      layers: layers with weights, (x, mask_adder (b, 1, 1, L)) -> x; with sequence_ids, and mask_adder (b, 1, L, L), for such rows.
      embedding_projection: dense layer between the two, or None.
      pooler: whether pooled_output is a dense layer with tanh over the first token, or that token's vector itself.
      masked_lm_size: width of what a masked language model head scores, default embedding_size.
      The others are what heads and tasks read of an encoder: the numbers of its configuration.

    Attributes:
      gradient_checkpointing: whether training keeps only the inputs of the layers, and computes each layer again for its
        gradient.
    """

    gradient_checkpointing = False

    def __init__(
        self,
        *,
        name: str,
        embeddings: keras.layers.Layer,
        layers: list[keras.layers.Layer],
        embedding_projection: keras.layers.Layer | None = None,
        pooler: bool = True,
        vocab_size: int,
        embedding_size: int,
        hidden_size: int,
        masked_lm_size: int | None = None,
        hidden_act: str,
        layer_norm_eps: float,
        max_position_embeddings: int,
        initializer_range: float,
    ) -> None:
        super().__init__(name=name)
        self.vocab_size, self.embedding_size, self.hidden_size = vocab_size, embedding_size, hidden_size
        self.masked_lm_size = masked_lm_size or embedding_size
        self.hidden_act, self.layer_norm_eps = hidden_act, layer_norm_eps
        self.max_position_embeddings, self.initializer_range = max_position_embeddings, initializer_range
        self.embeddings, self.embedding_projection, self.layers = embeddings, embedding_projection, layers
        self.pooler = None
        if pooler:
            self.pooler = keras.layers.Dense(hidden_size, activation="tanh", kernel_initializer="zeros", name="pooler")

    def build(self, input_shape: Any = None) -> None:
        self.embeddings.build()
        if self.embedding_projection is not None:
            self.embedding_projection.build((None, None, self.embedding_size))
        for layer in self.layers:
            layer.build()
        if self.pooler is not None:
            self.pooler.build((None, self.hidden_size))

    def call(self, inputs: Mapping[str, Any], training: bool = False, every_layer: bool = False) -> dict[str, Any]:
        sequence_ids = inputs.get("sequence_ids")
        packing: dict[str, Tensor] = {}
        where: dict[str, Tensor] = {}
        if sequence_ids is not None:
            packing, where = {"sequence_ids": sequence_ids}, {"position_ids": inputs["position_ids"]}
        x = self.embeddings(inputs["input_ids"], inputs["segment_ids"], training=training, **where)
        if self.embedding_projection is not None:
            x = self.embedding_projection(x)
        mask_adder = attention_mask_adder(inputs["input_mask"], sequence_ids)
        layers = []
        for layer in self.sequence():

            def apply(x: Tensor, layer: keras.layers.Layer = layer) -> Tensor:
                return layer(x, mask_adder, training=training, **packing)

            x = _checkpointed(apply)(x) if training and self.gradient_checkpointing else apply(x)
            layers.append(x)
        first = first_tokens(x, inputs)
        outputs = {"sequence_output": x, "pooled_output": first if self.pooler is None else self.pooler(first)}
        return outputs | {"encoder_outputs": layers} if every_layer else outputs

    def sequence(self) -> list[keras.layers.Layer]:
        """The layers in the order in which they are applied; one may come more than once."""
        return self.layers

    @property
    def packs(self) -> bool:
        """Whether it reads rows of several examples; an encoder with a call of its own says so itself."""
        return type(self).call is Encoder.call


def attention_mask_adder(input_mask: Tensor, sequence_ids: Tensor | None = None) -> Tensor:
    """What is added to attention scores, float32: 0 where a token may be attended to, -10000 elsewhere.

    Args:
      input_mask: (b, L), 1 on real tokens -> (b, 1, 1, L).
      sequence_ids: int32 (b, L), number of each token's example in its row -> (b, 1, L, L): tokens attend to their own example.
    """
    if sequence_ids is None:
        return (1.0 - ops.cast(input_mask, "float32"))[:, None, None, :] * _MASKED
    same = ops.equal(sequence_ids[:, :, None], sequence_ids[:, None, :])
    return (1.0 - ops.cast(same, "float32"))[:, None] * _MASKED


def _checkpointed(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The function, of which only the argument is kept for the gradient; when computed again, it drops the same."""
    return keras.remat(redrawn(function))
