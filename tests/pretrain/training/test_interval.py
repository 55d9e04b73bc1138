"""The speed of steps: without what compiles, where there is anything else."""

from pretrain.training.interval import Interval


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


def test_where_all_steps_compile_theirs_is_the_speed():
    only = interval((30, 40, 20.0, True), (20, 40, 10.0, True))
    assert only.seconds_a_step == 15
    assert only.speed(1)["tokens_per_second"] == 50 / 30


def test_nothing_is_known_of_no_steps_and_of_records_without_a_mask():
    resumed = interval(statistics=[{"loss": 1.0}])
    assert (resumed.seconds_a_step, resumed.speed(1), len(resumed.statistics)) == (0, {}, 1)
    assert interval((0, 0, 1.0, False)).speed(1) == {}
