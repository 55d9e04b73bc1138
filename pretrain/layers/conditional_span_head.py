"""ALBERT's question answering head for SQuAD 2.0, after XLNet: ends depend on the start, and a class means that there is none."""

from collections.abc import Mapping
from typing import Any

import keras
from keras import ops

from pretrain.layers.answer_places import may_answer
from pretrain.layers.dropout import Dropout
from pretrain.layers.layer_norm import LayerNorm
from pretrain.layers.tensors import Tensor

_MASKED = -1e30
_EPSILON = 1e-12  # of the original's layer normalisation
# What predictions are made of.
BEAM = ("start_top_log_probs", "start_top_index", "end_top_log_probs", "end_top_index", "class_logits")


class ConditionalSpanHead(keras.layers.Layer):
    """Scores of starts, of ends for a start, and of "there is no answer", all float32.

    - "start_logits" (b, L): of each token as the first one of the answer; -1e30 where may_answer says that it cannot be.
    - "class_logits" (b,): above 0 where no answer is more probable than one, by the vector of the first token and the mean of
      all vectors, weighted by the probabilities of the starts.
    - "end_logits" (b, L), where the inputs have start_positions, int32 (b,): of each token as the last one, for these starts.
    - unless training, a beam: "start_top_log_probs" and, int32, "start_top_index" (b, S), of the S best starts, and
      "end_top_log_probs" and, int32, "end_top_index" (b, S, E), of the E best ends for each. Of fewer tokens than S or E the
      rest scores -1e30, too.

    Args:
      hidden_size: size of the encoder's output.
      start_n_top, end_n_top: S and E.
      dropout_prob: of the vector that is classified.
    """

    predicts = BEAM

    def __init__(
        self,
        *,
        hidden_size: int,
        start_n_top: int = 5,
        end_n_top: int = 5,
        dropout_prob: float = 0.0,
        name: str = "span",
    ):
        super().__init__(name=name)
        self.hidden_size, self.start_n_top, self.end_n_top = hidden_size, start_n_top, end_n_top
        self.start_logits = _dense(1, "start_logits")
        self.end_hidden = _dense(hidden_size, "end_hidden")
        self.layer_norm = LayerNorm(hidden_size, _EPSILON)
        self.end_logits = _dense(1, "end_logits")
        self.class_hidden = _dense(hidden_size, "class_hidden")
        self.dropout = Dropout(dropout_prob)
        self.class_logits = _dense(1, "class_logits", use_bias=False)

    def build(self, input_shape: Any = None) -> None:
        for layer, width in (
            *((layer, self.hidden_size) for layer in (self.start_logits, self.end_logits, self.class_logits)),
            *((layer, 2 * self.hidden_size) for layer in (self.end_hidden, self.class_hidden)),
        ):
            layer.build((None, None, width))
        self.layer_norm.build()

    def call(
        self, encoded: Mapping[str, Tensor], inputs: Mapping[str, Tensor], training: bool = False
    ) -> dict[str, Tensor]:
        x, allowed = encoded["sequence_output"], may_answer(inputs, ops)
        start_logits = _masked(self.start_logits(x)[..., 0], allowed)
        outputs = {"start_logits": start_logits, "class_logits": self._class_logits(x, start_logits, training)}
        if "start_positions" in inputs:
            outputs["end_logits"] = self._end_logits(x, inputs["start_positions"][:, None], allowed)[:, 0]
        if not training:
            outputs |= self._beam(x, start_logits, allowed)
        return outputs

    def _class_logits(self, x: Tensor, start_logits: Tensor, training: bool) -> Tensor:
        weights = ops.cast(ops.softmax(start_logits, axis=-1), x.dtype)
        start = ops.matmul(weights[:, None], x)[:, 0]
        hidden = ops.tanh(self.class_hidden(ops.concatenate([start, x[:, 0]], axis=-1)))
        return ops.cast(self.class_logits(self.dropout(hidden, training=training))[..., 0], "float32")

    def _end_logits(self, x: Tensor, starts: Tensor, allowed: Tensor) -> Tensor:
        """(b, n, L), for starts int32 (b, n)."""
        chosen = ops.matmul(ops.one_hot(starts, ops.shape(x)[1], dtype=x.dtype), x)
        # A dense layer over each pair (token, start) is a sum of what it makes of the two: no pairs are laid out, and none
        # is multiplied with the kernel.
        kernel = ops.convert_to_tensor(self.end_hidden.kernel)
        of_start = ops.matmul(chosen, kernel[self.hidden_size :])
        of_token = ops.matmul(x, kernel[: self.hidden_size]) + self.end_hidden.bias
        hidden = self.layer_norm(ops.tanh(of_token[:, None] + of_start[:, :, None]))
        return _masked(self.end_logits(hidden)[..., 0], allowed[:, None])

    def _beam(self, x: Tensor, start_logits: Tensor, allowed: Tensor) -> dict[str, Tensor]:
        start_scores, starts = _best(ops.log_softmax(start_logits, axis=-1), self.start_n_top)
        ends = ops.log_softmax(self._end_logits(x, starts, allowed), axis=-1)
        end_scores, ends = _best(ends, self.end_n_top)
        return {
            "start_top_log_probs": start_scores,
            "start_top_index": starts,
            "end_top_log_probs": end_scores,
            "end_top_index": ends,
        }


def _dense(units: int, name: str, use_bias: bool = True) -> keras.layers.Dense:
    return keras.layers.Dense(units, use_bias=use_bias, kernel_initializer="zeros", name=name)


def _masked(logits: Tensor, allowed: Tensor) -> Tensor:
    return ops.where(allowed, ops.cast(logits, "float32"), _MASKED)


def _best(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The highest scores of the last axis, best first, and their places, int32 (..., count)."""
    length = scores.shape[-1]
    if length is None or length < count:
        scores = ops.pad(scores, [[0, 0]] * (len(scores.shape) - 1) + [[0, count]], constant_values=_MASKED)
    values, places = ops.top_k(scores, count)
    return values, ops.cast(places, "int32")
