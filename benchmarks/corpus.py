"""Builds the benchmark's corpus from named Debian documentation packages: 40 MB or more of distinct English text.

    python benchmarks/corpus.py --output /tmp/nlpdata-corpus     # downloads; en/*.txt and manifest.json
    python benchmarks/corpus.py --output ... --packages-from DIR         # packages that are there already

One sentence a line, a blank line between documents; a page is a document. Lines are kept once in the whole corpus, so
the text is distinct. Nothing depends on time or on the order of the file system: equal package versions give equal
files. Needs apt-get and dpkg-deb, no other rights than a folder to write to.
"""

import argparse
import gzip
import hashlib
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

# language -> package -> most bytes of text to take from it (a large package must not drown the others)
PACKAGES = {
    "en": {
        "python3.11-doc": 12 << 20,
        "postgresql-doc-15": 10 << 20,
        "libreoffice-help-en-us": 10 << 20,
        "gimp-help-en": 6 << 20,
        "linux-doc-6.1": 16 << 20,
        "rust-doc": 16 << 20,
    },
    "ja": {"libreoffice-help-ja": 6 << 20, "debian-reference-ja": 3 << 20},
    "zh": {"libreoffice-help-zh-cn": 6 << 20, "debian-reference-zh-cn": 3 << 20},
}
PAGES = (".html", ".html.gz", ".rst", ".rst.gz")
MIN_LINE, MIN_DOCUMENT = 20, 3  # characters (a fifth of it outside Latin script); lines
# A sentence ends at ". ", "? " or "! " before a capital, a digit or a quote, and at full-width marks.
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\"'(]?[A-Z0-9])|(?<=[。！？])")
_SKIPPED = {"script", "style", "nav", "head", "svg"}
_BLOCKS = {"p", "li", "td", "th", "dd", "dt", "h1", "h2", "h3", "h4", "h5", "div", "tr", "pre", "br", "section"}


class _Text(HTMLParser):
    """The text of a page; blocks are separated by line ends."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._skipped = 0

    def handle_starttag(self, tag, attributes):
        self._skipped += tag in _SKIPPED
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag):
        self._skipped = max(0, self._skipped - (tag in _SKIPPED))
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data):
        if not self._skipped:
            self.parts.append(data.replace("\n", " "))


def page_blocks(path: Path) -> Iterator[str]:
    """The paragraphs of a page, spaces collapsed."""
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8", "replace")
    if ".html" in path.name:
        parser = _Text()
        parser.feed(text)
        blocks = "".join(parser.parts).split("\n")
    else:
        blocks = re.split(r"\n\s*\n", text)
    for block in blocks:
        if block := " ".join(block.split()):
            yield block


def write_package(folder: Path, output: Path, limit: int, seen: set[bytes], least: int) -> dict[str, int]:
    """Writes the pages of an unpacked package as documents, until `limit` bytes; returns the counts."""
    pages = sorted(path for path in folder.rglob("*") if path.name.endswith(PAGES) and path.is_file())
    documents = lines = size = 0
    with open(output, "w", encoding="utf-8", newline="\n") as file:
        for path in pages:
            if size >= limit:
                break
            kept = []
            for block in page_blocks(path):
                for sentence in _SENTENCE.split(block):
                    digest = hashlib.blake2b(sentence.encode(), digest_size=8).digest()
                    if len(sentence) >= least and digest not in seen:
                        seen.add(digest)
                        kept.append(sentence)
            if len(kept) >= MIN_DOCUMENT:
                text = "\n".join(kept) + "\n\n"
                file.write(text)
                documents, lines, size = documents + 1, lines + len(kept), size + len(text.encode())
    return {"documents": documents, "lines": lines, "bytes": size}


def fetch(package: str, folder: Path) -> Path:
    """The package's .deb in `folder`, downloaded unless it is there."""
    if not any(folder.glob(f"{package}_*.deb")):
        subprocess.run(["apt-get", "download", package], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return sorted(folder.glob(f"{package}_*.deb"))[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, required=True, help="folder for <language>/<package>.txt, manifest.json")
    parser.add_argument("--packages-from", type=Path, help="folder of .deb files; default: <output>/packages")
    parser.add_argument("--languages", nargs="+", default=list(PACKAGES), choices=list(PACKAGES))
    args = parser.parse_args()
    packages = args.packages_from or args.output / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    manifest = {}
    for language in args.languages:
        seen: set[bytes] = set()
        (args.output / language).mkdir(parents=True, exist_ok=True)
        for package, limit in PACKAGES[language].items():
            archive = fetch(package, packages)
            version = subprocess.run(["dpkg-deb", "-f", archive, "Version"], check=True, capture_output=True, text=True)
            target = args.output / language / f"{package}.txt"
            with tempfile.TemporaryDirectory(dir=args.output) as folder:
                subprocess.run(["dpkg-deb", "-x", archive, folder], check=True)
                least = MIN_LINE if language == "en" else MIN_LINE // 5
                counts = write_package(Path(folder), target, limit, seen, least)
            name = f"{language}/{target.name}"
            sha256 = hashlib.sha256(target.read_bytes()).hexdigest()
            manifest[name] = {"package": package, "version": version.stdout.strip(), **counts, "sha256": sha256}
            print(f"{name}: {counts}", file=sys.stderr)
    (args.output / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
