"""What the parser of a command refuses is one line that says option, value, what is expected and where to look."""

import pytest

from pretrain import convert, predict

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
    name = command.__name__
    message = capsys.readouterr().err
    assert message.startswith(f"{name}: error: {words}")
    assert message.endswith(f"`python -m {name} --help` lists the options.\n")
    assert message.count("\n") == 1
