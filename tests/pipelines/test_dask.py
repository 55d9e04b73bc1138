"""Every graph on a Dask cluster gives the files of the local executor, byte for byte."""

import os

import pytest

from nlpdata.cli import commands
from nlpdata.finetuning import batches
from nlpdata.tokenizers.training import train
from tests.nlpdata.commands import contents
from tests.nlpdata.finetuning.conftest import vocab  # noqa: F401 (fixture)
from tests.pipelines.conftest import arguments
from tests.pipelines.test_finetuning import finetuning_arguments, sources  # noqa: F401 (fixture)
from tests.pipelines.test_splitting import raw, split_arguments  # noqa: F401 (fixture)
from tests.pipelines.test_vocabulary import train_arguments

distributed = pytest.importorskip("distributed", reason="needs Dask (pip install '.[dask]')")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def on_cluster():
    """The runner's options: one cluster, of two processes, for all tests of this file."""
    before = dict(os.environ)
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster:
        os.environ.clear()  # Dask sets variables for its workers here
        os.environ.update(before)
        yield [
            "--runner=DaskRunner",
            "--",
            f"--dask_client_address={cluster.scheduler_address}",
            "--dask_npartitions=2",
        ]


@pytest.fixture
def same_files(on_cluster, tmp_path):
    def check(make):
        """make(folder, *options of the runner) -> arguments of a run."""
        for name, run in (("local", ["--workers=1"]), ("dask", on_cluster)):
            assert commands.main(make(tmp_path / name, *run)) == 0
        assert contents(tmp_path / "dask") == contents(tmp_path / "local")
        assert not [path for path in (tmp_path / "dask").iterdir() if path.name.startswith(".")]

    return check


def test_pretraining(same_files, corpus_folder, tiny_model, monkeypatch):
    """Next sentence without --num-shards takes all steps, whose collections are in as many parts as the text."""
    from pipelines.dask_runner import DaskRunner  # needs Dask

    visitors, make = [], DaskRunner.to_dask_bag_visitor

    def kept(*about):
        visitors.append(make(*about))
        return visitors[-1]

    monkeypatch.setattr(DaskRunner, "to_dask_bag_visitor", staticmethod(kept))
    same_files(lambda folder, *run: arguments(corpus_folder, folder, tiny_model, "nsp", None, *run))
    (visitor,) = visitors
    assert len(visitor.bags) > 50
    assert {bag.npartitions for bag in visitor.bags.values()} == {2}


def test_finetuning(same_files, sources, vocab, monkeypatch):  # noqa: F811
    monkeypatch.setattr(batches, "BATCH_ROWS", 7)
    same_files(lambda folder, *run: finetuning_arguments(sources, vocab, "squad", folder, *run))


def test_vocabulary(same_files, corpus_folder, monkeypatch):
    monkeypatch.setattr(train, "_PORTION_BYTES", 20_000)
    same_files(lambda folder, *run: train_arguments(corpus_folder, folder, "--sample-lines=700", *run))


def test_splitting(same_files, raw):  # noqa: F811
    """The workers know nothing of this process: the ranges of lines are as long as they always are."""
    more = ("--deduplicate-documents", "--deduplicate-lines", "--chunk-size=8000")
    same_files(lambda folder, *run: split_arguments(raw, folder, *more, *run))
