"""Rows of multiple choice -> columns of records: texts that compete for one item, of which one is right.

A record has C = num_choices sequences of L = max_seq_length, one behind the other, as run_race.py of google-research/albert
writes them: [CLS] context [SEP] question and choice [SEP], padded. With the context "the fox", the choices "jumped" and
"over", L = 8 and [CLS] 2, [SEP] 3, [PAD] 0 (names "v1"):

    input_ids        2 10 12 3 13 14 3 0   2 10 12 3 15 3 0 0     int64[C * L]
    input_mask       1  1  1 1  1  1 1 0   1  1  1 1  1 1 0 0     int64[C * L], 1 = a real token
    segment_ids      0  0  0 0  1  1 1 0   0  0  0 0  1 1 0 0     int64[C * L], 1 for question, choice and their [SEP]
    label_ids        1                                            int64[1], the right choice, from 0; absent without labels
    is_real_example  1                                            int64[1]
    example_id       0                                            int64[1], the row's number in its split

Of a question with its choice the last max_qa_length tokens are kept (at most L - 3), of the context the first that fit.
"""

from collections import Counter

import numpy as np

from nlpdata.finetuning.encode import Batch, Tokenized, rename_features
from nlpdata.records.contract import Feature
from nlpdata.tokenizers import Tokenizer, count_unknown


def with_choice(question: str, choice: str, blank: str | None) -> str:
    """A question with a choice in place of each `blank` in it; behind the question where it has none, or blank is None.

    Both without white space around them, which run_race.py removes before. An empty question leaves the choice alone.
    """
    question, choice = question.strip(), choice.strip()
    if blank and blank in question:
        return question.replace(blank, choice)
    return f"{question} {choice}" if question else choice


class ChoiceEncoder:
    """Records of multiple choice. The interface is SentenceEncoder's.

    Args:
      tokenizer: makes the ids.
      max_seq_length: tokens of each choice with its context, L.
      names: of the features, as --feature-names.
      num_choices: C.
      max_qa_length: most tokens of a question with its choice.
    """

    def __init__(
        self, tokenizer: Tokenizer, max_seq_length: int, names: str, num_choices: int, max_qa_length: int
    ) -> None:
        self.tokenizer, self.max_seq_length, self.names = tokenizer, max_seq_length, names
        self.num_choices, self.max_qa_length = num_choices, max_qa_length

    def features(self, split: str, labelled: bool) -> tuple[Feature, ...]:
        """The features of a split's records."""
        width = self.num_choices * self.max_seq_length
        features = [Feature(name, "int64", width) for name in ("input_ids", "input_mask", "segment_ids")]
        numbers = [*(["label_ids"] if labelled else []), "is_real_example", "example_id"]
        return rename_features([*features, *(Feature(name, "int64", 1) for name in numbers)], self.names)

    def columns(self, batch: Batch) -> tuple[dict[str, np.ndarray], Counter]:
        """The columns of the records of a batch's rows, (context, texts that compete, label), and counters.

        The tokens of a context count once for each of its choices, as the records hold them.
        """
        count, choices = len(batch.rows), self.num_choices
        contexts = {text: number for number, text in enumerate(dict.fromkeys(row[0] for row in batch.rows))}
        once = self.tokenizer.encode(list(contexts))  # questions about one article are neighbours
        context = _repeated(*once, np.array([contexts[row[0]] for row in batch.rows]))
        texts = self.tokenizer.encode([text for row in batch.rows for text in row[1]])
        columns, cut = lay_out_choices(
            self.tokenizer,
            self.max_seq_length,
            self.max_qa_length,
            context,
            texts,
            np.repeat(np.arange(count), choices),
        )
        columns = {name: column.reshape(count, -1) for name, column in columns.items()}
        columns["is_real_example"] = np.ones((count, 1), np.uint8)
        columns["example_id"] = np.arange(batch.first, batch.first + count)[:, None]
        if batch.labelled:
            columns["label_ids"] = np.array([row[2] for row in batch.rows], np.int64)[:, None]
        found, own = choices * context[1] + texts[1].reshape(count, choices).sum(axis=1), cut.reshape(count, choices)
        unknown = choices * count_unknown(context[0], self.tokenizer) + count_unknown(texts[0], self.tokenizer)
        without = (context[1] == 0) | (texts[1].reshape(count, choices) == 0).any(axis=1)
        return columns, Counter(
            {
                "choices": count * choices,
                "tokens": int(found.sum()),
                "truncated": int((own > 0).any(axis=1).sum()),
                "tokens_truncated": int(own.sum()),
                "truncated_by_half": int((2 * own.sum(axis=1) > found).sum()),
                "tokens_unknown": unknown,
                "without_tokens": int(without.sum()),
            }
        )


def _repeated(ids: np.ndarray, lengths: np.ndarray, of: np.ndarray) -> Tokenized:
    """The texts of which `of` has the numbers, one after the other: texts may be there several times, or not at all."""
    chosen = lengths[of]
    starts, before = (np.cumsum(lengths) - lengths)[of], np.cumsum(chosen) - chosen
    return ids[np.repeat(starts - before, chosen) + np.arange(int(chosen.sum()))], chosen


def lay_out_choices(
    tokenizer: Tokenizer, length: int, most: int, contexts: Tokenized, texts: Tokenized, of: np.ndarray
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """[CLS] context [SEP] text [SEP], padded to `length`, of each of n texts.

    Args:
      tokenizer: gives the special ids.
      length: of a sequence.
      most: tokens that are kept of a text, from its end.
      contexts, texts: see Tokenized.
      of: number of each text's context, (n,).

    Returns (input_ids int32, input_mask uint8, segment_ids uint8, all (n, length); tokens cut from each int64 (n,)).
    """
    (a, a_lengths), (b, b_lengths) = contexts, texts
    a_starts, b_ends = (np.cumsum(a_lengths) - a_lengths)[of], np.cumsum(b_lengths)
    kept_b = np.minimum(b_lengths, min(most, length - 3))
    kept_a = np.minimum(a_lengths[of], length - 3 - kept_b)
    row, place = np.arange(len(of)), np.arange(length)
    begins_b = kept_a + 2
    used = begins_b + kept_b + 1
    ids = np.full((len(of), length), tokenizer.pad_id, np.int32)
    ids[:, 0] = tokenizer.cls_id
    ids[row, kept_a + 1] = ids[row, used - 1] = tokenizer.sep_id
    in_a = (place > 0) & (place <= kept_a[:, None])
    ids[in_a] = a[((a_starts - 1)[:, None] + place)[in_a]]
    in_b = (place >= begins_b[:, None]) & (place < (used - 1)[:, None])
    ids[in_b] = b[((b_ends - kept_b - begins_b)[:, None] + place)[in_b]]
    mask = place < used[:, None]
    segment = mask & (place >= begins_b[:, None])
    columns = {"input_ids": ids, "input_mask": mask.view(np.uint8), "segment_ids": segment.view(np.uint8)}
    return columns, a_lengths[of] - kept_a + b_lengths - kept_b
