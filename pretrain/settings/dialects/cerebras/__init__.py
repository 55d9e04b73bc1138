"""--params FILE: configurations of Cerebras's TensorFlow BERT (modelzoo, transformers/tf/bert), translated to ours."""

from pretrain.settings.dialects.cerebras.translate import read_params

__all__ = ["read_params"]
