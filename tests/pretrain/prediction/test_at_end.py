"""What a run predicts at its end: which file, and what it leaves."""

import pytest

from nlpdata.errors import UsageError
from pretrain.prediction.at_end import check_tokenizer, file_to_predict, write_submission
from tests.messages import messages
from tests.pretrain.runs import experiment


@pytest.fixture
def glue(tmp_path):
    for name in ("CoLA/test.tsv", "SST/test.tsv", "MNLI/test_matched.tsv"):
        path = tmp_path / "glue" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("index\tsentence\n")
    return tmp_path / "glue"


@pytest.mark.parametrize(
    ("task", "place", "found"),
    [
        ("CoLA", "", "CoLA/test.tsv"),
        ("cola", "CoLA", "CoLA/test.tsv"),
        ("SST", "", "SST/test.tsv"),
        ("MNLI", "", "MNLI/test_matched.tsv"),
    ],
)
def test_the_test_set_of_a_task(glue, task, place, found):
    values = {"do_predict": True, "task_name": task, "input_data_dir": str(glue / place)}
    assert file_to_predict(values) == glue / found


def test_a_file_is_named(tmp_path):
    path = tmp_path / "dev.json"
    path.touch()
    for asked in ({"do_predict": True}, {"mode": "predict"}, {"mode": "train_and_predict"}):
        assert file_to_predict({**asked, "predict_file": str(path), "task_name": "CoLA"}) == path
    assert file_to_predict({"predict_file": str(path), "mode": "train"}) is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "nothing to predict for: name SQuAD's JSON"),
        ({"task_name": "CoLA"}, "nothing to predict for"),
        ({"predict_file": "gone.json"}, "--predict_file=gone.json: there is no such file"),
        ({"task_name": "squad", "input_data_dir": "x"}, "--task_name=squad is not a task of GLUE: cola, sst2"),
        ({"task_name": "colla", "input_data_dir": "x"}, "--task_name=colla is not a task of GLUE"),
        ({"task_name": "RTE", "input_data_dir": "x"}, "x has no test set of RTE: expected RTE/test.tsv in it"),
        ({"seeds": "3"}, "--seeds makes several models"),
    ],
)
def test_faults(values, message):
    with pytest.raises(UsageError) as caught:
        file_to_predict({"do_predict": True, **values})
    assert message in str(caught.value)


def test_another_tokenizer_than_that_of_the_records_is_found_before_the_training(tmp_path, record_sets, tiny_model):
    config = experiment(record_sets["static"])
    check_tokenizer({"tokenizer": str(tiny_model)}, config)  # whatever its options are taken as
    (tmp_path / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]) + "\n")
    values = {"tokenizer": str(tmp_path / "vocab.txt")}
    with pytest.raises(
        UsageError, match=r"vocab\.txt is not the tokenizer of the records of task\.train_data.*7 pieces, not 200"
    ):
        check_tokenizer(values, config)
    config.task.allow_other_tokenizer = True
    with messages() as notes:
        check_tokenizer(values, config)
    assert "is not the tokenizer of the records" in notes[-1]


def test_flags_of_predictions_alone_are_reported(record_sets):
    with messages() as notes:
        check_tokenizer({"task_name": "CoLA", "predict_file": "x"}, experiment(record_sets["static"]))
    assert notes == [
        "--predict_file, --task_name: without --do_predict (or --mode=train_and_predict) nothing is predicted."
    ]


def test_a_submission_for_glue(tmp_path):
    results, submission = tmp_path / "test_results.tsv", tmp_path / "submit_results.tsv"
    results.write_text("index\tprediction\tno\tyes\n0\tyes\t0.25\t0.75\n7\tno\t0.6\t0.4\n")
    write_submission(results, submission)
    assert submission.read_text() == "index\tprediction\n0\tyes\n7\tno\n"
    results.write_text("index\tprediction\n0\t-0.250\n1\t2.500\n2\t7.125\n")
    write_submission(results, submission)
    assert submission.read_text() == "index\tprediction\n0\t0.000\n1\t2.500\n2\t5.000\n"
    results.write_text("index\tprediction\tno\tyes\n0\tyes\t0.25\t0.75\n4\t\t\t\n")
    submission.unlink()
    with messages() as notes:
        write_submission(results, submission)
    assert notes[-1].endswith("row 4 has no prediction, and GLUE's server takes one for every row")
    assert not submission.exists()
