"""create-pretraining on input that is wrong or odd: exit code, message, and nothing left that looks whole."""

import gzip
import json

import numpy as np
import pytest

from nlpdata.pretraining import create as making
from nlpdata.pretraining import plan
from nlpdata.records.reader import open_records
from tests.nlpdata.commands import contents, create_arguments, run_command, visible
from tests.nlpdata.conftest import as_text, random_documents, random_sentences

DOCUMENTS = random_documents(12, seed=3)
TEXT = as_text(DOCUMENTS)


@pytest.fixture
def create(tmp_path, tiny_model, capsys):
    """Runs create-pretraining into tmp_path/out; the outcome."""

    def run(inputs, *more, output="out/x.tfrecord", **settings):
        return run_command(capsys, *create_arguments(inputs, tmp_path / output, tiny_model, *more, **settings))

    return run


@pytest.fixture
def refused(create, tmp_path):
    """Runs a command that must fail with `code`, its message naming all of `words`, and leave no result."""

    def run(code, words, inputs, *more, **settings):
        outcome = create(inputs, *more, **settings)
        assert outcome.code == code, outcome.err
        for word in words:
            assert word in outcome.err
        assert "written:" not in outcome.out
        assert visible(tmp_path / "out") == []
        return outcome

    return run


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def records(tmp_path, name="out/x.tfrecord"):
    return open_records(str(tmp_path / name))


def counters(tmp_path, name="out/x.meta.json"):
    return json.loads((tmp_path / name).read_text())["counters"]


# ------------------------------------------------------------------------------------------------------------ patterns


def test_pattern_without_match(refused, tmp_path):
    write(tmp_path / "text.txt", TEXT)
    refused(2, ["matches no file", "text.txx", "text.txt"], tmp_path / "text.txx")
    refused(2, ["matches no file", "*.nothing"], f"{tmp_path}/*.nothing")
    refused(2, ["matches no file", "there is no directory"], f"{tmp_path}/nowhere/*.txt")
    refused(2, ["matches no file", "*.nothing"], [f"{tmp_path}/*.txt", f"{tmp_path}/*.nothing"])  # one good, one empty
    assert not (tmp_path / "out").exists()


def test_relative_pattern_says_where_it_looked(refused, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    refused(2, ["matches no file", str(tmp_path)], "*.txt")


def test_relative_pattern_without_folder(create, tmp_path, monkeypatch):
    write(tmp_path / "text.txt", TEXT)
    monkeypatch.chdir(tmp_path)
    assert create("*.txt").code == 0


def test_path_with_unquoted_space(tmp_path, tiny_model, capsys):
    (tmp_path / "My Drive").mkdir()
    write(tmp_path / "My Drive" / "x.txt", TEXT)
    rest = ["--tokenizer", tiny_model, "--output", tmp_path / "out" / "x"]
    first, second = f"{tmp_path}/My Drive/x.txt".split(" ")
    outcome = run_command(capsys, "create-pretraining", "--input", first, second, *rest)
    assert outcome.code == 2
    assert "My Drive/x.txt" in outcome.err
    assert "Quote" in outcome.err
    assert not (tmp_path / "out").exists()


def test_shell_expanded_list_equals_pattern_and_commas(create, tmp_path, tiny_model, capsys):
    for i in range(3):
        write(tmp_path / f"{i}.txt", as_text(DOCUMENTS[4 * i : 4 * i + 4]))
    names = [str(tmp_path / f"{i}.txt") for i in range(3)]
    assert create(f"{tmp_path}/*.txt").code == 0
    assert create(",".join(names), output="commas/x.tfrecord").code == 0
    assert create(f"{tmp_path}/0.txt,{tmp_path}/[12].txt", output="mixed/x.tfrecord").code == 0
    rest = create_arguments([], tmp_path / "list" / "x.tfrecord", tiny_model)[1:]
    assert run_command(capsys, "create-pretraining", "--input", *names, *rest).code == 0
    expected = contents(tmp_path / "out")
    assert contents(tmp_path / "commas") == contents(tmp_path / "mixed") == contents(tmp_path / "list") == expected


def test_a_folder_gives_the_records_of_its_pattern(create, tmp_path):
    (tmp_path / "corpus" / "more").mkdir(parents=True)
    write(tmp_path / "corpus" / "text.txt", TEXT)
    write(tmp_path / "corpus" / "more" / "text.txt", TEXT * 2)
    write(tmp_path / "corpus" / "README.md", "not read\n")
    outcome = create([tmp_path / "corpus"], output="by[folder]/x.tfrecord")
    assert (outcome.code, "2 *.txt: more/text.txt, text.txt; left out: 1 *.md" in outcome.err) == (0, True)
    assert create([f"{tmp_path}/corpus/**/*.txt"], output="by_pattern/x.tfrecord").code == 0
    assert contents(tmp_path / "by[folder]") == contents(tmp_path / "by_pattern")
    assert len(records(tmp_path, "by[folder]/x.tfrecord*")) > 0


def test_weights_that_choose_nothing(refused, tmp_path):
    path = write(tmp_path / "text.txt", "a b c\nd e f\n")
    refused(1, ["2 weight below one. The weights behind @ chose none of the documents: raise them"], f"{path}@0.0001")


def test_a_folder_without_text_as_input(refused, tmp_path):
    (tmp_path / "corpus").mkdir()
    write(tmp_path / "corpus" / "text.md", TEXT)
    refused(2, ["corpus holds no *.txt or *.text: it holds 1 *.md", "give a pattern"], tmp_path / "corpus")


def test_same_file_twice_is_read_once(create, tmp_path):
    path = write(tmp_path / "text.txt", TEXT)
    outcome = create([path, tmp_path / "out" / ".." / "text.txt", f"{tmp_path}/*.txt"])
    assert outcome.code == 2  # out/.. does not exist yet
    outcome = create([path, tmp_path / "." / "text.txt", f"{tmp_path}/*.txt"])
    assert outcome.code == 0
    assert "more than once" in outcome.err
    assert create(path, output="once/x.tfrecord").code == 0
    assert contents(tmp_path / "once") == contents(tmp_path / "out")


# ---------------------------------------------------------------------------------------------- documents and sentences


@pytest.mark.parametrize("objective", ["sop", "nsp", "none"])
@pytest.mark.parametrize("text", ["", "\n\n \n\t\n\r\n"], ids=["empty", "blank lines"])
def test_nothing_to_read(refused, tmp_path, objective, text):
    path = write(tmp_path / "text.txt", text)
    refused(1, ["no examples", "0 documents", "blank line"], path, "--objective", objective)
    assert not list((tmp_path / "out").iterdir())


def test_empty_file_among_others_changes_nothing(create, tmp_path):
    path, empty = write(tmp_path / "text.txt", TEXT), write(tmp_path / "empty.txt", "")
    assert create([path, empty]).code == 0
    assert create(path, output="alone/x.tfrecord").code == 0
    assert contents(tmp_path / "out")["x.tfrecord"] == contents(tmp_path / "alone")["x.tfrecord"]


def test_one_document(create, refused, tmp_path):
    path = write(tmp_path / "text.txt", "\n".join(random_sentences(50)))
    words = ["another document", "only one document", "blank line", "--objective sop"]
    refused(1, words, path, "--objective", "nsp")
    assert create(path).code == 0
    assert len(records(tmp_path)) > 5


def test_one_document_a_file_with_scope_file(refused, tmp_path):
    paths = [write(tmp_path / f"{i}.txt", "\n".join(random_sentences(9, i))) for i in range(2)]
    refused(1, ["0.txt", "--nsp-scope corpus"], paths, "--objective", "nsp", "--nsp-scope", "file")


def test_documents_of_one_sentence(create, refused, tmp_path):
    path = write(tmp_path / "text.txt", "\n\n".join(random_sentences(60)))
    refused(
        1, ["no examples", "60 documents", "left out: 60 one sentence document", "blank line", "--objective none"], path
    )
    outcome = create(path, "--objective", "nsp")
    assert outcome.code == 0
    assert "60 of 60 documents (100%) hold one sentence" in outcome.err
    assert "blank line" in outcome.err
    assert counters(tmp_path)["sentences_used"] == 60
    outcome = create(path, "--objective", "none", "--overwrite")  # which makes no pairs
    assert outcome.code == 0
    assert "hold one sentence" not in outcome.err


def test_three_letters_apart(create, refused, tmp_path):
    path = write(tmp_path / "text.txt", "a\n\nb\n\nc\n")
    refused(1, ["3 documents", "3 one sentence document"], path)
    outcome = create(path, "--objective", "nsp")
    assert outcome.code == 0
    assert "3 of 3 documents (100%)" in outcome.err
    assert set(records(tmp_path)[:]["next_sentence_labels"].ravel().tolist()) == {1}


@pytest.mark.parametrize("objective", ["sop", "none"])
def test_no_blank_line_in_many_lines(create, tmp_path, objective):
    path = write(tmp_path / "text.txt", "\n".join(random_sentences(10_400, words=(2, 4))) + "\n")
    outcome = create(path, "--objective", objective, "--masking", "dynamic", length=256)
    assert outcome.code == 0
    assert "10400 sentences" in outcome.err
    assert "blank line missing" in outcome.err
    assert counters(tmp_path)["sentences_used"] == 10_400


@pytest.mark.parametrize(
    "spelling",
    [
        as_text(DOCUMENTS, "\r\n"),
        as_text(DOCUMENTS, "\r"),
        "\ufeff" + TEXT,
        TEXT.rstrip("\n"),
        TEXT + "\n\n\n",
        TEXT.replace("\n\n", "\n \t\n"),
        TEXT.replace("\n\n", "\n\n\n\n"),
    ],
    ids=["CRLF", "CR", "BOM", "no last line end", "blank end", "spaces in blank lines", "several blank lines"],
)
def test_line_ends_and_marks_do_not_change_the_sentences(create, tmp_path, spelling):
    # Keys hold the document's offset, so records are compared by their text: one segment, no masks, in any order.
    for name, text in (("plain", TEXT), ("other", spelling)):
        (tmp_path / name).mkdir()
        path = write(tmp_path / name / "text.txt", text)
        more = ("--objective", "none", "--masking", "dynamic", "--short-seq-prob", 0)
        assert create(path, *more, output=f"{name}/x.tfrecord").code == 0
    plain, other = (records(tmp_path, f"{name}/x.tfrecord")[:]["input_ids"] for name in ("plain", "other"))
    assert sorted(map(tuple, plain)) == sorted(map(tuple, other))
    assert counters(tmp_path, "plain/x.meta.json") == counters(tmp_path, "other/x.meta.json")


def test_control_characters_and_other_separators_end_no_line(create, tmp_path):
    odd = "aa bb\u2028cc dd\u0085ee\x0bff\x0cgg\x1chh\0ii\u2029jj"
    path = write(tmp_path / "text.txt", f"{odd}\nkk ll mm\n\n\u200b\nnn oo\npp\n")
    assert create(path).code == 0
    assert counters(tmp_path)["sentences"] in (4, 5)  # whether a line of U+200B alone is text is the tokenizer's word
    found = counters(tmp_path)
    assert found["sentences"] == found["sentences_used"] + sum(found["dropped"].values())
    assert found["documents"] == 2


def test_lines_that_vanish_in_tokenization_are_counted(create, tmp_path, tiny_model):
    path = write(tmp_path / "text.txt", "aa bb\n\u200b\ncc dd\n\n\x01\x02\nee\nff\n")
    assert create(path).code == 0
    found = counters(tmp_path)
    assert found["sentences"] == 6
    assert found["sentences"] == found["sentences_used"] + sum(found["dropped"].values())


def test_literal_special_tokens_are_text(create, tmp_path, tiny_model):
    line = "aa [MASK] bb [SEP] cc [CLS] <pad> [PAD] <unk>"
    path = write(tmp_path / "text.txt", f"{line}\n{line}\n\n{line}\n{line}\n")
    for objective in ("sop", "nsp", "none"):
        name = f"{objective}/x.tfrecord"
        assert create(path, "--masking", "dynamic", "--objective", objective, output=name, length=128).code == 0
        found = records(tmp_path, name)
        special = found.meta["tokenizer"]["special_ids"]
        ids, mask = found[:]["input_ids"], found[:]["input_mask"].astype(bool)
        assert not np.isin(ids, special["mask"]).any()
        assert ((ids == special["cls"]).sum(1) == 1).all()
        assert ((ids == special["sep"]).sum(1) == (1 if objective == "none" else 2)).all()
        assert not (ids[mask] == special["pad"]).any()


# -------------------------------------------------------------------------------------------------- encodings and bytes


def test_invalid_utf8_modes(create, refused, tmp_path):
    body = b"aa bb\ncc \xff dd\nee ff\n\ngg\nhh\n"
    path = write(tmp_path / "text.txt", body)
    refused(1, ["text.txt", f"byte {body.index(0xFF)}", "--invalid-utf8"], path)
    assert create(path, "--invalid-utf8", "replace", output="r/x.tfrecord").code == 0
    assert create(path, "--invalid-utf8", "skip", output="s/x.tfrecord").code == 0
    replaced, skipped = counters(tmp_path, "r/x.meta.json"), counters(tmp_path, "s/x.meta.json")
    assert (replaced["sentences_used"], replaced["dropped"]) == (5, {})
    assert (skipped["sentences_used"], skipped["dropped"]) == (4, {"invalid_utf8": 1})


def test_invalid_utf8_in_a_worker_process(refused, tmp_path):
    paths = [write(tmp_path / f"{i}.txt", TEXT.encode() + b"\xc3\x28" * (i == 1)) for i in range(2)]
    refused(1, ["1.txt", f"byte {len(TEXT.encode())}"], paths, workers=2)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_wide_encodings_are_refused_with_the_command_to_convert(refused, tmp_path, encoding):
    path = write(tmp_path / "text.txt", TEXT.encode(encoding))
    refused(1, ["text.txt", "iconv -f UTF-", "-t UTF-8"], path)


@pytest.mark.parametrize("data", [b"PK\x03\x04rest", b"%PDF-1.7", bytes(range(256)) * 9, bytes(5000)])
def test_other_formats_are_refused(refused, tmp_path, data):
    refused(1, ["text.txt", "UTF-8"], write(tmp_path / "text.txt", data))


def test_records_as_input_are_refused(create, tmp_path, refused):
    path = write(tmp_path / "text.txt", TEXT)
    assert create(path, output="first/x.tfrecord").code == 0
    refused(1, ["TFRecord", "text"], tmp_path / "first" / "x.tfrecord")


def test_very_long_line(create, tmp_path):
    words = " ".join(random_sentences(2_000))[:70_000]
    path = write(tmp_path / "text.txt", f"aa bb\n{words}\n\ncc dd\n{words}\n")
    for objective in ("sop", "nsp", "none"):
        assert create(path, "--objective", objective, output=f"{objective}/x.tfrecord").code == 0
        found = counters(tmp_path, f"{objective}/x.meta.json")
        assert found["sentences_used"] == 4
        if objective == "none":
            assert len(records(tmp_path, "none/x.tfrecord")) > 100
        else:
            assert found["tokens_truncated"] > 10_000


def test_one_word_longer_than_the_sequence(create, tmp_path, capsys):
    path = write(tmp_path / "text.txt", f"{'x' * 3000}\naa\n\n{'aeiou' * 900}\nbb\n")
    for objective in ("sop", "nsp", "none"):
        assert create(path, "--objective", objective, output=f"{objective}/x.tfrecord").code == 0
        assert run_command(capsys, "verify", tmp_path / objective / "x.tfrecord").code == 0
        assert (records(tmp_path, f"{objective}/x.tfrecord")[:]["masked_lm_weights"].sum(1) >= 1).all()


def test_gzip_members_are_one_stream(create, tmp_path):
    half = len(TEXT) // 2
    whole = write(tmp_path / "text.txt", TEXT)
    (tmp_path / "m").mkdir()
    members = tmp_path / "m" / "text.txt.gz"
    write(members, gzip.compress(TEXT[:half].encode()) + gzip.compress(TEXT[half:].encode()))
    assert create(whole).code == 0
    assert create(members, output="members/x.tfrecord").code == 0
    assert contents(tmp_path / "members")["x.tfrecord"] == contents(tmp_path / "out")["x.tfrecord"]


def test_truncated_and_corrupt_gzip(refused, tmp_path):
    packed = gzip.compress(as_text(random_documents(400, seed=5)).encode())
    path = tmp_path / "text.txt.gz"
    refused(1, ["text.txt.gz", "cut off"], write(path, packed[:-9]))
    middle = len(packed) // 2
    refused(1, ["text.txt.gz"], write(path, packed[:middle] + b"\0" * 40 + packed[middle + 40 :]))
    assert visible(tmp_path) == ["out", "text.txt.gz"]


def test_json_lines_faults(create, refused, tmp_path):
    path = write(tmp_path / "text.jsonl", json.dumps({"text": "aa bb\ncc dd"}) + "\n{oops\n")
    refused(1, ["text.jsonl", "2"], path, "--text-key", "text")
    refused(1, ["text.jsonl", "body", "text"], path, "--text-key", "body")
    write(path, json.dumps({"text": "aa bb\ncc dd"}) + "\n")
    assert create(path, "--text-key", "text").code == 0


# --------------------------------------------------------------------------------------------------------------- splits


def test_eval_split_without_documents(refused, tmp_path):
    path = write(tmp_path / "text.txt", TEXT)
    outcome = refused(1, ["eval split", "--eval-fraction", "12 documents"], path, "--eval-fraction", 0.000001)
    assert "one sentence a line" not in outcome.err  # the text is not at fault


def test_train_split_without_documents(refused, tmp_path):
    path = write(tmp_path / "text.txt", TEXT)
    refused(1, ["train split", "--eval-fraction"], path, "--eval-fraction", 0.999999)


def test_split_of_one_document(create, tmp_path):
    path = write(tmp_path / "text.txt", TEXT)
    found = set()
    for seed in range(30):
        for fraction in (0.08, 0.92):
            more = ("--objective", "nsp", "--eval-fraction", fraction, "--seed", seed, "--overwrite")
            outcome = create(path, *more)
            if outcome.code:
                assert "--eval-fraction" in outcome.err
                assert "split" in outcome.err
                assert "the corpus has only one" not in outcome.err
                found |= {
                    word for word in ("train split has only one", "eval split has only one") if word in outcome.err
                }
        if len(found) == 2:
            break
    assert len(found) == 2


def test_paragraphs_and_accents_are_told(create, tmp_path):
    """As they are of no objective that takes text as it is, and of a tokenizer that keeps accents."""
    lines = [
        " ".join(f"Les élèves {at} ont mangé à midi. La crème était froide." for at in range(n, n + 4))
        for n in range(40)
    ]
    (tmp_path / "a.txt").write_text("\n\n".join("\n".join(lines[at : at + 4]) for at in range(0, 40, 4)))
    told = create(tmp_path / "a.txt", "--accept-loss")
    assert told.code == 0, told.err
    assert (
        "a.txt: its lines hold 8.0 sentences on average, and a line should be one. nlpdata split-sentences" in told.err
    )
    assert "the tokenizer drops accents, 960 in the" in told.err
    assert "'é' becomes 'e'. nlpdata train-tokenizer --keep-accents makes a vocabulary that has them" in told.err
    more = ("--objective", "none", "--keep-accents", "--accept-loss")
    silent = create(tmp_path / "a.txt", *more, output="none/x.tfrecord")
    assert silent.code == 0, silent.err
    assert "split-sentences" not in silent.err
    assert "drops accents" not in silent.err


def test_input_that_changes_meanwhile(tmp_path, create, monkeypatch):
    path, plans = tmp_path / "a.txt", plan.make_plan
    path.write_text(TEXT)

    def then_changed(request):
        made = plans(request)
        path.write_text(as_text(DOCUMENTS[:6]))
        return made

    monkeypatch.setattr(making, "make_plan", then_changed)
    outcome = create(path)
    assert outcome.code == 1
    assert f"{path}: has changed while it was read. Nothing was put in place" in outcome.err
    assert [*(tmp_path / "out").rglob("*")] == []
    monkeypatch.undo()
    assert create(path).code == 0
