"""ALBERT's answer layer for SQuAD 2.0, end to end on small records: it learns, predicts, is exported; what is refused."""

import json

import numpy as np
import pytest

from nlpdata import create_finetuning
from nlpdata.errors import DataError, UsageError
from nlpdata.records.reader import open_records
from pretrain.converters import read_checkpoint
from pretrain.converters.convert import convert_place
from pretrain.layers.answer_places import may_answer
from pretrain.prediction.file import predict
from pretrain.tasks.question_answering import QuestionAnsweringTask
from pretrain.training import run_experiment
from tests.messages import messages
from tests.migration.given import squad
from tests.pages import WORDS
from tests.pretrain.finetuning import squad_records, write
from tests.pretrain.runs import changed
from tests.pretrain.tasks.test_question_answering import squad_experiment


def conditional(path, **options):
    config = squad_experiment(path, steps=120)
    fields = {"answer_layer": "conditional", "start_n_top": 4, "end_n_top": 3, "answer_dropout_prob": 0.0}
    return changed(config, "task.model", **fields | options)


@pytest.mark.slow
def test_it_learns_which_questions_have_answers_and_where(tmp_path):
    """Predictions and exports are those of the run. test_multiple_choice.py resumes one; its head is stored in the same way."""
    config = conditional(squad_records(tmp_path, 50))
    metrics = run_experiment(config, tmp_path / "run", "train_and_eval")
    assert metrics["answer_class_accuracy"] >= 0.95
    assert min(metrics["HasAns_exact_match"], metrics["NoAns_exact_match"]) >= 80
    assert metrics["loss"] == pytest.approx(metrics["span_loss"] + metrics["answer_class_loss"])
    predict(tmp_path / "run", tmp_path / "dev.tfrecord", tmp_path / "answers")
    nbest, final, odds = (
        json.loads((tmp_path / "answers" / f"{name}.json").read_text())
        for name in ("nbest_predictions", "predictions", "null_odds")
    )
    none = {key: next(each for each in entries if not each["text"]) for key, entries in nbest.items()}
    for key, text in final.items():
        assert none[key]["class_logit"] == odds[key]
        assert none[key]["probability"] == pytest.approx(1 / (1 + np.exp(-odds[key])), abs=1e-6)
        assert (text == "") == (odds[key] > 0)
        assert len(nbest[key]) <= 2 * 4 * 3 + 1  # two windows at most
    unanswered = [f"q{number}" for number in range(0, 50, 5)]
    assert np.mean([final[key] == "" for key in unanswered]) == pytest.approx(metrics["NoAns_exact_match"] / 100)

    convert_place(str(tmp_path / "run"), str(tmp_path / "tf1"), "tf1")
    ours, theirs = (read_checkpoint(str(tmp_path / name)) for name in ("run", "tf1"))
    assert theirs.weights.keys() == ours.weights.keys()
    assert all(np.array_equal(theirs.weights[path], array) for path, array in ours.weights.items())
    assert [theirs.extras[name] for name in ("start_n_top", "end_n_top")] == [4, 3]
    with pytest.raises(UsageError, match=r"format hf has no place for span/"):
        convert_place(str(tmp_path / "run"), str(tmp_path / "hf"), "hf")
    with pytest.raises(UsageError, match=r"trainer\.export_formats: .*format hf has no place for span/"):
        run_experiment(changed(config, "trainer", export_formats="hf"), tmp_path / "hf", "train")
    assert not (tmp_path / "hf" / "checkpoints").exists()
    other = changed(changed(config, "task.model", answer_layer="span"), "trainer", train_steps=130)
    with pytest.raises(DataError, match=r"task\.model\.answer_layer"):
        run_experiment(other, tmp_path / "run", "train")


def test_the_mask_is_that_of_the_records(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (tmp_path / "train.json").write_text(json.dumps(squad(WORDS[40:80], 6, "v2.0")))
    options = {"task": "squad", "max_seq_length": 24, "doc_stride": 8, "max_query_length": 4, "workers": 1}
    create_finetuning(
        str(tmp_path / "train.json"), str(tmp_path / "records"), str(tmp_path / "vocab.txt"), splits="train", **options
    )
    records = open_records(str(tmp_path / "records" / "train.tfrecord"))[0:100]
    assert len(records["input_ids"]) > 6  # windows
    np.testing.assert_array_equal(may_answer(records, np), records["paragraph_mask"] == 1)
    np.testing.assert_array_equal(records["is_impossible"], records["start_positions"] == 0)


def test_what_does_not_fit(tmp_path):
    records = open_records(str(squad_records(tmp_path, 20)))[0:100]
    names = ("input_ids", "input_mask", "segment_ids", "start_positions", "end_positions")
    columns = {name: records[name].copy() for name in names}
    columns["start_positions"][0] = 2  # [SEP]
    (tmp_path / "meta.json").rename(tmp_path / "odd.meta.json")
    config = conditional(write(tmp_path / "odd.tfrecord", columns))
    with pytest.raises(
        DataError, match=r"record 0: start_positions is 2, which is not a token of the context .* to span"
    ):
        QuestionAnsweringTask(config.task).build_inputs(config.task.train_data)
    columns["start_positions"][0] = 0
    QuestionAnsweringTask(config.task).build_inputs(
        conditional(write(tmp_path / "odd.tfrecord", columns)).task.train_data
    )
    task = QuestionAnsweringTask(conditional(tmp_path, answer_layer="span").task)
    with messages() as said:
        task.build_model()
    assert "task.model: no effect with answer_layer span: start_n_top, end_n_top, answer_dropout_prob" in said
    with pytest.raises(UsageError, match=r"answer_dropout_prob must be at least 0 and below 1\. Received: 1"):
        conditional(tmp_path, answer_dropout_prob=1.0)
