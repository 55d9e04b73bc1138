"""Runs of a tiny model: modes, what a run writes, what it reports, where it stops."""

import itertools
import json
import re
import shutil
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.reports.run_facts import read_run
from pretrain.converters import assign, native, read_checkpoint
from pretrain.converters.write import write_checkpoint
from pretrain.data import example_digest, pretraining_batches
from pretrain.registry import OPTIMIZERS
from pretrain.settings.fields import Choice
from pretrain.settings.trainer_section import TrainerConfig
from pretrain.training import run_experiment
from pretrain.training.checkpoints.manager import BestCheckpoint
from tests.disks import files_up_to
from tests.messages import messages
from tests.pretrain.runs import ROOT, changed, curve, experiment, lines, run, tiny


@pytest.fixture(scope="module")
def config(record_sets):
    return experiment(record_sets["static"], eval_path=record_sets["dynamic"])


def checkpoint_data(model_dir):
    return native.read_info(native.finished(model_dir / "checkpoints")[-1])["data"]


@pytest.fixture(scope="module")
def finished(config, tmp_path_factory):
    """(model_dir, what was said, metrics) of a run of 6 steps with evaluations and a best checkpoint. Read only."""
    model_dir = tmp_path_factory.mktemp("finished") / "run"
    trainer = {
        "checkpoint_interval": 2, "max_to_keep": 2, "validation_interval": 3, "best_checkpoint_export_subdir": "best",
        "best_checkpoint_eval_metric": "masked_lm_loss",
    }  # fmt: skip
    with messages() as said:
        metrics = run_experiment(changed(config, "trainer", **trainer), model_dir, "train_and_eval")
    return model_dir, said, metrics


def test_what_a_run_writes(finished):
    model_dir, _, metrics = finished
    train, evaluations = lines(model_dir), lines(model_dir, "eval")
    assert [line["step"] for line in train] == [1, 2, 3, 4, 5, 6]
    assert [line["step"] for line in evaluations] == [3, 6]
    for line in train:
        assert line["loss"] == pytest.approx(line["masked_lm_loss"] + line["next_sentence_loss"])
        assert {
            "learning_rate",
            "masked_lm_accuracy",
            "next_sentence_accuracy",
            "tokens_per_second",
            "padding",
        } <= line.keys()
    assert train[-1]["loss"] < train[0]["loss"]
    assert metrics == {name: value for name, value in evaluations[-1].items() if name not in ("step", "split")}
    assert json.loads((model_dir / "eval_results.json").read_text()) == {"step": 6, **metrics}
    assert [folder.name for folder in native.finished(model_dir / "checkpoints")] == ["step-00000004", "step-00000006"]
    assert (model_dir / "loss.png").exists()
    about = read_run(model_dir)
    model = read_checkpoint(str(model_dir))
    assert about.about["parameters"] == sum(weight.size for weight in model.weights.values())
    assert about.encoder == (model.encoder.type, asdict(model.encoder.options))
    assert about.about["stages"][0]["records"]["counters"]["examples"] == about.about["stages"][0]["examples"]
    assert (
        about.about["stages"][0]["steps_per_epoch"]
        == about.about["stages"][0]["examples"] // about.about["stages"][0]["batch_size"]
    )
    assert about.evaluated_on["records"]["options"]["masking"] == "dynamic"
    assert [about.evaluations["loss"].points, about.results["loss"]] == [
        tuple((line["step"], line["loss"]) for line in evaluations),
        metrics["loss"],
    ]
    assert list((model_dir / "tensorboard" / "train").iterdir())
    assert list((model_dir / "tensorboard" / "eval").iterdir())
    best = min(evaluations, key=lambda line: line["masked_lm_loss"])
    assert [folder.name for folder in native.finished(model_dir / "best")] == [f"step-{best['step']:08d}"]
    assert native.read_info(native.finished(model_dir / "best")[0])["best"] == {
        "masked_lm_loss": best["masked_lm_loss"]
    }


def test_what_a_checkpoint_knows(finished):
    info = native.read_info(native.finished(finished[0] / "checkpoints")[-1])
    assert info["step"] == 6
    assert info["seed"] == 12345
    assert info["cores"] >= 1
    assert info["backend"] == "tensorflow"
    assert info["versions"]["keras"]
    assert info["data"]["batch_size"] == 16
    assert len(info["data"]["tokenizer_sha256"]) == 64
    assert info["encoder"]["type"] == "albert"
    assert info["config"]["trainer"]["train_steps"] == 6
    names = native.read_arrays(native.finished(finished[0] / "checkpoints")[-1])
    assert {name.split("/")[0] for name in names} == {"model", "optimizer"}
    assert names["optimizer/adamw/iteration"] == 6


def test_evaluation_is_right_by_plain_arithmetic(finished, config):
    """Every example once, padding never: sums over the records, one by one, against the logged metrics."""
    from pretrain.tasks.pretraining import PretrainingTask

    model_dir, _, metrics = finished
    task = PretrainingTask(config.task)
    model = task.build_model()
    assign(model, read_checkpoint(model_dir))
    data = pretraining_batches(replace(config.task.validation_data, global_batch_size=149), config.task)
    assert data.num_examples == 149 * 4 == metrics["examples"]
    right = weight = loss = pairs = 0.0
    for step in range(4):
        batch = data.batch(step)
        outputs = model(batch)
        logits = np.asarray(outputs["mlm_logits"], np.float64)
        log_z = np.log(np.exp(logits).sum(-1))
        labels, weights = batch["masked_lm_ids"], batch["masked_lm_weights"]
        loss += ((log_z - np.take_along_axis(logits, labels[..., None], -1)[..., 0]) * weights).sum()
        right += ((logits.argmax(-1) == labels) * weights).sum()
        weight += weights.sum()
        pairs += (np.asarray(outputs["sentence_logits"]).argmax(-1) == batch["next_sentence_labels"][:, 0]).sum()
    assert metrics["masked_lm_accuracy"] == pytest.approx(right / weight, abs=1e-9)
    assert metrics["next_sentence_accuracy"] == pytest.approx(pairs / 596, abs=1e-9)
    assert metrics["masked_lm_loss"] == pytest.approx(loss / weight, rel=1e-5)


def test_steps_already_done_are_said(finished, config, record_sets):
    before = (finished[0] / "metrics.jsonl").read_bytes()
    said = run(config, finished[0])
    assert any("nothing to do" in line and "step 6" in line and "6 steps" in line for line in said)
    assert (finished[0] / "metrics.jsonl").read_bytes() == before


def test_evaluation_of_a_finished_run(finished, config, tmp_path):
    shutil.copytree(finished[0], tmp_path / "run")
    metrics = run_experiment(config, tmp_path / "run", "eval")
    assert metrics == pytest.approx(finished[2])
    assert [line["step"] for line in lines(tmp_path / "run", "eval")] == [3, 6]  # it says nothing new
    few = changed(config, "trainer", validation_steps=2)
    assert run_experiment(few, tmp_path / "run", "eval")["examples"] == 32
    assert [line["examples"] for line in lines(tmp_path / "run", "eval")] == [596, 596, 32]


def test_evaluation_in_a_wrong_model_dir(config, tmp_path):
    with pytest.raises(UsageError, match=rf"nothing to evaluate: {tmp_path} holds no checkpoint"):
        run(config, tmp_path, "eval")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("eagerly")
def test_evaluation_before_any_step_is_warned_of(finished, config, tmp_path):
    """google-research/google-research#1717."""
    few = changed(config, "trainer", validation_steps=1)
    said = run(changed(few, "task", init_checkpoint=str(finished[0])), tmp_path, "eval")
    assert any("warning: step 0" in line and str(finished[0]) in line for line in said)


@pytest.mark.usefixtures("eagerly")
def test_init_checkpoint_starts_at_0_and_a_checkpoint_resumes(finished, config, tmp_path):
    """NVIDIA/DeepLearningExamples#170: which of the two carries the step."""
    start = changed(config, "task", init_checkpoint=str(finished[0]))
    start = changed(start, "trainer", train_steps=2)
    said = run(start, tmp_path)
    assert any("step 0, from the weights of" in line for line in said)
    assert any("weights matched" in line for line in said)
    first = lines(tmp_path)
    assert [line["step"] for line in first] == [1, 2]
    assert first[0]["loss"] < lines(finished[0])[0]["loss"] - 0.1
    said = run(changed(start, "trainer", train_steps=4), tmp_path)
    assert any("init_checkpoint" in line and "is not used: the run resumes from" in line for line in said)
    assert any("after step 2 of 4" in line for line in said)
    assert [line["step"] for line in lines(tmp_path)] == [1, 2, 3, 4]


@pytest.mark.parametrize("mode", ["train", "train_and_eval", "eval", "validate_only"])
def test_a_run_whose_checkpoints_are_all_damaged_is_left_as_it_is(finished, config, tmp_path, mode):
    shutil.copytree(finished[0], tmp_path / "run")
    for folder, file in zip(
        native.finished(tmp_path / "run" / "checkpoints"), (native.INFO, native.ARRAYS), strict=True
    ):
        (folder / file).write_bytes(b"")
    before = {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()}
    with pytest.raises(DataError, match=r"(?s)step-00000006 is damaged.*step-00000004.*another model_dir"):
        run(changed(config, "task", init_checkpoint=str(finished[0])), tmp_path / "run", mode)
    assert {path: path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file()} == before


@pytest.mark.usefixtures("eagerly")
def test_a_damaged_newest_checkpoint_costs_only_its_steps(finished, config, tmp_path):
    """google-research/bert#364, too: a resumed run does not warm up again; the rate of every step is in metrics.jsonl."""
    rates = [rate for _, rate, _ in curve(finished[0]).values()]
    assert rates[0] == 0
    assert rates[2] == max(rates)
    assert rates[-1] == pytest.approx(1e-3 / 4, rel=1e-5)
    shutil.copytree(finished[0], tmp_path / "run")
    state = tmp_path / "run" / "checkpoints" / "step-00000006" / native.ARRAYS
    state.write_bytes(state.read_bytes()[:-9])
    said = run(changed(config, "trainer", max_to_keep=1), tmp_path / "run")
    assert any("step-00000006 is damaged" in line and "the one before is used" in line for line in said)
    assert any("after step 4 of 6" in line for line in said)
    assert curve(tmp_path / "run") == {  # to the last bit: test_resume
        step: (pytest.approx(loss, rel=1e-5), rate, digest) for step, (loss, rate, digest) in curve(finished[0]).items()
    }
    (left,) = native.finished(tmp_path / "run" / "checkpoints")
    assert native.read_info(left)["step"] == 6
    assert native.read_arrays(left)


@pytest.mark.usefixtures("eagerly")
def test_resume_at_step_1000_of_1001_takes_one_step(finished, config, tmp_path):
    """huggingface/transformers#8876: the data's position is computed, not replayed."""
    newest = native.finished(finished[0] / "checkpoints")[-1]
    info = native.read_info(newest) | {"step": 1000}
    native.write(tmp_path / "checkpoints" / "step-00001000", native.read_arrays(newest), info)
    said = run(changed(config, "trainer", train_steps=1001, log_example_digest=True), tmp_path)
    assert any("after step 1000 of 1001" in line for line in said)
    (line,) = lines(tmp_path)
    assert line["step"] == 1001
    assert line["example_digest"] == example_digest(
        pretraining_batches(config.task.train_data, config.task).batch(1000)
    )


@pytest.mark.usefixtures("eagerly")
def test_encoder_only_into_a_model_with_heads(finished, config, tmp_path):
    weights = {f"model/{k}": v for k, v in read_checkpoint(finished[0]).weights.items() if k.startswith("encoder/")}
    native.write(tmp_path / "encoder", weights, {"step": 6})
    start = changed(config, "task", init_checkpoint=str(tmp_path / "encoder"))
    printed = "\n".join(run(changed(start, "trainer", train_steps=1), tmp_path / "run"))
    assert f"{len(weights)} weights matched" in printed
    assert "masked_lm/output_bias" in printed


def test_a_run_of_another_model_is_not_resumed(finished, config, tmp_path):
    bigger = changed(config, "task", model=replace(config.task.model, encoder=tiny(hidden_size=48)))
    with pytest.raises(
        DataError,
        match=r"does not fit this model(.|\n)*in the checkpoint \(32, 32\)(.|\n)*Changed since the run began: .*hidden_size",
    ):
        run(changed(bigger, "trainer", train_steps=8), finished[0])


@pytest.mark.usefixtures("eagerly")
def test_records_of_another_tokenizer_do_not_resume(finished, config, record_sets, tmp_path):
    """google-research/electra#50."""
    for path in Path(record_sets["static"]).parent.glob("static*"):
        shutil.copy(path, tmp_path)
    meta = json.loads((tmp_path / "static.meta.json").read_text())
    meta["tokenizer"]["sha256"] = "f" * 64
    (tmp_path / "static.meta.json").write_text(json.dumps(meta))
    other = changed(config, "task.train_data", input_path=str(tmp_path / "static.tfrecord*"))
    with pytest.raises(UsageError, match=r"the tokenizer is not that of .*: sha256 ffffffffffff"):
        run(changed(other, "trainer", train_steps=8), finished[0])
    with pytest.raises(UsageError, match=r"the tokenizer is not that of .*: sha256 ffffffffffff"):
        run(changed(other, "task", init_checkpoint=str(finished[0])), tmp_path / "new")
    (tmp_path / "static.tokenizer.model").unlink()  # which is not of this sha256, and would not be kept
    other = changed(other, "trainer", train_steps=1)
    said = run(changed(other, "task", init_checkpoint=str(finished[0]), allow_other_tokenizer=True), tmp_path / "new")
    assert any(line.startswith("warning: ") and "sha256 ffffffffffff" in line for line in said)


@pytest.mark.usefixtures("eagerly")
def test_records_of_two_tokenizers_do_not_train_and_validate(config, record_sets, tmp_path):
    for path in Path(record_sets["static"]).parent.glob("static*"):
        shutil.copy(path, tmp_path)
    meta = json.loads((tmp_path / "static.meta.json").read_text())
    meta["tokenizer"]["do_lower_case"] = not meta["tokenizer"]["do_lower_case"]
    (tmp_path / "static.meta.json").write_text(json.dumps(meta))
    other = changed(config, "task.validation_data", input_path=str(tmp_path / "static.tfrecord*"))
    for mode in ("train_and_eval", "validate_only"):
        with pytest.raises(
            UsageError, match=r"task.validation_data were made with another tokenizer .*do_lower_case is"
        ):
            run(other, tmp_path / "new", mode)
    said = run(changed(other, "task", allow_other_tokenizer=True), tmp_path / "new", "compile_only")
    assert any(line.startswith("warning: ") and "do_lower_case is" in line for line in said)


def test_records_of_another_objective_are_not_evaluated(finished, config, record_sets, tmp_path):
    for path in Path(record_sets["static"]).parent.glob("static*"):
        shutil.copy(path, tmp_path)
    meta = json.loads((tmp_path / "static.meta.json").read_text())
    assert (meta["objective"], checkpoint_data(finished[0])["objective"]) == ("sop", "sop")
    (tmp_path / "static.meta.json").write_text(json.dumps(meta | {"objective": "nsp", "task_type": "bert_pretraining"}))
    other = changed(config, "task.validation_data", input_path=str(tmp_path / "static.tfrecord*"))
    with pytest.raises(
        UsageError, match=r"task.validation_data has sentence pairs of objective nsp, task.train_data those"
    ):
        run(other, tmp_path / "new", "validate_only")
    with pytest.raises(
        UsageError, match="was trained with sentence pairs of objective sop, the records have those of nsp"
    ):
        run(other, finished[0], "eval")


@pytest.mark.usefixtures("eagerly")
def test_records_of_another_tokenizer_do_not_start_from_any_checkpoint(finished, config, tmp_path):
    """A folder of Hugging Face's with a vocabulary of its own, and the records of either section."""
    write_checkpoint(tmp_path / "hf", read_checkpoint(str(finished[0])), "hf")
    start = changed(config, "task", init_checkpoint=str(tmp_path / "hf"))
    said = run(start, tmp_path / "run", "compile_only")
    for section in ("train_data", "validation_data"):
        line = f"the records of task.{section}: not checked against the tokenizer of {tmp_path / 'hf'}: no tokenizer is"
        assert any(line in each for each in said)
    shutil.copy(finished[0] / "spiece.model", tmp_path / "hf")
    shutil.copy(finished[0] / "spiece.tokenizer.json", tmp_path / "hf")
    assert not any("tokenizer" in line for line in run(start, tmp_path / "run", "compile_only"))
    (tmp_path / "hf" / "spiece.tokenizer.json").unlink()
    (tmp_path / "hf" / "spiece.model").unlink()
    (tmp_path / "hf" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
    for mode in ("train", "eval", "train_and_eval", "validate_only"):
        with pytest.raises(
            UsageError, match=r"records of task\..*_data: the tokenizer is not that of .*/hf, .*pieces, not 6"
        ):
            run(start, tmp_path / "run", mode)


@pytest.mark.usefixtures("eagerly")
def test_a_loss_that_is_not_a_number_stops_the_run(config, tmp_path):
    diverging = experiment(
        config.task.train_data.input_path,
        trainer={"checkpoint_interval": 1},
        optimizer={"gradient_clip_norm": None},
        learning_rate=1e38,
    )
    with pytest.raises(DataError, match=r"is nan at step \d: training has diverged.*Lower the learning rate"):
        run(diverging, tmp_path)
    for folder in native.finished(tmp_path / "checkpoints"):
        assert native.read_info(folder)["step"] < 6


@pytest.mark.parametrize("mode", ["validate_only", "compile_only"])
@pytest.mark.usefixtures("eagerly")
def test_checks_take_no_step_and_write_nothing(config, tmp_path, mode):
    said = run(config, tmp_path / "run", mode)
    assert any("no step was taken" in line and "input_ids (16, 32)" in line for line in said)
    assert not (tmp_path / "run").exists()


def test_validate_only_finds_a_wrong_checkpoint(config, tmp_path):
    native.write(tmp_path / "other", {"model/bert/embeddings": np.ones((2, 2), np.float32)}, {"step": 1})
    with pytest.raises(UsageError, match="none of its 1 weights belongs to this model"):
        run(changed(config, "task", init_checkpoint=str(tmp_path / "other")), tmp_path / "run", "validate_only")


@pytest.mark.usefixtures("eagerly")
def test_steps_follow_from_examples_and_epochs(record_sets, tmp_path):
    """num_train_steps = int(total_train_examples / train_batch_size) * num_train_epochs"""
    config = experiment(record_sets["static"], batch_size=500, trainer={"train_steps": None, "num_train_epochs": 3})
    said = run(config, tmp_path, "compile_only")
    assert any("6 steps in all" in line for line in said)  # int(1192 / 500) * 3


def test_modes_and_metrics_that_do_not_exist(config, tmp_path):
    with pytest.raises(UsageError, match="mode is 'evaluate', expected one of train, eval"):
        run(config, tmp_path, "evaluate")
    wrong = changed(config, "trainer", best_checkpoint_export_subdir="best", best_checkpoint_eval_metric="acuracy")
    with pytest.raises(
        UsageError, match=r"best_checkpoint_eval_metric is 'acuracy'; the evaluation has .*masked_lm_accuracy"
    ):
        run(wrong, tmp_path, "train_and_eval")


def test_every_named_optimizer_is_the_one_that_trains(config):
    """kamalkraj/ALBERT-TF2.0#35: a misspelt name, and the default trained."""
    from pretrain.optimizers import build_optimizer

    for name in OPTIMIZERS.names():
        chosen = Choice(name, OPTIMIZERS.get(name).config_class())
        optimizer, _ = build_optimizer(replace(config.trainer.optimizer_config, optimizer=chosen), 10)
        assert type(optimizer) is OPTIMIZERS.get(name)
    with pytest.raises(UsageError, match=r"unknown optimizer 'lmab'.*Did you mean lamb"):
        OPTIMIZERS.get("lmab")


@pytest.mark.slow
def test_three_epochs_with_the_defaults_do_not_collapse(record_sets, tmp_path):
    """kamalkraj/ALBERT-TF2.0#21 (masked-LM accuracy fell from .45 to .06 in the third epoch), google-research/bert PR#1374."""

    config = experiment(record_sets["static"], batch_size=32)
    defaults = TrainerConfig(train_steps=None, num_train_epochs=3)
    run(replace(config, trainer=defaults), tmp_path)
    losses = [line["loss"] for line in lines(tmp_path)]
    assert len(losses) == 12
    assert lines(tmp_path)[-1]["step"] == 37 * 3
    assert all(after < before + 0.1 for before, after in itertools.pairwise(losses))
    assert losses[-1] < losses[0] - 0.2


@pytest.mark.usefixtures("eagerly")
def test_full_disk_while_saving(finished, config, tmp_path):
    """The run ends with exit code 1 and a message, also where it writes while training continues; earlier checkpoints are whole."""
    model_dir = tmp_path / "run"
    shutil.copytree(finished[0], model_dir)
    size = (model_dir / "checkpoints" / "step-00000006" / native.ARRAYS).stat().st_size
    shutil.rmtree(model_dir / "checkpoints" / "step-00000006")
    job = changed(config, "trainer", train_steps=9, checkpoint_interval=6, async_checkpoints=True)
    with (
        files_up_to(size // 2),
        pytest.raises(DataError, match=r"cannot write the checkpoint.*step-00000006.*make room"),
    ):
        run(job, model_dir)
    assert DataError.exit_code == 1
    assert [path.name for path in (model_dir / "checkpoints").iterdir()] == ["step-00000004"]


@pytest.mark.usefixtures("eagerly")
def test_the_documented_trainer_stops(config, tmp_path, monkeypatch):
    document = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n((?:(?!```).)*class StopAtTarget.*?)```", document, re.DOTALL).group(1)
    (tmp_path / "my_trainer.py").write_text(code.replace("target = 2.0", "target = 100.0"))
    monkeypatch.syspath_prepend(tmp_path)
    easy = changed(
        config, "trainer", type="my_trainer:StopAtTarget", train_steps=40, validation_interval=2, validation_steps=1
    )
    for _ in range(2):  # decides the same when it resumes
        run(easy, tmp_path / "run", "train_and_eval")
        assert lines(tmp_path / "run")[-1]["step"] == 2
        assert native.finished(tmp_path / "run" / "checkpoints")[-1].name == "step-00000002"


@pytest.mark.usefixtures("eagerly")
def test_early_stopping(config, tmp_path, monkeypatch):
    monkeypatch.setenv("CLOUD_ML_HP_METRIC_FILE", str(tmp_path / "hypertune"))
    rising = experiment(
        config.task.train_data.input_path,
        eval_path=config.task.validation_data.input_path,
        trainer={
            "early_stopping_patience": 2,
            "train_steps": 40,
            "validation_interval": 1,
            "hypertune_metric": "loss",
            "validation_steps": 1,
        },
        learning_rate=1.0,
    )
    said = run(rising, tmp_path / "run", "train_and_eval")
    losses = [line["loss"] for line in lines(tmp_path / "run", "eval")]
    assert len(losses) == losses.index(min(losses)) + 3 < 20
    reported = [json.loads(line) for line in (tmp_path / "hypertune").read_text().splitlines()]
    assert [float(line["loss"]) for line in reported] == losses
    stopped, best = len(losses), losses.index(min(losses)) + 1
    reason = f"step {stopped} of 40: 2 evaluations brought no better loss than {min(losses):.6g} at step {best} "
    assert any(reason in line for line in said)
    assert native.finished(tmp_path / "run" / "checkpoints")[-1].name == f"step-{stopped:08d}"
    said = run(rising, tmp_path / "run", "train_and_eval")  # decides the same when it resumes
    assert any(reason in line for line in said)
    assert lines(tmp_path / "run")[-1]["step"] == stopped


def test_a_metric_of_no_examples_is_never_the_best(tmp_path):
    best = BestCheckpoint(tmp_path, "f1", higher=True)
    arrays = {"model/x": np.ones(1, np.float32)}
    assert not best.offer(float("nan"), 1, lambda: arrays, {})
    assert best.value() is None
    assert best.offer(0.5, 2, lambda: arrays, {})
    assert not best.offer(float("nan"), 3, lambda: arrays, {})
    assert best.value() == 0.5
