"""Options of the tasks, without Keras: reading a configuration must not import it."""

from dataclasses import dataclass, field
from typing import Literal

from nlpdata.errors import UsageError
from nlpdata.files.sets import set_stem
from nlpdata.records.meta_types import LEAST_CHOICES, MOST_CHOICES
from pretrain.settings.data_section import (
    DataConfig,
    EvalDataConfig,
    EvalPretrainingDataConfig,
    EvalQuestionDataConfig,
    EvalTextDataConfig,
    PretrainingDataConfig,
    QuestionDataConfig,
    TextDataConfig,
)
from pretrain.settings.fields import MOST_BEAM, MOST_TOKENS, at_least
from pretrain.settings.schema import ModelConfig, TaskConfig
from pretrain.tasks.metrics import (
    Better,
    choice_metrics,
    part_names,
    pretraining_metrics,
    question_metrics,
    sentence_metrics,
)


@dataclass
class PretrainingConfig(TaskConfig):
    """Masked words, and pairs of sentences."""

    train_data: PretrainingDataConfig = field(default_factory=PretrainingDataConfig)
    validation_data: EvalPretrainingDataConfig = field(default_factory=EvalPretrainingDataConfig)
    use_next_sentence_label: bool = True
    """Learn from next_sentence_labels too (next sentence or sentence order); false where records have none."""
    init_heads: bool = True
    """Start the heads from init_checkpoint too, where it has them; false: new heads on its encoder."""

    def metrics(self) -> dict[str, Better]:
        return pretraining_metrics(self.use_next_sentence_label)


@dataclass
class SentencePredictionModelConfig(ModelConfig):
    """Encoder and classifier."""

    num_classes: int | None = at_least(0, None, 1 << 20)
    """Classes, or labels of a multilabel task; 1 for regression. Null (or 0): as the records' meta file says."""
    use_encoder_pooler: bool = True
    """Classify the encoder's pooled output; false: that of a dense layer with tanh of the classifier's own."""
    classifier_dropout_prob: float = at_least(0, 0.1)
    """Dropout of the vector that is classified."""


@dataclass
class SentencePredictionConfig(TaskConfig):
    """Classes, labels or a number of a text or a pair of texts."""

    model: SentencePredictionModelConfig = field(default_factory=SentencePredictionModelConfig)
    train_data: TextDataConfig = field(default_factory=TextDataConfig)
    validation_data: EvalTextDataConfig = field(default_factory=EvalTextDataConfig)
    kind: Literal["classification", "regression", "multilabel"] | None = None
    """Null: as the meta file says; without one, regression where num_classes is 1, else classification."""
    init_cls_pooler: bool = False
    """Start the classifier's own dense layer from the checkpoint's sentence pair head, or from its pooler."""
    class_weights: list[float] = field(default_factory=list)
    """Weight of each class in the loss, in the order of their ids; empty: all 1."""
    label_smoothing: float = at_least(0, 0.0)
    """Share of the probability that is spread over all classes."""

    def __post_init__(self) -> None:
        if self.init_cls_pooler and self.model.use_encoder_pooler:
            raise UsageError(
                "init_cls_pooler is true, and so is model.use_encoder_pooler: the classifier has no dense layer of its own "
                "then. Set one of them to false."
            )
        _check_below_one("label_smoothing", self.label_smoothing)
        _check_below_one("model.classifier_dropout_prob", self.model.classifier_dropout_prob)

    def metrics(self) -> dict[str, Better]:
        return sentence_metrics(self.kind or ("regression" if self.model.num_classes == 1 else None), self.parts())

    def parts(self) -> list[str]:
        """What dev_matched.tfrecord and dev_mismatched.tfrecord, or splits of TensorFlow Datasets, are called that are evaluated
        each for itself, too; [] for one, and for patterns, whose files are known with the data."""
        data = self.validation_data
        if isinstance(data, EvalTextDataConfig) and data.tfds_name:
            return part_names(data.tfds_splits)
        return _parts_of_files(data)


@dataclass
class QuestionAnsweringModelConfig(ModelConfig):
    """Encoder and answer layer."""

    answer_layer: Literal["span", "conditional"] = "span"
    """span: each token is scored as the start and as the end, as BERT's authors do; no answer is the score of [CLS]. conditional:
    ALBERT's layer for SQuAD 2.0, after XLNet: the end depends on the start, and a class says whether there is an answer."""
    start_n_top: int = at_least(1, 5, MOST_BEAM)
    """Starts that a conditional answer layer looks at in a window."""
    end_n_top: int = at_least(1, 5, MOST_BEAM)
    """Ends that a conditional answer layer looks at for each of these starts."""
    answer_dropout_prob: float = at_least(0, 0.1)
    """Dropout of the vector that a conditional answer layer classifies."""

    def __post_init__(self) -> None:
        _check_below_one("answer_dropout_prob", self.answer_dropout_prob)


@dataclass
class QuestionAnsweringConfig(TaskConfig):
    """The answer to a question, as a span of its context."""

    model: QuestionAnsweringModelConfig = field(default_factory=QuestionAnsweringModelConfig)
    train_data: QuestionDataConfig = field(default_factory=QuestionDataConfig)
    validation_data: EvalQuestionDataConfig = field(default_factory=EvalQuestionDataConfig)
    version_2_with_negative: bool | None = None
    """Questions may have no answer (SQuAD 2.0); null: as the records' meta file says."""
    n_best_size: int = at_least(1, 20, 10_000)
    """Answers kept for a question, and starts and ends looked at in a window."""
    max_answer_length: int = at_least(1, 30, MOST_TOKENS)
    """Tokens of the longest answer."""
    null_score_diff_threshold: float = 0.0
    """A question is left unanswered where that scores better than its best answer by more than this."""

    def metrics(self) -> dict[str, Better]:
        return question_metrics(
            self.version_2_with_negative is not False, has_class=self.model.answer_layer == "conditional"
        )


@dataclass
class MultipleChoiceModelConfig(ModelConfig):
    """Encoder and what scores a choice."""

    classifier_dropout_prob: float = at_least(0, 0.1)
    """Dropout of the vector that is scored."""


@dataclass
class MultipleChoiceConfig(TaskConfig):
    """The right one of several choices."""

    model: MultipleChoiceModelConfig = field(default_factory=MultipleChoiceModelConfig)
    train_data: DataConfig = field(default_factory=DataConfig)
    validation_data: EvalDataConfig = field(default_factory=EvalDataConfig)
    num_choices: int | None = at_least(LEAST_CHOICES, None, MOST_CHOICES)
    """Choices of an example; null: as the records' meta file says."""

    def __post_init__(self) -> None:
        _check_below_one("model.classifier_dropout_prob", self.model.classifier_dropout_prob)

    def metrics(self) -> dict[str, Better]:
        return choice_metrics(self.parts())

    def parts(self) -> list[str]:
        """What dev_middle.tfrecord and dev_high.tfrecord are called that are evaluated each for itself, too; [] for one, and
        for patterns, whose files are known with the data."""
        return _parts_of_files(self.validation_data)


def _parts_of_files(data: DataConfig) -> list[str]:
    paths = data.input_path
    names = dict.fromkeys(set_stem(path) for path in (paths.split(",") if isinstance(paths, str) else paths))
    return [] if any(set(name) & set("*?[") for name in names) else part_names([*names])


def _check_below_one(name: str, value: float) -> None:
    if value >= 1:
        raise UsageError(f"{name} must be at least 0 and below 1. Received: {value}")
