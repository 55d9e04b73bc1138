"""What holds for all tests."""

import sys

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    """The models of these tests are so small that threads mostly wait for each other, and test processes share the cores."""
    if "tensorflow" in sys.modules:  # collected tests have imported it
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
