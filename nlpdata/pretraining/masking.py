"""Masked language modelling: which tokens of a batch to predict, and what replaces them.

The very function that masks static records masks dynamic ones at load time: it needs nothing but what a record holds
(ids, real length, where words start) and a key per example, so its result does not depend on the batch.

Semantics in distribution are those of create_pretraining_data.py in google-research/albert and google-research/bert:
words (or single pieces) are chosen, spans of 1..max_ngram words start at words in random order with probability
proportional to 1/n, a span ends at the last word at the latest, one that exceeds the budget is shortened, one that
touches a chosen word is skipped; each chosen piece becomes [MASK] (80%), stays (10%) or becomes a random piece (10%).
Different on purpose: special tokens are never masked, replacements are ordinary pieces only, the first piece of a
segment always starts a word, and a sequence whose words all exceed the budget gets the first pieces of one word instead
of no prediction.

    ids          [CLS] the qu ##ick fox [SEP] it ran [SEP]     word_start   1 1 1 0 1 1 1 1 1
    words        the | qu ##ick | fox | it | ran               budget = max(1, round(0.15 * 9)) = 1
"""

from dataclasses import dataclass

import numpy as np

from nlpdata import keys
from nlpdata.keys import Purpose

MASKED, KEPT = 0.8, 0.9  # cumulative shares: [MASK], unchanged, the rest random
_INDEX_BITS = 16  # a word's index in its sequence, packed below its random rank


@dataclass(frozen=True)
class MaskingRule:
    """How to mask; all that a call needs besides the examples.

    Attributes:
      masked_lm_prob: share of the tokens (special ones included, as in the originals) to predict.
      max_predictions: most predictions of a sequence (P).
      max_ngram: longest span, in words.
      whole_word: words are masked; else single pieces, each of which is a word below.
      favor_shorter_ngram: span lengths drawn with weights 1/n; else the same weights in reverse.
      mask_id, special_ids, ordinary_ids: [MASK]; ids that are never masked; int32 ids that may replace a token.
    """

    masked_lm_prob: float
    max_predictions: int
    max_ngram: int
    whole_word: bool
    favor_shorter_ngram: bool
    mask_id: int
    special_ids: tuple[int, ...]
    ordinary_ids: np.ndarray

    def budgets(self, max_seq_length: int) -> np.ndarray:
        """Number of predictions by sequence length, int64 (max_seq_length + 1,)."""
        return np.array(
            [
                min(self.max_predictions, max(1, round(length * self.masked_lm_prob)))
                for length in range(max_seq_length + 1)
            ]
        )


@dataclass(frozen=True)
class MaskedBatch:
    """input_ids int32 (n, L) after replacement; positions, label_ids int32 and weights float32 (n, P), zero padded."""

    input_ids: np.ndarray
    positions: np.ndarray
    label_ids: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class _Words:
    """The maskable words of a batch, one after the other, row by row.

    Attributes:
      tokens: flat index (row * L + position) of every maskable token, ascending.
      starts: index into `tokens` where each word starts, with len(tokens) at the end; int64 (words + 1,).
      row: row of each word, int64 (words,).
      first, count: first word and number of words of each row, int64 (n,).
    """

    tokens: np.ndarray
    starts: np.ndarray
    row: np.ndarray
    first: np.ndarray
    count: np.ndarray


def mask_batch(
    ids: np.ndarray, lengths: np.ndarray, word_start: np.ndarray, example_keys: np.ndarray, rule: MaskingRule
) -> MaskedBatch:
    """Masks a batch of sequences.

    Args:
      ids: integer (n, L), unmasked, zero or any padding behind `lengths`.
      lengths: (n,) real tokens of each row.
      word_start: (n, L), non-zero where a word starts (the record's token_boundary).
      example_keys: uint64 (n,), one key per example (and per epoch, when masking anew each epoch).
      rule: see MaskingRule.
    """
    words = _find_words(ids, lengths, word_start, rule)
    budget = rule.budgets(ids.shape[1])[lengths]
    chosen = _choose_tokens(words, budget, example_keys, rule)
    return _replace(ids, words.tokens[chosen], example_keys, rule)


def _find_words(ids: np.ndarray, lengths: np.ndarray, word_start: np.ndarray, rule: MaskingRule) -> _Words:
    n, width = ids.shape
    maskable = np.arange(width) < lengths[:, None]
    for special in rule.special_ids:
        maskable &= ids != special
    tokens = np.flatnonzero(maskable)
    begins = np.ones(len(tokens), bool)
    if rule.whole_word and len(tokens):
        # A word starts where the record says so, and behind a gap: at a row's or a segment's first token.
        begins[1:] = (word_start.reshape(-1)[tokens[1:]] != 0) | (np.diff(tokens) != 1)
        begins[np.searchsorted(tokens, np.arange(n) * width)[: n + 1] % max(len(tokens), 1)] = True
    begin = np.flatnonzero(begins)
    row = tokens[begin] // width
    count = np.bincount(row, minlength=n)
    starts = np.append(begin, len(tokens))
    return _Words(tokens, starts, row, np.cumsum(count) - count, count)


def _choose_tokens(words: _Words, budget: np.ndarray, example_keys: np.ndarray, rule: MaskingRule) -> np.ndarray:
    """Which of `words.tokens` to predict: bool (len(tokens),)."""
    if not len(words.row):
        return np.zeros(0, bool)
    index = np.arange(len(words.row)) - words.first[words.row]
    draws = keys.draw(keys.fold(example_keys, Purpose.MASK_ORDER)[words.row], index)
    order = _random_order(words, index, draws)
    span = _span_lengths(words.count[words.row] - index, draws, rule)
    covered, left = _cover(words, order, span, budget, rule.max_ngram)
    lengths = np.diff(words.starts)
    chosen = np.repeat(covered, lengths)
    # Every word of such a row is longer than its budget: the first pieces of the first word drawn.
    for r in np.flatnonzero((left == budget) & (words.count > 0)):
        start = words.starts[order[words.first[r]]]
        chosen[start : start + budget[r]] = True
    return chosen


def _random_order(words: _Words, index: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """The words of each row in random order, as indices of words; row r's are at first[r] : first[r] + count[r]."""
    # Row, 32 random bits and the word's index in one integer: one plain sort instead of an argsort.
    packed = draws >> np.uint64(32)
    packed |= words.row.astype(np.uint64) << np.uint64(32)
    packed <<= np.uint64(_INDEX_BITS)
    packed |= index.astype(np.uint64)
    packed.sort()
    packed &= np.uint64((1 << _INDEX_BITS) - 1)
    return packed.astype(np.int64) + words.first[words.row]


def _span_lengths(available: np.ndarray, draws: np.ndarray, rule: MaskingRule) -> np.ndarray:
    """The span length drawn for every word, should its turn come: int64, 1..max_ngram, cut at the row's last word."""
    span = np.ones(len(available), np.int64)
    uniform = (draws & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    for threshold in _ngram_thresholds(rule.max_ngram, rule.favor_shorter_ngram):
        span += uniform >= threshold
    return np.minimum(span, available, out=span)


def _ngram_thresholds(max_ngram: int, favor_shorter: bool) -> np.ndarray:
    """Cumulative probabilities of the lengths but the last, times 2**32: uint64 (max_ngram - 1,)."""
    weights = 1.0 / np.arange(1, max_ngram + 1)
    if not favor_shorter:
        weights = weights[::-1]
    return np.round(np.cumsum(weights / weights.sum())[:-1] * 2**32).astype(np.uint64)


def _cover(
    words: _Words, order: np.ndarray, span: np.ndarray, budget: np.ndarray, max_ngram: int
) -> tuple[np.ndarray, np.ndarray]:
    """Greedy choice in lockstep: in round i every row tries the i-th word of its random order.

    Returns which words are covered, bool (words,), and what is left of each row's budget, int64 (n,).
    """
    covered = np.zeros(len(words.row), bool)
    left = budget.copy()
    rows = np.flatnonzero((words.count > 0) & (budget > 0))
    ahead = np.arange(max_ngram)
    for turn in range(int(words.count.max())):
        room = left[rows]
        going = (room > 0) & (words.count[rows] > turn)
        rows, room = rows[going], room[going]
        if not len(rows):
            break
        word = order[words.first[rows] + turn]
        start, taken = words.starts[word], span[word]
        size = words.starts[word + taken] - start
        for _ in range(max_ngram - 1):  # too long for what is left: one word fewer
            long = (size > room) & (taken > 1)
            if not long.any():
                break
            taken = taken - long
            size = words.starts[word + taken] - start
        spans = word[:, None] + np.minimum(ahead, taken[:, None] - 1)  # the span's words, its last one repeated
        free = (size <= room) & ~covered[spans].any(axis=1)
        covered[spans[free]] = True
        left[rows] = room - size * free
    return covered, left


def _replace(ids: np.ndarray, chosen: np.ndarray, example_keys: np.ndarray, rule: MaskingRule) -> MaskedBatch:
    """Replaces the tokens at flat indices `chosen` (ascending) and lists them by row."""
    n, width = ids.shape
    row, position = np.divmod(chosen, width)
    count = np.bincount(row, minlength=n)
    slot = np.arange(len(chosen)) - (np.cumsum(count) - count)[row]
    positions = np.zeros((n, rule.max_predictions), np.int32)
    label_ids = np.zeros_like(positions)
    weights = np.zeros((n, rule.max_predictions), np.float32)
    labels = ids.reshape(-1)[chosen]
    positions[row, slot] = position
    label_ids[row, slot] = labels
    weights[row, slot] = 1.0

    draws = keys.draw(keys.fold(example_keys, Purpose.MASK_REPLACE)[row], position)
    coin = draws >> np.uint64(32)
    random_index = ((draws & np.uint64(0xFFFFFFFF)) * np.uint64(len(rule.ordinary_ids))) >> np.uint64(32)
    replaced = np.where(coin < np.uint64(round(KEPT * 2**32)), labels, rule.ordinary_ids[random_index])
    replaced[coin < np.uint64(round(MASKED * 2**32))] = rule.mask_id
    input_ids = ids.astype(np.int32, copy=True)
    input_ids.reshape(-1)[chosen] = replaced
    return MaskedBatch(input_ids, positions, label_ids, weights)
