"""The way from nlpdata to the Beam pipelines: one registry line, followed only where a runner other than local is asked."""

import importlib

from nlpdata.errors import UsageError

LOCAL = "local"
_ON_BEAM = "pipelines.commands:COMMANDS"  # command -> "module:function"


def on_beam(command: str):
    """The function that does a command on a Beam runner. UsageError where Beam is not installed."""
    try:
        return _attribute(_attribute(_ON_BEAM)[command])
    except ModuleNotFoundError as error:
        if error.name != "apache_beam":
            raise
        raise UsageError("--runner needs Apache Beam: pip install apache-beam, or leave --runner out") from None


def _attribute(name: str):
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)
