"""From a table to answers: records, a run, predictions without the records, and the exported model in another process."""

import json
import os
import shutil
import subprocess

import numpy as np
import pytest

import nlpdata
from pretrain import export
from pretrain import predict as command
from pretrain.prediction.file import predict
from pretrain.training import run_experiment
from tests import warm_python
from tests.pages import WORDS
from tests.pretrain.finetuning import LENGTH, sentence_experiment

# Runs without this package: prints what the signatures answer.
ASK = """
import json, sys
import tensorflow as tf

sys.modules.update(nlpdata=None, pretrain=None)  # importing them fails

served = tf.saved_model.load(sys.argv[1]).signatures
first, second = json.loads(sys.argv[2])
answer = served["text_pair"](text=tf.constant(first), text_pair=tf.constant(second))
ids, mask = answer["input_ids"], answer["input_mask"]
ends = tf.cumsum(tf.cast(ids == 3, tf.int32), axis=1, exclusive=True)
of_ids = served["serving_default"](input_ids=ids, input_mask=mask, segment_ids=tf.where(ends > 0, mask, 0))
print(json.dumps({
    "prediction": [name.decode() for name in answer["prediction"].numpy()],
    "probabilities": answer["probabilities"].numpy().tolist(),
    "of_ids": of_ids["probabilities"].numpy().tolist(),
    "length": int(ids.shape[1]),
}))
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a run that tells three classes of pairs; its records are gone."""
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    rows = [f"w{20 + i % 3} w{40 + i} w41,w{60 + i},{('no', 'yes', 'maybe')[i % 3]}" for i in range(48)]
    (folder / "pairs.csv").write_text("\n".join(["text_a,text_b,label", *rows]) + "\n")
    nlpdata.create_finetuning(
        *(str(folder / name) for name in ("pairs.csv", "records", "vocab.txt")),
        task="pair",
        text_column="text_a",
        text_b_column="text_b",
        max_seq_length=LENGTH,
        workers=1,
    )
    config = sentence_experiment(folder / "records" / "train.tfrecord", steps=60)
    run_experiment(config, folder / "run", "train")
    shutil.rmtree(folder / "records")
    return folder / "run"


def test_predictions_need_the_run_alone(run, tmp_path):
    """The run keeps its tokenizer: no training data is asked for (kamalkraj/ALBERT-TF2.0 issue 3)."""
    (tmp_path / "new.tsv").write_text("id\ttext_a\ttext_b\na\tw21 w90\tw7\nb\tw20 w91\tw8\nc\tw22\tw9\n")
    line = ["--model_dir", str(run), "--input", str(tmp_path / "new.tsv"), "--output", str(tmp_path / "out.tsv")]
    assert command.main(line) == 0
    rows = [row.split("\t") for row in (tmp_path / "out.tsv").read_text().splitlines()]
    assert [row[:2] for row in rows] == [["index", "prediction"], ["a", "yes"], ["b", "no"], ["c", "maybe"]]


@pytest.mark.slow
def test_the_exported_model_answers_as_predict_does(run, tmp_path):
    assert export.main([str(run), str(tmp_path / "served" / "pairs" / "1")]) == 0  # the layout of TensorFlow Serving
    first = ["w21 w90", "w20", "", "w22 " * 40, "unknown w21", "w20 " * 9]
    second = ["w7", "", "w21", "w22 w23", "w150", "w30 " * 40]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    asked = subprocess.run(
        [*warm_python.COMMAND, "-c", ASK, str(tmp_path / "served" / "pairs" / "1"), json.dumps([first, second])],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr[-2000:]
    answer = json.loads(asked.stdout.splitlines()[-1])
    lines = [json.dumps({"text_a": a, "text_b": b}) for a, b in zip(first, second, strict=True)]
    (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
    predict(run, tmp_path / "in.jsonl", tmp_path / "out.jsonl", format="jsonl")
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert answer["prediction"] == [row["prediction"] for row in rows]
    ours = np.array([[row["scores"][name] for name in ("maybe", "no", "yes")] for row in rows])
    np.testing.assert_allclose(answer["probabilities"], ours, atol=2e-6)
    np.testing.assert_allclose(answer["of_ids"], ours, atol=2e-6)
    assert answer["length"] == LENGTH
