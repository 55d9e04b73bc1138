"""A disk that takes no more while a checkpoint is written: a message in every format, and nothing is left."""

from contextlib import contextmanager

import pytest

from nlpdata.errors import DataError
from pretrain.converters.write import write_checkpoint
from pretrain.export import main
from pretrain.registry import CHECKPOINT_FORMATS
from tests.pretrain.converters.test_round_trips import make

resource = pytest.importorskip("resource")


@contextmanager
def files_up_to(size):
    """As `ulimit -f`: writing beyond `size` bytes of a file fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("format", list(CHECKPOINT_FORMATS))
def test_files_that_may_not_grow(format, tmp_path):
    checkpoint = make("albert", "pretraining", 1, layers=1)
    with files_up_to(600), pytest.raises(DataError) as error:
        write_checkpoint(tmp_path / "new", checkpoint, format)
    assert str(error.value).endswith("cannot be written: File too large")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_names_that_no_disk_takes(name, tmp_path, capsys):
    assert main([str(tmp_path / name), str(tmp_path / "new"), "--format", "hf"]) in (1, 2)
    assert capsys.readouterr().err.count("\n") == 1
