"""The right one of several choices: RACE, SWAG, own data. Each choice is a sequence with one logit; they compete in a softmax."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from keras import ops

from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.heads import CHOICE as HEAD
from pretrain.converters.heads import as_choice, with_pooler
from pretrain.data.batches import Batches
from pretrain.data.choices import ChoiceData, choice_data
from pretrain.data.record_set import SEQUENCE
from pretrain.encoders.model import EncoderModel, build_encoder, new_model
from pretrain.evaluation.choice_report import choice_report
from pretrain.evaluation.mistakes import wrong_classes
from pretrain.evaluation.report import Report, tell
from pretrain.evaluation.sentence import only_choice
from pretrain.layers.classifier_head import ClassifierHead
from pretrain.layers.tensors import Tensor
from pretrain.settings.data_section import DataConfig
from pretrain.tasks.configs import MultipleChoiceConfig
from pretrain.tasks.metrics import choice_metrics
from pretrain.tasks.record_outputs import outputs_of, parts_of, scores_of_parts, shown_mistakes, with_outputs
from pretrain.tasks.task import Task


class MultipleChoiceTask(Task):
    """Records of `nlpdata create-finetuning --task race` and others of choices to an encoder that scores each choice.

    A batch is as ChoiceData.batches gives it; the model takes its sequences as rows, (b * choices, L).
    """

    config_class = MultipleChoiceConfig
    config: MultipleChoiceConfig

    def __init__(self, config: MultipleChoiceConfig):
        super().__init__(config)
        self._evaluated: ChoiceData | None = None  # the data to evaluate on

    def build_inputs(self, config: DataConfig) -> Batches:
        data = choice_data(config, self.config)
        if not config.is_training:
            self._evaluated = data
        return data.batches()

    def build_model(self, seed: int = 0) -> EncoderModel:
        encoder = build_encoder(self.config.model.encoder)
        dropout = self.config.model.classifier_dropout_prob
        head = ClassifierHead(hidden_size=encoder.hidden_size, num_classes=1, dropout_prob=dropout, name=HEAD)
        return new_model(encoder, {HEAD: head}, seed)

    def prepare_checkpoint(self, checkpoint: Checkpoint) -> tuple[Checkpoint, list[str]]:
        """Takes over a pooler that is stored elsewhere, and run_race.py's head, which TensorFlow's files call a classifier."""
        notes: list[str] = []
        if checkpoint.may_score_choices:
            checkpoint = as_choice(checkpoint)
            notes = [f"{HEAD} starts from the checkpoint's classifier of one row, which does not say what it is for"]
        checkpoint, more = with_pooler(checkpoint, "encoder/pooler")
        return checkpoint, [*notes, *more]

    def denominators(self, batch: Mapping[str, Tensor]) -> dict[str, np.float32]:
        return {"choice": np.float32(max(np.sum(batch["is_real_example"]), 1))}

    def losses(
        self, model: EncoderModel, batch: Mapping[str, Tensor], training: bool
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        return _losses(_logits(model, batch, training), batch)

    def metrics(self) -> dict[str, Literal["higher", "lower"]]:
        return choice_metrics(parts_of(self._evaluated)) if self._evaluated else self.config.metrics()

    def build_metrics(self) -> dict[str, tuple[str, str]]:
        return {"accuracy": ("correct", "examples"), "choice_loss": ("choice_loss", "examples")}

    def validation_step(
        self, model: EncoderModel, batch: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """(statistics, {"record" (b,), "label" (b,), "logits" (b, choices)})."""
        logits = _logits(model, batch, training=False)
        sums, statistics = _losses(logits, batch)
        outputs = {"record": batch["record"], "label": batch["label_ids"], "logits": logits}
        return {"choice_loss": sums["choice"], **statistics}, outputs

    def aggregate_logs(
        self,
        state: dict[str, Any] | None,
        statistics: Mapping[str, Tensor],
        outputs: Mapping[str, Tensor] | None = None,
    ) -> dict[str, Any]:
        return with_outputs(super().aggregate_logs(state, statistics), outputs)

    def reduce_aggregated_logs(self, state: Mapping[str, Any]) -> dict[str, float]:
        """As every task; accuracy_middle and accuracy_high of records dev_middle and dev_high that are evaluated together."""
        metrics = super().reduce_aggregated_logs(state)
        if "outputs" not in state:
            return metrics
        records, labels, logits = outputs_of(state)
        tell(only_choice(labels, logits.argmax(axis=-1), logits.shape[1]))
        if self._evaluated:
            metrics |= scores_of_parts(self._evaluated, records, labels, logits, _scores)
        return metrics

    def report(self, state: Mapping[str, Any], most: int) -> Report | None:
        if "outputs" not in state:
            return None
        records, labels, logits = outputs_of(state)
        choices = logits.shape[1]
        mistakes = wrong_classes(labels, logits, tuple(map(str, range(choices))), most)
        errors = shown_mistakes(mistakes, records, self._evaluated)
        return choice_report(labels, logits.argmax(axis=-1), choices, errors, ("record", "id"), ("text",))


def _scores(labels: np.ndarray, logits: np.ndarray) -> dict[str, float]:
    return {"accuracy": float(np.mean(logits.argmax(axis=-1) == labels))}


def _logits(model: EncoderModel, batch: Mapping[str, Tensor], training: bool) -> Tensor:
    """(b, choices), float32."""
    choices = batch["input_ids"].shape[1]
    rows = {name: ops.reshape(batch[name], (-1, ops.shape(batch[name])[-1])) for name in SEQUENCE}
    return ops.reshape(ops.cast(model(rows, training=training)["logits"], "float32"), (-1, choices))


def _losses(logits: Tensor, batch: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    labels, real = batch["label_ids"], ops.cast(batch["is_real_example"], "float32")
    losses = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    right = ops.equal(ops.cast(ops.argmax(logits, axis=-1), "int32"), ops.cast(labels, "int32"))
    statistics = {"correct": ops.sum(real * ops.cast(right, "float32")), "examples": ops.sum(real)}
    return {"choice": ops.sum(real * losses)}, statistics
