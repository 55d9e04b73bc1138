"""Gin files become fields of the configuration; what they cannot bind is refused, with file and line."""

import re
import sys

import pytest

from nlpdata.errors import UsageError
from nlpdata.registry import user_modules
from pretrain.run import main, resolve
from pretrain.settings.dialects.gin_files import read_gin
from pretrain.settings.flags import parse_flags
from tests.pages import ROOT

LAYERS = """
from pretrain.layers.attention import SelfAttention
class Own(SelfAttention):
    pass
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, which is on the import path."""
    (tmp_path / "own_layers.py").write_text(LAYERS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    sys.modules.pop("own_layers", None)


def configured(*argv):
    values = parse_flags(["--experiment=bert/pretraining", *argv])
    with user_modules(read_gin(values.get("gin_file", ()), values.get("gin_params", ())).modules):
        return resolve(values, read_checkpoints=False)


def test_a_file_with_macros_includes_and_a_module(folder):
    (folder / "rates.gin").write_text("RATE = 0.25\nPolynomial.power = %POWER\nLinearWarmup.warmup_steps = 7\n")
    (folder / "all.gin").write_text(
        "import own_layers\n"
        "include 'rates.gin'\n"
        "POWER = 2\n"
        "TransformerScaffold:\n"
        "  attention_cls = @own_layers.Own\n"
        "  dropout_rate = %RATE\n"
        "Lamb.exclude_from_weight_decay = ['a', 'b']\n"
        "Lamb.beta_1 = 0.5  # chosen below\n"
        "OptimizationConfig.optimizer = @Lamb\n"
    )
    (folder / "sizes.yaml").write_text("task: {model: {encoder: {hidden_dropout_prob: 0.5, initializer_range: 0.5}}}")
    config = configured(
        "--config_file=sizes.yaml",
        "--gin_file=all.gin",
        "--gin_params=BertEncoder.layer_norm_eps = 1e-6",
        "--gin_params=Lamb.beta_2 = 0.9",
        "--weight_decay=0.5",
    )
    encoder, optimization = config.task.model.encoder, config.trainer.optimizer_config
    assert encoder.type == "bert"
    assert (encoder.options.attention, encoder.options.feed_forward) == ("own_layers:Own", "standard")
    assert (encoder.options.hidden_dropout_prob, encoder.options.initializer_range) == (0.25, 0.5)
    assert encoder.options.layer_norm_eps == 1e-6
    lamb = optimization.optimizer
    assert (lamb.type, lamb.options.beta_1, lamb.options.beta_2) == ("lamb", 0.5, 0.9)
    assert (lamb.options.exclude_from_weight_decay, lamb.options.weight_decay_rate) == (["a", "b"], 0.5)
    assert (optimization.learning_rate.options.power, optimization.warmup.options.warmup_steps) == (2, 7)
    above = configured("--gin_file=all.gin", "--params_override=task.model.encoder.attention=talking_heads")
    assert above.task.model.encoder.options.attention == "talking_heads"


def test_names_of_classes_may_leave_out_their_first_words(folder):
    for name in (
        "GatedFeedforward",
        "layers.gated_feedforward.GatedFeedforward",
        "gated_feed_forward.GatedFeedForward",
    ):
        found = configured(f"--gin_params=TransformerScaffold.feedforward_cls = @{name}").task.model.encoder.options
        assert found.feed_forward == "gated"
    found = configured("--gin_params=import own_layers as mine\nBertEncoder.feed_forward = 'gated'\n"
                       "TransformerScaffold.attention_cls = @mine.Own")  # fmt: skip
    assert found.task.model.encoder.options.attention == "own_layers:Own"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("TransformerScafold.norm_first = False", "x.gin:2: there is no class TransformerScafold here. Did you mean Trans"),
        ("AdamW.beta = 1", "x.gin:2: AdamW has no argument beta here. Did you mean beta_2? Known: beta_1,"),
        ("AdamW.beta_1 = 'many'", "x.gin:2: trainer.optimizer_config.optimizer.adamw.beta_1: expected a number"),
        ("AdamW.beta_1 = @Lamb", "x.gin:2: AdamW.beta_1 is a value, not a class. Received: @Lamb."),
        ("Lamb.beta_1 = 0.5", "x.gin:2: trainer.optimizer_config.optimizer.lamb: the optimizer is 'adamw'. Set"),
        ("TransformerScaffold.norm_first = True", "TransformerScaffold.norm_first is True: only False is available here"),
        ("GatedFeedforward.num_blocks = 2", "GatedFeedforward.num_blocks is 2: only 1 is available here"),
        ("EncoderScaffold.hidden_cls = @Transformer", "is '@Transformer': only '@TransformerScaffold' is available here"),
        ("TransformerScaffold.attention_cls = 3", "takes a class, e.g. @MultiHeadAttention. Received: 3."),
        ("TransformerScaffold.attention_cls = @Talking", "is 'Talking'. Did you mean TalkingHeads"),
        ("TransformerScaffold.attention_cls = @own_layers.No", "is 'own_layers.No'."),
        ("own_layers.Own.heads = 3", "own_layers.Own.heads: arguments of your own classes are not bound"),
        ("some/AdamW.beta_1 = 0.5", "x.gin:2: some/ is a scope; there are none here. Bind AdamW itself."),
        ("AdamW.beta_1 = %B", "x.gin:2: %B has no value."),
        ("B = %B\nAdamW.beta_1 = %B", "x.gin:3: %B names itself"),
        ("OptimizationConfig.optimizer = @AdamW()", "OptimizationConfig.optimizer is 'AdamW()'. Did you mean AdamW?"),
        ("AdamW.beta_1 == 3", "x.gin:2: is not valid gin: "),
        ("AdamW.beta_1 = 'x", "x.gin"),
        ("include 'none.gin'", "there is no gin file none.gin."),
        ("include 'x.gin'", "more than 100 gin files. Do they include each other?"),
        ("import no_such_module_x", "module 'no_such_module_x' cannot be imported"),
    ],
)  # fmt: skip
def test_faults(folder, text, message):
    (folder / "x.gin").write_text(f"import own_layers\n{text}\n")
    with pytest.raises(UsageError, match=re.escape(message)):
        configured("--gin_file=x.gin")


def test_without_the_library_and_without_the_file(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "gin", None)
    with pytest.raises(UsageError, match=r"--gin_file and --gin_params needs? gin.*pip install '\.\[gin\]'"):
        read_gin((), ["AdamW.beta_1 = 0.5"])
    assert read_gin((), ()).bindings == ()
    with pytest.raises(
        UsageError, match=r"there is no gin file talking\.gin\. Did you mean talking_gated_encoder\.gin\?"
    ):
        read_gin(["talking.gin"], ())


def test_the_page_shows_the_file_that_comes_with_the_package():
    shipped = (ROOT / "pretrain/configs/gin/talking_gated_encoder.gin").read_text()
    assert f"```\n{shipped}```" in (ROOT / "docs/pretraining.md").read_text(encoding="utf-8")


def test_a_run_prints_the_configuration_that_a_gin_file_makes(folder, capsys):
    argv = ["--experiment=bert/local", "--print_config", "--gin_file=/nlp/gin/talking_gated_encoder.gin"]
    assert main(argv) == 0
    said = capsys.readouterr()
    assert "attention: talking_heads\n" in said.out
    assert "feed_forward: gated\n" in said.out
    assert said.err.count("the talking_gated_encoder.gin that comes with the package is used") == 1
