"""From text to a model that has learned: a corpus, records, a run, and what it knows."""

from pathlib import Path

import pytest

import nlpdata
from pretrain.training import run_experiment
from tests.nlpdata.conftest import as_text, random_documents
from tests.pretrain.runs import experiment, lines, tiny


@pytest.mark.slow
@pytest.mark.parametrize("encoder", ["albert", "bert"])
def test_overfitting_200_records(encoder, tiny_model, tmp_path):
    """A model and a loop that work learn 200 examples by heart: masked words and sentence order."""
    (tmp_path / "text.txt").write_text(as_text(random_documents(38, seed=11)))
    nlpdata.create_pretraining(
        str(tmp_path / "text.txt"), str(tmp_path / "few"), tiny_model, max_seq_length=32, dupe_factor=1, workers=1
    )
    path = tmp_path / "few.tfrecord"
    config = experiment(
        path,
        eval_path=path,
        batch_size=40,
        encoder=tiny(encoder, dropout=0.0, hidden_size=128, intermediate_size=512, num_attention_heads=4),
        learning_rate=2e-3,
        trainer={"train_steps": 500, "summary_interval": 50, "steps_per_loop": 10},
    )
    metrics = run_experiment(config, tmp_path / "run", "train_and_eval", lambda line: None)
    assert metrics["examples"] >= 200
    assert metrics["masked_lm_accuracy"] >= 0.95
    assert metrics["next_sentence_accuracy"] >= 0.95


@pytest.mark.slow
def test_held_out_masked_words_beat_the_most_frequent_one(tiny_model, tmp_path):
    """Sentences that count: every word follows from the one before, which a model can learn and a constant cannot."""
    words = [f"w{letter}" for letter in "abcdefghijkl"]
    documents = [
        [" ".join(words[(start + 3 * line + place) % 12] for place in range(10)) for line in range(8)]
        for start in [number * 7 % 12 for number in range(200)]
    ]
    (tmp_path / "text.txt").write_text(as_text(documents))
    nlpdata.train_tokenizer([str(tmp_path / "text.txt")], str(tmp_path / "spm"), vocab_size=40, workers=1)
    nlpdata.create_pretraining(
        str(tmp_path / "text.txt"), str(tmp_path / "train"), tmp_path / "spm.model", max_seq_length=32, eval_fraction=0.2,
        masking="dynamic", dupe_factor=2, workers=1,
    )  # fmt: skip
    config = experiment(
        tmp_path / "train.tfrecord",
        eval_path=tmp_path / "train.eval.tfrecord",
        batch_size=32,
        encoder=tiny(dropout=0.0, vocab_size=40),
        learning_rate=5e-3,
        trainer={"train_steps": 200, "summary_interval": 50},
    )
    metrics = run_experiment(config, tmp_path / "run", "train_and_eval", lambda line: None)
    assert metrics["masked_lm_accuracy"] > 0.5  # a constant: about a twelfth
    assert lines(tmp_path / "run")[-1]["loss"] < lines(tmp_path / "run")[0]["loss"] - 1
    assert Path(tmp_path / "run" / "loss.png").exists()
