"""Fine-tuning from records of `nlpdata create-finetuning`."""

from pretrain.registry import ENCODERS, OPTIMIZERS, SCHEDULES, TASKS, WARMUPS
from pretrain.settings.data_section import (
    DataConfig,
    EvalDataConfig,
    EvalQuestionDataConfig,
    EvalTextDataConfig,
    QuestionDataConfig,
    TextDataConfig,
)
from pretrain.settings.fields import choose
from pretrain.settings.schema import ExperimentConfig, ModelConfig
from pretrain.settings.trainer_section import OptimizationConfig, TrainerConfig
from pretrain.tasks.configs import (
    MultipleChoiceModelConfig,
    QuestionAnsweringModelConfig,
    SentencePredictionModelConfig,
)


def bert_sentence_prediction() -> ExperimentConfig:
    """BERT-base, a class, labels or a number for a text or a pair: AdamW, 3e-5, batch 32, three epochs."""
    return _sentence_prediction("bert", learning_rate=3e-5)


def albert_sentence_prediction() -> ExperimentConfig:
    """ALBERT-base, a class, labels or a number for a text or a pair: AdamW, 2e-5, batch 32, three epochs."""
    return _sentence_prediction("albert", learning_rate=2e-5)


def bert_squad() -> ExperimentConfig:
    """BERT-base, answers to questions in a text (SQuAD): AdamW, 3e-5, batch 32, two epochs."""
    return _squad("bert", learning_rate=3e-5)


def albert_squad() -> ExperimentConfig:
    """ALBERT-base, answers to questions in a text (SQuAD): AdamW, 5e-5, batch 48, two epochs."""
    return _squad("albert", learning_rate=5e-5, batch_size=48)


def bert_multiple_choice() -> ExperimentConfig:
    """BERT-base, the right one of several choices (SWAG, RACE): AdamW, 2e-5, batch 16, three epochs."""
    return _multiple_choice("bert", learning_rate=2e-5, batch_size=16)


def albert_multiple_choice() -> ExperimentConfig:
    """ALBERT-base, the right one of several choices (RACE): AdamW, 1e-5, batch 32, three epochs."""
    return _multiple_choice("albert", learning_rate=1e-5, batch_size=32)


def _multiple_choice(encoder: str, learning_rate: float, batch_size: int) -> ExperimentConfig:
    model = MultipleChoiceModelConfig(encoder=choose(ENCODERS, encoder))
    sections = DataConfig, EvalDataConfig
    return _experiment("multiple_choice", model, sections, batch_size, _trainer(learning_rate, epochs=3))


def _squad(encoder: str, learning_rate: float, batch_size: int = 32) -> ExperimentConfig:
    model = QuestionAnsweringModelConfig(encoder=choose(ENCODERS, encoder))
    sections = QuestionDataConfig, EvalQuestionDataConfig
    return _experiment("question_answering", model, sections, batch_size, _trainer(learning_rate, epochs=2))


def _sentence_prediction(encoder: str, learning_rate: float) -> ExperimentConfig:
    model = SentencePredictionModelConfig(encoder=choose(ENCODERS, encoder))
    sections = TextDataConfig, EvalTextDataConfig
    return _experiment("sentence_prediction", model, sections, 32, _trainer(learning_rate, epochs=3))


def _experiment(
    kind: str,
    model: ModelConfig,
    sections: tuple[type[DataConfig], type[EvalDataConfig]],
    batch_size: int,
    trainer: TrainerConfig,
) -> ExperimentConfig:
    """One of a task; sections: those of its data for training and for evaluation."""
    train, validation = (section(global_batch_size=batch_size, trim_padding=True) for section in sections)
    task = TASKS.config_class(kind)(model=model, train_data=train, validation_data=validation)
    return ExperimentConfig(task_type=kind, task=task, trainer=trainer)


def _trainer(learning_rate: float, epochs: int) -> TrainerConfig:
    # Without bias correction, as BERT's authors trained, fine-tuning on little data often fails (Mosbach et al., "On the
    # stability of fine-tuning BERT", 2021).
    return TrainerConfig(
        optimizer_config=OptimizationConfig(
            optimizer=choose(OPTIMIZERS, "adamw", bias_correction=True),
            learning_rate=choose(SCHEDULES, "polynomial", initial_learning_rate=learning_rate),
            warmup=choose(WARMUPS, "linear"),
        ),
        num_train_epochs=epochs,
        max_to_keep=2,
    )
