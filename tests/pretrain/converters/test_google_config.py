"""What an encoder's family declares is what a format can write of it; anything else is refused before a file is there."""

from dataclasses import dataclass

import pytest

from nlpdata.errors import UsageError
from pretrain.converters.google_config import write_google_config
from pretrain.converters.hugging_face_heads import hugging_face_form
from pretrain.converters.weights import names_of
from pretrain.encoders.configs import AlbertConfig, BertConfig
from pretrain.settings.fields import Choice

SMALL = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


@dataclass(kw_only=True)
class UnpublishedConfig(BertConfig):
    """It computes something else than BERT, and declares nothing about how it is published."""


class Unpublished:
    config_class = UnpublishedConfig


def test_an_encoder_without_a_form_has_no_names_and_no_files(tmp_path):
    encoder = Choice(f"{__name__}:Unpublished", UnpublishedConfig())
    for format, families in (("tf1", "albert, bert, mobilebert"), ("tf2", "albert, bert"), ("h5", "albert")):
        with pytest.raises(
            UsageError, match=rf"x: this format has no names .*, only of {families}\. .*: native, savedmodel, hub\."
        ):
            names_of(encoder, format, "x")
    with pytest.raises(UsageError, match=r"Unpublished' declares no files of google-research"):
        write_google_config(tmp_path / "b.json", encoder)
    with pytest.raises(UsageError, match=r"Unpublished' declares no folders of transformers"):
        hugging_face_form(encoder)


@pytest.mark.parametrize(
    ("options", "fault"),
    [
        (
            {"hidden_act": "gelu"},
            "which reads this format, lacks the hidden_act 'gelu': its gelu is the tanh approximation",
        ),
        ({"layer_norm_eps": 1e-6}, "which reads this format, computes with a layer_norm_eps of 1e-12, not 1e-06"),
        (
            {"embedding_size": 8, "embedding_projection": True},
            r"which reads this format, lacks a projection of embeddings of the hidden size \(8\)",
        ),
    ],
)
def test_googles_code_computes_what_its_configuration_says(tmp_path, options, fault):
    albert = AlbertConfig(**SMALL, **options)
    with pytest.raises(UsageError, match=fault):
        write_google_config(tmp_path / "a.json", Choice("albert", albert))
    assert not (tmp_path / "a.json").exists()
