"""Merging layers of configuration, strictly, and building the dataclasses."""

import dataclasses

import pytest

from nlpdata.errors import UsageError
from pretrain.settings.data_section import TextDataConfig
from pretrain.settings.fields import Choice
from pretrain.settings.schema import ExperimentConfig, registered
from pretrain.settings.trainer_section import TrainerConfig
from pretrain.settings.tree import Place, differences, merged, to_tree, with_layers
from pretrain.tasks.configs import SentencePredictionConfig
from tests.messages import messages
from tests.pretrain.settings.config_parts import TASK_TYPE, LargeConfig, PartTaskConfig, SmallConfig


def experiment(**trainer):
    return ExperimentConfig(task_type=TASK_TYPE, task=PartTaskConfig(), trainer=TrainerConfig(**trainer))


def over(*layers, base=None):
    return with_layers(base or experiment(), [(f"layer {i}", layer) for i, layer in enumerate(layers)])


def encoder_of(config):
    return config.task.model.encoder


def fault(*layers):
    with pytest.raises(UsageError) as caught:
        over(*layers)
    return str(caught.value)


def test_nothing_over_an_experiment_gives_it_back():
    assert over() == experiment()


def test_later_layers_win_and_leave_the_rest():
    config = over(
        {"trainer": {"train_steps": "10", "max_to_keep": 2}, "runtime": {"seed": "7"}}, {"trainer": {"train_steps": 20}}
    )
    assert (config.trainer.train_steps, config.trainer.max_to_keep, config.runtime.seed) == (20, 2, 7)
    assert config.task == experiment().task


def test_values_have_the_declared_types():
    config = over(
        {
            "runtime": {"distribution_strategy": "off", "loss_scale": "1024"},
            "task": {"labels": ["a", "b"], "train_data": {"input_path": ["x", "y"], "seq_length": None}},
            "trainer": {"train_steps": "2.5e4", "tensorboard": "no"},
        }
    )
    assert config.runtime.distribution_strategy == "off"
    assert config.runtime.loss_scale == 1024.0
    assert config.task.labels == ("a", "b")
    assert config.task.train_data.input_path == ["x", "y"]
    assert config.trainer.train_steps == 25000
    assert config.trainer.tensorboard is False


@pytest.mark.parametrize(
    "changes",
    [
        {"type": "large", "large": {"hidden_size": "128"}},
        {"type": "large", "hidden_size": 128},
        {"large": {"hidden_size": 128}, "type": "large"},
    ],
)
def test_a_changed_type_drops_the_other_options(changes):
    config = over(
        {"task": {"model": {"encoder": {"small": {"hidden_size": 8}}}}}, {"task": {"model": {"encoder": changes}}}
    )
    assert encoder_of(config) == Choice("large", LargeConfig(hidden_size=128))
    assert "small" not in to_tree(config)["task"]["model"]["encoder"]


def test_a_bare_name_chooses_with_defaults():
    assert encoder_of(over({"task": {"model": {"encoder": "large"}}})) == Choice("large", LargeConfig())


def test_what_another_type_drops_is_told():
    set_before = {"task": {"model": {"encoder": {"hidden_size": 8, "rate": 0.5, "num_hidden_layers": 2}}}}
    with messages() as said:
        over(set_before, {"task": {"model": {"encoder": {"type": "large"}}}})
    assert said == [
        "warning: layer 1: task.model.encoder: 'large' begins with its own defaults. Set for 'small', and dropped: "
        "hidden_size 8 (now 256), rate 0.5. What is to stay must be given here, too"
    ]
    with messages() as said:  # of a layer with options of its own: what the new type has as well
        over(
            {"trainer": {"optimizer_config": {"learning_rate": {"initial_learning_rate": 0.002, "power": 2}}}},
            {"trainer": {"optimizer_config": {"learning_rate": {"type": "cosine", "alpha": 0.1}}}},
        )
    assert said == [
        "warning: layer 1: trainer.optimizer_config.learning_rate: 'cosine' begins with its own defaults. Set for 'polynomial', "
        "and dropped: initial_learning_rate 0.002 (now 0.0001). What is to stay must be given here, too"
    ]
    with messages() as said:
        over(set_before, {"task": {"model": {"encoder": {"type": "large", "hidden_size": 8}}}})  # gives its own
        over(set_before, {"task": {"model": {"encoder": {"type": "small"}}}})  # is the same
        over({"task": {"model": {"encoder": "large"}}})  # nothing was set
    assert said == []


def test_epochs_that_do_not_count_are_told_where_somebody_gave_them():
    with messages() as said:
        over({"trainer": {"train_steps": 9}}, base=experiment(num_train_epochs=3))
        over({"trainer": {"train_steps": 9}}, {"trainer": {"num_train_epochs": 2}})  # clears the steps
    assert said == []
    with messages() as said:
        over({"trainer": {"num_train_epochs": 2}}, {"trainer": {"train_steps": 9}})
    assert said == ["trainer.train_steps 9 decides; trainer.num_train_epochs 2 (layer 0) is not used"]


def test_the_same_type_keeps_what_lower_layers_set():
    config = over(
        {"task": {"model": {"encoder": {"hidden_size": 8}}}},
        {"task": {"model": {"encoder": {"type": "small", "rate": 0}}}},
    )
    assert encoder_of(config) == Choice("small", SmallConfig(hidden_size=8, rate=0.0))


def test_a_choice_can_be_null_and_come_back():
    nothing = over({"task": {"model": {"second": None}}})
    assert nothing.task.model.second is None
    back = over({"task": {"model": {"second": {"type": "large"}}}}, base=nothing)
    assert back.task.model.second == Choice("large", LargeConfig())
    assert "task.model.second: give its type: one of large, small" in fault(
        {"task": {"model": {"second": None}}}, {"task": {"model": {"second": {"hidden_size": 3}}}}
    )


def test_a_part_of_ones_own_by_module_and_attribute():
    config = over(
        {"task": {"model": {"encoder": {"type": "tests.pretrain.settings.config_parts:Large", "hidden_size": 4}}}}
    )
    assert encoder_of(config) == Choice("tests.pretrain.settings.config_parts:Large", LargeConfig(hidden_size=4))
    assert over(to_tree(config)) == config


def test_another_task_type_keeps_what_was_set_of_the_fields_that_both_have():
    config = over({"task": {"init_checkpoint": "x"}}, {"task": {"init_checkpoint": "y"}, "task_type": "pretraining"})
    assert type(config.task).__name__ == "PretrainingConfig"
    assert config.task.init_checkpoint == "y"
    data = {"input_path": "out/train.tfrecord", "global_batch_size": 8}
    below = {"init_checkpoint": "x", "train_data": data, "validation_data": {"input_path": ["a", "b"]}, "labels": ["c"]}
    task = over({"task": below}, {"task_type": "sentence_prediction"}).task
    assert task.init_checkpoint == "x"
    assert (type(task.train_data), task.train_data.input_path, task.train_data.global_batch_size) == (
        TextDataConfig,
        "out/train.tfrecord",
        8,
    )
    assert task.validation_data.input_path == ["a", "b"]
    assert task.model.encoder == SentencePredictionConfig().model.encoder  # of another registry
    assert task.model.classifier_dropout_prob == 0.1


def test_another_task_type_keeps_the_encoder_and_has_its_own_defaults():
    base = registered("bert/local")
    task = over({"task_type": "sentence_prediction"}, base=base).task
    assert task.model.encoder == base.task.model.encoder
    assert task.train_data.input_path == "toy:nsp"
    assert task.train_data.trim_padding == SentencePredictionConfig().train_data.trim_padding
    again = over({"task_type": "sentence_prediction"}, {"task_type": "pretraining"}, base=base)
    assert again == base


def test_epochs_clear_the_steps_of_lower_layers_only():
    steps = {"trainer": {"train_steps": 100}}
    assert over(steps, {"trainer": {"num_train_epochs": 2}}).trainer.train_steps is None
    assert over({"trainer": {"num_train_epochs": 2}}, steps).trainer.train_steps == 100
    assert over({"trainer": {"num_train_epochs": 2, "train_steps": 7}}).trainer.train_steps == 7
    assert over({"trainer": {"num_train_epochs": 2}}, base=experiment(train_steps=5)).trainer.train_steps is None


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"trainr": {}}, "layer 0: trainr: ExperimentConfig has no such field. Did you mean trainer"),
        (
            {"trainer": {"train_step": 1}},
            "trainer.train_step: TrainerConfig has no such field. Did you mean train_steps",
        ),
        ({"trainer": {"train_steps": "ten"}}, "trainer.train_steps: expected a whole number. Received: 'ten'."),
        ({"trainer": {"train_steps": 0}}, "trainer.train_steps: must be at least 1. Received: 0."),
        ({"trainer": 3}, "trainer: is a section with names in it: type, optimizer_config,"),
        ({"trainer": None}, "trainer: is a section"),
        ({"trainer": {"best_checkpoint_metric_comp": "highr"}}, "Received: 'highr'. Did you mean higher"),
        ({"runtime": {"mixed_precision_dtype": "mixed_float16"}}, "must be one of float32, bfloat16, float16."),
        (
            {"task": {"model": {"encoder": "smal"}}},
            "task.model.encoder.type: unknown encoder 'smal'. Did you mean small?",
        ),
        (
            {"task": {"model": {"encoder": {"rte": 1}}}},
            "task.model.encoder.rte: SmallConfig has no such field. Did you mean rate",
        ),
        (
            {"task": {"model": {"encoder": {"small": {"rte": 1}}}}},
            "task.model.encoder.small.rte: SmallConfig has no such field. Did you mean rate",
        ),
        (
            {"task": {"model": {"encoder": {"large": {"hidden_size": 8}}}}},
            "task.model.encoder.large: the encoder is 'small'. Set task.model.encoder.type=large to choose this one.",
        ),
        ({"task": {"model": {"encoder": None}}}, "task.model.encoder: is the name of one of large, small"),
        (
            {"task": {"model": {"encoder": {"hidden_size": 12}}}},
            "task.model.encoder.small: hidden_size must be a multiple",
        ),
        ({"task": {"model": {"encoder": "tests.pretrain.settings.config_parts:Bare"}}}, "declares no options"),
        ({"task": {"model": {"encoder": "no.such:Part"}}}, "cannot be imported"),
        ({"task_type": "pretrainin"}, "task_type: unknown task 'pretrainin'. Did you mean pretraining?"),
    ],
)
def test_faults_have_the_dotted_path_and_the_closest_name(layer, message):
    assert message in fault(layer)


def test_a_combination_is_judged_when_it_is_complete():
    """hidden_size 12 alone is refused; a higher layer may put it right."""
    assert "multiple of 8" in fault({"task": {"model": {"encoder": {"hidden_size": 12}}}})
    config = over(
        {"task": {"model": {"encoder": {"hidden_size": 12}}}}, {"task": {"model": {"encoder": {"hidden_size": 16}}}}
    )
    assert encoder_of(config).options.hidden_size == 16


@pytest.mark.parametrize(
    "task",
    [
        {"init_checkpoint": "", "hub_module_url": "x"},
        {"hub_module_url": "x", "init_checkpoint": ""},
        {"hub_module_url": "", "init_checkpoint": "x"},
    ],
)
def test_of_two_names_of_a_field_the_empty_one_does_not_count(task):
    assert over({"task": task}).task.init_checkpoint == "x"


def test_garden_names_are_ours_or_said_to_have_no_effect():
    with messages() as notes:
        config = over(
            {
                "task": {
                    "hub_module_url": "/some/module",
                    "model": {
                        "encoder": {"type": "small", "small": {"num_layers": "3"}},
                        "cls_heads": [{"inner_dim": 768}],
                    },
                    "train_data": {"cycle_length": 8, "shuffle_buffer_size": 100},
                },
                "trainer": {"allow_tpu_summary": False},
                "runtime": {"num_gpus": 2},
            },
        )
    assert config.task.init_checkpoint == "/some/module"
    assert encoder_of(config).options.num_hidden_layers == 3
    assert config.runtime.num_replicas == 2
    assert sorted(notes) == [
        "layer 0: task.model.cls_heads has no effect here.",
        "layer 0: task.train_data.cycle_length has no effect here.",
        "layer 0: task.train_data.shuffle_buffer_size has no effect here.",
        "layer 0: trainer.allow_tpu_summary has no effect here.",
    ]


def test_both_names_of_a_field_are_one_too_many():
    assert "is an older name of num_replicas, which is given too" in fault(
        {"runtime": {"num_gpus": 2, "num_replicas": 2}}
    )


def test_a_tree_and_back_is_the_same():
    config = over({"task": {"model": {"encoder": "large"}}, "runtime": {"loss_scale": 8}})
    assert over(to_tree(config)) == config
    assert merged(ExperimentConfig, to_tree(config), {}, Place()) == to_tree(config)


def test_differences_name_the_leaves():
    before, after = experiment(), over({"trainer": {"train_steps": 3}, "task": {"model": {"encoder": "large"}}})
    assert differences(to_tree(before), to_tree(before)) == []
    lines = differences(to_tree(before), to_tree(after))
    assert "trainer.train_steps: null -> 3" in lines
    assert "task.model.encoder.type: 'small' -> 'large'" in lines


def test_merging_changes_nothing_in_place():
    config = experiment()
    tree = to_tree(config)
    kept = to_tree(config)
    merged(
        ExperimentConfig,
        tree,
        {"task": {"model": {"encoder": {"hidden_size": 8}}}, "trainer": {"train_steps": 1}},
        Place(),
    )
    assert tree == kept
    assert dataclasses.replace(config) == experiment()
