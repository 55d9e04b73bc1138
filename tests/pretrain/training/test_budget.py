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
