"""Sections are plain dataclasses; a dict, or a part's name, that is assigned to a section becomes it."""

import copy
import dataclasses
from dataclasses import dataclass, field

import pytest

from nlpdata.errors import UsageError
from nlpdata.registry import user_modules
from pretrain.encoders.configs import AlbertConfig, BertConfig
from pretrain.optimizers.configs import AdamWConfig, LambConfig
from pretrain.registry import EXPERIMENTS, OPTIMIZERS, TASKS
from pretrain.settings.data_section import DataConfig, EvalDataConfig
from pretrain.settings.fields import Choice, choose
from pretrain.settings.schema import ExperimentConfig, ModelConfig, TaskConfig, registered
from pretrain.settings.trainer_section import OptimizationConfig, TrainerConfig
from pretrain.settings.tree import to_tree, with_layers
from pretrain.tasks.configs import PretrainingConfig, SentencePredictionConfig
from tests.pretrain.settings.config_parts import SECTIONS


@dataclass
class Margins:
    """A section without our base."""

    low: float = 0.0
    high: float = 1.0


@dataclass
class OwnConfig(TaskConfig):
    """As the Model Garden's pages write one: plain, with instances as default values."""

    margin: float = 0.5
    limits: Margins = field(default_factory=Margins)
    extra: dict = field(default_factory=dict)
    model: ModelConfig = ModelConfig()
    train_data: DataConfig = DataConfig(global_batch_size=8)
    validation_data: EvalDataConfig = EvalDataConfig()


class OwnTask:
    config_class = OwnConfig


TYPE = f"{__name__}:OwnTask"


@pytest.mark.parametrize(
    "base", [*SECTIONS, AdamWConfig, LambConfig, BertConfig, AlbertConfig, SentencePredictionConfig]
)
def test_a_plain_subclass_of_any_section_works(base):
    own = dataclass(type("Own", (base,), {"__annotations__": {"width": int}, "width": 3}))
    arguments = {"task": PretrainingConfig()} if base is ExperimentConfig else {}
    first, second = own(**arguments), own(**arguments, width=4)
    assert (first.width, second.width, first == own(**arguments), first == second) == (3, 4, True, False)
    second.width = 3
    assert first == second
    assert hash(first) == hash(second)
    assert dataclasses.replace(first, width=5).width == 5
    assert copy.deepcopy(first) == first


def test_default_instances_are_not_shared():
    first, second = OwnConfig(), OwnConfig()
    first.train_data.global_batch_size = 99
    first.model.encoder = "albert"
    assert (second.train_data.global_batch_size, OwnConfig().train_data.global_batch_size) == (8, 8)
    assert second.model.encoder.type == "bert"


def test_nested_dicts_become_sections_in_constructors():
    config = ExperimentConfig(
        task_type=TYPE,
        task={
            "margin": "0.25",
            "limits": {"high": 2},
            "extra": {"any": "thing"},
            "model": {"encoder": {"type": "albert", "albert": {"hidden_size": 64, "num_attention_heads": 4}}},
            "train_data": {"input_path": "a.tfrecord"},
        },
        trainer={"train_steps": 5, "optimizer_config": {"optimizer": {"type": "lamb", "beta_1": 0.8}, "warmup": None}},
        runtime={"seed": 7},
    )
    assert config.task == OwnConfig(
        margin=0.25,
        limits=Margins(high=2.0),
        extra={"any": "thing"},
        model=ModelConfig(encoder=Choice("albert", AlbertConfig(hidden_size=64, num_attention_heads=4))),
        train_data=DataConfig(input_path="a.tfrecord", global_batch_size=8),  # the field's own default
    )
    optimization = OptimizationConfig(optimizer=choose(OPTIMIZERS, "lamb", beta_1=0.8), warmup=None)
    assert config.trainer == TrainerConfig(train_steps=5, optimizer_config=optimization)
    assert config.runtime.seed == 7


def test_dicts_and_names_are_converted_when_they_are_assigned_later():
    config = OwnConfig()
    config.model = {"encoder": "albert"}
    config.limits = {"low": -1}
    assert (config.model.encoder.options, config.limits) == (AlbertConfig(), Margins(low=-1.0))
    trainer = TrainerConfig(optimizer_config={"optimizer": "lamb"})
    assert trainer.optimizer_config.optimizer.options == LambConfig()


def test_dicts_in_layers():
    base = ExperimentConfig(task_type=TYPE, task={"limits": {"low": 0.1}})
    config = with_layers(base, [("a", {"task": {"limits": {"high": "0.9"}, "extra": {"a": "1"}}})])
    assert config.task.limits == Margins(0.1, 0.9)
    assert with_layers(base, [("again", to_tree(config))]) == config


def test_factories_may_return_dicts(monkeypatch):
    monkeypatch.setattr(EXPERIMENTS, "_entries", dict(EXPERIMENTS._entries))
    EXPERIMENTS.register("own/as_dict", f"{__name__}:as_dict")
    config = registered("own/as_dict")
    assert (config.task_type, config.task.margin, config.trainer.train_steps) == (TYPE, 2.0, 3)


def as_dict():
    return {"task_type": TYPE, "task": {"margin": 2}, "trainer": {"train_steps": 3}}


def test_the_task_type_is_that_of_the_configuration(monkeypatch):
    assert ExperimentConfig(task=SentencePredictionConfig()).task_type == "sentence_prediction"
    with pytest.raises(UsageError, match=r"task_type is missing: OwnConfig is the config_class of no registered task"):
        ExperimentConfig(task=OwnConfig())
    monkeypatch.setattr(TASKS, "_entries", dict(TASKS._entries))
    TASKS.register("own", TYPE)
    assert ExperimentConfig(task=OwnConfig()).task_type == "own"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OwnConfig(model={"encodr": "bert"}), r"OwnConfig: model\.encodr: ModelConfig has no such field.*encoder"),
        (lambda: OwnConfig(model={"encoder": "brt"}), r"OwnConfig: model\.encoder\.type: unknown encoder 'brt'"),
        (lambda: OwnConfig(train_data={"seq_length": "x"}), r"train_data\.seq_length: expected a whole number"),
        (lambda: ExperimentConfig(task={"margin": 1}), r"ExperimentConfig: task: a dict takes task_type too"),
        (lambda: OptimizationConfig(optimizer={"type": "sdg"}), r"optimizer\.type: unknown optimizer 'sdg'"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_with_its_path(make, message):
    with pytest.raises(UsageError, match=message):
        make()


def test_a_frozen_subclass_is_refused_with_its_line(tmp_path, monkeypatch):
    (tmp_path / "frozen_part.py").write_text(
        "from dataclasses import dataclass\nfrom pretrain.settings.schema import TaskConfig\n\n\n"
        "@dataclass(frozen=True)\nclass Own(TaskConfig):\n    a: int = 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    message = r"'frozen_part' cannot be imported: .* frozen dataclass from a non-frozen one \(.*frozen_part\.py:[56]\)$"
    with pytest.raises(UsageError, match=message), user_modules(["frozen_part"]):
        pass
