"""The wall-clock time that a call may take: it ends while what it still has to do fits in."""

import math
import time
from collections.abc import Mapping


class TimeBudget:
    """Knows how long each part of the work took when it was last done.

    Args:
      seconds: trainer.max_time; None: no limit.
      started: time.monotonic() at the start of the call.

    Attributes:
      spent: part -> seconds that it took in all.
    """

    def __init__(self, seconds: float | None, started: float):
        self._end = math.inf if seconds is None else started + seconds
        self._lasted: dict[str, float] = {}
        self.spent: dict[str, float] = {}

    def note(self, part: str, seconds: float) -> None:
        """The part of that name took so long."""
        self._lasted[part] = seconds
        self.spent[part] = self.spent.get(part, 0.0) + seconds

    def needed(self, step: int, last_step: int, seconds_a_step: float, intervals: Mapping[str, int]) -> float:
        """Seconds of the steps after `step`, and of the parts that follow them or it, if each takes as long as it last did.

        Args:
          intervals: part -> every how many steps it is done; after the last step it is done, too.
        """
        seconds = (last_step - step) * seconds_a_step
        for part, interval in intervals.items():
            times = last_step // interval - (step - 1) // interval + bool(last_step % interval)
            seconds += times * self._lasted.get(part, 0.0)
        return seconds

    def allows(self, *parts: str) -> bool:
        """Whether there is time for these, if each takes as long as it last did; of one that was never done, any time is enough."""
        return time.monotonic() + sum(self._lasted.get(part, 0.0) for part in parts) < self._end
