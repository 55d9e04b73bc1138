"""Counts of parts, added up."""

from collections import Counter
from typing import Any

import numpy as np


def add_counts(counts: Any, other: Any) -> None:
    """Adds the fields of a dataclass of counts (numbers, Counters, lists, arrays of one shape, or none yet) to those of another."""
    for name, value in vars(other).items():
        own = getattr(counts, name)
        if isinstance(value, Counter):
            own.update(value)
        elif isinstance(value, np.ndarray):
            setattr(counts, name, own + value if len(own) and len(value) else own if len(own) else value)
        else:
            setattr(counts, name, own + value)
