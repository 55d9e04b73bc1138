"""Fixtures: the small model and corpus of nlpdata's tests, and what the local executor makes of them."""

import pytest

from nlpdata.cli import commands
from tests.nlpdata.commands import contents, create_arguments
from tests.nlpdata.conftest import corpus_folder, tiny_model  # noqa: F401 (fixtures)

OBJECTIVES = ("sop", "nsp", "none")
MORE = ("--eval-fraction", "0.2", "--chunk-size", "20000")


@pytest.fixture(scope="session")
def local_files(tmp_path_factory, corpus_folder, tiny_model):  # noqa: F811
    """(objective, shards) -> the files of the local executor; each made once."""
    made = {}

    def files(objective, shards):
        if (objective, shards) not in made:
            folder = tmp_path_factory.mktemp("local")
            assert commands.main(arguments(corpus_folder, folder, tiny_model, objective, shards, "--workers", "1")) == 0
            made[objective, shards] = contents(folder)
        return made[objective, shards]

    return files


def arguments(corpus, folder, model, objective, shards, *more):
    """Arguments of a run; workers are left to the runner."""
    count = ("--num-shards", shards) if shards else ()
    given = create_arguments(
        corpus / "*.txt", folder / "t.tfrecord", model, "--objective", objective, *MORE, *count, *more, dupe=2
    )
    at = given.index("--workers")
    return given[:at] + given[at + 2 :]
