"""Where an answer may be in a window of a question and its context: one rule for NumPy and for all backends."""

from collections.abc import Mapping
from typing import Any


def may_answer(inputs: Mapping[str, Any], ops: Any) -> Any:
    """Which tokens an answer may start or end at, bool (b, L): those of the context, and the first one, which means none.

    The same as the records' p_mask (1 where it may not) and paragraph_mask: the second segment without its [SEP].

    Args:
      inputs: input_mask and segment_ids (b, L).
      ops: numpy, or keras.ops for tensors.
    """
    real = ops.not_equal(inputs["input_mask"], 0)
    before_another = ops.concatenate([real[:, 1:], ops.zeros_like(real[:, :1])], axis=1)
    context = ops.logical_and(ops.equal(inputs["segment_ids"], 1), before_another)
    return ops.logical_or(context, ops.equal(ops.arange(ops.shape(real)[1]), 0))
