"""RACE and SWAG in their published forms: splits, rows in their order, what replaces a blank, what is missing."""

import csv
import gzip
import json
import shutil
import tarfile
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import nlpdata
from nlpdata.cli import commands
from nlpdata.errors import DataError, UsageError
from nlpdata.records.contract import read_meta
from nlpdata.reports.evaluation import open_evaluation
from nlpdata.tokenizers import load_tokenizer
from tests.nlpdata.commands import run_command
from tests.nlpdata.finetuning.test_choice import expected

LEVELS = {"middle": (10, 2), "high": (9, 1)}  # names of files, which are not in alphabetical order


def _article(split, level, number):
    """An article with two questions: one with a blank, one without."""
    words = ["fox", "dog", "river", "bank", "lazy", "bad", "good", "movie"]
    options = [[words[(number + i + k) % 8] for i in range(4)] for k in range(2)]
    return {
        "id": f"{level}{number}.txt",
        "article": f"the {split} {level} \n  article {number}",
        "questions": ["it was _ and_", "over the  river"],
        "options": options,
        "answers": ["C", "A"],
    }


def _rows(*places):
    """(context, texts, label) of the questions in the order of the records."""
    rows = []
    for split, level in places:
        for number in sorted(LEVELS[level]):
            found = _article(split, level, number)
            for question, options, answer in zip(found["questions"], found["options"], found["answers"], strict=True):
                texts = [question.replace("_", text) if "_" in question else f"{question} {text}" for text in options]
                rows.append((found["article"], texts, "ABCD".index(answer)))
    return rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder RACE with a file an article."""
    top = tmp_path_factory.mktemp("race") / "RACE"
    for split in ("train", "dev", "test"):
        for level, numbers in LEVELS.items():
            place = top / split / level
            place.mkdir(parents=True)
            for number in numbers:
                (place / f"{number}.txt").write_text(json.dumps(_article(split, level, number)))
    return top


def test_a_published_folder_and_what_stands_for_it(tmp_path, folder, make, records, vocab):
    joined = tmp_path / "joined"  # as run_race.py reads it
    for place in folder.glob("*/*"):
        packs = place.name == "high"
        target = joined / "RACE" / place.relative_to(folder) / ("all.txt.gz" if packs else "all.txt")
        target.parent.mkdir(parents=True)
        files = sorted(place.iterdir(), key=lambda path: int(path.stem))
        lines = "".join(f"{path.read_text()}\n" for path in files).encode()
        target.write_bytes(gzip.compress(lines) if packs else lines)
    with tarfile.open(tmp_path / "RACE.tar.gz", "w:gz") as archive:
        archive.add(folder, "RACE")
    with zipfile.ZipFile(tmp_path / "RACE.zip", "w") as packed:
        for path in sorted(folder.glob("*/*/*.txt")):
            packed.write(path, path.relative_to(folder.parent))
    sources = {"folder": folder, "joined": joined, "tar": tmp_path / "RACE.tar.gz", "zip": tmp_path / "RACE.zip"}
    for name, source in sources.items():
        result = make(source, output=name, task="RACE", max_seq_length=20, max_qa_length=8)
    splits = {
        "train": [("train", "middle"), ("train", "high")],
        **{f"{split}_{level}": [(split, level)] for split in ("dev", "test") for level in LEVELS},
    }
    assert list(result.files) == list(splits)
    tokenizer = load_tokenizer(vocab, do_lower_case=True)
    for split, places in splits.items():
        assert len({(tmp_path / name / f"{split}.tfrecord").read_bytes() for name in sources}) == 1
        rows, found = _rows(*places), records(split, "folder")[:]
        assert found["label_ids"][:, 0].tolist() == [label for _, _, label in rows]
        for number, (context, texts, _) in enumerate(rows):
            ids, mask, segments = expected(tokenizer, context, texts, 20, 8)
            for name, values in (("input_ids", ids), ("input_mask", mask), ("segment_ids", segments)):
                assert (found[name][number].reshape(4, 20) == values).all(), (split, number, name)
    meta = read_meta(result.meta)
    assert (meta["task_type"], meta["processor_type"], meta["num_choices"]) == ("bert_choice", "RACE", 4)
    assert (meta["train_data_size"], meta["eval_data_size"], meta["options"]["blank"]) == (8, 4, "_")
    assert not nlpdata.verify([path for files in result.files.values() for path in files]).faults
    parted = make(
        folder, output="high", task="race", level="high", splits="train,dev", max_seq_length=20, max_qa_length=8
    )
    assert {name: about["records"] for name, about in parted.counters.items()} == {"train": 4, "dev_high": 4}
    whole, high = records("train", "folder")[:], records("train", "high")[:]
    assert (whole["input_ids"][4:] == high["input_ids"]).all()


def test_what_a_report_says_of_it(tmp_path, folder, make, records):
    """Each choice is a text of its own in the counts, and a row of an evaluation set has the texts of all of them."""
    make(folder, task="race", max_seq_length=40)
    report = nlpdata.report(str(tmp_path / "out" / "train.tfrecord"), str(tmp_path / "r.html"), workers=1)
    assert report.kind == "fine-tuning records"
    assert report.figures["choices of a record"] == 4
    lengths = records()[:]["input_mask"].reshape(-1, 40).sum(axis=1)
    page = (tmp_path / "r.md").read_text()
    section = page.partition("### Length of choices, train")[2].partition("A choice has room for 40 tokens.")[0]
    for length, count in Counter(lengths.tolist()).items():
        assert f"\n| {length} | {count} |\n" in section
    assert f"| train | 8 | {lengths.sum() / 32:.4g} | {1 - lengths.sum() / (8 * 160):.1%} |" in page
    sets = {Path(each.name).name: list(each.rows()) for each in open_evaluation([str(folder)])}
    assert list(sets) == [f"RACE ({split}_{level})" for split in ("dev", "test") for level in LEVELS]
    context, texts, _ = _rows(("dev", "middle"))[0]
    assert sets["RACE (dev_middle)"][0].texts == (context, *texts)


def test_flags_of_run_race(tmp_path, folder, vocab, make, capsys):
    """run_race.py's own flags and defaults, and a dry run of them."""
    given = ("--task_name=race", f"--data_dir={folder}", f"--vocab_file={vocab}", "--do_lower_case", "--workers=1")
    flags = ("--max_qa_length=8", "--max_seq_length", "20", "--high_only=true", "--nomiddle_only")
    dry = run_command(
        capsys, "create-finetuning", *given, *flags, "--output_dir", tmp_path / "out", "--dry-run", "--json"
    )
    assert dry.code == 0, dry.err
    assert json.loads(dry.out)["records"] == {"train": 4, "dev_high": 4, "test_high": 4}
    assert not (tmp_path / "out").exists()
    assert commands.main(["create-finetuning", *given, *flags, "--output_dir", str(tmp_path / "out")]) == 0
    both = run_command(capsys, "create-finetuning", *given, *flags, "--middle_only", "--output_dir", tmp_path / "no")
    assert both.code == 2
    assert "--high-only and --middle-only exclude each other" in both.err
    ours = {"level": "high", "max_qa_length": 8, "max_seq_length": 20}
    again = make(folder, output="ours", task="race", **ours)
    for split in again.files:
        assert (tmp_path / "out" / f"{split}.tfrecord").read_bytes() == (
            tmp_path / "ours" / f"{split}.tfrecord"
        ).read_bytes()
    options = make(folder, output="usual", task="race", splits="dev")
    assert read_meta(options.meta)["max_seq_length"] == 512
    assert read_meta(options.meta)["options"]["max_qa_length"] == 128


def test_what_is_not_race(tmp_path, folder, make):
    copied = tmp_path / "copied"
    shutil.copytree(folder, copied)
    with pytest.raises(
        UsageError, match=r"is not the folder of RACE; expected train, dev and test, each with middle and high"
    ):
        make(copied / "train", task="race")
    shutil.rmtree(copied / "test" / "high")
    make(copied, output="some", task="race", max_seq_length=20)
    assert f"warning: {copied / 'test/high'} holds no articles" in make.log
    path = copied / "dev" / "high" / "9.txt"
    good = _article("dev", "high", 9)
    for content, message in (
        ("{", r"dev/high/9\.txt:1: not JSON: "),
        (json.dumps({"article": "a"}), "no key 'questions' among article"),
        (
            json.dumps(good | {"answers": ["A"]}),
            "expected lists of one length. Received: questions 2, options 2, answers 1",
        ),
        (json.dumps(good | {"questions": "who"}), "Received: questions not a list"),
        (
            json.dumps(good | {"options": [["a", "b", "c"], ["a"] * 4]}),
            "9.txt:1, question 0: expected 4 choices, found 3",
        ),
        (
            json.dumps(good | {"answers": ["A", "E"]}),
            "9.txt:1, question 1: the label is 'E', expected the number of the right",
        ),
        (json.dumps(good | {"article": None}), "'article' is null, expected a string"),
    ):
        path.write_text(content)
        with pytest.raises(DataError, match=f"{message}.*or use on_bad_row='skip'"):
            make(copied, output="x", task="race", max_seq_length=20)
    path.rename(path.with_name("9"))
    path.symlink_to("nowhere.txt")
    with pytest.raises(DataError, match=r"dev/high/9\.txt: a folder, a pipe or a link to nothing, expected an article"):
        make(copied, output="x", task="race", max_seq_length=20)
    path.unlink()
    path.with_name("9.txt.gz").write_bytes(gzip.compress(path.with_name("9").read_bytes()))
    path.with_name("._9.txt").write_bytes(b"\0\5\26\7")  # of macOS
    make(copied, output="kept", task="race", on_bad_row="skip", max_seq_length=20)
    counters = read_meta(tmp_path / "kept" / "meta.json")["splits"]["dev_high"]["counters"]
    assert (counters["dropped"], counters["examples"]) == ({"text_type": 1}, 2)
    for split in ("train", "dev"):
        (copied / split / "middle").rename(copied / split / "easy")
    shutil.rmtree(copied / "test" / "middle")
    with pytest.raises(DataError, match=r"copied: holds no articles \(1\.txt, .*\) in its folders middle$"):
        make(copied, output="z", task="race", level="middle")
    shutil.rmtree(copied / "train")
    with pytest.raises(DataError, match=r"RACE without its train split\. .*splits='dev_high'"):
        make(copied, output="y", task="race")


def test_swag(tmp_path, make, records, vocab):
    rows = [
        ("the fox, jumped", "a dog", [f"was {w}" for w in ("bad", "good", "lazy", "high")], n % 4) for n in range(5)
    ]
    names = ["video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source"]
    (tmp_path / "swag").mkdir()
    for file, count in (("train", 5), ("val", 2), ("test", 1)):
        with open(tmp_path / "swag" / f"{file}.csv", "w", newline="") as out:
            table = csv.writer(out)
            label = ["label"] if file != "test" else []
            table.writerow(["", *names, *(f"ending{i}" for i in range(4)), *label])
            for number, (first, second, endings, right) in enumerate(rows[:count]):
                start = [number, "v1", 7, f"{first} {second}", first, second, "gold"]
                table.writerow([*start, *endings, *([right] if label else [])])
    result = make(tmp_path, task="swag", max_seq_length=24)
    assert {name: about["records"] for name, about in result.counters.items()} == {"train": 5, "dev": 2, "test": 1}
    tokenizer = load_tokenizer(vocab, do_lower_case=True)
    found = records()[:]
    assert found["label_ids"][:, 0].tolist() == [0, 1, 2, 3, 0]
    assert "label_ids" not in records("test")[0]
    texts = [f"a dog {ending}" for ending in rows[0][2]]
    assert (found["input_ids"][0].reshape(4, 24) == expected(tokenizer, "the fox, jumped", texts, 24, 128)[0]).all()
    assert np.array_equal(records("dev")[:]["input_ids"], found["input_ids"][:2])
    with pytest.raises(UsageError, match=r"is not the folder of SWAG; expected train\.csv, val\.csv, test\.csv"):
        make(tmp_path / "out", task="swag", output="x")
    (tmp_path / "swag" / "val.csv").unlink()
    with pytest.raises(DataError, match=r"SWAG without its dev split\. .*splits='train,test'"):
        make(tmp_path / "swag", task="swag", output="x")
