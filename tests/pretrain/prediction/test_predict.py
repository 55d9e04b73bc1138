"""pretrain predict: texts in, predictions out, against the model itself."""

import json
import math

import numpy as np
import pytest
from keras import ops

import nlpdata
from nlpdata.errors import DataError, UsageError
from nlpdata.tokenizers import load_tokenizer
from pretrain.converters import native
from pretrain.converters.checkpoint import Head
from pretrain.encoders.model import weights_by_path
from pretrain.evaluation.squad import squad_metrics
from pretrain.predict import main
from pretrain.prediction.batching import Batching
from pretrain.prediction.file import predict
from pretrain.prediction.questions import answer_options
from pretrain.prediction.rows import Row
from pretrain.prediction.sentences import SentencePredictor, judge
from pretrain.prediction.writing import check_format, row_lines
from pretrain.tasks.question_answering import QuestionAnsweringTask
from pretrain.tasks.sentence_prediction import SentencePredictionTask
from tests.disks import files_up_to, mounted, names
from tests.messages import messages
from tests.pages import WORDS
from tests.pretrain.finetuning import CLS, LENGTH, SEP, records, sentence_experiment, squad_records
from tests.pretrain.tasks.test_question_answering import squad_experiment

pytestmark = pytest.mark.usefixtures("eagerly")


def stored(task, folder, encoder, config=None, **data) -> object:
    """Writes a checkpoint of the task's model, with weights that tell classes apart; returns the model."""
    model = task.build_model(seed=3)
    for path, weight in weights_by_path(model).items():
        if path.endswith("logits/kernel"):
            weight.assign(np.random.default_rng(0).normal(size=weight.shape) * 3)
    arrays = {f"model/{p}": w.numpy() for p, w in weights_by_path(model).items()}
    from dataclasses import asdict

    described = {"type": encoder.type, "options": asdict(encoder.options)}
    native.write(folder, arrays, {"step": 1, "encoder": described, "data": data, "config": config or {}})
    return model


@pytest.fixture
def classifier(tmp_path):
    """As made_classifier gives it."""
    return made_classifier(tmp_path)


def made_classifier(folder):
    """(checkpoint folder, vocabulary file, model)."""
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    config = sentence_experiment(records(folder / "a.tfrecord", 16))
    task = SentencePredictionTask(config.task)
    task.build_inputs(config.task.train_data)
    facts = {"label_names": ["no", "yes", "maybe"], "kind": "classification", "seq_length": LENGTH}
    facts["tokenizer_sha256"] = load_tokenizer(folder / "vocab.txt").sha256
    model = stored(task, folder / "model", config.task.model.encoder, **facts)
    return folder / "model", folder / "vocab.txt", model


def run(classifier, source, target, **options):
    with messages() as said:
        predict(classifier[0], source, target, tokenizer=str(classifier[1]), **options)
    return said


def probabilities(model, ids, segments=None):
    ids = np.array([ids], np.int32)
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    if segments is not None:
        inputs["segment_ids"] = np.array([segments], np.int32)
    logits = np.asarray(ops.convert_to_numpy(model(inputs)["logits"]), np.float64)[0]
    return np.exp(logits) / np.exp(logits).sum()


def test_lines_of_text(classifier, tmp_path):
    (tmp_path / "in.txt").write_text("w20 w30\n\nw40 w41 w42\n" + "w50 " * 60 + "\n")
    said = run(classifier, tmp_path / "in.txt", tmp_path / "out.jsonl", format="jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["index"] for row in rows] == ["0", "1", "2", "3"]
    expected = probabilities(classifier[2], [CLS, 20, 30, SEP])
    assert list(rows[0]["scores"].values()) == pytest.approx(expected, abs=1e-5)
    assert rows[0]["prediction"] == ["no", "yes", "maybe"][int(expected.argmax())]
    assert rows[1] == {"index": "1", "prediction": None, "scores": {}}
    assert list(rows[3]["scores"].values()) == pytest.approx(
        probabilities(classifier[2], [CLS, *[50] * (LENGTH - 2), SEP]), abs=1e-5
    )
    assert any("1 of 4 rows are longer than 32 tokens" in line for line in said)
    assert any("1 of 4 rows are empty" in line for line in said)
    again = run(classifier, tmp_path / "in.txt", tmp_path / "one.jsonl", format="jsonl", batch_size=1)
    ones = [json.loads(line) for line in (tmp_path / "one.jsonl").read_text().splitlines()]
    assert [row["prediction"] for row in ones] == [row["prediction"] for row in rows]
    assert again


def test_pairs_of_a_glue_file(classifier, tmp_path):
    (tmp_path / "test.tsv").write_text("index\tsentence1\tsentence2\n7\tw20\tw30 w31\n9\tw21\tw32\n")
    run(classifier, tmp_path / "test.tsv", tmp_path / "MRPC.tsv", format="glue")
    header, first, second = (tmp_path / "MRPC.tsv").read_text().splitlines()
    assert header == "index\tprediction"
    expected = probabilities(classifier[2], [CLS, 20, SEP, 30, 31, SEP], [0, 0, 0, 1, 1, 1])
    assert first == f"7\t{['no', 'yes', 'maybe'][int(expected.argmax())]}"
    assert second.startswith("9\t")


def test_another_tokenizer_is_refused(classifier, tmp_path, capsys):
    (tmp_path / "other.txt").write_text("\n".join([*WORDS[:-1], "x"]) + "\n")
    (tmp_path / "in.txt").write_text("w20\n")
    line = [
        "--model_dir",
        str(classifier[0]),
        "--input",
        str(tmp_path / "in.txt"),
        "--output",
        str(tmp_path / "out.tsv"),
    ]
    assert main([*line, "--tokenizer", str(tmp_path / "other.txt")]) == 2
    assert "the tokenizer is not that of" in capsys.readouterr().err
    assert main(line) == 2
    assert "Name it with --tokenizer" in capsys.readouterr().err
    assert not (tmp_path / "out.tsv").exists()
    assert main([*line, "--tokenizer", str(tmp_path / "other.txt"), "--allow_other_tokenizer"]) == 0
    assert "warning: " in capsys.readouterr().err


def test_disks_that_refuse(classifier, tmp_path, capsys):
    """One line, and nothing that looks like predictions."""
    (tmp_path / "in.txt").write_text("w20 w21\n" * 40)
    line = [
        "--model_dir",
        str(classifier[0]),
        "--tokenizer",
        str(classifier[1]),
        "--input",
        str(tmp_path / "in.txt"),
        "--quiet",
    ]
    before = names(tmp_path)
    for size, format in ((0, "tsv"), (300, "tsv"), (300, "jsonl")):
        with files_up_to(size):
            assert main([*line, "--output", str(tmp_path / "out"), "--format", format]) == 1
        said = capsys.readouterr().err.splitlines()
        assert said[-1] == f"pretrain predict: error: cannot write {tmp_path / 'out'}: File too large"
        assert names(tmp_path) == before
    with mounted(tmp_path / "ro", "ro") as folder:
        assert main([*line, "--output", str(folder / "out.tsv")]) == 2
        said = capsys.readouterr().err.splitlines()
        assert (
            said[-1]
            == f"pretrain predict: error: --output {folder / 'out.tsv'}: cannot be written: Read-only file system."
        )


def test_where_predictions_go_is_looked_at_first(classifier, tmp_path):
    (tmp_path / "in.txt").write_text("w20\n")
    (tmp_path / "sub").mkdir()
    for target, message in (
        ("in.txt", "in.txt is the input"),
        ("sub", "expected a file, found a folder"),
        ("in.txt/out.tsv", "cannot be written: File exists"),
    ):
        with pytest.raises(UsageError, match=message):
            run(classifier, tmp_path / "in.txt", tmp_path / target)
    with pytest.raises(UsageError, match=r"input: .*no\.txt does not exist"):
        run(classifier, tmp_path / "no.txt", tmp_path / "new.tsv")
    assert (tmp_path / "in.txt").read_text() == "w20\n"
    (tmp_path / "in.jsonl").write_text(json.dumps({"text": "w20", "id": "a\tb"}) + "\n")
    with pytest.raises(UsageError, match=r"the id 'a\\tb' has tabs or line breaks.*format='jsonl'"):
        run(classifier, tmp_path / "in.jsonl", tmp_path / "out.tsv")
    assert not (tmp_path / "out.tsv").exists()
    run(classifier, tmp_path / "in.jsonl", tmp_path / "new" / "out.jsonl", format="jsonl")
    assert json.loads((tmp_path / "new" / "out.jsonl").read_text())["index"] == "a\tb"


def test_scores_that_are_no_numbers(classifier, tmp_path):
    (tmp_path / "in.txt").write_text("w20\n")
    arrays = native.read_arrays(classifier[0])
    arrays["model/classifier/logits/kernel"][:] = np.nan
    info = native.read_info(classifier[0])
    native.write(classifier[0], arrays, info)
    with pytest.raises(DataError, match="the model's scores are not numbers"):
        run(classifier, tmp_path / "in.txt", tmp_path / "out.tsv")


def lines_of(head, format, *logits, texts=("x", "y")):
    """What is written for texts whose logits these are."""
    given = iter(np.array(logits, np.float32))
    batching = Batching(lambda batch: {"logits": np.stack([next(given) for _ in batch["input_ids"]])}, 1, LENGTH)
    predictor = SentencePredictor(batching, head, load_tokenizer("vocab.txt"))
    header, lines = row_lines(predictor, format)
    rows = [Row(str(i), text, "") for i, text in enumerate(texts)]
    return [
        *([header] if header else []),
        *(line for asked, each in predictor(rows) for line in lines(asked.name, each)),
    ]


def test_rows_of_each_kind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    number, labels = Head("regression", ("0",)), Head("multilabel", ("a", "b"))
    assert lines_of(number, "glue", [2.5], [5.1]) == ["index\tprediction", "0\t2.500", "1\t5.000"]
    assert lines_of(number, "tsv", [2.5], [5.1]) == ["index\tprediction", "0\t2.500", "1\t5.100"]
    many = lines_of(labels, "tsv", [1.0, -1.0], [2.0, 3.0])
    assert many == ["index\tprediction\ta\tb", "0\ta\t0.731059\t0.268941", "1\ta,b\t0.880797\t0.952574"]
    assert judge(labels, np.array([1.0, -1.0]))[1]["a"] == pytest.approx(1 / (1 + math.exp(-1)))
    with pytest.raises(UsageError, match="row 0 has an empty text"):
        lines_of(number, "glue", [1.0], texts=[" "])


def test_formats_fit_what_is_predicted():
    with pytest.raises(UsageError, match=r"format must be one of tsv, .*Did you mean jsonl\?"):
        check_format("json", "classifier")
    for format, head, what in (
        ("squad", "classifier", "classes"),
        ("glue", "span", "answers"),
        ("glue", "masked_lm", "masked"),
    ):
        with pytest.raises(UsageError, match=rf"format='{format}' has no place for {what}.*Use tsv or jsonl"):
            check_format(format, head)


@pytest.mark.parametrize("with_negative", [True, False])
def test_answers_to_questions(tmp_path, with_negative):
    path = squad_records(tmp_path, 12, with_negative)
    config = squad_experiment(path)
    task = QuestionAnsweringTask(config.task)
    batches = task.build_inputs(config.task.validation_data)
    stored(task, tmp_path / "model", config.task.model.encoder)
    predict(tmp_path / "model", str(path), tmp_path / "out", batch_size=5)
    answers = json.loads((tmp_path / "out" / "predictions.json").read_text())
    nbest = json.loads((tmp_path / "out" / "nbest_predictions.json").read_text())
    assert set(answers) == set(nbest) == {f"q{i}" for i in range(12)}
    assert batches.num_examples >= 12
    assert (tmp_path / "out" / "null_odds.json").exists() == with_negative
    for key, answer in answers.items():
        if with_negative:
            odds = json.loads((tmp_path / "out" / "null_odds.json").read_text())[key]
            assert answer == ("" if odds > 0 else next(entry["text"] for entry in nbest[key] if entry["text"]))
        else:
            assert answer == nbest[key][0]["text"] != ""


def test_answers_to_the_questions_of_a_json_file(tmp_path):
    """The same as of records that were made with the options of the training records; and the score, where there are answers."""
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    texts = [" ".join(f"w{20 + (7 * i + j) % 150}" for j in range(40)) for i in range(3)]
    questions = [{"id": f"q{i}", "question": "w11 w12 " * (1 + 4 * (i == 2))} for i in range(3)]
    questions[0]["answers"] = [{"text": texts[0], "answer_start": 0}]
    questions[1]["answers"] = [{"text": "nothing like it"}, "no answer at all"]
    questions[2] |= {"answers": [], "is_impossible": True}
    paragraphs = [{"context": text, "qas": [question]} for text, question in zip(texts, questions, strict=True)]
    (tmp_path / "in.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    config = squad_experiment(squad_records(tmp_path, 6))
    task = QuestionAnsweringTask(config.task)
    task.build_inputs(config.task.validation_data)
    facts = {"seq_length": LENGTH, "kind": "squad", "version_2_with_negative": True}
    facts |= {"doc_stride": 10, "max_query_length": 7}
    stored(task, tmp_path / "model", config.task.model.encoder, **facts)
    vocabulary = str(tmp_path / "vocab.txt")
    with messages() as said:
        done = predict(tmp_path / "model", tmp_path / "in.json", tmp_path / "out", tokenizer=vocabulary)
    assert f"{tmp_path}/in.json: an answer of question q1 has no text, and is not compared with" in said
    assert any(line.startswith("score of 3 questions: exact_match ") for line in said)
    assert "1 of 3 rows have a question that is longer than 7 tokens: their ends were cut" in said
    windows = (
        "windows of at most 32 tokens, a new one every 10; questions of at most 7 tokens: as in the training records"
    )
    assert windows in said
    nlpdata.create_finetuning(
        str(tmp_path / "in.json"), str(tmp_path / "made"), str(tmp_path / "vocab.txt"), task="squad", splits="test",
        max_seq_length=LENGTH, max_query_length=7, doc_stride=10, workers=1,
    )  # fmt: skip
    assert predict(tmp_path / "model", tmp_path / "made" / "test.tfrecord", tmp_path / "again").scores == {}
    for name in ("predictions.json", "nbest_predictions.json", "null_odds.json"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    for number, input in enumerate((tmp_path / "in.json", tmp_path / "made" / "test.tfrecord")):
        with messages() as said:
            predict(tmp_path / "model", input, tmp_path / f"two{number}", tokenizer=vocabulary, max_rows=2)
        assert "max_rows=2: later questions are not taken" in said
        scored = [line.partition(": exact_match ")[0] for line in said if line.startswith("score of")]
        assert scored == (["score of 2 questions"] if number == 0 else [])
        two, all_of_them = (
            json.loads((tmp_path / name / "predictions.json").read_text()) for name in (f"two{number}", "out")
        )
        assert two == {name: all_of_them[name] for name in ("q0", "q1")}
    nbest = json.loads((tmp_path / "out" / "nbest_predictions.json").read_text())
    assert all(entry["text"] in text for i, text in enumerate(texts) for entry in nbest[f"q{i}"])
    final = json.loads((tmp_path / "out" / "predictions.json").read_text())
    golds = {"q0": [texts[0]], "q1": ["nothing like it"], "q2": []}
    expected = squad_metrics(golds, final)  # a text with words scores as much by the rules of 1.1
    assert {name: done.scores[name] for name in expected} == pytest.approx(expected)
    assert done.scores["NoAns_f1"] == 100 * (final["q2"] == "")


def test_windows_that_validation_data_sets_are_taken_before_those_of_the_training_records(tmp_path):
    facts = {"doc_stride": 10, "max_query_length": 7}
    for given, expected in (
        ({}, (10, 7)),
        ({"doc_stride": None, "query_length": 64}, (10, 64)),
        ({"doc_stride": 12, "query_length": None}, (12, 7)),
    ):
        native.write(tmp_path / "model", {}, {"step": 1, "config": {"task": {"validation_data": given}}})
        found = answer_options(str(tmp_path / "model"), facts)
        assert (found.doc_stride, found.query_length) == expected
    found = answer_options(str(tmp_path / "model"), {})  # a checkpoint of an older version
    assert (found.doc_stride, found.query_length) == (12, 64)


def test_predictions_that_exist_are_refused_and_replaced_whole(classifier, tmp_path):
    source, target = tmp_path / "in.txt", tmp_path / "out.tsv"
    source.write_text("w20 w30\nw40\n")
    run(classifier, source, target)
    before = target.read_text()
    source.write_text("w50\n")
    with pytest.raises(UsageError, match=r"out\.tsv exists\. Use overwrite=True"):
        run(classifier, source, target)
    assert target.read_text() == before
    run(classifier, source, target, overwrite=True)
    assert len(target.read_text().splitlines()) == 2
    run(classifier, source, target, overwrite=True, format="jsonl")
    run(classifier, source, target, overwrite=True, format="glue")
    assert target.read_text().startswith("index\tprediction\n0\t")
    target.write_text("precious")
    with pytest.raises(UsageError, match="holds something else"):
        run(classifier, source, target, overwrite=True)
    target.unlink()
    target.symlink_to(tmp_path / "nowhere")
    for overwrite, message in ((False, "exists"), (True, "holds something else")):
        with pytest.raises(UsageError, match=message):
            run(classifier, source, target, overwrite=overwrite)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith(".")) == []


def test_a_model_without_a_head(tmp_path):
    native.write(tmp_path / "model", {"model/encoder/pooler/bias": np.zeros(3, np.float32)}, {"step": 0})
    with pytest.raises(UsageError, match="holds no fine-tuned head"):
        predict(tmp_path / "model", "x", "y")


def test_a_dry_run_is_near_the_run_which_says_as_json_what_it_did(classifier, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("".join(f"w20 w{21 + i % 60}\n" for i in range(300)))
    line = ["--model_dir", str(classifier[0]), "--tokenizer", str(classifier[1]), "--input", str(tmp_path / "in.txt")]
    line += ["--output", str(tmp_path / "out.tsv"), "--json"]

    def said(*more):
        assert main([*line, *more]) == 0
        return json.loads(capsys.readouterr().out)

    before = names(tmp_path)
    dry = said("--dry_run")
    assert names(tmp_path) == before
    assert dry["records"] == {"rows": 300}
    assert dry["basis"] == "estimated from the first 256 rows"
    assert (dry["reads"], dry["writes"]) == (
        {str(tmp_path / "in.txt"): (tmp_path / "in.txt").stat().st_size},
        [str(tmp_path / "out.tsv")],
    )
    done = said()
    assert (done["rows"], done["counters"]["rows"], done["format"]) == (300, 300, "tsv")
    assert dry["output_bytes"] == pytest.approx((tmp_path / "out.tsv").stat().st_size, rel=0.1)
    assert main([*line, "--dry_run"]) == 2
    assert "out.tsv exists. Use --overwrite" in capsys.readouterr().err
    assert said("--dry_run", "--overwrite")["replaces"] == [str(tmp_path / "out.tsv")]
    lines = (tmp_path / "out.tsv").read_text().splitlines()
    assert said("--dry_run", "--overwrite", "--max_rows=260")["records"] == {"rows": 260}
    assert said("--overwrite", "--max_predict_samples=3")["rows"] == 3
    assert (tmp_path / "out.tsv").read_text().splitlines() == lines[:4]
    (tmp_path / "few.txt").write_text("w20\nw21\n")
    few = [*line[:4], "--input", str(tmp_path / "few.txt"), "--output", "-"]
    assert main([*few, "--dry_run"]) == 0
    assert "estimated from all 2 rows." in capsys.readouterr().out
    assert main([*few, "--json"]) == 2
    assert "--json prints its object on standard output, and --output - the predictions" in capsys.readouterr().err
