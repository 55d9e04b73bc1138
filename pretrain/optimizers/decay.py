"""Which weights decay: by role, and by patterns of the user."""

import re
from collections.abc import Sequence


def is_decayed(path: str, exclude: Sequence[str] = ()) -> bool:
    """Kernels and embeddings decay; biases and the gamma and beta of layer normalisation do not.

    Args:
      path: path of the variable, its role last, e.g. "encoder/layer_0/attention/query/kernel".
      exclude: regular expressions; a weight whose path has a match of one does not decay either.
    """
    role = path.rsplit("/", 1)[-1]
    if role in ("gamma", "beta") or role == "bias" or role.endswith("_bias"):
        return False
    return not any(re.search(pattern, path) for pattern in exclude)
