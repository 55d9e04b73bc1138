"""python -m pretrain.predict --model_dir run2 --input texts.tsv --output predictions.tsv: what a fine-tuned model says.

A sentence model takes texts (.txt, one a line; .tsv with a header; .jsonl); a question answering model SQuAD's .json, or the
dev or test records of `nlpdata create-finetuning --task squad`, and writes predictions.json, nbest_predictions.json and
null_odds.json.
"""

import contextlib
import functools
import logging
import os
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from nlpdata.errors import DataError, UsageError
from nlpdata.files.json_files import json_bytes
from nlpdata.files.paths import is_device
from nlpdata.files.temporary import temporary
from nlpdata.files.writing import sync_folder, write_durably
from pretrain.registry import user_modules
from pretrain.settings.command_line import AllowOtherTokenizer, ImportModules, run_app

_log = logging.getLogger("pretrain.predict")

# In the order in which they appear.
_ANSWERS = ("null_odds.json", "nbest_predictions.json", "predictions.json")

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def predict_command(
    input: Annotated[str, typer.Option(help="Texts, or questions: SQuAD's JSON, or its records.")],
    output: Annotated[str, typer.Option(help="File of predictions; for SQuAD a folder.")],
    model_dir: Annotated[
        str, typer.Option("--model_dir", "--model-dir", "--init_checkpoint", help="Run or checkpoint.")
    ],
    format: Annotated[str, typer.Option(help="tsv, jsonl or glue.")] = "tsv",
    tokenizer: Annotated[str | None, typer.Option(help="Tokenizer file.  [default: that kept with the model]")] = None,
    batch_size: Annotated[int, typer.Option("--batch_size", "--batch-size", min=1, help="Examples at a time.")] = 32,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace earlier predictions, once the new ones are complete.")
    ] = False,
    import_module: ImportModules = None,
    allow_other_tokenizer: AllowOtherTokenizer = False,
) -> None:
    """Write the predictions of a fine-tuned model."""
    options = {"format": format, "tokenizer": tokenizer, "batch_size": batch_size, "overwrite": overwrite}
    options |= {"import_modules": import_module or (), "allow_other_tokenizer": allow_other_tokenizer}
    predict(model_dir, input, output, **options)


def predict(
    model_dir,
    input,
    output,
    *,
    format: str = "tsv",
    tokenizer: str | None = None,
    batch_size: int = 32,
    overwrite: bool = False,
    import_modules: Sequence[str] = (),
    allow_other_tokenizer: bool = False,
) -> None:
    """Writes the predictions of a fine-tuned model for a file; see the top of this file.

    Args:
      model_dir: the checkpoint of the model, as for pretrain.load.
      input, output: see the top of this file.
      format: tsv, jsonl or glue.
      tokenizer: its file; default: the one kept with the model.
      batch_size: examples at a time.
      overwrite: replace earlier predictions, whole and at the end; else an output that exists is refused.
      import_modules: modules of the user's own parts that the model's checkpoint may name.
      allow_other_tokenizer: take a tokenizer, or records of one, that is not the model's.

    Raises UsageError where model, input and options do not fit, DataError where a file is damaged.
    """
    with user_modules(import_modules):
        words = functools.partial(_tokenizer, str(model_dir), tokenizer, allow_other_tokenizer)
        _predict(str(model_dir), input, output, format, words, batch_size, overwrite)


def _predict(model_dir, input, output, format, words, batch_size, overwrite) -> None:
    from pretrain.converters import read_checkpoint
    from pretrain.converters.heads import listed

    checkpoint = read_checkpoint(model_dir)
    if checkpoint.head is None and "span/logits/kernel" not in checkpoint.weights:
        why = f" Left out: {listed(checkpoint.left_out)}." if checkpoint.left_out else ""
        raise UsageError(
            f"{model_dir} holds no fine-tuned head (classifier or span) that can be used: there is nothing that it predicts."
            f"{why} Fine-tune it with --experiment=bert/sentence_prediction or bert/squad."
        )
    _check_output(Path(input), Path(output), checkpoint.head is None, overwrite)
    if checkpoint.head:
        _predict_texts(checkpoint, input, output, format, words, batch_size)
    else:
        with _question_records(checkpoint, input, words) as records:
            _predict_answers(checkpoint, model_dir, records, output, batch_size)


def _check_output(input: Path, output: Path, is_folder: bool, overwrite: bool) -> None:
    """UsageError where predictions cannot be written there: before the work, not after it."""
    if is_device(output) and not is_folder:
        return
    expected = "a folder" if is_folder else "a file"
    if output.exists() and output.is_dir() != is_folder:
        raise UsageError(f"--output {output}: expected {expected}, found {'a file' if is_folder else 'a folder'}.")
    if output.exists() and input.exists() and output.samefile(input):
        raise UsageError(f"--output {output} is the input: it would be lost. Name another file.")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"--output {output}: there is no folder {output.parent}. Make it first.")
    # Of answers, predictions.json comes last: without it the others are what an interrupted run left.
    main = output / _ANSWERS[-1] if is_folder else output
    if os.path.lexists(main):
        _refuse_existing(main, is_folder, overwrite)
    try:
        with temporary(main if output.is_dir() else output):
            pass
    except OSError as error:
        raise UsageError(f"--output {output}: cannot be written: {error.strerror or error}.") from None


def _refuse_existing(path: Path, is_folder: bool, overwrite: bool) -> None:
    from pretrain.prediction.sentences import looks_predicted

    if not overwrite:
        raise UsageError(f"{path} exists. Use --overwrite, or another --output.")
    if path.is_dir():
        raise UsageError(f"{path} is a folder; a file is written there. Name another --output.")
    if not is_folder and not looks_predicted(path):
        raise UsageError(
            f"--overwrite replaces earlier predictions, and {path} holds something else. Remove it yourself, or name another "
            "--output."
        )


def _predict_texts(checkpoint, input, output, format, words, batch_size) -> None:
    from pretrain.converters.load import load_model
    from pretrain.prediction.sentences import FORMATS, predict_logits, read_texts, rows_of, write_rows

    if format not in FORMATS:
        raise UsageError(f"--format must be one of {', '.join(FORMATS)}. Received: {format!r}.")
    if "tfrecord" in Path(input).name or "tf_record" in Path(input).name:
        raise UsageError(f"--input {input}: records know no texts. Give the texts, as .txt, .tsv or .jsonl.")
    texts = read_texts(input)
    if not texts.first:
        raise DataError(f"{input} holds no texts.")
    logits = predict_logits(load_model(checkpoint), words(), texts, checkpoint.sequence_length, batch_size)
    rows = rows_of(checkpoint.head, texts, logits)
    empty = sum(row["prediction"] is None for row in rows)
    if empty:
        _log.info(f"{empty} of {len(rows)} texts are empty: they have no prediction")
    write_rows(output, rows, format)
    _log.info(f"{len(rows)} predictions written: {output}")


def _tokenizer(model_dir: str, given: str | None, allow_other: bool, records: str | None = None):
    """The tokenizer: the one given, else that kept with the model. UsageError where it is not the one of its training.

    Args:
      records: questions that are records already: their tokenizer is checked in its place, and nothing is returned.
    """
    from nlpdata.tokenizers import load_tokenizer
    from pretrain.converters.same_tokenizer import refuse_other_tokenizer
    from pretrain.converters.tokenizer_files import find_tokenizer
    from pretrain.data.tokenizers import tokenizer_entry
    from pretrain.settings.schema import EvalDataConfig

    if records is not None:
        file, use = tokenizer_entry(EvalDataConfig(input_path=records), "--input")
        refuse_other_tokenizer(records, use, file, model_dir, allow_other)
        return None
    path = given or find_tokenizer(model_dir)
    if path is None:
        raise UsageError(f"no tokenizer lies beside {model_dir}. Name it with --tokenizer.")
    loaded = load_tokenizer(path)
    refuse_other_tokenizer(loaded.path, loaded.meta(), Path(loaded.path), model_dir, allow_other)
    return loaded


@contextlib.contextmanager
def _question_records(checkpoint, input, words):
    """The records of the questions: the input, or those made of SQuAD's JSON for as long as they are needed."""
    if not str(input).endswith((".json", ".json.gz")):
        words(records=str(input))
        yield str(input)
        return
    from nlpdata import create_finetuning

    length = checkpoint.sequence_length
    longest = min(64, length // 4)
    with tempfile.TemporaryDirectory(prefix="nlpdata-predict-") as folder:
        made = create_finetuning(
            str(input),
            folder,
            words().spec,
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


def _predict_answers(checkpoint, model_dir, input, output, batch_size) -> None:
    from keras import ops

    from pretrain.converters import assign
    from pretrain.evaluation.squad_answers import final_answers
    from pretrain.registry import TASKS
    from pretrain.settings.schema import EvalDataConfig, ModelConfig
    from pretrain.tasks.question_answering import QuestionAnsweringTask

    data = EvalDataConfig(input_path=input, global_batch_size=batch_size, trim_padding=True)
    config = TASKS.config_class("question_answering")(
        model=ModelConfig(encoder=checkpoint.encoder), validation_data=data
    )
    task = QuestionAnsweringTask(replace(config, **_answer_options(model_dir, checkpoint.extras)))
    batches = task.build_inputs(data, labelled=False)
    model = task.build_model()
    assign(model, checkpoint)
    state = None
    for step in range(batches.steps_per_epoch):
        batch = batches.batch(step)
        real = batch["is_real_example"].astype(bool)
        _, outputs = task.validation_step(model, batch)
        outputs = {name: ops.convert_to_numpy(values)[real] for name, values in outputs.items()}
        state = task.aggregate_logs(state, {}, outputs)
    answers = task.answers(state["outputs"])
    final = final_answers(answers, task.with_negative(), task.config.null_score_diff_threshold)
    odds = {key: each.null_odds for key, each in answers.items()} if task.with_negative() else None
    _write_answers(Path(output), (odds, {key: each.nbest for key, each in answers.items()}, final))
    _log.info(f"{len(answers)} answers written: {output}")


def _write_answers(folder: Path, contents: Sequence[dict | None]) -> None:
    """Replaces the files of answers (in the order of _ANSWERS) whole: old ones are gone before the first new one comes."""
    paths = [folder / name for name in _ANSWERS]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            staged = {}
            for path, content in zip(paths, contents, strict=True):
                if content is not None:
                    staged[path] = stack.enter_context(temporary(path))
                    write_durably(staged[path], json_bytes(content))
            for path in reversed(paths):
                path.unlink(missing_ok=True)
            for path, made in staged.items():
                os.replace(made, path)
            sync_folder(folder)
    except OSError as error:
        raise DataError(f"cannot write {folder}: {error.strerror or error}") from None


def _answer_options(model_dir: str, facts: dict) -> dict:
    """How the run was told to choose answers; whether there may be none, if not that, as its records said."""
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


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit code when called with argv, else exits."""
    return run_app(app, "predict", argv)


if __name__ == "__main__":
    main()
