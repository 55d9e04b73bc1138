"""A file in, predictions out: reads the model and the input, checks the output, predicts and writes."""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path

from nlpdata.errors import DataError, UsageError
from nlpdata.files import PathName
from nlpdata.registry import user_modules
from pretrain.converters import read_checkpoint
from pretrain.converters.checkpoint import Checkpoint
from pretrain.converters.heads import listed
from pretrain.converters.same_tokenizer import own_tokenizer, refuse_other_tokenizer
from pretrain.data.tokenizers import tokenizer_entry
from pretrain.prediction.questions import predict_answers, records_of_questions
from pretrain.prediction.sentences import predict_texts
from pretrain.prediction.texts import read_texts
from pretrain.prediction.writing import check_format, check_output, write_answers, write_rows
from pretrain.settings.schema import EvalDataConfig

_log = logging.getLogger(__name__)


def predict(
    model_dir: PathName,
    input: PathName,
    output: PathName,
    *,
    format: str = "tsv",
    tokenizer: PathName | None = None,
    batch_size: int = 32,
    overwrite: bool = False,
    import_modules: Sequence[str] = (),
    allow_other_tokenizer: bool = False,
) -> None:
    """Writes the predictions of a fine-tuned model for a file.

    Args:
      model_dir: checkpoint of the model, as for pretrain.load.
      input: texts for a sentence model (.txt, one a line; .tsv with a header; .jsonl); questions for a question answering
        model (SQuAD's .json, or dev or test records of `nlpdata create-finetuning --task squad`).
      output: file of predictions, or folder of answers: predictions.json, nbest_predictions.json and null_odds.json.
      format: tsv, jsonl or glue, for texts.
      tokenizer: tokenizer file; default: the one kept with the model.
      batch_size: examples computed at a time.
      overwrite: replace earlier predictions, whole and at the end; else an output that exists is refused.
      import_modules: modules of the user's own parts that the model's checkpoint may name.
      allow_other_tokenizer: accept a tokenizer, or records of one, that is not the model's.

    Raises UsageError where model, input and options do not fit, DataError where a file is damaged.
    """
    place = str(model_dir)
    with user_modules(import_modules):
        checkpoint = _fine_tuned(place)
        check_output(Path(input), Path(output), checkpoint.head is None, overwrite)
        if checkpoint.head is not None:
            check_format(format)
            texts = read_texts(input)
            if not texts.first:
                raise DataError(f"{input} holds no texts.")
            rows = predict_texts(checkpoint, own_tokenizer(place, tokenizer, allow_other_tokenizer), texts, batch_size)
            write_rows(output, rows, format)
            _log.info(f"predictions of {len(rows)} texts written: {output}")
            return
        with _question_records(place, input, tokenizer, allow_other_tokenizer, checkpoint.sequence_length) as records:
            answers = predict_answers(checkpoint, place, records, batch_size)
        write_answers(Path(output), answers)
        _log.info(f"answers to {len(answers.predictions)} questions written: {output}")


def _fine_tuned(model_dir: str) -> Checkpoint:
    checkpoint = read_checkpoint(model_dir)
    if checkpoint.head is None and "span/logits/kernel" not in checkpoint.weights:
        why = f" Left out: {listed(checkpoint.left_out)}." if checkpoint.left_out else ""
        raise UsageError(
            f"{model_dir} holds no fine-tuned head (classifier or span) that can be used: there is nothing that it predicts."
            f"{why} Fine-tune it with --experiment=bert/sentence_prediction or bert/squad."
        )
    return checkpoint


@contextlib.contextmanager
def _question_records(
    model_dir: str, input: PathName, tokenizer: PathName | None, allow_other: bool, length: int
) -> Iterator[str]:
    """The records of the questions: those given, or those made of SQuAD's JSON, which are there until the context closes."""
    if str(input).endswith((".json", ".json.gz")):
        with records_of_questions(input, own_tokenizer(model_dir, tokenizer, allow_other), length) as made:
            yield made
        return
    file, use = tokenizer_entry(EvalDataConfig(input_path=str(input)), "input")
    refuse_other_tokenizer(str(input), use, file, model_dir, allow_other)
    yield str(input)
