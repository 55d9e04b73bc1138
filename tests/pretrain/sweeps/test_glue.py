"""pretrain glue on folders of a few rows: records, runs, table; again, without running anything twice."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.output import committing
from nlpdata.records.reader import open_records
from nlpdata.reports.runs import runs_report
from nlpdata.tokenizers import load_tokenizer
from pretrain.glue import main
from pretrain.sweeps.glue import DATASETS, GlueOptions, make_records, table_lines
from pretrain.tasks.sentence_prediction import SentencePredictionTask
from tests.disks import files_up_to, mounted, names
from tests.pages import WORDS, lines_of_libraries, one_core, plain_environment
from tests.pretrain.finetuning import records, sentence_experiment
from tests.pretrain.prediction.test_predict import stored
from tests.pretrain.runs import ROOT, tiny


@pytest.fixture(autouse=True)
def _one_core():
    """The records of a task are of a few rows: worker processes, which create-finetuning's tests have, would take longest."""
    with one_core():
        yield


@pytest.fixture
def base(tmp_path):
    """A tiny checkpoint with its vocabulary, and the folders of RTE, STS-B and MNLI."""
    config = sentence_experiment(records(tmp_path / "a.tfrecord", 16))
    task = SentencePredictionTask(replace(config.task, model=replace(config.task.model, encoder=tiny("bert"))))
    task.build_inputs(config.task.train_data)
    stored(task, tmp_path / "base", tiny("bert"))
    (tmp_path / "base" / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    mnli = ("train", "dev_matched", "dev_mismatched")
    for folder, label, values, splits in (
        ("RTE", "label", ("entailment", "not_entailment"), ("train", "dev")),
        ("STS-B", "score", ("1.5", "4.0"), ("train", "dev")),
        ("MNLI", "gold_label", ("entailment", "neutral", "contradiction"), mnli),
    ):
        (tmp_path / "glue" / folder).mkdir(parents=True)
        rows = [f"{i}\tw{20 + i} w40\tw{30 + i}\t{values[i % len(values)]}" for i in range(8)]
        for split in splits:
            text = "\n".join([f"index\tsentence1\tsentence2\t{label}", *rows]) + "\n"
            (tmp_path / "glue" / folder / f"{split}.tsv").write_text(text)
    return tmp_path / "base"


def test_records_that_were_interrupted_are_completed(tmp_path, monkeypatch):
    """Also where the meta file is in place and the marker is still there: readers would refuse them for good."""
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    (tmp_path / "RTE").mkdir()
    rows = [f"{i}\tw20 w40\tw30\t{('entailment', 'not_entailment')[i % 2]}" for i in range(8)]
    for split in ("train", "dev"):
        (tmp_path / "RTE" / f"{split}.tsv").write_text("\n".join(["index\tsentence1\tsentence2\tlabel", *rows]) + "\n")
    options = GlueOptions(init_checkpoint="", input=tmp_path, output=tmp_path / "out", max_seq_length=32)
    given = (options, "rte", ["train", "dev"], load_tokenizer(tmp_path / "vocab.txt"))

    def stop(targets):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(committing, "remove_markers", stop)
        with pytest.raises(DataError, match="Run the same command again to complete the set"):
            make_records(*given)
    assert (tmp_path / "out" / "records" / "rte" / "meta.json").exists()
    folder = make_records(*given)
    assert len(open_records(str(folder / "train.tfrecord"))) == 8
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_options_that_only_create_finetuning_has_are_named_as_its_own(base, tmp_path, capsys):
    """Those of this command are spelled as here."""
    path = tmp_path / "glue" / "RTE" / "train.tsv"
    path.write_text(path.read_text() + "9\tw20\tw30\tnetral\n")
    given = ("--init_checkpoint", base, "--input", tmp_path / "glue", "--output", tmp_path / "out", "--tasks", "rte")
    assert main([*map(str, given), "--max_seq_length", "32"]) == 1
    message = capsys.readouterr().err.splitlines()[-1]
    assert f"{path}:10: unknown label 'netral'" in message
    assert "--drop-labels netral of nlpdata create-finetuning, or use --on_bad_row=skip" in message


def test_disks_that_refuse(base, tmp_path, capsys):
    """One line, and nothing that looks finished; what a run does whose checkpoint finds no room is tests/pretrain/training's."""
    line = [
        "--init_checkpoint",
        str(base),
        "--input",
        str(tmp_path / "glue"),
        "--tasks",
        "rte",
        "--max_seq_length",
        "32",
    ]
    with files_up_to(1500):
        assert main([*line, "--output", str(tmp_path / "out")]) == 1
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("pretrain glue: error: create-finetuning (")
    assert "File too large. Nothing was put in place." in message
    assert not [name for name in names(tmp_path / "out") if ".work" not in name]
    with mounted(tmp_path / "ro", "ro") as folder:
        assert main([*line, "--output", str(folder / "out")]) == 2
        said = capsys.readouterr().err.splitlines()
        assert said[-1].startswith("pretrain glue: error: ")
        assert "Read-only file system" in said[-1]


def test_texts_that_are_longer_than_the_model_takes(base, tmp_path, capsys):
    """Before any record is made."""
    given = ("--init_checkpoint", base, "--input", tmp_path / "glue", "--output", tmp_path / "out", "--tasks", "rte")
    assert main([*map(str, given), "--max_seq_length", "4096"]) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert re.search(
        r"--max_seq_length must be \d+ or less, the most tokens that .*base takes. Received: 4096", message
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--tasks=rte,cola"], "glue holds MNLI, RTE, STS-B; expected the folder of CoLA"),
        (
            ["--tasks=rte", "--params_override=trainer.train_stps=1"],
            "trainer.train_stps: TrainerConfig has no such field",
        ),
    ],
)
def test_what_is_wrong_is_found_before_any_record_is_made(more, message, base, tmp_path, capsys):
    given = (
        "--init_checkpoint",
        base,
        "--input",
        tmp_path / "glue",
        "--output",
        tmp_path / "out",
        "--max_seq_length=32",
    )
    assert main([*map(str, given), *more]) == 2
    assert message in capsys.readouterr().err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("tasks", "names"),
    [
        (None, list(DATASETS)),
        (["ALL"], list(DATASETS)),
        (["mnli"], ["mnli_matched", "mnli_mismatched"]),
        (["MNLI-m", "Mnli_MM", "SST-2", "sts", "CoLA"], ["mnli_matched", "mnli_mismatched", "sst2", "stsb", "cola"]),
        (["rte", "RTE", " GLUE/rte"], ["rte"]),
    ],
)
def test_names_of_tasks(tasks, names):
    assert GlueOptions(init_checkpoint="", input="", output="", tasks=tasks).names() == names


@pytest.mark.parametrize(
    ("tasks", "message"), [(["mprc"], "no task 'mprc'. Did you mean mrpc"), ([], "names no task. Known: cola, ")]
)
def test_names_that_are_no_tasks(tasks, message):
    with pytest.raises(UsageError, match=message):
        GlueOptions(init_checkpoint="", input="", output="", tasks=tasks).names()


@pytest.mark.slow
@pytest.mark.usefixtures("eagerly")
def test_a_sweep_of_three_tasks(base, tmp_path, capsys):
    sweep = tmp_path / "sweep[1], a"
    (tmp_path / "sweep1, a").mkdir()  # what a pattern of that name would match
    line = ["--init_checkpoint", str(base), "--input", str(tmp_path / "glue"), "--output", str(sweep)]
    line += ["--tasks", "rte,STS-B, MNLI,mnli-mismatched", "--max_seq_length", "32"]
    line += ["--params_override", "trainer.train_steps=2,task.train_data.global_batch_size=4,trainer.tensorboard=false"]
    assert main(line) == 0
    table = json.loads((sweep / "glue.json").read_text())
    scores = json.loads((sweep / "rte" / "seed-0" / "eval_results.json").read_text())
    assert table["runs"]["rte/seed-0"] == scores
    rows = table["table"]
    metrics = [("rte", "accuracy"), ("stsb", "pearson"), ("stsb", "spearman")]
    metrics += [("mnli_matched", "accuracy"), ("mnli_mismatched", "accuracy"), ("average", "")]
    assert [(row["task"], row["metric"]) for row in rows] == metrics
    rte, pearson, spearman, matched, mismatched, average = (row["median"] for row in rows)
    assert rte == scores["accuracy"]
    assert average == pytest.approx((rte + (pearson + spearman) / 2 + (matched + mismatched) / 2) / 3)
    # One model of MNLI, two dev sets of equal content.
    assert table["runs"]["mnli_mismatched/mnli_matched-seed-0"] == table["runs"]["mnli_matched/seed-0"] | {"step": 0}
    assert not (sweep / "mnli_mismatched" / "mnli_matched-seed-0" / "checkpoints").exists()
    assert (sweep / "glue.tsv").read_text().splitlines()[1].startswith(f"rte\taccuracy\t{rte}")
    shown = capsys.readouterr().out.splitlines()
    assert f"{100 * rte:8.2f}" in shown[-len(rows)]
    assert shown[-len(rows) - 1 :] == table_lines(rows)
    (table,) = next(section.items for section in runs_report([sweep]).sections if section.title == "GLUE")
    assert [[cell for cell in row if cell] for row in table.rows] == [line.split() for line in shown[-len(rows) :]]

    assert main([*line, "--json"]) == 0
    said = capsys.readouterr()
    assert said.err.count("was finished before") == 3
    assert "making records" not in said.err
    assert json.loads(said.out) == {"command": "glue", "output": str(sweep), "table": rows}

    fields = [
        "trainer.train_steps=null",
        "trainer.num_train_epochs=1",
        "trainer.optimizer_config.warmup.warmup_steps=2",
    ]
    assert main([*line, "--params_override", ",".join(fields)]) == 2
    said = capsys.readouterr().err
    assert "warm-up takes 2 steps, and the run has 2" in said  # 8 rows of each task, 4 a step
    assert "seed-0" not in said

    assert main([*line, "--max_seq_length", "16"]) == 2
    assert "has records of another max_seq_length (32, expected 16)" in capsys.readouterr().err
    assert main([*line, "--tasks", "mprc"]) == 2
    assert "no task 'mprc'. Did you mean mrpc?" in capsys.readouterr().err


@pytest.mark.slow
def test_a_sweep_on_jax(base, tmp_path):
    """In its own process, where TensorFlow is not imported."""
    pytest.importorskip("jax")
    line = ["--init_checkpoint", str(base), "--input", str(tmp_path / "glue"), "--output", str(tmp_path / "sweep")]
    line += ["--backend", "jax", "--tasks", "rte", "--max_seq_length", "32"]
    line += ["--params_override", "trainer.train_steps=2,task.train_data.global_batch_size=4,trainer.tensorboard=false"]
    code = (
        "import sys; from pretrain.glue import main; code = main(sys.argv[1:]); "
        "assert not [name for name in sys.modules if name.split('.')[0] == 'tensorflow']; sys.exit(code)"
    )
    of_jax = {name: os.environ[name] for name in ("XLA_FLAGS", "JAX_COMPILATION_CACHE_DIR")}  # it compiles faster so
    environment = plain_environment() | of_jax | {"JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", code, *line], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "backend: jax (--backend)" in done.stderr
    assert not lines_of_libraries(done.stderr + done.stdout)
    scores = json.loads((tmp_path / "sweep" / "rte" / "seed-0" / "eval_results.json").read_text())
    assert f"{100 * scores['accuracy']:8.2f}" in done.stdout
