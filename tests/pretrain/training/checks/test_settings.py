"""Settings that make a run pointless are refused or warned of, with numbers, before the first step."""

import re
import shlex
from dataclasses import fields, replace

import pytest

from nlpdata.errors import UsageError
from pretrain.optimizers.configs import AdamWConfig, LambConfig
from pretrain.optimizers.curve import curve_of
from pretrain.registry import EXPERIMENTS, SCHEDULES, TASKS
from pretrain.run import main, resolve
from pretrain.settings.fields import Choice, choose
from pretrain.settings.flags import parse_flags
from pretrain.settings.trainer_section import EmaConfig
from pretrain.settings.tree import with_layers
from pretrain.settings.yaml_files import read_yaml
from pretrain.submit import main as submit
from pretrain.tasks.metrics import own_name, pretraining_metrics, question_metrics, sentence_metrics
from pretrain.tasks.pretraining import PretrainingTask
from pretrain.training.checks.settings import better_metric, check_experiment, check_weights
from tests.pretrain.runs import ROOT, changed
from tests.pretrain.settings.test_shipped_configs import FILES, experiment_of

OPTIMIZATION = "trainer.optimizer_config"


def config_of(line="", name="bert/local"):
    return resolve(parse_flags(shlex.split(f"--experiment={name} {line}")), read_checkpoints=False)


def override(text, name="bert/local"):
    return config_of(f"--params_override={text}", name)


# ---------------------------------------------------------------------------------------------------------- learning rate


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--num_train_steps=20 --num_warmup_steps=20", "warm-up takes 20 steps, and the run has 20.*never reach 0.002"),
        ("--num_train_steps=20 --num_warmup_steps=50", "warm-up takes 50 steps, and the run has 20"),
        ("--num_train_steps=20 --warmup_proportion=1", "warmup_proportion is 1: warm-up would take the whole run"),
        ("--warmup_proportion=1.5", "warmup_proportion is 1.5"),
        ("--warmup_proportion=nan", "expected a number"),
        ("--learning_rate=0", "initial_learning_rate is 0.0: must be a number above 0"),
        ("--learning_rate=-1", "must be at least 0"),
        ("--learning_rate=inf", "expected a number"),
        (
            f"'--params_override={OPTIMIZATION}.learning_rate={{type: constant, learning_rate: 0}}'",
            "learning_rate is 0.0",
        ),
        (
            f"--params_override={OPTIMIZATION}.learning_rate.end_learning_rate=0.1",
            "end_learning_rate is 0.1.*at most.*0.002",
        ),
        (f"--params_override={OPTIMIZATION}.learning_rate.end_learning_rate=-1", "end_learning_rate is -1"),
        (f"--params_override={OPTIMIZATION}.learning_rate.power=0", "power is 0.0: must be above 0"),
        (f"--params_override={OPTIMIZATION}.learning_rate.decay_steps=0", "decay_steps is 0: must be at least 1"),
        (f"--params_override={OPTIMIZATION}.learning_rate.decay_start=-1", "decay_start is -1"),
        (f"--params_override={OPTIMIZATION}.warmup.warmup_learning_rate=1", "warmup_learning_rate is 1.0.*0.002"),
        (f"'--params_override={OPTIMIZATION}.warmup={{type: polynomial, power: 0}}'", "warmup.power is 0.0"),
        (
            f"--num_train_steps=200 --num_warmup_steps=100 --params_override={OPTIMIZATION}.learning_rate.decay_steps=50",
            "is 0 at every step: the decay reaches 0 at step 50.*warm-up ends at step 100",
        ),
        *(
            (
                f"'--params_override={OPTIMIZATION}.learning_rate={{{rate}}}' --num_train_steps=20 --num_warmup_steps=10",
                message,
            )
            for rate, message in (
                ("type: cosine, initial_learning_rate: 0", "initial_learning_rate is 0.0: must be a number above 0"),
                ("type: cosine, alpha: 2", "learning_rate.alpha: must be at most 1"),
                (
                    "type: wsd, end_learning_rate: 1",
                    "end_learning_rate is 1.0: must be at most initial_learning_rate, 0.0001",
                ),
                (
                    "type: wsd, decay_steps: 15",
                    "the decay starts at step 5, before warm-up ends at step 10.*never reaches 0.0001",
                ),
                (
                    "type: stepwise, boundaries: [9, 3], values: [1, 2, 3]",
                    r"boundaries is \[9, 3\]: must be steps that rise",
                ),
                (
                    "type: stepwise, boundaries: [3], values: [1]",
                    r"values is \[1.0\]: must be one more than boundaries, 1 \+ 1",
                ),
                ("type: stepwise, boundaries: [-3], values: [1, 2]", "boundaries: must be at least 0"),
            )
        ),
        ("--adam_epsilon=0", "epsilon is 0.0: must be above 0"),
        ("--weight_decay=-0.1", "weight_decay_rate is -0.1: must not be negative"),
        (f"--params_override={OPTIMIZATION}.optimizer.beta_2=1", "beta_2 is 1.0: must be at least 0 and below 1"),
        (f"--params_override={OPTIMIZATION}.optimizer.beta_1=-0.1", "beta_1 is -0.1"),
        (f"--params_override={OPTIMIZATION}.optimizer.gradient_clip_norm=-1", "must not be negative; 0 or null"),
        (f"--optimizer=sgd --params_override={OPTIMIZATION}.optimizer.gradient_clip_norm=-1", "must not be negative"),
        (f"--optimizer=sgd --params_override={OPTIMIZATION}.optimizer.momentum=1", "momentum is 1"),
        (
            f"--optimizer=adafactor --params_override={OPTIMIZATION}.optimizer.clip_threshold=0",
            "clip_threshold is 0.0: must be above 0",
        ),
        (
            f"--optimizer=adafactor --params_override={OPTIMIZATION}.optimizer.decay_rate=2",
            "decay_rate: must be at most 1",
        ),
        (
            f"--params_override='{OPTIMIZATION}.optimizer.exclude_from_weight_decay=[\"(\"]'",
            r"'\(' is not a regular expr",
        ),
        *(
            (f"'--params_override={OPTIMIZATION}.{given}' --num_train_steps=20", message)
            for given, message in (
                ('freeze=["("]', r"freeze: '\(' is not a regular expression"),
                ("layer_decay=0", "layer_decay is 0.0: must be above 0 and at most 1"),
                ("layer_decay=1.1", "layer_decay: must be at most 1"),
                ("unfreeze_steps=[5, 3]", r"unfreeze_steps is \[5, 3\]: must be steps that rise"),
                (
                    "unfreeze_steps=[5, 20]",
                    r"unfreeze_steps is \[5, 20\]: the run has 20 steps: what begins later never learns",
                ),
                ("unfreeze_steps=[-5]", "unfreeze_steps: must be at least 0"),
            )
        ),
        ("--params_override=task.train_data.masked_lm_prob=0", "masked_lm_prob is 0.0: must be above 0 and below 1"),
        ("--params_override=task.train_data.masked_lm_prob=1", "masked_lm_prob is 1.0"),
        ("--params_override=runtime.loss_scale=0,runtime.mixed_precision_dtype=float16", "loss_scale is 0.0"),
        ("--mode=train_and_eval --max_eval_steps=0", "validation_steps is 0: no batch to evaluate"),
        ("--num_replicas=2", "num_replicas is 2, but distribution_strategy one_device uses one device. Use mirrored"),
        (
            "--train_batch_size=16 --gradient_accumulation_steps=3",
            "train_data.global_batch_size 16 cannot be split over replicas x micro-steps, 1 x 3.* 15 or 18",
        ),
        (
            "--strategy_type=mirror --num_gpus=2 --mode=train_and_eval --eval_batch_size=3",
            "validation_data.global_batch_size 3 cannot be split over 2 replicas.* 2 or 4",
        ),
        (
            "--params_override=task.model.encoder.hidden_dropout_prob=1",
            "hidden_dropout_prob must be at least 0 and below 1",
        ),
        ("--params_override=task.model.encoder.initializer_range=0", "initializer_range must be above 0"),
        *(
            (
                f"--params_override=trainer.best_checkpoint_export_subdir={place}",
                "must be a folder of its own inside the model_dir",
            )
            for place in (
                ".",
                "checkpoints",
                "./checkpoints/best",
                "../other/checkpoints",
                "best/../checkpoints",
                "/best",
                "tensorboard",
            )
        ),
    ],
)
def test_a_pointless_run_is_refused_in_every_mode_and_by_submit(capsys, line, message):
    words = shlex.split(line)
    ways = [[], ["--validate_only"], ["--compile_only"]]
    for more in ways:
        assert main(["--experiment=bert/local", "--model_dir=/nowhere/run", *words, *more]) == 2
        assert re.search(message, capsys.readouterr().err)
    assert submit(["--staging", "gs://my-bucket/x", "--dry_run", "--", "--experiment=bert/local", *words]) == 2
    said = capsys.readouterr()
    assert re.search(message, said.err)
    assert not said.out


def test_a_rate_of_thousands_of_values_is_refused():
    config = config_of()
    steps = list(range(2000))
    config.trainer.optimizer_config.learning_rate = choose(
        SCHEDULES, "stepwise", boundaries=steps, values=[0.1, *steps]
    )
    with pytest.raises(UsageError, match=r"boundaries is '2000 steps': must be at most 1000"):
        check_experiment(config, "train")


def test_bounds_of_a_learning_rate_from_python():
    config = config_of(f"--params_override={OPTIMIZATION}.learning_rate.type=cosine")
    config.trainer.optimizer_config.learning_rate.options.alpha = 3
    with pytest.raises(
        UsageError, match=rf"{OPTIMIZATION}\.learning_rate\.alpha is 3: must be at least 0 and at most 1"
    ):
        check_experiment(config, "train")


@pytest.mark.parametrize(
    "name",
    [
        "--experiment=albert/pretraining --config_file=pretrain/configs/tiny_albert.yaml",
        "--experiment=albert/sentence_prediction --config_file=glue_mrpc",
        "--experiment=bert/squad --config_file=squad_v1.1",
        "--albert_config_file=model_configs/albert_base_v2.json",
        "--bert_config_file=model_configs/bert_tiny.json",
    ],
)
def test_every_way_to_configure_a_rate_has_the_same_rule(name, monkeypatch):
    monkeypatch.chdir(ROOT)
    values = parse_flags(shlex.split(f"{name} --learning_rate=3e-4 --num_warmup_steps=25 --num_train_steps=100"))
    config = resolve(values, read_checkpoints=False)
    curve = curve_of(config.trainer.optimizer_config, 100)
    assert curve.at(25) == curve.peak(100) == 3e-4
    check_experiment(config, "train")
    with pytest.raises(UsageError, match=r"warm-up takes 100 steps, and the run has 100"):
        check_experiment(resolve(values | {"num_warmup_steps": "100"}, read_checkpoints=False), "train")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_shipped_file_is_in_order(path):
    config = with_layers(EXPERIMENTS.get(experiment_of(path))(), [(path.name, read_yaml(path))])
    assert check_experiment(config, "train_and_eval", train_steps=100_000) == []
    assert better_metric(config) == ("higher" if config.trainer.best_checkpoint_export_subdir else "lower")


NO_WARMUP = "--num_train_steps=50 --num_warmup_steps=0"
GARDEN = f"{OPTIMIZATION}.learning_rate.decay_steps=1000,{OPTIMIZATION}.learning_rate.initial_learning_rate=1e-4"


@pytest.mark.parametrize(
    ("line", "mode", "message"),
    [
        (f"--num_train_steps=20 --num_warmup_steps=40 --params_override={GARDEN}", "train",
         "warm-up takes 40 steps, and the run has 20: the highest learning rate is 4.56e-05, not 0.0001"),
        (f"--num_train_steps=1500 --params_override={GARDEN}", "train", "0 from step 1000 on.*500 of 1500 steps"),
        ("--num_train_steps=50 --num_warmup_steps=5 --warmup_proportion=0.3", "train",
         "warmup_steps 5 decides; warmup_proportion 0.3 is not used"),
        (f"--num_train_steps=50 --params_override={OPTIMIZATION}.learning_rate.decay_start=50", "train",
         "never decays: .*decay_start is 50, and the run has 50 steps"),
        (f"{NO_WARMUP} --params_override={OPTIMIZATION}.learning_rate='{{type: wsd, decay_steps: 100}}'", "train",
         r"falls to 5\.1e-05, not to 0: the decay takes 100 steps, and the run has 50"),
        (f"--num_train_steps=50 --params_override={OPTIMIZATION}.ema.start_step=51", "train",
         "ema has no effect: before start_step 51"),
        (f"--params_override={OPTIMIZATION}.ema.average_decay=1,{OPTIMIZATION}.ema.dynamic_decay=false", "train",
         "average_decay 1: the average stays"),
        ("--params_override=trainer.recovery_max_trials=2,trainer.max_to_keep=1", "train", "max_to_keep is 1: .*two at least"),
        ("--weight_decay=600", "train", "weight_decay_rate 600 times the learning rate 0.002"),
        ("--params_override=runtime.loss_scale=64", "train", "loss_scale 64 has no effect.*is float32"),
        ("--dtype=fp16 --params_override=runtime.loss_scale=1", "train", "loss_scale 1 does not scale"),
        ("--params_override=trainer.early_stopping_patience=3", "train", "early_stopping_patience has no effect"),
        ("--hypertune_metric=loss", "train", "mode train evaluates nothing, so trainer.hypertune_metric"),
        ("--params_override=trainer.best_checkpoint_export_subdir=best", "train", "Use --mode=train_and_eval"),
        ("--params_override=trainer.best_checkpoint_eval_metric=masked_lm_accuracy", "train_and_eval",
         "'masked_lm_accuracy' has no effect without trainer.best_checkpoint_export_subdir"),
        ("--num_train_steps=50 --params_override=trainer.best_checkpoint_export_subdir=best", "train_and_eval",
         "best checkpoint will be the last: 50 steps with an evaluation every 100 make 1"),
        ("--num_train_steps=300 --params_override=trainer.early_stopping_patience=2", "train_and_eval",
         "patience 2 can never stop this run: 300 steps with an evaluation every 100 make 3"),
        ("--input_files=a --eval_files=a", "train_and_eval", "validation_data reads the training data, a:"),
        ("--num_gpus=2 --strategy_type=tpu", "train", "num_replicas 2 has no effect: .* is tpu, which uses all devices"),
        ("--tpu=node-1 --strategy_type=mirror", "eval", "runtime.tpu 'node-1' has no effect: .* is mirrored. Use tpu"),
    ],
)  # fmt: skip
def test_what_has_no_effect_is_warned_of(line, mode, message):
    (warning,) = check_experiment(config_of(line), mode)
    assert re.search(message, warning), warning


def test_a_scale_of_1_is_none():
    """Cerebras's default, which a translated file sets."""
    assert check_experiment(override("runtime.loss_scale=1"), "train") == []


def test_a_sensible_run_has_no_warning():
    for mode in ("train", "eval", "train_and_eval", "validate_only"):
        assert check_experiment(config_of("--num_train_steps=500"), mode) == []
    trainer = {"best_checkpoint_export_subdir": "best", "early_stopping_patience": 2, "hypertune_metric": "loss"}
    assert check_experiment(changed(config_of("--num_train_steps=500"), "trainer", **trainer), "train_and_eval") == []


def test_a_rate_of_an_evaluation_is_not_looked_at():
    assert check_experiment(config_of("--learning_rate=0 --num_train_steps=1 --num_warmup_steps=1"), "eval") == []


def test_values_from_python_are_checked_too():
    config = config_of()
    for value in (float("nan"), float("inf"), -1e-3):
        optimization = config.trainer.optimizer_config
        rate = replace(optimization.learning_rate.options, initial_learning_rate=value)
        broken = replace(optimization, learning_rate=replace(optimization.learning_rate, options=rate))
        with pytest.raises(UsageError, match=r"initial_learning_rate is .*: must be a number above 0"):
            check_experiment(changed(config, "trainer", optimizer_config=broken), "train")
    averaged = replace(config.trainer.optimizer_config, ema=EmaConfig(average_decay=1.5))
    with pytest.raises(UsageError, match=r"average_decay is 1\.5: must be at least 0 and at most 1"):
        check_experiment(changed(config, "trainer", optimizer_config=averaged), "train")
    with pytest.raises(UsageError, match=r"num_train_epochs is 0: must be at least 1"):
        check_experiment(changed(config, "trainer", num_train_epochs=0), "train")


def test_class_weights():
    for weights in ([0, 0], [1, -1]):
        config = changed(config_of(name="bert/sentence_prediction"), "task", class_weights=weights)
        with pytest.raises(UsageError, match=r"class_weights is .*: give numbers of at least 0, not all of them 0"):
            check_experiment(config, "train")


def test_patterns_are_held_against_the_weights():
    paths = ["encoder/layer_0/attention/query/kernel", "encoder/layer_0/attention/query/bias"]

    def warnings(options):
        optimization = replace(config_of().trainer.optimizer_config, optimizer=Choice("adamw", options))
        return check_weights(changed(config_of(), "trainer", optimizer_config=optimization), paths)

    assert warnings(AdamWConfig()) == warnings(AdamWConfig(exclude_from_weight_decay=["bias"])) == []
    (warning,) = warnings(AdamWConfig(exclude_from_weight_decay=["kernel"]))
    assert (
        "weight_decay_rate 0.01 has no effect: exclude_from_weight_decay ['kernel'] excludes all 2 weights" in warning
    )
    (warning,) = warnings(LambConfig(exclude_from_layer_adaptation=["LayerNorm"]))
    assert "'LayerNorm' matches none of the 2 weights, e.g. encoder/layer_0" in warning


# ----------------------------------------------------------------------------------------------------------------- metrics


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        ("best_checkpoint_eval_metric=acuracy", "bert/sentence_prediction",
         "'acuracy'; the evaluation has accuracy, f1, .*Did you mean accuracy"),
        ("best_checkpoint_eval_metric=accuracy", "bert/local", "Did you mean masked_lm_accuracy"),
        ("hypertune_metric=exact_mtch", "bert/squad", "trainer.hypertune_metric is 'exact_mtch'.*Did you mean exact_match"),
        ("hypertune_metric=best_f1_thresh", "bert/squad", "; the evaluation has "),
        ("best_checkpoint_eval_metric=accuracy,trainer.best_checkpoint_metric_comp=lower", "bert/sentence_prediction",
         "comp is 'lower', but a higher accuracy is better: the worst checkpoint would be kept. Leave it out"),
        ("best_checkpoint_metric_comp=higher", "bert/local", "a lower loss is better"),
        ("best_checkpoint_eval_metric=mean_squared_error,trainer.best_checkpoint_metric_comp=higher",
         "albert/sentence_prediction", "a lower mean_squared_error is better"),
        ("best_checkpoint_eval_metric=pearson,task.kind=classification", "bert/sentence_prediction", "; the evaluation has "),
        ("best_checkpoint_eval_metric=next_sentence_accuracy,task.use_next_sentence_label=false", "bert/local",
         "; the evaluation has "),
        ("best_checkpoint_eval_metric=NoAns_f1,task.version_2_with_negative=false", "bert/squad", "; the evaluation has "),
    ],
)  # fmt: skip
def test_a_metric_that_cannot_be_and_a_contradiction_are_refused(capsys, text, name, message):
    line = [f"--experiment={name}", f"--params_override=trainer.{text}"]
    for mode in ("--mode=train_and_eval", "--validate_only"):
        assert main([*line, mode, "--model_dir=/nowhere/run"]) == 2
        assert re.search(message, capsys.readouterr().err)
    assert submit(["--staging", "gs://my-bucket/x", "--dry_run", "--", *line]) == 2
    assert re.search(message, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("metric", "name", "better"),
    [
        ("accuracy", "bert/sentence_prediction", "higher"),
        ("matthews_corrcoef", "albert/sentence_prediction", "higher"),
        ("pearson", "bert/sentence_prediction", "higher"),
        ("mean_squared_error", "bert/sentence_prediction", "lower"),
        ("macro_f1", "bert/sentence_prediction", "higher"),
        ("f1", "bert/squad", "higher"),
        ("NoAns_f1", "albert/squad", "higher"),
        ("span_loss", "bert/squad", "lower"),
        ("loss", "bert/squad", "lower"),
        ("masked_lm_accuracy", "bert/pretraining", "higher"),
        ("next_sentence_loss", "albert/pretraining", "lower"),
        ("cls_accuracy", "bert/sentence_prediction", "higher"),
        ("pearson_spearman_corr", "bert/sentence_prediction", "higher"),
        ("lm_example_loss", "bert/pretraining", "lower"),
        ("final_f1", "bert/squad", "higher"),
        ("has_answer_f1", "bert/squad", "higher"),
        ("validation_loss", "bert/squad", "lower"),
    ],
)
def test_the_task_decides_which_side_is_better(metric, name, better):
    config = override(f"trainer.best_checkpoint_eval_metric={metric}", name)
    assert better_metric(config) == better
    assert better_metric(changed(config, "trainer", best_checkpoint_metric_comp=better)) == better


@pytest.mark.parametrize(
    ("name", "measured", "ours"),
    [
        ("cls_accuracy", sentence_metrics("classification"), "accuracy"),
        ("cls_accuracy", sentence_metrics("regression"), "cls_accuracy"),
        ("masked_lm_accuracy", pretraining_metrics(True), "masked_lm_accuracy"),
        ("next_sentence_accuracy", pretraining_metrics(True), "next_sentence_accuracy"),
        ("lm_example_loss", pretraining_metrics(False), "masked_lm_loss"),
        ("final_f1", question_metrics(False), "f1"),
        ("final_f1", question_metrics(True), "best_f1"),
        ("exact_match", question_metrics(True), "exact_match"),
        ("has_answer_exact_match", question_metrics(True), "HasAns_exact_match"),
        ("validation_loss", question_metrics(False), "loss"),
        ("auc", sentence_metrics(None), "auc"),
    ],
)
def test_names_of_the_model_garden(name, measured, ours):
    assert own_name(name, measured) == ours


class Undeclared:
    """Stands for a task of a user's own."""

    def __init__(self, config):
        self.config = config

    def metrics(self):
        return {}


def test_a_task_that_declares_nothing_needs_the_comparison():
    config = override("trainer.best_checkpoint_eval_metric=margin")
    task = Undeclared(config.task)
    assert better_metric(config, task) is None  # nothing asks for it
    used = changed(config, "trainer", best_checkpoint_export_subdir="best")
    with pytest.raises(
        UsageError, match=r"'margin', and the task .* does not declare which .* Set .*_comp to higher or low"
    ):
        better_metric(used, task)
    assert better_metric(changed(used, "trainer", best_checkpoint_metric_comp="higher"), task) == "higher"
    by_loss = changed(used, "trainer", best_checkpoint_eval_metric="loss")
    assert better_metric(by_loss, task) == "lower"


def test_a_subclass_that_adds_metrics_declares_them_or_sets_the_comparison():
    class Adds(PretrainingTask):
        def build_metrics(self):
            return super().build_metrics() | {"margin": ("masked_lm_correct", "masked_lm_weight")}

    class Declares(Adds):
        def metrics(self):
            return super().metrics() | {"margin": "higher"}

    used = changed(
        override("trainer.best_checkpoint_eval_metric=margin"), "trainer", best_checkpoint_export_subdir="best"
    )
    with pytest.raises(UsageError, match=r"does not declare which value is better"):
        better_metric(used, Adds(used.task))
    assert better_metric(changed(used, "trainer", best_checkpoint_metric_comp="lower"), Adds(used.task)) == "lower"
    assert better_metric(used, Declares(used.task)) == "higher"
    wrong = changed(used, "trainer", best_checkpoint_eval_metric="margn")
    with pytest.raises(UsageError, match=r"margin.*Did you mean margin"):
        better_metric(wrong, Declares(used.task))


def test_built_in_tasks_declare_all_that_they_measure():
    for name in TASKS.names():
        config = TASKS.config_class(name)()
        task = TASKS.get(name)(config)
        assert task.metrics() == config.metrics()
        assert task.declares_all_metrics()
        assert "metrics" not in {field.name for field in fields(config)}
