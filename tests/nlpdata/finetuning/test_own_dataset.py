"""A user's own dataset: that of docs/extending.md, and what is wrong about one."""

import re
from pathlib import Path

import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.records.contract import read_meta
from tests.nlpdata.finetuning.texts import write

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "extending.md"
TEXTS = {"sports": ["the fox jumped", "the dog jumped high"], "weather": ["it was lazy", "a good river"]}


@pytest.fixture
def news(tmp_path, monkeypatch):
    """The module of the documentation on the import path, and a folder for it to read."""
    section = DOCUMENT.read_text(encoding="utf-8").split("## A dataset for fine-tuning")[1]
    name = f"my_dataset_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(re.search(r"```python\n(.*?)```", section, re.S).group(1))
    monkeypatch.syspath_prepend(tmp_path)
    for split in ("train", "dev"):
        for label, texts in TEXTS.items():
            for number, text in enumerate(texts):
                write(tmp_path / "news" / split / label / f"{number}.txt", f"{split} {text}")
    return name, tmp_path / "news"


def test_the_documented_dataset_gives_the_records_of_its_rows(tmp_path, news, make, records):
    name, folder = news
    options = {"max_seq_length": 16, "labels": "sports,weather"}
    result = make(folder, "own", task=f"{name}:open_folders", workers=2, max_seq_length=16)
    for split in ("train", "dev"):
        rows = [(f"{split} {text}", label) for label, texts in TEXTS.items() for text in texts]
        write(tmp_path / f"{split}.tsv", ["text", "label"], *rows)
    same = make(tmp_path / "train.tsv", "same", task="classification", dev_input=tmp_path / "dev.tsv", **options)
    for split in ("train", "dev"):
        own, other = (Path(each.files[split][0]).read_bytes() for each in (result, same))
        assert own == other
        assert len(records(split, "own")) == 4
    meta = read_meta(result.meta)
    assert (meta["processor_type"], meta["label_names"]) == ("folders", ["sports", "weather"])


def test_a_bad_row_of_ones_own_stops_or_is_counted(news, make):
    name, folder = news
    (folder / "dev" / "sports" / "9.txt").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"sports/9\.txt: not UTF-8"):
        make(folder, task=f"{name}:open_folders", max_seq_length=16)
    result = make(folder, task=f"{name}:open_folders", max_seq_length=16, on_bad_row="skip")
    assert result.counters["dev"]["counters"]["dropped"] == {"invalid_utf8": 1}
    assert any("left out (invalid_utf8)" in line for line in make.log)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("None", "the function must return a nlpdata.finetuning.datasets.Dataset. Received: NoneType"),
        ("Dataset('x', 'pairs', splits, ('a',))", "Dataset.kind must be one of classification, .* Received: 'pairs'"),
        ("Dataset('x', 'classification', splits)", "Dataset.labels must name the classes .* Received: None"),
        ("Dataset('x', 'regression', (Split('validation', (file,), list),))", "a split is named .* 'validation'"),
        ("Dataset('x', 'regression', (Split('train', (), list),))", "Split.files must name the files"),
        ("1 / 0", r"ZeroDivisionError: division by zero \(.*:5\)$"),
        ("dict(**{'a\\nb': 1})['x']", r"^task='.*' failed: KeyError: 'x' \(.*:5\)$"),
    ],
    ids=lambda value: value[:30],
)
def test_what_is_wrong_about_one(tmp_path, monkeypatch, make, returned, message):
    name = f"wrong_dataset_{abs(hash(returned))}"
    code = "from nlpdata.finetuning.datasets import Dataset, Split\n"
    code += "def find(name, inputs, options):\n    file = __file__\n    splits = (Split('train', (file,), list),)\n"
    (tmp_path / f"{name}.py").write_text(f"{code}    return {returned}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=message):
        make(task=f"{name}:find")


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("no_such_module_here:find", None, "'no_such_module_here:find' cannot be imported"),
        ("module_without:find", "", "'module_without:find' cannot be imported: .*has no attribute 'find'"),
        ("module_of_errors:find", "1 / 0", "task='module_of_errors:find' cannot be imported: ZeroDivisionError"),
        ("module_of_typing:find", "def", "task='module_of_typing:find' cannot be imported: SyntaxError"),
    ],
)
def test_one_that_cannot_be_imported(tmp_path, monkeypatch, make, name, code, message):
    if code is not None:
        (tmp_path / f"{name.partition(':')[0]}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=message):
        make(task=name)
