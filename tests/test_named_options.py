"""The check of all messages that conftest.py makes."""

import pytest

from nlpdata.cli import commands
from nlpdata.cli.program import run_program
from nlpdata.errors import UsageError, as_flag, opt
from tests.named_options import foreign_options as foreign_in


@pytest.mark.parametrize(
    ("name", "message", "foreign"),
    [
        ("pretrain submit", "Leave --model_dir out, or --noversion_2_with_negative, or --limit", ["--limit"]),
        ("verify", "Use --max-seq-length 128.", ["--max-seq-length"]),
        ("create-finetuning", "Use --max_seq_length 128, or --on-bad-row skip.", []),
        ("verify", "Make records with --max-seq-length 128.", []),
        ("verify", "Use --max-seq-length 128 of nlpdata create-finetuning.", []),
        ("verify", "Use --given-by-the-user.", []),
        ("verify", "Make a wheel with `pip wheel --no-deps .`; --no-deps", ["--no-deps"]),
        ("inspect", "Run `nlpdata create-pretraining --dupe-factor 3`. Or --limit 3; --dupe-factor 3", ["--dupe-factor"]),
        ("inspect", "pretrain run --mode=eval_all, or pretrain glue --mode", ["--mode"]),
    ],
)  # fmt: skip
def test_an_option_is_of_the_command_or_of_one_that_is_named(name, message, foreign):
    own = [] if name.startswith("pretrain ") else [name]
    found = foreign_in("nlpdata" if own else name, [*own, "--given-by-the-user=3"], f"nlpdata: error: {message}")
    assert [line.partition(" ")[0] for line in found] == foreign


def test_what_a_command_writes_is_watched(foreign_options, capsys):
    def work(argv):
        raise UsageError(f"Use {opt('whole_word', False)} or {opt('limit')}.")

    assert run_program("nlpdata", ["inspect"], work, as_flag) == 2
    assert commands.main(["inspect", "no-such-file"]) == 2
    assert foreign_options == [
        "--no-whole-word is not an option of nlpdata inspect: nlpdata: error: Use --no-whole-word or --limit."
    ]
    foreign_options.clear()
    assert "--no-whole-word" in capsys.readouterr().err
