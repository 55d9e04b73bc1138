"""A class, several labels or a number for a text or a pair of texts: GLUE, IMDB, own data."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from keras import ops

from nlpdata.errors import UsageError
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.heads import leave_out, with_pooler
from pretrain.data.batches import Batches
from pretrain.data.examples import Examples
from pretrain.data.sentences import Labels, SentenceData, sentence_data
from pretrain.encoders.model import EncoderModel, build_encoder, new_model
from pretrain.evaluation.report import Report, tell
from pretrain.evaluation.sentence import only_label
from pretrain.evaluation.sentence_report import decided, mistakes_of, sameness, sentence_report, sentence_scores
from pretrain.layers.classifier_head import ClassifierHead
from pretrain.layers.tensors import Tensor
from pretrain.settings.data_section import DataConfig
from pretrain.tasks.configs import SentencePredictionConfig
from pretrain.tasks.metrics import sentence_metrics
from pretrain.tasks.record_outputs import outputs_of, parts_of, scores_of_parts, shown_mistakes, with_outputs
from pretrain.tasks.task import Task, is_packed

_log = logging.getLogger(__name__)

HEAD = "classifier"


class SentencePredictionTask(Task):
    """Records of `nlpdata create-finetuning` to an encoder with a classifier. The labels are known from the data."""

    config_class = SentencePredictionConfig
    config: SentencePredictionConfig

    def __init__(self, config: SentencePredictionConfig):
        super().__init__(config)
        self._built: Labels | None = None  # known once inputs are built
        self._evaluated: SentenceData | None = None  # the data to evaluate on

    def build_inputs(self, config: DataConfig) -> Batches:
        return self.batches(config)

    def batches(self, config: DataConfig, examples: Examples | None = None) -> Batches:
        """Batches of a data section's records, or of `examples` in their place; the model gets its classes from them.

        What a build_inputs of one's own calls with its examples. UsageError where they do not fit the task or each other.
        """
        data = sentence_data(config, self.config, examples)
        batches, labels = data.batches(), data.labels
        if not config.is_training:
            self._evaluated = data
        if self._built not in (None, labels):
            raise UsageError(
                f"{batches.name}: its labels are {_describe(labels)}, those of the training data {_describe(self._labels)}: "
                "the ids mean other classes. Make them with one nlpdata create-finetuning, or with the same --labels."
            )
        self._built = labels
        weights = self.config.class_weights
        if weights and (labels.kind != "classification" or len(weights) != labels.num_classes):
            raise UsageError(
                f"task.class_weights has {len(weights)} numbers; the task is {labels.kind} with {labels.num_classes} classes. "
                "Give a classification one weight a class."
            )
        return batches

    @property
    def _labels(self) -> Labels:
        assert self._built is not None, "build_inputs comes first: the labels are known from the data"
        return self._built

    def build_model(self, seed: int = 0) -> EncoderModel:
        encoder = build_encoder(self.config.model.encoder)
        head = ClassifierHead(
            hidden_size=encoder.hidden_size,
            num_classes=self._labels.num_classes,
            dropout_prob=self.config.model.classifier_dropout_prob,
            pooler=not self.config.model.use_encoder_pooler,
            name=HEAD,
        )
        return new_model(encoder, {HEAD: head}, seed)

    def prepare_checkpoint(self, checkpoint: Checkpoint) -> tuple[Checkpoint, list[str]]:
        """Takes over the classifier where it tells the same classes, and a pooler that is stored elsewhere."""
        head, own, model = checkpoint.head, self._labels, self.config.model
        if head is not None:
            theirs = Labels(head.kind, len(head.names), tuple(checkpoint.extras.get("label_names") or ()))
            if head.kind != own.kind or (theirs.names and own.names and theirs.names != own.names):
                why = f"it tells {_describe(theirs)}, not {_describe(own)}: a new one is trained"
                checkpoint = leave_out(checkpoint, {HEAD: why})
        if model.use_encoder_pooler:
            return with_pooler(checkpoint, "encoder/pooler")
        return with_pooler(checkpoint, f"{HEAD}/pooler") if self.config.init_cls_pooler else (checkpoint, [])

    def denominators(self, batch: Mapping[str, Tensor]) -> dict[str, np.float32]:
        weights = batch["is_real_example"].astype(np.float64)
        if self.config.class_weights:
            weights = weights * np.asarray(self.config.class_weights)[batch["label_ids"]]
        return {"prediction": np.float32(weights.sum() or 1.0)}

    def losses(
        self, model: EncoderModel, batch: Mapping[str, Tensor], training: bool
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        return self._losses(model(batch, training=training)["logits"], batch)

    def _losses(self, logits: Tensor, batch: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        logits, labels = ops.cast(logits, "float32"), _by_example(batch, "label_ids")
        real = ops.cast(_by_example(batch, "is_real_example"), "float32")
        weights, statistics = real, {"examples": ops.sum(real)}
        if self._labels.kind == "regression":
            losses = ops.square(logits[:, 0] - ops.cast(labels, "float32"))
        elif self._labels.kind == "multilabel":
            targets = self._smoothed(ops.cast(labels, "float32"), 2)
            losses = ops.mean(ops.softplus(logits) - logits * targets, axis=-1)
        else:
            targets = self._smoothed(ops.one_hot(labels, logits.shape[-1], dtype="float32"), logits.shape[-1])
            losses = -ops.sum(targets * ops.log_softmax(logits, axis=-1), axis=-1)
            best = ops.cast(ops.argmax(logits, axis=-1), "int32")
            right = ops.cast(ops.equal(best, ops.cast(labels, "int32")), "float32")
            statistics["correct"] = ops.sum(real * right)
            if self.config.class_weights:
                weights = real * ops.take(ops.convert_to_tensor(self.config.class_weights, "float32"), labels)
        statistics["weight"] = ops.sum(weights)
        return {"prediction": ops.sum(weights * losses)}, statistics

    def _smoothed(self, targets: Tensor, classes: int) -> Tensor:
        share = self.config.label_smoothing
        return targets * (1 - share) + share / classes if share else targets

    def metrics(self) -> dict[str, Literal["higher", "lower"]]:
        if self._built is None:
            return self.config.metrics()
        return sentence_metrics(
            self._labels.kind, parts_of(self._evaluated) if self._evaluated else self.config.parts()
        )

    def build_metrics(self) -> dict[str, tuple[str, str]]:
        metrics = {"prediction_loss": ("prediction_loss", "weight")}
        return metrics | ({"accuracy": ("correct", "examples")} if self._labels.kind == "classification" else {})

    def validation_step(
        self, model: EncoderModel, batch: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """(statistics, {"record" (b,), "label" (b,) or (b, labels), "logits" (b, classes)})."""
        logits = ops.cast(model(batch, training=False)["logits"], "float32")
        sums, statistics = self._losses(logits, batch)
        outputs = {"record": _by_example(batch, "record"), "label": _by_example(batch, "label_ids"), "logits": logits}
        return {"prediction_loss": sums["prediction"], **statistics}, outputs

    def aggregate_logs(
        self,
        state: dict[str, Any] | None,
        statistics: Mapping[str, Tensor],
        outputs: Mapping[str, Tensor] | None = None,
    ) -> dict[str, Any]:
        return with_outputs(super().aggregate_logs(state, statistics), outputs)

    def reduce_aggregated_logs(self, state: Mapping[str, Any]) -> dict[str, float]:
        metrics = super().reduce_aggregated_logs(state)
        if "outputs" in state:
            records, labels, logits = outputs_of(state)
            metrics |= self._metrics(labels, logits)
            _tell_of_sameness(self._labels.kind, labels, logits, self._labels.names)
            if self._evaluated:
                metrics |= scores_of_parts(self._evaluated, records, labels, logits, self._metrics)
        return metrics

    def report(self, state: Mapping[str, Any], most: int) -> Report | None:
        if "outputs" not in state:
            return None
        records, labels, logits = outputs_of(state)
        kind, names = self._labels.kind, self._labels.names or tuple(map(str, range(self._labels.num_classes)))
        mistakes = mistakes_of(kind, labels, logits, names, most)
        errors = shown_mistakes(mistakes, records, self._evaluated)
        return sentence_report(kind, labels, decided(kind, logits), names, errors, ("record", "id"))

    def _metrics(self, labels: np.ndarray, logits: np.ndarray) -> dict[str, float]:
        kind = self._labels.kind
        return sentence_scores(kind, labels, decided(kind, logits), self._labels.num_classes)


def _tell_of_sameness(kind: str, labels: np.ndarray, logits: np.ndarray, names: Sequence[str]) -> None:
    if kind == "classification" and (about := only_label(labels, names)):
        _log.warning(f"evaluation: {about}")
    else:
        tell(sameness(kind, labels, decided(kind, logits), names))


def _by_example(batch: Mapping[str, Tensor], name: str) -> Tensor:
    """What belongs to examples, (examples, ...), also where rows hold several of them."""
    values = batch[name]
    return ops.reshape(values, (-1, *values.shape[2:])) if is_packed(batch) else values


def _describe(labels: Labels) -> str:
    return f"{labels.kind} with {', '.join(labels.names[:8]) or f'{labels.num_classes} classes'}"
