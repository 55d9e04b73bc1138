"""Importing the package, also where Beam is missing."""

import importlib
import logging
import sys

import pytest


def test_messages_appear_after_an_import_without_beam(monkeypatch):
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    for name in [name for name in sys.modules if name.partition(".")[0] == "pipelines"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("pipelines")
    assert logging.root.manager.disable == logging.NOTSET
