"""In an environment where nothing is set, libraries write nothing on the screen of a command; imports change nothing.

The chains of tests/migration show the same for their commands, one of them in processes that import the libraries themselves, and
tests of processes on JAX for theirs.
"""

import logging
import os
import subprocess
import sys

import pytest

from pretrain.registry import CHECKPOINT_FORMATS
from tests.pages import give_checkpoint, give_datasets, lines_of_libraries, plain_environment, stay_on_one_core

pytestmark = pytest.mark.heavy

_ON_TENSORFLOW = """
import sys
from pretrain import export, glue, predict
options = "trainer.train_steps=1,task.train_data.global_batch_size=8,trainer.tensorboard=false"
given = "--init_checkpoint base --input glue --output sweep --tasks mrpc --max_seq_length 16 --backend tensorflow".split()
assert glue.main([*given, f"--params_override={options}"]) == 0
run = "sweep/mrpc/seed-0"
for format in sys.argv[1:]:
    ended = export.main([run, f"as-{format}", "--format", format, "--encoder_only"])
    assert ended == (2 if format == "h5" else 0), format  # which is for ALBERT
given = ["--model_dir", run, "--input", "pairs.csv", "--output", "-"]
assert predict.main([*given, "--text_column=question", "--text_b_column=answer"]) == 0
"""
_WITHOUT_TRAINING = """
from nlpdata.cli.commands import main
from pretrain import submit
records = "--task classification --input pairs.csv --text-column question --text-b-column answer --label-column good"
assert main([*records.replace("--task", "create-finetuning --task").split(), *"--tokenizer vocab.txt --output out".split()]) == 0
assert main(["verify", "out/train.tfrecord"]) == 0
assert main(["inspect", "out/train.tfrecord", "--limit", "1"]) == 0
job = "--staging gs://bucket/x --dry_run -- --experiment=bert/sentence_prediction --input_files=gs://bucket/train.tfrecord"
assert submit.main(job.split()) == 0
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quiet")
    give_datasets(folder)
    give_checkpoint(folder)
    return folder


def screen(folder, code: str, *words: str) -> str:
    """What a process shows that must succeed."""
    command = [sys.executable, "-c", code, *words] if code else [sys.executable, *words]
    done = subprocess.run(
        command,
        cwd=folder,
        env=plain_environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=stay_on_one_core,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


@pytest.mark.slow
def test_training_predicting_and_every_format(folder):
    shown = screen(folder, _ON_TENSORFLOW, *CHECKPOINT_FORMATS)
    assert "average" in shown
    assert "(percent)" in shown  # eval_results.json and the log have shares
    assert "predictions of 40 rows written" in shown
    assert not lines_of_libraries(shown)


def test_records_and_jobs(folder):
    shown = screen(folder, _WITHOUT_TRAINING)
    assert "no faults" in shown
    assert not lines_of_libraries(shown)


@pytest.mark.slow
def test_verbose_shows_what_libraries_write(folder):
    words = "-m pretrain.convert base verbose --format native --verbose".split()
    assert lines_of_libraries(screen(folder, "", *words))


def test_loading_a_model_leaves_the_libraries_as_they_are(folder):
    """The script is the user's, and so is its screen."""
    import pretrain

    loggers = [logging.getLogger(name) for name in ("absl", "tensorflow", "keras", "jax")]
    before = os.environ.copy(), list(sys.meta_path), [each.level for each in loggers]
    pretrain.load(folder / "base").embed(["w20 w21"])
    assert (os.environ.copy(), list(sys.meta_path), [each.level for each in loggers]) == before


def test_lines_of_libraries():
    written = """WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1795940855.334198   17088 cudart_stub.cc:31] Could not find cuda drivers
2026-11-29 08:00:00.1: I tensorflow/core/util/port.cc:153] oneDNN custom operations are on.
/usr/lib/x.py:3: DeprecationWarning: old
E0000 00:00:1795940875.841128   17088 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error"""
    assert lines_of_libraries(written) == written.splitlines()
    ours = (
        "step 1/1  loss 0.6933\nwarning: MRPC: 3 rows were cut\nbackend: tensorflow (auto: JAX finds no GPU or TPU)\n"
    )
    assert lines_of_libraries(ours) == []
