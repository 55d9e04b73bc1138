"""Waiting for what another process does."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], bool]) -> bool:
    """Waits until a condition holds; whether it does within five minutes, which is long on a busy machine, too."""
    end = time.monotonic() + 300
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True
