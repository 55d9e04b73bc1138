"""Errors: how they name options on each face, and the closest of the known names."""

import pickle

import numpy as np
import pytest

import nlpdata
from nlpdata.cli.commands import main
from nlpdata.errors import DataError, Message, UsageError, as_flag, closest, opt, spelling


@pytest.mark.parametrize(
    ("field", "value", "flag", "argument"),
    [
        ("max_seq_length", None, "--max-seq-length", "max_seq_length"),
        ("max_seq_length", 128, "--max-seq-length 128", "max_seq_length=128"),
        ("max_seq_length", np.int64(128), "--max-seq-length 128", "max_seq_length='128'"),
        ("on_bad_row", "skip", "--on-bad-row skip", "on_bad_row='skip'"),
        ("drop_labels", "-", "--drop-labels=-", "drop_labels='-'"),
        ("labels", 'a "b", \x7f=c', '--labels a "b", \\x7f=c', "labels='a \"b\", \\x7f=c'"),
        ("whole_word", True, "--whole-word", "whole_word=True"),
        ("whole_word", False, "--no-whole-word", "whole_word=False"),
        ("k2", 0, "--k2 0", "k2=0"),
    ],
)
def test_an_option_has_the_spelling_of_each_face(field, value, flag, argument):
    text = f"Use {opt(field, value)}, or {opt('seed')}."
    assert Message(text).spelled(as_flag) == f"Use {flag}, or --seed."
    assert str(Message(text)) == f"Use {argument}, or seed."
    with spelling(lambda name, value: f"task.{name}"):
        assert str(Message(text)) == str(UsageError(text)) == f"Use task.{field}, or task.seed."
    assert str(UsageError(text)) == f"Use {argument}, or seed."


@pytest.mark.parametrize("kind", [DataError, UsageError])
def test_an_error_keeps_its_options_on_its_way_from_a_worker(kind):
    error = pickle.loads(pickle.dumps(kind(f"{opt('seed', 3)} is odd")))
    assert type(error) is kind
    assert (str(error), error.spelled(as_flag)) == ("seed=3 is odd", "--seed 3 is odd")
    assert str(kind("{plain} text, 100%")) == "{plain} text, 100%"


def test_the_same_mistake_in_python_and_on_the_command_line(tmp_path, capsys):
    with pytest.raises(UsageError, match=r"^max_seq_length must be from 8 to 65536\. Received: 3\.$"):
        nlpdata.create_pretraining("a.txt", "out", "vocab.txt", max_seq_length=3)
    code = main(["create-pretraining", "a.txt", "--output=o", "--tokenizer=t", "--max_seq_length=3"])
    assert code == 2
    assert capsys.readouterr().err == "nlpdata: error: --max-seq-length must be from 8 to 65536. Received: 3.\n"


@pytest.mark.parametrize(
    ("name", "known", "expected"),
    [
        ("albrt", ["bert", "albert", "mobilebert"], " Did you mean albert?"),
        ("ALBERT", ["bert", "albert"], " Did you mean albert?"),
        ("--max-lenght", ["--min-count", "--Max-length"], " Did you mean --Max-length?"),
        ("xyz", ["bert", "albert"], ""),
        ("--a", ["--seed", "--output"], ""),
        ("s4://", ["s3://", "hdfs://"], " Did you mean s3://?"),
        (2020, ["x", 2021], " Did you mean 2021?"),
        ("", ["bert"], ""),
        ("bert", [], ""),
    ],
)
def test_the_closest_name(name, known, expected):
    assert closest(name, known) == expected


def test_more_than_one_close_name():
    assert closest("acuracy", ["mlm_accuracy", "f1", "accuracy"], most=3) == " Did you mean accuracy or mlm_accuracy?"
    assert closest("ab", ["abc", "abd", "abe"], most=3).count(",") == 1


def test_a_message_is_one_line_without_what_a_terminal_obeys():
    """Whatever the data it quotes."""
    error = DataError(f"a.csv:1: no column \x1b[31m\r\n'x\u2028y'\x85. Use {opt('header', False)}\x1ea=zzz\x1f")
    assert str(error) == "a.csv:1: no column \\x1b[31m\\r\\n'x\\u2028y'\\x85. Use header=False\\x1ea=zzz\\x1f"
    assert str(DataError("no " + "9" * 5000 + " here")) == f"no {'9' * 1497} ... {'9' * 1495} here"


def test_a_message_can_be_written_as_utf_8():
    assert str(DataError("id q1\ud83d, file a\udcff.csv")) == "id q1\\ud83d, file a\\udcff.csv"
    assert str(Message("left out: \ud83d")) == "left out: \\ud83d"


def test_options_of_a_message_may_have_other_names_elsewhere():
    error = UsageError(f"{opt('format', 'tsv')}, {opt('formats')} or {opt('format')}: format")
    assert str(UsageError(error.message.renamed({"format": "input_format"}))) == (
        "input_format='tsv', formats or input_format: format"
    )
