"""What a checkpoint can predict with: its classifier, span or choice head, or the masked language model head of its pretraining."""

import logging
from dataclasses import dataclass
from pathlib import Path

from nlpdata.errors import UsageError, opt
from nlpdata.tokenizers import Tokenizer
from pretrain.converters.checkpoint import Checkpoint, Head
from pretrain.converters.facts import NAME
from pretrain.converters.heads import listed
from pretrain.prediction.batching import Batching
from pretrain.prediction.choices import ChoicePredictor, choice_options
from pretrain.prediction.masks import MaskPredictor
from pretrain.prediction.questions import AnswerOptions, QuestionPredictor
from pretrain.prediction.sentences import SentencePredictor
from pretrain.settings.fields import Choice

_log = logging.getLogger(__name__)

Predictor = SentencePredictor | QuestionPredictor | ChoicePredictor | MaskPredictor


@dataclass(frozen=True)
class Facts:
    """What predictions need to know of a checkpoint besides its weights.

    Attributes:
      source: where it was read from.
      head: the head that predicts: classifier, span, choice or masked_lm; "" where it has none.
      classes: what the logits of a classifier mean.
      left_out: heads that cannot be used, and why.
      length: tokens of the examples that it was trained on, else the most that its encoder takes.
      longest: the most tokens that its encoder takes.
      extras: facts about its data.
      encoder: its encoder.
    """

    source: str
    head: str
    classes: Head | None
    left_out: dict[str, str]
    length: int
    longest: int
    extras: dict
    encoder: Choice

    @property
    def rows(self) -> int:
        """Rows of its word embedding."""
        return self.encoder.options.vocab_size


def facts_of(checkpoint: Checkpoint, source: str) -> Facts:
    """What a checkpoint says about predictions. UsageError where it names no encoder."""
    names = {
        "classifier": ("logits/kernel",),
        "span": ("logits/kernel", "start_logits/kernel"),
        "choice": ("logits/kernel",),
        "masked_lm": ("output_bias",),
    }
    heads = [head for head, weights in names.items() if any(f"{head}/{name}" in checkpoint.weights for name in weights)]
    if heads == ["masked_lm"] and checkpoint.left_out:
        heads = []  # another head was meant
    return Facts(
        source,
        heads[0] if heads else "",
        checkpoint.head,
        checkpoint.left_out,
        checkpoint.sequence_length,
        checkpoint.known_encoder.options.max_position_embeddings,
        checkpoint.extras,
        checkpoint.known_encoder,
    )


def warn_of_one_row(checkpoint: Checkpoint, source: str) -> None:
    """Warns where nothing says what a classifier of one row is for, which is taken as a regression's."""
    if checkpoint.may_score_choices:
        _log.warning(
            f"{source}: nothing says what its classifier of one row is for; it predicts a number for each text. If it scores "
            f'choices, as that of run_race, write {{"kind": "choice"}} into {NAME} next to it'
        )


def refuse_headless(checkpoint: Checkpoint, source: str) -> None:
    """UsageError for a checkpoint that predicts nothing."""
    if checkpoint.encoder is not None and facts_of(checkpoint, source).head:
        return
    why = f" Left out: {listed(checkpoint.left_out)}." if checkpoint.left_out else ""
    raise UsageError(
        f"{source} holds no fine-tuned head (classifier, span or choice) that can be used, nor one that predicts masked "
        f"pieces: there is nothing that it predicts.{why} Fine-tune it: "
        "`pretrain run --experiment=bert/sentence_prediction`, bert/squad or bert/multiple_choice."
    )


def length_of(facts: Facts, given: int | None) -> int:
    """Tokens of the examples to predict with. UsageError where the model does not take as many as are given."""
    if given is None:
        return facts.length
    if not 8 <= given <= facts.longest:
        raise UsageError(
            f"{opt('max_seq_length')} must be from 8 to {facts.longest}, the most tokens that {Path(facts.source).name} takes. "
            f"Received: {given}."
        )
    return given


def make_predictor(
    batching: Batching, facts: Facts, tokenizer: Tokenizer | None, *, top_k: int, answers: AnswerOptions
) -> Predictor:
    """The predictor of a checkpoint that has a head.

    Args:
      batching: gives the logits of the head (pretrain.prediction.computation.logits_of).
      facts: what is known of the checkpoint.
      tokenizer: the model's; None where only the windows of records are predicted for.
      top_k: pieces for each [MASK].
      answers: how answers are chosen.
    """
    if facts.head == "span":
        return QuestionPredictor(batching, tokenizer, answers)
    assert tokenizer is not None
    if facts.head == "masked_lm":
        return MaskPredictor(batching, tokenizer, top_k)
    if facts.head == "choice":
        return ChoicePredictor(batching, tokenizer, choice_options(facts.extras))
    assert facts.classes is not None
    return SentencePredictor(batching, facts.classes, tokenizer)
