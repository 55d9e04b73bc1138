"""Corpus files, plain and compressed, as text and as JSON lines; patterns of inputs."""

import json

import nlpdata
from nlpdata.corpus import find_files, plan_portions, read_portion
from tests.fuzz import mutations
from tests.fuzz.cases import ROOT, Case, target

TEXT = (ROOT / "examples/corpus/english_house.txt").read_bytes()[:2500]
DOCUMENTS = [{"id": i, "text": f"A document.\nIts second line, {i}.\nAnd a third."} for i in range(10)]
VOCAB = ROOT / "tests/nlpdata/golden/vocab.txt"
MODEL = ROOT / "tests/nlpdata/golden/spm.model"


def _read(case: Case, path: object, **options: object) -> None:
    """The reader to its end; now and then the whole command."""
    invalid = case.draw.choice(("fail", "replace", "skip"))
    if case.draw.random() < 0.1:
        how = {
            "max_seq_length": 32,
            "dupe_factor": 1,
            "workers": 1,
            "accept_loss": True,
            "do_lower_case": True,
            **options,
        }
        how |= {"objective": case.draw.choice(("sop", "nsp", "none")), "invalid_utf8": invalid}
        nlpdata.create_pretraining(str(path), str(case.folder / "r.tfrecord"), case.draw.choice((VOCAB, MODEL)), **how)
        return
    files, _ = find_files([str(path)])
    for portion in plan_portions(files, size=case.draw.choice((500, 1 << 20))):
        for _ in read_portion(portion, invalid_utf8=invalid, **options):
            pass


@target("corpus/text")
def _text(case: Case) -> None:
    _read(case, case.write("a.txt", case.damaged(TEXT)))


@target("corpus/gzip")
def _gzip(case: Case) -> None:
    import gzip

    _read(case, case.write("a.txt.gz", case.damaged(gzip.compress(TEXT, mtime=0) * case.draw.choice((1, 2)))))


@target("corpus/zstd")
def _zstd(case: Case) -> None:
    import zstandard

    _read(case, case.write("a.txt.zst", case.damaged(zstandard.compress(TEXT) * case.draw.choice((1, 2)))))


@target("corpus/jsonl")
def _jsonl(case: Case) -> None:
    lines = b"\n".join(
        case.odd_json(each).replace(b"\n", b" ") if case.draw.random() < 0.2 else json.dumps(each).encode()
        for each in DOCUMENTS
    )
    _read(case, case.write("a.jsonl", lines if case.draw.random() < 0.6 else case.packed(lines)), text_key="text")


@target("corpus/patterns")
def _patterns(case: Case) -> None:
    for name in ("a.txt", "b,c.txt", "d@2", "[e].txt"):
        case.write(name, b"A line.\n")
    odd = mutations.text(case.draw)
    pattern = case.draw.choice((odd, f"{case.folder}/{odd}", f"{case.folder}/*.txt{odd}", f"{case.folder}/a.txt,{odd}"))
    find_files([pattern])
