"""Tokenizers as TensorFlow graphs, of TensorFlow's own operations: a SavedModel that takes text needs no other library.

They give the ids that nlpdata.tokenizers gives. Words of all texts are segmented at the same time, one piece (WordPiece) or one
character (unigram) of each word in a step.
"""

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import numpy as np
import tensorflow as tf

from nlpdata.text.bert import is_dropped, is_ideograph, is_punctuation
from nlpdata.tokenizers import Tokenizer
from nlpdata.tokenizers.hf_steps import character_class
from nlpdata.tokenizers.scripts import WORD_MARK
from nlpdata.tokenizers.sentencepiece import SentencePieceTokenizer
from nlpdata.tokenizers.sentencepiece_model import NORMAL, UNIGRAM, USER_DEFINED, SentencePieceModel
from nlpdata.tokenizers.wordpiece import MAX_WORD_CHARACTERS
from nlpdata.tokenizers.wordpiece_vocabulary import CONTINUATION

# The characters with properties that matter here: after them come only ideographs and tags.
_CHARACTERS = [chr(c) for c in (*range(0xD800), *range(0xE000, 0x30000), *range(0xE0000, 0xE1000))]
_ABSENT = b"\xff"  # not UTF-8
_NO_PIECE, _DONE = -1, -2
_UNKNOWN_PENALTY = 10.0  # kUnkPenalty of google/sentencepiece's unigram_model.cc

Step = Callable[[tf.Tensor], tf.Tensor]
"""string (n,) -> string (n,)"""


class TextGraph(tf.Module):
    """The rules of a tokenizer: string (n,) -> ragged int32 (n, tokens).

    TensorFlow traces a function again where it saves it, here for over half a second. So the rules are traced once, and every other
    function calls what was traced.
    """

    def __init__(self) -> None:
        super().__init__(name="tokenizer")
        self._traced: Any = None

    def __call__(self, texts: tf.Tensor) -> Any:
        if self._traced is None:
            encode = tf.function(self._encode, autograph=False)
            self._traced = encode.get_concrete_function(tf.TensorSpec([None], tf.string))
        return self._traced(texts)

    def _encode(self, texts: tf.Tensor) -> Any:
        raise NotImplementedError


class WordPieceGraph(TextGraph):
    """BERT's rules (nlpdata.text.bert, greedy longest match)."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        options = tokenizer.options()
        lower, keep = options["do_lower_case"], options["keep_accents"]
        reserved = set(tokenizer.special_ids())
        entries = tokenizer.pieces(range(tokenizer.vocab_size))
        ids = {entry: i for i, entry in enumerate(entries) if i not in reserved}
        self._unk_id = tokenizer.unk_id
        self._ids = _table(ids, tf.int32, _NO_PIECE)
        self._longest = max(len(entry.removeprefix(CONTINUATION)) for entry in ids)
        self._steps = [_replace(_class(is_dropped), "")]
        if options["tokenize_chinese_chars"]:
            self._steps.append(_replace(_class(is_ideograph), r" \0 "))
        self._steps += [_replace(*_final_sigma())] if lower else []
        if lower or not keep:
            self._steps.append(_Letters(_basic_letter(lower, keep)))
        self._steps += [_replace(_class(is_punctuation), r" \0 "), _replace(_class(str.isspace), " ")]

    def _encode(self, texts: tf.Tensor) -> Any:
        words = tf.strings.split(_apply(self._steps, texts))
        return words.with_values(self._pieces(words.values)).merge_dims(1, 2)

    def _pieces(self, words: tf.Tensor) -> tf.RaggedTensor:
        sizes = tf.strings.length(words, "UTF8_CHAR")

        def step(starts: tf.Tensor, pieces: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            parts, lengths = _following(words, starts, sizes, self._longest)
            keys = tf.where(starts[:, None] > 0, CONTINUATION + parts, parts)
            best, size = _first(tf.where(lengths > 0, self._ids.lookup(keys), _NO_PIECE), lengths)
            done = starts >= sizes
            pieces = tf.concat([pieces, tf.where(done, _DONE, best)[:, None]], axis=1)
            return tf.where(best == _NO_PIECE, sizes, starts + size), pieces

        too_long = sizes > MAX_WORD_CHARACTERS
        starts = tf.where(too_long, sizes, 0)
        pieces = _loop(step, starts, sizes, tf.fill([tf.size(words), 0], _DONE))
        unknown = too_long | tf.reduce_any(pieces == _NO_PIECE, axis=1)
        pieces = tf.where(unknown[:, None], _DONE, pieces)
        first = tf.where(unknown, self._unk_id, _DONE)
        pieces = tf.concat([first[:, None], pieces], axis=1)
        return tf.ragged.boolean_mask(pieces, pieces != _DONE)


class UnigramGraph(TextGraph):
    """ALBERT's rules (nlpdata.text.albert, google/sentencepiece)."""

    def __init__(self, tokenizer: SentencePieceTokenizer) -> None:
        super().__init__()
        options = tokenizer.options()
        model = SentencePieceModel(tokenizer.serialized())
        self._unk_id = tokenizer.unk_id
        ids = {piece: i for i, piece in enumerate(model.pieces) if model.types[i] in (NORMAL, USER_DEFINED)}
        self._ids = _table(ids, tf.int32, _NO_PIECE)
        self._longest = max(map(len, ids))
        self._scores = tf.constant(_scores(model), tf.float32)
        lower, keep = options["do_lower_case"], options["keep_accents"]
        self._steps = [_replace(_class(str.isspace) + "+", " "), tf.strings.strip]
        self._steps += [_replace(quotes, '"') for quotes in ("``", "''")]
        if not keep:
            self._steps.append(_Letters(_without_accents))
        if lower:
            self._steps += [_replace(*_final_sigma()), _Letters(str.lower)]
        own = {piece: piece for piece, kind in zip(model.pieces, model.types, strict=True) if kind == USER_DEFINED}
        possible = str.lower if lower else str, str if keep else _without_accents  # after these steps
        replacements = {k: v for k, v in model.replacements.items() if all(step(k) == k for step in possible)}
        if replacements:
            self._steps.append(_LongestReplacements(replacements | own))
        split = tokenizer.split_pieces()
        rows = [split.get(i, [i]) for i in range(tokenizer.vocab_size)]
        self._split = tf.ragged.constant(rows, tf.int32) if split else None

    def _encode(self, texts: tf.Tensor) -> Any:
        words = tf.strings.split(_apply(self._steps, texts))
        ids = words.with_values(self._pieces(WORD_MARK + words.values)).merge_dims(1, 2)
        # Neighbours that are unknown are one piece.
        values, rows = ids.values, ids.value_rowids()
        again = (values[1:] == values[:-1]) & (values[1:] == self._unk_id) & (rows[1:] == rows[:-1])
        keep = tf.concat([tf.fill([tf.minimum(tf.size(values), 1)], True), ~again], axis=0)
        ids = tf.ragged.boolean_mask(ids, ids.with_values(keep))
        return ids if self._split is None else tf.gather(self._split, ids).merge_dims(1, 2)

    def _pieces(self, words: tf.Tensor) -> tf.RaggedTensor:
        """The segmentation of each word with the highest sum of scores (Viterbi's algorithm)."""
        sizes = tf.strings.length(words, "UTF8_CHAR")
        count = tf.size(words)
        lengths = tf.range(self._longest, 0, -1)
        unknown = tf.size(self._scores) - 1

        def forward(end: tf.Tensor, best: tf.Tensor, pieces: tf.Tensor, steps: tf.Tensor) -> tuple[tf.Tensor, ...]:
            starts = end - lengths
            inside = (starts >= 0)[None] & (end <= sizes)[:, None]
            places, sizes_ = (tf.where(inside, values[None], 0) for values in (starts, lengths))
            parts = tf.strings.substr(tf.repeat(words[:, None], self._longest, 1), places, sizes_, "UTF8_CHAR")
            found = self._ids.lookup(parts)
            single = (lengths == 1)[None] & inside
            found = tf.where(single & (found == _NO_PIECE), unknown, found)
            possible = inside & (found != _NO_PIECE)
            scores = tf.gather(best, tf.maximum(starts, 0), axis=1) + tf.gather(self._scores, tf.maximum(found, 0))
            scores = tf.where(possible, scores, -np.inf)
            chosen = tf.argmax(scores, axis=1, output_type=tf.int32)  # the longest of equal ones
            best = tf.concat([best, tf.reduce_max(scores, axis=1)[:, None]], axis=1)
            pieces = tf.concat([pieces, tf.gather(found, chosen, axis=1, batch_dims=1)[:, None]], axis=1)
            steps = tf.concat([steps, tf.gather(lengths, chosen)[:, None]], axis=1)
            return end + 1, best, pieces, steps

        empty = tf.zeros([count, 1], tf.int32)
        shapes = tf.TensorShape([]), *[tf.TensorShape([None, None])] * 3
        start = 1, tf.zeros([count, 1]), empty, empty
        last = tf.reduce_max(tf.concat([sizes, [0]], axis=0))
        _, _, pieces, steps = tf.while_loop(lambda end, *_: end <= last, forward, start, shapes)

        def backward(ends: tf.Tensor, found: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            piece = tf.gather(pieces, ends, axis=1, batch_dims=1)
            piece = tf.where(piece == unknown, self._unk_id, piece)
            found = tf.concat([tf.where(ends > 0, piece, _DONE)[:, None], found], axis=1)
            return ends - tf.gather(steps, ends, axis=1, batch_dims=1), found

        none = tf.fill([count, 0], _DONE)
        shapes = tf.TensorShape([None]), tf.TensorShape([None, None])
        _, found = tf.while_loop(lambda ends, _: tf.reduce_any(ends > 0), backward, (sizes, none), shapes)
        return tf.ragged.boolean_mask(found, found != _DONE)


class _Letters(tf.Module):
    """Replaces each character by the result of a function."""

    def __init__(self, function: Callable[[str], str]) -> None:
        super().__init__()
        self._table = _table(_changed(function), tf.string, _ABSENT)

    def __call__(self, texts: tf.Tensor) -> Any:
        characters = tf.strings.unicode_split(texts, "UTF-8")
        found = self._table.lookup(characters.values)
        return tf.strings.reduce_join(
            characters.with_values(tf.where(found == _ABSENT, characters.values, found)), axis=-1
        )


class _LongestReplacements(tf.Module):
    """Replaces characters as a model does, word by word: at each place the longest text that has a replacement."""

    def __init__(self, replacements: Mapping[str, str]) -> None:
        super().__init__()
        self._table = _table(replacements, tf.string, _ABSENT)
        self._longest = max(map(len, replacements))

    def __call__(self, texts: tf.Tensor) -> Any:
        words = tf.strings.split(texts)
        sizes = tf.strings.length(words.values, "UTF8_CHAR")

        def step(starts: tf.Tensor, done: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            parts, lengths = _following(words.values, starts, sizes, self._longest)
            found = tf.where(lengths > 0, self._table.lookup(parts), _ABSENT)
            index = tf.argmax(found != _ABSENT, axis=1, output_type=tf.int32)
            text = tf.gather(found, index, axis=1, batch_dims=1)
            plain = text == _ABSENT
            text = tf.where(plain, parts[:, -1], text)
            size = tf.where(plain, 1, tf.gather(lengths, index, axis=1, batch_dims=1))
            return starts + size, tf.concat([done, tf.where(starts < sizes, text, "")[:, None]], axis=1)

        done = _loop(step, tf.zeros_like(sizes), sizes, tf.fill([tf.size(sizes), 0], ""))
        return tf.strings.reduce_join(words.with_values(tf.strings.reduce_join(done, axis=1)), axis=-1, separator=" ")


def _apply(steps: Iterable[Step], texts: tf.Tensor) -> tf.Tensor:
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", errors="replace")
    for step in steps:
        texts = step(texts)
    return texts


def _following(words: tf.Tensor, starts: tf.Tensor, sizes: tf.Tensor, longest: int) -> tuple[tf.Tensor, tf.Tensor]:
    """The next characters of each word, strings (n, longest): longest, ..., 1 of them; and how many, 0 past the end."""
    lengths = tf.range(longest, 0, -1)[None]
    lengths = tf.where(starts[:, None] + lengths <= sizes[:, None], lengths, 0)
    places = tf.where(lengths > 0, starts[:, None], 0)
    return tf.strings.substr(tf.repeat(words[:, None], longest, 1), places, lengths, "UTF8_CHAR"), lengths


def _first(found: tf.Tensor, lengths: tf.Tensor) -> Iterator[tf.Tensor]:
    """The first entry of each row that is a piece, and its length."""
    index = tf.argmax(found != _NO_PIECE, axis=1, output_type=tf.int32)
    return (tf.gather(values, index, axis=1, batch_dims=1) for values in (found, lengths))


def _loop(step: Callable, starts: tf.Tensor, sizes: tf.Tensor, columns: tf.Tensor) -> tf.Tensor:
    """Takes steps until every start is at the end of its word; each step adds a column."""
    shapes = tf.TensorShape([None]), tf.TensorShape([None, None])
    return tf.while_loop(lambda at, _: tf.reduce_any(at < sizes), step, (starts, columns), shapes)[1]


def _table(values: Mapping[str, int | str], dtype: tf.DType, default: int | bytes) -> tf.lookup.StaticHashTable:
    initializer = tf.lookup.KeyValueTensorInitializer(list(values), list(values.values()), tf.string, dtype)
    return tf.lookup.StaticHashTable(initializer, default)


def _replace(pattern: str, content: str) -> Step:
    return lambda texts: tf.strings.regex_replace(texts, pattern, content)


@cache
def _class(condition: Callable[[str], bool]) -> str:
    return character_class(filter(condition, _CHARACTERS))


@cache
def _final_sigma() -> tuple[str, str]:
    """Pattern and replacement of a capital sigma at the end of a word, from what str.lower() makes of it."""
    after = [c for c in _CHARACTERS if ("A" + c + "Σ").lower()[-1] == "ς" != ("1" + c + "Σ").lower()[-1]]
    cased = [c for c in _CHARACTERS if ("1" + c + "Σ").lower()[-1] == "ς"]
    others = character_class(cased)[1:-1] + character_class(after)[1:-1]
    ignored = character_class(after) + "*"
    return f"({character_class(cased)}{ignored})Σ({ignored}(?:[^{others}]|$))", r"\1ς\2"


@cache
def _changed(function: Callable[[str], str]) -> Mapping[str, str]:
    """The characters that a function changes, and what it makes of them."""
    return {c: new for c in _CHARACTERS if (new := function(c)) != c}


@cache
def _basic_letter(lower: bool, keep_accents: bool) -> Callable[[str], str]:
    """Steps 4 and 5 of BERT's basic tokenizer, of a single character."""

    def letter(character: str) -> str:
        text = character.lower() if lower else character
        if keep_accents:
            return text
        return "".join(c for c in unicodedata.normalize("NFD", text) if unicodedata.category(c) != "Mn")

    return letter


def _without_accents(text: str) -> str:
    """Step 3 of ALBERT's normalisation."""
    return "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))


def _scores(model: SentencePieceModel) -> np.ndarray:
    """Scores of the pieces and of an unknown character, float32."""
    lowest = min(score for score, kind in zip(model.scores, model.types, strict=True) if kind == NORMAL)
    return np.append(model.path_scores, np.float32(lowest) - np.float32(_UNKNOWN_PENALTY))


# What a graph must give the ids of before it is used: case, accents, scripts, quotes, digits, spaces, special tokens, symbols.
_PROBES = (
    "The quick brown fox's 3.5 jumps, in 1999, 2,000! [MASK] ``so'' (well-known) #tag",
    "ΟΔΟΣ Σίσυφος ΣΑΣ. Ünïcödé naïve ﬁne Ⅳ ½ x\u0301 \u00a0 İstanbul ẞ",
    "東京は日本の首都です。ｶﾞ 한국어 한국 नमस्ते ไทย العربية עִבְרִית 🙂👍🏽 \ue000 \u200b\u00ad\t  end",
    "",
    " ",
    "a" * 201,
)


def build_graph(tokenizer: Tokenizer) -> tuple[TextGraph | None, str]:
    """The graph of a tokenizer, or None and the reason why it has none that gives the same ids."""
    if isinstance(tokenizer, SentencePieceTokenizer):
        model = SentencePieceModel(tokenizer.serialized())
        usual = model.model_type == UNIGRAM and model.has_usual_spaces
        if not usual or model.byte_fallback or any(WORD_MARK in piece[1:] for piece in model.pieces):
            return None, "its model is not of ALBERT's kind (unigram, pieces of single words, no bytes)"
        graph: TextGraph = UnigramGraph(tokenizer)
    else:
        graph = WordPieceGraph(tokenizer)
    ids, lengths = tokenizer.encode(_PROBES)
    expected = [part.tolist() for part in np.split(ids, np.cumsum(lengths)[:-1])]
    if graph(tf.constant([text.encode() for text in _PROBES])).to_list() != expected:
        return None, "TensorFlow's operations give other ids for it"
    return graph, ""


def encoder_inputs(
    tokenizer: Tokenizer, longest: int, first: tf.RaggedTensor, second: tf.RaggedTensor | None = None
) -> dict:
    """[CLS] first [SEP], or [CLS] first [SEP] second [SEP], cut to `longest` tokens and padded.

    Args:
      tokenizer: whose special ids are put in.
      longest: length of the longest row, in tokens.
      first: ragged int32 (n, tokens).
      second: the same, or None. Where the pair is too long the longer one is cut, as in nlpdata.finetuning; an empty second
        text makes no pair.

    Returns input_ids, input_mask and segment_ids, int32 (n, length of the longest row).
    """
    count = first.nrows(tf.int32)
    column = lambda i: tf.fill([count, 1], tf.constant(i, tf.int32))  # noqa: E731
    cls, sep = column(tokenizer.cls_id), column(tokenizer.sep_id)
    if second is None:
        ids = tf.concat([cls, first[:, : longest - 2], sep], axis=1)
        segments = tf.zeros_like(ids)
    else:
        sizes, more = (tf.cast(part.row_lengths(), tf.int32) for part in (first, second))
        budget = longest - tf.where(more > 0, 3, 2)
        kept = tf.minimum(more, tf.maximum(budget - sizes, budget // 2))
        first, second = _head(first, budget - kept), _head(second, kept)
        end = tf.ragged.boolean_mask(sep, more[:, None] > 0)
        parts = tf.concat([cls, first, sep], axis=1), tf.concat([second, end], axis=1)
        ids = tf.concat(parts, axis=1)
        segments = tf.concat([tf.zeros_like(parts[0]), tf.ones_like(parts[1])], axis=1)
    return {
        "input_ids": ids.to_tensor(tokenizer.pad_id),
        "input_mask": tf.ones_like(ids).to_tensor(),
        "segment_ids": segments.to_tensor(),
    }


def _head(ragged: tf.RaggedTensor, counts: tf.Tensor) -> tf.RaggedTensor:
    """The first tokens of each row, as many as `counts` (n,) says."""
    places = tf.ragged.range(tf.cast(ragged.row_lengths(), tf.int32)).values
    return tf.ragged.boolean_mask(ragged, ragged.with_values(places < tf.gather(counts, ragged.value_rowids())))
