"""The time of a call, and when it is up."""

import time

from pretrain.training.budget import TimeBudget


def test_what_would_not_end_in_time_is_not_allowed():
    budget = TimeBudget(3600, time.monotonic() - 3000)
    assert budget.allows()
    assert budget.allows("loop", "checkpoint")  # neither was ever done
    budget.note("loop", 300.0)
    budget.note("checkpoint", 500.0)
    assert budget.allows("loop")
    assert budget.allows("checkpoint")
    assert not budget.allows("loop", "checkpoint")
    budget.note("checkpoint", 100.0)  # the last one counts
    assert budget.allows("loop", "checkpoint")
    assert not TimeBudget(3600, time.monotonic() - 3601).allows()
    assert TimeBudget(None, time.monotonic() - 1e9).allows("loop")


def test_the_time_that_is_needed_counts_what_follows_the_steps():
    budget = TimeBudget(None, time.monotonic())
    assert budget.needed(40, 100, 0.5, {"evaluation": 30}) == 30.0  # none was done yet
    budget.note("evaluation", 7.0)
    budget.note("checkpoint", 1.0)
    assert budget.needed(40, 100, 0.5, {"evaluation": 30}) == 30.0 + 3 * 7.0  # after 60, 90 and the last, 100
    assert budget.needed(60, 100, 0.5, {"evaluation": 30, "checkpoint": 50}) == 20.0 + 3 * 7.0 + 1.0
    assert budget.needed(100, 100, 0.5, {"evaluation": 30}) == 7.0
