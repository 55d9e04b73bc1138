"""Flags as absl reads them, old spellings, and the table itself."""

from pathlib import Path

import pytest

from nlpdata.errors import UsageError
from pretrain.registry import EXPERIMENTS
from pretrain.settings.flags import ACCEPTED, FIELDS, FLAGS, RUN, fields_of, notes_of, parse_flags
from pretrain.settings.schema import ExperimentConfig
from pretrain.settings.tree import Place, merged, to_tree


@pytest.mark.parametrize(
    ("argv", "values"),
    [
        (["--mode=eval"], {"mode": "eval"}),
        (["--mode", "eval"], {"mode": "eval"}),
        (["-mode", "eval", "-m=train"], {"mode": "train"}),
        (["--model-dir=x"], {"model_dir": "x"}),
        (["--output_dir=x"], {"model_dir": "x"}),
        (["-o", "x"], {"model_dir": "x"}),
        (["--do_train"], {"do_train": True}),
        (["--do_train=True", "--do-eval=False"], {"do_train": True, "do_eval": False}),
        (["--nodo_train"], {"do_train": False}),
        (["--no-do-train"], {"do_train": False}),
        (["--config_file=a", "--config_file", "b"], {"config_file": ["a", "b"]}),
        (["--input_files=a=b,c"], {"input_files": "a=b,c"}),
        (["--tpu="], {"tpu": ""}),
        (["--max_eval_steps", "-1"], {"max_eval_steps": "-1"}),
        (["--", "--mode=eval"], {"mode": "eval"}),
        (["--num_gpus=2", "--num_gpus=4"], {"num_gpus": "4"}),
        ([], {}),
    ],
)
def test_forms(argv, values):
    assert parse_flags(argv) == values


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--experimnt=x"], "no flag --experimnt. Did you mean --experiment? "),
        (["--model_name_or_path=x"], "no flag --model_name_or_path. Did you mean --init_checkpoint? "),
        (["--fp16"], "no flag --fp16. Did you mean --mixed_precision_dtype? "),
        (
            ["--max_grad_norm=1"],
            "Did you mean --params_override=trainer.optimizer_config.optimizer.gradient_clip_norm? ",
        ),
        (["train"], "'train' is not a flag"),
        (["--do_train", "True"], "'True' is not a flag"),
        (["--model_dir"], "--model_dir needs a value"),
        (["--model_dir", "--mode=eval"], "--model_dir needs a value"),
        (["--do_train=maybe"], "--do_train: expected true or false. Received: 'maybe'"),
        (["--nomodel_dir"], "no flag --nomodel_dir"),
    ],
)
def test_faults(argv, message):
    with pytest.raises(UsageError) as caught:
        parse_flags(argv)
    assert message in str(caught.value)


def test_what_has_no_effect_is_reported():
    values = parse_flags(["--custom_training_loop", "--alsologtostderr", "--predict_data_path=x", "--mode=train"])
    assert notes_of(values) == [
        "--custom_training_loop has no effect here: there is one training loop.",
        "--predict_data_path has no effect here: the test set needs no records.",
    ]


@pytest.mark.parametrize(
    ("argv", "path", "value"),
    [
        (["--eval_steps", "0"], "trainer.validation_steps", "-1"),
        (["--eval_steps=7"], "trainer.validation_steps", "7"),
        (["--optimizer=AdamW"], "trainer.optimizer_config.optimizer.type", "adamw"),
        (["--optimizer=LAMB"], "trainer.optimizer_config.optimizer.type", "lamb"),
        (["--hp-tune", "y"], "trainer.hypertune_metric", "accuracy"),
        (["--hp-tune=n"], "trainer.hypertune_metric", ""),
        (["--train_data_path=a"], "task.train_data.input_path", "a"),
        (["--predict_batch_size=9"], "task.validation_data.global_batch_size", "9"),
        (["--version_2_with_negative"], "task.version_2_with_negative", True),
        (["--train_file=train-v1.1.json"], "task.train_data.input_path", "train-v1.1.json"),
        (["--train_step=5336"], "trainer.train_steps", "5336"),
        (["--warmup_step=320"], "trainer.optimizer_config.warmup.warmup_steps", "320"),
        (["--albert_hub_module_handle=hub"], "task.init_checkpoint", "hub"),
    ],
)
def test_spellings_of_older_scripts(argv, path, value):
    assert [(found, set_to) for _, found, set_to in fields_of(parse_flags(argv))] == [(path, value)]


def test_the_table_has_no_spelling_twice():
    spellings = [spelling for flag in FLAGS for spelling in (flag.name, *flag.aliases)]
    assert len(spellings) == len(set(spellings))
    assert not [spelling for spelling in spellings if "-" in spelling]


def test_every_field_flag_sets_fields_that_exist():
    samples = {
        "optimizer": "lamb",
        "strategy_type": "mirror",
        "mixed_precision_dtype": "bf16",
        "input_files": "x",
        "init_heads": False,
        "hp_tune": "y",
        "answer_layer": "conditional",
        "squad_dropout": "0.2",
    }
    own = {"classifier_dropout": "bert/sentence_prediction"}
    own |= dict.fromkeys(
        (
            "version_2_with_negative",
            "n_best_size",
            "max_answer_length",
            "null_score_diff_threshold",
            "doc_stride",
            "max_query_length",
            "answer_layer",
            "start_n_top",
            "end_n_top",
            "squad_dropout",
        ),
        "bert/squad",
    )
    for flag in FIELDS:
        tree = to_tree(EXPERIMENTS.get(own.get(flag.name, "bert/pretraining"))())
        given = {flag.name: samples.get(flag.name, True if flag.kind == "switch" else "3")}
        found = fields_of(given)
        assert [path for _, path, _ in found] == list(flag.fields)
        for _, path, value in found:
            for name in reversed(path.split(".")):
                value = {name: value}
            assert merged(ExperimentConfig, tree, value, Place(f"--{flag.name}")) != tree, flag.name


def test_the_guide_has_every_flag_with_its_fields():
    guide = (Path(__file__).parents[3] / "docs" / "pretraining.md").read_text(encoding="utf-8")
    for flag in (*RUN, *FIELDS):
        also = ", ".join(f"`--{alias}`" for alias in flag.aliases)
        row = f"| `--{flag.name}` | {also} | {flag.help} | {', '.join(f'`{path}`' for path in flag.fields)} |"
        assert row in guide, row
    assert all(f"`--{flag.name}`" in guide for flag in ACCEPTED)
    assert all(f"`{name}`" in guide for name in EXPERIMENTS.names())
