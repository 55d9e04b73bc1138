"""Record files, plain and gzip, and the meta files next to them: what readers, verify and inspect make of them."""

import json
from pathlib import Path

import nlpdata
from nlpdata.records.inspection import inspect_records
from nlpdata.records.verification import verify
from tests.fuzz.cases import ROOT, Case, target

GOLDEN = ROOT / "tests/nlpdata/golden"


def _give(folder: Path, **options: object) -> None:
    nlpdata.create_pretraining(
        str(ROOT / "examples/corpus/english_house.txt"), str(folder / "r.tfrecord"), GOLDEN / "vocab.txt",
        max_seq_length=32, dupe_factor=1, workers=1, **options,
    )  # fmt: skip


def _give_gzip(folder: Path) -> None:
    _give(folder, compression="gzip", masking="dynamic")


def _give_finetuning(folder: Path) -> None:
    from tests.fuzz.targets.tables import SQUAD

    (folder / "squad").mkdir()
    for split in ("train", "dev"):
        (folder / f"squad/{split}.json").write_text(json.dumps(SQUAD))
    nlpdata.create_finetuning(
        str(folder / "squad"), str(folder / "out"), GOLDEN / "vocab.txt", task="squad", max_seq_length=96, workers=1
    )
    rows = "text,label\n" + "".join(f"a text {i},{i % 2}\n" for i in range(12))
    (folder / "rows.csv").write_text(rows)
    nlpdata.create_finetuning(
        str(folder / "rows.csv"),
        str(folder / "own"),
        GOLDEN / "vocab.txt",
        task="classification",
        max_seq_length=32,
        workers=1,
    )


def _copy(case: Case, folder: Path, hurt: str, content: bytes) -> None:
    for path in folder.iterdir():
        case.write(path.name, content if path.name == hurt else path.read_bytes())


def _look(path: Path) -> None:
    """Everything that reads records: a refusal of one is not a reason to leave out the next."""
    refused = None
    for use in (verify, inspect_records, lambda p: nlpdata.open_records(p)[:]):
        try:
            use(str(path))
        except nlpdata.NlpdataError as error:
            refused = error
    if refused:
        raise refused


@target("records/tfrecord", give=_give)
def _records(case: Case) -> None:
    _copy(case, case.given, "r.tfrecord", case.damaged((case.given / "r.tfrecord").read_bytes()))
    _look(case.folder / "r.tfrecord")


@target("records/tfrecord-gzip", give=_give_gzip)
def _records_gzip(case: Case) -> None:
    _copy(case, case.given, "r.tfrecord", case.damaged((case.given / "r.tfrecord").read_bytes()))
    _look(case.folder / "r.tfrecord")


@target("records/meta", give=_give)
def _meta(case: Case) -> None:
    _copy(case, case.given, "r.meta.json", case.odd_json(json.loads((case.given / "r.meta.json").read_text())))
    _look(case.folder / "r.tfrecord")


@target("records/meta-finetuning", give=_give_finetuning)
def _meta_finetuning(case: Case) -> None:
    folder = case.given / case.draw.choice(("out", "own"))
    _copy(case, folder, "meta.json", case.odd_json(json.loads((folder / "meta.json").read_text())))
    _look(case.folder / "train.tfrecord")


@target("records/questions", give=_give_finetuning)
def _questions(case: Case) -> None:
    folder = case.given / "out"
    name = case.draw.choice(("dev.examples.jsonl.gz", "dev.tfrecord", "meta.json"))
    _copy(
        case,
        folder,
        name,
        case.packed((folder / name).read_bytes())
        if name.endswith("gz")
        else case.damaged((folder / name).read_bytes()),
    )
    _look(case.folder / "dev.tfrecord")
