"""The command as a whole: the same bytes whoever works, shards, replacing, interruptions, verify, inspect, old flags."""

import gzip
import json
import os

import numpy as np
import pytest

import nlpdata
from nlpdata.errors import DataError, UsageError
from nlpdata.execution import executor
from nlpdata.finetuning import batches, create, stages
from nlpdata.output import committing
from nlpdata.records.contract import read_meta
from nlpdata.records.inspection import inspect_records
from nlpdata.tokenizers import load_tokenizer
from tests.nlpdata.commands import contents, run_command, visible
from tests.nlpdata.conftest import random_sentences
from tests.nlpdata.finetuning.texts import squad, write


@pytest.fixture
def rows(tmp_path):
    sentences = random_sentences(600, seed=3)
    return write(tmp_path / "a.tsv", "text\tlabel", *([text, str(i % 3)] for i, text in enumerate(sentences)))


@pytest.fixture
def questions(tmp_path):
    paragraphs = []
    for i, text in enumerate(random_sentences(30, seed=4, words=(40, 90))):
        words = text.split()
        answer = " ".join(words[7:9])
        asked = [(f"{i}-{k}", " ".join(words[k : k + 5]), [(answer, text.index(answer))], False) for k in range(3)]
        paragraphs.append((text, *asked))
    return squad(tmp_path / "q.json", *paragraphs)


@pytest.fixture(params=["rows", "questions"])
def source(request):
    options = {"task": "classification", "max_seq_length": 32}
    if request.param == "questions":
        options = {"task": "squad", "max_seq_length": 64, "max_query_length": 24, "doc_stride": 16}
    path = request.getfixturevalue(request.param)
    return path, options | ({"dev_input": str(path)} if request.param == "questions" else {"eval_fraction": 0.2})


def test_batches_and_workers_do_not_change_a_byte(tmp_path, make, source, monkeypatch):
    path, options = source
    make(path, output="one", **options)
    monkeypatch.setattr(batches, "BATCH_ROWS", 7)
    make(path, output="small", **options)
    make(path, output="two", **options | {"workers": 2})
    assert contents(tmp_path / "one") == contents(tmp_path / "small") == contents(tmp_path / "two")


def test_shards_are_contiguous_and_even(tmp_path, make, source, monkeypatch):
    path, options = source
    make(path, output="one", **options)
    monkeypatch.setattr(batches, "BATCH_ROWS", 11)
    result = make(path, output="many", num_shards=4, **options)
    whole = nlpdata.open_records(str(tmp_path / "one" / "train.tfrecord"))
    sizes = [shard["records"] for shard in read_meta(result.meta)["shards"] if shard["split"] == "train"]
    assert len(sizes) == len(result.files["train"]) == 4
    assert max(sizes) - min(sizes) <= 1
    joined = b"".join((tmp_path / "many" / f"train.tfrecord-{i:05d}-of-00004").read_bytes() for i in range(4))
    assert joined == (tmp_path / "one" / "train.tfrecord").read_bytes()
    assert sum(sizes) == len(whole)
    assert not nlpdata.verify(result.files["train"]).faults


def test_gzip_holds_the_same(tmp_path, make, rows):
    make(rows, output="plain", task="classification", max_seq_length=32)
    make(rows, output="gzip", task="classification", max_seq_length=32, compression="gzip")
    packed = (tmp_path / "gzip" / "train.tfrecord").read_bytes()
    assert gzip.decompress(packed) == (tmp_path / "plain" / "train.tfrecord").read_bytes()


def test_outputs_that_exist(tmp_path, make, source, rows):
    path, options = source
    make(path, **options)
    before = contents(tmp_path / "out")
    (tmp_path / "out" / "notes.txt").write_text("mine")
    with pytest.raises(UsageError, match=r"already holds train\.tfrecord.*overwrite=True"):
        make(path, **options)
    assert {**before, "notes.txt": b"mine"} == contents(tmp_path / "out")
    # Another dataset in its place: everything of the old set goes, and nothing else.
    make(rows, task="classification", max_seq_length=16, overwrite=True)
    assert visible(tmp_path / "out") == ["meta.json", "notes.txt", "tokenizer.txt", "train.tfrecord"]


def test_an_interrupted_run_resumes(tmp_path, make, source, monkeypatch):
    path, options = source
    monkeypatch.setattr(batches, "BATCH_ROWS", 7)
    make(path, output="whole", **options)
    real, done = executor.run_units, []

    def interrupted(function, units, **rest):
        for item in real(function, units, **rest):
            (_, task), _ = item
            done.append(task.name)
            if len(done) == 3:
                raise KeyboardInterrupt
            yield item

    monkeypatch.setattr(executor, "run_units", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make(path, output="out", **options)
    assert visible(tmp_path / "out") == []
    made = []
    monkeypatch.setattr(
        executor,
        "run_units",
        lambda function, units, **rest: real(function, made.extend(unit for _, unit in units) or units, **rest),
    )
    make(path, output="out", **options)
    assert contents(tmp_path / "whole") == contents(tmp_path / "out")
    assert not {item.name for item in made if hasattr(item, "size")} & set(done[:2]) or options["task"] == "squad"
    assert not (tmp_path / "out" / ".train.work").exists()


def _cut(path):
    path.write_bytes(path.read_bytes()[:-3])


def _flip(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damage", [_cut, _flip])
@pytest.mark.parametrize("pattern", ["*.records", "*.lengths", "*.made.json"])
def test_damaged_parts_are_made_again(tmp_path, make, rows, monkeypatch, pattern, damage):
    options = {"task": "classification", "max_seq_length": 32}
    make(rows, output="whole", **options)

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stages, "plan_shards", stop)
        with pytest.raises(KeyboardInterrupt):
            make(rows, **options)
    for path in (tmp_path / "out" / ".train.work").glob(pattern):
        damage(path)
    make(rows, **options)
    assert pattern == "*.made.json" or any("is damaged" in line for line in make.log)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")


def test_the_tokenizers_copy_says_how_to_normalise(tmp_path, make, rows):
    make(rows, task="classification", max_seq_length=32, do_lower_case=False, keep_accents=True)
    copy = load_tokenizer(tmp_path / "out")
    assert copy.options() == {"do_lower_case": False, "keep_accents": True, "tokenize_chinese_chars": True}
    assert not any("no normalisation options" in note for note in copy.notes)
    entry = read_meta(tmp_path / "out" / "meta.json")["tokenizer"]
    assert load_tokenizer(entry, folder=tmp_path / "out").sha256 == copy.sha256


def test_meta_has_the_older_tools_keys(make, source):
    path, options = source
    meta = read_meta(make(path, **options).meta)
    squad_keys = {"max_query_length", "doc_stride", "version_2_with_negative"}
    sentence_keys = {"num_labels", "label_type"}
    assert {"task_type", "processor_type", "train_data_size", "eval_data_size", "max_seq_length"} <= meta.keys()
    assert (squad_keys if options["task"] == "squad" else sentence_keys) <= meta.keys()
    assert (
        meta["train_data_size"] == meta["splits"]["train"]["records"] == meta["splits"]["train"]["counters"]["examples"]
    )
    assert meta["task_type"] == ("bert_squad" if options["task"] == "squad" else "bert_classification")


def test_verify_and_inspect(tmp_path, make, source):
    path, options = source
    result = make(path, **options)
    files = [name for names in result.files.values() for name in names]
    report = nlpdata.verify(files)
    assert not report.faults
    assert not report.not_checked
    assert report.records == sum(about["records"] for about in result.counters.values())
    shown = inspect_records(result.files["train"], limit=1)
    assert "[CLS]" in shown
    assert ("answer: " if options["task"] == "squad" else "label 0\n") in shown


@pytest.mark.parametrize(
    ("feature", "row", "value", "words"),
    [
        ("label_ids", 2, 3, "label_ids is 3, expected 0 to 2"),
        ("label_ids", 2, -1, "label_ids is -1"),
        ("segment_ids", 1, 1, "segment_ids"),
        ("input_mask", 0, 0, "input_mask"),
        ("start_positions", 1, 63, "the answer"),
        ("is_impossible", None, 1, "is_impossible is 1, and the answer starts at"),
    ],
)
def test_verify_finds_broken_records(tmp_path, make, request, feature, row, value, words):
    from nlpdata.records.encoding import encode_examples

    answers = feature in ("start_positions", "is_impossible")
    path = request.getfixturevalue("questions" if answers else "rows")
    options = {"task": "squad", "max_query_length": 24, "max_seq_length": 64} if answers else {"task": "classification"}
    result = make(path, **options)
    records = nlpdata.open_records(result.files["train"])
    columns = records[:]
    row = int(np.argmax(columns[feature][:, 0] != value)) if row is None else row
    assert columns[feature][row, 0] != value
    columns[feature][row, 0] = value
    (tmp_path / "out" / "train.tfrecord").write_bytes(encode_examples(records.features, columns)[0])
    report = nlpdata.verify(result.files["train"])
    assert any(f"record {row}: " in fault and words in fault for fault in report.faults)


def test_flags_of_the_model_garden(tmp_path, vocab, capsys):
    """The command of seed 000 and of ALBERT-TF2.0's README, as they are written there."""
    for split in ("train", "dev"):
        write(
            tmp_path / "glue" / "MRPC" / f"{split}.tsv", "Quality\t#1 String\t#2 String", "1\tthe fox\ta fox", "0\ta\tb"
        )
    out = tmp_path / "out"
    out.mkdir()
    outcome = run_command(
        capsys,
        "create-finetuning",
        f"--input_data_dir={tmp_path}/glue/MRPC/",
        f"--vocab_file={vocab}",
        f"--train_data_output_path={out}/MRPC_train.tf_record",
        f"--eval_data_output_path={out}/MRPC_eval.tf_record",
        f"--meta_data_file_path={out}/MRPC_meta_data",
        "--fine_tuning_task_type=classification",
        "--max_seq_length=32",
        "--classification_task_name=MRPC",
        "--do_lower_case=True",
        "--workers=1",
    )
    assert outcome.code == 0, outcome.err
    assert visible(out) == [
        "MRPC_eval.tf_record",
        "MRPC_meta_data",
        "MRPC_meta_data.tokenizer.txt",
        "MRPC_train.tf_record",
    ]
    meta = json.loads((out / "MRPC_meta_data").read_text())
    assert (meta["train_data_size"], meta["eval_data_size"], meta["num_labels"]) == (2, 2, 2)


@pytest.mark.parametrize("kind", ["matched", "mismatched", None])
def test_the_scripts_write_one_dev_set_of_mnli(tmp_path, vocab, capsys, kind):
    """Under the very name that is given, for the next command asks for it; without --mnli_type it is the matched one."""
    folder, out = tmp_path / "glue" / "MNLI", tmp_path / "out"
    for split, text in (("train", "the fox"), ("dev_matched", "a fox"), ("dev_mismatched", "a dog")):
        write(folder / f"{split}.tsv", "sentence1\tsentence2\tgold_label", f"{text}\tthe dog\tneutral")
    outcome = run_command(
        capsys,
        "create-finetuning",
        f"--input_data_dir={folder}/",
        f"--vocab_file={vocab}",
        f"--train_data_output_path={out}/mnli_train.tf_record",
        f"--eval_data_output_path={out}/mnli_eval.tf_record",
        f"--meta_data_file_path={out}/mnli_meta_data",
        "--fine_tuning_task_type=classification",
        "--max_seq_length=32",
        "--classification_task_name=MNLI",
        "--workers=1",
        *([f"--mnli_type={kind}"] if kind else []),
    )
    assert outcome.code == 0, outcome.err
    assert visible(out) == [
        "mnli_eval.tf_record",
        "mnli_meta_data",
        "mnli_meta_data.tokenizer.txt",
        "mnli_train.tf_record",
    ]
    meta = json.loads((out / "mnli_meta_data").read_text())
    assert list(meta["splits"]) == [f"dev_{kind or 'matched'}", "train"]


def test_the_scripts_write_the_splits_that_are_named(tmp_path, vocab, capsys):
    """One folder takes the records of several tasks: no file has a name that is not the task's."""
    header, rows = "Quality\t#1 String\t#2 String", ("1\tthe fox\ta fox", "0\ta\tb")
    for task in ("MRPC", "mine/MRPC"):
        for split in ("train", "dev", "test"):
            write(tmp_path / task / f"{split}.tsv", header, *rows)
    out = tmp_path / "out"
    for name, folder, more in (
        ("a", "MRPC", ()),
        ("b_v1.1", "mine/MRPC", (f"--test_data_output_path={out}/b_v1.1_test.tf_record",)),
    ):
        outcome = run_command(
            capsys,
            "create-finetuning",
            f"--input_data_dir={tmp_path / folder}",
            f"--vocab_file={vocab}",
            f"--train_data_output_path={out}/{name}_train.tf_record",
            f"--eval_data_output_path={out}/{name}_eval.tf_record",
            f"--meta_data_file_path={out}/{name}_meta_data",
            "--classification_task_name=MRPC",
            "--max_seq_length=32",
            "--workers=1",
            *more,
        )
        assert outcome.code == 0, outcome.err
    files = {f"a_{split}.tf_record" for split in ("train", "eval")}
    files |= {f"b_v1.1_{split}.tf_record" for split in ("train", "eval", "test")}
    metas = {f"{name}_meta_data{suffix}" for name in ("a", "b_v1.1") for suffix in ("", ".tokenizer.txt")}
    assert set(visible(out)) == files | metas


def test_flags_of_squad_scripts(tmp_path, vocab, questions, capsys):
    outcome = run_command(
        capsys,
        "create-finetuning",
        f"--squad_data_file={questions}",
        "--vocab_file",
        vocab,
        f"--train_data_output_path={tmp_path}/out/squad_train.tf_record",
        f"--meta_data_file_path={tmp_path}/out/squad_meta_data",
        "--fine_tuning_task_type=squad",
        "--max_seq_length=64",
        "--max_query_length=24",
        "--doc_stride=16",
        "--version_2_with_negative=False",
        "--do_lower_case",
    )
    assert outcome.code == 0, outcome.err
    assert len(nlpdata.open_records(tmp_path / "out" / "squad_train.tf_record")) > 90


def test_record_files_of_one_run_lie_together(tmp_path, make, rows):
    with pytest.raises(UsageError, match="must be in one folder"):
        make(rows, task="classification", train_output=str(tmp_path / "elsewhere" / "x.tfrecord"))
    with pytest.raises(UsageError, match="names the folder of the record files"):
        make(rows, output="x.tfrecord", task="classification")


def test_a_full_disk_is_reported(tmp_path, make, rows, monkeypatch):
    def full(path, content, durable):
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("nlpdata.finetuning.stages.write_whole", full)
    with pytest.raises(DataError, match="No space left on device"):
        make(rows, task="classification", max_seq_length=32)
    assert visible(tmp_path / "out") == []


def test_tensorflow_reads_the_records(make, questions):
    tf = pytest.importorskip("tensorflow")
    result = make(questions, task="squad", max_seq_length=64, max_query_length=24)
    records = nlpdata.open_records(result.files["train"])
    spec = {
        f.name: tf.io.FixedLenFeature([f.width], tf.int64 if f.dtype == "int64" else tf.float32)
        for f in records.features
    }
    for i, raw in enumerate(tf.data.TFRecordDataset(result.files["train"]).take(20)):
        parsed = tf.io.parse_single_example(raw, spec)
        for name, values in records[i].items():
            assert np.array_equal(parsed[name].numpy(), values)


def test_a_commit_that_was_interrupted_is_completed(tmp_path, make, source, monkeypatch):
    """By the run that resumes, which makes no file again."""
    path, options = source
    make(path, output="whole", num_shards=3, **options)

    moved = []

    def refuse(source, place):
        if len(moved) == 2:
            raise OSError(5, "Input/output error")
        moved.append(os.replace(source, place))

    with monkeypatch.context() as patched:
        patched.setattr(committing, "move", refuse)
        with pytest.raises(DataError, match="Run the same command again to complete the set"):
            make(path, num_shards=3, **options)
    with monkeypatch.context() as patched:
        patched.setattr(create, "run_stage", None)
        make(path, num_shards=3, **options)
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
