"""Talking-heads attention (Shazeer et al., 2020, arXiv 2003.02436), as the TensorFlow Model Garden computes it."""

from typing import Any

from keras import ops

from pretrain.layers.attention import SelfAttention
from pretrain.layers.tensors import Tensor


class TalkingHeads(SelfAttention):
    """SelfAttention whose heads are mixed twice, by matrices (heads, heads): their scores, and their probabilities.

    Padding is masked between the two, and what is dropped are mixed probabilities. No kernel computes it: on the fast path, too,
    it is plain operations.
    """

    def build(self, input_shape: Any = None) -> None:
        super().build()
        self.pre_softmax, self.post_softmax = (
            self.add_weight(name=name, shape=(self.heads, self.heads), initializer="zeros")
            for name in ("pre_softmax", "post_softmax")
        )

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask_adder: Tensor,
        sequence_ids: Tensor | None,
        training: bool,
    ) -> Tensor:
        query = query * (self.hidden_size // self.heads) ** -0.5
        scores = _mixed(ops.einsum("bqhw,bkhw->bhqk", query, key), self.pre_softmax)
        probs = ops.softmax(ops.cast(scores, "float32") + ops.cast(mask_adder, "float32"))
        probs = _mixed(ops.cast(probs, self.compute_dtype), self.post_softmax)
        return ops.einsum("bhqk,bkhw->bqhw", self.probs_dropout(probs, training=training), value)


def _mixed(heads: Tensor, weight: Tensor) -> Tensor:
    """(b, heads, L, L) -> the same: each a sum of all, weighted by a column of weight (heads, heads)."""
    return ops.einsum("bhqk,hg->bgqk", heads, weight)
