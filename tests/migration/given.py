"""What several documents take for granted, as small as can be: text, questions, and published checkpoints."""

import json
import random
import re
import tarfile
from collections.abc import Sequence
from pathlib import Path

from pretrain.settings.fields import Choice
from tests.pages import ROOT, WORDS
from tests.pretrain.runs import tiny

_GOOD, _BAD = "house", "river"  # the word that decides whether a sentence of the stand-in for CoLA is acceptable


def give_text(path: Path, documents: int = 20, sentences: int = 8) -> None:
    """Text of words in `tests.pages.WORDS`: one sentence a line, a blank line between documents."""
    lines = [
        " ".join(f"w{5 + (7 * (document * sentences + number) + word) % 60}" for word in range(9))
        + "\n" * (1 + (number == sentences - 1))
        for document in range(documents)
        for number in range(sentences)
    ]
    path.write_text("".join(lines))


def squad(words: Sequence[str], count: int, version: str) -> dict:
    """SQuAD's JSON, v1.1 or v2.0: each question asks for the word after the tenth of its paragraph, of 30 words.

    Paragraphs have the same words in another order, so that they are equally long: a graph is made for each length.
    """
    chosen, paragraphs = random.Random(count), []
    for number in range(count):
        own = chosen.sample(words, 30)
        context, at = " ".join(own), len(" ".join(own[:10])) + 1
        question = {"id": f"{number}", "question": f"{own[8]} {own[9]}"}
        question["answers"] = [{"text": own[10], "answer_start": at}]
        if version == "v2.0":
            question["is_impossible"] = number % 2 == 1
            question["answers"] = [] if question["is_impossible"] else question["answers"]
        paragraphs.append({"context": context, "qas": [question]})
    return {"version": version, "data": [{"title": "t", "paragraphs": paragraphs}]}


def give_questions(folder: Path, words: Sequence[str], train: int = 24, dev: int = 4) -> None:
    """train-v1.1.json, dev-v1.1.json, and those of v2.0, in the folder. `words`: 30 of them."""
    folder.mkdir(exist_ok=True)
    for version in ("v1.1", "v2.0"):
        for split, count in (("train", train), ("dev", dev)):
            (folder / f"{split}-{version}.json").write_text(json.dumps(squad(words, count, version)))


def give_cola(folder: Path, words: Sequence[str], train: int = 160, dev: int = 60) -> None:
    """CoLA's files in a new folder: the last word of a sentence decides whether it is acceptable."""
    chosen = random.Random(1)

    def sentence(label: int) -> str:
        return " ".join([*chosen.sample(words[:5], 5), _GOOD if label else _BAD])

    folder.mkdir(parents=True)
    for split, count in (("train", train), ("dev", dev)):
        rows = [f"x\t{i % 2}\t\t{sentence(i % 2)}" for i in range(count)]
        (folder / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    rows = [f"{i}\t{sentence(i % 2)}" for i in range(20)]
    (folder / "test.tsv").write_text("\n".join(["index\tsentence", *rows]) + "\n")


def give_race(folder: Path, words: Sequence[str]) -> None:
    """RACE in a new folder, {train,dev,test}/{middle,high}/all.txt: the right choice is in the article."""
    chosen = random.Random(2)
    for split, articles in (("train", 12), ("dev", 4), ("test", 4)):
        for level in ("middle", "high"):
            place = folder / split / level
            place.mkdir(parents=True)
            lines = []
            for number in range(articles):
                own = chosen.sample(words, 14)
                right, wrong = own[:2], own[10:]
                options = [[*wrong[:at], word, *wrong[at:3]] for at, word in enumerate(right)]
                questions = [f"{own[2]} _ {own[3]}.", f"What is in {own[4]}?"]
                article = {"id": f"{level}{number}.txt", "article": " ".join(own[:10]), "questions": questions}
                lines.append(json.dumps(article | {"options": options, "answers": ["A", "B"]}))
            (place / "all.txt").write_text("\n".join(lines) + "\n")


def give_english(folder: Path) -> list[str]:
    """Three English texts in a new folder; returns 30 of their words."""
    folder.mkdir()
    words: list[str] = []
    for name in ("english_house", "english_town", "english_nature"):
        text = (ROOT / "examples" / "corpus" / f"{name}.txt").read_text(encoding="utf-8")
        (folder / f"{name}.txt").write_text(text)
        words += re.findall(r"[a-z]{3,}", text)
    return sorted(dict.fromkeys(words), key=lambda word: (len(word), word))[:30]


def give_bert(folder: Path, format: str) -> None:
    """A BERT of one layer with the vocabulary `tests.pages.WORDS`, as a new folder in a format of published checkpoints."""
    _write(folder, tiny("bert", max_position_embeddings=128), format)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")


def give_albert(folder: Path, texts: str) -> None:
    """A released ALBERT of one layer, as a new folder: model.ckpt-best, albert_config.json, 30k-clean.model."""
    from nlpdata import train_tokenizer

    _write(folder, tiny("albert", vocab_size=400, max_position_embeddings=512), "tf1")
    train_tokenizer(texts, str(folder / "30k-clean"), vocab_size=400, workers=1)
    (folder / "30k-clean.tokenizer.json").unlink()  # a published model comes without


def pack_module(albert: Path, archive: Path) -> None:
    """A checkpoint of `give_albert` as a module of TensorFlow Hub, e.g. google/albert_base/2, in a tar archive."""
    with tarfile.open(archive, "w:gz") as packed:
        for path in sorted(albert.iterdir()):
            suffix = path.name.removeprefix("model.ckpt-best")
            packed.add(path, f"./variables/variables{suffix}" if suffix != path.name else f"./assets/{path.name}")
        for name in ("saved_model.pb", "tfhub_module.pb"):
            packed.addfile(tarfile.TarInfo(f"./{name}"))


def unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11 has it from 3.11.4 on
        packed.extractall(folder)


def _write(folder: Path, encoder: Choice, format: str) -> None:
    import numpy as np

    from pretrain.converters import Checkpoint
    from pretrain.converters.write import write_checkpoint
    from pretrain.encoders.model import build_encoder, new_model, weights_by_path

    model = new_model(build_encoder(encoder), {}, 0)
    weights = {path: np.asarray(weight) for path, weight in weights_by_path(model).items()}
    write_checkpoint(folder, Checkpoint("native", "tests", encoder, weights), format)
