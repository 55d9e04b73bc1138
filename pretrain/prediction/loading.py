"""A checkpoint as a model that predicts for texts."""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from typing import Any, Literal

import keras
import numpy as np

from nlpdata.errors import HALF, UsageError, closest, opt
from nlpdata.files import PathName
from nlpdata.files.json_kinds import is_characters
from nlpdata.options import check_range
from nlpdata.tokenizers import Tokenizer
from pretrain.converters import read_checkpoint
from pretrain.converters.checkpoint import report_ignored
from pretrain.converters.load import load_model
from pretrain.converters.same_tokenizer import own_tokenizer
from pretrain.encoders.model import EncoderModel
from pretrain.encoders.model_config import read_model_config
from pretrain.prediction.arrays import checked_arrays
from pretrain.prediction.batching import Batching, Outputs
from pretrain.prediction.choices import choice_rows
from pretrain.prediction.computation import Computation, logits_of
from pretrain.prediction.predictor import Facts, facts_of, length_of, make_predictor, warn_of_one_row
from pretrain.prediction.questions import answer_options
from pretrain.prediction.rows import Row
from pretrain.prediction.sentences import encoded
from pretrain.settings.fields import Choice

Text = str | tuple[str, str]
Pooling = Literal["mean", "cls", "pooler"]


def load(
    path: PathName,
    model_config: Choice | PathName | None = None,
    import_modules: Sequence[str] = (),
    *,
    tokenizer: PathName | None = None,
    allow_other_tokenizer: bool = False,
) -> "PretrainedModel":
    """The model of a checkpoint of any supported format.

        model = load("run2")
        model.predict(["a text", ("the first of a pair", "the second")])
        outputs = model({"input_ids": ids, "input_mask": mask, "segment_ids": segments})

    Args:
      path: the checkpoint, as for `--init_checkpoint`.
      model_config: the encoder's configuration, where the checkpoint has none: a name such as "albert_base_v2", a file or folder,
        or what pretrain.encoders.model_config.read_model_config returns.
      import_modules: modules of your own parts that the checkpoint may name, e.g. ["my_encoder"].
      tokenizer: tokenizer file; default: the one kept with the checkpoint. Read when it is first needed.
      allow_other_tokenizer: accept a tokenizer that is not the checkpoint's.

    A head that cannot be used is left out, with a warning.

    Raises UsageError where there is no checkpoint, DataError where it is damaged or lacks weights of the encoder.
    """
    if model_config is not None and not isinstance(model_config, Choice):
        model_config = read_model_config(os.fspath(model_config))
    checkpoint = read_checkpoint(str(path), model_config, import_modules)
    report_ignored(checkpoint, model_config)
    warn_of_one_row(checkpoint, str(path))
    facts = facts_of(checkpoint, str(path))
    make = partial(PretrainedModel, facts=facts, tokenizer=tokenizer, allow_other=allow_other_tokenizer)
    model = load_model(checkpoint, make)
    assert isinstance(model, PretrainedModel)
    return model


class PretrainedModel(EncoderModel):
    """An encoder with its heads, which takes arrays when it is called, and texts for `predict` and `embed`.

    Its call takes arrays int32 (b, L) and, optionally, masked_lm_positions (b, P), and returns, as far as the checkpoint has
    them: sequence_output (b, L, H), pooled_output (b, H), mlm_logits (b, P, V), or (b, L, V) without positions,
    sentence_logits (b, 2), and logits of a classifier (b, classes), of spans (b, L, 2) or of choices (b, 1), each of
    which is a row, or what ConditionalSpanHead gives.
    """

    def __init__(
        self,
        encoder: keras.layers.Layer,
        heads: dict[str, keras.layers.Layer],
        facts: Facts,
        tokenizer: PathName | None,
        allow_other: bool,
    ) -> None:
        super().__init__(encoder, heads)
        self._facts, self._given, self._allow_other = facts, tokenizer, allow_other
        self._logits = cache(partial(logits_of, self))  # what is compiled serves the next call, too
        self._hidden = cache(lambda name: Computation(self, (), [name]))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The checkpoint's tokenizer. UsageError where there is none, or where the one given is another."""
        return own_tokenizer(self._facts.source, self._given, self._allow_other, self._facts.rows)

    def predict(
        self,
        x: Any,
        batch_size: int = 32,
        *,
        max_seq_length: int | None = None,
        top_k: int = 5,
        **options: Any,
    ) -> Any:
        """The predictions for a list of texts, in its order.

        Args:
          x: texts, and (text, second text) for pairs; for a question answering model (question, context); for a multiple-choice
            model (context, question, [choice, ...]), or (context, [choice, ...]); for a pretrained model texts with [MASK].
            Arrays and data sets of arrays go to keras.Model.predict, with the other options.
          batch_size: texts computed at a time.
          max_seq_length: tokens of an example; default: that of the model's training. Longer texts are cut, longer contexts
            become several windows.
          top_k: pieces for each [MASK].

        Returns a dict for each text, as the lines of `pretrain predict --format jsonl` without their index:
          a classifier: {"prediction": class, "scores": {class: probability}}; several labels: a list of labels, and the
            probability of each; a regression: the number, and no scores; an empty text: None, and no scores;
          a question answering model: {"answer", "score", "start", "end"}, characters [start, end) of the context; no answer
            is "", without a question or a context None;
          a multiple-choice model: {"prediction": the number of a choice, "choice": its text, "scores": [the probability of each]};
          a pretrained model: {"prediction": [the best piece of each [MASK]], "masks": [[{"piece", "score"}, ...], ...]}.

        Raises UsageError for what is neither a list of texts nor arrays by name nor a data set, and for a model that has no head
        that predicts.
        """
        if not isinstance(x, list | tuple | str):
            arrays = checked_arrays(x)
            if isinstance(arrays, Mapping):
                self._check(arrays)
            return super().predict(arrays, batch_size, **options)
        if options:
            raise UsageError(f"predict has no option {next(iter(options))!r} for texts. Known: max_seq_length, top_k.")
        facts = self._facts
        if not facts.head:
            raise UsageError(
                f"{facts.source} has no head that predicts. Fine-tune it, or use embed(texts) for its vectors."
            )
        batching = Batching(
            self._logits(facts.head), _positive("batch_size", batch_size), length_of(facts, max_seq_length)
        )
        predictor = make_predictor(
            batching,
            facts,
            self.tokenizer,
            top_k=_positive("top_k", top_k),
            answers=answer_options(facts.source, facts.extras),
        )
        rows = choice_rows(x) if predictor.kind.choices else _rows("predict", x, pairs=predictor.kind.pairs)
        return [result for _, result in predictor(rows)]

    def embed(
        self,
        texts: Sequence[Text],
        batch_size: int = 32,
        *,
        pooling: Pooling = "mean",
        max_seq_length: int | None = None,
    ) -> np.ndarray:
        """Vectors of texts or pairs, float32 (texts, hidden size).

        Args:
          texts: as for predict.
          batch_size: texts computed at a time.
          pooling: mean: of the last layer's vectors of all tokens; cls: that of [CLS]; pooler: pooled_output.
          max_seq_length: tokens of an example; longer texts are cut.
        """
        if pooling not in _POOLINGS:
            raise UsageError(
                f"{opt('pooling')} must be one of {', '.join(_POOLINGS)}. Received: {pooling!r}.{closest(pooling, _POOLINGS)}"
            )
        output, pool = _POOLINGS[pooling]
        hidden = self._hidden(output)

        def compute(batch: dict[str, np.ndarray]) -> Outputs:
            return {"vector": pool(hidden(batch)[output], batch["input_mask"])}

        batching = Batching(compute, _positive("batch_size", batch_size), length_of(self._facts, max_seq_length))
        tokenizer = self.tokenizer
        examples = encoded(_rows("embed", texts, pairs=False), tokenizer.encode, tokenizer, batching, Counter())
        vectors = [outputs["vector"] for _, outputs in batching.outputs(examples)]
        return np.stack(vectors) if vectors else np.zeros((0, self.encoder.hidden_size), np.float32)


def _mean(vectors: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return (vectors * mask[..., None]).sum(axis=1, dtype=np.float32) / mask.sum(axis=1, keepdims=True, dtype=np.float32)


# pooling -> (output of the model, what makes vectors (b, H) of it and the mask (b, L))
_POOLINGS: dict[str, tuple[str, Callable[[np.ndarray, np.ndarray], np.ndarray]]] = {
    "mean": ("sequence_output", _mean),
    "cls": ("sequence_output", lambda vectors, mask: vectors[:, 0].copy()),
    "pooler": ("pooled_output", lambda vectors, mask: vectors),
}


def _positive(name: str, value: int) -> int:
    check_range(name, value, 1, None)
    return value


def _rows(method: str, texts: Any, pairs: bool) -> list[Row]:
    """Texts as rows. UsageError, naming the method that takes them, for what is neither text nor a pair of texts."""
    expected = "pairs (question, context)" if pairs else "texts, and (text, second text) for pairs"
    if not isinstance(texts, list):
        raise UsageError(
            f"{method} takes a list of {expected}. Received: {str(texts)[:60]!r}. Put it into a list: [...]."
        )
    rows = []
    for number, item in enumerate(texts):
        parts = item if isinstance(item, tuple | list) else (item,)
        if len(parts) not in ((2,) if pairs else (1, 2)) or not all(isinstance(part, str) for part in parts):
            raise UsageError(
                f"item {number}: expected {expected}. Received: {str(item)[:60]!r} ({type(item).__name__})."
            )
        if not all(map(is_characters, parts)):
            raise UsageError(f"item {number} has {HALF}: {ascii(item)[:60]}.")
        rows.append(Row(str(number), parts[0], parts[1] if len(parts) == 2 else ""))
    return rows
