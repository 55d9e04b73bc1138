"""What holds for all tests."""

import importlib.util

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_thread(request):
    """The models of these tests are so small that threads mostly wait for each other, and test processes share the cores."""
    if importlib.util.find_spec("tensorflow") and any("pretrain" in item.path.parts for item in request.session.items):
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
