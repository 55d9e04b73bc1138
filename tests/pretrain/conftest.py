"""Records for the tests of training: made once by nlpdata from made-up text, 200 pieces, sequences of 32."""

import contextlib
import sys

import pytest

import nlpdata
from tests.nlpdata.conftest import as_text, random_documents, tiny_model  # noqa: F401 (a fixture)


@pytest.fixture(scope="session")
def record_sets(tmp_path_factory, tiny_model):  # noqa: F811
    """name -> path of records: static, dynamic, no pairs ("none"); read only."""
    folder = tmp_path_factory.mktemp("records")
    (folder / "text.txt").write_text(as_text(random_documents(120, seed=3)))
    sets = {}
    for name, options in {
        "static": {"masking": "static", "dupe_factor": 2, "num_shards": 3},
        "dynamic": {"masking": "dynamic", "num_shards": 2},
        "none": {"objective": "none", "dupe_factor": 1},
    }.items():
        nlpdata.create_pretraining(
            str(folder / "text.txt"),
            str(folder / name),
            tiny_model,
            max_seq_length=32,
            workers=1,
            accept_loss=True,  # the made-up sentences are longer
            **options,
        )
        sets[name] = f"{folder / name}.tfrecord*"
    return sets


@contextlib.contextmanager
def without_graphs():
    """In it TensorFlow computes step by step: few steps are sooner done than traced; the numbers are the same."""
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None:
        yield
        return
    before = tensorflow.config.functions_run_eagerly()  # one may be in another
    tensorflow.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tensorflow.config.run_functions_eagerly(before)


@pytest.fixture
def eagerly():
    with without_graphs():
        yield


@pytest.fixture(scope="module")
def module_eagerly():
    """For a module whose own fixtures train, too."""
    with without_graphs():
        yield
