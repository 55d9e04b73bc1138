"""What holds for all tests."""

import sys

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
