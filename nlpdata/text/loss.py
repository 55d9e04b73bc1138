"""Text that a command loses, cut off or unknown to the tokenizer: what it reports, and what it refuses.

The counts are those of the meta file. A loss has numbers, a probable cause and a remedy; above REFUSED it is an error that
an option confirms, since a result of less than half of the text is seldom what was meant.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from nlpdata.errors import DataError, Message, opt

REFUSED = 0.5  # of the text: more is an error
UNKNOWN_REPORTED = 0.05  # of the tokens; ordinary text has less than 1% with its own vocabulary
CUT_REPORTED = 0.3  # of the tokens; pairs lose what exceeds their length, at 64 tokens a fifth
# The end of a refusal: the state of the work, and the option that confirms the loss.
CONFIRM = f"If this is meant, use {opt('accept_loss', True)}"
NOTHING_WRITTEN = f"Nothing was written. {CONFIRM}"
PARTS_KEPT = (
    f"Nothing was put in place. If this is meant, the same command with {opt('accept_loss', True)} completes the finished "
    "parts"
)
FEW_UNITS, FEW_TOKENS = 10, 200  # sentences or rows, and tokens: of less text a share says little

_NAMES = {
    "answers_cut": "answers that no window holds",
    "documents_eval": "documents set aside for evaluation",
    "documents_train": "documents to train on",
    "examples_eval": "examples to evaluate on",
    "examples_train": "examples to train on",
    "longest_document": "sentences of the longest document",
    "one_sentence_documents": "documents of one sentence",
    "tokens_truncated": "tokens cut off",
    "tokens_unknown": "tokens unknown to the tokenizer",
    "truncated": "texts cut off",
    "truncated_by_half": "texts that lose more than half",
    "windows_without_answer": "windows that lack the answer to their question",
}


def counter_name(counter: str) -> str:
    """What a counter of the meta file is called on screens and pages, where its name alone does not say it."""
    return _NAMES.get(counter) or counter.replace("_", " ")


@dataclass(frozen=True)
class Loss:
    """Text that was lost: its share of all text, and the message about it."""

    share: float
    refused: bool  # whether there is enough text to refuse
    reported: float  # the smallest share that is reported
    message: str  # with marked options: see nlpdata.errors.opt

    def only_reported(self) -> "Loss":
        """The loss, but never refused."""
        return replace(self, refused=False)

    def of_split(self, split: str) -> "Loss":
        """The loss with the name of the split that it is of."""
        return replace(self, message=f"{split}: {self.message}")


def of(lost: int, total: int, reported: float, what: str, cause: str, enough: bool = True) -> Loss:
    """`lost` of `total` tokens, rows, ...; what: "tokens were cut off"; cause: with the remedy."""
    share = lost / total if total else 0.0
    shown = f"{share:.1%}" if share >= 0.001 or not lost else "less than 0.1%"
    return Loss(share, enough, reported, f"{lost:,} of {total:,} {what} ({shown}): {cause}")


def warnings(losses: Iterable[Loss]) -> list[str]:
    """Messages about the losses that are large enough to be reported."""
    return [str(Message(loss.message)) for loss in losses if loss.share >= loss.reported]


def refuse(losses: Iterable[Loss], accepted: bool, ending: str) -> None:
    """DataError where more than REFUSED is lost and that is not `accepted`. Losses of the same text add up.

    ending: of the message: CONFIRM, NOTHING_WRITTEN or PARTS_KEPT.
    """
    losses = [loss for loss in losses if loss.refused]
    if accepted or sum(loss.share for loss in losses) <= REFUSED:
        return
    told = [loss.message for loss in sorted(losses, key=lambda loss: -loss.share) if loss.share >= 0.01]
    raise DataError(f"most of the text would be lost. {'. '.join(told)}. {ending}")


def unknown_tokens(counters: Mapping[str, int], tokenizer: Mapping) -> Loss:
    """Tokens that stand for text which the vocabulary cannot spell; `tokenizer`: the meta file's entry."""
    lower = tokenizer.get("do_lower_case")
    case = (
        f"keeps capital letters: for a lower-case vocabulary use {opt('do_lower_case', True)}" if lower is False else ""
    )
    return of(
        counters.get("tokens_unknown", 0),
        counters.get("tokens", 0),
        UNKNOWN_REPORTED,
        "tokens are unknown to the tokenizer",
        "is its vocabulary of another language or script? Train one on this text (nlpdata train-tokenizer), or name the "
        "one that belongs to it" + (f". It {case}" if case else ""),
        enough(counters),
    )


def cut_tokens(counters: Mapping[str, int], max_seq_length: int, cause: Callable[[float], str]) -> Loss:
    """Tokens that did not fit; `cause`: of the tokens that a sentence or text has on average."""
    mean = counters.get("tokens", 0) / max(1, _units(counters))
    return of(
        counters.get("tokens_truncated", 0),
        counters.get("tokens", 0),
        CUT_REPORTED,
        f"tokens were cut off at {opt('max_seq_length', max_seq_length)}",
        cause(mean),
        enough(counters),
    )


def _units(counters: Mapping[str, int]) -> int:
    """Sentences, rows or questions."""
    return counters.get("sentences") or counters.get("rows_used") or counters.get("questions") or 0


def enough(counters: Mapping[str, int]) -> bool:
    """Whether there is enough text to refuse its loss."""
    return _units(counters) >= FEW_UNITS and counters.get("tokens", 0) >= FEW_TOKENS
