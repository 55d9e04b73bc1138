"""A corpus of text in place of pretraining records: recognised, described, and made by create-pretraining."""

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

import nlpdata
from nlpdata.errors import DataError, UsageError
from pretrain.data import pretraining_batches
from pretrain.data.corpus import as_field, changes, find_corpus, make_records, names_corpus, record_files, with_records
from pretrain.data.tokenizers import tokenizer_entry
from pretrain.data.toy import toy_text, toy_vocabulary
from pretrain.registry import ENCODERS
from pretrain.settings.data_section import DataConfig, EvalPretrainingDataConfig, PretrainingDataConfig
from pretrain.settings.fields import choose
from pretrain.settings.schema import ModelConfig
from pretrain.tasks.configs import PretrainingConfig

NAME = "task.train_data"


@pytest.fixture
def section(tmp_path):
    (tmp_path / "text.txt").write_text(toy_text(documents=40))
    (tmp_path / "vocab.txt").write_text("\n".join(toy_vocabulary()) + "\n")
    return PretrainingDataConfig(
        str(tmp_path / "text.txt"), vocab_file=str(tmp_path / "vocab.txt"), do_lower_case=True, seq_length=32
    )


def task(encoder="albert", pairs=True, vocab_size=200):
    model = ModelConfig(choose(ENCODERS, encoder, vocab_size=vocab_size, max_position_embeddings=32))
    return PretrainingConfig(model=model, use_next_sentence_label=pairs)


def contents(paths):
    return [Path(path).read_bytes() for path in paths]


def test_text_is_told_from_records_by_name_or_content(section, tmp_path):
    nlpdata.create_pretraining(
        section.input_path, str(tmp_path / "out.tfrecord"), section.vocab_file, max_seq_length=32, do_lower_case=True, workers=1
    )  # fmt: skip
    text, records = (tmp_path / name for name in ("text.txt", "out.tfrecord"))
    (tmp_path / "wiki_00").write_bytes(text.read_bytes())
    (tmp_path / "packed").write_bytes(gzip.compress(text.read_bytes()))
    (tmp_path / "records_00").write_bytes(records.read_bytes())
    (tmp_path / "packed_records").write_bytes(gzip.compress(records.read_bytes()))
    (tmp_path / "cut").write_bytes(gzip.compress(records.read_bytes())[:12])
    (tmp_path / "of_text").mkdir()
    (tmp_path / "of_text" / "a.txt").write_bytes(text.read_bytes())
    (tmp_path / "of_records").mkdir()
    (tmp_path / "of_records" / "x.tfrecord-00000-of-00002").touch()

    def names(given):
        paths = [str(tmp_path / name) for name in given.split(",")]
        return names_corpus(replace(section, input_path=paths)), names_corpus(
            replace(section, input_path=",".join(paths))
        )

    for given in ("text.txt", "*.txt", "text.txt@2", "none*.txt", "none.jsonl.gz", "wiki_00", "wiki_*", "packed", "of_text",
                  "text.txt,wiki_00"):  # fmt: skip
        assert names(given) == (True, True), given
    for given in (
        "out.tfrecord",
        "out.tfrecord*",
        "none.tf_record",
        "none",
        "records_00",
        "packed_records",
        "cut",
        "of_records",
    ):
        assert names(given) == (False, False), given
    with pytest.raises(UsageError, match=r"task.train_data.input_path is text. .* nlpdata create-pretraining"):
        pretraining_batches(section, task())
    assert not names_corpus(replace(section, input_path="toy:nsp"))
    for given, is_text in (
        ("gs://none/a.txt", True),
        ("gs://none/a*.txt.gz@3,b", True),
        ("gs://none/a.tf_record-*", False),
    ):
        assert names_corpus(replace(section, input_path=given)) == is_text  # the name tells it, and nothing is asked
    assert not names_corpus(replace(section, input_path="nope://none/part-*"))
    assert not names_corpus(replace(section, input_path=""))
    assert not names_corpus(DataConfig(section.input_path))


@pytest.mark.parametrize(
    ("fields", "of_task", "options"),
    [
        ({}, {}, {"objective": "sop"}),
        ({"masking": "dynamic"}, {"encoder": "bert"}, {"objective": "nsp", "masking": "dynamic"}),
        ({}, {"pairs": False}, {"objective": "none"}),
        ({"objective": "nsp", "masked_lm_prob": 0.3, "max_predictions_per_seq": 9}, {},
         {"objective": "nsp", "masked_lm_prob": 0.3, "max_predictions_per_seq": 9}),
    ],
)  # fmt: skip
def test_the_records_are_those_of_create_pretraining(fields, of_task, options, section, tmp_path):
    given, of_task = replace(section, **fields), task(**of_task)
    corpus, stem = find_corpus(given, of_task, NAME), tmp_path / "run" / "train"
    assert changes(corpus, stem) is None
    make_records(corpus, stem)
    assert changes(corpus, stem) == []
    made = nlpdata.create_pretraining(
        section.input_path, str(tmp_path / "out.tfrecord"), section.vocab_file, max_seq_length=32, do_lower_case=True, workers=1,
        **options,
    )  # fmt: skip
    assert contents(record_files(stem)) == contents(made.files["train"])
    assert not nlpdata.verify(record_files(stem)).faults
    of_records = with_records(corpus, record_files(stem))
    assert not names_corpus(of_records)
    batches = pretraining_batches(of_records, of_task)
    assert batches.facts["tokenizer_sha256"] == tokenizer_entry(given, NAME)[1]["sha256"]
    assert batches.batch(0)["input_ids"].shape == (32, 32)


def test_an_evaluation_has_each_document_once(section):
    of_eval = EvalPretrainingDataConfig(**{**vars(section), "is_training": False, "drop_remainder": False})
    assert find_corpus(section, task(), NAME).options.dupe_factor == 10
    assert find_corpus(of_eval, task(), "task.validation_data").options.dupe_factor == 1


def test_what_has_changed_is_named(section, tmp_path):
    stem = tmp_path / "run" / "train"
    make_records(find_corpus(section, task(), NAME), stem)
    (tmp_path / "more.txt").write_text(toy_text(documents=2))
    both = replace(section, input_path=[section.input_path, str(tmp_path / "more.txt")], seq_length=24)
    assert changes(find_corpus(both, task(), NAME), stem) == [
        "options.max_seq_length: 32 -> 24", "options.max_predictions_per_seq: 5 -> 4", "more.txt is new"
    ]  # fmt: skip
    (tmp_path / "text.txt").write_text(toy_text(documents=39))
    assert changes(find_corpus(section, task(), NAME), stem) == ["text.txt has other content or another weight"]
    other = replace(section, input_path=str(tmp_path / "more.txt"))
    assert changes(find_corpus(other, task(), NAME), stem) == ["more.txt is new", "text.txt is left out"]
    (stem.parent / "train.text.json").write_text("{")
    assert "missing or damaged" in changes(find_corpus(section, task(), NAME), stem)[0]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"vocab_file": ""}, "task.train_data.vocab_file is missing: .*text.txt is text"),
        ({"vocab_file": "none.txt"}, "none.txt"),
        ({"objective": "none"}, "task.train_data.objective none makes no sentence pairs"),
        ({"seq_length": 64}, "task.train_data.seq_length is 64, the model max_position_embeddings 32"),
        ({"seq_length": 4}, "task.train_data.seq_length must be from 8 to 65536"),
        ({"masked_lm_prob": 1.0}, r"task.train_data.masked_lm_prob must be in \(0, 1\)"),
        ({"max_predictions_per_seq": 33}, "task.train_data.max_predictions_per_seq must be from 1 to 32"),
        ({"input_path": "none*.txt"}, "task.train_data.input_path: 'none.*txt' matches no file"),
    ],
)
def test_what_is_wrong_is_said_in_words_of_the_configuration_before_the_work(fields, message, section):
    with pytest.raises(UsageError, match=message):
        find_corpus(replace(section, **fields), task(), NAME)


def test_a_vocabulary_that_the_model_does_not_hold(section):
    with pytest.raises(UsageError, match="tokenizer has 75 entries, the model vocab_size 50"):
        find_corpus(section, task(vocab_size=50), NAME)


def test_faults_of_the_text_name_the_commands_option(section, tmp_path):
    (tmp_path / "text.txt").write_text(toy_text(documents=4) + "zzz qqq xxx\n" * 900)
    with pytest.raises(DataError, match="--accept-loss of nlpdata create-pretraining"):
        make_records(find_corpus(section, task(), NAME), tmp_path / "train")
    assert as_field(NAME, "text_key", "a") == "task.train_data.text_key=a"
    assert as_field(NAME, "output") == "model_dir"
