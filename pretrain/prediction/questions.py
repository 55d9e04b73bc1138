"""Answers of a fine-tuned question answering model: questions, as SQuAD's JSON or as records, -> answers."""

import contextlib
import logging
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace

from nlpdata.errors import DataError, UsageError
from nlpdata.files import PathName
from nlpdata.tokenizers import Tokenizer
from pretrain.converters.checkpoint import Checkpoint
from pretrain.prediction.writing import Answers

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def records_of_questions(path: PathName, tokenizer: Tokenizer, length: int) -> Iterator[str]:
    """The record file of the questions in SQuAD's JSON, for as long as the context is open.

    Args:
      path: .json or .json.gz file; its questions need no answers.
      tokenizer: the model's.
      length: tokens of a record. Longer contexts become several windows, a question takes a quarter of it at most.
    """
    from nlpdata import create_finetuning

    longest = min(64, length // 4)
    with tempfile.TemporaryDirectory(prefix="nlpdata-predict-") as folder:
        made = create_finetuning(
            str(path),
            folder,
            tokenizer.spec,
            task="squad",
            splits="test",
            max_seq_length=length,
            max_query_length=longest,
            doc_stride=min(128, length // 3),
            on_bad_row="skip",
            accept_loss=True,
            workers=1,
        )
        counters = made.counters["test"]["counters"]
        _log.info(f"{counters['questions']} questions in {counters['examples']} windows of {length} tokens")
        for count, what in (
            (counters.get("questions_truncated", 0), f"are longer than {longest} tokens: their ends were cut"),
            (sum(counters["dropped"].values()), "cannot be used and have no answer"),
        ):
            if count:
                _log.info(f"{count} questions {what}")
        yield made.files["test"][0]


def predict_answers(checkpoint: Checkpoint, model_dir: str, records: str, batch_size: int) -> Answers:
    """The answers of a checkpoint with a span head to the questions of records.

    Args:
      checkpoint: encoder and span head, as pretrain.converters.read_checkpoint reads it.
      model_dir: where it was read from: a run's configuration decides how answers are chosen.
      records: dev or test records of `nlpdata create-finetuning --task squad`.
      batch_size: windows computed at a time.

    Raises UsageError where records and model do not fit, DataError where a file is damaged.
    """
    from keras import ops

    from pretrain.converters import assign
    from pretrain.evaluation.squad_answers import final_answers
    from pretrain.registry import TASKS
    from pretrain.settings.schema import EvalDataConfig, ModelConfig
    from pretrain.tasks.question_answering import QuestionAnsweringTask

    data = EvalDataConfig(input_path=records, global_batch_size=batch_size, trim_padding=True)
    config = TASKS.config_class("question_answering")(
        model=ModelConfig(encoder=checkpoint.known_encoder), validation_data=data
    )
    config = replace(config, **_answer_options(model_dir, checkpoint.extras))
    task = QuestionAnsweringTask(config)
    batches = task.build_inputs(data, labelled=False)
    model = task.build_model()
    assign(model, checkpoint)
    state: dict = {}
    for step in range(batches.steps_per_epoch):
        batch = batches.batch(step)
        real = batch["is_real_example"].astype(bool)
        _, outputs = task.validation_step(model, batch)
        outputs = {name: ops.convert_to_numpy(values)[real] for name, values in outputs.items()}
        state = task.aggregate_logs(state, {}, outputs)
    answers = task.answers(state["outputs"])
    final = final_answers(answers, task.with_negative(), config.null_score_diff_threshold)
    odds = {key: each.null_odds for key, each in answers.items()} if task.with_negative() else None
    return Answers(odds, {key: each.nbest for key, each in answers.items()}, final)


def _answer_options(model_dir: str, facts: Mapping) -> dict:
    """How answers are chosen: by the run's configuration, or by its records where that leaves open whether there may be none."""
    from pretrain.converters import native
    from pretrain.settings.tree import Place, merged, to_tree
    from pretrain.tasks.configs import QuestionAnsweringConfig

    own = native.locate_info(model_dir)
    task = own[1].get("config", {}).get("task", {}) if own else {}
    names = ("version_2_with_negative", "n_best_size", "max_answer_length", "null_score_diff_threshold")
    stored = {name: task[name] for name in names if name in task} if isinstance(task, dict) else {}
    if stored.get(names[0]) is None:
        stored[names[0]] = facts.get(names[0])
    place = Place(f"{own[0] / native.INFO}" if own else model_dir, "config.task", stored=True)
    try:
        merged_options = merged(QuestionAnsweringConfig, to_tree(QuestionAnsweringConfig()), stored, place)
    except UsageError as error:
        raise DataError(str(error)) from None
    return {name: merged_options[name] for name in names}
