"""Small parts with options, to test the configuration without Keras: a registry's entry can be any class."""

from dataclasses import dataclass, field

from pretrain.registry import Registry
from pretrain.settings import data_section, schema, trainer_section
from pretrain.settings.config import Config
from pretrain.settings.data_section import DataConfig, EvalDataConfig
from pretrain.settings.fields import choice
from pretrain.settings.schema import TaskConfig

SECTIONS = [
    section
    for module in (schema, data_section, trainer_section)
    for section in vars(module).values()
    if isinstance(section, type) and issubclass(section, Config) and section.__module__ == module.__name__
]
"""The sections of every configuration."""


@dataclass(frozen=True)
class SmallConfig:
    hidden_size: int = 64
    num_hidden_layers: int = 2
    rate: float = 0.1
    patterns: list[str] = field(default_factory=lambda: ["bias"])

    def __post_init__(self):
        if self.hidden_size % 8:
            raise ValueError(f"hidden_size must be a multiple of 8. Received: {self.hidden_size}.")


class Small:
    config_class = SmallConfig


@dataclass(frozen=True)
class LargeConfig:
    hidden_size: int = 256
    embedding_size: int = 32


class Large:
    config_class = LargeConfig


class Bare:
    """A part that forgot its config_class."""


PARTS = Registry(
    "encoder",
    {"small": "tests.pretrain.settings.config_parts:Small", "large": "tests.pretrain.settings.config_parts:Large"},
)


@dataclass(frozen=True)
class PartModel:
    encoder: object = choice(PARTS, "small")
    second: object | None = choice(PARTS, "large")


@dataclass
class PartTaskConfig(TaskConfig):
    model: PartModel = field(default_factory=PartModel)
    train_data: DataConfig = field(default_factory=DataConfig)
    validation_data: EvalDataConfig = field(default_factory=EvalDataConfig)
    labels: tuple[str, ...] = ()


class PartTask:
    config_class = PartTaskConfig


TASK_TYPE = "tests.pretrain.settings.config_parts:PartTask"
