"""Texts take the tokenizer of their model where the configuration names none."""

from dataclasses import replace

import pytest

from nlpdata.errors import DataError
from pretrain.converters.tokenizer_files import keep_tokenizer
from pretrain.experiments import experiment
from pretrain.training.own_tokenizer import with_own_tokenizer


def config(**data):
    return experiment("bert/sentence_prediction", {"task": {"train_data": data}})


def vocabulary_of(found):
    return found.task.train_data.vocab_file


def test_that_of_the_run_then_that_of_the_checkpoint_and_never_another(tmp_path):
    run, checkpoint = tmp_path / "run", tmp_path / "checkpoint"
    for folder in (run, checkpoint):
        folder.mkdir()
    (tmp_path / "vocab.txt").write_text("elsewhere\n")
    (checkpoint / "vocab.txt").write_text("[PAD]\n")
    texts = config(tfds_name="glue/sst2")
    texts.task.init_checkpoint = str(checkpoint)
    assert vocabulary_of(with_own_tokenizer(texts, run)) == str(checkpoint / "vocab.txt")
    assert vocabulary_of(with_own_tokenizer(texts, tmp_path / "not_yet")) == str(checkpoint / "vocab.txt")
    (run / "vocab.txt").write_text("[PAD]\n")
    assert vocabulary_of(with_own_tokenizer(texts, run)) == str(run / "vocab.txt")
    alone = replace(texts, task=replace(texts.task, init_checkpoint=""))
    assert vocabulary_of(with_own_tokenizer(alone, tmp_path / "not_yet")) == ""


def test_a_named_one_and_records_are_left_alone(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    named = config(tfds_name="glue/sst2", vocab_file="own.txt")
    assert with_own_tokenizer(named, tmp_path) == named
    records = config(input_path="a.tfrecord")
    assert with_own_tokenizer(records, tmp_path) == records


def test_a_vocabulary_that_is_not_that_of_the_records_is_not_kept(tmp_path):
    """Predictions and exports would refuse it, once the run is at its end."""
    (tmp_path / "tokenizer.txt").write_text("[PAD]\n")
    (tmp_path / "run").mkdir()
    with pytest.raises(
        DataError, match=r"tokenizer\.txt has sha256 .*, expected 00ff: it is another file than was used"
    ):
        keep_tokenizer(tmp_path / "run", tmp_path / "tokenizer.txt", {"type": "wordpiece", "sha256": "00ff"})
    assert not list((tmp_path / "run").iterdir())
