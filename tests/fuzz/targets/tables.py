"""Readers of labelled rows: CSV, TSV, JSON lines, Parquet, GLUE, SQuAD, IMDB."""

import io
import json
import tarfile
from pathlib import Path

from nlpdata import create_finetuning
from nlpdata.finetuning.datasets import open_dataset
from nlpdata.finetuning.options import FinetuningOptions
from tests.fuzz.cases import ROOT, Case, target

VOCAB = ROOT / "tests/nlpdata/golden/vocab.txt"
ROWS = [(f"a text of row {i}, with words", f"another, {i}", ("good", "bad", "1")[i % 3]) for i in range(12)]
SQUAD = {
    "version": "v2.0",
    "data": [
        {
            "title": "t",
            "paragraphs": [
                {
                    "context": "The river Rhine flows north. It is 1230 km long, and ends in the sea.",
                    "qas": [
                        {
                            "id": f"q{n}{i}",
                            "question": "How long is it?",
                            "answers": [{"text": "1230 km", "answer_start": 35}],
                        }
                        | ({"is_impossible": True, "answers": []} if i == 2 else {"is_impossible": False})
                        for i in range(3)
                    ],
                }
                for n in range(2)
            ],
        }
    ],
}


def _delimited(mark: str) -> str:
    quote = (lambda text: f'"{text}"') if mark != "\t" else str
    header = mark.join(("text", "text_b", "label"))
    return "\n".join([header, *(mark.join(map(quote, row)) for row in ROWS)]) + "\n"


def create(case: Case, input: object, **options: object) -> None:
    """The whole command on this input, with random choices of what to do about bad rows."""
    options |= {"on_bad_row": case.draw.choice(("fail", "skip", "skip"))}
    create_finetuning(
        str(input),
        str(case.folder / "out"),
        VOCAB,
        max_seq_length=32,
        workers=1,
        accept_loss=True,
        do_lower_case=True,
        **options,
    )


def _rows(case: Case, path: Path, **options: object) -> None:
    """The reader of a dataset, to its end; now and then the whole command."""
    if case.draw.random() < 0.2:
        create(case, path, **options)
        return
    dataset = open_dataset([str(path)], FinetuningOptions(**options))
    for split in dataset.splits:
        for _ in split.rows():
            pass


def _own(case: Case, path: Path) -> None:
    task = case.draw.choice(("classification", "pair", "regression", "multilabel", "choice"))
    more = {"choice_columns": case.draw.choice(("text_b,text", "choices"))} if task == "choice" else {}
    _rows(case, path, task=task, text_b_column="text_b" if task == "pair" else None, **more)


@target("tables/csv")
def _csv(case: Case) -> None:
    name = case.draw.choice(("rows.csv", "rows.csv", "rows.csv.gz"))
    _own(case, case.write(name, case.packed(_delimited(case.draw.choice(",;|\t")).encode())))


@target("tables/csv-encodings")
def _csv_encodings(case: Case) -> None:
    encoding = case.draw.choice(("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "cp1252", "utf-32"))
    text = _delimited(case.draw.choice(",;|\t")).replace("words", "wörter, é")
    _own(case, case.write("rows.csv", case.packed(text.encode(encoding, "replace"))))


@target("tables/tsv")
def _tsv(case: Case) -> None:
    name = case.draw.choice(("rows.tsv", "rows.tsv", "rows.tsv.gz"))
    _own(case, case.write(name, case.packed(_delimited("\t").encode())))


@target("tables/jsonl")
def _jsonl(case: Case) -> None:
    rows = [dict(zip(("text", "text_b", "label"), row, strict=True)) | {"choices": list(row)} for row in ROWS]
    lines = b"\n".join(
        case.odd_json(row).replace(b"\n", b" ") if case.draw.random() < 0.2 else json.dumps(row).encode()
        for row in rows
    )
    name = case.draw.choice(("rows.jsonl", "rows.jsonl", "rows.jsonl.gz"))
    _own(case, case.write(name, lines if case.draw.random() < 0.6 else case.packed(lines)))


def _give_parquet(folder: Path) -> None:
    import pyarrow
    import pyarrow.parquet

    columns = list(zip(*ROWS, strict=True))
    table = pyarrow.table(dict(zip(("text", "text_b", "label"), columns, strict=True)))
    pyarrow.parquet.write_table(table, folder / "rows.parquet", write_page_checksum=True)


@target("tables/parquet", give=_give_parquet)
def _parquet(case: Case) -> None:
    _own(case, case.write("rows.parquet", case.damaged((case.given / "rows.parquet").read_bytes())))


_PAIRS = "index\tsentence1\tsentence2"
_GLUE = {  # task -> folder, training rows, test rows
    "cola": (
        "CoLA",
        "gj04\t1\t\tWe won't buy this.\nbc01\t0\t*\tThem won't.\n" * 4,
        "index\tsentence\n0\tBill left.\n",
    ),
    "sst2": ("SST-2", "sentence\tlabel\n" + 'a "fine" film \t1\nbad \t0\n' * 4, "index\tsentence\n0\tunknown\n"),
    "mrpc": (
        "MRPC",
        "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
        + "1\t1\t2\tHe said so.\tHe has said so.\n0\t3\t4\tNo\tYes\n" * 4,
        "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\tA b\tC d\n",
    ),
    "stsb": ("STS-B", f"{_PAIRS}\tscore\n" + "0\tA plane.\tA jet.\t4.8\n" * 6, f"{_PAIRS}\n0\ta\tb\n"),
    "rte": (
        "RTE",
        f"{_PAIRS}\tlabel\n" + "0\tA.\tB.\tentailment\n1\tC.\tD.\tnot_entailment\n" * 4,
        f"{_PAIRS}\n0\ta\tb\n",
    ),
}


@target("tables/glue")
def _glue(case: Case) -> None:
    task = case.draw.choice(list(_GLUE))
    folder, train, test = _GLUE[task]
    hurt = case.draw.choice(("train", "dev", "test"))
    for name, content in (("train", train), ("dev", train), ("test", test)):
        data = case.damaged(content) if name == hurt else content
        case.write(f"{folder}/{name}.tsv", data)
    _rows(case, case.folder / folder, task=task)


@target("tables/squad")
def _squad(case: Case) -> None:
    content = case.odd_json(SQUAD)
    name = "train.json"
    if case.draw.random() < 0.2:
        name, content = "train.json.gz", case.packed(json.dumps(SQUAD).encode())
    case.write(f"squad/{name}", content)
    case.write("squad/dev.json", case.odd_json(SQUAD))
    _rows(case, case.folder / "squad", task="squad")


@target("tables/race")
def _race(case: Case) -> None:
    article = {
        "article": "The river Rhine flows north. It ends in the sea.",
        "questions": ["It ends in _.", "What flows?"],
        "options": [["the sea", "a lake", "the Alps", "1230 km"]] * 2,
        "answers": ["A", "B"],
    }
    whole = json.dumps(article).encode()
    for split in ("train", "dev", "test"):
        for level in ("middle", "high"):
            odd = case.odd_json(article) if case.draw.random() < 0.5 else case.damaged(whole)
            if case.draw.random() < 0.3:
                lines = b"\n".join([whole, odd.replace(b"\n", b" "), whole])
                case.write(f"RACE/{split}/{level}/all.txt", lines)
            else:
                case.write(f"RACE/{split}/{level}/1.txt", odd)
                case.write(f"RACE/{split}/{level}/2.txt", whole)
    _rows(case, case.folder / "RACE", task="race")


@target("tables/swag")
def _swag(case: Case) -> None:
    names = ",video-id,sent1,sent2,ending0,ending1,ending2,ending3"
    rows = [f'{n},v{n},"The fox, lazy",it,ran,slept,"sat, down",ate' for n in range(6)]
    whole = "\n".join([f"{names},label", *(f"{row},{n % 4}" for n, row in enumerate(rows))]) + "\n"
    hurt = case.draw.choice(("train", "val", "test"))
    for name, content in (("train", whole), ("val", whole), ("test", "\n".join([names, *rows]))):
        case.write(f"swag/{name}.csv", case.damaged(content) if name == hurt else content)
    _rows(case, case.folder / "swag", task="swag")


@target("tables/imdb-folder")
def _imdb_folder(case: Case) -> None:
    for i in range(8):
        name = f"aclImdb/{('train', 'test')[i % 2]}/{('neg', 'pos')[i // 2 % 2]}/{i}_{i}.txt"
        case.write(name, case.damaged("A fine film.<br />Really.") if i < 3 else "It was bad.")
    _rows(case, case.folder / "aclImdb", task="imdb")


@target("tables/imdb-archive")
def _imdb_archive(case: Case) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode=case.draw.choice(("w", "w:gz", "w:bz2", "w:xz"))) as archive:
        for i in range(8):
            info = tarfile.TarInfo(f"aclImdb/{('train', 'test')[i % 2]}/{('neg', 'pos')[i // 2 % 2]}/{i}_{i}.txt")
            content = b"It was a film."
            info.size = len(content)
            if case.draw.random() < 0.2:
                info.type = case.draw.choice(
                    (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE, tarfile.CHRTYPE)
                )
                info.size, info.linkname = 0, case.draw.choice(("x", "../../x", info.name, "/etc/passwd"))
            archive.addfile(info, io.BytesIO(content) if info.size else None)
    data = packed.getvalue()
    _rows(case, case.write("aclImdb.tar.gz", data if case.draw.random() < 0.3 else case.damaged(data)), task="imdb")
