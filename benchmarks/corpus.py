"""Builds the benchmark's corpus from named Debian documentation packages: English (40 MB and more), ja, zh and ar.

    python benchmarks/corpus.py --output /tmp/nlpdata-corpus             # downloads; <language>/*.txt and manifest.json
    python benchmarks/corpus.py --output ... --packages-from DIR         # packages that are there already

One sentence a line, a blank line between documents; a page is a document. A sentence is kept once in a language, and
in other languages than English only where it is written in that language's script, so that the text is distinct and
untranslated pages are left out. Nothing depends on time or on the order of the file system: equal package versions
give equal files. Needs apt-get and dpkg-deb (Debian 12), no other rights than a folder to write to.
"""

import argparse
import gzip
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

from measure import own_folder


@dataclass(frozen=True)
class Package:
    """Pages to take: a package, a folder in it (of a package in many languages), and most bytes of text to keep."""

    name: str
    folder: str = ""
    limit: int = 6 << 20


HANDBOOK = "usr/share/doc/debian-handbook/html"
PACKAGES = {
    "en": [
        Package("python3.11-doc", limit=12 << 20),
        Package("postgresql-doc-15", limit=10 << 20),
        Package("libreoffice-help-en-us", limit=10 << 20),
        Package("gimp-help-en"),
        Package("linux-doc-6.1", limit=16 << 20),
        Package("rust-doc", limit=12 << 20),
        Package("debian-handbook", f"{HANDBOOK}/en-US"),
        Package("gnome-user-docs", "usr/share/help/C"),
    ],
    "ja": [
        Package("libreoffice-help-ja"),
        Package("debian-reference-ja"),
        Package("debian-policy-ja"),
        Package("aptitude-doc-ja"),
        Package("debian-handbook", f"{HANDBOOK}/ja-JP"),
        Package("gnome-user-docs", "usr/share/help/ja"),
    ],
    "zh": [
        Package("libreoffice-help-zh-cn"),
        Package("debian-reference-zh-cn"),
        Package("debian-handbook", f"{HANDBOOK}/zh-CN"),
        Package("gnome-user-docs", "usr/share/help/zh_CN"),
    ],
    "ar": [Package("debian-handbook", f"{HANDBOOK}/ar-MA")],  # Debian has no other long text in Arabic: 0.7 MB
}
ENGLISH_BYTES = 40 << 20
SCRIPTS = {"ja": r"[\u3040-\u30ff\u4e00-\u9fff]", "zh": r"[\u4e00-\u9fff]", "ar": r"[\u0600-\u06ff]"}
MARKUP, TEXT = (".html", ".html.gz", ".page"), (".rst", ".rst.gz")
MIN_LINE, MIN_DOCUMENT = 20, 3  # characters (a fifth of it outside Latin script); lines
# A sentence ends at ". ", "? " or "! " before a capital, a digit or a quote, and at marks of other scripts.
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\"'(]?[A-Z0-9])|(?<=[。！？])|(?<=[.!؟])\s+(?=[\u0600-\u06ff])")
_SKIPPED = {"script", "style", "nav", "head", "svg", "info"}
_BLOCKS = {"p", "li", "td", "th", "dd", "dt", "h1", "h2", "h3", "h4", "h5", "div", "tr", "pre", "br", "section"}
_BLOCKS |= {"title", "item", "note", "code", "page"}  # of GNOME's help pages


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

    def handle_startendtag(self, tag, attributes):
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
    if path.name.endswith(MARKUP):
        parser = _Text()
        parser.feed(text)
        blocks = "".join(parser.parts).split("\n")
    else:
        blocks = re.split(r"\n\s*\n", text)
    for block in blocks:
        if block := " ".join(block.split()):
            yield block


def is_kept(sentence: str, language: str) -> bool:
    """True of a sentence that is long enough and, outside English, has a third of its characters in the script."""
    if language == "en":
        return len(sentence) >= MIN_LINE
    return len(sentence) >= MIN_LINE // 5 and 3 * len(re.findall(SCRIPTS[language], sentence)) >= len(sentence)


def write_package(folder: Path, output: Path, limit: int, language: str, seen: set[bytes]) -> dict[str, int]:
    """Writes the pages under `folder` as documents, until `limit` bytes; returns the counts. `seen` is added to."""
    pages = sorted(path for path in folder.rglob("*") if path.name.endswith(MARKUP + TEXT) and path.is_file())
    documents = lines = size = 0
    with open(output, "w", encoding="utf-8", newline="\n") as file:
        for path in pages:
            if size >= limit:
                break
            kept = []
            for sentence in (part for block in page_blocks(path) for part in _SENTENCE.split(block)):
                digest = hashlib.blake2b(sentence.encode(), digest_size=8).digest()
                if digest not in seen and is_kept(sentence, language):
                    seen.add(digest)
                    kept.append(sentence)
            if len(kept) >= MIN_DOCUMENT:
                text = "\n".join(kept) + "\n\n"
                file.write(text)
                documents, lines, size = documents + 1, lines + len(kept), size + len(text.encode())
    return {"documents": documents, "lines": lines, "bytes": size}


def run(*argv, cwd: Path | None = None) -> str:
    """What a tool prints; where it fails, ends the script (exit 1) with its message."""
    done = subprocess.run([str(word) for word in argv], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"corpus.py: {' '.join(map(str, argv))}: exit {done.returncode}\n{done.stderr.strip()}")
    return done.stdout.strip()


def fetch(package: str, folder: Path) -> Path:
    """The package's .deb in `folder`, downloaded unless it is there."""
    if not any(folder.glob(f"{package}_*.deb")):
        if not run("apt-cache", "madison", package):
            sys.exit(
                f"corpus.py: apt knows no package {package}. Run `apt-get update`; on another release than Debian 12, "
                "put a package of that release in its place (PACKAGES in this file)"
            )
        run("apt-get", "download", package, cwd=folder)
    return sorted(folder.glob(f"{package}_*.deb"))[-1]


def build(languages: list[str], output: Path, packages: Path) -> None:
    """Writes the files of the languages, and the manifest last."""
    manifest = {}
    (output / "manifest.json").unlink(missing_ok=True)
    for language in languages:
        seen: set[bytes] = set()
        shutil.rmtree(output / language, ignore_errors=True)
        (output / language).mkdir(parents=True)
        for package in PACKAGES[language]:
            archive = fetch(package.name, packages)
            target = output / language / f"{package.name}.txt"
            with tempfile.TemporaryDirectory(dir=output) as unpacked:
                run("dpkg-deb", "-x", archive, unpacked)
                counts = write_package(Path(unpacked, package.folder), target, package.limit, language, seen)
            if not counts["documents"]:
                sys.exit(f"corpus.py: {archive.name} has no page in {language} under /{package.folder}")
            version, sha256 = run("dpkg-deb", "-f", archive, "Version"), hashlib.sha256(target.read_bytes()).hexdigest()
            manifest[f"{language}/{target.name}"] = {"version": version, **counts, "sha256": sha256}
            print(f"{language}/{target.name}: {counts}", file=sys.stderr, flush=True)
        size = sum(entry["bytes"] for name, entry in manifest.items() if name.startswith(f"{language}/"))
        print(f"{language}: {size / 1e6:.1f} MB", file=sys.stderr)
        if language == "en" and size < ENGLISH_BYTES:
            sys.exit(f"corpus.py: {size} bytes of English are fewer than the {ENGLISH_BYTES} that the targets speak of")
    (output / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", type=Path, required=True, help="folder for <language>/<package>.txt, manifest.json")
    parser.add_argument("--packages-from", type=Path, help="folder of .deb files; default: <output>/packages")
    parser.add_argument("--languages", nargs="+", default=list(PACKAGES), choices=list(PACKAGES))
    args = parser.parse_args()
    missing = [tool for tool in ("apt-get", "apt-cache", "dpkg-deb") if not shutil.which(tool)]
    if missing:
        sys.exit(f"corpus.py: needs {', '.join(missing)}: run it on Debian, or name other text with --input")
    args.output = own_folder(args.output)
    packages = args.packages_from or args.output / "packages"
    packages.mkdir(parents=True, exist_ok=True)
    build(args.languages, args.output, packages.resolve())


if __name__ == "__main__":
    main()
