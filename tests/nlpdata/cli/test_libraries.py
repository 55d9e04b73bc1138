"""What keeps libraries quiet, and that it leaves no trace. tests/test_quiet.py shows the screens of commands."""

import importlib
import logging
import os
import sys
import warnings
from contextlib import nullcontext

import pytest

from nlpdata.cli.libraries import quiet_libraries, show_libraries

LEVEL = "TF_CPP_MIN_LOG_LEVEL"


def state():
    return os.environ.get(LEVEL), [type(each) for each in sys.meta_path], logging.getLogger("absl").level


def test_libraries_are_quiet_while_it_lasts(monkeypatch):
    monkeypatch.delenv(LEVEL, raising=False)
    before = state()
    with quiet_libraries():
        assert os.environ[LEVEL] == "3"
        assert logging.getLogger("absl").level == logging.ERROR
        # Matplotlib tells of its list of fonts where making it, the first time on a machine, takes more than five seconds.
        assert not logging.getLogger("matplotlib.font_manager").isEnabledFor(logging.WARNING)
        show_libraries()
        assert os.environ[LEVEL] == "0"
        assert logging.getLogger("absl").level == logging.NOTSET
    assert state() == before


def test_a_level_of_the_users_own_is_kept(monkeypatch):
    monkeypatch.setenv(LEVEL, "1")
    with quiet_libraries():
        assert os.environ[LEVEL] == "1"
    assert os.environ[LEVEL] == "1"


def test_warnings_that_the_user_asks_for_are_shown(monkeypatch):
    """python -W error, and filters that make errors of warnings, as these tests have."""
    with quiet_libraries():
        assert ("error", Warning) in [(action, category) for action, _, category, *_ in warnings.filters]
    monkeypatch.setattr(sys, "warnoptions", [])
    with warnings.catch_warnings():
        warnings.resetwarnings()
        with quiet_libraries():
            assert warnings.filters[0][0] == "ignore"
            show_libraries()
            assert warnings.filters[0][0] == "default"


@pytest.mark.parametrize(
    ("more", "shown"), [("", ""), ("raise ImportError('no')\n", "F0000 of a library\n")], ids=["imported", "failed"]
)
def test_a_talkative_import_is_held_back_unless_it_fails(more, shown, tmp_path, monkeypatch, capfd):
    """A module of that name which writes as TensorFlow does: while it is imported."""
    name = "tensorflow"
    monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / f"{name}.py").write_text(f"import os\nos.write(2, b'F0000 of a library\\n')\n{more}")
    with quiet_libraries(), pytest.raises(ImportError, match="no") if more else nullcontext():
        assert importlib.import_module(name).__file__.startswith(str(tmp_path))
    sys.modules.pop(name, None)
    assert capfd.readouterr().err == shown
