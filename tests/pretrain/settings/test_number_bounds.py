"""Every whole number of a configuration has a bound, with which a greater one is refused before anything is done."""

import inspect
from importlib import import_module
from typing import Annotated, get_args, get_origin

import pytest

from nlpdata.errors import UsageError
from pretrain.experiments import experiment_lines
from pretrain.run import resolve
from pretrain.settings.overrides import parse_overrides
from pretrain.settings.tree import to_tree, with_layers

EXPERIMENTS = ("albert/pretraining", "bert/pretraining", "albert/sentence_prediction", "bert/squad")
HUGE = 10**30


def numbers(tree, start=""):
    """(dotted path, value) of the numbers of a configuration."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{start}{name}.")
        elif isinstance(value, int) and not isinstance(value, bool):
            yield f"{start}{name}", value


@pytest.mark.heavy
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_whole_number_has_a_bound(name):
    assert any(line.split()[0] == name for line in experiment_lines())
    base = resolve({"experiment": name})
    found = list(numbers(to_tree(base)))
    assert len(found) > 20
    for path, _ in found:
        for value in (HUGE, -HUGE):
            layer = ("--params_override", parse_overrides(f"{path}={value}"))
            with pytest.raises(UsageError, match=rf"{path.rpartition('.')[2]}.* must be .*Received: {value}"):
                with_layers(base, [layer])


@pytest.mark.parametrize("field", ["num_hidden_layers", "hidden_size", "vocab_size", "max_position_embeddings"])
def test_an_encoder_of_ten_million(field):
    with pytest.raises(UsageError, match=rf"{field} must be at most \d+\. Received: 20000000"):
        resolve({"experiment": "bert/pretraining", "params_override": [f"task.model.encoder.{field}=20000000"]})


@pytest.mark.parametrize("command", ["convert", "export", "glue", "predict", "submit"])
def test_every_number_of_a_command_has_a_bound(command):
    (registered,) = import_module(f"pretrain.{command}").app.registered_commands
    hints = [each.annotation for each in inspect.signature(registered.callback).parameters.values()]
    annotated = [get_args(hint) for hint in hints if get_origin(hint) is Annotated]
    numbers = [option for kind, option, *_ in annotated if int in (kind, *get_args(kind))]
    assert bool(numbers) == (command in ("glue", "predict", "submit"))
    assert not [option.param_decls for option in numbers if None in (option.min, option.max)]
