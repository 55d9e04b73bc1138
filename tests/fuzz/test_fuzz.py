"""A short run of the fuzz command with a fixed seed: whatever the input, a message or a result."""

import math

import pytest

from tests.fuzz import mutations
from tests.fuzz.cases import TARGETS
from tests.fuzz.runner import FAULT, run, table
from tests.fuzz.targets import load_targets

load_targets()
LIGHT = [name for name, target in TARGETS.items() if not target.heavy]


def _run(names: list[str], count: int) -> None:
    tallies = dict(run(names, 12, count, math.inf))
    faults = [f"== {case}\n{what}" for tally in tallies.values() for case, what in tally.faults.items()]
    assert not faults, "\n".join([*faults, table(tallies)])
    assert tallies.keys() == set(names)


def test_data_preparation():
    _run(LIGHT, 8)


@pytest.mark.heavy
def test_settings_and_checkpoints():
    _run([name for name in TARGETS if name.startswith(("settings/", "checkpoints/"))], 4)


def test_the_table_counts_what_happens(tmp_path, monkeypatch):
    """A crash, a hang, an exception and a message of two lines are faults, and the run goes on after each.

    What a case writes under a relative name goes to its folder.
    """
    import os
    from pathlib import Path

    from nlpdata.errors import DataError
    from tests.fuzz import cases, runner

    def fails(case):
        number = len(list(tmp_path.iterdir()))
        (tmp_path / str(number)).touch()
        Path("of-a-case").touch()
        assert (case.folder / "of-a-case").exists()
        if number == 1:
            raise KeyError("x")
        if number == 2:
            raise DataError("one line")
        if number == 3:
            os._exit(3)
        if number == 4:
            while True:
                pass

    monkeypatch.setattr(runner, "SECONDS", 1)
    monkeypatch.setitem(cases.TARGETS, "made/up", cases.Target("made/up", fails))
    tallies = dict(run(["made/up"], 0, 6, 60))
    assert tallies["made/up"].counts == {"accepted": 2, "refused": 1, FAULT: 3}
    assert [name.rpartition(":")[2] for name in tallies["made/up"].faults] == ["1", "3", "4"]
    assert not Path("of-a-case").exists()
    last = table(tallies).splitlines()[-1].split()
    assert last == ["all", "6", "1", "2", "3"]


def test_mutations_are_those_of_their_seed():
    import random

    data = bytes(range(256)) * 4
    made = [[mutations.damaged(random.Random(seed), data) for seed in range(50)] for _ in range(2)]
    assert made[0] == made[1]
    assert len(set(made[0])) > 45
    value = {"a": [1, {"b": "c"}], "d": None}
    odd = [mutations.odd_json(random.Random(seed), value) for seed in range(50)]
    assert sum(each != value for each in odd) > 45
    assert value == {"a": [1, {"b": "c"}], "d": None}
