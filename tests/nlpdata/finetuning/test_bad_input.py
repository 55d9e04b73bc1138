"""Bad input of every kind: where it is, what to do, and with --on-bad-row skip a count; never a traceback or a silent loss."""

import gzip
import json
import os
import tracemalloc

import pytest

from nlpdata.errors import DataError, UsageError
from nlpdata.finetuning import lines, tables
from nlpdata.finetuning.run import Run
from nlpdata.records.contract import read_meta
from tests.nlpdata.commands import run_command, visible
from tests.nlpdata.finetuning.texts import squad, write

HEADER = "index\tsentence1\tsentence2\tlabel"
GOOD = ("0\tthe fox\tthe dog\tentailment", "1\tthe bank\ta river\tnot_entailment")


def rte(folder, *rows, end="\n"):
    write(folder / "train.tsv", HEADER, *rows, end=end)
    write(folder / "dev.tsv", HEADER, *GOOD)
    return folder


BAD_ROWS = {  # what: (row 3 of train.tsv, its reason, words of the message)
    "short row": ("2\tthe fox", "short_row", ("train.tsv:3", "2 columns, expected 4")),
    "row of a lost line end": ("\ttext\t0", "short_row", ("train.tsv:3", "3 columns")),
    "long row": ("2\ta\tb\tc\tentailment", "long_row", ("train.tsv:3", "5 columns, expected 4")),
    "unknown label": (
        "2\ta\tb\tentailmnt",
        "unknown_label",
        ("train.tsv:3", "'entailmnt'", "Did you mean entailment?"),
    ),
    "no label": ("2\ta\tb\t", "missing_label", ("train.tsv:3", "no label", "entailment, not_entailment")),
    "empty text": ("2\ta\t \tentailment", "empty_text", ("train.tsv:3", "an empty text")),
    "blank line": ("", "blank_line", ("train.tsv:3", "blank line")),
}


@pytest.mark.parametrize("what", BAD_ROWS)
def test_a_bad_row_fails_or_is_counted(tmp_path, make, what, capsys):
    row, reason, words = BAD_ROWS[what]
    folder = rte(tmp_path / "RTE", GOOD[0], row, GOOD[1])
    with pytest.raises(DataError) as raised:
        make(folder, task="rte", max_seq_length=32)
    for word in (*words, "on_bad_row='skip'"):
        assert word in str(raised.value)
    assert visible(tmp_path / "out") == []
    result = make(folder, task="rte", max_seq_length=32, on_bad_row="skip")
    counters = read_meta(result.meta)["splits"]["train"]["counters"]
    assert counters["dropped"] == {reason: 1}
    assert counters["examples"] == 2
    assert counters["rows"] == 3
    assert any(words[0] in line and reason in line for line in make.log)


def test_only_the_first_bad_rows_are_listed_and_all_are_counted(tmp_path, make):
    folder = rte(tmp_path / "RTE", *GOOD, *["2\tx"] * 30)
    result = make(folder, task="rte", max_seq_length=32, on_bad_row="skip")
    assert read_meta(result.meta)["splits"]["train"]["counters"]["dropped"] == {"short_row": 30}
    assert sum("short_row" in line for line in make.log) == 5


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("tail", ["", "\n", "\n\n\n"])
def test_blank_lines_at_the_end_and_line_ends(tmp_path, make, records, end, tail):
    """A trailing blank line is nothing (google-research/bert#551), and a CR is not part of a label."""
    folder = rte(tmp_path / "RTE", *GOOD, end=end)
    with open(folder / "train.tsv", "a", newline="") as file:
        file.write(tail.replace("\n", end))
    make(folder, task="rte", max_seq_length=32)
    assert records()[:]["label_ids"][:, 0].tolist() == [0, 1]


def test_stray_quotation_marks_are_text_in_tsv(tmp_path, make, records):
    """One unbalanced quote swallows no rows (transformers#5071)."""
    rows = [
        f'{i}\t"the fox {i}\tthe dog\tentailment' if i % 7 == 0 else f"{i}\tfox\tdog\tentailment" for i in range(500)
    ]
    make(rte(tmp_path / "RTE", *rows), task="rte", max_seq_length=32)
    assert len(records()) == 500


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"<!DOCTYPE html><html><body>Not found</body>", ("train.tsv:1", "web page", "Download it again")),
        (b"", ("train.tsv: empty",)),
        (b"a\tb\n1\t2\n", ("train.tsv:1", "'sentence1' is missing from the header", "a, b")),
        (b"\xff\xfei\x00n\x00\n", ("train.tsv: after line 0: not UTF-16", "encoding")),
        (b"PK\x03\x04\x00\x00\x00", ("train.tsv", "zip archive")),
        (b"x" * 5000, ("line of more than", "line ends missing")),
        (HEADER.replace("sentence1", "sentense1").encode() + b"\n", ("'sentence1'", "Did you mean sentense1?")),
    ],
    ids=["html", "empty", "other table", "utf-16", "zip", "one huge line", "misspelt header"],
)
def test_files_of_another_kind(tmp_path, make, monkeypatch, content, words):
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 4096)
    folder = rte(tmp_path / "RTE", *GOOD)
    (folder / "train.tsv").write_bytes(content)
    with pytest.raises(DataError) as raised:
        make(folder, task="rte", on_bad_row="skip")
    for word in words:
        assert word in str(raised.value)


def test_invalid_utf8_names_line_and_byte(tmp_path, make):
    folder = rte(tmp_path / "RTE", *GOOD)
    with open(folder / "train.tsv", "ab") as file:
        file.write(b"2\tM\xfcller\tb\tentailment\n")
    with pytest.raises(DataError, match=r"train\.tsv:4: byte 4 .* not UTF-8"):
        make(folder, task="rte")
    result = make(folder, task="rte", on_bad_row="skip", max_seq_length=32)
    assert read_meta(result.meta)["splits"]["train"]["counters"]["dropped"] == {"invalid_utf8": 1}


@pytest.mark.parametrize("score", ["five", "", "nan", "inf"])
def test_a_label_of_the_wrong_type(tmp_path, make, score):
    for split in ("train", "dev"):
        write(tmp_path / "STS-B" / f"{split}.tsv", "sentence1\tsentence2\tscore", "a\tb\t1.5", f"a\tb\t{score}")
    with pytest.raises(DataError, match=r"train\.tsv:3: the label is .* expected a number such as 3\.8"):
        make(tmp_path / "STS-B", task="stsb")


def test_no_usable_row_is_an_error(tmp_path, make):
    folder = rte(tmp_path / "RTE", "2\tx", "3\tx")
    with pytest.raises(DataError, match=r"no rows for the train split \(left out: 2 short_row\)"):
        make(folder, task="rte", on_bad_row="skip")
    assert visible(tmp_path / "out") == []


def test_training_rows_of_one_class_are_a_warning(tmp_path, make):
    result = make(rte(tmp_path / "RTE", GOOD[0], GOOD[0]), task="rte", max_seq_length=32)
    assert "all 2 training rows have the label 'entailment'" in result.warnings[0]


# ------------------------------------------------------------------------------------------------------- your own files


def test_only_one_class_in_own_files(tmp_path, make):
    path = write(tmp_path / "a.csv", "text,label", "the fox,x", "the dog,x")
    with pytest.raises(DataError, match=r"only one class, 'x' in column 'label'.*label_column"):
        make(path, task="classification")


@pytest.mark.parametrize(
    ("rows", "reason", "words"),
    [
        (["a,0,x"], "long_row", ("a.csv:4", "3 columns, expected 2")),
        (["a"], "short_row", ("a.csv:4", "1 columns, expected 2")),
        (['"the" fox,0'], "stray_quote", ("a.csv:4", "stray quotation mark")),
    ],
)
def test_bad_csv_rows(tmp_path, make, rows, reason, words):
    path = write(tmp_path / "a.csv", "text,label", "the fox,0", "the dog,1", *rows, "fox,1")
    with pytest.raises(DataError) as raised:
        make(path, task="classification")
    for word in words:
        assert word in str(raised.value)
    result = make(path, task="classification", on_bad_row="skip", max_seq_length=32)
    counters = read_meta(result.meta)["splits"]["train"]["counters"]
    assert (counters["examples"], counters["dropped"]) == (3, {reason: 1})


def test_a_quotation_mark_that_swallows_rows_is_never_skipped(tmp_path, make):
    path = write(tmp_path / "a.csv", "text,label", "the fox,0", '"the dog,1', *["fox,1"] * 50)
    with pytest.raises(DataError, match=r"a\.csv:3: a quotation mark that opens in this row is not closed"):
        make(path, task="classification", on_bad_row="skip")


@pytest.mark.parametrize(
    ("line", "reason", "words"),
    [
        ("{", "not_json", ("a.jsonl:3", "not JSON")),
        ("[1]", "not_an_object", ("a.jsonl:3", "a JSON list")),
        ('{"txt": "a", "label": 1}', "missing_key", ("a.jsonl:3", "no key 'text'", "Did you mean txt?")),
        ('{"text": 5, "label": 1}', "text_type", ("a.jsonl:3", "'text' is 5, expected a string")),
        ('{"text": "a", "label": null}', "missing_label", ("a.jsonl:3", "no label")),
        ('{"text": "", "label": 1}', "empty_text", ("a.jsonl:3", "empty text")),
    ],
)
def test_bad_json_lines(tmp_path, make, line, reason, words):
    rows = ['{"text": "the fox", "label": 0}', '{"text": "the dog", "label": 1}']
    path = write(tmp_path / "a.jsonl", *rows, line, rows[0])
    with pytest.raises(DataError) as raised:
        make(path, task="classification")
    for word in words:
        assert word in str(raised.value)
    result = make(path, task="classification", on_bad_row="skip", max_seq_length=32)
    counters = read_meta(result.meta)["splits"]["train"]["counters"]
    assert (counters["examples"], counters["dropped"]) == (3, {reason: 1})


# ---------------------------------------------------------------------------------------------------------------- SQuAD

CONTEXT = "the fox jumped high over the lazy dog"
FINE = ("q1", "who jumped?", [("fox", 4)], False)


@pytest.mark.parametrize(
    ("question", "reason", "words"),
    [
        (("q1", "again?", [("dog", 34)], False), "duplicate_id", ("qas[1] (id q1)", "same id")),
        (("q2", "who?", [], False), "no_answer", ("(id q2)", "no answers")),
        (("q2", "who?", [("", 0)], False), "no_answer", ("(id q2)", "text is ''")),
        (("q2", " ", [("dog", 34)], False), "empty_text", ("(id q2)", "question is empty")),
        (("q2", "who?", [("cat", 4)], False), "misaligned_answer", ("'cat' is not at answer_start 4", "there: 'fox'")),
        (("q2", "who?", [("cat", 4000)], False), "answer_start", ("answer_start 4000", "37 characters")),
        (("q2", "who?", [("cat", -5)], False), "answer_start", ("answer_start -5",)),
        (("q2", "who?", [("dog", "x")], False), "answer_start", ("answer_start is 'x'",)),
    ],
)
def test_bad_questions(tmp_path, make, question, reason, words):
    path = squad(tmp_path / "train.json", (CONTEXT, FINE, question))
    with pytest.raises(DataError) as raised:
        make(path, task="squad", max_seq_length=64, max_query_length=16)
    for word in ("train.json: data[0].paragraphs[0].qas[1]", *words):
        assert word in str(raised.value)
    result = make(path, task="squad", max_seq_length=64, max_query_length=16, on_bad_row="skip")
    counters = read_meta(result.meta)["splits"]["train"]["counters"]
    assert (counters["questions"], counters["dropped"]) == (1, {reason: 1})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", ("train.json:1", "not JSON")),
        ("[]", ("not SQuAD", "a list")),
        ('{"version": "1"}', ("not SQuAD", "an object with version")),
        ('{"data": [{}]}', ("data[0]", "no list of paragraphs")),
        ('{"data": [{"paragraphs": [{"context": "a"}]}]}', ("data[0].paragraphs[0]", "no context with qas")),
        ('{"data": [{"paragraphs": [{"context": "a", "qas": [{}]}]}]}', ("qas[0]", "needs an id")),
    ],
)
def test_json_that_is_not_squad(tmp_path, make, content, words):
    path = tmp_path / "train.json"
    path.write_text(content)
    with pytest.raises(DataError) as raised:
        make(path, task="squad", on_bad_row="skip")
    for word in words:
        assert word in str(raised.value)


def test_an_empty_context(tmp_path, make):
    path = squad(tmp_path / "train.json", (" ", FINE), (CONTEXT, ("q2", "who?", [("fox", 4)], False)))
    with pytest.raises(DataError, match=r"data\[0\]\.paragraphs\[0\]: the context is ' '"):
        make(path, task="squad")
    whole = json.loads(path.read_text())
    whole["data"].pop(0)
    question = whole["data"][0]["paragraphs"][0]["qas"][0]
    for key, value, words in (
        ("is_impossible", 0, "is_impossible is 0, expected true or false"),
        ("answers", {"text": "fox"}, "answers is {'text': 'fox'}, expected a list"),
    ):
        kept, question[key] = question.get(key), value
        path.write_text(json.dumps(whole))
        with pytest.raises(DataError, match=words):
            make(path, task="squad")
        question[key] = kept


def test_no_room_for_a_window(tmp_path, make):
    """Refused before anything is read; the originals go on for ever (transformers#1879)."""
    path = squad(tmp_path / "train.json", (CONTEXT, FINE))
    with pytest.raises(UsageError, match=r"max_seq_length=16 leaves no room.*max_query_length=4"):
        make(path, task="squad", max_seq_length=16, doc_stride=8)
    result = make(path, task="squad", max_seq_length=14, doc_stride=4, max_query_length=6)
    assert result.counters["train"]["records"] > 1


# -------------------------------------------------------------------------------------------------------------- options


@pytest.mark.parametrize(
    ("flags", "code", "words"),
    [
        (("--task", "mprc"), 2, ("mprc", "Did you mean mrpc")),
        ((), 2, ("--task is missing",)),
        (("--task", "rte", "--tfds", "glue/rte"), 2, ("--task and --tfds",)),
        (("--task", "rte", "--input", "nowhere"), 2, ("nowhere does not exist",)),
        (("--task", "rte", "--splits", "trian"), 2, ("no split 'trian'", "train")),
        (("--task", "rte", "--max-seq-length", "4"), 2, ("--max-seq-length", "from 8")),
        (("--task", "rte", "--feature-names", "v3"), 2, ("feature-names", "v3")),
        (("--task", "rte", "--workers", "0"), 2, ("--workers must be from 1 to 1024",)),
        (("--task", "rte", "--num-shards", "0"), 2, ("--num-shards must be from 1 to 10000",)),
        (("--task", "rte", "--max_seq_len", "64"), 2, ("--max-seq-len", "--max-seq-length")),
        (("--task", "rte", "--fine_tuning_task_type", "tagging"), 2, ("tagging", "classification, regression, squad")),
        (("--tfds_params", "dataset=x,weight_key=w"), 2, ("weight_key",)),
        (("--tfds_params", "dataset"), 2, ("key=value",)),
        (("--tfds", "glue/rte", "--tfds-data-dir", "."), 1, ("not prepared in", "download_and_prepare")),
    ],
)
def test_wrong_options(tmp_path, vocab, capsys, flags, code, words):
    folder = rte(tmp_path / "RTE", *GOOD)
    given = () if "--input" in flags or any(flag.startswith("--tfds") for flag in flags) else ("--input", folder)
    outcome = run_command(
        capsys,
        "create-finetuning",
        "--tokenizer",
        vocab,
        "--output",
        tmp_path / "out",
        "--do-lower-case",
        *given,
        *flags,
    )
    assert outcome.code == code
    for word in words:
        assert word in outcome.err
    assert visible(tmp_path / "out") == []


@pytest.mark.parametrize("left_out", ["--tokenizer", "--output"])
def test_missing_options(tmp_path, vocab, capsys, left_out):
    flags = {
        "--tokenizer": vocab,
        "--output": tmp_path / "out",
        "--task": "rte",
        "--input": rte(tmp_path / "RTE", *GOOD),
    }
    given = [word for flag, value in flags.items() if flag != left_out for word in (flag, value)]
    outcome = run_command(capsys, "create-finetuning", *given)
    assert outcome.code == 2
    assert f"{left_out} is missing" in outcome.err


def test_a_misspelt_keyword_of_the_function(make):
    with pytest.raises(UsageError, match=r"no option 'max_seq_len'\. Did you mean max_seq_length"):
        make("x", task="rte", max_seq_len=3)


def test_meta_holds_no_path_time_or_host(tmp_path, make):
    text = json.dumps(read_meta(make(rte(tmp_path / "RTE", *GOOD), task="rte", max_seq_length=32).meta))
    assert str(tmp_path) not in text


def test_a_gzip_table_is_read_to_its_checksum(tmp_path, make):
    """Every flipped byte and every cut: the same records, or an error with the file's name and nothing left behind."""
    rows = "".join(f"text number {i}\t{'ab'[i % 2]}\n" for i in range(40))
    whole = gzip.compress(f"text\tlabel\n{rows}".encode(), mtime=0)
    half = len(rows) // 2
    parts = gzip.compress(f"text\tlabel\n{rows[:half]}".encode(), mtime=0) + gzip.compress(
        rows[half:].encode(), mtime=0
    )
    path = tmp_path / "a.tsv.gz"

    def read(content):
        path.write_bytes(content)
        try:
            return list(tables.read_tsv(path, ["text", "label"]))
        except DataError as error:
            return None if str(error).startswith(str(path)) else str(error)

    good = read(whole)
    assert len(good) == 40
    assert read(parts) == good
    for at in range(len(whole)):
        flipped = bytearray(whole)
        flipped[at] ^= 0x11
        assert read(bytes(flipped)) in (None, good), at
    assert [at for at in range(1, len(whole), 3) if read(whole[:at]) is not None] == []
    assert read(whole + b"garbage") is None
    path.write_bytes(whole[:-9])
    with pytest.raises(DataError, match=r"a\.tsv\.gz: the compressed data are damaged or cut off after line \d+"):
        make(path, task="classification")
    assert not (tmp_path / "out").exists()


def test_a_damaged_parquet_file(tmp_path, make):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    table = pyarrow.table({"text": [f"text {i * 7919}" for i in range(300)], "label": [i % 2 for i in range(300)]})
    parquet.write_table(table, path, write_page_checksum=True, use_dictionary=False)
    whole = path.read_bytes()
    good = list(tables.read_parquet(path, ["text", "label"]))
    assert len(good) == 300
    for at in range(4, len(whole), len(whole) // 60):
        flipped = bytearray(whole)
        flipped[at] ^= 0x11
        path.write_bytes(flipped)
        try:
            found = list(tables.read_parquet(path, ["text", "label"]))
        except DataError as error:
            found = str(error)
        assert found == good or found.startswith(str(path)), at


def test_long_rows_of_parquet_are_decoded_a_few_at_a_time(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "books.parquet"
    parquet.write_table(pyarrow.table({"text": ["a" * (1 << 20)] * 96}), path, use_dictionary=False)
    tracemalloc.start()
    try:
        rows = sum(len(values[0]) == 1 << 20 for _, values in tables.read_parquet(path, ["text"]))
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert rows == 96
    assert most < 48 << 20  # two batches of 16 MiB; all rows are 96


def test_a_long_value_is_quoted_in_part(tmp_path):
    fault = tables.text_fault(tmp_path / "a.parquet", 1, "text", b"\xff" * 10_000)
    assert "..., expected a string" in fault.message
    assert len(fault.message) < len(str(tmp_path)) + 200


HALF = "\ud83d"  # of 😀


@pytest.mark.parametrize("task", ["classification", "multilabel"])
def test_half_a_surrogate_pair_in_a_label(tmp_path, make, task):
    rows = [{"text": f"fox {i}", "label": ["good", "bad"][i % 2]} for i in range(10)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, *[{"text": "dog", "label": f"a{HALF}"}] * 5]))
    with pytest.raises(DataError, match=r"rows\.jsonl:11: the label 'a\\ud83d' has half of a surrogate pair"):
        make(path, task=task, max_seq_length=32)
    result = make(path, task=task, max_seq_length=32, on_bad_row="skip")
    assert result.counters["train"]["counters"]["dropped"] == {"surrogate": 5}
    assert list(result.counters["train"]["counters"]["labels"]) == ["bad", "good"]


@pytest.mark.parametrize("field", ["id", "question", "context"])
def test_half_a_surrogate_pair_in_a_question(tmp_path, make, field):
    qas = [
        {"id": f"q{i}", "question": "the fox?", "answers": [{"text": "dog", "answer_start": 4}], "is_impossible": False}
        for i in range(3)
    ]
    paragraphs = [{"context": "the dog", "qas": [qa]} for qa in qas]
    (paragraphs[1] if field == "context" else qas[1])[field] += HALF
    for name in ("train", "dev"):
        (tmp_path / f"{name}.json").write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    options = {"task": "squad", "max_seq_length": 32, "max_query_length": 8, "accept_loss": True}
    with pytest.raises(DataError, match=rf"data\[0\]\.paragraphs\[1\].*: the {field} has half of a surrogate pair"):
        make(tmp_path, **options)
    counters = make(tmp_path, **options, on_bad_row="skip").counters
    assert {name: each["counters"]["dropped"] for name, each in counters.items()} == {
        "train": {"surrogate": 1},
        "dev": {"surrogate": 1},
    }


@pytest.mark.parametrize("labels", [["²", "³"], ["--5", "1"], ["٣", "٤"], ["9" * 400, "1e400"], ["-", "+"]])
def test_labels_that_look_like_numbers_and_are_none(tmp_path, make, labels):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": f"fox {i}", "label": labels[i % 2]}) + "\n" for i in range(10)))
    result = make(path, task="classification", max_seq_length=32)
    assert sorted(result.counters["train"]["counters"]["labels"]) == sorted(labels)


def test_why_no_label_is_found(tmp_path, make):
    """A column that is misspelt, or an encoding, is not a label that is missing."""
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": f"fox {i}", "label": i % 2}) + "\n" for i in range(10)))
    advice = "Correct the row, or name its keys with text_column or label_column"
    for choice, more in (("fail", ", or use on_bad_row='skip'"), ("skip", "$")):
        with pytest.raises(
            DataError,
            match=rf"rows\.jsonl:1: no key 'txet' among text, label\. Did you mean text\? (.* )?{advice}{more}",
        ):
            make(path, task="classification", text_column="txet", on_bad_row=choice)


def test_rows_that_are_left_out_are_not_advised_to_be_left_out(tmp_path, make):
    path = tmp_path / "rows.csv"
    path.write_text("text,label\nfox,1\ndog,0\n,1\nfox,0,2\n\nfox,dog,1\nfox,1\n")
    make(path, task="classification", on_bad_row="skip", max_seq_length=32)
    left_out = [line for line in make.log if line.startswith("left out (")]
    assert len(left_out) == 4
    assert not [line for line in left_out if "on_bad_row" in line or "on-bad-row" in line]


def test_the_encoding_of_a_dataset_with_one_form_is_not_asked_for(tmp_path, make):
    folder = rte(tmp_path / "RTE", *GOOD)
    (folder / "train.tsv").write_bytes((folder / "train.tsv").read_bytes() + b"9\tcaf\xe9\tfox\tentailment\n")
    with pytest.raises(DataError, match=r"not UTF-8\. Convert the file to UTF-8, or use on_bad_row='skip'$"):
        make(folder, task="rte", max_seq_length=32)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "a.csv",
            "a fox,1\na dog,0\n",
            r"has: a fox, 1\. Name it with text_column or label_column\. Or is the first line a row\? ",
        ),
        ("a.csv", "Text,label\nfox,1\n", r"has: Text, label\. Did you mean Text\? Name it with text_column"),
        (
            "a.csv",
            "text,label,text\nfox,1,b\n",
            r"column 'text' is twice in the header, which has: text, label, text\. Name",
        ),
        (
            "a.json",
            '[\n {"text": "fox", "label": 1}\n]\n',
            r"a\.json:1: a JSON array, .*jq -c '\.\[\]' .*a\.json > rows\.jsonl",
        ),
        ("a.json", '[{"text": "fox", "label": 1}]', r"a\.json:1: a JSON array, expected one object a line"),
        ("a.csv", "text,label\n", r"a\.csv: holds no rows"),
        (
            "a.jsonl",
            '{"text": "fox", "label": "n"}\n{"text": "fox", "label": "p\\ud800"}\n',
            r"a\.jsonl:2: the label 'p\\ud800' has half of a surrogate pair, .*, and the other rows have only one class, 'n',",
        ),
        (
            "a.jsonl",
            '{"text": "fox", "label": NaN}\n{"text": "fox", "label": 1}\n',
            r"a\.jsonl:1: no label, and the other",
        ),
    ],
)
@pytest.mark.parametrize("choice", ["fail", "skip"])
def test_files_of_another_form(tmp_path, make, name, content, words, choice):
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=words):
        make(tmp_path / name, task="classification", on_bad_row=choice)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"data": ' + "[" * 100_000, "not JSON: it is nested too deeply"),
        ('{"data": ' + "9" * 5000 + "}", "not JSON: it has a number of thousands of digits"),
        ("", "is empty"),
        ("{}", "not SQuAD: the file holds an object with nothing in it"),
        ("null", "not SQuAD: the file holds null"),
    ],
)
def test_squad_that_is_not_squad(tmp_path, make, content, words):
    (tmp_path / "train.json").write_text(content)
    with pytest.raises(DataError, match=rf"train\.json: {words}"):
        make(tmp_path / "train.json", task="squad")


def test_a_pipe_is_not_a_file_of_rows(tmp_path, make):
    os.mkfifo(tmp_path / "rows.csv")
    (tmp_path / "train.csv").write_text("text,label\nfox,1\ndog,0\n")
    for given in (
        {"input": tmp_path / "rows.csv"},
        {"input": tmp_path / "train.csv", "dev_input": str(tmp_path / "rows.csv")},
    ):
        for task in ("classification", "squad", "imdb"):
            if task != "imdb" or len(given) == 1:
                with pytest.raises(UsageError, match=r"rows\.csv is a pipe or a device, and .* read more than once"):
                    make(**given, task=task)


def test_input_that_changes_meanwhile(tmp_path, make, monkeypatch):
    read = Run.read

    def then_changed(run, *more):
        units = read(run, *more)
        rte(tmp_path)
        return units

    rte(tmp_path, *GOOD)
    monkeypatch.setattr(Run, "read", then_changed)
    with pytest.raises(DataError, match=r"train\.tsv: has changed while it was read\. Nothing was put in place"):
        make(tmp_path, task="rte", max_seq_length=16)
    assert [*(tmp_path / "out").rglob("*")] == []
    monkeypatch.undo()
    rte(tmp_path, *GOOD)
    assert make(tmp_path, task="rte", max_seq_length=16).counters["train"]["counters"]["examples"] == 2
