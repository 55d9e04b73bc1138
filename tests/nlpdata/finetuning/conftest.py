"""Fixtures of the fine-tuning tests: a small WordPiece vocabulary, and runs of create-finetuning."""

import string

import pytest

import nlpdata

WORDS = "the fox jumped high over a lazy dog it was born in of and river bank not good bad movie".split()


@pytest.fixture(scope="session")
def vocab(tmp_path_factory):
    """A lower-casing WordPiece vocabulary: words, and every letter, digit and mark of ASCII in both forms."""
    characters = string.ascii_lowercase + string.digits
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *string.punctuation]
    pieces += [c for c in characters if c not in pieces] + [f"##{c}" for c in characters] + ["##s", "##ing"][1:]
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(dict.fromkeys(pieces)) + "\n")
    return path


@pytest.fixture
def make(tmp_path, vocab, caplog):
    """create_finetuning with this vocabulary, into tmp_path / "out"; what it logs is in `make.log`, "warning: " first."""
    caplog.set_level("INFO", "nlpdata")

    def run(input=None, output="out", **options):
        caplog.clear()
        options = {"do_lower_case": True, "workers": 1} | options
        try:
            return nlpdata.create_finetuning(input, str(tmp_path / output), vocab, **options)
        finally:
            run.log = [_shown(record) for record in caplog.records]

    run.log = []
    return run


def _shown(record):
    return f"warning: {record.getMessage()}" if record.levelname == "WARNING" else record.getMessage()


@pytest.fixture
def records(tmp_path):
    """Opens the records of a split that `make` wrote."""
    return lambda split="train", output="out": nlpdata.open_records(str(tmp_path / output / f"{split}.tfrecord*"))
