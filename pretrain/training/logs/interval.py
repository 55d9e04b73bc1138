"""What a train line of metrics.jsonl is about: the steps since the line before."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass


@dataclass
class _Speed:
    tokens: int = 0
    seconds: float = 0.0
    steps: int = 0


class Interval:
    """Statistics and speed of some steps.

    The speed is that of the steps whose shapes were seen before. The others compile, which says nothing of the steps to come; where
    there are no others, theirs is all that is known.

    Args:
      statistics: of those that a run took before it resumed, whose time does not count.
      spent: gets the time of "steps", and that of those that compile ("compiling"), added to what it has of other intervals.

    Attributes:
      statistics: sums of each step; those that were not fetched yet are still on the device.
    """

    def __init__(self, statistics: Sequence[Mapping] = (), spent: dict[str, float] | None = None):
        self._spent = {} if spent is None else spent
        self.statistics = [dict(each) for each in statistics]
        self._fetched = len(self.statistics)
        self._tokens = self._places = 0
        self._compiling, self._compiled = _Speed(), _Speed()
        self._last = self._compiled  # where the time of the step that was added last belongs

    def add(self, statistics: Mapping, tokens: int, places: int, compiles: bool = False) -> None:
        """Adds a step, with its numbers of real tokens and of positions, and whether it is the first one of its shapes."""
        self.statistics.append(dict(statistics))
        self._tokens += tokens
        self._places += places
        self._last = self._compiling if compiles else self._compiled
        self._last.tokens += tokens
        self._last.steps += 1

    def add_seconds(self, seconds: float) -> None:
        """Adds time to that of the step that was added last."""
        self._last.seconds += seconds
        part = "compiling" if self._last is self._compiling else "steps"
        self._spent[part] = self._spent.get(part, 0.0) + seconds

    def finish(self) -> float:
        """Waits until the device has taken the steps that were added, whose time that is; returns the seconds."""
        begun = time.perf_counter()
        for value in self.statistics[-1].values() if self.statistics else ():
            float(value)
        seconds = time.perf_counter() - begun
        self.add_seconds(seconds)
        return seconds

    def fetch(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Waits for the device; yields (how many steps before the last one, numbers) of each step that was not fetched before."""
        for at in range(self._fetched, len(self.statistics)):
            values = {name: float(value) for name, value in self.statistics[at].items()}
            self.statistics[at] = values
            self._fetched = at + 1
            yield len(self.statistics) - at - 1, values

    @property
    def _speed(self) -> _Speed:
        return self._compiled if self._compiled.steps else self._compiling

    @property
    def seconds_a_step(self) -> float:
        return self._speed.seconds / max(self._speed.steps, 1)

    def speed(self, hosts: int) -> dict[str, float]:
        """tokens_per_second over all hosts, and padding, the share of positions without a token; {} where neither is known."""
        if not self._places:
            return {}
        return {
            "tokens_per_second": self._speed.tokens * hosts / max(self._speed.seconds, 1e-9),
            "padding": 1 - self._tokens / self._places,
        }
