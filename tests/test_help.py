"""Every help screen in a terminal of 80 columns: lines that fit, options with help and in groups, examples that can be typed."""

import re
import shlex

import pytest
import typer

from nlpdata.cli import commands as of_nlpdata
from nlpdata.cli.screens import GENERAL, group_of
from pretrain import commands as of_pretrain
from pretrain.settings.flags import parse_flags

PROGRAMS = {"nlpdata": of_nlpdata, "pretrain": of_pretrain}
NAMES = {"nlpdata": list(of_nlpdata._commands()), "pretrain": list(of_pretrain.COMMANDS)}
SCREENS = [(program, name) for program, names in NAMES.items() for name in ("", *names)]
COMMON = {"quiet", "verbose", "json", "help"}


def command_of(program, name):
    app = typer.main.get_command(PROGRAMS[program].app)
    return app.get_command(None, name) if name else app


@pytest.fixture(params=SCREENS, ids=" ".join)
def screen(request, monkeypatch, capsys):
    program, name = request.param
    monkeypatch.setenv("COLUMNS", "80")
    assert PROGRAMS[program].main([*([name] if name else []), "--help"]) == 0
    shown = capsys.readouterr()
    assert not shown.err
    return program, name, shown.out


def test_a_screen_fits_has_examples_and_shows_every_option_with_its_help(screen):
    program, name, text = screen
    assert text.startswith(f"Usage: {program} {name}".rstrip())
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(
        r"\.\.\.$|\x1b", text, re.MULTILINE
    )  # nothing is cut, and no colours where there is no terminal
    command = command_of(program, name)
    flat = " ".join(text.split())
    context = command.make_context(program, [], resilient_parsing=True)
    for option in command.get_params(context):
        if getattr(option, "hidden", False):
            continue
        assert option.help, option.name
        assert option.help.split()[0] in text
        if option.param_type_name == "option":
            assert any(re.search(rf"--(\[no-?\])?{re.escape(each.lstrip('-'))}\b", flat) for each in option.opts), (
                option
            )
        grouped = group_of(option) != GENERAL
        assert not name or grouped == (option.name not in COMMON | {"version"}) or option.name == "version", option.name
    assert "<=" not in text  # bounds are in words
    assert name or "\n  --version  " in text
    assert "\nExamples:\n" in text


def test_examples_are_command_lines(screen):
    program, name, text = screen
    block = re.search(r"\nExamples:\n((?:  .*\n)+)", text)[1]
    examples = [shlex.split(line) for line in re.sub(r"\\\n +", "", block).splitlines()]
    assert examples
    for words in examples:
        assert words[0] == program
        assert not name or words[1] == name
        if words[-1] in ("--help", "--version"):
            continue
        if words[:2] == ["pretrain", "run"]:
            assert parse_flags(words[2:])
            continue
        argv = of_nlpdata._rewrite(words[1:]) if program == "nlpdata" else words[1:]
        assert command_of(program, argv[0]).make_context(argv[0], argv[1:])


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_width_of_a_terminal_is_used_up_to_80(program, monkeypatch, capsys):
    for columns, most in ((60, 60), (200, 80)):
        monkeypatch.setenv("COLUMNS", str(columns))
        assert PROGRAMS[program].main([NAMES[program][1], "--help"]) == 0
        lines = [line for line in capsys.readouterr().out.split("\nExamples:")[0].splitlines()]
        assert max(map(len, lines)) <= most


def test_the_summary_of_a_command_is_what_its_own_help_says():
    for name, summary in of_pretrain.COMMANDS.items():
        assert command_of("pretrain", name).help.startswith(summary), name


@pytest.mark.parametrize(
    ("program", "words", "expected"),
    [
        ("nlpdata", "nlpdata cr", ["create-pretraining", "create-finetuning"]),
        ("nlpdata", "nlpdata create-pretraining --masking ", ["static", "dynamic"]),
        ("nlpdata", "nlpdata create-pretraining --max-p", ["--max-predictions-per-seq"]),
        ("pretrain", "pretrain ", list(of_pretrain.COMMANDS)),
        ("pretrain", "pretrain run --mode train", ["train", "train_and_eval", "train_and_predict"]),
        ("pretrain", "pretrain run --save", ["--save_checkpoints_steps"]),
        ("pretrain", "pretrain run --experiment albert/sq", ["albert/squad"]),
        ("pretrain", "pretrain predict --max_s", ["--max_seq_length"]),
        ("pretrain", "pretrain predict --max-s", ["--max-seq-length"]),
    ],
)
def test_completion(program, words, expected, monkeypatch, capsys):
    """What the shell's function, which --show-completion prints, gets as its words."""
    monkeypatch.setenv(f"_{program.upper()}_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    assert PROGRAMS[program].main([]) == 0
    assert capsys.readouterr().out.split() == expected


@pytest.mark.parametrize("program", PROGRAMS)
def test_completion_is_shown_and_installed(program, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("shellingham.detect_shell", lambda: ("bash", "/bin/bash"))  # which looks at the parents' names
    assert PROGRAMS[program].main(["--show-completion"]) == 0
    script = capsys.readouterr().out
    assert f"_{program.upper()}_COMPLETE=complete_bash" in script
    assert f"complete -o default -F _{program}_completion {program}" in script
    assert PROGRAMS[program].main(["--install-completion"]) == 0
    assert (tmp_path / ".bash_completions" / f"{program}.sh").read_text().strip() == script.strip()
    assert f".bash_completions/{program}.sh" in (tmp_path / ".bashrc").read_text()
