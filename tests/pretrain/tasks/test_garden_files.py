"""Configuration files of the Model Garden, with data and a small encoder put over them, train and evaluate."""

import json

import pytest

from pretrain.data.toy import SEQ_LENGTH, toy_vocabulary
from pretrain.settings.schema import registered
from pretrain.settings.tree import with_layers
from pretrain.settings.yaml_files import read_yaml
from pretrain.training import run_experiment
from tests.pretrain.finetuning import LENGTH, records, squad_records
from tests.pretrain.settings import garden_files as garden

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("eagerly")]

SHORT = {
    "trainer": {
        "train_steps": 4, "steps_per_loop": 2, "summary_interval": 2, "checkpoint_interval": 2, "validation_interval": 2,
        "validation_steps": 1, "tensorboard": False,
        "optimizer_config": {"learning_rate": {"decay_steps": 4}, "warmup": {"warmup_steps": 1}},
    },
}  # fmt: skip


def run(name, text, tmp_path, train, dev, length, encoder=None):
    (tmp_path / "a.yaml").write_text(text)
    (tmp_path / "model.yaml").write_text(garden.BERT_BASE)
    small = {
        "vocab_size": 200, "hidden_size": 32, "num_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
        "max_position_embeddings": 32,
    } | (encoder or {})  # fmt: skip
    train, dev = (part | {"global_batch_size": 4, "seq_length": length} for part in (train, dev))
    layers = [(file, read_yaml(tmp_path / file)) for file in ("model.yaml", "a.yaml")]
    own = {"task": {"train_data": train, "validation_data": dev, "model": {"encoder": {"bert": small}}}}
    config = with_layers(registered(name), [*layers, ("own", own | SHORT)])
    metrics = run_experiment(config, tmp_path / "run", "train_and_eval")
    best = tmp_path / "run" / "best_ckpt"
    return metrics, [json.loads(path.read_text()) for path in best.glob("step-*/state.json")]


def test_glue(tmp_path):
    train, dev = ({"input_path": str(records(tmp_path / f"{name}.tfrecord", 16))} for name in ("train", "dev"))
    metrics, best = run("bert/sentence_prediction", garden.GLUE, tmp_path, train, dev, LENGTH)
    assert {"accuracy", "f1"} <= metrics.keys()
    assert [info["config"]["trainer"]["best_checkpoint_eval_metric"] for info in best] == ["accuracy"]


def test_squad_with_questions_as_text(tmp_path):
    path = squad_records(tmp_path, 6, with_negative=False)
    (tmp_path / "vocab.txt").write_text(
        "\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"the fox sat".split()])
    )
    answers = [{"text": "fox", "answer_start": 4}]
    paragraphs = [{"context": "the fox sat", "qas": [{"id": "a", "question": "the", "answers": answers}]}]
    file = tmp_path / "dev-v1.1.json"
    file.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    dev = {"input_path": str(file), "vocab_file": str(tmp_path / "vocab.txt"), "query_length": 8}
    metrics, best = run("bert/squad", garden.SQUAD, tmp_path, {"input_path": str(path)}, dev, LENGTH)
    assert {"exact_match", "f1"} <= metrics.keys()
    assert metrics["examples"] == 1
    assert [info["config"]["trainer"]["best_checkpoint_eval_metric"] for info in best] == ["f1"]


def test_pretraining(tmp_path):
    toy = {"input_path": "toy:nsp", "max_predictions_per_seq": None}
    encoder = {"vocab_size": len(toy_vocabulary())}
    metrics, _ = run("bert/pretraining", garden.PRETRAINING, tmp_path, toy, toy, SEQ_LENGTH, encoder)
    assert {"masked_lm_accuracy", "next_sentence_accuracy", "masked_lm_loss"} <= metrics.keys()
