"""Trainers of vocabularies: the protocol and the registry. A new one is a class and a line in TRAINERS."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from nlpdata.errors import UsageError, closest, opt
from nlpdata.registry import Registry
from nlpdata.tokenizers.training.options import TrainingOptions

# The class is called with the TrainingOptions.
TRAINERS = Registry(
    "vocabulary type",
    {
        "unigram": "nlpdata.tokenizers.training.sentencepiece:SentencePieceVocabularyTrainer",
        "bpe": "nlpdata.tokenizers.training.sentencepiece:SentencePieceVocabularyTrainer",
        "wordpiece": "nlpdata.tokenizers.training.wordpiece:WordPieceVocabularyTrainer",
    },
    by_path=False,
)


@dataclass(frozen=True)
class TrainedVocabulary:
    """What a trainer returns: file suffix -> content (the tokenizer file first), and the content of the sidecar."""

    files: dict[str, bytes]
    vocab_size: int
    sidecar: dict
    characters: int = 0  # of the lines, white space left out
    uncovered: Counter = field(default_factory=Counter)  # those of them that the vocabulary lacks


class TooFewPieces(UsageError):
    """The corpus fills fewer entries than the vocabulary is to have.

    Attributes:
      most: how many it fills.
    """

    most = 0


def too_few_pieces(
    options: TrainingOptions, most: int, what: str = "this corpus", remedy: str = "Use more text"
) -> TooFewPieces:
    """The error, in words; what: yields them; remedy: the beginning of a list."""
    error = TooFewPieces(
        f"{opt('vocab_size', options.vocab_size)} is too large: {what} yields at most {most} pieces. {remedy}, "
        f"{opt('vocab_size', most)}, or {opt('hard_vocab_limit', False)} for as many as there are."
    )
    error.most = most
    return error


class Trainer(Protocol):
    """Trains vocabularies of one kind. Its constructor checks the options and raises UsageError."""

    suffixes: tuple[str, ...]  # of the files it makes; the tokenizer file first

    def __init__(self, options: TrainingOptions) -> None: ...

    def normalize(self, lines: Sequence[str]) -> list[str]:
        """The text of each line as training sees it: the very function of the tokenizer that will use it."""

    def spelt(self, lines: list[str]) -> list[str]:
        """Normalised lines in the characters of which the vocabulary's entries are made."""

    def can_spell(self, trained: TrainedVocabulary) -> Callable[[str], bool]:
        """A function: whether the vocabulary knows a character."""

    def train(self, lines: Iterator[str]) -> TrainedVocabulary:
        """Trains on normalised lines, none empty. The same lines give the same bytes."""


def make_trainer(options: TrainingOptions) -> Trainer:
    """The trainer of options.type, with all options checked; UsageError where one is wrong."""
    if options.type not in TRAINERS:
        raise UsageError(
            f"{opt('type')} must be one of {', '.join(TRAINERS)}. Received: {options.type!r}."
            f"{closest(options.type, TRAINERS)}"
        )
    return TRAINERS.get(options.type)(options)
