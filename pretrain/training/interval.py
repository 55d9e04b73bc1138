"""What a train line of metrics.jsonl is about: the steps since the line before."""

from collections.abc import Iterator, Mapping, Sequence


class Interval:
    """Statistics and speed of some steps.

    Args:
      statistics: of those that a run took before it resumed, whose time does not count.

    Attributes:
      statistics: sums of each step; those that were not fetched yet are still on the device.
    """

    def __init__(self, statistics: Sequence[Mapping] = ()):
        self.statistics = [dict(each) for each in statistics]
        self._fetched = len(self.statistics)
        self._tokens = self._places = self._timed_steps = 0
        self._seconds = 0.0

    def add(self, statistics: Mapping, tokens: int, places: int) -> None:
        """Adds a step, with its numbers of real tokens and of positions."""
        self.statistics.append(dict(statistics))
        self._tokens += tokens
        self._places += places
        self._timed_steps += 1

    def add_seconds(self, seconds: float) -> None:
        """Adds time to that of the steps."""
        self._seconds += seconds

    def fetch(self) -> Iterator[tuple[int, dict[str, float]]]:
        """Waits for the device; yields (how many steps before the last one, numbers) of each step that was not fetched before."""
        for at in range(self._fetched, len(self.statistics)):
            values = {name: float(value) for name, value in self.statistics[at].items()}
            self.statistics[at] = values
            self._fetched = at + 1
            yield len(self.statistics) - at - 1, values

    @property
    def seconds_a_step(self) -> float:
        return self._seconds / max(self._timed_steps, 1)

    def speed(self, hosts: int) -> dict[str, float]:
        """tokens_per_second over all hosts, and padding, the share of positions without a token; {} where neither is known."""
        if not self._places:
            return {}
        return {
            "tokens_per_second": self._tokens * hosts / max(self._seconds, 1e-9),
            "padding": 1 - self._tokens / self._places,
        }
