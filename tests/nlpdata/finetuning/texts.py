"""What tests of fine-tuning share: writing files, reading texts back from records."""

import json


def write(path, *lines, end="\n"):
    """A text file of these lines; lists are joined by tabs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = ["\t".join(line) if isinstance(line, list | tuple) else line for line in lines]
    path.write_text(end.join(rows) + end, encoding="utf-8", newline="")
    return path


def squad(path, *paragraphs, version="v2.0"):
    """A SQuAD file: paragraphs (context, question...), a question (id, text, answers, impossible)."""
    entries = []
    for context, *questions in paragraphs:
        qas = [
            {
                "id": name,
                "question": text,
                "answers": [{"text": answer, "answer_start": start} for answer, start in answers],
                "is_impossible": impossible,
            }
            for name, text, answers, impossible in questions
        ]
        entries.append({"title": "t", "paragraphs": [{"context": context, "qas": qas}]})
    path.write_text(json.dumps({"version": version, "data": entries}, ensure_ascii=False), encoding="utf-8")
    return path


def segments(record, tokenizer):
    """The ids of text A and text B of a record, without special tokens."""
    ids, mask, segment = (record[name] for name in ("input_ids", "input_mask", "segment_ids"))
    real = mask == 1
    a, b = ids[real & (segment == 0)], ids[real & (segment == 1)]
    assert a[0] == tokenizer.cls_id
    assert a[-1] == tokenizer.sep_id
    assert not len(b) or b[-1] == tokenizer.sep_id
    return a[1:-1].tolist(), b[:-1].tolist()
