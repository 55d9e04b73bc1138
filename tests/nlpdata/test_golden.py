"""The bytes of records and vocabularies, as hashes: a change of what users get from the same input is a decision.

The tokenizers in golden/ were trained on examples/corpus. Where a change of bytes is meant, the failing test shows the new
hash for golden/hashes.json, and docs/differences.md or the release notes say what changed.
"""

import hashlib
import json
from pathlib import Path

import pytest

import nlpdata
from tests.nlpdata.finetuning.texts import squad, write

GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
HASHES = json.loads((GOLDEN / "hashes.json").read_text())
TOKENIZERS = ("spm.model", "vocab.txt")
PRETRAINING = {
    "sop": {},
    "nsp": {"objective": "nsp"},
    "nsp, by file": {"objective": "nsp", "nsp_scope": "file", "weight": 1},
    "none": {"objective": "none"},
    "sop, dynamic": {"masking": "dynamic"},
    "packed": {"objective": "none", "pack_across_documents": True, "masking": "dynamic", "short_seq_prob": 0.0},
    "pieces, v2": {"whole_word": False, "max_ngram": 1, "feature_names": "v2"},
}
REVIEWS = {"pos": "A lovely house by the river.<br />We stayed all summer.", "neg": "Rain, mud and an empty town."}
ROWS = [
    ("The garden was full of roses", "Roses grew there", "a,b", "0.5"),
    ("Nobody came to the market", "The square was crowded", "", "3"),
    ("She works at night", "She sleeps at noon", "c", "4.25"),
    ("Der Zug kommt um 7,30 Uhr", "The train is late", "b", "1"),
]


def hashes_of(result):
    """One hash a file, train shards after those of other splits: a record that moves to another shard shows."""
    files = [file for split in sorted(result.files) for file in result.files[split]]
    return [hashlib.sha256(Path(file).read_bytes()).hexdigest()[:16] for file in files]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    """The examples and texts with what they lack: a document of 2,300 sentences, CRLF, JSON-like text, a weight."""
    folder = tmp_path_factory.mktemp("corpus")
    long = [f"Sentence {i} of the long document says {i * i % 97} things." for i in range(2300)]
    (folder / "long.txt").write_text("\n".join(long) + "\n\nA second one.\nIt is short.\n")
    (folder / "windows.txt").write_bytes(
        b"One house.\r\nTwo gardens.\r\n\r\nThree rivers.\r\nFour towns, {5} roads.\r\n"
    )
    return [f"{EXAMPLES}/corpus/*.txt", f"{folder}/long.txt", f"{folder}/windows.txt"]


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("name", PRETRAINING)
def test_pretraining_records(tmp_path, corpus, name, tokenizer):
    options = {"eval_fraction": 0.2, "dupe_factor": 2, "max_seq_length": 64, "workers": 1} | PRETRAINING[name]
    *others, last = corpus
    weight = options.pop("weight", 1.5)
    if options.get("nsp_scope") == "file":  # a file of one document has no other
        others, last, options["eval_fraction"] = corpus[:1], corpus[2], 0.0
    result = nlpdata.create_pretraining(
        [*others, f"{last}@{weight}"], str(tmp_path / "x"), GOLDEN / tokenizer, num_shards=2, **options
    )
    assert hashes_of(result) == HASHES.get(f"{tokenizer}, {name}")


@pytest.fixture(scope="module")
def datasets(tmp_path_factory):
    """task -> its input and options: the examples, and small sets of each kind."""
    folder = tmp_path_factory.mktemp("datasets")
    rows = write(folder / "rows.tsv", ["a", "b", "many", "score"], *map(list, ROWS))
    for split in ("train", "test"):
        for number, (label, text) in enumerate(sorted(REVIEWS.items())):
            write(folder / "aclImdb" / split / label / f"{number}_7.txt", f"{text} ({split})")
    context = "The mill stood by the river for two hundred years. " * 9 + "It burned down in 1911."
    questions = [
        ("q1", "When did it burn down?", [("1911", len(context) - 5)], False),
        ("q2", "Who built it?", [], True),
    ]
    return {
        "classification": (EXAMPLES / "languages.tsv", {"eval_fraction": 0.25}),
        "pair": (rows, {"text_column": "a", "text_b_column": "b", "label_column": "score"}),
        "regression": (rows, {"text_column": "a", "label_column": "score", "feature_names": "v2"}),
        "multilabel": (rows, {"text_column": "a", "label_column": "many"}),
        "imdb": (folder / "aclImdb", {}),
        "squad": (squad(folder / "squad.json", (context, *questions)), {"doc_stride": 16, "max_query_length": 16}),
    }


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
@pytest.mark.parametrize("task", ["classification", "pair", "regression", "multilabel", "imdb", "squad"])
def test_finetuning_records(tmp_path, datasets, task, tokenizer):
    source, options = datasets[task]
    result = nlpdata.create_finetuning(
        source, str(tmp_path / "x"), GOLDEN / tokenizer, task=task, max_seq_length=64, workers=1, **options
    )
    assert hashes_of(result) == HASHES.get(f"{tokenizer}, {task}")


@pytest.mark.parametrize("task", ["classification", "imdb", "squad"])
def test_finetuning_records_in_shards(tmp_path, datasets, task):
    """Shards of unequal sizes, and one without records where a split has fewer than three."""
    source, options = datasets[task]
    result = nlpdata.create_finetuning(
        source,
        str(tmp_path / "x"),
        GOLDEN / "vocab.txt",
        task=task,
        max_seq_length=64,
        workers=1,
        num_shards=3,
        **options,
    )
    assert hashes_of(result) == HASHES.get(f"{task} in 3 shards")


@pytest.mark.parametrize("tokenizer", TOKENIZERS)
def test_vocabularies(tmp_path, tokenizer):
    kind = "wordpiece" if tokenizer == "vocab.txt" else "unigram"
    result = nlpdata.train_tokenizer(
        f"{EXAMPLES}/corpus/*.txt", tmp_path / Path(tokenizer).stem, vocab_size=800, type=kind
    )
    assert Path(result.path).read_bytes() == (GOLDEN / tokenizer).read_bytes()
