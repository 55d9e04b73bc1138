"""Paragraphs and questions -> columns of SQuAD records: a question and a window of its context each.

With L = max_seq_length, a record is [CLS] question [SEP] window [SEP], and has (names "v1"):

    input_ids, input_mask, segment_ids   int64[L], as in encode.py; segment 1 is the window and its [SEP]
    paragraph_mask                       int64[L], 1 on the window's tokens and on [CLS]
    class_index                          int64[1], where [CLS] is: 0
    unique_ids                           int64[1], 1,000,000,000 + the record's number in its split
    start_positions, end_positions       int64[1], first and last token of the answer; 0 where the window lacks it
    is_impossible                        int64[1], 1 where the window has no answer
    dev and test only:
    token_char_start, token_char_end     int64[L], the token's characters in the context; 0 and 0 off the window
    token_is_max_context                 int64[L], 1 where no other window shows more of the token's surroundings
    example_id                           bytes[1], the question's id

Test records have no positions and no is_impossible. Windows, their order, the cut of long questions and the choice of
maximum context are those of google-research/bert's run_squad.py and google-research/albert's squad_utils.py, and so are
the answer's tokens: for WordPiece the whole white-space words of the answer, narrowed to the tokens of its text if they
are among them; for SentencePiece the smallest tokens that cover its characters.
"""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from nlpdata.finetuning.encode import Batch, rename_features
from nlpdata.finetuning.squad import Paragraphs
from nlpdata.protobuf import varint
from nlpdata.records.contract import Feature
from nlpdata.records.encoding import Packed, VarintRuns
from nlpdata.tokenizers import Tokenizer, count_unknown
from nlpdata.tokenizers.offsets import Tokens, covering_tokens, offset_encoder
from nlpdata.tokenizers.scripts import is_unspaced

FIRST_ID = 1_000_000_000
_WORD_BREAKS = " \t\r\n\u202f"  # what run_squad.py splits a context at

WindowPlan = tuple[np.ndarray, np.ndarray, np.ndarray]
"""Question number, first token and number of tokens of each window in order: int64 (windows,) each."""


class SquadEncoder:
    """SQuAD records of batches of paragraphs. The interface is SentenceEncoder's."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_seq_length: int,
        names: str,
        doc_stride: int,
        max_query_length: int,
        windows_without_answer: str,
    ) -> None:
        self.tokenizer, self.max_seq_length, self.names = tokenizer, max_seq_length, names
        self.doc_stride, self.max_query_length = doc_stride, max_query_length
        self.drop = windows_without_answer == "drop"
        self._offsets = offset_encoder(tokenizer)

    def features(self, split: str, labelled: bool) -> tuple[Feature, ...]:
        """The features of a split's records."""
        per_token = ["input_ids", "input_mask", "segment_ids", "paragraph_mask"]
        single = ["unique_ids", "class_index"]
        if labelled:
            single += ["start_positions", "end_positions", "is_impossible"]
        if split != "train":
            per_token += ["token_char_start", "token_char_end", "token_is_max_context"]
        features = [Feature(name, "int64", self.max_seq_length) for name in per_token]
        features += [Feature(name, "int64", 1) for name in single]
        if split != "train":
            features.append(Feature("example_id", "bytes", 1))
        return rename_features(features, self.names)

    def windows(self, batch: Batch) -> tuple["Windows", Counter]:
        """The windows of a batch, and counters."""
        rows = batch.rows
        assert isinstance(rows, Paragraphs)
        contexts = self._offsets.encode(rows.contexts)
        owner = np.repeat(np.arange(len(rows.contexts)), rows.counts)
        queries, full = self.tokenizer.encode(rows.questions)
        query_lengths = np.minimum(full, self.max_query_length)
        totals = contexts.lengths[owner]
        plan = plan_windows(totals, self.max_seq_length - 3 - query_lengths, self.doc_stride)
        counters = Counter(tokens=int(contexts.lengths.sum() + full.sum()))
        counters["tokens_unknown"] = sum(count_unknown(ids, self.tokenizer) for ids in (contexts.ids, queries))
        counters["questions_truncated"] = int((full > self.max_query_length).sum())
        labels = {}
        if batch.labelled:
            spans = self._answer_tokens(rows, contexts, owner)
            counters["answers_without_tokens"] = int((spans[:, 0] == -2).sum())
            labels = _positions(spans, plan, query_lengths)
            outside = (spans[plan[0], 0] >= 0) & (labels["is_impossible"][:, 0] == 1)
            counters["windows_without_answer"] = int(outside.sum())
            held = plan[0][labels["is_impossible"][:, 0] == 0]
            counters["answers"] = int((spans[:, 0] != -1).sum())
            counters["answers_cut"] = int((spans[:, 0] >= 0).sum()) - len(np.unique(held))
            if self.drop and batch.split == "train":
                plan = plan[0][~outside], plan[1][~outside], plan[2][~outside]
                labels = {name: column[~outside] for name, column in labels.items()}
        names = None
        if batch.split != "train":
            names = np.array([name.encode() for name in rows.ids], object)
        context_starts = (np.cumsum(contexts.lengths) - contexts.lengths)[owner]
        starts = {"context": context_starts, "query": np.cumsum(full) - full}
        return Windows(contexts, queries, starts, totals, query_lengths, plan, labels, names), counters

    def columns(self, windows: "Windows", first: int) -> dict[str, np.ndarray | Packed]:
        """The columns of the windows' records (see the top of this file); `first`: records of the split before them."""
        columns = self._lay_out(windows)
        columns["unique_ids"] = np.arange(FIRST_ID + first, FIRST_ID + first + len(windows))[:, None]
        if windows.names is not None:
            columns["token_is_max_context"] = self.is_max_context(windows)
            columns["example_id"] = windows.names[windows.plan[0]][:, None]
        return columns | windows.labels

    def _lay_out(self, windows: "Windows") -> dict[str, np.ndarray | Packed]:
        question, start, length = windows.plan
        query_length = windows.query_lengths[question]
        context_start = windows.starts["context"][question] + start
        queries = VarintRuns(windows.queries).runs(windows.starts["query"][question], query_length)
        before, inside = (query_length + 2).tolist(), length.tolist()
        rest = (self.max_seq_length - 3 - query_length - length).tolist()
        sizes = list(zip(before, inside, rest, strict=True))
        tokenizer = self.tokenizer
        cls, sep, pad = (varint(i) for i in (tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id))
        zeros, ones = bytes(self.max_seq_length), b"\1" * self.max_seq_length
        pads = pad * self.max_seq_length
        contexts = zip(queries, VarintRuns(windows.contexts.ids).runs(context_start, length), rest, strict=True)
        columns: dict[str, np.ndarray | Packed] = {
            "input_ids": Packed(cls + q + sep + c + sep + pads[: left * len(pad)] for q, c, left in contexts),
            "input_mask": Packed(ones[: a + b + 1] + zeros[:left] for a, b, left in sizes),
            "segment_ids": Packed(zeros[:a] + ones[: b + 1] + zeros[:left] for a, b, left in sizes),
            "paragraph_mask": Packed(b"\1" + zeros[: a - 1] + ones[:b] + zeros[: left + 1] for a, b, left in sizes),
            "class_index": np.zeros((len(windows), 1), np.uint8),
        }
        if windows.names is not None:
            places = {"token_char_start": windows.contexts.starts, "token_char_end": windows.contexts.ends}
            for name, values in places.items():
                runs = zip(before, VarintRuns(values).runs(context_start, length), rest, strict=True)
                columns[name] = Packed(zeros[:a] + run + zeros[: left + 1] for a, run, left in runs)
        return columns

    def is_max_context(self, windows: "Windows") -> np.ndarray:
        """Whether no other window shows more of a token's surroundings: uint8 (windows, max_seq_length), 0 off the window."""
        question, start, length = windows.plan
        totals, query_lengths = windows.totals, windows.query_lengths
        result = np.zeros((len(question), self.max_seq_length), np.uint8)
        for i, (q, first, size) in enumerate(zip(question.tolist(), start.tolist(), length.tolist(), strict=True)):
            at = int(query_lengths[q]) + 2
            if size == totals[q]:
                result[i, at : at + size] = 1
                continue
            room = self.max_seq_length - 3 - int(query_lengths[q])
            best = max_context(int(totals[q]), room, self.doc_stride)
            result[i, at : at + size] = best[first : first + size] == first // min(room, self.doc_stride)
        return result

    def _answer_tokens(self, rows: Paragraphs, contexts: Tokens, owner: np.ndarray) -> np.ndarray:
        """(first, last) token of each question's answer, int64 (questions, 2); -1: it has none; -2: none has its text.

        owner: number of the paragraph of each question, int64 (questions,).
        """
        known = np.array([span is not None for span in rows.spans], bool)
        starts, ends = np.array([span or (0, 0) for span in rows.spans], np.int64).reshape(-1, 2).T
        sizes = np.fromiter(map(len, rows.contexts), np.int64, len(rows.contexts)) + 1
        before = np.cumsum(sizes) - sizes  # characters of the contexts before each, which make all places ascend
        moved = np.repeat(before, contexts.lengths)
        token_of = (np.cumsum(contexts.lengths) - contexts.lengths)[owner]
        # as covering_tokens, for all contexts at a time
        first = np.searchsorted(contexts.ends + moved, starts + before[owner], "right") - token_of
        last = np.searchsorted(contexts.starts + moved, ends + before[owner], "left") - 1 - token_of
        spans = np.stack([first, last], axis=1)
        spans[last < first] = -2
        spans[~known] = -1
        if self.tokenizer.kind == "wordpiece":
            self._widen(spans, rows, contexts, owner, token_of)
        return spans

    def _widen(
        self, spans: np.ndarray, rows: Paragraphs, contexts: Tokens, owner: np.ndarray, token_of: np.ndarray
    ) -> None:
        """Replaces spans whose tokens do not spell the answer out by those of `_word_span`."""
        asked = zip(owner.tolist(), rows.spans, strict=True)
        texts = [rows.contexts[at][slice(*span)] if span else "" for at, span in asked]
        own, lengths = self.tokenizer.encode(texts)
        own_starts = np.cumsum(lengths) - lengths
        there = np.flatnonzero(spans[:, 0] >= 0)
        same = np.zeros(len(spans), bool)
        same[there] = lengths[there] == spans[there, 1] - spans[there, 0] + 1
        equal = np.flatnonzero(same)
        at = _runs(spans[equal, 0] + token_of[equal], lengths[equal])
        differ = contexts.ids[at] != own[_runs(own_starts[equal], lengths[equal])]
        same[np.repeat(equal, lengths[equal])[differ]] = False
        for i in there[~same[there]].tolist():
            low = int(token_of[i])
            tokens = slice(low, low + int(contexts.lengths[owner[i]]))
            mine = own[own_starts[i] : own_starts[i] + lengths[i]]
            span = tuple(spans[i].tolist())
            starts, ends, ids = (column[tokens] for column in (contexts.starts, contexts.ends, contexts.ids))
            spans[i] = _word_span(rows.contexts[owner[i]], rows.spans[i], span, starts, ends, ids, mine)


@dataclass(frozen=True)
class Windows:
    """The windows of a batch's questions as tokens: many times smaller than the records that are laid out from them.

    contexts: tokens of all contexts. queries: int32, tokens of all questions. starts: where the "context" and the
    "query" of each question start in them, int64 (questions,). totals: tokens of each question's context. query_lengths:
    tokens of each question that are used. plan: see `plan_windows`. labels: columns. names: the questions' ids as bytes
    (questions,); None in training.
    """

    contexts: Tokens
    queries: np.ndarray
    starts: dict[str, np.ndarray]
    totals: np.ndarray
    query_lengths: np.ndarray
    plan: WindowPlan
    labels: dict[str, np.ndarray]
    names: np.ndarray | None

    def __len__(self) -> int:
        return len(self.plan[0])


def _word_span(
    context: str,
    answer: tuple[int, int],
    span: tuple[int, int],
    starts: np.ndarray,
    ends: np.ndarray,
    ids: np.ndarray,
    own: np.ndarray,
) -> tuple[int, int]:
    """The tokens that train an answer under WordPiece, of `span`, the smallest that cover it.

    `span` itself if it spells the answer out; else the answer's tokens elsewhere in its white-space words; else all
    tokens of these words (as run_squad.py does). White space delimits no words in some scripts: there it is `span`.
    """
    first, last = span
    if np.array_equal(ids[first : last + 1], own):
        return span
    low = max(context.rfind(character, 0, answer[0]) for character in _WORD_BREAKS) + 1
    found = [at for character in _WORD_BREAKS if (at := context.find(character, answer[1])) >= 0]
    high = min(found, default=len(context))
    if any(map(is_unspaced, context[low:high])):
        return span
    low, high = covering_tokens(starts, ends, low, high)
    for at in range(low, high + 2 - len(own)):
        if len(own) and np.array_equal(ids[at : at + len(own)], own):
            return at, at + len(own) - 1
    return low, high


def plan_windows(totals: np.ndarray, rooms: np.ndarray, stride: int) -> WindowPlan:
    """The windows of contexts of `totals` tokens (n,) of which `rooms` (n,) fit at a time."""
    step = np.minimum(rooms, stride)
    counts = np.where(totals <= rooms, 1, 1 + -(-(totals - rooms) // step))
    question = np.repeat(np.arange(len(totals)), counts)
    start = (np.arange(len(question)) - np.repeat(np.cumsum(counts) - counts, counts)) * step[question]
    return question, start, np.minimum(rooms[question], totals[question] - start)


def _positions(spans: np.ndarray, plan: WindowPlan, query_lengths: np.ndarray) -> dict[str, np.ndarray]:
    question, start, length = plan
    first, last = spans[question].T
    inside = (first >= start) & (last < start + length) & (first >= 0)
    shift = query_lengths[question] + 2 - start
    return {
        "start_positions": np.where(inside, first + shift, 0)[:, None],
        "end_positions": np.where(inside, last + shift, 0)[:, None],
        "is_impossible": (~inside).astype(np.uint8)[:, None],
    }


def _runs(first: np.ndarray, size: np.ndarray) -> np.ndarray:
    """first[0], first[0] + 1, ... (size[0] of them), first[1], ...: int64 (sum of sizes,)."""
    ends = np.cumsum(size)
    return np.arange(int(size.sum())) + np.repeat(first - (ends - size), size)


@lru_cache(maxsize=1024)
def max_context(total: int, room: int, stride: int) -> np.ndarray:
    """For each of `total` tokens, which of its windows shows most of its surroundings: int64 (total,).

    The score is the lesser of the tokens left and right of it in the window, and a hundredth of the window's length; the
    first window wins ties (`_check_is_max_context` of run_squad.py).
    """
    step = min(room, stride)
    count = 1 + max(0, -(-(total - room) // step))
    token = np.arange(total)
    latest = np.minimum(token // step, count - 1)
    window = latest - np.arange(-(-room // step))[::-1, None]  # all that may hold the token, in order
    start = window * step
    length = np.minimum(room, total - start)
    left, right = token - start, start + length - 1 - token
    score = np.where((window >= 0) & (right >= 0), np.minimum(left, right) + 0.01 * length, -1.0)
    return np.take_along_axis(window, score.argmax(axis=0)[None], axis=0)[0]
