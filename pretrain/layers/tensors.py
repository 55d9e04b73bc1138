"""The type of tensors in annotations."""

from typing import Any, TypeAlias

Tensor: TypeAlias = Any
"""A tensor of the backend, or a symbolic one of Keras; docstrings give shapes and dtypes."""
