"""What a verification found."""

from collections import Counter
from dataclasses import dataclass, field

MAX_SHOWN = 20  # faults of one kind that are listed; all are counted


@dataclass
class VerifyReport:
    """What verification found. `faults` is empty where all is well.

    Attributes:
      faults: messages, at most MAX_SHOWN of a kind.
      counts: faults by kind, all of them.
      files, records: what was read.
      not_checked: what could not be checked, and why.
    """

    faults: list[str] = field(default_factory=list)
    counts: Counter = field(default_factory=Counter)
    files: int = 0
    records: int = 0
    not_checked: list[str] = field(default_factory=list)

    def add(self, kind: str, message: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= MAX_SHOWN:
            self.faults.append(message)

    def __str__(self) -> str:
        lines = list(self.faults)
        lines += [
            f"... {count - MAX_SHOWN} more: {kind}" for kind, count in sorted(self.counts.items()) if count > MAX_SHOWN
        ]
        lines += [f"not checked: {text}" for text in self.not_checked]
        total = sum(self.counts.values())
        lines.append(
            f"{_count(self.files, 'file')}, {_count(self.records, 'record')}: "
            + (_count(total, "fault") if total else "no faults")
        )
        return "\n".join(lines)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
