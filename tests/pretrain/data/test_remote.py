"""A run's data on an object store: records, which are read in parts, and text, of which records are made here."""

from dataclasses import replace
from pathlib import Path

import pytest

import nlpdata
from pretrain.data import example_digest, pretraining_batches
from pretrain.data.corpus import find_corpus, make_records, names_corpus, record_files
from pretrain.data.tokenizers import tokenizer_entry
from pretrain.data.toy import toy_text, toy_vocabulary
from pretrain.registry import ENCODERS
from pretrain.settings.data_section import PretrainingDataConfig
from pretrain.settings.fields import choose
from pretrain.settings.schema import ModelConfig
from pretrain.tasks.configs import PretrainingConfig
from tests.object_store import running_store


@pytest.fixture(scope="module")
def store():
    with running_store() as found:
        yield found


def test_batches_are_those_of_a_copy_and_text_there_is_text(store, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    vocab, text = tmp_path / "vocab.txt", tmp_path / "text.txt"
    vocab.write_text("\n".join(toy_vocabulary()) + "\n")
    text.write_text(toy_text(documents=40))
    nlpdata.create_pretraining(
        str(text), str(tmp_path / "out" / "train"), vocab, do_lower_case=True, max_seq_length=32, masking="dynamic",
        num_shards=3, workers=1,
    )  # fmt: skip
    for path in (tmp_path / "out").iterdir():
        store.put(f"out/{path.name}", path.read_bytes())
    task = PretrainingConfig(model=ModelConfig(choose(ENCODERS, "albert", vocab_size=100, max_position_embeddings=32)))
    here = PretrainingDataConfig(str(tmp_path / "out" / "train.tfrecord*"), global_batch_size=8)
    there = replace(here, input_path="s3://bucket/out/train.tfrecord*", remote_cache_gb=0.01)
    ours, theirs = (pretraining_batches(section, task) for section in (here, there))
    assert ours.facts == theirs.facts
    for step in range(2 * ours.steps_per_epoch):
        assert example_digest(ours.batch(step)) == example_digest(theirs.batch(step))
    assert tokenizer_entry(there, "task.train_data")[0].read_bytes() == vocab.read_bytes()
    section = PretrainingDataConfig(store.put("text.txt", text.read_bytes()), vocab_file=str(vocab), do_lower_case=True)
    section = replace(section, seq_length=32, masking="dynamic")
    assert names_corpus(section)
    assert not names_corpus(there)
    make_records(find_corpus(section, task, "task.train_data"), tmp_path / "run" / "train")
    rows = nlpdata.open_records(here.input_path)
    made = nlpdata.open_records(record_files(tmp_path / "run" / "train"))
    assert len(made) == len(rows)
    assert Path(record_files(tmp_path / "run" / "train")[0]).read_bytes() == b"".join(
        path.read_bytes() for path in sorted((tmp_path / "out").glob("*.tfrecord-*"))
    )
