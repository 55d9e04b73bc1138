"""Commands that run on this machine or on a Beam runner: where their functions are, loaded where they are called."""

import importlib
from collections.abc import Callable
from typing import Any

from nlpdata.errors import missing_package, opt

LOCAL = "local"
COMMANDS = {
    "split-sentences": "nlpdata.corpus.splitting.run:split_sentences",
    "create-pretraining": "nlpdata.pretraining.create:create_pretraining",
    "create-finetuning": "nlpdata.finetuning.create:create_finetuning",
    "train-tokenizer": "nlpdata.tokenizers.training.train:train_tokenizer",
}
DRY_RUNS = {
    "split-sentences": "nlpdata.corpus.splitting.estimate:estimate_splitting",
    "create-pretraining": "nlpdata.pretraining.estimate:estimate_pretraining",
    "create-finetuning": "nlpdata.finetuning.estimate:estimate_finetuning",
    "train-tokenizer": "nlpdata.tokenizers.training.estimate:estimate_training",
}
"""What a command would do on this machine: see nlpdata.output.estimate."""
ON_BEAM = "pipelines.commands:COMMANDS"  # the same commands as pipelines: the one way from nlpdata to that package


def function_of(command: str, runner: str, dry_run: bool = False) -> Callable[..., Any]:
    """The function that does a command on a runner. UsageError where Beam is needed and not installed.

    On Beam the function itself takes dry_run, and returns the job.
    """
    if runner == LOCAL:
        return _load((DRY_RUNS if dry_run else COMMANDS)[command])
    try:
        return _load(_load(ON_BEAM)[command])
    except ModuleNotFoundError as error:
        if error.name != "apache_beam":
            raise
        raise missing_package(opt("runner", runner), "apache_beam") from None


def _load(reference: str) -> Any:
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)
