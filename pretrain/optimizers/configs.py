"""Options of optimizers, learning rates and warm-up, without Keras: reading a configuration must not import it."""

from dataclasses import dataclass, field
from typing import Literal

from pretrain.settings.config import Config
from pretrain.settings.fields import at_least


@dataclass
class AdamWConfig(Config):
    """Adam with decoupled weight decay, as in google-research/bert."""

    beta_1: float = 0.9
    """Share of the moving average of gradients that stays, each step."""
    beta_2: float = 0.999
    """The same of the squares of gradients."""
    epsilon: float = 1e-6
    """Added to what the gradient's average is divided by."""
    weight_decay_rate: float = 0.01
    """A step takes this share of a weight, times the learning rate, away from it."""
    exclude_from_weight_decay: list[str] = field(default_factory=list)
    """Regular expressions of weights that must not decay, in addition to biases and layer normalisation, which never do."""
    bias_correction: bool = False
    """Divide the moments by 1 - beta ** step, as Adam's paper and most libraries do; BERT does not."""
    momentum_dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the first moment: bfloat16 takes 2 bytes a weight, not 4. The second, whose steps are too small for it, is float32."""
    gradient_clip_norm: float | None = 1.0
    """Scale gradients down to this global norm; 0 or null: never."""


@dataclass
class LambConfig(AdamWConfig):
    """LAMB (You et al., arXiv 1904.00962): AdamW whose steps are relative to the size of each weight, for large batches."""

    bias_correction: bool = True
    """Divide the moments by 1 - beta ** step, as in the paper; google-research/albert does not."""
    exclude_from_layer_adaptation: list[str] | None = None
    """Regular expressions of weights without trust ratio; null: those that do not decay, as the authors' code has it."""


@dataclass
class SgdConfig(Config):
    """Gradient descent."""

    momentum: float = at_least(0, 0.0)
    """Share of the last step's direction that is kept, below 1; 0: plain gradient descent."""
    gradient_clip_norm: float | None = 1.0
    """Scale gradients down to this global norm; 0 or null: never."""


@dataclass
class AdafactorConfig(Config):
    """Keras's Adafactor (Shazeer and Stern, arXiv 1804.04235), whose steps are relative to the size of a weight."""

    decay_rate: float = at_least(0, 0.8, 1)
    """The second moments of step t keep the share 1 - t ** -decay_rate of what they were."""
    epsilon_1: float = at_least(0, 1e-30)
    """Added to squares of gradients."""
    epsilon_2: float = at_least(0, 1e-3)
    """Least root mean square of a weight, to which its steps are relative."""
    clip_threshold: float = at_least(0, 1.0)
    """Largest root mean square of a step, before the learning rate."""
    weight_decay_rate: float = at_least(0, 0.0)
    """A step takes this share of a weight, times the learning rate, away from it."""
    exclude_from_weight_decay: list[str] = field(default_factory=list)
    """Regular expressions of weights that must not decay, in addition to biases and layer normalisation, which never do."""
    gradient_clip_norm: float | None = None
    """Scale gradients down to this global norm; 0 or null: never."""


@dataclass
class ConstantConfig(Config):
    """The same rate at every step."""

    learning_rate: float = at_least(0, 1e-4)
    """Rate of every step after warm-up."""


@dataclass
class PolynomialConfig(Config):
    """A decay as a power of the share of it that is left; by default in a straight line to 0."""

    initial_learning_rate: float = at_least(0, 1e-4)
    """Highest rate: that of the step where warm-up ends and the decay starts. With decay_steps set, that of decay_start."""
    end_learning_rate: float = 0.0
    """Rate at the end of the decay, which then stays."""
    decay_steps: int | None = None
    """Steps of the decay, counted from decay_start; null: it ends with the run."""
    decay_start: int | None = None
    """Step at which the decay starts; null: where warm-up ends, or step 0 where decay_steps is set (as in the Garden)."""
    power: float = 1.0
    """Of the share of the decay that is left; 1: in a straight line."""


@dataclass
class LinearWarmupConfig(Config):
    """The rate rises in a straight line."""

    warmup_steps: int | None = None
    """Null: the share warmup_proportion of the run's steps."""
    warmup_proportion: float = at_least(0, 0.1)
    """Share of the steps, where warmup_steps does not say how many."""
    warmup_learning_rate: float = 0.0
    """Where it starts."""


@dataclass
class PolynomialWarmupConfig(LinearWarmupConfig):
    """The rate rises as a power of the share of the warm-up that has passed."""

    power: float = 1.0
    """1: in a straight line."""
