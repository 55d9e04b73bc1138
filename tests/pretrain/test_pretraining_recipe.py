"""From text to a model that has learned its records by heart: vocabulary, records, a run."""

import pytest

import nlpdata
from pretrain.training import run_experiment
from tests.nlpdata.conftest import as_text, random_documents
from tests.pretrain.runs import experiment, tiny


@pytest.mark.slow
def test_overfitting_100_records(tiny_model, tmp_path):
    """A model and a loop that work learn them: masked words and sentence order."""
    (tmp_path / "text.txt").write_text(as_text(random_documents(21, seed=11)))
    nlpdata.create_pretraining(
        str(tmp_path / "text.txt"),
        str(tmp_path / "few"),
        tiny_model,
        max_seq_length=32,
        dupe_factor=1,
        workers=1,
        accept_loss=True,
    )
    path = tmp_path / "few.tfrecord"
    config = experiment(
        path,
        eval_path=path,
        batch_size=30,
        encoder=tiny(
            "albert",
            dropout=0.0,
            hidden_size=64,
            intermediate_size=256,
            num_attention_heads=4,
            initializer_range=0.09,
            embedding_size=64,
        ),
        learning_rate=2e-3,
        warmup_steps=40,
        trainer={"train_steps": 200, "summary_interval": 100, "steps_per_loop": 20},
    )
    metrics = run_experiment(config, tmp_path / "run", "train_and_eval")
    assert metrics["examples"] >= 100
    assert metrics["masked_lm_accuracy"] >= 0.95
    assert metrics["next_sentence_accuracy"] >= 0.95
