"""A checkpoint as a model, with all heads that it holds."""

import logging
from collections.abc import Callable

from pretrain.converters import assign
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.heads import BEAM_SIZES, listed
from pretrain.converters.sizes import check_sizes
from pretrain.encoders.model import EncoderModel, build_encoder, masked_lm_head
from pretrain.layers.classifier_head import ClassifierHead
from pretrain.layers.conditional_span_head import ConditionalSpanHead
from pretrain.layers.sentence_pair_head import SentencePairHead
from pretrain.layers.span_head import SpanHead

_log = logging.getLogger(__name__)


def load_model(checkpoint: Checkpoint, make: Callable[..., EncoderModel] = EncoderModel) -> EncoderModel:
    """The model of a checkpoint that was read. A head that cannot be used is left out, with a warning.

    Its call takes arrays int32 (b, L) and, optionally, masked_lm_positions (b, P), and returns, as far as the checkpoint has
    them: sequence_output (b, L, H), pooled_output (b, H), mlm_logits (b, P, V), or (b, L, V) without positions,
    sentence_logits (b, 2), and logits of a classifier (b, classes), of spans (b, L, 2) or of choices (b, 1), each of
    which is a row, or what ConditionalSpanHead gives.

    Raises UsageError where it names no encoder, DataError where weights of the encoder are missing.
    """
    model = build_model(checkpoint, make)
    report = assign(model, checkpoint)
    if report.left_out:
        _log.warning("%s: left out: %s", checkpoint.source, listed(report.left_out))
    if not has_pooled_output(checkpoint):
        _log.warning("%s: has no pooler, pooled_output is 0", checkpoint.source)
    return model


def has_pooled_output(checkpoint: Checkpoint) -> bool:
    """Whether its pooled_output means something: some published models have no weights for it."""
    return (
        "encoder/pooler/kernel" in checkpoint.weights
        or getattr(build_encoder(checkpoint.known_encoder), "pooler", None) is None
    )


def build_model(checkpoint: Checkpoint, make: Callable[..., EncoderModel] = EncoderModel) -> EncoderModel:
    """The encoder and the heads of a checkpoint, with initial weights. UsageError where it names no encoder.

    make: EncoderModel, or what takes its arguments and returns one.
    """
    encoder_choice = checkpoint.known_encoder
    check_sizes(checkpoint)
    encoder = build_encoder(encoder_choice)
    weights, size = checkpoint.weights, encoder.hidden_size
    heads = {}
    if "masked_lm/output_bias" in weights:
        heads["masked_lm"] = masked_lm_head(encoder)
    if "sentence_pair/logits/kernel" in weights:
        heads["sentence_pair"] = SentencePairHead(hidden_size=size, pooler="sentence_pair/pooler/kernel" in weights)
    if "classifier/logits/kernel" in weights:
        classes = weights["classifier/logits/kernel"].shape[1]
        heads["classifier"] = ClassifierHead(
            hidden_size=size, num_classes=classes, pooler="classifier/pooler/kernel" in weights
        )
    if "span/logits/kernel" in weights:
        heads["span"] = SpanHead(hidden_size=size)
    elif "span/start_logits/kernel" in weights:
        beam = {name: checkpoint.extras[name] for name in BEAM_SIZES if name in checkpoint.extras}
        heads["span"] = ConditionalSpanHead(hidden_size=size, **beam)
    if "choice/logits/kernel" in weights:
        heads["choice"] = ClassifierHead(hidden_size=size, num_classes=1, name="choice")
    model = make(encoder, heads)
    model.build()
    return model
