"""Fine-tuning on small records, end to end: learns, scores every example once, and refuses what does not fit."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from keras import ops

import pretrain
from nlpdata.errors import DataError, UsageError
from pretrain.converters import native, read_checkpoint
from pretrain.data.batches import trimmed
from pretrain.data.sentences import sentence_batches
from pretrain.encoders.model import weights_by_path
from pretrain.settings.data_section import EvalTextDataConfig
from pretrain.tasks.sentence_prediction import SentencePredictionTask
from pretrain.training import run_experiment
from pretrain.training.engines.tensorflow_engine import TensorFlowEngine
from tests.messages import messages
from tests.pretrain.finetuning import LENGTH, examples, meta, records, sentence_experiment, write
from tests.pretrain.runs import changed, finish, process, tiny


def task_of(config) -> SentencePredictionTask:
    task = SentencePredictionTask(config.task)
    task.build_inputs(config.task.train_data)
    return task


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """(configuration, model_dir, metrics) of a run on 48 examples of three classes, whose batches differ in length."""
    folder = tmp_path_factory.mktemp("trained")
    config = sentence_experiment(records(folder / "train.tfrecord", 48))
    traced, close = [], TensorFlowEngine.close

    def closing(engine):
        traced.extend(step.experimental_get_tracing_count() for step in (engine._train, engine._validate))
        close(engine)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TensorFlowEngine, "close", closing)
        metrics = run_experiment(config, folder / "run", "train_and_eval")
    assert traced == [1, 1]  # each step once for all lengths
    return config, folder / "run", metrics


@pytest.mark.slow
def test_it_learns_a_few_dozen_examples(trained):
    assert trained[2]["accuracy"] == 1.0
    assert trained[2]["f1"] == 1.0
    assert trained[2]["examples"] == 48


@pytest.mark.slow
def test_the_score_depends_neither_on_the_batch_nor_on_replicas(trained, tmp_path):
    config, model_dir, _ = trained
    dev = records(tmp_path / "dev.tfrecord", 50, seed=5)
    config = changed(config, "task.validation_data", input_path=str(dev))
    two = changed(config, "runtime", distribution_strategy="mirrored", num_replicas=2)
    shutil.copytree(model_dir, tmp_path / "run")
    process_of_two = process(
        (changed(two, "task.validation_data", global_batch_size=8), tmp_path / "run", "eval")  # 50 = 6 * 8 + 2
    )
    scores = []
    for size in (1, 33):
        other = changed(config, "task.validation_data", global_batch_size=size)
        scores.append(run_experiment(other, model_dir, "eval"))
    code, said = finish(process_of_two)
    assert code == 0, said
    assert "mirrored over 2 logical CPU devices" in said
    of_two = json.loads((tmp_path / "run" / "eval_results.json").read_text())
    scores.append({name: value for name, value in of_two.items() if name != "step"})
    assert [score["examples"] for score in scores] == [50] * 3
    assert 0.3 < scores[0]["f1"] < 1
    for score in scores[1:]:
        assert score == pytest.approx(scores[0], rel=1e-5)
    report = json.loads((model_dir / "eval_report.json").read_text())
    assert report["step"] == 150
    assert sum(each["support"] for each in report["classes"]) == 50
    assert report["macro"]["f1"] == pytest.approx(scores[0]["f1"], rel=1e-5)
    assert len(report["errors"]) == 50 - round(50 * scores[0]["accuracy"])
    assert all(error["label"] != error["prediction"] for error in report["errors"])
    labels = examples(50, seed=5)["label_ids"][:, 0]
    assert [error["label"] for error in report["errors"]] == [
        ("no", "yes", "maybe")[labels[error["record"]]] for error in report["errors"]
    ]
    by_two = json.loads((tmp_path / "run" / "eval_report.json").read_text())
    assert [error["id"] for error in by_two["errors"]] == [error["id"] for error in report["errors"]]


@pytest.mark.parametrize("given", ["dev_matched.tfrecord,{}/dev_mismatched.tfrecord", "dev_*.tfrecord"])
def test_several_files_are_scored_each_for_itself(tmp_path, given):
    """Also by their pattern, and where a record is left out."""
    matched = examples(8, seed=1)
    matched["label_ids"][3] = 9
    write(tmp_path / "dev_matched.tfrecord", matched, meta())
    mismatched = examples(6, seed=2)
    write(tmp_path / "dev_mismatched.tfrecord", mismatched, meta())
    config = sentence_experiment(records(tmp_path / "train.tfrecord", 4), f"{tmp_path}/{given.format(tmp_path)}")
    options = {**vars(config.task.validation_data), "on_bad_row": "skip"}
    config = changed(config, "task", validation_data=EvalTextDataConfig(**options))
    task = SentencePredictionTask(config.task)
    batch = task.build_inputs(config.task.validation_data).batch(0)
    real = batch["is_real_example"] == 1
    outputs = {"record": batch["record"][real], "label": batch["label_ids"][real]}
    predicted = np.where(
        outputs["record"] == 8, (outputs["label"] + 1) % 3, outputs["label"]
    )  # one wrong in the second
    state = {"prediction_loss": 1, "weight": 13, "correct": 12, "examples": 13}
    metrics = task.reduce_aggregated_logs(task.aggregate_logs(None, state, outputs | {"logits": np.eye(3)[predicted]}))
    shown = [metrics[name] for name in ("accuracy", "accuracy_matched", "accuracy_mismatched")]
    assert shown == pytest.approx([12 / 13, 1, 5 / 6])
    assert task.metrics()["f1_mismatched"] == "higher"
    assert ("f1_matched" in config.task.metrics()) == ("," in given)  # before the data is known


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "metric"), [("regression", "pearson"), ("multilabel", "f1")])
def test_other_kinds_learn_too_and_are_known_again(tmp_path, kind, metric):
    """A run that is read again knows its kind without being told (IntelLabs/nlp-architect PR 95 lost it), and scores longer records
    of the same examples the same, which it says."""
    encoder = tiny("bert", dropout=0.0, max_position_embeddings=40)
    config = sentence_experiment(records(tmp_path / "train.tfrecord", 48, kind), steps=250, encoder=encoder)
    metrics = run_experiment(config, tmp_path / "run", "train_and_eval")
    assert metrics[metric] > 0.97
    assert config.task.kind is None
    columns = {
        name: np.pad(values, ((0, 0), (0, 8))) if values.shape[1] == 32 else values
        for name, values in examples(48, kind).items()
    }
    longer = write(tmp_path / "longer.tfrecord", columns, meta(kind, max_seq_length=40))
    few = changed(config, "trainer", evaluation_errors=3)
    few = changed(few, "task.validation_data", input_path=str(longer))
    with messages() as said:
        assert run_experiment(few, tmp_path / "run", "eval") == pytest.approx(metrics, rel=1e-6)
    assert [line for line in said if "max_seq_length 40, those of its training max_seq_length 32" in line]
    assert any(line.startswith("report of the evaluation") and "eval_errors.tsv" in line for line in said)
    report = json.loads((tmp_path / "run" / "eval_report.json").read_text())
    assert report["kind"] == kind
    if kind == "regression":
        assert [len(report["errors"]), "classes" in report] == [3, False]
        found = [abs(error["error"]) for error in report["errors"]]
        assert found == sorted(found, reverse=True)
        assert found[0] ** 2 > metrics["mean_squared_error"]
    else:
        assert report["micro"]["f1"] == pytest.approx(metrics["f1"])
    checkpoint = read_checkpoint(str(tmp_path / "run"))
    assert checkpoint.head.kind == kind
    model, columns = pretrain.load(str(tmp_path / "run")), examples(48, kind)
    logits = model({name: columns[name].astype(np.int32) for name in ("input_ids", "input_mask", "segment_ids")})[
        "logits"
    ]
    logits = ops.convert_to_numpy(logits)
    if kind == "regression":
        assert np.corrcoef(logits[:, 0], columns["label_ids"][:, 0])[0, 1] == pytest.approx(
            metrics["pearson"], rel=1e-5
        )
    else:
        assert np.mean(np.all((logits > 0) == columns["label_ids"], axis=1)) == pytest.approx(metrics["accuracy"])


@pytest.mark.slow
def test_eval_refuses_classes_in_another_order(trained, tmp_path):
    config, model_dir, _ = trained
    dev = records(tmp_path / "dev.tfrecord", 8, label_names=["yes", "no", "maybe"])
    other = changed(config, "task.validation_data", input_path=str(dev))
    with pytest.raises(UsageError, match="label_names no, yes, maybe, the records have yes, no, maybe"):
        run_experiment(other, model_dir, "eval")


@pytest.mark.slow
def test_start_from_the_run(trained, tmp_path):
    config, model_dir, _ = trained
    own = task_of(changed(config, "task", init_checkpoint=str(model_dir)))
    model = own.build_model(seed=9)
    report = own.initialize(model)
    assert not report.missing
    stored = read_checkpoint(str(model_dir)).weights["classifier/logits/kernel"]
    assert np.array_equal(weights_by_path(model)["classifier/logits/kernel"].numpy(), stored)
    two = records(tmp_path / "two.tfrecord", 16, classes=2)
    own = task_of(sentence_experiment(two, init_checkpoint=str(model_dir)))
    with messages() as said:
        report = own.initialize(own.build_model(seed=9))
    assert "classifier/logits/kernel" in report.missing
    assert "it tells classification with no, yes, maybe, not classification with no, yes" in "\n".join(said)


# ---------------------------------------------------------------------------------------------------------------- batches


def test_batches_are_cut_to_their_longest_example(tmp_path):
    columns = examples(20)
    config = sentence_experiment(write(tmp_path / "a.tfrecord", columns, meta()), batch=4)
    batches, labels = sentence_batches(config.task.validation_data, config.task)
    assert (labels.kind, labels.num_classes, labels.names) == ("classification", 3, ("no", "yes", "maybe"))
    for step in range(batches.steps_per_epoch):
        batch = batches.batch(step)
        longest = columns["input_mask"][step * 4 : step * 4 + 4].sum(axis=1).max()
        assert batch["input_ids"].shape == (4, -(-longest // 8) * 8) == batch["segment_ids"].shape
        assert batch["input_mask"].sum() == columns["input_mask"][step * 4 : step * 4 + 4].sum()
    untrimmed = replace(config.task.validation_data, trim_padding=False)
    assert sentence_batches(untrimmed, config.task)[0].batch(0)["input_ids"].shape == (4, LENGTH)


def test_trimming_an_odd_length_keeps_all():
    batch = {name: np.ones((2, 30), np.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    batch["label_ids"] = np.ones((2, 30), np.int32)
    batch["input_mask"][:, 9:] = 0
    assert trimmed(batch)["input_ids"].shape == (2, 16)
    assert trimmed(batch)["label_ids"].shape == (2, 30)
    batch["input_mask"][:] = 1
    assert trimmed(batch)["input_ids"].shape == (2, 30)


def test_records_that_pad_count_nowhere(tmp_path):
    columns = examples(10)
    columns["is_real_example"][7:] = 0
    config = sentence_experiment(write(tmp_path / "a.tfrecord", columns, meta()), batch=8)
    batches, _ = sentence_batches(config.task.validation_data, config.task)
    assert [batches.batch(step)["is_real_example"].tolist() for step in (0, 1)] == [[1] * 7 + [0], [0] * 8]


# ------------------------------------------------------------------------------------------------------------------- loss


def cross_entropies(logits, targets):
    shifted = logits - logits.max(-1, keepdims=True)
    return -(targets * (shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))).sum(-1)


def test_losses_equal_numpy(tmp_path):
    weights = [1.0, 2.0, 0.5]
    path = records(tmp_path / "a.tfrecord", 12)
    config = sentence_experiment(path, batch=12, class_weights=weights, label_smoothing=0.1)
    task = SentencePredictionTask(config.task)
    batch = task.build_inputs(config.task.validation_data).batch(0)
    batch["is_real_example"][-2:] = 0
    logits = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
    sums, statistics = task._losses(ops.convert_to_tensor(logits), batch)
    targets = np.eye(3)[batch["label_ids"]] * 0.9 + 0.1 / 3
    example = np.array(weights)[batch["label_ids"]] * batch["is_real_example"]
    assert float(sums["prediction"]) == pytest.approx((example * cross_entropies(logits, targets)).sum(), rel=1e-5)
    assert task.denominators(batch)["prediction"] == pytest.approx(example.sum())
    assert float(statistics["weight"]) == pytest.approx(example.sum())
    assert float(statistics["examples"]) == 10
    right = (logits.argmax(-1) == batch["label_ids"])[:10].sum()
    assert float(statistics["correct"]) == right


def test_examples_count_once(tmp_path):
    task = task_of(sentence_experiment(records(tmp_path / "a.tfrecord", 16, classes=2)))
    logits = np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    state = None
    for record, label in (([0, 1, 2], [1, 1, 1]), ([2, 2, 2], [1, 1, 1])):
        outputs = {"record": np.array(record), "label": np.array(label), "logits": logits}
        state = task.aggregate_logs(
            state, {"prediction_loss": 1.0, "weight": 3.0, "examples": 3, "correct": 2}, outputs
        )
    assert task.reduce_aggregated_logs(state)["accuracy"] == pytest.approx(2 / 3)


def test_labels_and_predictions_of_one_class_are_told(tmp_path, caplog):
    task = task_of(sentence_experiment(records(tmp_path / "a.tfrecord", 16, classes=2)))
    statistics = {"prediction_loss": 1.0, "weight": 16.0, "examples": 16, "correct": 8}

    def told(labels, predictions):
        caplog.clear()
        outputs = {"record": np.arange(16), "label": labels, "logits": np.eye(2)[predictions]}
        with caplog.at_level("INFO"):
            task.reduce_aggregated_logs(task.aggregate_logs(None, statistics, outputs))
        return [(record.levelname, record.message.partition(",")[0]) for record in caplog.records]

    mixed, zeros = np.arange(16) % 2, np.zeros(16, int)
    (warning,), (info,) = told(zeros, mixed), told(mixed, zeros)
    assert warning[0] == "WARNING"
    assert warning[1].startswith("evaluation: all 16 examples are of class")
    assert info[0] == "INFO"
    assert info[1].startswith("evaluation: all 16 predictions are")
    assert told(mixed, mixed) == []


# ------------------------------------------------------------------------------------------------------- pooler and start


@pytest.mark.parametrize("use_encoder_pooler", [True, False])
def test_the_pooler_comes_from_a_sentence_pair_head(tmp_path, use_encoder_pooler):
    path = records(tmp_path / "a.tfrecord", 16)
    own = {"model": {"use_encoder_pooler": use_encoder_pooler}, "init_cls_pooler": not use_encoder_pooler}
    task = task_of(sentence_experiment(path, init_checkpoint=str(tmp_path / "start"), **own))
    model = task.build_model()
    kernel = np.random.default_rng(0).normal(size=(32, 32)).astype(np.float32)
    weights = {p: w.numpy() for p, w in weights_by_path(model).items() if "pooler" not in p}
    weights = {p: w for p, w in weights.items() if not p.startswith("classifier")}
    weights |= {"sentence_pair/pooler/kernel": kernel, "sentence_pair/pooler/bias": kernel[0]}
    info = {"step": 0, "data": {}}
    native.write(tmp_path / "start", {f"model/{p}": w for p, w in weights.items()}, info)
    with messages() as said:
        task.initialize(model)
    target = "encoder/pooler" if use_encoder_pooler else "classifier/pooler"
    assert np.array_equal(weights_by_path(model)[f"{target}/kernel"].numpy(), kernel)
    assert f"{target} starts from the checkpoint's sentence_pair/pooler" in said[-1]


def test_a_checkpoint_without_encoder(tmp_path):
    path = records(tmp_path / "a.tfrecord", 16)
    task = task_of(sentence_experiment(path, init_checkpoint=str(tmp_path / "start")))
    arrays = {"model/classifier/logits/kernel": np.zeros((32, 3), np.float32)}
    native.write(tmp_path / "start", arrays, {"step": 0, "data": {}})
    with pytest.raises(UsageError, match="holds no encoder"):
        task.initialize(task.build_model())


def test_two_poolers_are_one_too_many(tmp_path):
    with pytest.raises(UsageError, match=r"init_cls_pooler is true, and so is model\.use_encoder_pooler"):
        sentence_experiment("x", init_cls_pooler=True)


# -------------------------------------------------------------------------------------------------------------- bad input


def refused(config, match, error=UsageError):
    with pytest.raises(error, match=match):
        task_of(config)


def test_records_of_another_task(tmp_path):
    path = records(tmp_path / "a.tfrecord", 16, task_type="bert_squad")
    refused(sentence_experiment(path), r"task_type 'bert_squad'; sentence prediction learns from classification")
    path = records(tmp_path / "b.tfrecord", 16, "regression")
    refused(sentence_experiment(path, kind="classification"), r"of a regression task .*task\.kind says classification")
    path = records(tmp_path / "c.tfrecord", 16)
    refused(
        sentence_experiment(path, model={"num_classes": 2}), r"have 3 classes \(no, yes, maybe\), .*num_classes says 2"
    )


def test_regression_labels_in_a_classification(tmp_path):
    path = write(tmp_path / "a.tfrecord", examples(16, "regression"), meta())
    refused(sentence_experiment(path), r"are numbers \(float32\), but the task is classification")


def test_a_label_out_of_range(tmp_path):
    columns = examples(16)
    columns["label_ids"][0] = 7
    path = write(tmp_path / "a.tfrecord", columns, meta())
    refused(sentence_experiment(path), r"a\.tfrecord.*label_ids holds 7, expected 0 to 2 \(3 classes\)", DataError)


@pytest.mark.parametrize(
    ("kind", "bad", "words"),
    [
        ("classification", -1, r"0 to 2 \(3 classes\)"),
        ("regression", np.nan, "a number"),
        ("multilabel", -1, "0 or 1 for each"),
    ],
)
def test_records_whose_labels_cannot_be_used(tmp_path, kind, bad, words):
    """A hidden label is an error, or the record is left out, counted, and keeps its number."""
    columns = examples(32, kind)
    columns["label_ids"][[0, 5, 31], 0] = bad
    path = write(tmp_path / "a.tfrecord", columns, meta(kind))
    refused(
        sentence_experiment(path),
        rf"label_ids holds (-1|nan), expected {words}.*task\.train_data\.on_bad_row=skip",
        DataError,
    )
    data = EvalTextDataConfig(input_path=str(path), global_batch_size=8, on_bad_row="skip")
    with messages() as said:
        batches, _ = sentence_batches(data, sentence_experiment(path).task)
    assert batches.num_examples == 29
    assert any("left out 3 of 32 records" in line for line in said)
    found = [batches.batch(step) for step in range(batches.steps_per_epoch)]
    real = np.concatenate([batch["is_real_example"] for batch in found]) == 1
    used = [i for i in range(32) if i not in (0, 5, 31)]
    assert np.concatenate([batch["record"] for batch in found])[real].tolist() == used
    labels = np.concatenate([batch["label_ids"] for batch in found])[real]
    np.testing.assert_array_equal(labels.reshape(29, -1), columns["label_ids"][used])
    write(path, columns | {"label_ids": np.full_like(columns["label_ids"], bad)}, meta(kind))
    with pytest.raises(DataError, match="no example is left without 32 of 32 records"):
        sentence_batches(data, sentence_experiment(path).task)


def test_records_without_labels_or_meta_file(tmp_path):
    columns = examples(16)
    del columns["label_ids"]
    refused(
        sentence_experiment(write(tmp_path / "a.tfrecord", columns, meta())), r"have no label_ids.*pretrain predict"
    )
    path = write(tmp_path / "b.tfrecord", examples(16))
    refused(sentence_experiment(path), r"no meta file says how many classes.*task\.model\.num_classes")
    assert task_of(sentence_experiment(path, model={"num_classes": 3}))._labels.num_classes == 3


def test_lengths_and_ids_that_do_not_fit_the_model(tmp_path):
    path = records(tmp_path / "a.tfrecord", 16)
    short = tiny("bert", max_position_embeddings=16)
    refused(sentence_experiment(path, encoder=short), r"max_seq_length 32, the model max_position_embeddings\s+16")
    refused(
        sentence_experiment(path, encoder=tiny("bert", vocab_size=50)),
        r"input_ids holds \d+, expected 0 to 49",
        DataError,
    )
    config = changed(sentence_experiment(path), "task.train_data", seq_length=128)
    refused(config, r"have max_seq_length 32, task\.train_data\.seq_length says 128.*--max_seq_length=32")


def test_train_and_validation_data_of_different_labels(tmp_path):
    train = records(tmp_path / "a.tfrecord", 16)
    dev = records(tmp_path / "b.tfrecord", 16, label_names=["maybe", "no", "yes"])
    config = sentence_experiment(train, dev)
    task = task_of(config)
    with pytest.raises(
        UsageError, match="its labels are classification with maybe, no, yes, those of the training data"
    ):
        task.build_inputs(config.task.validation_data)


def test_class_weights_that_do_not_fit(tmp_path):
    path = records(tmp_path / "a.tfrecord", 16)
    refused(sentence_experiment(path, class_weights=[1.0, 2.0]), r"class_weights has 2 numbers.*3 classes")


def test_an_empty_evaluation_set(tmp_path):
    path = tmp_path / "a.tfrecord"
    path.write_bytes(b"")
    refused(sentence_experiment(path), "no examples in", DataError)
