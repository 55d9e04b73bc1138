"""The options of train-tokenizer: one dataclass that the command line and the function use."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Literal

from nlpdata.errors import UsageError, opt
from nlpdata.files import PathName, PathNames
from nlpdata.options import (
    ACCEPT_LOSS_HELP,
    MOST_SEED,
    Arguments,
    BeamArguments,
    LocalArguments,
    check_bounds,
    option,
)

MOST_ENTRIES = 10_000_000  # of a vocabulary; the largest that are published have a million
# The user_defined_symbols of google-research/albert's README: always separate pieces.
ALBERT_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """All that decides about the vocabulary, except the text."""

    type: str = option("unigram", "unigram, bpe or wordpiece.")
    vocab_size: int = option(30000, "Entries, special ones included.", least=1, most=MOST_ENTRIES)
    character_coverage: float = option(
        0.99995, "Share of the text's characters that the vocabulary spells.", least=0.98, most=1
    )
    do_lower_case: bool = option(True, "Lower-case the text.")
    keep_accents: bool = option(False, "Keep accents.")
    user_defined_symbols: Sequence[str] = option(
        ALBERT_SYMBOLS,
        "Symbols that are always separate pieces (SentencePiece).  [default: ALBERT's eight]",
        flag="user_defined_symbol",
    )
    sample_lines: int = option(
        10_000_000, "Lines to train on at most; of more, this many are drawn at random.", least=1, most=1 << 40
    )
    max_line_bytes: int = option(
        4192, "Bytes of a line at most, after normalisation; longer lines are left out.", least=10, most=1 << 30
    )
    seed: int = option(12345, "Seed of the sample.", least=0, most=MOST_SEED)
    hard_vocab_limit: bool = option(True, "Fail where the corpus fills fewer entries.")

    def __post_init__(self) -> None:
        check_bounds(self)
        if isinstance(self.user_defined_symbols, str):
            raise UsageError(
                f"{opt('user_defined_symbols')} must be a list of strings. Received: {self.user_defined_symbols!r}."
            )
        object.__setattr__(self, "user_defined_symbols", tuple(self.user_defined_symbols))


@dataclass(frozen=True)
class TrainingRequest(Arguments, TrainingOptions):
    """What train-tokenizer takes on any runner. UsageError for a value that is wrong."""

    input: Annotated[PathNames, "Text files, one sentence a line: paths or quoted patterns, e.g. 'data/*.txt'."]
    output: Annotated[PathName, "Path of the files without suffix, e.g. tok/spm."]
    _: KW_ONLY
    invalid_utf8: Literal["fail", "replace", "skip"] = option("fail", "What to do about bytes that are not UTF-8.")
    text_key: str | None = option(None, "Key of the text, where the input is JSON lines.")
    accept_loss: bool = option(False, ACCEPT_LOSS_HELP)
    overwrite: bool = option(False, "Replace an older result of the same name.")
    progress: bool = option(False, "Show progress on standard error.", flag="")
    options: TrainingOptions = field(init=False, repr=False)


@dataclass(frozen=True)
class LocalTrainingRequest(LocalArguments, TrainingRequest):
    """What train-tokenizer takes on this machine."""


@dataclass(frozen=True)
class BeamTrainingRequest(BeamArguments, TrainingRequest):
    """What train-tokenizer takes on a Beam runner."""
