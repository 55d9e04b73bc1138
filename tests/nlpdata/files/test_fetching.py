"""Which files next to a remote one are copied with it."""

import pytest

from nlpdata.files.fetching import belongs

CHECKPOINT = [f"bert_model.ckpt.{end}" for end in ("index", "meta", "data-00000-of-00002", "data-00001-of-00002")]


@pytest.mark.parametrize("given", ["bert_model.ckpt", *CHECKPOINT, "checkpoint"])
def test_the_files_of_a_checkpoint_go_together(given):
    assert all(belongs(name, given) for name in [*CHECKPOINT, "bert_config.json", "vocab.txt"])
    assert belongs("other.ckpt.index", given) == (given == "checkpoint")


@pytest.mark.parametrize(
    "given", ["pytorch_model.bin.index.json", "model.safetensors.index.json", "model.safetensors.index.fp16.json"]
)
def test_an_index_brings_its_files(given):
    stem = given.partition(".")[0]
    assert belongs(f"{stem}-00001-of-00002.bin", given)
    assert belongs("config.json", given)
    assert not belongs("optimizer.pt", given)
