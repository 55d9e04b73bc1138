"""Experiments as functions: layers of changes, and the encoder of the checkpoint that one of them names."""

import pytest

from nlpdata.errors import UsageError
from pretrain.experiments import experiment
from tests.messages import messages
from tests.pages import give_checkpoint


def test_the_encoder_is_that_of_the_checkpoint_unless_a_layer_names_sizes(tmp_path):
    give_checkpoint(tmp_path)
    start = {"task": {"init_checkpoint": str(tmp_path / "base")}}
    with messages() as notes:
        config = experiment("albert/sentence_prediction", start, {"trainer": {"train_steps": 3}})
    assert (config.task.model.encoder.type, config.task.model.encoder.options.hidden_size) == ("bert", 32)
    assert config.trainer.train_steps == 3
    assert notes == [f"the model is of type bert, with the sizes of {tmp_path / 'base'}"]
    named = {
        "task": {"model": {"encoder": {"type": "albert", "albert": {"hidden_size": 48, "num_attention_heads": 4}}}}
    }
    own = experiment("albert/sentence_prediction", start, named)
    assert (own.task.model.encoder.type, own.task.model.encoder.options.hidden_size) == ("albert", 48)
    assert experiment("bert/local", {"task": {"init_checkpoint": ""}}).task.model.encoder.type == "bert"
    with pytest.raises(UsageError, match="nothing-here"):
        experiment("bert/sentence_prediction", {"task": {"init_checkpoint": str(tmp_path / "nothing-here")}})
