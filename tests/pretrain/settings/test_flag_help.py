"""The help screen of `pretrain run`: every flag, in a group; tests/test_help.py looks at its lines."""

from nlpdata.cli.screens import GENERAL
from pretrain.run import app
from pretrain.settings.flag_help import group_of_flag, help_text
from pretrain.settings.flags import ACCEPTED, FIELDS, FLAGS, RUN


def test_help_names_every_flag():
    text = help_text(app).replace("[no]", "")
    for flag in FLAGS:
        assert f"--{flag.name}" in text, flag.name
    assert all(flag.help for flag in FLAGS if flag not in ACCEPTED)


def test_every_flag_has_a_group():
    assert {flag.name for flag in (*RUN, *FIELDS) if flag.name != "help" and group_of_flag(flag.name) == GENERAL} == {
        "quiet",
        "verbose",
        "json",
        "version",
    }
