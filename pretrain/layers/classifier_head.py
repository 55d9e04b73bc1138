"""Classification and regression head: one row of logits for a text or a pair of texts."""

from collections.abc import Mapping

from pretrain.layers.dropout import Dropout
from pretrain.layers.pooled_head import PooledHead
from pretrain.layers.tensors import Tensor


class ClassifierHead(PooledHead):
    """Computes "logits" (b, num_classes) from the pooled output, behind dropout; one class is regression. See PooledHead."""

    predicts = ("logits",)  # outputs that predictions are made of

    def __init__(
        self,
        *,
        hidden_size: int,
        num_classes: int,
        dropout_prob: float = 0.0,
        pooler: bool = False,
        name: str = "classifier",
    ):
        super().__init__(hidden_size=hidden_size, outputs=num_classes, pooler=pooler, name=name)
        self.dropout = Dropout(dropout_prob)

    def call(
        self, encoded: Mapping[str, Tensor], inputs: Mapping[str, Tensor], training: bool = False
    ) -> dict[str, Tensor]:
        return {"logits": self.logits(self.dropout(self.pooled(encoded, inputs), training=training))}
