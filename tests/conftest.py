"""What holds for all tests."""

import signal
import sys
import threading

import hypothesis
import pytest

# A time limit on each example tells how busy the machine is, not whether the code is right.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """The models of these tests are so small that threads mostly wait for each other, and test processes share the cores."""
    if "tensorflow" in sys.modules:  # collected tests have imported it
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)


@pytest.fixture(autouse=True)
def _bound(request):
    """No test runs for ever: one that hangs fails after five minutes, or after the seconds of its mark `bound`."""
    if not hasattr(signal, "SIGALRM") or threading.current_thread() is not threading.main_thread():
        yield
        return
    mark = request.node.get_closest_marker("bound")
    seconds = mark.args[0] if mark else 300

    def stop(*_):
        pytest.fail(f"the test ran for more than {seconds} seconds")  # which no `except Exception` takes for its own

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
