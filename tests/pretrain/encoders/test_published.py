"""The published forms of encoder families: who declares them, and that nobody else knows the families by name."""

import ast
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from nlpdata.errors import UsageError
from pretrain.encoders.configs import AlbertConfig, BertConfig
from pretrain.encoders.model_config import read_model_config
from pretrain.encoders.published import GoogleForm, HuggingFaceForm, PublishedForm, published_form, published_forms
from pretrain.registry import ENCODERS
from pretrain.settings.fields import Choice

ROOT = Path(__file__).resolve().parents[3]
FAMILIES = {"albert", "bert", "mobilebert"}
# They name a family because the user's flag, dialect or experiment is of that family.
MAY_NAME = {"pretrain/registry.py", "pretrain/convert.py", "pretrain/settings/dialects/cerebras/translate.py"}
SMALL = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


@dataclass(kw_only=True)
class WiderConfig(AlbertConfig):
    """A user's own encoder that extends ALBERT."""

    width: int = 2
    published: ClassVar[PublishedForm] = PublishedForm(
        model_type="wider-albert",
        telling=frozenset({"width"}),
        fixed={"narrow": False},
        google=GoogleForm(checkpoint="wide.ckpt", config_file="wide_config.json", defaults={"hidden_act": "relu"}),
        hugging_face=HuggingFaceForm(classes="Wider", prefix="wider", defaults={"width": 3}),
    )


@dataclass(kw_only=True)
class UnpublishedConfig(BertConfig):
    """It computes something else than BERT, and does not declare how it is published."""


class Wider:
    config_class = WiderConfig


class Unpublished:
    config_class = UnpublishedConfig


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setattr(ENCODERS, "_entries", dict(ENCODERS._entries))
    ENCODERS.register("wider", f"{__name__}:Wider")
    ENCODERS.register("a_plain_one", f"{__name__}:Unpublished")


def decisions(source: str) -> list[str]:
    """String constants on which code decides: compared, in a match, keys of a dict, a subscript, elements of what is compared."""
    found = []
    for node in ast.walk(ast.parse(source)):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.Compare):
            parts = [node.left, *node.comparators]
        elif isinstance(node, ast.Dict):
            parts = list(node.keys)
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        elif isinstance(node, ast.Subscript):
            parts = [node.slice]
        for part in parts:
            elements = part.elts if isinstance(part, ast.Tuple | ast.List | ast.Set) else [part]
            found += [each.value for each in elements if isinstance(each, ast.Constant)]
    return found


def test_decisions_are_found():
    for code in ('x == "bert"', 'x in ("a", "bert")', '{"bert": 1}', 'x["bert"]', 'match x:\n  case "bert": pass'):
        assert "bert" in decisions(code), code
    assert "bert" not in decisions('choose("bert")')


def test_only_the_families_own_files_decide_by_their_names():
    found = []
    for path in sorted((ROOT / "pretrain").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        own = path.parent.name in ("families", "encoders") and path.stem in FAMILIES
        if not own and name not in MAY_NAME:
            found += [f"{name}: {each}" for each in decisions(path.read_text(encoding="utf-8")) if each in FAMILIES]
    assert not found, "\n".join(found)


def test_a_configuration_is_read_without_keras():
    code = (
        "import sys; from pretrain.encoders.model_config import read_model_config as read; "
        "print([read(name).type for name in ('albert_base_v2', 'bert_tiny')], 'keras' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['albert', 'bert'] False"


def test_every_built_in_family_is_published_in_both_worlds():
    forms = published_forms()
    assert list(forms) == ["bert", "albert", "mobilebert", "wider"]
    for name in FAMILIES:
        assert forms[name].google is not None
        assert forms[name].hugging_face is not None
        assert {"tf1", "hf"} <= forms[name].names.keys()
    assert published_form("a_plain_one") is None


@pytest.mark.parametrize(
    ("values", "kind", "options"),
    [
        ({"width": 4}, "wider", {"width": 4, "hidden_act": "relu"}),
        ({"width": 4, "embedding_size": 4, "narrow": False}, "wider", {"embedding_size": 4}),
        ({"embedding_size": 4}, "albert", {"hidden_act": "gelu_tanh"}),
        ({"intra_bottleneck_size": 4, "embedding_size": 4}, "mobilebert", {"intra_bottleneck_size": 4}),
        ({}, "bert", {"hidden_act": "gelu_tanh"}),
        ({"model_type": "wider-albert"}, "wider", {"width": 3, "hidden_act": "gelu_tanh"}),
        ({"model_type": "albert"}, "albert", {"hidden_act": "gelu_new", "embedding_projection": True}),
        (
            {"model_type": "mobilebert", "embedding_size": 4, "intra_bottleneck_size": 4},
            "mobilebert",
            {"hidden_act": "relu", "classifier_activation": True},
        ),
        ({"architectures": ["BertModel"], "hidden_act": "gelu"}, "bert", {"hidden_act": "gelu"}),
    ],
)
def test_a_family_is_told_by_its_fields_or_its_name(tmp_path, values, kind, options):
    (tmp_path / "a.json").write_text(json.dumps(SMALL | values))
    choice = read_model_config(str(tmp_path / "a.json"))
    assert choice.type == kind
    assert {name: getattr(choice.options, name) for name in options} == options


def test_a_configuration_under_the_familys_own_name_is_found(tmp_path):
    with pytest.raises(UsageError, match=r"bert_config\.json, albert_config\.json, wide_config\.json, config\.json"):
        read_model_config(tmp_path)
    (tmp_path / "wide_config.json").write_text(json.dumps(SMALL | {"width": 7}))
    assert read_model_config(tmp_path) == Choice("wider", WiderConfig(**SMALL, width=7, hidden_act="relu"))


def test_what_a_family_does_not_declare_is_refused(tmp_path):
    for values, message in (
        ({"width": 4, "narrow": True}, "narrow True is not supported, only False"),
        ({"embedding_size": 4, "trigram": True}, "unknown field 'trigram'"),
        ({"embedding_size": 4, "use_bottleneck": True}, "unknown field 'use_bottleneck'"),
        ({"model_type": "plain"}, "Supported: albert, bert, mobilebert, wider-albert"),
        ({"hidden_act": ["gelu"]}, "hidden_act must be one of"),
    ):
        (tmp_path / "a.json").write_text(json.dumps(SMALL | values))
        with pytest.raises(UsageError, match=message):
            read_model_config(str(tmp_path / "a.json"))
