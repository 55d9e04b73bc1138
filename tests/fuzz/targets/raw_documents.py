"""Raw documents of every format, damaged, and odd options: the whole of split-sentences."""

import io
import json

import nlpdata
from tests.fuzz.cases import Case, target

TEXT = "Dr. Smith went home. He said: “No.” Then\nhe slept.\n\nA second paragraph. 中文。第二句。 Wo? Da!\n" * 6
MARKDOWN = """---
a: b
---
# A *title*

- item [link](x)
  > quoted

```
code
```

| a | b |
|---|---|
| 1 | 2 |

<b>x</b> y. Z.
"""
PAGE = f"""<!DOCTYPE html><html><head><meta charset=utf-8><title>t</title></head><body><nav><a href=x>n</a></nav>
<article><h1>H</h1><p>{TEXT}</p><ul><li>i</ul><table><tr><td>c</table><pre>p</pre></article></body></html>"""
ROWS = [{"id": i, "text": f"A text.\nIts second line, {i}.\n\nAnd “more”, of it."} for i in range(10)]


def split(case: Case, name: str, content: bytes) -> None:
    draw = case.draw
    options: dict = {
        "invalid_utf8": draw.choice(("fail", "replace", "skip")),
        "on_bad_row": draw.choice(("fail", "skip")),
        "line_breaks": draw.choice((None, "join", "end")),
        "language": draw.choice(("en", "zh", "th", "auto", "xx")),
        "max_sentence_bytes": draw.choice((16, 64, 2048)),
        "chunk_size": draw.choice((500, 1 << 20)),
    }
    options |= draw.choice(({}, {"deduplicate_lines": True}, {"deduplicate_documents": True}, {"near_duplicates": 0.5}))
    options |= draw.choice(({}, {"scripts": ["Latin", "Han"]}, {"keep_languages": ["en"]}, {"min_characters": 5}))
    nlpdata.split_sentences(str(case.write(name, content)), str(case.folder / "out.txt"), workers=1, **options)


@target("raw_documents/text")
def _text(case: Case) -> None:
    split(case, "a.txt", case.damaged(TEXT))


@target("raw_documents/markdown")
def _markdown(case: Case) -> None:
    split(case, "a.md", case.damaged(MARKDOWN))


@target("raw_documents/html")
def _html(case: Case) -> None:
    split(case, "a.html", case.damaged(PAGE))


@target("raw_documents/jsonl")
def _jsonl(case: Case) -> None:
    rows = [
        case.odd_json(row).replace(b"\n", b" ") if case.draw.random() < 0.2 else json.dumps(row).encode()
        for row in ROWS
    ]
    split(case, "a.jsonl", b"\n".join(rows))


@target("raw_documents/csv")
def _csv(case: Case) -> None:
    rows = "".join(f'{row["id"]},"{row["text"]}"\n' for row in ROWS)
    split(case, case.draw.choice(("a.csv", "a.tsv")), case.damaged(f"id,text\n{rows}"))


@target("raw_documents/parquet")
def _parquet(case: Case) -> None:
    import pyarrow
    import pyarrow.parquet

    packed = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), packed)
    split(case, "a.parquet", case.damaged(packed.getvalue()))
