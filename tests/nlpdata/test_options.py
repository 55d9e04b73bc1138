"""The public functions have the arguments of their options dataclasses: in help(), for type checkers, on the command line."""

import inspect
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, fields
from pathlib import Path
from typing import Annotated, Literal, get_args, get_origin

import numpy as np
import pytest
import typer

import nlpdata
from nlpdata.cli.commands import app
from nlpdata.cli.parameters import flag_of
from nlpdata.errors import Message, UsageError, as_flag, opt
from nlpdata.finetuning.options import LocalFinetuningRequest
from nlpdata.options import Arguments, RecordOptions, chosen, help_of, option, takes
from nlpdata.pretraining.options import LocalPretrainingRequest
from nlpdata.tokenizers.training.options import LocalTrainingRequest

REQUESTS = {
    "create_pretraining": LocalPretrainingRequest,
    "create_finetuning": LocalFinetuningRequest,
    "train_tokenizer": LocalTrainingRequest,
}


@dataclass(frozen=True, kw_only=True)
class SoupOptions(RecordOptions):
    spice: Literal["salt", "pepper"] = option("salt", f"What it is spiced with; see {opt('pots')}.")
    pots: int | None = option(None, "Number of pots.", False, least=1)


@dataclass(frozen=True)
class SoupRequest(Arguments, SoupOptions):
    water: Annotated[str, "Where the water is from."]
    _: KW_ONLY
    hot: bool = option(True, "Whether it is hot.")


@takes(SoupRequest)
def keep(request: SoupRequest) -> SoupRequest:
    """Returns its request."""
    return request


@takes(SoupRequest)
def cook(request: SoupRequest) -> tuple[str, SoupOptions]:
    """Cooks.

    Raises UsageError.
    """
    return request.water, chosen(SoupOptions, request)


def test_a_function_has_the_arguments_of_its_request():
    shown = "(water: str, *, spice: Literal['salt', 'pepper'] = 'salt', pots: int | None = None, "
    assert str(inspect.signature(cook)).startswith(shown)
    assert inspect.signature(cook).return_annotation == tuple[str, SoupOptions]
    assert inspect.getdoc(cook).splitlines() == [
        "Cooks.",
        "",
        "Args:",
        "  water: Where the water is from.",
        "  spice: What it is spiced with; see pots.",
        "  pots: Number of pots.",
        "  hot: Whether it is hot.",
        "",
        "Raises UsageError.",
    ]
    assert cook("lake", pots=2) == ("lake", SoupOptions(spice="salt", pots=2))
    assert cook(water="lake", spice="pepper") == ("lake", SoupOptions(spice="pepper"))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"water": "lake", "pot": 3},
            UsageError,
            "cook has no option 'pot'. Did you mean pots? Known: water, spice, pots",
        ),
        ({"water": "lake", "pots": 0}, UsageError, "pots must be at least 1. Received: 0."),
        ({}, TypeError, "missing a required argument: 'water'"),
    ],
)
def test_wrong_arguments(arguments, error, message):
    with pytest.raises(error) as caught:
        cook(**arguments)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", REQUESTS)
def test_help_shows_every_argument_with_type_default_and_text(name):
    function = getattr(nlpdata, name)
    signature = inspect.signature(function)
    declared = {each.name: each for each in fields(REQUESTS[name]) if each.init}
    assert signature.parameters.keys() == declared.keys()
    assert not [p for p in signature.parameters.values() if p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
    for parameter in signature.parameters.values():
        assert parameter.annotation is not parameter.empty
        assert f"  {parameter.name}: " in inspect.getdoc(function)
        if parameter.default is not parameter.empty:
            assert parameter.default == declared[parameter.name].default


@pytest.mark.parametrize("name", REQUESTS)
def test_the_command_line_has_the_same_options(name):
    command = typer.main.get_command(app).commands[name.replace("_", "-")]
    options = {parameter.name: parameter for parameter in command.params}
    for each in fields(REQUESTS[name]):
        if not each.init or each.metadata.get("flag") == "":
            continue
        assert flag_of(each) in options[each.name].opts
        assert "\x1e" not in options[each.name].help
        assert options[each.name].help.startswith(Message(help_of(each)).spelled(as_flag))
        if each.kw_only and options[each.name].multiple is False:
            assert options[each.name].default == each.default


TYPED = """
import nlpdata

result: nlpdata.CreationResult = nlpdata.create_pretraining("a", "b", "c", objective="nsp", seed=3, workers=None)
nlpdata.create_pretraining("a", "b", "c", masking="statc")      # error: masking
nlpdata.create_pretraining("a", "b", "c", max_seq_len=128)      # error: max_seq_len
nlpdata.create_pretraining("a", "b")                            # error: tokenizer
nlpdata.create_finetuning("a", "b", "c", task="mrpc", max_seq_length="128")  # error: max_seq_length
nlpdata.train_tokenizer("a", "b", vocab_size=100, user_defined_symbols=["x"])
length: int = len(nlpdata.open_records("x"))
nlpdata.verify("x").fault                                       # error: "fault"
"""


@pytest.mark.slow
def test_a_type_checker_knows_every_argument(tmp_path):
    (tmp_path / "user.py").write_text(TYPED)
    command = [sys.executable, "-m", "mypy", "--cache-dir", tmp_path / "cache", "--follow-imports=silent"]
    done = subprocess.run([*command, tmp_path / "user.py"], capture_output=True, text=True, check=False)
    found = dict(line.split(": ", 1) for line in done.stdout.splitlines() if ": error: " in line)
    wanted = {
        number: line.rpartition("# error: ")[2]
        for number, line in enumerate(TYPED.splitlines(), 1)
        if "# error" in line
    }
    assert found.keys() == {f"{tmp_path / 'user.py'}:{number}" for number in wanted}, done.stdout
    for number, word in wanted.items():
        assert word in found[f"{tmp_path / 'user.py'}:{number}"]


WRONG = {
    int: ["12", 1.5, True, [3]],
    float: ["0.1", True, [1]],
    bool: ["no", 0, []],
    str: [3, b"x", []],
}


def _wrong(annotation: object) -> list[object]:
    """Values of other types than an annotation's."""
    kinds = {annotation, *get_args(annotation)}
    if kinds & {str} or any(get_origin(each) is Literal for each in kinds):
        return [b"x", 3] if any(get_origin(each) is Sequence for each in kinds) else WRONG[str]
    if any(get_origin(each) is Sequence for each in kinds):
        return [3, "x"]
    return next(WRONG[each] for each in (int, float, bool) if each in kinds)


@pytest.mark.parametrize("name", REQUESTS)
def test_an_argument_of_a_wrong_type_is_refused_in_one_line(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    function = getattr(nlpdata, name)
    right = {"input": "x.txt", "output": "o", **({} if name == "train_tokenizer" else {"tokenizer": "t"})}
    parameters = inspect.signature(function).parameters
    for each, parameter in parameters.items():
        for value in [] if each == "tokenizer" else _wrong(parameter.annotation):
            with pytest.raises(UsageError) as error:
                function(**{**right, each: value})
            assert str(error.value).startswith(f"{each} must be "), (each, value)
            assert str(error.value).endswith(f". Received: {value!r}.")
    assert not list(tmp_path.iterdir())


def test_scalars_of_numpy_and_paths_are_taken():
    request = keep(water=Path("spring"), pots=np.int64(3), hot=np.bool_(False))
    assert (request.water, request.pots, request.hot) == (Path("spring"), 3, False)
    assert (type(request.pots), type(request.hot)) == (int, bool)


CHECKED_TOGETHER = {"max_predictions_per_seq", "masked_lm_prob", "short_seq_prob", "eval_fraction"}
NUMBERS = [
    (name, each.name)
    for name, request in REQUESTS.items()
    for each in fields(request)
    if each.init and {int, float} & {each.type, *get_args(each.type)} and each.name not in CHECKED_TOGETHER
]


@pytest.mark.parametrize(("function", "number"), NUMBERS)
def test_every_number_has_bounds_and_is_refused_at_once_with_them(tmp_path, function, number):
    """Before a file is looked for: none of these is there."""
    about = next(each.metadata for each in fields(REQUESTS[function]) if each.name == number)
    required = {"create_pretraining": {"tokenizer": "x.model"}, "create_finetuning": {"task": "mrpc"}}.get(function, {})
    for value in (about["least"] - 1, about["most"] + 1, 10**30, -(10**30)):
        with pytest.raises(UsageError, match=rf"^{number} must be .*Received: {value}\.$"):
            getattr(nlpdata, function)("nothing.txt", str(tmp_path / "x"), **required, **{number: value})


@pytest.mark.parametrize("text", ["a\0b", "x\ud800", "\udfff"])
def test_texts_that_no_file_system_takes(text):
    with pytest.raises(UsageError, match=r"^output has (a NUL character|half of a surrogate pair)"):
        nlpdata.create_pretraining("nothing.txt", text, "x.model")
    with pytest.raises(UsageError, match=r"^input has "):
        nlpdata.create_pretraining(Path(text), "out", "x.model")
    with pytest.raises(UsageError, match=r"^input has "):
        nlpdata.create_pretraining(["nothing.txt", text], "out", "x.model")


@pytest.mark.parametrize("name", ["input", "output", "tokenizer", "meta", "dev_input", "test_output", "tfds_data_dir"])
def test_a_name_that_is_too_long_for_a_file_system(name):
    given = {"input": "x", "output": "out", "tokenizer": "x.model", "task": "mrpc"}
    for value in ("é" * 128, f"a/{'b' * 256}/c", [f"x,{'y' * 300}"] if name == "input" else "z" * 300):
        with pytest.raises(
            UsageError, match=rf"^{name} has a name of (256|300) bytes, and file systems take at most 255"
        ):
            nlpdata.create_finetuning(**given | {name: value})
    with pytest.raises(UsageError, match="does not exist"):
        nlpdata.create_finetuning(**given | {"task": "classification"}, labels="x" * 300)
