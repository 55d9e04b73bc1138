"""The answer layers that `task.model.answer_layer` names: the head, its outputs, what is learned besides starts and ends."""

import logging
from collections.abc import Mapping
from typing import ClassVar

from keras import layers, ops

from pretrain.converters.heads import BEAM_SIZES
from pretrain.encoders.model import EncoderModel
from pretrain.evaluation.squad_answers import BeamWindow, Window
from pretrain.layers.conditional_span_head import BEAM, ConditionalSpanHead
from pretrain.layers.span_head import SpanHead
from pretrain.layers.tensors import Tensor
from pretrain.tasks.configs import QuestionAnsweringModelConfig

_log = logging.getLogger(__name__)

_MASKED = -1e9


class SpanLayer:
    """Each token is scored as the start and as the end; no answer is [CLS].

    Attributes:
      predicts: outputs of an evaluation, which are the scores of `window`.
      window: of a question's text, with these scores.
      terms: loss terms besides "span".
    """

    predicts: ClassVar[tuple[str, ...]] = ("start_logits", "end_logits")
    window: ClassVar[type] = Window
    terms: ClassVar[tuple[str, ...]] = ()

    def __init__(self, config: QuestionAnsweringModelConfig) -> None:
        self.config = config

    def head(self, hidden_size: int) -> layers.Layer:
        default, config = QuestionAnsweringModelConfig(), self.config
        names = (*BEAM_SIZES, "answer_dropout_prob")
        idle = [name for name in names if getattr(config, name) != getattr(default, name)]
        if idle:
            _log.info(f"task.model: no effect with answer_layer {config.answer_layer}: {', '.join(idle)}")
        return SpanHead(hidden_size=hidden_size)

    def facts(self) -> dict[str, int]:
        """What its checkpoints keep of it besides its weights."""
        return {}

    def outputs(self, model: EncoderModel, batch: Mapping[str, Tensor], training: bool) -> dict[str, Tensor]:
        """start_logits, end_logits (b, L), float32; padding, whose length differs between batches, cannot be an answer."""
        logits = ops.cast(model(batch, training=training)["logits"], "float32")
        logits = logits + (1 - ops.cast(batch["input_mask"], "float32"))[..., None] * _MASKED
        return {"start_logits": logits[..., 0], "end_logits": logits[..., 1]}

    def losses(
        self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """({term: loss}, {statistic: value}) of the other terms, each (b,), float32."""
        return {}, {}


class ConditionalLayer(SpanLayer):
    """ALBERT's: ends are scored for a start, in training for the true one, and a class says whether there is an answer."""

    predicts: ClassVar[tuple[str, ...]] = BEAM
    window: ClassVar[type] = BeamWindow
    terms: ClassVar = ("answer_class",)

    def head(self, hidden_size: int) -> layers.Layer:
        config = self.config
        return ConditionalSpanHead(
            hidden_size=hidden_size,
            start_n_top=config.start_n_top,
            end_n_top=config.end_n_top,
            dropout_prob=config.answer_dropout_prob,
        )

    def facts(self) -> dict[str, int]:
        return {name: getattr(self.config, name) for name in BEAM_SIZES}

    def outputs(self, model: EncoderModel, batch: Mapping[str, Tensor], training: bool) -> dict[str, Tensor]:
        """Those of ConditionalSpanHead."""
        outputs = model(batch, training=training)
        names = ("start_logits", "end_logits", "class_logits", *(() if training else BEAM))
        return {name: outputs[name] for name in names}

    def losses(
        self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """Half the sigmoid cross-entropy of the class, as its authors weight it; records mark no answer by the place of [CLS]."""
        logits, none = outputs["class_logits"], ops.cast(ops.equal(batch["start_positions"], 0), "float32")
        right = ops.equal(logits > 0, none > 0)
        loss = (ops.softplus(logits) - logits * none) / 2
        return {"answer_class": loss}, {"answer_class_correct": ops.cast(right, "float32")}


ANSWER_LAYERS: dict[str, type[SpanLayer]] = {"span": SpanLayer, "conditional": ConditionalLayer}
