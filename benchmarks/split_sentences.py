"""What split-sentences costs, in MB per CPU second, and how often the ends of its sentences are right, next to other splitters.

    python benchmarks/split_sentences.py --lines en=en.txt.gz --lines zh=zh.txt.gz --work /tmp/nlpdata-split [--peers FOLDER]

--lines: text of a language, one sentence a line, blank lines between documents; may be given again.
--peers: where `pip install --target FOLDER pysbd syntok blingfire` put other splitters; those that are there are compared.

For F1, lines that end with a mark are joined again, five a paragraph; an end that is found is right where a line ended. The end of
a paragraph does not count. For speed, the first language's text is wrapped at 80 columns and is split in this process, by one
worker: reading, splitting, writing and the commit. All CPU seconds are of this process; medians of rounds in turn.
"""

import argparse
import gzip
import json
import random
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from measure import cpu_of, in_turn, own_folder, table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from nlpdata import split_sentences  # noqa: E402
from nlpdata.corpus.splitting.sentences import ParagraphSplitter, join_lines  # noqa: E402

MARKS = ".!?。！？।؟"
PARAGRAPH = 5  # lines
SLOW_BYTES = 300_000  # of each language, for splitters that take long
RUNS = {  # what is measured -> options of split_sentences
    "split": {},
    "split, equal documents left out": {"deduplicate_documents": True},
    "split, equal documents and lines left out": {"deduplicate_documents": True, "deduplicate_lines": True},
    "split, language identified": {"language": "auto"},
    "split, letters of a script counted": {"scripts": ["Latin"]},
    "split, similar documents left out": {"near_duplicates": 0.8},
}

Split = Callable[[str], Sequence[str]]


def read_documents(path: str) -> list[list[str]]:
    """The documents of a file, each a list of lines."""
    opened = gzip.open if path.endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        texts = file.read().split("\n\n")
    return [lines for text in texts if (lines := [" ".join(line.split()) for line in text.split("\n") if line.strip()])]


def paragraphs_of(documents: Sequence[Sequence[str]]) -> list[list[str]]:
    """Lines with a mark at their end, five by five."""
    lines = [line for document in documents for line in document if line[-1] in MARKS]
    return [lines[i : i + PARAGRAPH] for i in range(0, len(lines) - PARAGRAPH + 1, PARAGRAPH)]


def ours(language: str) -> Split:
    splitter = ParagraphSplitter(language)
    return lambda text: splitter.add([text]) + splitter.end()


def peers_of(language: str) -> dict[str, Split]:
    """The other splitters that are installed and know the language."""
    found: dict[str, Split] = {}
    try:
        import pysbd

        found["pysbd"] = pysbd.Segmenter(language=language, clean=False).segment
    except (ImportError, ValueError):
        pass
    try:
        from syntok import segmenter

        def by_syntok(text: str) -> list[str]:
            return [
                "".join(token.spacing + token.value for token in sentence)
                for paragraph in segmenter.process(text)
                for sentence in paragraph
            ]

        if language in ("en", "de", "es"):
            found["syntok"] = by_syntok
    except ImportError:
        pass
    try:
        import blingfire

        found["blingfire"] = lambda text: blingfire.text_to_sentences(text).split("\n")
    except (ImportError, OSError):
        pass
    return found


def ends(lines: Sequence[str]) -> set[int]:
    """Where lines end but the last one, in characters that are not white space."""
    at, found = 0, set()
    for line in lines[:-1]:
        at += len("".join(line.split()))
        found.add(at)
    return found


def score(paragraphs: Sequence[Sequence[str]], texts: Sequence[str], split: Split) -> tuple[float, float]:
    """(F1 of the ends, MB per CPU second of the splitter alone)"""
    made: list[Sequence[str]] = []
    seconds = cpu_of(lambda: made.extend(map(split, texts)))
    right = found = wanted = 0
    for lines, sentences in zip(paragraphs, made, strict=True):
        expected, told = ends(lines), ends([each for each in sentences if each.strip()])
        right, found, wanted = right + len(expected & told), found + len(told), wanted + len(expected)
    return 2 * right / (found + wanted), megabytes(texts) / seconds


def megabytes(texts: Sequence[str]) -> float:
    return sum(len(text.encode()) for text in texts) / 1e6


def compare(lines: dict[str, str]) -> str:
    """F1 and speed of all splitters by language."""
    rows = []
    for language, path in lines.items():
        paragraphs = paragraphs_of(read_documents(path))
        texts = [join_lines(each) for each in paragraphs]
        size, part = 0, 0
        while part < len(texts) and size < SLOW_BYTES:
            size, part = size + len(texts[part].encode()), part + 1
        for name, split in {"nlpdata (sentencex)": ours(language), **peers_of(language)}.items():
            count = len(texts) if name.startswith("nlpdata") else part
            f1, speed = score(paragraphs[:count], texts[:count], split)
            rows.append([language, name, f"{f1:.3f}", f"{speed:.1f}", f"{(PARAGRAPH - 1) * count:,}"])
    return table(["language", "splitter", "F1", "MB per CPU second", "ends"], rows)


def write_raw(documents: Sequence[Sequence[str]], folder: Path) -> float:
    """Wrapped text in paragraphs, a JSON line each; a tenth of the documents a second time. Its megabytes."""
    rng = random.Random(1)
    texts = []
    for lines in documents:
        parts = [textwrap.fill(join_lines(lines[i : i + PARAGRAPH]), 80) for i in range(0, len(lines), PARAGRAPH)]
        texts.append("\n\n".join(parts))
    texts += rng.sample(texts, len(texts) // 10)
    folder.mkdir(exist_ok=True)
    rows = [json.dumps({"text": text}, ensure_ascii=False) for text in texts]
    (folder / "raw.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return megabytes(texts)


def costs(language: str, path: str, work: Path, rounds: int) -> str:
    """MB per CPU second of the command's function, by its options."""
    size = write_raw(read_documents(path), work / "raw")

    def run(options: dict) -> Callable[[], float]:
        given = {"language": language, "line_breaks": "join"} | options

        def once() -> float:
            output = str(work / "out.txt")
            start = time.process_time()
            split_sentences(str(work / "raw" / "raw.jsonl"), output, workers=1, overwrite=True, **given)
            return time.process_time() - start

        once()  # imports
        return once

    seconds = in_turn({name: run(options) for name, options in RUNS.items()}, rounds)
    rows = [
        [name, f"{size / spent:.1f}", "" if name == "split" else f"{size / max(spent - seconds['split'], 1e-9):.1f}"]
        for name, spent in seconds.items()
    ]
    head = ["options", f"MB per CPU second ({size:.1f} MB, {language})", "of what is added alone"]
    return table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", action="append", required=True, metavar="LANGUAGE=FILE")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    if given.peers:
        sys.path.insert(0, str(given.peers))
    work = own_folder(given.work)
    lines = dict(each.split("=", 1) for each in given.lines)
    language, path = next(iter(lines.items()))
    print(costs(language, path, work, given.rounds))
    print()
    print(compare(lines))


if __name__ == "__main__":
    main()
