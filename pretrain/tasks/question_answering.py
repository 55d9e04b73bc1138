"""The answer to a question as a part of a text: SQuAD 1.1 and 2.0, and data of their form."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from keras import ops

from pretrain.data.batches import Batches
from pretrain.data.questions import PLACES, Question, QuestionSource, question_batches
from pretrain.encoders.model import EncoderModel, build_encoder, new_model
from pretrain.evaluation.mistakes import worst_answers
from pretrain.evaluation.report import Report, tell
from pretrain.evaluation.squad import only_no_answer, question_scores, squad_metrics
from pretrain.evaluation.squad_answers import Answers, final_answers, find_answers
from pretrain.layers.tensors import Tensor
from pretrain.settings.data_section import DataConfig
from pretrain.tasks.answer_layers import ANSWER_LAYERS
from pretrain.tasks.configs import QuestionAnsweringConfig
from pretrain.tasks.metrics import question_metrics
from pretrain.tasks.task import Task

_READ_AT_ONCE = 256
_COLUMNS = ("id", "question", "answers", "prediction", "exact_match", "f1", "probability")  # of the table of errors


class QuestionAnsweringTask(Task):
    """Records of `nlpdata create-finetuning --task squad` to an encoder that scores where an answer starts and ends."""

    config_class = QuestionAnsweringConfig
    config: QuestionAnsweringConfig

    def __init__(self, config: QuestionAnsweringConfig):
        super().__init__(config)
        self._layer = ANSWER_LAYERS[config.model.answer_layer](config.model)
        self._built: QuestionSource | None = None  # of what was built last: the evaluation's

    @property
    def _source(self) -> QuestionSource:
        assert self._built is not None, "build_inputs comes first"
        return self._built

    def build_inputs(self, config: DataConfig, labelled: bool = True) -> Batches:
        """Batches; labelled=False: of questions whose answers may be unknown, to predict them."""
        batches, self._built = question_batches(config, self.config, labelled, in_context=bool(self._layer.terms))
        batches.facts.update(self._layer.facts())
        return batches

    def build_model(self, seed: int = 0) -> EncoderModel:
        encoder = build_encoder(self.config.model.encoder)
        return new_model(encoder, {"span": self._layer.head(encoder.hidden_size)}, seed)

    def denominators(self, batch: Mapping[str, Tensor]) -> dict[str, np.float32]:
        count = np.float32(max(np.sum(batch.get("is_real_example", np.ones(len(batch["record"])))), 1.0))
        return dict.fromkeys(("span", *self._layer.terms), count)

    def losses(
        self, model: EncoderModel, batch: Mapping[str, Tensor], training: bool
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        return self._losses(self._layer.outputs(model, batch, training), batch)

    def _losses(
        self, outputs: Mapping[str, Tensor], batch: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        real = ops.ones_like(outputs["start_logits"][:, 0])
        if "is_real_example" in batch:
            real = ops.cast(batch["is_real_example"], "float32")
        loss, right = 0.0, real
        for part in ("start", "end"):
            own, positions = outputs[f"{part}_logits"], batch[f"{part}_positions"]
            loss = loss + ops.sparse_categorical_crossentropy(positions, own, from_logits=True) / 2
            hits = ops.equal(ops.cast(ops.argmax(own, axis=-1), "int32"), ops.cast(positions, "int32"))
            right = right * ops.cast(hits, "float32")
        terms, statistics = self._layer.losses(outputs, batch)
        sums = {name: ops.sum(real * each) for name, each in ({"span": loss} | terms).items()}
        counts = {name: ops.sum(real * each) for name, each in statistics.items()}
        return sums, {"span_correct": ops.sum(right), "examples": ops.sum(real)} | counts

    def metrics(self) -> dict[str, Literal["higher", "lower"]]:
        if not self._built:
            return self.config.metrics()
        return question_metrics(self.with_negative(), has_class=bool(self._layer.terms))

    def build_metrics(self) -> dict[str, tuple[str, str]]:
        terms = ("span", *self._layer.terms)
        losses = {f"{term}_loss": (f"{term}_loss", "examples") for term in terms}
        return losses | {f"{term}_accuracy": (f"{term}_correct", "examples") for term in terms}

    def validation_step(
        self, model: EncoderModel, batch: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """(statistics, {"record" (b,), and the outputs that the answer layer predicts from})."""
        outputs = self._layer.outputs(model, batch, training=False)
        sums, statistics = self._losses(outputs, batch)
        predicted = {name: outputs[name] for name in self._layer.predicts}
        return {**{f"{term}_loss": value for term, value in sums.items()}, **statistics}, {
            "record": batch["record"],
            **predicted,
        }

    def aggregate_logs(
        self,
        state: dict[str, Any] | None,
        statistics: Mapping[str, Tensor],
        outputs: Mapping[str, Tensor] | None = None,
    ) -> dict[str, Any]:
        state = super().aggregate_logs(state, statistics)
        if outputs:
            state.pop("results", None)
            columns = (np.asarray(outputs[name]) for name in ("record", *self._layer.predicts))
            for record, *scores in zip(*columns, strict=True):
                state.setdefault("outputs", {})[int(record)] = tuple(scores)
        return state

    def reduce_aggregated_logs(self, state: Mapping[str, Any]) -> dict[str, float]:
        metrics = super().reduce_aggregated_logs(state)
        if "outputs" not in state:
            return metrics
        _, answers, scored = self._results(state)
        tell(only_no_answer(scored["golds"], self._final(answers)))
        return metrics | squad_metrics(**scored)

    def report(self, state: Mapping[str, Any], most: int) -> Report | None:
        if "outputs" not in state:
            return None
        questions, answers, scored = self._results(state)
        scores = question_scores(**scored)
        final = self._final(answers)
        certain = {
            key: next((entry["probability"] for entry in each.nbest if entry["text"] == final[key]), 0.0)
            for key, each in answers.items()
        }
        errors = [
            {
                "id": key,
                "question": questions[key].text,
                "answers": list(dict.fromkeys(scored["golds"][key])),
                "prediction": final[key],
                "exact_match": scores[key][0],
                "f1": scores[key][1],
                "probability": certain[key],
                "context": questions[key].context,
            }
            for key in worst_answers(scores, certain, most)
        ]
        return Report("squad", _COLUMNS, errors, remark=only_no_answer(scored["golds"], final) or "")

    def _final(self, answers: Mapping[str, Answers]) -> dict[str, str]:
        return final_answers(answers, self.with_negative(), self.config.null_score_diff_threshold)

    def _results(self, state: Mapping[str, Any]) -> tuple[dict[str, Question], dict[str, Answers], dict[str, Any]]:
        """(questions, their answers, the arguments of squad_metrics and question_scores) of an evaluation, found once."""
        if "results" not in state:
            assert isinstance(state, dict)
            answers, questions = self.answers(state["outputs"]), self._source.questions()
            scored = {
                "golds": {key: [gold["text"] for gold in questions[key].answers] for key in answers},
                "answers": {key: each.text for key, each in answers.items()},
                "null_odds": {key: each.null_odds for key, each in answers.items()} if self.with_negative() else None,
                "null_threshold": self.config.null_score_diff_threshold,
            }
            state["results"] = questions, answers, scored
        return state["results"]

    def answers(self, outputs: dict[int, tuple[np.ndarray, ...]]) -> dict[str, Answers]:
        """question id -> its answers, from record -> the scores of its window."""
        windows: dict[str, list] = {}
        numbers = np.array(sorted(outputs), np.int64)
        for at in range(0, len(numbers), _READ_AT_ONCE):
            part = numbers[at : at + _READ_AT_ONCE]
            places = self._source.places(part)
            for row, record in enumerate(part.tolist()):
                window = self._layer.window(*(places[name][row] for name in PLACES[:3]), *outputs[record])
                windows.setdefault(places["example_id"][row], []).append(window)
        questions, config = self._source.questions(), self.config
        return {
            key: find_answers(
                questions[key].context, own, config.n_best_size, config.max_answer_length, self.with_negative()
            )
            for key, own in windows.items()
        }

    def with_negative(self) -> bool:
        own = self.config.version_2_with_negative
        return bool(self._source.version_2_with_negative if own is None else own)
