"""SQuAD 1.1 and 2.0, and other files of their form (XQuAD, CMRC, ...): JSON, also compressed, to paragraphs.

An answer whose text is not at its answer_start is looked for nearby; one that is not found is a bad row in
training, and in dev only counted, since scoring goes by the texts.
"""

import json
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from nlpdata.errors import HALF, DataError, UsageError, opt
from nlpdata.files.compression import COMPRESSED, DAMAGE, decompressed, plain_file_name
from nlpdata.files.json_files import JSON_FAULTS, json_fault
from nlpdata.files.json_kinds import as_written, is_characters
from nlpdata.files.paths import absent, read_file
from nlpdata.files.patterns import as_names
from nlpdata.files.pointers import refuse_pointer
from nlpdata.finetuning.datasets import BadRow, Dataset, Split, plain_name, refuse_pipe, warn_of_known
from nlpdata.finetuning.options import FinetuningOptions

NEARBY = 100  # characters: an answer's text within this distance of its answer_start is taken for the one that is meant
_MOST_BYTES = 4 << 30  # of a file
_FORM = '{"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ..., "question": ..., "answers": [...]}]}]}]}'


class Question(NamedTuple):
    """A question about a paragraph.

    answer: characters [start, end) of its first answer; None: has none, or unknown. answers: as in the file, which is what
    scoring compares with; none in training.
    """

    id: str
    text: str
    answer: tuple[int, int] | None
    answers: list
    impossible: bool


class Paragraph(NamedTuple):
    """A context with its questions."""

    context: str
    questions: list[Question]


class Paragraphs(NamedTuple):
    """Paragraphs by column, as batches hold them: objects by the hundred thousand would take longer to pickle than to read.

    contexts, counts: of each paragraph, and how many questions it has. ids, questions, spans, answers, impossible: of each
    question, as in Question (`text`, and `answer` for a span).
    """

    contexts: list[str]
    counts: list[int]
    ids: list[str]
    questions: list[str]
    spans: list[tuple[int, int] | None]
    answers: list[list]
    impossible: list[bool]

    @classmethod
    def of(cls, paragraphs: Sequence[Paragraph]) -> "Paragraphs":
        asked = [question for paragraph in paragraphs for question in paragraph.questions]
        ids, texts, spans, answers, impossible = map(list, zip(*asked, strict=True))
        counts = [len(paragraph.questions) for paragraph in paragraphs]
        return cls([paragraph.context for paragraph in paragraphs], counts, ids, texts, spans, answers, impossible)


class Note(NamedTuple):
    """What the user should know of a question that is kept; counted by reason, shown if it has a message."""

    reason: str
    message: str = ""


def open_squad(name: str, inputs: Sequence[str], options: FinetuningOptions) -> Dataset:
    """--input is a folder with train*.json and dev*.json, or the training file, next to --dev-input and --test-input.

    With --splits dev (or test), --input is that split's file.
    """
    if options.length - options.max_query_length - 3 < 1:
        raise UsageError(
            f"{opt('max_seq_length', options.length)} leaves no room for text behind a question of "
            f"{opt('max_query_length', options.max_query_length)} and three special tokens. Use "
            f"{opt('max_query_length', max(options.length // 4, 1))}, or longer sequences."
        )
    files = dict(_files(inputs, options))
    for path in files.values():
        refuse_pipe(path)
    if not files:
        raise UsageError(
            f"{opt('input')} is missing, e.g. {opt('input', 'train-v2.0.json')} {opt('dev_input', 'dev-v2.0.json')}."
        )
    splits = [
        Split(
            split, (path,), partial(read_squad, path, split, options.version_2_with_negative), labelled=split != "test"
        )
        for split, path in files.items()
    ]
    return Dataset(
        "SQuAD", "squad", tuple(splits), warnings=warn_of_known({split.name: split.files for split in splits})
    )


def _files(inputs: Sequence[str], options: FinetuningOptions) -> Iterator[tuple[str, Path]]:
    if len(inputs) > 1:
        raise UsageError(f"{opt('input')}: expected one folder or file. Received: {', '.join(inputs)}.")
    for given in inputs:
        path = Path(given).expanduser()
        if path.is_dir():
            yield from _files_of_folder(path, options).items()
        elif path.exists():
            only = options.splits if options.splits in ("dev", "test") else "train"
            yield only, path
        else:
            raise UsageError(f"{opt('input')}: {absent(path)}")
    for split, named in (("dev", options.dev_input), ("test", options.test_input)):
        names = as_names(named or ())
        if len(names) > 1:
            raise UsageError(f"{opt(f'{split}_input')}: expected one file. Received: {', '.join(names)}.")
        for path in (Path(name).expanduser() for name in names):
            if not path.exists():
                raise UsageError(f"{opt(f'{split}_input')}: {absent(path)}")
            yield split, path


# Files of a folder, by a word of their names: dev-v2.0.json, squad_train.json.gz, squad_train.json.zst.
_SPLITS = {"train": "train(ing)?", "dev": "dev|val|valid|validation", "test": "test"}
_FILE = rf"(?i)({{split}}.*|(.*[^a-z])?({{words}})([^a-z].*)?)\.json({'|'.join(map(re.escape, COMPRESSED))})?"


def _files_of_folder(folder: Path, options: FinetuningOptions) -> dict[str, Path]:
    """split -> its file. Of several the one of the version that --version-2-with-negative or --task (squad2) names."""
    names = sorted(entry.name for entry in folder.iterdir() if entry.is_file() and not entry.name.startswith("."))
    files = {}
    for split, words in _SPLITS.items():
        found = [name for name in names if re.fullmatch(_FILE.format(split=split, words=words), name)]
        if len(found) > 1 and (version := _version(options)):
            found = [name for name in found if re.search(rf"v?{version}(\.\d)?\.json", name)] or found
        if len(found) > 1:
            raise UsageError(
                f"{opt('input')}: {folder} holds {', '.join(found)}: name one of them, or say which version is meant with "
                f"{opt('version_2_with_negative', True)} or {opt('version_2_with_negative', False)}."
            )
        if found:
            files[split] = folder / found[0]
    if not files:
        there = f" It holds {', '.join(names[:5])}{', ...' if len(names) > 5 else ''}." if names else ""
        raise UsageError(
            f"{opt('input')}: {folder} holds no train*.json, dev*.json or test*.json.{there} Name a file of SQuAD's form."
        )
    return files


def _version(options: FinetuningOptions) -> str:
    """The major version of SQuAD that the options mean: "1", "2", or "" where they say nothing."""
    if options.version_2_with_negative is not None:
        return "2" if options.version_2_with_negative else "1"
    number = re.fullmatch(r"squadv?([12])\d?", plain_name(options.task or ""))
    return number[1] if number else ""


def is_named_squad(name: str) -> bool:
    """Whether a file's name is that of SQuAD's JSON: .json, also compressed."""
    return plain_file_name(name).endswith(".json")


def load_squad(path: Path) -> dict:
    """The file's JSON. DataError where it is not of SQuAD's form."""
    try:
        content = decompressed(read_file(path, _MOST_BYTES), str(path))
        if not content.strip():
            raise DataError(f"{path}: is empty. Expected {_FORM}")
        refuse_pointer(path, content)
        value = json.loads(content.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}:{error.lineno}: not JSON: {error.msg} (column {error.colno}). Expected {_FORM}"
        ) from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: byte {error.start} is not UTF-8. Expected JSON in UTF-8") from None
    except DAMAGE as error:
        raise DataError(f"{path}: cannot be read: {error}") from None
    except JSON_FAULTS as error:
        raise DataError(f"{path}: not JSON: {json_fault(error)}. Expected {_FORM}") from None
    if not isinstance(value, dict) or not isinstance(value.get("data"), list):
        have = "null" if value is None else f"a {type(value).__name__}"
        if isinstance(value, dict):
            have = f"an object with {', '.join(list(value)[:8]) or 'nothing in it'}"
        raise DataError(f"{path}: not SQuAD: the file holds {have}. Expected {_FORM}")
    return value


def read_squad(path: Path, split: str, negative: bool | None) -> Iterator[Paragraph | BadRow | Note]:
    """The paragraphs of a file in their order, with what is wrong or noteworthy between them.

    negative: whether questions without an answer may be (--version-2-with-negative); None: they may.
    """
    seen: set[str] = set()
    for i, entry in enumerate(load_squad(path)["data"]):
        where = f"{path}: data[{i}]"
        paragraphs = entry.get("paragraphs") if isinstance(entry, dict) else None
        if not isinstance(paragraphs, list):
            raise DataError(f"{where}: not SQuAD: no list of paragraphs. Expected {_FORM}")
        for j, paragraph in enumerate(paragraphs):
            place = f"{where}.paragraphs[{j}]"
            if not isinstance(paragraph, dict) or not isinstance(paragraph.get("qas"), list):
                raise DataError(f"{place}: not SQuAD: no context with qas. Expected {_FORM}")
            context = paragraph.get("context")
            if not isinstance(context, str) or not context.strip():
                yield _bad("empty_text", place, f"the context is {as_written(context)[:60]}, expected text")
                continue
            if not is_characters(context):
                yield _bad("surrogate", place, f"the context has {HALF}")
                continue
            questions = []
            for k, qa in enumerate(paragraph["qas"]):
                question, others = _question(qa, context, (place, k), split, negative, seen)
                yield from others
                if question is not None:
                    questions.append(question)
            if questions:
                yield Paragraph(context, questions)


def _bad(reason: str, where: str, what: str) -> BadRow:
    return BadRow(reason, f"{where}: {what}. Correct it")


def _question(
    qa: Any, context: str, place: tuple[str, int], split: str, negative: bool | None, seen: set[str]
) -> tuple[Question | None, Sequence[BadRow | Note]]:
    """A question, or None where it cannot be used; and what is wrong or noteworthy. place: of its paragraph, its number."""
    if not isinstance(qa, dict) or not isinstance(qa.get("id"), str | int) or not isinstance(qa.get("question"), str):
        raise DataError(f"{_where(place)}: not SQuAD: a question needs an id and a question. Expected {_FORM}")
    name, text = str(qa["id"]), qa["question"]
    answers, impossible = qa.get("answers") or [], qa.get("is_impossible", False)
    wrong = None
    if name in seen:
        wrong = "duplicate_id", "an earlier question has the same id, and predictions are kept by id"
    elif not text.strip():
        wrong = "empty_text", "the question is empty"
    elif not is_characters(name) or not is_characters(text):
        wrong = "surrogate", f"the {'question' if is_characters(name) else 'id'} has {HALF}: {ascii(text)[:80]}"
    elif not isinstance(impossible, bool):
        wrong = "not_squad", f"is_impossible is {as_written(impossible)[:60]}, expected true or false"
    elif not isinstance(answers, list):
        wrong = "not_squad", f"answers is {as_written(answers)[:60]}, expected a list"
    elif impossible and negative is False:
        wrong = (
            "impossible_question",
            f"it has no answer, and {opt('version_2_with_negative', False)} excludes such questions",
        )
    elif not impossible and split != "test" and not answers:
        wrong = "no_answer", "no answers, and is_impossible is not true"
    seen.add(name)
    if wrong:
        return None, [_bad(wrong[0], _where(place, name), wrong[1])]
    answer: tuple[int, int] | None = None
    notes: list[BadRow | Note] = []
    if not impossible and split != "test":
        if split == "train" and len(answers) > 1:
            notes.append(Note("several_answers"))  # the first is taken
        answer, found = _answer(answers[0], context, place, name)
        if found is not None and answer is None and split == "train":
            return None, [*notes, found]
        if found is not None:  # in dev, scoring goes by the texts
            notes.append(Note(found.reason, found.message))
    return Question(name, text, answer, [] if impossible or split == "train" else answers, impossible), notes


def _where(place: tuple[str, int], name: str | None = None) -> str:
    paragraph, number = place
    return f"{paragraph}.qas[{number}]" + (f" (id {name})" if name is not None else "")


def _answer(
    answer: Any, context: str, place: tuple[str, int], name: str
) -> tuple[tuple[int, int] | None, BadRow | Note | None]:
    """(start, end) of an answer, or None; and what is wrong with it."""
    text = answer.get("text") if isinstance(answer, dict) else None
    start = answer.get("answer_start") if isinstance(answer, dict) else None
    if not isinstance(text, str) or not text.strip():
        return None, _bad("no_answer", _where(place, name), f"the answer's text is {text!r}")
    if not isinstance(start, int) or isinstance(start, bool):
        wrong = f"answer_start is {start!r}, expected a whole number"
        return None, _bad("answer_start", _where(place, name), wrong)
    found = locate(context, text, start)
    if found is None:
        shown = context[max(start, 0) : max(start, 0) + len(text)]
        kind = "answer_start" if not 0 <= start < len(context) else "misaligned_answer"
        wrong = (
            f"the answer {text[:60]!r} is not at answer_start {start} (there: {shown[:60]!r}; the context has "
            f"{len(context)} characters), nor nearby"
        )
        return None, _bad(kind, _where(place, name), wrong)
    if found != (start, start + len(text)):
        what = f"the answer {text[:60]!r} is not at {start}; taken at {found[0]}: {context[slice(*found)][:60]!r}"
        return found, Note("answer_moved", f"{_where(place, name)}: {what}")
    if not context.startswith(text, start):
        what = f"the answer {text[:60]!r} reads {context[slice(*found)][:60]!r} in the context"
        return found, Note("answer_case", f"{_where(place, name)}: {what}")
    return found, None


def locate(context: str, text: str, start: int) -> tuple[int, int] | None:
    """Where an answer is: characters [start, end) of the context, or None.

    At `start`, exactly or but for case; else its occurrence nearest to `start`, if within NEARBY characters or the only
    one; then the same without regard to case and to white space at its ends.
    """
    if start >= 0 and context.startswith(text, start):
        return start, start + len(text)
    if start >= 0 and _same_but_case(context[start : start + len(text)], text):
        return start, start + len(text)
    bare = text.strip()
    for where, what in ((context, text), (context, bare), (_lower(context), _lower(bare))):
        places = []
        at = where.find(what)
        while at >= 0:
            places.append(at)
            at = where.find(what, at + 1)
        if places:
            nearest = min(places, key=lambda place: (abs(place - start), place))
            if len(places) == 1 or abs(nearest - start) <= NEARBY:
                return nearest, nearest + len(what)
    return None


def _same_but_case(a: str, b: str) -> bool:
    return len(a) == len(b) and a.casefold() == b.casefold()


def _lower(text: str) -> str:
    """Lower case, character for character."""
    return "".join([low if len(low := character.lower()) == 1 else character for character in text])
