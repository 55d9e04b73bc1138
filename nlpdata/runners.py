"""The way from nlpdata to the Beam pipelines: one registry line, followed only where a runner other than local is asked."""

import importlib

from nlpdata.errors import UsageError

LOCAL = "local"
ON_BEAM = {"create-pretraining": "pipelines.pretraining:create_pretraining"}


def on_beam(command: str):
    """The function that does a command on a Beam runner. UsageError where Beam is not installed."""
    module, _, attribute = ON_BEAM[command].partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name != "apache_beam":
            raise
        raise UsageError("--runner needs Apache Beam: pip install apache-beam, or leave --runner out") from None
