"""bert/local from the command line: trains on its own records, resumes, evaluates; what a user does wrong has a message."""

import json

import keras
import pytest

from pretrain.run import main
from tests.pretrain.conftest import without_graphs

pytestmark = pytest.mark.heavy


def run(capsys, *argv) -> tuple[int, str]:
    code = main(argv)
    captured = capsys.readouterr()
    return code, captured.out + captured.err


def facts(capsys, *argv) -> dict:
    """The object that --json prints, alone on standard output."""
    assert main([*argv, "--json"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    return json.loads(line)


def files_in(folder) -> dict:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_local_run_resume_and_evaluation(tmp_path, capsys):
    model_dir = tmp_path / "run"
    line = [
        "--experiment=bert/local",
        f"--model_dir={model_dir}",
        "--alsologtostderr",
        "--params_override=trainer.max_to_keep=2",
    ]

    code, said = run(capsys, *line, "--mode=train", "--num_train_steps=20")
    assert code == 0, said
    assert "made 4,108 toy examples" in said
    lines = [json.loads(text) for text in (model_dir / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == 20
    assert lines[-1]["loss"] < lines[0]["loss"]
    if keras.backend.backend() == "tensorflow":
        # Pinned: examples, masks, initial weights, dropout and optimizer are those of version 0.1. Other dropout is 1e-3 off.
        assert [line["loss"] for line in lines] == pytest.approx([4.504813, 4.078583], rel=2e-4)
    assert run(capsys, *line, "--num_train_steps=20", "--print_config") == (0, (model_dir / "params.yaml").read_text())

    code, said = run(capsys, *line, "--mode=train", "--num_train_steps=20")
    assert code == 0
    assert "nothing to do" in said

    with without_graphs():
        resume_and_evaluate(tmp_path, capsys, line)

    code, said = run(capsys, "--experiment=bert/local", f"--model_dir={tmp_path / 'other'}", "--mode=eval")
    assert code == 2
    assert "nothing to evaluate" in said


def resume_and_evaluate(tmp_path, capsys, line):
    """Of a run that has taken 20 steps."""
    model_dir = tmp_path / "run"
    before = files_in(tmp_path)
    dry = facts(capsys, *line, "--num_train_steps=22", "--dry_run")
    assert files_in(tmp_path) == before
    assert (dry["command"], dry["dry_run"], dry["step"]) == ("run", True, 20)
    assert dry["records"] == {"examples": 4108, "steps": 2}
    assert dry["seconds"] > 0
    assert dry["seconds_a_step"] > 0
    stored = sum(path.stat().st_size for path in (model_dir / "checkpoints").glob("step-*20/*"))
    assert dry["output_bytes"] == dry["checkpoint_bytes"] == pytest.approx(stored, rel=0.05)
    assert str(model_dir / "checkpoints") in dry["writes"]
    code, said = run(capsys, *line, "--num_train_steps=20", "--dry_run")
    assert code == 0
    assert "nothing to do" in said
    assert files_in(tmp_path) == before

    code, said = run(capsys, *line, "--mode=train", "--num_train_steps=22", "--seed=7")
    assert code == 0
    assert "toy examples" not in said
    assert "trainer.train_steps: 20 -> 22; runtime.seed: 12345 -> 7" in said
    assert "after step 20 of 22" in said

    evaluated = facts(capsys, *line, "--mode=eval")
    results = json.loads((model_dir / "eval_results.json").read_text())
    assert results["step"] == evaluated["step"] == 22
    assert results["masked_lm_accuracy"] == evaluated["eval"]["masked_lm_accuracy"] > 0
    trained = json.loads((model_dir / "metrics.jsonl").read_text().splitlines()[-2])
    assert evaluated["train"] == {name: value for name, value in trained.items() if name != "split"}
    assert evaluated["checkpoint"] == str(sorted((model_dir / "checkpoints").iterdir())[-1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--dry_run", "--mode=eval"], "--dry_run is of a run that trains"),
        (["--dry_run", "--compile_only"], "--compile_only and --dry_run exclude each other"),
        (["--experiment=albert/pretraining"], "task.train_data.input_path is empty"),
        (["--experiment=albert/pretraining", "--input_files=none/*.tfrecord"], "none/*.tfrecord"),
        (["--experiment=bert/local", "--train_batch_size=9999"], "fewer than one batch"),
        (["--experiment=albert/pretraining", "--input_files=toy:sop", "--init_checkpoint=no/such"], "no/such"),
    ],
)
def test_faults(tmp_path, capsys, flags, message):
    found, said = run(capsys, *flags, f"--model_dir={tmp_path}/run")
    assert found == 2, said
    assert message in said
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--max_seq_length=64"], "the records have max_seq_length 32"),
        (["--max_predictions_per_seq=6"], "the records have max_predictions_per_seq 5"),
        (["--params_override=task.model.encoder.vocab_size=10"], "model vocab_size 10"),
        (["--params_override=task.model.encoder.max_position_embeddings=16"], "the model max_position_embeddings 16"),
        (["--input_files=toy:none"], "task.train_data: the records have no next_sentence_labels"),
        (["--eval_files=toy:none", "--mode=eval"], "task.validation_data: the records have no next_sentence_labels"),
        (["--eval_files=toy:sop", "--mode=train_and_eval"], "pairs of objective sop, task.train_data those of nsp"),
        (
            ["--params_override=trainer.stages=[{train_steps:1},{train_steps:1,train_data:{input_path:toy:sop}}]"],
            "trainer.stages[1]: the model was trained with sentence pairs of objective nsp, the records have those of sop",
        ),
    ],
)
def test_toy_records_that_cannot_fit_are_refused_before_they_are_made(tmp_path, capsys, flags, message):
    found, said = run(capsys, "--experiment=bert/local", *flags, f"--model_dir={tmp_path}/run")
    assert found == 2, said
    assert message in said
    assert not (tmp_path / "run").exists()
