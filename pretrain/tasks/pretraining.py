"""Masked language model and, unless switched off, sentence pairs: next sentence (BERT) or sentence order (ALBERT)."""

import logging
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import numpy as np
from keras import ops

from nlpdata.errors import UsageError
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.heads import head_of, leave_out, listed, with_shared_pooler
from pretrain.converters.keras_h5 import write_core_model
from pretrain.converters.report import LoadReport
from pretrain.data.batches import Batches
from pretrain.encoders.model import EncoderModel, build_encoder, masked_lm_head, new_model, weights_by_path
from pretrain.encoders.published import published_form
from pretrain.evaluation.report import tell
from pretrain.evaluation.sentence import only_pairs, only_piece
from pretrain.layers.sentence_pair_head import SentencePairHead
from pretrain.layers.tensors import Tensor
from pretrain.settings.data_section import DataConfig
from pretrain.tasks.configs import PretrainingConfig
from pretrain.tasks.task import Task, is_packed

_log = logging.getLogger(__name__)

_LARGEST_LOSS = 700.0  # nats whose exp a float still holds


class PretrainingTask(Task):
    """Records of `nlpdata create-pretraining`, or others' with the same features, to an encoder and its heads."""

    config_class = PretrainingConfig
    config: PretrainingConfig

    def build_model(self, seed: int = 0) -> EncoderModel:
        encoder = build_encoder(self.config.model.encoder)
        heads = {"masked_lm": masked_lm_head(encoder)}
        if self.config.use_next_sentence_label:
            heads["sentence_pair"] = SentencePairHead(hidden_size=encoder.hidden_size)
        return new_model(encoder, heads, seed)

    def initialize(self, model: EncoderModel) -> LoadReport | None:
        """As every task; UsageError where the checkpoint has a head that would be trained further but cannot be used."""
        report = super().initialize(model)
        if report is None:
            return None
        unusable = {head: why for head, why in report.left_out.items() if head in model.heads}
        if unusable and self.config.init_heads:
            raise UsageError(
                f"{report.source}: cannot be trained further as it is. {listed(unusable)}. task.init_heads=false "
                "(--noinit_heads) starts new heads, tied to the embeddings, on its encoder."
            )
        return report

    def prepare_checkpoint(self, checkpoint: Checkpoint) -> tuple[Checkpoint, list[str]]:
        notes: list[str] = []
        if self.config.use_next_sentence_label:
            checkpoint, notes = with_shared_pooler(checkpoint)
        if not self.config.init_heads:
            heads = {head for head in map(head_of, checkpoint.weights) if head is not None}
            checkpoint = leave_out(checkpoint, dict.fromkeys(sorted(heads), "task.init_heads is false"))
        return checkpoint, notes

    def build_inputs(self, config: DataConfig) -> Batches:
        from pretrain.data import pretraining_batches

        return pretraining_batches(config, self.config)

    def denominators(self, batch: Mapping[str, Tensor]) -> dict[str, np.float32]:
        real, weights = batch.get("is_real_example", np.ones(len(batch["input_ids"]))), batch["masked_lm_weights"]
        if not is_packed(batch):
            weights = weights * np.reshape(real, (-1, 1))
        predictions = weights.sum(dtype=np.float64)
        result = {"masked_lm": np.float32(max(predictions, 1.0))}
        if self.config.use_next_sentence_label:
            result["next_sentence"] = np.float32(max(np.sum(real), 1.0))
        return result

    def losses(
        self, model: EncoderModel, batch: Mapping[str, Tensor], training: bool
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        outputs = model(batch, training=training)
        weights = ops.cast(batch["masked_lm_weights"], "float32")
        examples = ops.ones_like(weights[:, 0])
        if "is_real_example" in batch:
            examples = ops.reshape(ops.cast(batch["is_real_example"], "float32"), (-1,))
            if not is_packed(batch):  # packed rows have no predictions of other examples
                weights = weights * examples[:, None]
        loss, correct, pieces = _classification(outputs["mlm_logits"], batch["masked_lm_ids"], weights)
        sums = {"masked_lm": loss}
        statistics = {"masked_lm_correct": correct, "masked_lm_weight": ops.sum(weights)}
        if not training:
            statistics |= {name: _ones(pieces, digit, weights) for digit, name in enumerate(self._digits())}
        if self.config.use_next_sentence_label:
            labels = ops.reshape(batch["next_sentence_labels"], (-1,))
            sums["next_sentence"], statistics["next_sentence_correct"], answers = _classification(
                outputs["sentence_logits"], labels, examples
            )
            statistics["next_sentence_weight"] = ops.sum(examples)
            if not training:
                statistics["next_sentence_seconds"] = _ones(answers, 0, examples)  # pairs said to be random or swapped
        return sums, statistics

    def _digits(self) -> list[str]:
        """The statistics of an evaluation that count in how many places a binary digit of the predicted piece's id is 1."""
        return [
            f"masked_lm_digit_{digit}" for digit in range(self.config.model.encoder.options.vocab_size.bit_length())
        ]

    def finish(self, model: EncoderModel, model_dir: str | os.PathLike) -> None:
        """ALBERT's encoder as tf2_model.h5, as kamalkraj/ALBERT-TF2.0 leaves it for fine-tuning."""
        encoder = self.config.model.encoder
        form = published_form(encoder.type)
        if form is None or "h5" not in form.names:
            return
        weights = {
            path: np.asarray(weight) for path, weight in weights_by_path(model).items() if path.startswith("encoder/")
        }
        try:
            written = write_core_model(Path(model_dir), Checkpoint("native", str(model_dir), encoder, weights))
        except UsageError as error:
            _log.info(f"no tf2_model.h5: {error}")
        else:
            _log.info(f"core model for fine-tuning: {written}")

    def metrics(self) -> dict[str, Literal["higher", "lower"]]:
        return self.config.metrics()

    def build_metrics(self) -> dict[str, tuple[str, str]]:
        names = ["masked_lm", "next_sentence"] if self.config.use_next_sentence_label else ["masked_lm"]
        metrics = {f"{name}_accuracy": (f"{name}_correct", f"{name}_weight") for name in names}
        return metrics | {f"{name}_loss": (f"{name}_loss", f"{name}_weight") for name in names}

    def reduce_aggregated_logs(self, state: Mapping) -> dict[str, float]:
        """As every task; masked_lm_perplexity is exp(masked_lm_loss), as in RoBERTa (Liu et al., 2019, table 3)."""
        metrics = super().reduce_aggregated_logs(state)
        digits = [state[name] for name in self._digits() if name in state]  # evaluations count them
        if digits:
            tell(only_piece(state["masked_lm_weight"], digits, state["masked_lm_correct"]))
        if "next_sentence_seconds" in state:
            tell(only_pairs(*(state[f"next_sentence_{what}"] for what in ("weight", "seconds", "correct"))))
        return metrics | {"masked_lm_perplexity": math.exp(min(metrics["masked_lm_loss"], _LARGEST_LOSS))}


def _classification(logits: Tensor, labels: Tensor, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(weighted sum of the cross entropies, weighted number of right predictions, predictions int32 (...)).

    logits (..., classes), float32 inside.
    """
    logits = ops.cast(logits, "float32")
    losses = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    # ops.argmax makes several passes on TensorFlow, for the sake of -0.0
    best = ops.cast(ops.top_k(logits, 1)[1][..., 0], "int32")
    correct = ops.cast(ops.equal(best, ops.cast(labels, "int32")), "float32")
    return ops.sum(weights * losses), ops.sum(weights * correct), best


def _ones(numbers: Tensor, digit: int, weights: Tensor) -> Tensor:
    """The sum of the weights where a binary digit (0: the lowest) of a number is 1; numbers int32 and weights of one shape."""
    return ops.sum(weights * ops.cast((numbers // (1 << digit)) % 2, "float32"))
