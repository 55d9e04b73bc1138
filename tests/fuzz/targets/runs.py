"""Commands of pretrain on damaged files: a run that is resumed, records, what is exported, texts to predict, GLUE, a job."""

import json
import os
import shutil
from pathlib import Path

from tests.fuzz import mutations
from tests.fuzz.cases import ROOT, Case, target
from tests.fuzz.targets.settings import EXPERIMENTS, PARAMS

VOCAB = ROOT / "tests/nlpdata/golden/vocab.txt"
_SMALL = (
    "hidden_size=16,num_hidden_layers=1,num_attention_heads=2,intermediate_size=24,max_position_embeddings=40".split(
        ","
    )
)
_ENCODER = ",".join(f"task.model.encoder.bert.{size}" for size in _SMALL)
_ROWS = [
    (text, label) for text, label in (("the house", "yes"), ("a river", "no"), ("by the house", "yes")) for _ in "12345"
]


def _train(folder: Path, records: str, experiment: str, steps: int) -> list[str]:
    """The arguments of a small run."""
    data = "task.train_data.global_batch_size=4,trainer.checkpoint_interval=1"
    vocab = sum(1 for _ in VOCAB.open("rb"))
    sizes = f"{_ENCODER},task.model.encoder.bert.vocab_size={vocab},{data},trainer.tensorboard=false"
    files = [f"--input_files={records}", f"--model_dir={folder}"]
    rest = ["--num_warmup_steps=0", f"--backend={backend()}"]
    return [f"--experiment={experiment}", *files, f"--num_train_steps={steps}", f"--params_override={sizes}", *rest]


def backend() -> str:
    """Keras's, which one process cannot change."""
    return os.environ.get("KERAS_BACKEND", "jax")


def _give_pretraining(folder: Path) -> None:
    import nlpdata
    from pretrain import run

    text = (ROOT / "examples/corpus/english_house.txt").read_bytes()[:3000]
    (folder / "text.txt").write_bytes(text)
    (folder / "records").mkdir()
    options = {"max_seq_length": 32, "dupe_factor": 2, "workers": 1, "accept_loss": True}
    nlpdata.create_pretraining(str(folder / "text.txt"), str(folder / "records/a.tfrecord"), VOCAB, **options)
    assert run.main(_train(folder / "run", f"{folder}/records/a.tfrecord", "bert/pretraining", 2)) == 0


def _give_classifier(folder: Path) -> None:
    import nlpdata
    from pretrain import run

    (folder / "train.tsv").write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for text, label in _ROWS))
    options = {"task": "classification", "max_seq_length": 16, "workers": 1}
    nlpdata.create_finetuning(
        input=str(folder / "train.tsv"), output=str(folder / "records"), tokenizer=VOCAB, **options
    )
    records = next((folder / "records").glob("train*.tfrecord"))
    assert run.main(_train(folder / "run", str(records), "bert/sentence_prediction", 1)) == 0


def _hurt(case: Case, name: str) -> Path:
    """A copy of a folder with one of its files damaged; JSON also by its values."""
    copy = case.folder / name
    shutil.copytree(case.given / name, copy)
    victim = case.draw.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
    content = victim.read_bytes()
    case.log.append(f"damaged: {victim.relative_to(case.folder)}")
    odd = victim.suffix == ".json" and case.draw.random() < 0.7
    victim.write_bytes(case.odd_json(json.loads(content)) if odd else case.damaged(content))
    return copy


@target("runs/resume", give=_give_pretraining, heavy=True, cost=40)
def _resume(case: Case) -> None:
    from pretrain import run

    case.command(run.main, *_train(_hurt(case, "run"), f"{case.given}/records/a.tfrecord", "bert/pretraining", 3))


@target("runs/records", give=_give_pretraining, heavy=True, cost=40)
def _records(case: Case) -> None:
    from pretrain import run

    records = _hurt(case, "records")
    case.command(run.main, *_train(case.folder / "run", f"{records}/a.tfrecord", "bert/pretraining", 1))


@target("runs/export", give=_give_pretraining, heavy=True, cost=10)
def _export(case: Case) -> None:
    from pretrain import export

    which = case.draw.choice(("newest", "best"))
    case.command(export.main, _hurt(case, "run"), case.folder / "new", "--format", "hf", "--which", which)


@target("runs/predict-model", give=_give_classifier, heavy=True, cost=20)
def _predict_model(case: Case) -> None:
    from pretrain import predict

    path = case.write("a.txt", "the house\na river\n")
    case.command(predict.main, "--model_dir", _hurt(case, "run"), "--input", path, "--output", case.folder / "p.tsv")


@target("runs/predict-texts", give=_give_classifier, heavy=True, cost=20)
def _predict_texts(case: Case) -> None:
    from pretrain import predict

    ending, content = case.draw.choice(
        (
            (".txt", "the house\na river\n"),
            (".tsv", "id\ttext\n1\tthe house\n2\ta river\n"),
            (".jsonl", '{"text": "the house", "id": 3}\n{"text": "a river", "id": 4}\n'),
        )
    )
    path = case.write(f"a{ending}", case.damaged(content))
    more = ["--format", case.draw.choice(("tsv", "jsonl"))]
    case.command(predict.main, "--model_dir", case.given / "run", "--input", path, "--output", case.folder / "p", *more)


def _give_choices(folder: Path) -> None:
    import nlpdata
    from pretrain import run

    (folder / "records").mkdir()
    rows = [{"text": text, "choices": ["yes", "no"], "label": number % 2} for number, (text, _) in enumerate(_ROWS)]
    (folder / "train.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    options = {
        "task": "choice",
        "max_seq_length": 16,
        "workers": 1,
        "train_output": str(folder / "records/train.tfrecord"),
    }
    nlpdata.create_finetuning(input=str(folder / "train.jsonl"), tokenizer=VOCAB, **options)
    records = folder / "records/train.tfrecord"
    assert run.main(_train(folder / "run", str(records), "bert/multiple_choice", 1)) == 0


@target("runs/choice-records", give=_give_choices, heavy=True, cost=40)
def _choice_records(case: Case) -> None:
    from pretrain import run

    records = _hurt(case, "records")
    case.command(run.main, *_train(case.folder / "run", f"{records}/train.tfrecord", "bert/multiple_choice", 1))


@target("runs/predict-choices", give=_give_choices, heavy=True, cost=20)
def _predict_choices(case: Case) -> None:
    from pretrain import predict

    ending, content = case.draw.choice(
        (
            (".csv", "context,question,ending0,ending1\nthe house,who,by,river\na river,where,no,yes\n"),
            (
                ".jsonl",
                '{"text": "the house", "choices": ["by", "a"]}\n{"text": "a river", "choices": ["no", "yes"]}\n',
            ),
        )
    )
    path = case.write(f"a{ending}", case.damaged(content))
    more = ["--on_bad_row", case.draw.choice(("fail", "skip"))]
    case.command(predict.main, "--model_dir", case.given / "run", "--input", path, "--output", case.folder / "p", *more)


ONE_STEP_OF_GLUE = "--params_override=trainer.train_steps=1,task.train_data.global_batch_size=4"


def _give_glue(folder: Path) -> None:
    _give_pretraining(folder)
    (folder / "glue/SST-2").mkdir(parents=True)
    for name in ("train", "dev"):
        rows = "".join(f"{text}\t{int(label == 'yes')}\n" for text, label in _ROWS)
        (folder / f"glue/SST-2/{name}.tsv").write_text(f"sentence\tlabel\n{rows}")
    (folder / "glue/SST-2/test.tsv").write_text("index\tsentence\n0\tthe house\n1\ta river\n")


@target("runs/glue", give=_give_glue, heavy=True, cost=100)
def _glue(case: Case) -> None:
    from pretrain import glue

    arguments = ["--init_checkpoint", case.given / "run", "--input", _hurt(case, "glue"), "--output", case.folder / "s"]
    arguments += ["--tasks", "sst2", "--max_seq_length", "16", "--backend", backend()]
    case.command(glue.main, *arguments, ONE_STEP_OF_GLUE)


@target("runs/submit", heavy=True)
def _submit(case: Case) -> None:
    from pretrain import submit
    from pretrain.settings.flags import FLAGS

    words = ["--staging", case.draw.choice(("gs://bucket/x", mutations.text(case.draw))), "--dry_run"]
    for option in ("--display_name", "--machine_type", "--accelerator_type", "--image", "--accelerator_count"):
        if case.draw.random() < 0.2:
            words.append(f"{option}={mutations.text(case.draw)}")
    flags = [f"--experiment={case.draw.choice(EXPERIMENTS)}", "--input_files=gs://b/x.tfrecord"]
    for _ in range(case.draw.choice((0, 1, 2))):
        flag = case.draw.choice([each for each in FLAGS if each.name != "config_file"])
        flags.append(f"--{flag.name}={mutations.text(case.draw)}")
    if case.draw.random() < 0.2:
        flags.append(f"--params={case.write('params.yaml', case.damaged(PARAMS))}")
    case.command(submit.main, *words, "--", *flags)
