"""The speed of steps: without what compiles, where there is anything else."""

import time

from pretrain.training.logs.interval import Interval


def interval(*steps, **kept):
    made = Interval(**kept)
    for tokens, places, seconds, compiles in steps:
        made.add({"loss": 1.0}, tokens, places, compiles)
        made.add_seconds(seconds / 2)
        made.add_seconds(seconds / 2)
    return made


def test_steps_that_compile_have_no_part_in_the_speed():
    both = interval((30, 40, 20.0, True), (20, 40, 1.0, False), (30, 80, 9.0, True), (10, 40, 2.0, False))
    assert both.seconds_a_step == 1.5
    assert both.speed(2) == {"tokens_per_second": 20.0, "padding": 1 - 90 / 200}


class Slow:
    """A statistic for which the device takes that many seconds."""

    def __init__(self, seconds: float):
        self._seconds = seconds

    def __float__(self) -> float:
        time.sleep(self._seconds)
        return 1.0


def test_the_device_finishes_earlier_steps_before_one_that_compiles_in_their_own_time():
    made = Interval()
    made.add({"loss": Slow(0.0)}, 30, 40)
    made.add({"loss": Slow(0.2)}, 30, 40)
    waited = made.finish()
    made.add({"loss": 1.0}, 30, 40, compiles=True)
    made.add_seconds(9.0)
    assert waited >= 0.2
    assert made.seconds_a_step == waited / 2
    assert Interval().finish() >= 0  # there is nothing to wait for


def test_where_all_steps_compile_theirs_is_the_speed():
    only = interval((30, 40, 20.0, True), (20, 40, 10.0, True))
    assert only.seconds_a_step == 15
    assert only.speed(1)["tokens_per_second"] == 50 / 30


def test_nothing_is_known_of_no_steps_and_of_records_without_a_mask():
    resumed = interval(statistics=[{"loss": 1.0}])
    assert (resumed.seconds_a_step, resumed.speed(1), len(resumed.statistics)) == (0, {}, 1)
    assert interval((0, 0, 1.0, False)).speed(1) == {}
