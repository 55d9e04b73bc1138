"""Fixtures shared by the tests of nlpdata's commands."""

import random

import pytest

from nlpdata.tokenizers.training.train import train_tokenizer


def random_sentences(count, seed=0, words=(3, 12)):
    """Sentences of made-up words, of a vocabulary large enough for a few hundred pieces."""
    rng = random.Random(seed)
    stems = ["".join(rng.choice("aeioutnsrlkmdg") for _ in range(rng.randint(2, 8))) for _ in range(400)]
    return [" ".join(rng.choice(stems) for _ in range(rng.randint(*words))) for _ in range(count)]


def random_documents(count, seed=0):
    """Documents of 3 to 12 sentences; every twentieth has 60."""
    rng = random.Random(seed)
    sizes = [60 if i % 20 == 7 else rng.randint(3, 12) for i in range(count)]
    sentences = iter(random_sentences(sum(sizes), seed))
    return [[next(sentences) for _ in range(size)] for size in sizes]


def as_text(documents, end="\n"):
    return (end + end).join(end.join(document) for document in documents) + end


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    """A SentencePiece model of 200 pieces."""
    folder = tmp_path_factory.mktemp("tiny_model")
    (folder / "text.txt").write_text("\n".join(random_sentences(1500, seed=0)) + "\n")
    train_tokenizer([str(folder / "text.txt")], str(folder / "spm"), vocab_size=200, workers=1)
    return folder / "spm.model"


@pytest.fixture(scope="session")
def corpus_folder(tmp_path_factory):
    """a.txt and b.txt, 200 documents in all. Read only: shared by all tests."""
    folder = tmp_path_factory.mktemp("corpus")
    documents = random_documents(200, seed=1)
    (folder / "a.txt").write_text(as_text(documents[:120]))
    (folder / "b.txt").write_text(as_text(documents[120:]))
    return folder
