"""Questions on small records, end to end: learns, scores as by hand, and refuses what does not fit."""

from dataclasses import replace

import numpy as np
import pytest

from nlpdata.errors import DataError, UsageError
from pretrain.experiments import experiment
from pretrain.settings.data_section import DataConfig, EvalDataConfig
from pretrain.settings.fields import Choice
from pretrain.settings.schema import ExperimentConfig, RuntimeConfig
from pretrain.tasks.question_answering import QuestionAnsweringTask
from pretrain.training import run_experiment
from tests.pretrain.finetuning import records, squad_records
from tests.pretrain.runs import changed, tiny


def squad_experiment(path, steps=200, batch=16) -> ExperimentConfig:
    base = experiment("bert/squad")
    optimization = base.trainer.optimizer_config
    schedule = replace(optimization.learning_rate.options, initial_learning_rate=3e-3)
    data = {"input_path": str(path), "global_batch_size": batch, "trim_padding": True}
    return ExperimentConfig(
        task_type="question_answering",
        task=replace(
            base.task,
            model=replace(base.task.model, encoder=tiny("bert", dropout=0.0, hidden_size=64)),
            train_data=DataConfig(**data),
            validation_data=EvalDataConfig(**data),
        ),
        trainer=replace(
            base.trainer,
            train_steps=steps,
            optimizer_config=replace(optimization, learning_rate=Choice("polynomial", schedule)),
            tensorboard=False,
        ),
        runtime=RuntimeConfig(distribution_strategy="one_device"),
    )


@pytest.mark.slow
def test_it_learns_fifty_questions_and_the_batch_does_not_matter(tmp_path):
    config = squad_experiment(squad_records(tmp_path, 50))
    metrics = run_experiment(config, tmp_path / "run", "train_and_eval")
    assert metrics["exact_match"] >= 90
    assert metrics["HasAns_exact_match"] >= 90
    for size in (1, 33):
        other = changed(config, "task.validation_data", global_batch_size=size)
        assert run_experiment(other, tmp_path / "run", "eval") == pytest.approx(metrics, rel=1e-4)


def perfect(task: QuestionAnsweringTask, batches) -> dict:
    """The state of an evaluation by a model that scores the labelled positions 5, everything else 0."""
    state = None
    for step in range(batches.steps_per_epoch):
        batch = batches.batch(step)
        real = batch["is_real_example"].astype(bool)
        shape = batch["input_ids"].shape
        outputs = {"record": batch["record"][real]}
        for name, column in (("start_logits", "start_positions"), ("end_logits", "end_positions")):
            scores = np.zeros(shape, np.float32)
            scores[np.arange(shape[0]), batch[column]] = 5
            outputs[name] = scores[real]
        state = task.aggregate_logs(state, {"span_loss": 0.0, "examples": 1.0, "span_correct": 1.0}, outputs)
    return state


@pytest.mark.parametrize("with_negative", [True, False])
def test_the_labels_as_scores_give_full_marks(tmp_path, with_negative):
    config = squad_experiment(squad_records(tmp_path, 30, with_negative))
    task = QuestionAnsweringTask(config.task)
    batches = task.build_inputs(config.task.validation_data)
    metrics = task.reduce_aggregated_logs(perfect(task, batches))
    assert (metrics["exact_match"], metrics["f1"]) == (100.0, 100.0)
    assert ("NoAns_f1" in metrics) == with_negative


def test_the_report_has_the_worst_answers(tmp_path):
    config = squad_experiment(squad_records(tmp_path, 30))
    task = QuestionAnsweringTask(config.task)
    batches = task.build_inputs(config.task.validation_data)
    state = perfect(task, batches)
    assert task.report(state, 100).errors == []
    for record, (start, end) in state["outputs"].items():
        if task._source.places(np.array([record]))["example_id"] in (["q7"], ["q8"]):
            state["outputs"][record] = np.roll(start, -1) if start.argmax() else start, end  # one word too many
    state = {name: value for name, value in state.items() if name != "results"}
    metrics, report = task.reduce_aggregated_logs(state), task.report(state, 100)
    assert {error["id"] for error in report.errors} <= {"q7", "q8"}
    lost = sum(1 - error["f1"] for error in report.errors)
    assert metrics["f1"] == pytest.approx(100 * (30 - lost) / 30)
    assert task.report(state, 1).errors == report.errors[:1]
    worst = report.errors[0]
    assert worst["prediction"] in worst["context"]
    assert worst["prediction"] not in worst["answers"]
    assert worst["question"] == "?"


def refused(config, match, error=UsageError):
    with pytest.raises(error, match=match):
        QuestionAnsweringTask(config.task).build_inputs(config.task.validation_data)


def test_records_of_another_task(tmp_path):
    path = records(tmp_path / "a.tfrecord", 16)
    refused(squad_experiment(path), "task_type 'bert_classification'; question answering learns from squad records")
    path.with_suffix(".meta.json").unlink()
    refused(squad_experiment(path), "start_positions, end_positions is missing")


def test_evaluation_without_its_questions(tmp_path):
    path = squad_records(tmp_path, 10)
    config = squad_experiment(path)
    (tmp_path / "dev.examples.jsonl.gz").write_bytes(b"no gzip")
    task = QuestionAnsweringTask(config.task)
    state = perfect(task, task.build_inputs(config.task.validation_data))
    with pytest.raises(DataError, match=r"dev\.examples\.jsonl\.gz:0: cannot be read as questions"):
        task.reduce_aggregated_logs(state)
    (tmp_path / "meta.json").unlink()
    task = QuestionAnsweringTask(config.task)
    state = perfect(task, task.build_inputs(config.task.validation_data))
    with pytest.raises(UsageError, match="no meta file says where the questions of"):
        task.reduce_aggregated_logs(state)
