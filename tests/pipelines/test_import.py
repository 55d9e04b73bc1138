"""Importing the package, also where Beam is missing."""

import importlib
import logging
import sys

import pytest


@pytest.mark.parametrize("switched_off", [logging.NOTSET, logging.INFO, logging.ERROR])
def test_an_import_without_beam_leaves_messages_as_they_were(switched_off, monkeypatch):
    monkeypatch.setattr(logging.root.manager, "disable", switched_off)
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "pipelines"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pipelines")
    assert logging.root.manager.disable == switched_off
