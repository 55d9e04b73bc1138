"""Tokenizers against that of a checkpoint: pieces by id, special ids, casing; not files."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from nlpdata.errors import UsageError
from nlpdata.reports.run_facts import CONFIG_FILE
from nlpdata.tokenizers import load_tokenizer
from pretrain.converters import native
from pretrain.converters.same_tokenizer import own_tokenizer, refuse_other_tokenizer, refuse_unequal_records
from pretrain.converters.tokenizer_files import keep_tokenizer
from tests.messages import messages
from tests.pretrain.models import bert

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "##er"]


def vocabulary(path, words=WORDS, **options):
    """A vocab.txt, its options next to it where some are given; loaded."""
    path.parent.mkdir(exist_ok=True)
    path.write_text("\n".join(words) + "\n")
    loaded = load_tokenizer(path, **options)
    if options:
        keep_tokenizer(path.parent, path, loaded.meta())
    return loaded


def check(tokenizer, source, file="", **options):
    """What is logged; `file`: "gone" where the tokenizer's file is not there."""
    place = None if file else Path(tokenizer.path)
    with messages() as said:
        refuse_other_tokenizer("records", tokenizer.meta(), place, str(source), options.pop("allow", False), **options)
    return said


@pytest.fixture
def source(tmp_path):
    vocabulary(tmp_path / "source" / "vocab.txt", do_lower_case=True)
    return tmp_path / "source"


def test_equal_pieces_in_another_file_are_equal(source, tmp_path):
    assert check(load_tokenizer(source / "vocab.txt"), source) == []
    (tmp_path / "windows.txt").write_bytes("\r\n".join(WORDS).encode())
    assert check(load_tokenizer(tmp_path / "windows.txt", do_lower_case=True), source) == []
    fast = {
        "model": {"type": "WordPiece", "vocab": {word: i for i, word in enumerate(WORDS)}, "unk_token": "[UNK]",
                  "continuing_subword_prefix": "##", "max_input_chars_per_word": 100},
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                       "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "added_tokens": [],
    }  # fmt: skip
    (tmp_path / "fast").mkdir()
    (tmp_path / "fast" / "tokenizer.json").write_text(json.dumps(fast))
    own = load_tokenizer(tmp_path / "fast" / "tokenizer.json")
    assert own.sha256 != load_tokenizer(source / "vocab.txt").sha256
    assert check(own, source) == []
    assert check(load_tokenizer(source / "vocab.txt"), tmp_path / "fast") == []


def test_a_copy_of_the_own_file_has_its_options(tmp_path):
    """Nothing is guessed of a file that is known; options next to the copy are the user's word."""
    cased = vocabulary(tmp_path / "cased" / "vocab.txt", do_lower_case=False)
    copy = tmp_path / "copy.txt"
    shutil.copy(cased.path, copy)
    with messages() as said:
        found = own_tokenizer(str(tmp_path / "cased"), copy, False)
    assert not found.options()["do_lower_case"]
    assert said == []
    stated = vocabulary(tmp_path / "stated" / "vocab.txt", do_lower_case=True)
    with pytest.raises(UsageError, match="do_lower_case is True, not False"):
        own_tokenizer(str(tmp_path / "cased"), stated.path, False)


@pytest.mark.parametrize(
    ("words", "options", "difference"),
    [
        ([*WORDS[:5], "quick", "the", "##er"], {"do_lower_case": True}, "piece 5 is 'quick', not 'the'"),
        ([*WORDS, "more"], {"do_lower_case": True}, "9 pieces, not 8"),
        (
            ["[UNK]", "[PAD]", *WORDS[2:]],
            {"do_lower_case": True},
            "piece 0 is '[UNK]', not '[PAD]'; the id of pad is 1, not 0; the id of unk is 0, not 1",
        ),
        (WORDS, {"do_lower_case": False}, "do_lower_case is False, not True; keep_accents is True, not False"),
        (WORDS, {"do_lower_case": True, "keep_accents": True}, "keep_accents is True, not False"),
    ],
)
def test_differences_are_refused_unless_confirmed(source, tmp_path, words, options, difference):
    other = vocabulary(tmp_path / "other.txt", words)
    other = load_tokenizer(tmp_path / "other.txt", **options)
    with pytest.raises(UsageError) as caught:
        check(other, source)
    assert f"not that of {source}, so that ids mean other words: {difference}. " in str(caught.value)
    assert "--allow_other_tokenizer" in str(caught.value)
    (line,) = check(other, source, allow=True)
    assert line.startswith("warning: records: ")
    assert difference in line
    if "piece" not in difference:
        assert check(other, source, options=False) == []


def test_a_vocabulary_of_another_size_than_the_embedding(source, tmp_path, caplog):
    own = own_tokenizer(str(source), None, False)
    for rows, warned in ((own.vocab_size, False), (own.vocab_size + 127, False), (own.vocab_size + 128, True)):
        caplog.clear()
        own_tokenizer(str(source), None, False, rows)
        assert ("is it cut off, or another model's?" in caplog.text) == warned
    size = own.vocab_size
    with pytest.raises(
        UsageError, match=f"has {size} entries, the model's vocab_size is {size - 1}: it is another model's"
    ):
        own_tokenizer(str(source), None, True, size - 1)


def test_a_source_that_does_not_state_its_casing_is_not_asked_for_it(tmp_path):
    """The vocabulary of a TensorFlow checkpoint is there alone."""
    vocabulary(tmp_path / "tf1" / "vocab.txt")
    vocabulary(tmp_path / "cased.txt")
    assert check(load_tokenizer(tmp_path / "cased.txt", do_lower_case=False), tmp_path / "tf1") == []


@pytest.mark.parametrize("place", ["assets", "vocab"])
def test_tokenizers_in_assets(source, tmp_path, place):
    (tmp_path / "module").mkdir()
    shutil.move(source, tmp_path / "module" / place)
    with pytest.raises(UsageError, match="piece 7 is 'other', not '##er'"):
        check(vocabulary(tmp_path / "other.txt", [*WORDS[:-1], "other"]), tmp_path / "module")


def test_what_cannot_be_checked_is_reported(source, tmp_path):
    other = vocabulary(tmp_path / "other.txt", [*WORDS[:-1], "other"], do_lower_case=True)
    (tmp_path / "bare").mkdir()
    (line,) = check(other, tmp_path / "bare")
    assert line.endswith("no tokenizer is next to it to compare with")
    (line,) = check(other, source, file="gone")
    assert line.endswith("its file is not next to them, so that pieces cannot be compared")
    with messages() as said:
        refuse_other_tokenizer("records", {}, None, str(source), False)
    assert said[0].endswith("no meta file says which tokenizer they were made with")
    with pytest.raises(UsageError, match="9 pieces, not 8"):
        check(vocabulary(tmp_path / "more.txt", [*WORDS, "more"]), source, file="gone")


def test_a_run_of_ours(source, tmp_path):
    """Its checkpoints keep a checksum: files are compared only where the run's tokenizer is gone or was replaced."""
    own = load_tokenizer(source / "vocab.txt")
    run = tmp_path / "run"
    encoder = bert(vocab_size=8)
    info = {
        "step": 1,
        "encoder": {"type": "bert", "options": asdict(encoder.options)},
        "data": {"tokenizer_sha256": own.sha256},
    }
    native.write(run / "checkpoints" / "step-00000001", {}, info)
    (tmp_path / "windows.txt").write_bytes("\r\n".join(WORDS).encode())
    equal = load_tokenizer(tmp_path / "windows.txt", do_lower_case=True)
    assert check(own, run) == []
    with pytest.raises(UsageError, match=r"sha256 .*, not .* \(no tokenizer is next to it"):
        check(equal, run)
    (run / CONFIG_FILE).touch()
    keep_tokenizer(run, source / "vocab.txt", own.meta())
    assert check(equal, run) == []
    assert check(equal, run / "checkpoints" / "step-00000001") == []
    keep_tokenizer(run, tmp_path / "windows.txt", equal.meta())
    with pytest.raises(UsageError, match=r"vocab.txt is not the one that it was trained with"):
        check(equal, run)


def test_training_and_validation_records(tmp_path):
    """Equal pieces in another file are equal; other pieces, sizes and casing are not."""

    def entry(name, words=WORDS, **options):
        loaded = vocabulary(tmp_path / name, words, do_lower_case=options.get("do_lower_case", True))
        return Path(loaded.path), loaded.meta()

    train = entry("train/vocab.txt")
    (tmp_path / "windows").mkdir()
    (tmp_path / "windows" / "vocab.txt").write_bytes("\r\n".join(WORDS).encode())
    windows = load_tokenizer(tmp_path / "windows" / "vocab.txt", do_lower_case=True)
    assert windows.sha256 != train[1]["sha256"]
    refuse_unequal_records(train, (Path(windows.path), windows.meta()), False)
    refuse_unequal_records(train, (None, {}), False)
    for other, difference in (
        (entry("more/vocab.txt", [*WORDS, "more"]), "9 pieces, not 8"),
        (entry("swapped/vocab.txt", [*WORDS[:5], "quick", "the", "##er"]), "piece 5 is 'quick', not 'the'"),
        (entry("cased/vocab.txt", do_lower_case=False), "do_lower_case is False, not True"),
        ((None, entry("gone/vocab.txt", [*WORDS, "more"])[1]), "a file is gone"),
    ):
        with pytest.raises(UsageError, match=f"task.validation_data .* task.train_data.*{difference}"):
            refuse_unequal_records(train, other, False)
        with messages() as said:
            refuse_unequal_records(train, other, True)
        assert said[0].startswith("warning: ")
