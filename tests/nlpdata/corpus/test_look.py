"""The look at the start of a corpus: what is taken for text and is something else is reported, ordinary text is not."""

import gzip
import json
import textwrap
from functools import partial
from pathlib import Path

import pytest

from nlpdata.corpus import find_files
from nlpdata.corpus.look import dropped_accents, look_at
from nlpdata.text.albert import normalize_lines
from nlpdata.text.bert import BasicTokenizer
from tests.shared import shared

ROOT = Path(__file__).resolve().parents[3]
SENTENCES = [f"The fox number {i}, which was brown, jumped over a lazy dog." for i in range(60)]
TEXT = "\n".join(line + ("\n" if i % 7 == 6 else "") for i, line in enumerate(SENTENCES))
LONG = "\n".join(" ".join(SENTENCES[:40]) for _ in range(12))


def look(path: Path, content: str | bytes, **options) -> list[str]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return look_at(find_files([str(path)])[0], **{"invalid_utf8": "fail", "text_key": None, "pairs": True} | options)


ODD = {
    "JSON lines": (
        "a.txt",
        "\n".join(json.dumps({"id": str(i), "body": s}) for i, s in enumerate(SENTENCES)),
        "text_key='body'",
    ),
    "JSON lines, lists of texts": (
        "a.txt",
        "\n".join(json.dumps({"id": str(i), "body": [s, s]}) for i, s in enumerate(SENTENCES)),
        "text_key='body'",
    ),
    "JSON lines, text further inside": (
        "a.txt",
        "\n".join(json.dumps({"n": i, "doc": {"text": s}}) for i, s in enumerate(SENTENCES)),
        "None of the keys holds text",
    ),
    "a JSON array": ("a.json", json.dumps([{"text": s} for s in SENTENCES], indent=1), "jq -c"),
    "CSV": (
        "a.csv",
        "text,label\n" + "\n".join(f'"{s}",{i % 2}' for i, s in enumerate(SENTENCES)),
        "split-sentences --format csv makes a corpus of a column (--text-field)",
    ),
    "CSV under another name": (
        "a.txt",
        "id,text,label\n" + "\n".join(f"{i},fox {i},1" for i in range(40)),
        "3 columns with a comma",
    ),
    "TSV": ("a.txt", "\n".join(f"{s}\t{i}" for i, s in enumerate(SENTENCES)), "2 columns with a tab"),
    "HTML": (
        "a.txt",
        "<!DOCTYPE html>\n<html>\n" + "\n".join(f"<p>{s}</p>" for s in SENTENCES),
        "split-sentences --format html extracts its text",
    ),
    "HTML without a head": ("a.txt", "\n".join(f"{s} <br/>" for s in SENTENCES), "100% of its lines have tags"),
    "XML": ("a.txt", '<?xml version="1.0"?>\n' + "\n".join(f"<s>{s}</s>" for s in SENTENCES), "it is XML"),
    "Markdown": (
        "a.txt",
        "# Foxes\n\n" + "\n".join(f"## Fox {i}\n\n- {s}\n- {s} [more](x.md)\n" for i, s in enumerate(SENTENCES)),
        "100% of its lines begin with its marks, which are read as text. nlpdata split-sentences --format markdown",
    ),
    "paragraphs": (
        "a.txt",
        "\n\n".join(" ".join(SENTENCES[i : i + 4]) for i in range(0, 60, 4)).replace("dog", "hound"),
        "its lines hold 4.0 sentences on average, and a line should be one. nlpdata split-sentences makes",
    ),
    "one paragraph": ("a.txt", " ".join(SENTENCES[:12]).replace("dog", "hound"), "12.0 sentences"),
    "tokenized paragraphs": (
        "a.txt",
        "\n".join(" ".join(SENTENCES[i : i + 4]) for i in range(0, 60, 4)).replace("dog.", "hound ."),
        "its lines hold 4.0 sentences",
    ),
    "paragraphs in Chinese": ("a.txt", "\n".join(["狐狸跳過了懶狗。牠笑了！「為什麼？」牠問。"] * 9), "4.0 sentences"),
    "paragraphs in Hindi": ("a.txt", "\n".join(["यह एक लोमड़ी है। वह भूरी है। वह कूदी।"] * 9), "3.0 sentences"),
    "wrapped lines": (
        "a.txt",
        textwrap.fill(" ".join(SENTENCES), 72),
        "of its lines continue in the next one: sentences are wrapped over lines",
    ),
    "WikiExtractor": ("a.txt", '<doc id="1" url="u" title="t">\n' + TEXT + "\n</doc>", "--json"),
    "Markdown tables": ("a.txt", "\n".join(f"| {i} | {s} |" for i, s in enumerate(SENTENCES)), "rows of tables"),
    "a document a line": ("a.txt", LONG, "there is no blank line, and its lines have 2,"),
    "a document a line, blank lines": ("a.txt", LONG.replace("\n", "\n\n"), "Is each line a whole document?"),
    "replacement characters": ("a.txt", TEXT.replace("r", "\ufffd"), "are U+FFFD"),
    "UTF-8 encoded twice": ("a.txt", TEXT.replace("o", "é").encode().decode("latin-1"), "encoded again"),
    "control characters": ("a.txt", TEXT.replace("o", "\x02"), "control characters"),
}


@pytest.mark.parametrize("what", ODD)
def test_what_is_not_text(tmp_path, what):
    name, content, words = ODD[what]
    (line,) = look(tmp_path / name, content)
    assert line.startswith(f"{tmp_path / name}: ")
    assert words in line


def test_tokenized_text_of_a_unigram_vocabulary(tmp_path):
    apart = TEXT.replace(",", " ,").replace(".", " .")
    (line,) = look(tmp_path / "a.txt", apart, unigram=True)
    assert "100% of its commas and full stops" in line
    assert "type='bpe'" in line
    assert look(tmp_path / "a.txt", apart) == []
    assert look(tmp_path / "a.txt", TEXT, unigram=True) == []
    assert look(tmp_path / "a.txt", "\n".join(apart.splitlines()[:10]), unigram=True) == []  # too little to tell


def test_signs_that_are_dropped_like_accents(tmp_path):
    japanese, hindi = "サービスの プログラム\n" * 20, "हिन्दी में कल्पना\n" * 20
    (found,) = look(tmp_path / "a.txt", japanese, normalize=normalize_lines)
    assert "drops accents, and with them 60 signs of its 220 characters (27.3%)" in found
    assert "'ビ' becomes 'ヒ'. Keep them with keep_accents" in found
    (found,) = look(tmp_path / "a.txt", hindi, normalize=BasicTokenizer(do_lower_case=True, keep_accents=False).lines)
    assert "'न्' becomes 'न'" in found
    assert look(tmp_path / "a.txt", japanese) == []  # no accents are dropped
    assert look(tmp_path / "a.txt", japanese[:60], normalize=normalize_lines) == []  # too little to tell
    for text in ("é è ü Ångström\n" * 60, "שָׁלוֹם مُحَمَّد\n" * 60, "한국어 텍스트\n" * 60, "น้ำ\n" * 5):
        assert look(tmp_path / "a.txt", text, normalize=normalize_lines) == [], text


def test_lines_of_an_objective_that_takes_text_as_it_is(tmp_path):
    for what in ("paragraphs", "wrapped lines"):
        assert look(tmp_path / "a.txt", ODD[what][1], sentences=False, pairs=False) == []
    (line,) = look(tmp_path / "a.txt", ODD["paragraphs"][1])
    assert line.endswith("; or use objective='none', which takes text as it is")
    assert "objective=" not in look(tmp_path / "a.txt", ODD["paragraphs"][1], pairs=False)[0]


def test_accents_that_a_tokenizer_drops(tmp_path):
    french = "".join(f"Les élèves numéro {i} ont mangé la crème à midi.\n" for i in range(40))

    def dropped(text, normalize=normalize_lines):
        (tmp_path / "a.txt").write_text(text)
        return dropped_accents(find_files([str(tmp_path / "a.txt")])[0], normalize, invalid_utf8="fail", text_key=None)

    assert dropped(french) == (
        f"the tokenizer drops accents, 240 in the {len(french) - 40:,} characters that were looked at: 'é' becomes 'e'. nlpdata "
        "train-tokenizer --keep-accents makes a vocabulary that has them"
    )
    assert "'न्' becomes 'न'" in dropped("हिन्दी में कल्पना\n" * 60)
    assert dropped(french, partial(normalize_lines, keep_accents=True)) is None
    assert dropped(TEXT * 50 + french[:900]) is None  # a few names
    assert dropped("한국어 텍스트\n" * 60) is None


def test_ordinary_text(tmp_path):
    fine = {
        "text": TEXT,
        "few lines": "a,b\nc,d\n",
        "one comma a line": "\n".join(f"The fox {i}, brown" for i in range(40)),
        "mathematics": "\n".join(f"{i} < {i + 1} and b > a" for i in range(40)),
        "Chinese": "狐狸跳過了懶狗。\n" * 50,
        "nothing": "",
        "abbreviations": "Mr. Fox and Mrs. A. B. Fox, of the U.S. Navy, met Dr. Hare at 5 p.m. On we go.\n" * 50,
        "longer abbreviations": "Prices (approx. ten coins, incl. taxes, excl. tips) rose.\n" * 50,
        "short answers": "Yes. No. Why not?\n" * 50,
        "dialogues in Chinese": "「狐狸跳過了懶狗。」\n" * 50,
        "titles of one length": "A fox of the old forest\nA hare in the new garden\n" * 20,
        "small letters": textwrap.fill(" ".join(SENTENCES).lower(), 72),  # nothing tells sentences from lines
        "a list": "".join(f"- {s}\n" for s in SENTENCES),
        "one long line": "a " * 5000,
    }
    found = {name: look(tmp_path / "a.txt", content) for name, content in fine.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}
    corpora = [*map(str, ROOT.glob("examples/corpus/*.txt"))]
    assert look_at(find_files(corpora)[0], invalid_utf8="fail", text_key=None, pairs=True) == []


def test_json_lines_with_their_key(tmp_path):
    lines = [json.dumps({"text": f"{s}\n{s}"}) for s in SENTENCES]
    assert look(tmp_path / "a.jsonl", "\n".join(lines), text_key="text") == []
    lines = [json.dumps({"text": f"<p>{s}</p>"}) for s in SENTENCES]
    (line,) = look(tmp_path / "a.jsonl", "\n".join(lines), text_key="text")
    assert "have tags" in line


def test_compressed_and_many_files(tmp_path):
    (line,) = look(tmp_path / "a.csv.gz", gzip.compress(ODD["CSV"][1].encode()))
    assert "2 columns" in line
    for i in range(40):
        (tmp_path / f"{i}.txt").write_text(TEXT if i < 20 else ODD["TSV"][1])
    files = find_files([str(tmp_path / "*.txt")])[0]
    (line,) = look_at(files, invalid_utf8="fail", text_key=None)
    assert "more of the files looked at: its rows have 2 columns" in line


def test_what_cannot_be_read_is_left_to_the_command(tmp_path):
    assert look(tmp_path / "a.txt", b"caf\xe9 au lait\n" * 20) == []
    assert look(tmp_path / "a.jsonl", "no json\n" * 20, text_key="text") == []


def test_real_text_in_several_languages():
    folder = shared("data", "ospl")
    for path in [*sorted(Path(folder).glob("debian*.gz")), shared("data", "corpus_en", "bert_sample_text.txt")]:
        assert look_at(find_files([str(path)])[0], invalid_utf8="fail", text_key=None, unigram=True) == []


def test_real_text_one_sentence_a_line_and_as_paragraphs(tmp_path):
    """Recognised as what it is, in every language that is there; tokenized text, too."""
    files = sorted(Path(shared("data", "ospl")).glob("*.gz"))
    assert files
    for path in files:
        assert look_at(find_files([str(path)])[0], invalid_utf8="fail", text_key=None, pairs=True) == [], path.name
        lines = gzip.decompress(path.read_bytes()).decode().split("\n")[:2000]
        glue = "" if any(language in path.name for language in ("ja-JP", "zh-CN")) else " "
        for paragraphs in (
            "\n".join(glue.join(lines[at : at + 5]) for at in range(0, len(lines), 5)),
            glue.join(lines),
        ):
            (line,) = look(tmp_path / "a.txt", paragraphs)
            assert "sentences on average" in line or "characters on average" in line, path.name
