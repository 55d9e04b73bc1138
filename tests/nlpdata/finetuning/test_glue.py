"""GLUE folders, real and small: every row, its text and its label, in order."""

import gzip
import shutil
from pathlib import Path

import numpy as np
import pytest
import zstandard

import nlpdata
from nlpdata.errors import DataError, UsageError
from nlpdata.finetuning.datasets import DATASETS, find_dataset, open_dataset
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.records.contract import read_meta
from nlpdata.tokenizers import load_tokenizer
from tests.nlpdata.commands import contents
from tests.nlpdata.finetuning.texts import segments, write
from tests.shared import shared

# Task -> rows of train, dev and test; columns of the texts and the label in train.tsv, and in test.tsv; a length that
# leaves every text whole.
REAL = {
    "CoLA": ((8551, 1043, 1063), (3,), 1, (1,), 64),
    "SST-2": ((67349, 872, 1821), (0,), 1, (1,), 80),
    "MRPC": ((3668, 408, 1725), (3, 4), 0, (3, 4), 128),
    "STS-B": ((5749, 1500, 1379), (7, 8), 9, (7, 8), 160),
    "RTE": ((2490, 277, 3000), (1, 2), 3, (1, 2), 320),
    "WNLI": ((635, 71, 146), (1, 2), 3, (1, 2), 128),
}


def _source(task, split):
    """The rows of a real file, read in the plainest way: cut at line ends and tabs."""
    text = shared("data", "glue", task, f"{split}.tsv").read_bytes().decode("utf-8-sig")
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    return [line.split("\t") for line in lines[0 if task == "CoLA" and split != "test" else 1 :]]


@pytest.mark.heavy
@pytest.mark.slow
@pytest.mark.parametrize("task", REAL)
def test_real_folders_convert_row_by_row(task, tmp_path):
    counts, columns, label, test_columns, length = REAL[task]
    folder = shared("data", "glue", task)
    tokenizer = load_tokenizer(shared("data", "models", "vocab", "bert_base_uncased_vocab.txt"), do_lower_case=True)
    result = nlpdata.create_finetuning(
        folder, str(tmp_path / "out"), tokenizer.path, task=task, do_lower_case=True, max_seq_length=length, workers=1
    )
    names = read_meta(result.meta)["label_names"]
    for split, count in zip(("train", "dev", "test"), counts, strict=True):
        rows = _source(task, split)
        batch = nlpdata.open_records(result.files[split])[:]
        assert len(batch["input_ids"]) == len(rows) == count
        assert result.counters[split]["counters"].get("truncated", 0) == 0
        # The tokens of every text, by themselves.
        places = test_columns if split == "test" else columns
        texts = [tokenizer.encode([row[place] for row in rows]) for place in places]
        _check_texts(batch, texts, tokenizer)
        assert batch["example_id"][:, 0].tolist() == list(range(count))
        assert (batch["is_real_example"] == 1).all()
        if split == "test":
            assert "label_ids" not in batch
        elif task == "STS-B":
            assert batch["label_ids"].dtype == np.float32
            assert batch["label_ids"][:, 0].tolist() == [np.float32(row[label]) for row in rows]
        else:
            assert [names[i] for i in batch["label_ids"][:, 0]] == [row[label] for row in rows]
    assert not nlpdata.verify([path for split in ("dev", "test") for path in result.files[split]]).faults


def _check_texts(batch, texts, tokenizer):
    """[CLS] a [SEP], or [CLS] a [SEP] b [SEP], then padding, in every record; `texts`: (ids, lengths) of all a, of all b."""
    ids, mask, segment = (batch[name] for name in ("input_ids", "input_mask", "segment_ids"))
    place, row, at = np.arange(ids.shape[1]), np.arange(len(ids)), np.zeros(len(ids), np.int64)
    assert (ids[:, 0] == tokenizer.cls_id).all()
    for number, (flat, lengths) in enumerate(texts):
        inside = (place > at[:, None]) & (place <= (at + lengths)[:, None])
        assert np.array_equal(ids[inside], flat)
        at += lengths + 1
        assert (ids[row, at] == tokenizer.sep_id).all()
        assert (segment[inside] == number).all()
        assert (segment[row, at] == number).all()
    real = place <= at[:, None]
    assert np.array_equal(mask, real)
    assert not ids[~real].any()
    assert not segment[~real].any()


def test_both_layouts_of_mrpc_give_the_same_records(tmp_path):
    folder = shared("data", "glue", "MRPC")
    original = tmp_path / "original"
    original.mkdir()
    for name in ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt", "dev_ids.tsv"):
        (original / name).symlink_to(folder / name)
    vocab = shared("data", "models", "vocab", "bert_base_uncased_vocab.txt")
    made = [
        nlpdata.create_finetuning(source, str(tmp_path / name), vocab, task="mrpc", do_lower_case=True, workers=1)
        for source, name in ((folder, "standard"), (original, "microsoft"))
    ]
    assert {split: about["records"] for split, about in made[1].counters.items()} == {
        "train": 3668,
        "dev": 408,
        "test": 1725,
    }
    # Training pairs stand in another order in the folder at hand; as sets, records are the same.
    for split in ("train", "dev", "test"):
        first, second = (nlpdata.open_records(result.files[split])[:] for result in made)
        rows = [sorted(map(bytes, records["input_ids"])) for records in (first, second)]
        assert rows[0] == rows[1], split


def contents_of(result):
    """split -> the bytes of its records."""
    return {split: [path.read_bytes() for path in map(Path, paths)] for split, paths in result.files.items()}


def test_files_of_a_folder_may_be_compressed(tmp_path, make):
    """A layout of each kind gives the records of its plain files; of a folder that lacks a file the usual name is told."""
    folders = [(tmp_path / "MRPC", "mrpc"), (tmp_path / "original", "mrpc"), (tmp_path / "paws", "pawsx")]
    (mrpc, _), (original, _), (paws, _) = folders
    pair = ("1", "2", "the fox", "a fox")
    for folder, names in ((mrpc, ("train.tsv", "dev.tsv")), (original, ("msr_paraphrase_train.txt",))):
        for name in names:
            write(folder / name, "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", ("1", *pair), ("0", "3", *pair[1:]))
    write(original / "dev_ids.tsv", "1\t2")
    for name in ("train.tsv", "dev_2k.tsv", "test_2k.tsv"):
        write(paws / "en" / name, "id\tsentence1\tsentence2\tlabel", ("1", "the fox", "a fox", "1"))
    plain = {path: contents_of(make(path, output=f"{path.name}-plain", task=task)) for path, task in folders}
    for path in [path for folder in plain for path in folder.rglob("*.t*")]:
        suffix, compress = (".gz", gzip.compress) if path.suffix == ".tsv" else (".zst", zstandard.compress)
        path.with_name(path.name + suffix).write_bytes(compress(path.read_bytes()))
        path.unlink()
    for path, task in folders:
        assert contents_of(make(path, output=f"{path.name}-packed", task=task)) == plain[path]

    (mrpc / "train.tsv.gz").unlink()
    with pytest.raises(DataError, match=r"MRPC/train\.tsv: missing, so there is no train split"):
        make(mrpc, task="mrpc")
    (original / "dev_ids.tsv.gz").unlink()
    with pytest.raises(
        DataError, match=r"dev_ids\.tsv: missing\. Expected it next to msr_paraphrase_train\.txt\.zst, or train"
    ):
        make(original, task="mrpc")


SMALL = {  # task: (file, header, row, texts of the row, label)
    "qqp": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate",
        "7\t8\t9\tthe fox\tthe dog\t1",
        ("the fox", "the dog"),
        "1",
    ),
    "qnli": (
        "index\tquestion\tsentence\tlabel",
        "0\tthe fox\tthe dog\tnot_entailment",
        ("the fox", "the dog"),
        "not_entailment",
    ),
    "rte": (
        "index\tsentence1\tsentence2\tlabel",
        "0\tthe fox\tthe dog\tentailment",
        ("the fox", "the dog"),
        "entailment",
    ),
    "sst2": ("sentence\tlabel", 'the "fox\t1', ('the "fox',), "1"),
}


@pytest.mark.parametrize("task", SMALL)
def test_columns_of_small_files(task, tmp_path, make, records, vocab):
    header, row, texts, label = SMALL[task]
    other = {"qnli": "entailment", "rte": "not_entailment"}.get(task, "0")
    for split in ("train", "dev"):
        write(tmp_path / task / f"{split}.tsv", header, row, row.rpartition("\t")[0] + f"\t{other}")
    result = make(tmp_path / task, task=task, max_seq_length=32)
    record = records()[0]
    tokenizer = load_tokenizer(vocab, do_lower_case=True)
    encoded = [tokenizer.encode([text])[0].tolist() for text in texts]
    assert segments(record, tokenizer) == (encoded[0], encoded[1] if len(encoded) > 1 else [])
    assert read_meta(result.meta)["label_names"][record["label_ids"][0]] == label


def _mnli(folder):
    """MNLI in the columns of the real files (of which train has one annotator's label, dev five)."""
    names = "index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse"
    start = [*names.split(), "sentence1", "sentence2"]
    rows = {"entailment": "the fox", "neutral": "the dog", "contradiction": "the river"}
    filler = [str(i) for i in range(8)]
    write(
        folder / "train.tsv", [*start, "label1", "gold_label"], *([*filler, t, "bank", "x", n] for n, t in rows.items())
    )
    dev = [*start, *(f"label{i}" for i in range(1, 6)), "gold_label"]
    for kind in ("matched", "mismatched"):
        write(folder / f"dev_{kind}.tsv", dev, *([*filler, t, "bank", *"xxxxx", n] for n, t in rows.items()))
        write(folder / f"test_{kind}.tsv", start, [*filler, "the fox", "bank"])
    return folder


@pytest.mark.parametrize(
    ("order", "names"),
    [
        (None, ["contradiction", "entailment", "neutral"]),
        ("glue", ["contradiction", "entailment", "neutral"]),
        ("tfds", ["entailment", "neutral", "contradiction"]),
    ],
)
def test_mnli_labels_are_in_the_published_order(tmp_path, make, records, order, names):
    """Each label's id is checked against the text of its row: any permutation shows (TextAttack#684, transformers#12822)."""
    result = make(_mnli(tmp_path / "MNLI"), task="MNLI", label_order=order, max_seq_length=32)
    meta = read_meta(result.meta)
    assert meta["label_names"] == names
    assert meta["num_labels"] == 3
    expected = [names.index(name) for name in ("entailment", "neutral", "contradiction")]
    for split in ("train", "dev_matched", "dev_mismatched"):
        assert records(split)[:]["label_ids"][:, 0].tolist() == expected
    assert set(result.files) == {"train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched"}
    assert meta["eval_data_size"] == 3


@pytest.mark.parametrize("kind", ["matched", "mismatched"])
def test_one_kind_of_mnli(tmp_path, make, kind):
    result = make(_mnli(tmp_path / "glue" / "MNLI").parent, task=f"mnli-{kind}", max_seq_length=32)
    assert set(result.files) == {"train", f"dev_{kind}", f"test_{kind}"}


def test_a_name_for_the_dev_set_is_that_of_the_only_one(tmp_path, make):
    folder = _mnli(tmp_path / "glue" / "MNLI")
    name = str(tmp_path / "out" / "mnli_eval.tf_record")
    one = make(folder, task="mnli-matched", splits="train,dev_matched", max_seq_length=32, dev_output=name)
    assert one.files["dev_matched"] == [name]
    splits = ("dev_matched", "dev_mismatched")
    both = make(folder, task="mnli", splits=",".join(splits), max_seq_length=32, dev_output=name, overwrite=True)
    assert both.files == {split: [name.replace("eval", split.replace("dev", "eval"))] for split in splits}


def test_ax_is_a_test_set(tmp_path, make, records):
    write(tmp_path / "AX" / "AX.tsv", "index\tsentence1\tsentence2", "0\tthe fox\tthe dog")
    result = make(tmp_path, task="ax", max_seq_length=32)
    assert list(result.files) == ["test"]
    assert "label_ids" not in records("test")[0]


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("CoLA", "cola"),
        ("cola", "cola"),
        ("COLA", "cola"),
        ("SST-2", "sst2"),
        ("sst_2", "sst2"),
        ("SST", "sst2"),
        ("STS-B", "stsb"),
        ("STS", "stsb"),
        ("glue/mrpc", "mrpc"),
        ("MNLI-mm", "mnlimismatched"),
        ("SQuAD2.0", "squad"),
        ("squad_v1.1", "squad"),
        ("PAWS-X", "pawsx"),
        ("IMDB", "imdb"),
    ],
)
def test_usual_spellings(name, found):
    assert find_dataset(name) == found


def test_a_misspelt_task_names_the_closest():
    with pytest.raises(UsageError, match=r"(?s)'mprc'.*Did you mean mrpc"):
        find_dataset("mprc")


def test_every_registry_line_leads_to_a_function():
    for name in DATASETS:
        with pytest.raises((UsageError, DataError)):  # no input: each says what it wants
            open_dataset([], FinetuningOptions(task=name))


def test_a_missing_split_is_named(tmp_path, make):
    write(tmp_path / "RTE" / "train.tsv", "index\tsentence1\tsentence2\tlabel", "0\ta\tb\tentailment")
    with pytest.raises(DataError, match=r"dev\.tsv: missing.*splits='train'"):
        make(tmp_path / "RTE", task="rte")
    assert list(make(tmp_path / "RTE", task="rte", splits="train", max_seq_length=32).files) == ["train"]


def test_a_folder_for_prediction_only(tmp_path, make):
    """No training files are needed to predict (ALBERT-TF2.0#3)."""
    write(tmp_path / "RTE" / "test.tsv", "index\tsentence1\tsentence2", "0\tthe fox\tthe dog")
    assert list(make(tmp_path / "RTE", task="rte", splits="test", max_seq_length=32).files) == ["test"]


def test_labels_of_stsb_are_numbers(tmp_path, make, records):
    """5.000 and 3.8 are not classes (ALBERT-TF2.0#14), and the task type stays with the records (nlp-architect#95)."""
    for split in ("train", "dev"):
        write(tmp_path / "STS-B" / f"{split}.tsv", "sentence1\tsentence2\tscore", "the fox\ta fox\t5.000", "a\tb\t3.8")
    result = make(tmp_path / "STS-B", task="STS", max_seq_length=32)
    labels = records()[:]["label_ids"]
    assert labels.dtype == np.float32
    assert labels[:, 0].tolist() == [5.0, np.float32(3.8)]
    meta = read_meta(result.meta)
    assert (meta["task_type"], meta["label_type"], meta["num_labels"]) == ("bert_regression", "float", 1)


@pytest.mark.parametrize("form", ["zip", "gztar"])
def test_an_archive_stands_for_the_folder_in_it(form, tmp_path):
    folder = tmp_path / "glue[1]" / "WNLI"
    shutil.copytree(shared("data", "glue", "WNLI"), folder)
    archive = shutil.make_archive(str(tmp_path / "WNLI, 1"), form, tmp_path / "glue[1]")
    vocabulary = str(shared("data", "models", "vocab", "bert_base_uncased_vocab.txt"))
    for source, out in ((folder, "a"), (archive, "b")):
        nlpdata.create_finetuning(source, str(tmp_path / out), vocabulary, task="wnli", max_seq_length=64, workers=1)
    assert contents(tmp_path / "b") == contents(tmp_path / "a")
