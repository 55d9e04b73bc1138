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
ON_BEAM = "pipelines.commands:COMMANDS"  # the same commands as pipelines: the one way from nlpdata to that package


def function_of(command: str, runner: str) -> Callable[..., Any]:
    """The function that does a command on a runner. UsageError where Beam is needed and not installed."""
    if runner == LOCAL:
        return _load(COMMANDS[command])
    try:
        return _load(_load(ON_BEAM)[command])
    except ModuleNotFoundError as error:
        if error.name != "apache_beam":
            raise
        raise missing_package(opt("runner", runner), "apache_beam") from None


def _load(reference: str) -> Any:
    module, _, attribute = reference.partition(":")
    return getattr(importlib.import_module(module), attribute)
