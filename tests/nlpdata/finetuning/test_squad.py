"""SQuAD on small files of our own: windows, answers, what evaluation needs."""

import gzip
import json

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from nlpdata.errors import UsageError
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.finetuning.squad import locate, open_squad
from nlpdata.finetuning.windows import FIRST_ID, max_context, plan_windows
from nlpdata.records.contract import read_meta
from nlpdata.tokenizers import load_tokenizer
from tests.nlpdata.commands import run_command
from tests.nlpdata.finetuning.texts import squad

CONTEXT = "the fox jumped high over the lazy dog and the dog was not good , it was bad in the river bank"


def _windows_one_by_one(total, room, stride):
    """The loop of run_squad.py."""
    found, start = [], 0
    while start < total:
        length = min(total - start, room)
        found.append((start, length))
        if start + length == total:
            break
        start += min(length, stride)
    return found


@given(st.integers(1, 400), st.integers(1, 60), st.integers(1, 80))
def test_windows_and_best_windows_are_those_of_the_loop(total, room, stride):
    question, start, length = plan_windows(np.array([total]), np.array([room]), stride)
    windows = _windows_one_by_one(total, room, stride)
    assert list(zip(start.tolist(), length.tolist(), strict=True)) == windows
    assert not question.any()
    best = max_context(total, room, stride)
    for token in range(total):
        scores = [
            min(token - first, first + size - 1 - token) + 0.01 * size if first <= token < first + size else -1
            for first, size in windows
        ]
        assert best[token] == scores.index(max(scores))


def _best_windows(total, room, stride, share=0.01):
    """`_check_is_max_context` of run_squad.py for every token, with the share of a window's length in its score."""
    windows = _windows_one_by_one(total, room, stride)
    for token in range(total):
        scores = [
            min(token - first, first + size - 1 - token) + share * size if first <= token < first + size else -1
            for first, size in windows
        ]
        yield scores.index(max(scores))


@pytest.mark.parametrize("share", [0.0, 0.009, 0.011, 0.02, 0.1, 1.0])
def test_the_length_of_a_window_counts_a_hundredth(share):
    """Shows where windows differ by 100 tokens or more in length, as here at the end of a context."""
    differ = 0
    for total in (321, 335, 348, 349, 360, 400, 460, 490, 600, 640):
        best = max_context(total, 320, 128).tolist()
        assert best == list(_best_windows(total, 320, 128))
        differ += best != list(_best_windows(total, 320, 128, share))
    assert differ


def test_a_record_field_by_field(tmp_path, make, records, vocab):
    path = squad(tmp_path / "train.json", (CONTEXT, ("q1", "who jumped ?", [("lazy dog", 29)], False)))
    make(path, task="squad", max_seq_length=64, max_query_length=16)
    record, tokenizer = records()[0], load_tokenizer(vocab, do_lower_case=True)
    query, context = (tokenizer.encode([text])[0].tolist() for text in ("who jumped ?", CONTEXT))
    size = 3 + len(query) + len(context)
    assert record["input_ids"][:size].tolist() == [
        tokenizer.cls_id,
        *query,
        tokenizer.sep_id,
        *context,
        tokenizer.sep_id,
    ]
    assert record["input_mask"].tolist() == [1] * size + [0] * (64 - size)
    assert record["segment_ids"].tolist() == [0] * (2 + len(query)) + [1] * (len(context) + 1) + [0] * (64 - size)
    expected = [1] + [0] * (1 + len(query)) + [1] * len(context) + [0] * (65 - size)
    assert record["paragraph_mask"].tolist() == expected
    start, end = int(record["start_positions"][0]), int(record["end_positions"][0])
    assert tokenizer.pieces(record["input_ids"][start : end + 1]) == ["lazy", "dog"]
    assert record["unique_ids"][0] == FIRST_ID
    assert record["class_index"][0] == record["is_impossible"][0] == 0


def test_a_folder_without_files_of_the_splits(tmp_path, make):
    with pytest.raises(UsageError, match=r"holds no train.*Name a file"):
        make(tmp_path, task="squad")


@pytest.mark.parametrize("windows", ["keep", "drop"])
def test_windows_without_the_answer(tmp_path, make, records, windows):
    """Kept as impossible or left out, as asked, and counted (transformers#1020)."""
    path = squad(tmp_path / "train.json", (CONTEXT, ("q1", "who ?", [("fox", 4)], False)), version="1.1")
    options = {"max_seq_length": 20, "max_query_length": 8, "doc_stride": 6, "windows_without_answer": windows}
    result = make(path, task="squad", **options)
    found = records()[:]
    counters = read_meta(result.meta)["splits"]["train"]["counters"]
    assert counters["windows_without_answer"] == len(_windows_one_by_one(22, 13, 6)) - 1
    assert counters["examples"] == len(found["input_ids"])
    assert (found["is_impossible"] == 0).any()
    if windows == "drop":
        assert not found["is_impossible"].any()
    else:
        outside = found["is_impossible"][:, 0] == 1
        assert not found["start_positions"][outside].any()
        assert not found["end_positions"][outside].any()
    assert found["unique_ids"][:, 0].tolist() == list(range(FIRST_ID, FIRST_ID + len(found["unique_ids"])))


def test_a_long_question_is_cut_and_counted(tmp_path, make, records):
    path = squad(tmp_path / "train.json", (CONTEXT, ("q1", "the fox " * 10, [("fox", 4)], False)))
    result = make(path, task="squad", max_seq_length=64, max_query_length=7)
    assert read_meta(result.meta)["splits"]["train"]["counters"]["questions_truncated"] == 1
    assert int(records()[0]["segment_ids"].argmax()) == 7 + 2


@pytest.mark.parametrize(
    ("context", "text", "start", "found"),
    [
        ("the fox", "fox", 4, (4, 7)),
        ("the fox", "fox", 2, (4, 7)),  # moved
        ("in ROMA now", "Roma", 3, (3, 7)),  # transformers#2372
        ("in ROMA now", "Roma", 0, (3, 7)),
        ("the fox", " fox ", 4, (4, 7)),
        ("fox, fox, fox", "fox", 4, (5, 8)),  # the nearest
        ("the fox", "cat", 4, None),
        ("İİ the Fox", "fox", 9, (7, 10)),  # lower-casing must not move anything
        ("fox" + " " * 500 + "fox", "fox", 250, None),  # two, both far: a guess
        ("fox" + " " * 500, "fox", 450, (0, 3)),  # the only one
    ],
)
def test_answers_are_found_nearby(context, text, start, found):
    assert locate(context, text, start) == found


def test_moved_answers_are_listed_and_counted(tmp_path, make, records, vocab):
    path = squad(tmp_path / "train.json", (CONTEXT, ("q1", "who ?", [("lazy", 31)], False)))
    result = make(path, task="squad", max_seq_length=64, max_query_length=16)
    assert read_meta(result.meta)["splits"]["train"]["counters"]["notes"] == {"answer_moved": 1}
    assert any("(id q1)" in line and "taken at 29: '" in line for line in make.log)
    record = records()[0]
    tokens = record["input_ids"][record["start_positions"][0] : record["end_positions"][0] + 1]
    assert load_tokenizer(vocab, do_lower_case=True).pieces(tokens) == ["lazy"]


def test_several_answers_in_training_take_the_first(tmp_path, make, records, vocab):
    """Not an abort (transformers#554, google-research/bert#392)."""
    path = squad(tmp_path / "train.json", (CONTEXT, ("q1", "who ?", [("dog", 34), ("fox", 4)], False)))
    result = make(path, task="squad", max_seq_length=64, max_query_length=16)
    assert read_meta(result.meta)["splits"]["train"]["counters"]["notes"] == {"several_answers": 1}
    record = records()[0]
    tokens = record["input_ids"][record["start_positions"][0] : record["end_positions"][0] + 1]
    assert load_tokenizer(vocab, do_lower_case=True).pieces(tokens) == ["dog"]


def test_impossible_questions(tmp_path, make, records):
    path = squad(tmp_path / "train.json", (CONTEXT, ("q1", "who ?", [("fox", 4)], False), ("q2", "what ?", [], True)))
    result = make(path, task="squad2", max_seq_length=64, max_query_length=16)
    assert records()[:]["is_impossible"][:, 0].tolist() == [0, 1]
    assert read_meta(result.meta)["version_2_with_negative"] is True


def test_dev_records_carry_what_scoring_needs(tmp_path, make, records):
    """Each token's characters, its best window, and the question's id; texts stand once, in a file of their own."""
    context = "Über  Ångström: the ｆｏｘ, cafe\u0301 (1,234) \u202f東京\u200b dog"
    path = squad(
        tmp_path / "dev.json",
        (context, ("q1", "who ?", [("Ångström", 6)], False), ("q2", "what ?", [], True)),
        (CONTEXT, ("q3", "who ?", [("nowhere", 0)], False)),
    )
    result = make(path, task="squad", splits="dev", max_seq_length=24, max_query_length=8, doc_stride=5)
    about = read_meta(result.meta)["splits"]["dev"]
    lines = gzip.decompress((tmp_path / "out" / about["examples"]).read_bytes()).splitlines()
    examples = [json.loads(line) for line in lines]
    assert [example["example_id"] for example in examples] == ["q1", "q2", "q3"]
    assert examples[0]["answers"] == [{"text": "Ångström", "answer_start": 6}]
    assert examples[1] == {
        "example_id": "q2",
        "question": "what ?",
        "context": context,
        "answers": [],
        "is_impossible": True,
    }
    assert about["counters"]["notes"] == {"misaligned_answer": 1}  # kept: scoring goes by the text
    contexts = {example["example_id"].encode(): example["context"] for example in examples}
    found, best = records("dev")[:], {}
    for i, name in enumerate(found["example_id"][:, 0]):
        for place in np.flatnonzero(found["paragraph_mask"][i])[1:]:
            start, end = found["token_char_start"][i, place], found["token_char_end"][i, place]
            assert 0 <= start <= end <= len(contexts[name])
            best[name, start, end, found["input_ids"][i, place]] = best.get(
                (name, start, end, found["input_ids"][i, place]), 0
            ) + int(found["token_is_max_context"][i, place])
    assert set(best.values()) == {1}  # every token is best in one window
    assert {name for name, *_ in best} == {b"q1", b"q2", b"q3"}
    outside = found["paragraph_mask"] == 0
    assert not found["token_char_end"][outside].any()


def test_a_test_file_needs_no_answers(tmp_path, make, records):
    content = {"data": [{"paragraphs": [{"context": CONTEXT, "qas": [{"id": 7, "question": "who ?"}]}]}]}
    path = tmp_path / "test.json"
    path.write_text(json.dumps(content))
    make(None, task="squad", test_input=str(path), max_seq_length=64, max_query_length=16)
    record = records("test")[0]
    assert record["example_id"][0] == b"7"
    assert "start_positions" not in record
    assert "token_char_start" in record


def test_compressed_files_and_folders(tmp_path, make):
    source = squad(tmp_path / "x.json", (CONTEXT, ("q1", "who ?", [("fox", 4)], False)))
    folder = tmp_path / "squad"
    folder.mkdir()
    for name, compress in (("train-v1.1.json.gz", gzip.compress), ("dev-v1.1.json.zst", zstandard.compress)):
        (folder / name).write_bytes(compress(source.read_bytes()))
    assert set(make(folder, task="squad", max_seq_length=64, max_query_length=16).files) == {"train", "dev"}


@pytest.mark.parametrize(
    ("names", "options", "chosen"),
    [
        ("squad_train.json SQuAD-Dev.json notes.json", {}, "squad_train.json SQuAD-Dev.json"),
        ("train.json validation.json .train.json", {}, "train.json validation.json"),
        ("trainset.json constraint.json dev1.json", {}, "trainset.json dev1.json"),
        ("train-v1.1.json train-v2.0.json dev-v2.0.json", {"task": "squad2"}, "train-v2.0.json dev-v2.0.json"),
        ("train-v1.1.json train-v2.0.json dev-v1.1.json", {"task": "SQuAD_v1.1"}, "train-v1.1.json dev-v1.1.json"),
        ("train-v1.1.json train-v2.0.json", {"version_2_with_negative": True}, "train-v2.0.json"),
    ],
)
def test_files_of_a_folder(names, options, chosen, tmp_path):
    folder = tmp_path / "s[1], a*"
    folder.mkdir()
    for name in names.split():
        (folder / name).write_text("{}")
    dataset = open_squad("squad", [str(folder)], FinetuningOptions(**{"task": "squad"} | options))
    assert [split.files for split in dataset.splits] == [(folder / name,) for name in chosen.split()]


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            "train-v1.1.json train-v2.0.json",
            r"holds train-v1.1.json, train-v2.0.json: name one .* version_2_with_negative=True",
        ),
        ("xquad.de.json", r"holds no train\*.json, .* It holds xquad.de.json. Name a file"),
    ],
)
def test_folders_that_do_not_say_which_file(names, message, tmp_path):
    for name in names.split():
        (tmp_path / name).write_text("{}")
    with pytest.raises(UsageError, match=message):
        open_squad("squad", [str(tmp_path)], FinetuningOptions(task="squad"))


def test_words_of_chinese_text_are_not_its_sentences(tmp_path, make, records, vocab):
    """White space delimits no words there: the answer stays where it is, also where its text stands twice."""
    path = squad(tmp_path / "train.json", ("東fox、西fox。", ("q1", "who ?", [("fox", 6)], False)))
    make(path, task="squad", max_seq_length=64, max_query_length=16)
    record, tokenizer = records()[0], load_tokenizer(vocab, do_lower_case=True)
    start, end = int(record["start_positions"][0]), int(record["end_positions"][0])
    assert start == end
    assert tokenizer.pieces(record["input_ids"][[start]]) == ["fox"]
    first = record["input_ids"].tolist().index(record["input_ids"][start])
    assert first < start


@pytest.mark.parametrize(
    ("context", "answer", "start", "place"),  # place: of its first and last token in the context
    [
        ("a fox-made dog", "fox", 2, (1, 1)),
        ("a fox-made dog", "made", 6, (3, 6)),
        ("a fox-made dog", "fox-made", 2, (1, 6)),
        ("a fox-made dog", "ox", 3, (1, 6)),  # no token of the word is the answer's: the whole word
        ("fox-dog, a", "ox-dog", 1, (0, 3)),
        ("a fox-dog", "do", 6, (1, 3)),
        ("a fox-dog", "fo", 2, (1, 3)),
        ("fox-dog bank\tof", "ox", 1, (0, 2)),
        ("a dog\tfox-bank\nof", "ox", 7, (2, 4)),
        ("a dog\rfox-bank\u202fof", "ban", 10, (2, 4)),
        ("fox ox-foxs-s bank", "s", 10, (7, 7)),  # its own token is elsewhere in the word
        ("s s-fox-dog s", "ox-do", 5, (1, 5)),
        ("a jumped-jumped dog", "jump", 9, (1, 3)),
    ],
)
def test_a_wordpiece_answer_inside_a_longer_word(tmp_path, make, records, context, answer, start, place):
    path = squad(tmp_path / "train.json", (context, ("q1", "who ?", [(answer, start)], False)))
    make(path, task="squad", max_seq_length=64, max_query_length=16)
    record = records()[0]
    first = int(np.flatnonzero(record["paragraph_mask"])[1])
    assert (int(record["start_positions"][0]) - first, int(record["end_positions"][0]) - first) == place


def test_paragraphs_after_an_empty_context(tmp_path, make, records):
    """Only the paragraph without a text is left out, not those of its article or of later ones."""
    contexts = [[" ", "the fox jumped", "the lazy dog"], ["", "a bad movie"], ["a river bank"]]
    article = [
        [
            {"context": context, "qas": [{"id": f"q{i}-{j}", "question": "what ?", "is_impossible": True}]}
            for j, context in enumerate(paragraphs)
        ]
        for i, paragraphs in enumerate(contexts)
    ]
    path = tmp_path / "dev.json"
    path.write_text(json.dumps({"data": [{"paragraphs": paragraphs} for paragraphs in article]}))
    result = make(
        path, task="squad", splits="dev", max_seq_length=32, max_query_length=8, on_bad_row="skip", accept_loss=True
    )
    assert records("dev")[:]["example_id"][:, 0].tolist() == [b"q0-1", b"q0-2", b"q1-1", b"q2-0"]
    assert read_meta(result.meta)["splits"]["dev"]["counters"]["dropped"] == {"empty_text": 2}


@pytest.mark.parametrize("flag", ["--version-2-with-negative", "--no-version-2-with-negative", None])
def test_an_impossible_question_and_the_flag(tmp_path, vocab, records, capsys, flag):
    path = squad(tmp_path / "train.json", (CONTEXT, ("q1", "who ?", [("fox", 4)], False), ("q2", "what ?", [], True)))

    def create(*more):
        given = ["--task", "squad", "--input", path, "--output", tmp_path / "out", "--tokenizer", vocab, "--workers", 1]
        given += ["--do-lower-case", "--max-seq-length", 64, "--max-query-length", 16, *more]
        return run_command(capsys, "create-finetuning", *given, *([flag] if flag else []))

    outcome = create()
    if flag != "--no-version-2-with-negative":
        assert outcome.code == 0
        assert records()[:]["is_impossible"][:, 0].tolist() == [0, 1]
        assert read_meta(tmp_path / "out" / "meta.json")["version_2_with_negative"] is True
        return
    assert outcome.code == 1
    assert "qas[1] (id q2): it has no answer, and --no-version-2-with-negative excludes such questions" in outcome.err
    assert create("--on-bad-row", "skip", "--accept-loss").code == 0
    assert records()[:]["is_impossible"][:, 0].tolist() == [0]
    meta = read_meta(tmp_path / "out" / "meta.json")
    assert meta["splits"]["train"]["counters"]["dropped"] == {"impossible_question": 1}
    assert meta["version_2_with_negative"] is False
