"""Every kind of model, from Python and by the command: predictions that are the model's, at any batch size, order and length."""

import json
import os
import select
import subprocess
import threading
from collections import Counter
from dataclasses import asdict
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from keras import ops

import pretrain
from nlpdata.errors import DataError, UsageError
from nlpdata.tokenizers import load_tokenizer
from pretrain.converters import native, read_checkpoint
from pretrain.converters.write import write_checkpoint
from pretrain.encoders.model import EncoderModel, build_encoder, masked_lm_head, new_model, weights_by_path
from pretrain.layers.classifier_head import ClassifierHead
from pretrain.layers.conditional_span_head import ConditionalSpanHead
from pretrain.layers.span_head import SpanHead
from pretrain.predict import main
from pretrain.prediction.arrays import checked_arrays
from pretrain.prediction.file import predict
from pretrain.prediction.masks import some_masked
from pretrain.prediction.rows import Asked
from tests import warm_python
from tests.messages import messages
from tests.pages import WORDS, lines_of_libraries, plain_environment
from tests.pretrain.runs import tiny

LENGTH, NAMES = 64, ["no", "yes", "maybe"]
CLS, SEP, MASK = 2, 3, 4


def make(folder, head, encoder="bert", layers=1, **facts):
    """Writes a checkpoint with one head, whose weights tell texts apart, and its tokenizer; returns the folder."""
    choice = tiny(encoder, max_position_embeddings=LENGTH, num_hidden_layers=layers)
    body = build_encoder(choice)
    heads = {
        "classifier": lambda: ClassifierHead(hidden_size=32, num_classes=3),
        "span": lambda: SpanHead(hidden_size=32),
        "conditional": lambda: ConditionalSpanHead(hidden_size=32),
        "masked_lm": lambda: masked_lm_head(body),
    }
    model = new_model(body, {"span" if head == "conditional" else head: heads[head]()} if head else {}, 0)
    draw = np.random.default_rng(7)
    arrays = {}
    for path, weight in weights_by_path(model).items():
        scale = 0.0 if "gamma" in path else 0.6 if "logits/kernel" in path else 0.15
        arrays[f"model/{path}"] = np.asarray(weight) + draw.normal(size=weight.shape).astype(np.float32) * scale
    described = {"type": choice.type, "options": asdict(choice.options)}
    native.write(folder, arrays, {"step": 1, "encoder": described, "data": facts})
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """head -> folder."""
    folder = tmp_path_factory.mktemp("models")
    classes = {"label_names": NAMES, "kind": "classification"}
    return {
        "classifier": make(folder / "classifier", "classifier", **classes),
        "albert": make(folder / "albert", "classifier", "albert", **classes),
        "span": make(folder / "span", "span", layers=2, version_2_with_negative=True),
        "conditional": make(folder / "conditional", "conditional", version_2_with_negative=True, start_n_top=9),
        "masked_lm": make(folder / "masked_lm", "masked_lm"),
        "": make(folder / "encoder", ""),
    }


@pytest.fixture(scope="module")
def loaded(models):
    """head -> model; what it compiles serves the next test, too."""
    return cache(lambda head: pretrain.load(models[head]))


def words(draw, least, most):
    return " ".join(f"w{number}" for number in draw.integers(5, 200, draw.integers(least, most + 1)))


def texts_for(head, count=40):
    draw = np.random.default_rng(3)
    if head == "span":
        return [(words(draw, 1, 20), words(draw, 1, 150)) for _ in range(count)]
    texts = [words(draw, 0, 80) for _ in range(count)]
    pairs = [(text, words(draw, 0, 80)) if i % 3 == 0 else text for i, text in enumerate(texts)]
    if head == "masked_lm":
        return [f"[MASK] {each}" + " w5[MASK]" * (i % 4) for i, each in enumerate(texts)]
    return pairs


def numbers(result):
    """The numbers of a prediction, in one order."""
    if "scores" in result:
        return list(result["scores"].values())
    if "masks" in result:
        return [each["score"] for mask in result["masks"] for each in mask]
    return [result["score"]]


def without_numbers(result):
    if "masks" in result:
        return [[each["piece"] for each in mask] for mask in result["masks"]]
    return {name: value for name, value in result.items() if name not in ("scores", "score")}


@pytest.mark.parametrize(
    ("head", "length"),
    [("classifier", 16), ("classifier", None), ("albert", 50), ("span", 16), ("span", None), ("masked_lm", 50)],
)
def test_predictions_do_not_depend_on_the_batch_or_the_order(loaded, head, length):
    model, texts = loaded(head), texts_for(head)
    found = model.predict(texts, batch_size=8, max_seq_length=length)
    assert len(found) == len(texts)
    order = np.random.default_rng(0).permutation(len(texts))
    for size in (1, 33):
        shuffled = model.predict([texts[i] for i in order], batch_size=size, max_seq_length=length)
        for i, other in zip(order, shuffled, strict=True):
            assert without_numbers(other) == without_numbers(found[i]), (size, i)
            np.testing.assert_allclose(numbers(other), numbers(found[i]), atol=1e-6, rtol=0)


def alone(model, *ids, **more):
    """The outputs of a model for one example without padding: token ids of one text or of two."""
    flat = [CLS, *(i for part in ids for i in (*part, SEP))]
    segments = [0] * (len(ids[0]) + 2) + [1] * (len(flat) - len(ids[0]) - 2)
    arrays = {"input_ids": flat, "input_mask": [1] * len(flat), "segment_ids": segments, **more}
    outputs = model({name: np.array([values], np.int32) for name, values in arrays.items()})
    return {name: np.asarray(ops.convert_to_numpy(values), np.float64)[0] for name, values in outputs.items()}


def softmax(logits):
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


def test_classes_are_those_of_the_model(loaded):
    model = loaded("classifier")
    single, pair, empty = model.predict(["w20 w30", ("w20", "w31 w32 w33"), "  "])
    for found, expected in (
        (single, softmax(alone(model, [20, 30])["logits"])),
        (pair, softmax(alone(model, [20], [31, 32, 33])["logits"])),
    ):
        assert list(found["scores"]) == NAMES
        np.testing.assert_allclose(list(found["scores"].values()), expected, atol=1e-6)
        assert found["prediction"] == NAMES[expected.argmax()]
    assert empty == {"prediction": None, "scores": {}}
    assert model.predict([]) == []


def test_masked_pieces_are_those_of_the_model(loaded):
    model = loaded("masked_lm")
    one, two, none, cut = model.predict(["w20 [MASK] w30", "[MASK]w20[MASK]", "w20", "w20 " * 70 + "[MASK]"], top_k=4)
    scores = softmax(alone(model, [20, MASK, 30], masked_lm_positions=[2])["mlm_logits"])[0]
    best = np.argsort(-scores, kind="stable")[:4]
    assert [each["piece"] for each in one["masks"][0]] == [WORDS[i] for i in best]
    np.testing.assert_allclose([each["score"] for each in one["masks"][0]], scores[best], atol=1e-6)
    scores = softmax(alone(model, [MASK, 20, MASK], masked_lm_positions=[1, 3])["mlm_logits"])
    assert two["prediction"] == [WORDS[row.argmax()] for row in scores]
    assert none == cut == {"prediction": None, "masks": []}


@pytest.mark.parametrize("head", ["span", "conditional"])
def test_answers_are_parts_of_the_context(loaded, head):
    model = loaded(head)
    texts = texts_for("span")
    found = model.predict([*texts, ("w20", " "), ("", "w20 w21")])
    assert found[-2:] == [{"answer": None, "score": None, "start": None, "end": None}] * 2
    answered = 0
    for (_, context), each in zip(texts, found, strict=False):
        assert context[each["start"] : each["end"]] == each["answer"]
        assert 0 < each["score"] <= 1
        answered += bool(each["answer"])
    assert 5 < answered < 40  # some have no answer


def test_vectors_are_those_of_the_model(loaded):
    model = loaded("")
    outputs = alone(model, [20, 30, 40])
    wanted = {"mean": outputs["sequence_output"].mean(axis=0), "cls": outputs["sequence_output"][0]}
    wanted["pooler"] = outputs["pooled_output"]
    for pooling, expected in wanted.items():
        vectors = model.embed(["w20 " * 50, "w20 w30 w40", ""], pooling=pooling)
        assert (vectors.shape, vectors.dtype) == ((3, 32), np.float32)
        np.testing.assert_allclose(vectors[1], expected, atol=2e-6)
    assert model.embed([]).shape == (0, 32)
    with pytest.raises(UsageError, match=r"pooling must be one of mean, cls, pooler\. Received: 'max'"):
        model.embed(["x"], pooling="max")


def test_arrays_still_go_to_keras(models, loaded):
    model = loaded("classifier")
    assert isinstance(model, EncoderModel)
    inputs = {name: np.ones((3, 8), np.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    np.testing.assert_allclose(
        model.predict(inputs, batch_size=2, verbose=0)["logits"], np.asarray(model(inputs)["logits"]), atol=1e-5
    )
    batches = [{name: values[at : at + 2] for name, values in inputs.items()} for at in (0, 2)]
    assert list(checked_arrays(batch for batch in batches)) == [(batch,) for batch in batches]
    assert set(weights_by_path(model)) == set(read_checkpoint(str(models["classifier"])).weights)


def test_what_python_cannot_predict_for(models, loaded, tmp_path):
    model = loaded("classifier")
    for given, message in (
        ("a text", r"a list of texts, and \(text, second text\) for pairs\. Received: 'a text'\. Put it into a list"),
        (("a", "b"), "Put it into a list"),
        ([1], r"item 0: expected texts, .*Received: '1' \(int\)"),
        (["x", ("a", "b", "c")], "item 1: expected texts"),
        (["x\ud800"], "item 0 has half of a surrogate pair"),
        (5, r"^predict takes a list of texts; or arrays by name.*Received: 5 \(int\)\.$"),
        (None, r"Received: None \(NoneType\)\.$"),
        (b"a text", r"Received: b'a text' \(bytes\)\.$"),
        (Path("a.txt"), r"Received: PosixPath\('a.txt'\) \(PosixPath\)\.$"),
        ({"a text"}, r"Received: {'a text'} \(set\)\. Texts go into a list: list\(\.\.\.\)"),
        (np.array(["a text"]), r"\(ndarray\)\. Texts go into a list"),
        (np.ones((1, 8), int), r"\(ndarray\)\.$"),
        ((text for text in ["a"]), r"a generator, which begins with 'a' \(str\)\. Texts go into a list"),
        ((text for text in ()), "a generator of nothing"),
        ({"text": ["a"]}, r"'text' is \['a'\] \(list\), not an array of numbers"),
        ({"input_ids": np.array(["a"])}, "'input_ids' is array.*, not an array of numbers"),
        ({"input_ids": np.ones((1, 8), int)}, "the model needs input_mask, segment_ids"),
        ({}, "the model needs input_ids"),
    ):
        with pytest.raises(UsageError, match=message):
            model.predict(given)
    with pytest.raises(UsageError, match=r"^embed takes a list of texts"):
        model.embed(5)
    for options, message in (
        ({"batch_size": 0}, "batch_size must be at least 1"),
        (
            {"max_seq_length": 65},
            r"max_seq_length must be from 8 to 64, the most tokens that classifier takes\. Received: 65",
        ),
        ({"verbose": 0}, "predict has no option 'verbose' for texts"),
    ):
        with pytest.raises(UsageError, match=message):
            model.predict(["x"], **options)
    with pytest.raises(UsageError, match=r"item 0: expected pairs \(question, context\)"):
        loaded("span").predict(["w20"])
    with pytest.raises(UsageError, match=r"has no head that predicts\. Fine-tune it, or use embed"):
        loaded("").predict(["x"])
    (tmp_path / "vocab.txt").write_text("\n".join([*WORDS[:-1], "x"]) + "\n")
    other = pretrain.load(models["classifier"], tokenizer=tmp_path / "vocab.txt")
    with pytest.raises(UsageError, match="the tokenizer is not that of"):
        other.predict(["x"])
    other = pretrain.load(models["classifier"], tokenizer=tmp_path / "vocab.txt", allow_other_tokenizer=True)
    assert other.predict(["w20"]) == model.predict(["w20"])


@pytest.mark.usefixtures("eagerly")
def test_an_exported_model_predicts_the_same(models, tmp_path):
    checkpoint = read_checkpoint(str(models["albert"]))
    tokenizer = load_tokenizer(models["albert"] / "vocab.txt")
    from dataclasses import replace

    plain = replace(checkpoint, tokenizer=tokenizer)
    gone = {path for path in plain.weights if path.startswith("classifier/pooler")}
    weights = {path: array for path, array in plain.weights.items() if path not in gone}
    write_checkpoint(tmp_path / "hf", replace(plain, weights=weights), "hf")
    write_checkpoint(tmp_path / "native", replace(plain, weights=weights), "native")
    texts = texts_for("classifier", 9)
    ours, theirs = (pretrain.load(tmp_path / name).predict(texts) for name in ("native", "hf"))
    for one, other in zip(ours, theirs, strict=True):
        assert one["prediction"] == other["prediction"]
        np.testing.assert_allclose(numbers(one), numbers(other), atol=1e-6)


# ------------------------------------------------------------------------------------------------------------ the command


def test_the_command_writes_what_python_returns(models, loaded, tmp_path):
    texts = texts_for("classifier")
    rows = [{"id": f"r{i}", "a": t if isinstance(t, str) else t[0], "b": "" if isinstance(t, str) else t[1]}
            for i, t in enumerate(texts)]  # fmt: skip
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = ["--text-column", "a", "--text_b_column", "b"]
    line = ["--model_dir", str(models["classifier"]), "--input", str(tmp_path / "in.jsonl"), *columns]
    assert main([*line, "--output", str(tmp_path / "out.jsonl"), "--format", "jsonl", "--batch-size", "7"]) == 0
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    expected = loaded("classifier").predict(texts)
    assert [row.pop("index") for row in found] == [f"r{i}" for i in range(len(texts))]
    assert [row["prediction"] for row in found] == [each["prediction"] for each in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(numbers(one), numbers(other), atol=1e-6)
    assert main([*line, "--output", str(tmp_path / "out.tsv"), "--index_column", "a", "--max_seq_length", "16"]) == 0
    short = loaded("classifier").predict(texts, max_seq_length=16)
    table = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
    assert table[0] == ["index", "prediction", *NAMES]
    assert [cells[:2] for cells in table[1:]] == [
        [row["a"], each["prediction"] or ""] for row, each in zip(rows, short, strict=True)
    ]


@pytest.mark.usefixtures("eagerly")
def test_questions_of_a_table_and_in_squads_form(models, loaded, tmp_path):
    texts = texts_for("span", 12)
    table = ["nr,frage,text", *(f'q{i},"{question}","{context}"' for i, (question, context) in enumerate(texts))]
    (tmp_path / "in.csv").write_text("\n".join(table) + "\n")
    line = ["--model_dir", str(models["span"]), "--input", str(tmp_path / "in.csv"), "--index_column", "nr",
            "--question_column", "frage", "--context-column", "text"]  # fmt: skip
    assert main([*line, "--output", str(tmp_path / "out.jsonl"), "--format", "jsonl"]) == 0
    found = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    expected = loaded("span").predict(texts)
    assert [row["index"] for row in found] == [f"q{i}" for i in range(12)]
    for row, each in zip(found, expected, strict=True):
        assert {name: row[name] for name in ("answer", "start", "end")} == without_numbers(each)
    assert main([*line, "--output", str(tmp_path / "out.tsv")]) == 0
    lines = (tmp_path / "out.tsv").read_text().splitlines()
    assert lines[0] == "index\tanswer\tscore\tstart\tend"
    assert lines[1] == "\t".join(
        ["q0", found[0]["answer"], f"{found[0]['score']:.6f}", str(found[0]["start"]), str(found[0]["end"])]
    )
    assert main([*line, "--output", str(tmp_path / "folder"), "--format", "squad"]) == 0
    answers = json.loads((tmp_path / "folder" / "predictions.json").read_text())
    assert answers == {row["index"]: row["answer"] for row in found}
    qas = [{"context": c, "qas": [{"id": f"q{i}", "question": q}]} for i, (q, c) in enumerate(texts)]
    (tmp_path / "in.json").write_text(json.dumps({"data": [{"paragraphs": qas}]}))
    predict(models["span"], tmp_path / "in.json", tmp_path / "squad.jsonl", format="jsonl")
    assert (tmp_path / "squad.jsonl").read_text() == (tmp_path / "out.jsonl").read_text()
    with pytest.raises(UsageError, match=r"text_column: .*in\.json is read as SQuAD's JSON, which has no columns"):
        predict(models["span"], tmp_path / "in.json", tmp_path / "x", text_column="a")


@pytest.mark.usefixtures("eagerly")
def test_masked_pieces_by_the_command(models, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("w20 [MASK]\nno mask\n\n[MASK] w5 [MASK]\n")
    with messages() as said:
        predict(models["masked_lm"], tmp_path / "in.txt", tmp_path / "out.tsv", top_k=2)
    lines = [line.split("\t") for line in (tmp_path / "out.tsv").read_text().splitlines()]
    assert lines[0] == ["index", "prediction", "score", "mask"]
    assert [(cells[0], cells[3]) for cells in lines[1:]] == [
        *(("0", "0"), ("0", "0"), ("1", ""), ("2", "")),
        *(("3", "0"), ("3", "0"), ("3", "1"), ("3", "1")),
    ]
    assert "1 of 4 rows are empty: they have no prediction" in said
    assert "1 of 4 rows have no [MASK] within their length: they have no prediction" in said
    command = ["--model_dir", str(models["masked_lm"]), "--input", str(tmp_path / "in.txt"), "--output"]
    (tmp_path / "in.txt").write_text("\nno mask\n")
    for output in (str(tmp_path / "x"), "-"):
        assert main([*command, output]) == 1
        printed = capsys.readouterr()
        assert "no text has a [MASK] (2 read, from line 1 on)" in printed.err
        assert printed.out == ""
    assert not (tmp_path / "x").exists()


def test_texts_without_a_mask_wait_for_the_first_one_that_has_one():
    def results(count):
        counters["unmasked"] += count
        yield from ((Asked(str(line), line, True), {"prediction": None}) for line in range(1, count + 1))
        yield Asked("last", count + 1, False), {"prediction": ["a"]}

    counters = Counter()
    assert len(list(some_masked(results(999), counters))) == 1000
    with pytest.raises(DataError, match=r"no text has a \[MASK\] \(1,000 read, from line 1 on\)"):
        next(some_masked(results(1000), counters))
    assert list(some_masked(iter([]), Counter())) == []


@pytest.mark.usefixtures("eagerly")
def test_bad_rows_are_left_out_if_wanted(models, tmp_path, capsys):
    (tmp_path / "in.csv").write_bytes(b"text,n\nw20,1\nw21\nw22,\xff\nw23,4\n")
    line = [
        "--model_dir",
        str(models["classifier"]),
        "--input",
        str(tmp_path / "in.csv"),
        "--output",
        str(tmp_path / "out"),
    ]
    assert main(line) == 1
    assert "in.csv:3: 1 columns, expected 2" in capsys.readouterr().err
    assert sorted(os.listdir(tmp_path)) == ["in.csv"]
    assert main([*line, "--on_bad_row", "skip"]) == 0
    assert [row.split("\t")[0] for row in (tmp_path / "out").read_text().splitlines()] == ["index", "0", "3"]
    said = capsys.readouterr().err
    assert "rows that cannot be used and were left out (--on_bad_row): 2 (invalid_utf8 1, short_row 1)" in said
    (tmp_path / "in.csv").write_text("text,n\n")
    with pytest.raises(DataError, match=r"in\.csv holds no texts that can be used"):
        predict(models["classifier"], tmp_path / "in.csv", tmp_path / "new")


def test_rows_of_a_pipe_are_answered_one_by_one(models, tmp_path):
    """With batches of one, each row's prediction is there before the next row is written."""
    given, made = tmp_path / "in", tmp_path / "out"
    for pipe in (given, made):
        os.mkfifo(pipe)
    options = {"format": "jsonl", "batch_size": 1}
    answers = os.open(made, os.O_RDWR)  # which waits for nobody
    rows = os.open(given, os.O_RDWR)
    thread = threading.Thread(target=predict, args=(models["classifier"], given, made), kwargs=options, daemon=True)
    thread.start()

    def answer(text):
        os.write(rows, text)
        assert select.select([answers], [], [], 60)[0]
        return json.loads(os.read(answers, 10_000))

    first, second, third = (answer(text) for text in (b"w20 w30\n", b"\n", b"w20 w30\n"))
    os.close(rows)
    thread.join(60)
    assert not thread.is_alive()
    assert (first["index"], second["index"], third["index"]) == ("0", "1", "2")
    assert (first["scores"], second["prediction"]) == (third["scores"], None)


@pytest.mark.heavy
def test_standard_input_and_output_on_the_other_backend(models, loaded, tmp_path):
    """Results alone on standard output; labels and scores are those of this backend. What is compiled is kept."""
    pytest.importorskip("jax")
    texts = [text for text in texts_for("classifier", 12) if isinstance(text, str)]
    table = "text,x\n" + "".join(f"{text},1\n" for text in texts)
    command = [*warm_python.COMMAND, "-m", "pretrain.predict", "--model_dir", str(models["classifier"]), "--input", "-",
               "--input_format", "csv", "--output", "-", "--format", "jsonl"]  # fmt: skip
    environment = plain_environment() | {"KERAS_BACKEND": "jax", "XDG_CACHE_HOME": str(tmp_path)}
    del environment["JAX_COMPILATION_CACHE_DIR"]
    done = subprocess.run(
        command, input=table, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    expected = loaded("classifier").predict(texts)
    assert len(found) == len(texts)
    for one, other in zip(found, expected, strict=True):
        assert one["prediction"] == other["prediction"]
        np.testing.assert_allclose(numbers(one), numbers(other), atol=1e-5)
    assert f"predictions of {len(texts)} rows written: standard output (" in done.stderr
    assert not lines_of_libraries(done.stderr)
    assert list((tmp_path / "nlpdata" / "jax").glob("jit_pure-*-cache"))
