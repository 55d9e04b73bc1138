"""pretrain convert, and what transformers makes of its folders."""

import gzip
import json
import os
import re
import subprocess
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from nlpdata.tokenizers import load_tokenizer
from nlpdata.tokenizers.hf_writing import tokenizer_json
from pretrain.convert import main
from pretrain.converters import assign, read_checkpoint, safetensors
from pretrain.converters.load import build_model
from pretrain.converters.tokenizer_files import find_tokenizer, write_for_hugging_face
from pretrain.converters.write import write_checkpoint
from pretrain.prediction.file import predict
from tests.nlpdata.tokenizers.test_sentencepiece import train
from tests.nlpdata.tokenizers.test_wordpiece import write
from tests.pretrain.converters.test_round_trips import make
from tests.pretrain.converters.torch_files import as_archive
from tests.shared import shared


def run(*argv, capsys):
    code = main([str(word) for word in argv])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.fixture
def source(tmp_path):
    write_checkpoint(tmp_path / "source", make("albert", "pretraining"), "tf1")
    return tmp_path / "source"


@pytest.mark.parametrize("format", ["native", "hf", "h5"])
def test_convert(source, format, tmp_path, capsys):
    code, out, err = run(source, tmp_path / "out", "--format", format, capsys=capsys)
    assert code == 0
    assert "weights matched" in err
    assert out == f"written: {tmp_path / 'out'} ({format})\n"
    written = tmp_path / "out" / "tf2_model_full.h5" if format == "h5" else tmp_path / "out"
    assert read_checkpoint(str(written)).weights.keys() == read_checkpoint(str(source)).weights.keys()


def test_encoder_only(source, tmp_path, capsys):
    assert run(source, tmp_path / "out", "--format", "hf", "--encoder_only", capsys=capsys)[0] == 0
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["AlbertModel"]
    assert all(path.startswith("encoder/") for path in read_checkpoint(str(tmp_path / "out")).weights)


@pytest.mark.parametrize(
    ("argv", "code", "message"),
    [
        (["nowhere", "{out}", "--format", "hf"], 2, "nowhere: no such file, folder or checkpoint prefix"),
        (["{source}x", "{out}", "--format", "hf"], 2, "checkpoint prefix. Did you mean"),
        (["{source}", "{out}"], 2, "--format is missing"),
        (["{source}"], 2, "DEST is missing"),
        (["{source}", "{source}", "--format", "hf"], 2, "already exists. Name a new folder"),
        (
            ["nowhere", "{source}", "--format", "hf"],
            2,
            "already exists. Name a new folder",
        ),  # before the source is read
        (["{empty}", "{out}", "--format", "hf"], 2, "no checkpoint in this folder. It holds nothing"),
        (["{source}", "{out}", "--format", "hf", "--model_config", "albert_base_v3"], 2, "Did you mean albert_base_v2"),
        (["{source}", "{out}", "--format", "hf", "--tokenizer", "{big}"], 2, "it is another model's tokenizer"),
    ],
)
def test_user_mistakes(source, argv, code, message, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    (tmp_path / "big.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(str, range(99))]))
    places = {name: tmp_path / name for name in ("out", "source", "empty")} | {"big": tmp_path / "big.txt"}
    found, _, err = run(*[word.format(**places) for word in argv], capsys=capsys)
    assert (found, message in err) == (code, True), err
    assert not (tmp_path / "out").exists()


def test_a_model_config_that_is_not_used_is_said(source, tmp_path, capsys):
    words = (source, tmp_path / "out", "--format", "native", "--model_config")
    code, _, err = run(*words, "albert_base_v2", capsys=capsys)
    said = "source has a configuration of its own, which is used. Not used is --model_config, which differs"
    assert (code, said in err.replace("source:", "source")) == (0, True), err
    code, _, err = run(source, tmp_path / "same", *words[2:], source / "albert_config.json", capsys=capsys)
    assert (code, "Not used" in err) == (0, False), err


def test_the_new_folder_may_not_be_a_link_to_nothing(source, tmp_path, capsys):
    (tmp_path / "link").symlink_to("nowhere")
    code, _, err = run(source, tmp_path / "link", "--format", "native", capsys=capsys)
    assert (code, "link already exists. Name a new folder" in err) == (2, True)


def test_a_wrong_size_of_model_is_said(source, tmp_path, capsys):
    config = json.loads((source / "albert_config.json").read_text())
    (source / "albert_config.json").write_text(json.dumps(config | {"hidden_size": 32}))
    code, _, err = run(source, tmp_path / "out", "--format", "hf", capsys=capsys)
    assert code == 1
    assert (
        "its weights show hidden_size 16, its configuration says 32. Is it the configuration of another model?" in err
    )
    assert not (tmp_path / "out").exists()


def test_command_of_albert_tf2(tmp_path, capsys):
    """Seed document: --tf_hub_path=base/ --model_type=albert --version=2 --model=base, on a module without SOP weights."""
    with tarfile.open(shared("oracle", "albert_tfhub_v2_nosop", "module.tar.gz")) as archive:
        archive.extractall(tmp_path / "base")
    words = [f"--tf_hub_path={tmp_path / 'base'}/", "--version=2", "--model=base"]
    code, _, err = run(*words, "--model_type=albert", capsys=capsys)
    assert code == 0
    assert "missing: sentence_pair/logits/kernel (start at random)" in err
    assert run(*words, "--model_type=albert_encoder", capsys=capsys)[0] == 0
    module = read_checkpoint(str(tmp_path / "base")).weights
    full = read_checkpoint(
        str(tmp_path / "base" / "tf2_model_full.h5"), read_checkpoint(str(tmp_path / "base")).encoder
    )
    assert full.weights.keys() - module.keys() == {"sentence_pair/logits/kernel", "sentence_pair/logits/bias"}
    for path, array in module.items():
        np.testing.assert_array_equal(full.weights[path], array)
    code, _, err = run(*words, "--model_type=albert_encoder", capsys=capsys)
    assert (code, "tf2_model.h5 already exists" in err) == (2, True)


def test_command_of_albert_tf2_for_an_archive(tmp_path, monkeypatch, capsys):
    """albert_base_v2.tar.gz of google-research holds the folder albert_base."""
    monkeypatch.chdir(tmp_path)
    checkpoint = make("albert", "pretraining")
    write_checkpoint("base/albert_base", checkpoint, "tf1")
    line = "--weights_path=base/ --weights_type=tar --model_type=albert --version=2 --model=base"
    code, out, err = run(*line.split(), capsys=capsys)
    assert (code, out.splitlines()[-1]) == (0, "written: base/tf2_model_full.h5"), err
    found = read_checkpoint("base/tf2_model_full.h5", checkpoint.encoder).weights
    for path, array in checkpoint.weights.items():
        np.testing.assert_array_equal(found[path], array)
    code, _, err = run(*line.replace("base/", "gone/").split(), capsys=capsys)
    assert (code, "gone" in err) == (2, True)


def test_the_command_in_the_documentation(tmp_path, monkeypatch, capsys):
    """That of ALBERT-TF2.0. tests/test_readme.py runs the other commands of the page."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "checkpoints.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^pretrain convert (--tf_hub_path=.*)$", page, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    write_checkpoint("base", make("albert", "encoder"), "tf1")  # is read as a module is
    code, out, _ = run(*command.split(), "--json", capsys=capsys)
    assert (code, json.loads(out)["written"]) == (0, ["base/tf2_model_full.h5"])


OTHERS = ("transformers", "torch", "safetensors", "huggingface_hub", "tokenizers", "h5py", "flax")


@pytest.mark.parametrize("family", ["bert", "albert", "mobilebert"])
@pytest.mark.parametrize("pickled", [False, True])
def test_hugging_face_folders_need_none_of_its_libraries(tmp_path, monkeypatch, family, pickled):
    for name in OTHERS:
        for loaded in [name, *(module for module in sys.modules if module.startswith(f"{name}."))]:
            monkeypatch.setitem(sys.modules, loaded, None)  # importing it fails
    checkpoint = make(family, "pretraining")
    write_checkpoint(tmp_path / "hf", checkpoint, "hf")
    if pickled:
        weights = tmp_path / "hf" / "model.safetensors"
        (tmp_path / "hf" / "pytorch_model.bin").write_bytes(as_archive(dict(safetensors.Safetensors(weights).items())))
        weights.unlink()
    again = read_checkpoint(str(tmp_path / "hf"))
    assert again.encoder.type == family
    assert again.weights.keys() == checkpoint.weights.keys()
    for path, array in checkpoint.weights.items():
        np.testing.assert_array_equal(again.weights[path], array, err_msg=path)


TRANSFORMERS = """
import json, sys
import numpy as np, torch, transformers
inputs = dict(np.load(sys.argv[1]))
for folder in sys.argv[2:]:
    name = json.load(open(folder + "/config.json"))["architectures"][0]
    model, said = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    unexpected = [key for key in said["unexpected_keys"] if ".pooler." not in key]  # question answering has no pooler there
    assert not said["missing_keys"] and not unexpected and not said["mismatched_keys"], (folder, said)
    model.eval()
    given = {key: torch.tensor(value).long() for key, value in inputs.items()}
    if name.endswith("ForMultipleChoice"):
        given = {key: value[None] for key, value in given.items()}  # the rows as choices of one example
    with torch.no_grad():
        found = model(
            input_ids=given["input_ids"], attention_mask=given["input_mask"], token_type_ids=given["segment_ids"]
        )
    np.savez(folder + "/out.npz", **{key: value.numpy() for key, value in found.items()})
"""
NAMES = {
    "last_hidden_state": "sequence_output",
    "pooler_output": "pooled_output",
    "prediction_logits": "mlm_logits",
    "seq_relationship_logits": "sentence_logits",
    "sop_logits": "sentence_logits",
    "logits": "logits",
}


def torch_python() -> str:
    """A Python with torch and transformers: this one, or $PRETRAIN_TORCH_PYTHON."""
    python = os.environ.get("PRETRAIN_TORCH_PYTHON", sys.executable)
    probe = subprocess.run([python, "-c", "import torch, transformers"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("needs torch and transformers, here or in the Python that PRETRAIN_TORCH_PYTHON names")
    return python


MODELS = [
    ("bert", "pretraining"),
    ("bert exact gelu", "pretraining"),
    ("bert odd", "encoder"),
    ("bert", "classifier"),
    ("albert groups", "pretraining"),
    ("albert exact gelu", "pretraining"),
    ("albert odd", "encoder"),
    ("albert square", "span"),
    ("albert square projected", "encoder"),
    ("mobilebert", "pretraining"),
    ("mobilebert", "classifier"),
    ("bert", "choice"),
    ("albert", "choice"),
    ("mobilebert", "choice"),
    ("mobilebert pooled", "pretraining"),
    ("mobilebert narrow", "encoder"),
]


@pytest.mark.slow
def test_transformers_loads_it_and_answers_the_same(tmp_path):
    python = torch_python()
    rng = np.random.default_rng(5)
    mask = (np.arange(12) < np.array([[12], [9], [4]])).astype(np.int32)
    inputs = {
        "input_ids": rng.integers(0, 60, (3, 12)).astype(np.int32),
        "input_mask": mask,
        "segment_ids": np.array([[0] * 6 + [1] * 6] * 3, np.int32),
    }
    np.savez(tmp_path / "inputs.npz", **inputs)
    folders = {case: tmp_path / "-".join(case).replace(" ", "_") for case in MODELS}
    for case, folder in folders.items():
        write_checkpoint(folder, make(*case), "hf")
    command = [python, "-c", TRANSFORMERS, tmp_path / "inputs.npz", *folders.values()]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr[-1500:]
    for (encoder, heads), folder in folders.items():
        checkpoint = make(encoder, heads)
        model = build_model(checkpoint)
        assign(model, checkpoint)
        ours = {name: np.asarray(value) for name, value in model(inputs).items()}
        if heads == "span":
            ours |= {"start_logits": ours["logits"][..., 0], "end_logits": ours["logits"][..., 1]}
        if heads == "choice":
            ours["logits"] = ours["logits"].T
        theirs = dict(np.load(folder / "out.npz"))
        assert theirs
        for name, value in theirs.items():
            own = ours[NAMES.get(name, name)]
            real = mask.astype(bool) if own.ndim > 1 and own.shape[1] == 12 else slice(None)
            assert np.abs(own - value)[real].max() < 2e-5, (encoder, heads, name)


PIPELINE = """
import json, sys
from transformers import pipeline
lines = open(sys.argv[1]).read().splitlines()
for folder in sys.argv[2:]:
    said = pipeline("text-classification", model=folder, tokenizer=folder, top_k=None)
    json.dump([{each["label"]: each["score"] for each in said([line])[0]} for line in lines], open(folder + "/said.json", "w"))
"""


@pytest.mark.slow
def test_transformers_pipeline_says_what_predict_says(tmp_path):
    """Softmax, sigmoid or the number itself, as problem_type says."""
    python = torch_python()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(55))]
    tokenizer = load_tokenizer(write(tmp_path / "vocab.txt", words), do_lower_case=True)
    (tmp_path / "in.txt").write_text("w1 w2 w30\nw50 w4\nw7\n")
    folders = {kind: tmp_path / kind for kind in ("classification", "multilabel", "regression")}
    for kind, folder in folders.items():
        checkpoint = make("bert", "classifier")
        rows = 1 if kind == "regression" else 3
        weights = {p: a[..., :rows] if p.startswith("classifier/") else a for p, a in checkpoint.weights.items()}
        extras = {"kind": kind, "label_names": [] if rows == 1 else ["a", "b", "c"]}
        write_checkpoint(folder, replace(checkpoint, weights=weights, extras=extras, tokenizer=tokenizer), "hf")
        predict(folder, tmp_path / "in.txt", tmp_path / f"{kind}.jsonl", format="jsonl")
    command = [python, "-c", PIPELINE, tmp_path / "in.txt", *folders.values()]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr[-1500:]
    for kind, folder in folders.items():
        ours = [json.loads(line) for line in (tmp_path / f"{kind}.jsonl").read_text().splitlines()]
        for row, said in zip(ours, json.loads((folder / "said.json").read_text()), strict=True):
            assert said == pytest.approx(row["scores"] or {"LABEL_0": row["prediction"]}, abs=1e-5)


TOKENIZERS = """
import json, sys
from transformers import AutoTokenizer
lines = json.load(open(sys.argv[1]))
for folder in sys.argv[2:]:
    said, text = AutoTokenizer.from_pretrained(folder), AutoTokenizer.from_pretrained(folder, split_special_tokens=True)
    pair = said("one two", "three")
    answer = {
        "ids": [said(line, add_special_tokens=False)["input_ids"] for line in lines],
        "as_text": [text(line, add_special_tokens=False)["input_ids"] for line in lines],
        "pair": [pair["input_ids"], pair["token_type_ids"]],
        "special": [said.pad_token_id, said.unk_token_id, said.cls_token_id, said.sep_token_id, said.mask_token_id],
        "size": len(said),
        "longest": said.model_max_length,
    }
    json.dump(answer, open(folder + "/answer.json", "w"))
"""
# The tokenizer, lower-cased, accents kept; lines of which transformers takes some text for special tokens.
TEXTS = [
    ("bert-base-uncased-vocab.txt", True, False, {36}),
    ("bert-base-cased-vocab.txt", False, True, {36}),
    ("30k-clean.model", True, False, {36, 38}),
    ("cased.model", False, True, {36, 38}),
]


@pytest.mark.slow
def test_transformers_gives_the_same_ids(tmp_path):
    """On 243 hard lines: all but one or two with special tokens in the text; WordPiece on all, where those are text too."""
    python = torch_python()
    lines = [
        json.loads(row)["text"] for row in shared("oracle", "tokenization", "lines.jsonl").read_bytes().splitlines()
    ]
    (tmp_path / "lines.json").write_text(json.dumps(lines))
    folders = []
    for file, lower, keep, _ in TEXTS:
        tokenizer = load_tokenizer(shared("oracle", "tokenization", file), do_lower_case=lower, keep_accents=keep)
        folders.append(tmp_path / file)
        folders[-1].mkdir()
        write_for_hugging_face(folders[-1], tokenizer, 512)
        kind = "bert" if tokenizer.kind == "wordpiece" else "albert"
        (folders[-1] / "config.json").write_text(json.dumps({"model_type": kind}))
    asked = subprocess.run(
        [python, "-c", TOKENIZERS, tmp_path / "lines.json", *folders], capture_output=True, text=True, check=False
    )
    assert asked.returncode == 0, asked.stderr[-1500:]
    for folder, (_, lower, keep, literal) in zip(folders, TEXTS, strict=True):
        answer = json.loads((folder / "answer.json").read_text())
        ours = load_tokenizer(folder)  # options are read back
        assert (ours.options()["do_lower_case"], ours.options()["keep_accents"]) == (lower, keep)
        ids, lengths = ours.encode(lines)
        wanted = [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]
        assert answer["as_text"] == wanted or ours.kind == "sentencepiece"
        assert {i for i, found in enumerate(answer["ids"]) if found != wanted[i]} == literal
        first, second = (ours.encode([text])[0].tolist() for text in ("one two", "three"))
        tokens = [ours.cls_id, *first, ours.sep_id, *second, ours.sep_id]
        assert answer["pair"] == [tokens, [0] * (len(first) + 2) + [1] * (len(second) + 1)]
        assert answer["special"] == [ours.pad_id, ours.unk_id, ours.cls_id, ours.sep_id, ours.mask_id]
        assert (answer["size"], answer["longest"]) == (ours.vocab_size, 512)


# Models of SentencePiece's other kinds and settings; how many of the lines may differ, where two segmentations score the same.
OTHERS = {
    "bpe": ({"model_type": "bpe"}, 0),
    "bpe bytes": ({"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity"}, 0),
    "characters": ({"model_type": "char", "hard_vocab_limit": True, "character_coverage": 0.99}, 0),
    "unigram": ({}, 3),
    "unigram symbols": ({"user_defined_symbols": ["the", "10", "package"]}, 3),
    "unigram across": ({"split_by_whitespace": False}, 3),
    "unigram folded": ({"normalization_rule_name": "nmt_nfkc_cf"}, 3),
}
AS_TEXT = """
import json, sys
from transformers import AutoTokenizer
lines = json.load(open(sys.argv[1]))
for folder in sys.argv[2:]:
    text = AutoTokenizer.from_pretrained(folder, split_special_tokens=True)
    json.dump([text(line, add_special_tokens=False)["input_ids"] for line in lines], open(folder + "/answer.json", "w"))
"""


def real_lines(step: int) -> list[str]:
    """Every n-th line of seven texts in six languages."""
    lines = []
    for file in sorted(shared("data", "ospl").glob("*.gz")):
        with gzip.open(file, "rt", encoding="utf-8", newline="\n") as text:
            lines += [line.rstrip("\n") for line in text if line.strip()][::step]
    return lines


@pytest.mark.slow
def test_transformers_gives_the_same_ids_of_other_models(tmp_path):
    """Cased, accents kept, on real lines; and AutoTokenizer stops where there is no rule that it could follow."""
    python = torch_python()
    lines = real_lines(40)
    (tmp_path / "lines.json").write_text(json.dumps(lines))
    folders = {}
    for name, (options, _) in OTHERS.items():
        defaults = {"vocab_size": 2000, "user_defined_symbols": [], "hard_vocab_limit": False, "split_by_number": True}
        model = train(tmp_path / "m.model", lines[::3], **(defaults | options))
        tokenizer = load_tokenizer(model, do_lower_case=False, keep_accents=True)
        folders[name] = tmp_path / name.replace(" ", "_")
        folders[name].mkdir()
        assert write_for_hugging_face(folders[name], tokenizer, 512) == []
        (folders[name] / "config.json").write_text(json.dumps({"model_type": "albert"}))
        ids, lengths = tokenizer.encode(lines)
        wanted = [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]
        (folders[name] / "wanted.json").write_text(json.dumps(wanted))
    command = [python, "-c", AS_TEXT, tmp_path / "lines.json", *folders.values()]
    asked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert asked.returncode == 0, asked.stderr[-1500:]
    for name, (_, differing) in OTHERS.items():
        wanted, found = (json.loads((folders[name] / f"{what}.json").read_text()) for what in ("wanted", "answer"))
        other = [line for line, a, b in zip(lines, wanted, found, strict=True) if a != b]
        assert len(other) <= differing, (name, other[:5])
        assert all(len(a) == len(b) for a, b in zip(wanted, found, strict=True) if differing), name
    model = train(tmp_path / "m.model", lines[:300], model_type="word", vocab_size=300, user_defined_symbols=[])
    notes = write_for_hugging_face(folders["bpe"], load_tokenizer(model), 512)
    (folders["bpe"] / "tokenizer.json").unlink()
    assert "pieces are whole words" in notes[0]
    asked = subprocess.run([*command[:4], folders["bpe"]], capture_output=True, text=True, check=False)
    assert "Tokenizer class SentencePieceProcessor does not exist" in asked.stderr


@pytest.mark.parametrize("kind", ["vocab.txt", "tokenizer.json", "small.model"])
def test_a_tokenizer_travels_along(source, kind, tmp_path, capsys):
    """What Hugging Face folders get of it, also of a tokenizer.json."""
    given = tmp_path / "given" / kind
    given.parent.mkdir()
    if kind == "small.model":
        train(given, ["abc fed had bad", "a cab fed a hag", "had a bag"], user_defined_symbols=[], vocab_size=50)
    else:
        entries = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", *(f"##{c}" for c in "abcdefgh")]
        write(given.with_name("vocab.txt"), entries)
    if kind == "tokenizer.json":
        given.write_text(json.dumps(tokenizer_json(load_tokenizer(given.with_name("vocab.txt")))[0]))
    code, _, err = run(
        *(source, tmp_path / "out", "--format", "hf", "--tokenizer", given, "--nodo_lower_case"), capsys=capsys
    )
    assert code == 0, err
    assert f"warning: the tokenizer {given} has " in err or kind == "small.model"
    name = "spiece.model" if kind == "small.model" else "vocab.txt"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *("README.md", "config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", name)
    }
    config = json.loads((tmp_path / "out" / "tokenizer_config.json").read_text())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert (config["mask_token"], config["model_max_length"], config["do_lower_case"]) == ("[MASK]", 20, False)
    ours, theirs = load_tokenizer(given, do_lower_case=False), load_tokenizer(tmp_path / "out")
    assert theirs.options() == ours.options()
    lines = ["abc Had fed", "[MASK]", "ÀB"]
    np.testing.assert_array_equal(ours.encode(lines)[0], theirs.encode(lines)[0])
    code, _, err = run(tmp_path / "out", tmp_path / "back", "--format", "native", capsys=capsys)
    assert code == 0, err
    assert load_tokenizer(find_tokenizer(tmp_path / "back")).options() == ours.options()
