"""What `predict` takes besides texts: arrays by name and data sets of them, which are for Keras. All else is refused here, since
Keras says of it what nobody who meant texts understands.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from types import GeneratorType
from typing import Any

import keras

from nlpdata.errors import UsageError

_NAMED = "{'input_ids': ..., 'input_mask': ..., 'segment_ids': ...}"
_TAKES = f"predict takes a list of texts; or arrays by name, {_NAMED}, or data sets of them"
_INTO_LIST = "Texts go into a list: list(...)."


def checked_arrays(x: Any) -> Any:
    """What keras.Model.predict is given for x, which is not a list of texts. A generator's first batch is looked at.

    Raises UsageError for what is neither arrays of numbers by name nor a data set.
    """
    if isinstance(x, Mapping):
        for name, array in x.items():
            if not _is_numbers(array):
                raise UsageError(f"{_TAKES}. Received: {name!r} is {_shown(array)}, not an array of numbers.")
        return x
    if isinstance(x, GeneratorType):
        return _checked_batches(x)
    if isinstance(x, keras.utils.PyDataset) or hasattr(x, "element_spec") or hasattr(x, "batch_sampler"):
        return x  # Keras's own, TensorFlow's, PyTorch's
    may_hold_texts = hasattr(x, "__iter__") and not isinstance(x, bytes) and not _is_numbers(x)
    raise UsageError(f"{_TAKES}. Received: {_shown(x)}." + (f" {_INTO_LIST}" if may_hold_texts else ""))


def _checked_batches(batches: Iterator[Any]) -> Iterator[Any]:
    first = next(batches, None)
    inputs = first[0] if isinstance(first, tuple) and first else first
    if not isinstance(inputs, Mapping) or not all(map(_is_numbers, inputs.values())):
        what = "a generator of nothing" if first is None else f"a generator, which begins with {_shown(first)}"
        raise UsageError(f"{_TAKES}. Received: {what}. {_INTO_LIST}")
    # Keras asks for a generator of tuples.
    return ((batch,) if isinstance(batch, Mapping) else batch for batch in chain([first], batches))


def _is_numbers(value: Any) -> bool:
    """Whether a value is an array of numbers, of NumPy or of a backend."""
    try:
        kind = keras.backend.standardize_dtype(value.dtype)
    except (AttributeError, TypeError, ValueError):
        return False
    return kind != "string" and hasattr(value, "shape")


def _shown(value: Any) -> str:
    """A value on one line: its beginning, and its type."""
    return f"{ascii(value)[:60]} ({type(value).__name__})"
