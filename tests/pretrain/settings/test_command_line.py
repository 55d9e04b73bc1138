"""What the parser of a command refuses is one line that says option, value, what is expected and where to look."""

import pytest

from nlpdata.errors import UsageError, opt
from pretrain import convert, predict
from pretrain.settings.flags import as_flag

NEEDED = ["--input", "a.txt", "--output", "b.tsv", "--model_dir", "c"]


@pytest.mark.parametrize(
    ("command", "argv", "words"),
    [
        (predict, ["--batch_size", "many"], "--batch_size must be an integer. Received: 'many'. "),
        (predict, [*NEEDED, "--batch-size=0"], "--batch_size must be 1 or more. Received: '0'. "),
        (predict, NEEDED[2:], "Missing option '--input'. "),
        (predict, [*NEEDED, "--bach_size=1"], "No such option: --bach_size"),
        (convert, ["a", "b", "--version", "3"], "--version: '3' is not one of '1', '2'"),
    ],
)
def test_what_the_parser_refuses(command, argv, words, capsys):
    assert command.main(argv) == 2
    name = command.__name__.replace(".", " ")
    message = capsys.readouterr().err
    assert message.startswith(f"{name}: error: {words}")
    assert message.endswith(f"`{name} --help` lists the options.\n")
    assert message.count("\n") == 1


def test_errors_name_options_as_these_command_lines_spell_them():
    error = UsageError(
        f"{opt('batch_size', 8)}, {opt('overwrite', True)}, {opt('do_lower_case', False)} or {opt('model_dir')}"
    )
    assert error.spelled(as_flag) == "--batch_size=8, --overwrite, --nodo_lower_case or --model_dir"


@pytest.mark.heavy
def test_the_error_of_a_command_names_its_flag(tmp_path, capsys, monkeypatch):
    def refuse(*arguments, **options):
        raise UsageError(f"{opt('batch_size')} is too large.")

    monkeypatch.setattr("pretrain.prediction.file.predict", refuse)
    assert predict.main(NEEDED) == 2
    assert capsys.readouterr().err.splitlines()[1:] == ["pretrain predict: error: --batch_size is too large."]


@pytest.mark.heavy
def test_an_interrupted_command_says_so(capsys, monkeypatch):
    def interrupt(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr("pretrain.prediction.file.predict", interrupt)
    assert predict.main(NEEDED) == 130
    assert capsys.readouterr().err.splitlines()[1:] == ["pretrain predict: interrupted."]
