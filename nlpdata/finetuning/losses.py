"""The text and the answers that fine-tuning records lack."""

from collections.abc import Mapping

from nlpdata.errors import opt
from nlpdata.finetuning.options import FinetuningOptions
from nlpdata.text import loss

ANSWERS_REPORTED = 0.05
TEXTS_REFUSED = 0.75  # of the texts: that more of them lose most of their tokens is an error


def losses(split: str, counters: Mapping[str, int], options: FinetuningOptions, tokenizer: Mapping) -> list[loss.Loss]:
    """What is lost of a split. That a long text loses its end is usual, unless the default length cuts most of nearly all texts.

    Args:
      split: its name, for the messages.
      counters: of the split.
      options: max_seq_length, and whether it was given.
      tokenizer: the meta file's entry.
    """
    length = options.length
    found = [loss.unknown_tokens(counters, tokenizer)]
    if "questions" not in counters:
        remedy = f"use a greater {opt('max_seq_length')}, or shorter texts"
        rows = loss.of(
            counters.get("truncated_by_half", 0),
            counters.get("rows_used", 0),
            loss.CUT_REPORTED,
            f"texts lose more than half of their tokens at {opt('max_seq_length', length)}",
            remedy,
            loss.enough(counters),
        )
        each = counters.get("choices", 0) / max(1, counters.get("rows_used", 0)) or 1  # texts of a row
        cut = loss.cut_tokens(
            counters, length, lambda mean: f"a text has {mean / each:.0f} tokens on average; {remedy}"
        )
        told = rows if rows.share > TEXTS_REFUSED else cut
        found.append(told if told is rows and options.is_default_length else told.only_reported())
    if counters.get("answers"):
        found.append(
            loss.of(
                counters.get("answers_cut", 0) + counters.get("answers_without_tokens", 0),
                counters["answers"],
                ANSWERS_REPORTED,
                "answers are in no window, or have no tokens",
                f"is {opt('max_seq_length', length)} too short for them, or the tokenizer of another language?",
                loss.enough(counters),
            )
        )
    return [each.of_split(split) for each in found]
