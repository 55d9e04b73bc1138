"""Raw documents for tests, and what is to be expected of them, computed plainly."""

import json
import random

from tests.nlpdata.conftest import random_sentences

BOILERPLATE = ["Subscribe to our newsletter today.", "All rights reserved."]


def raw_documents(count, seed=0):
    """Documents of paragraphs of sentences; some documents occur again, some share a sentence, some differ in one."""
    rng = random.Random(seed)
    sentences = [f"{each.capitalize()}!" for each in random_sentences(count * 12, seed)]
    documents = []
    for i in range(count):
        if i > 5 and rng.random() < 0.15:
            documents.append(documents[rng.randrange(i)])
            continue
        if i > 5 and rng.random() < 0.1:
            *first, last = documents[rng.randrange(i)]
            documents.append([*first, [*last, sentences.pop()]])
            continue
        document = [[sentences.pop() for _ in range(rng.randint(1, 4))] for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.3:
            document.append([rng.choice(BOILERPLATE)])
        documents.append(document)
    return documents


def as_raw_text(document, width=40):
    """Wrapped paragraphs with blank lines between them."""
    paragraphs = []
    for sentences in document:
        lines = [""]
        for word in " ".join(sentences).split():
            if len(lines[-1]) + len(word) > width:
                lines.append("")
            lines[-1] += f"{' ' if lines[-1] else ''}{word}"
        paragraphs.append("\n".join(lines))
    return "\n\n".join(paragraphs) + "\n"


def write_raw(folder, documents):
    """The first half of the documents as text files, the others in two files of JSON lines."""
    folder.mkdir(parents=True, exist_ok=True)
    half = len(documents) // 2
    for i, document in enumerate(documents[:half]):
        (folder / f"a{i:03d}.txt").write_text(as_raw_text(document))
    middle = half + (len(documents) - half) // 2
    for name, part in (("b", documents[half:middle]), ("c", documents[middle:])):
        rows = [json.dumps({"id": i, "text": as_raw_text(document, 10_000)}) for i, document in enumerate(part)]
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")


def flat(document):
    return [sentence for paragraph in document for sentence in paragraph]


def plainly(documents, equal_documents, equal_lines):
    """What stays of documents, each a list of sentences, by a loop over all of them."""
    known_documents, known_lines, kept = set(), set(), []
    for sentences in documents:
        if equal_documents and tuple(sentences) in known_documents:
            continue
        known_documents.add(tuple(sentences))
        stay = []
        for sentence in sentences:
            if not (equal_lines and sentence in known_lines):
                stay.append(sentence)
            known_lines.add(sentence)
        if stay:
            kept.append(stay)
    return kept


def as_corpus(documents):
    return "\n".join("\n".join([*sentences, ""]) for sentences in documents)
