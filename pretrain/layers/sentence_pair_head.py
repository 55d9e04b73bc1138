"""Sentence pair head: is B what follows A (next sentence), or are the two in order (sentence order)?"""

from collections.abc import Mapping

from pretrain.layers.pooled_head import PooledHead
from pretrain.layers.tensors import Tensor


class SentencePairHead(PooledHead):
    """Computes "sentence_logits" (b, 2) from the pooled output. See PooledHead.

    Heads of the TensorFlow Model Garden have their own pooler.
    """

    def __init__(self, *, hidden_size: int, pooler: bool = False, name: str = "sentence_pair"):
        super().__init__(hidden_size=hidden_size, outputs=2, pooler=pooler, name=name)

    def call(
        self, encoded: Mapping[str, Tensor], inputs: Mapping[str, Tensor], training: bool = False
    ) -> dict[str, Tensor]:
        return {"sentence_logits": self.logits(self.pooled(encoded, inputs))}
