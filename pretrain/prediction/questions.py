"""Answers of a fine-tuned question answering model: questions with their contexts, or records of them, -> answers."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import Any, NamedTuple

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.finetuning.encode import Batch
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.finetuning.squad import Paragraphs
from nlpdata.finetuning.windows import SquadEncoder
from nlpdata.tokenizers import Tokenizer
from pretrain.converters import native
from pretrain.evaluation.squad_answers import Answers, BeamWindow, Window, find_answers
from pretrain.layers.conditional_span_head import BEAM
from pretrain.prediction.batching import Batching, Example, Outputs
from pretrain.prediction.rows import QUESTIONS, Asked, Row
from pretrain.settings.data_section import EvalQuestionDataConfig
from pretrain.settings.tree import Place, merged, to_tree
from pretrain.tasks.configs import QuestionAnsweringConfig, QuestionAnsweringModelConfig


class AnswerOptions(NamedTuple):
    """How answers are chosen: fields of QuestionAnsweringConfig, and of its validation_data, as the run was evaluated."""

    version_2_with_negative: bool | None
    n_best_size: int
    max_answer_length: int
    null_score_diff_threshold: float
    doc_stride: int
    query_length: int


# Those of AnswerOptions that are fields of validation_data -> what create-finetuning and a checkpoint's facts call them.
_OF_DATA = {"doc_stride": "doc_stride", "query_length": "max_query_length"}


class Asking(NamedTuple):
    """The question that a window belongs to, and its number in the order of the questions."""

    number: int
    asked: Asked
    context: str


class Places(NamedTuple):
    """A window's question, and the places of its tokens: see pretrain.evaluation.squad_answers.Window."""

    asking: Asking
    char_start: np.ndarray
    char_end: np.ndarray
    is_max_context: np.ndarray


def _window(places: Places, outputs: Outputs) -> Window | BeamWindow:
    """A window with what its head predicts."""
    if "logits" in outputs:
        return Window(*places[1:], *outputs["logits"].T)
    return BeamWindow(*places[1:], *(outputs[name] for name in BEAM))


class QuestionPredictor:
    """Rows of questions and contexts -> {"answer", "score", "start", "end"} for each.

    start, end: the characters [start, end) of the context. No answer is "", from 0 to 0. Without a question or a context the
    answer is None.

    Args:
      batching: gives "logits" (L, 2), or the beam of a ConditionalSpanHead. Contexts that are longer than its examples become
        several windows, which overlap by half at least; a question takes a quarter of an example at most, and its end is cut,
        and counted.
      tokenizer: the model's; windows of records need none.
      options: how answers are chosen.
    """

    kind = QUESTIONS
    columns = ("answer", "score", "start", "end")

    def __init__(self, batching: Batching, tokenizer: Tokenizer | None, options: AnswerOptions) -> None:
        self._batching, self._tokenizer, self._options = batching, tokenizer, options
        self.with_negative = bool(options.version_2_with_negative)
        self.longest_question = min(options.query_length, batching.longest // 4)
        self.stride = min(options.doc_stride, batching.longest // 2)
        self.counters: Counter = Counter()

    def __call__(self, rows: Iterable[Row]) -> Iterator[tuple[Asked, dict]]:
        return self.results(self.answers(self.windows(rows)))

    def results(self, answers: Iterable[tuple[Asked, Answers]]) -> Iterator[tuple[Asked, dict]]:
        """The predictions of answers, as above."""
        for asked, each in answers:
            if asked.is_empty:
                yield asked, {"answer": None, "score": None, "start": None, "end": None}
                continue
            text = self.final(each)
            score = next(entry["probability"] for entry in each.nbest if entry["text"] == text)
            start, end = each.places[text]
            yield asked, {"answer": text, "score": score, "start": start, "end": end}

    def cells(self, result: dict) -> list[list[str]]:
        """The lines of a table for a row, without its index: one, with the values of `columns`."""
        if result["answer"] is None:
            return [["", "", "", ""]]
        answer = " ".join(result["answer"].split())  # a table has no place for line breaks
        return [[answer, f"{result['score']:.6f}", str(result["start"]), str(result["end"])]]

    def final(self, answers: Answers) -> str:
        """The answer to submit: "" where none may be, and scores better."""
        if self.with_negative and answers.null_odds > self._options.null_score_diff_threshold:
            return ""
        return answers.text

    def answers(self, windows: Iterable[Example]) -> Iterator[tuple[Asked, Answers]]:
        """The answers to each question. windows: those of a question one after the other; owner: Places."""
        options = self._options
        for asking, group in groupby(self._batching.outputs(windows), key=lambda item: item[0].owner.asking):
            scored = [_window(example.owner, outputs) for example, outputs in group]
            yield (
                asking.asked,
                find_answers(
                    asking.context,
                    scored,
                    options.n_best_size,
                    options.max_answer_length,
                    self.with_negative,
                ),
            )

    def windows(self, rows: Iterable[Row]) -> Iterator[Example]:
        """The windows of rows, as many rows tokenized at once as a batch has examples."""
        length, tokenizer = self._batching.longest, self._tokenizer
        assert tokenizer is not None
        encoder = SquadEncoder(tokenizer, length, "v1", self.stride, self.longest_question, "keep")
        rows, number = iter(rows), 0
        while part := list(islice(rows, self._batching.batch_size)):
            asked = [
                Asking(
                    number + i,
                    Asked(row.name, row.line, not (row.first.strip() and row.second.strip())),
                    row.second,
                )
                for i, row in enumerate(part)
            ]
            number += len(part)
            self.counters["rows"] += len(part)
            self.counters["empty"] += sum(each.asked.is_empty for each in asked)
            yield from self._windows_of(part, asked, encoder)

    def _windows_of(self, part: list[Row], asked: list[Asking], encoder: SquadEncoder) -> Iterator[Example]:
        same = [(context, len(list(group))) for context, group in groupby(row.second for row in part)]
        count = len(part)
        paragraphs = Paragraphs(
            [context for context, _ in same],
            [size for _, size in same],
            [row.name for row in part],
            [row.first for row in part],
            [None] * count,
            [[]] * count,
            [False] * count,
        )
        found, counters = encoder.windows(Batch("test", 0, 0, paragraphs, labelled=False))
        self.counters["truncated"] += counters["questions_truncated"]
        self.counters["windows"] += len(found)
        best = encoder.is_max_context(found)
        tokenizer, contexts = encoder.tokenizer, found.contexts
        cls, sep = (np.array([each], np.int32) for each in (tokenizer.cls_id, tokenizer.sep_id))
        for window, (question, start, size) in enumerate(zip(*(each.tolist() for each in found.plan), strict=True)):
            at = int(found.starts["query"][question])
            query = found.queries[at : at + int(found.query_lengths[question])]
            first = int(found.starts["context"][question]) + start
            text = slice(first, first + size)
            ids = np.concatenate([cls, query, sep, contexts.ids[text], sep])
            before = len(query) + 2
            segments = np.zeros(len(ids), np.int32)
            segments[before:] = 1
            places = np.zeros((2, len(ids)), np.int64)
            places[:, before : before + size] = contexts.starts[text], contexts.ends[text]
            own = Places(asked[question], places[0], places[1], best[window, : len(ids)].copy())
            yield Example(ids, segments, own)


def windows_of_records(path: str, encoder: Any) -> tuple[int, bool | None, Iterator[Example]]:
    """(number of windows, whether questions may have no answer, the windows) of records.

    Args:
      path: dev or test records of `nlpdata create-finetuning --task squad`, a path or a pattern.
      encoder: the encoder that they must fit, a Choice.

    Raises UsageError where they do not fit, DataError where a file is damaged.
    """
    from pretrain.data.questions import question_batches

    data = EvalQuestionDataConfig(input_path=path, global_batch_size=256)
    config = QuestionAnsweringConfig(model=QuestionAnsweringModelConfig(encoder=encoder), validation_data=data)
    batches, source = question_batches(data, config, labelled=False)

    def windows() -> Iterator[Example]:
        questions = source.questions()
        seen: dict[str, Asking] = {}
        last: Asking | None = None
        for step in range(batches.steps_per_epoch):
            batch = batches.batch(step)
            batch = {name: values[batch["is_real_example"] > 0] for name, values in batch.items()}
            places = source.places(batch["record"].astype(np.int64))
            for row, name in enumerate(places["example_id"]):
                if last is None or last.asked.name != name:
                    if name in seen:
                        raise DataError(f"{path}: the windows of question {name} are not next to each other.")
                    last = seen[name] = Asking(len(seen), Asked(name, len(seen) + 1, False), questions[name].context)
                count = int(batch["input_mask"][row].sum())
                ids, segments = (batch[key][row, :count].copy() for key in ("input_ids", "segment_ids"))
                own = (
                    places[key][row, :count].copy()
                    for key in ("token_char_start", "token_char_end", "token_is_max_context")
                )
                yield Example(ids, segments, Places(last, *own))

    return batches.num_examples, source.version_2_with_negative, windows()


def answer_options(model_dir: str, facts: Mapping, data_says: bool | None = None) -> AnswerOptions:
    """How answers are found: by the run's configuration; where that leaves open whether there may be none, by its records.

    Windows are those of the training records, where the run's validation_data does not set others.

    Args:
      model_dir: the model.
      facts: what its checkpoint says of its data.
      data_says: whether the questions may have no answer, as their file says; used where all else leaves it open.
    """
    own = native.locate_info(model_dir)
    task = own[1].get("config", {}).get("task", {}) if own else {}
    names = [name for name in AnswerOptions._fields if name not in _OF_DATA]
    task = task if isinstance(task, dict) else {}
    stored = {name: task[name] for name in names if name in task}
    given = data if isinstance(data := task.get("validation_data"), dict) else {}
    stored["validation_data"] = {
        name: (facts.get(told) or getattr(FinetuningOptions, told)) if given.get(name) is None else given[name]
        for name, told in _OF_DATA.items()
    }
    place = Place(f"{own[0] / native.INFO}" if own else model_dir, "config.task", stored=True)
    try:
        options = merged(QuestionAnsweringConfig, to_tree(QuestionAnsweringConfig()), stored, place)
    except UsageError as error:
        raise DataError(str(error)) from None
    windows = options["validation_data"]
    found = AnswerOptions(**{name: options[name] for name in names}, **{name: windows[name] for name in _OF_DATA})
    negative = found.version_2_with_negative
    if negative is None:
        negative = facts.get("version_2_with_negative")
    return found._replace(version_2_with_negative=data_says if negative is None else negative)
