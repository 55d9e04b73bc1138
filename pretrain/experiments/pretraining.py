"""Pretraining from records: BERT, ALBERT, and a small run that makes its own records."""

from dataclasses import replace

from pretrain.data.toy import SEQ_LENGTH, toy_vocabulary
from pretrain.registry import ENCODERS, OPTIMIZERS, SCHEDULES, TASKS, WARMUPS
from pretrain.settings.data_section import EvalPretrainingDataConfig, PretrainingDataConfig
from pretrain.settings.fields import choose
from pretrain.settings.schema import ExperimentConfig, ModelConfig, RuntimeConfig
from pretrain.settings.trainer_section import OptimizationConfig, TrainerConfig


def bert_pretraining() -> ExperimentConfig:
    """BERT-base, masked words and next sentence: AdamW, 1e-4, batch 256, weight decay 0.01, one epoch."""
    return _pretraining("bert", _optimization("adamw", 1e-4), batch_size=256)


def bert_pretraining_dynamic() -> ExperimentConfig:
    """The same with each batch cut to its longest example."""
    config = bert_pretraining()
    task = replace(config.task, train_data=replace(config.task.train_data, trim_padding=True))
    return replace(config, task=task)


def albert_pretraining() -> ExperimentConfig:
    """ALBERT-base, masked words and sentence order: LAMB, 3.1e-4, batch 128, weight decay 0.01, one epoch."""
    # ALBERT's 1.76e-3 is for a batch of 4096; LAMB's authors scale it with the square root of the batch size.
    return _pretraining("albert", _optimization("lamb", 3.1e-4), batch_size=128)


def bert_local() -> ExperimentConfig:
    """Tiny BERT on records that it makes in the model_dir, under a minute on a CPU: to try things out."""
    encoder = choose(
        ENCODERS,
        "bert",
        vocab_size=len(toy_vocabulary()),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=256,
        max_position_embeddings=SEQ_LENGTH,
    )
    return ExperimentConfig(
        task_type="pretraining",
        task=TASKS.config_class("pretraining")(
            model=ModelConfig(encoder=encoder),
            train_data=PretrainingDataConfig(input_path="toy:nsp", global_batch_size=32),
            validation_data=EvalPretrainingDataConfig(input_path="toy:nsp", global_batch_size=32),
        ),
        trainer=TrainerConfig(
            optimizer_config=_optimization("adamw", 2e-3),
            num_train_epochs=3,
            checkpoint_interval=100,
            validation_interval=100,
        ),
        runtime=RuntimeConfig(distribution_strategy="one_device"),
    )


def _pretraining(encoder: str, optimization: OptimizationConfig, batch_size: int) -> ExperimentConfig:
    return ExperimentConfig(
        task_type="pretraining",
        task=TASKS.config_class("pretraining")(
            model=ModelConfig(encoder=choose(ENCODERS, encoder)),
            train_data=PretrainingDataConfig(global_batch_size=batch_size),
            validation_data=EvalPretrainingDataConfig(global_batch_size=batch_size),
        ),
        trainer=TrainerConfig(optimizer_config=optimization),
    )


def _optimization(optimizer: str, learning_rate: float) -> OptimizationConfig:
    """That optimizer; the rate rises over the first tenth of the steps and falls in a straight line to 0."""
    return OptimizationConfig(
        optimizer=choose(OPTIMIZERS, optimizer),
        learning_rate=choose(SCHEDULES, "polynomial", initial_learning_rate=learning_rate),
        warmup=choose(WARMUPS, "linear"),
    )
