"""What a run of pretrain run predicts at its end: as run_classifer.py and run_squad.py of kamalkraj/ALBERT-TF2.0 do.

For texts, the files test_results.tsv (with scores) and submit_results.tsv (as GLUE's server takes them) in the model_dir; for
questions, predictions.json, nbest_predictions.json and null_odds.json, with their score where the answers are known.
"""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nlpdata.errors import UsageError
from nlpdata.files.json_files import write_file
from nlpdata.finetuning.datasets import find_dataset
from nlpdata.finetuning.glue import LAYOUTS
from nlpdata.finetuning.squad import is_named_squad
from nlpdata.tokenizers import load_tokenizer
from pretrain.data.tokenizers import tokenizer_entry
from pretrain.settings.flags import as_flag
from pretrain.settings.schema import ExperimentConfig

_log = logging.getLogger(__name__)

_RESULTS, _SUBMISSION = "test_results.tsv", "submit_results.tsv"


def file_to_predict(values: Mapping[str, Any]) -> Path | None:
    """The file that the flags of a run ask predictions for; None where they ask for none.

    Args:
      values: as pretrain.settings.flags.parse_flags returns them.

    UsageError where they ask for predictions without naming a file, or name one that is not there.
    """
    if not values.get("do_predict") and values.get("mode") not in ("predict", "train_and_predict"):
        return None
    if "seeds" in values:
        raise UsageError("--seeds makes several models: which one is to predict? Use `pretrain predict`.")
    if "predict_file" in values:
        path = Path(values["predict_file"])
        if not path.is_file():
            raise UsageError(f"--predict_file={path}: there is no such file.")
        return path
    if "task_name" in values and "input_data_dir" in values:
        return _test_set(values["task_name"], Path(values["input_data_dir"]))
    raise UsageError(
        "nothing to predict for: name SQuAD's JSON or a file of texts with --predict_file, or GLUE's test set with "
        "--task_name=CoLA --input_data_dir=glue_data. Later, and for other files: `pretrain predict`."
    )


def _test_set(task: str, folder: Path) -> Path:
    """The test set of a GLUE task; `folder` is GLUE's, or the task's own."""
    try:
        layout = LAYOUTS[find_dataset(task)]
    except (UsageError, KeyError):
        raise UsageError(
            f"--task_name={task} is not a task of GLUE: {', '.join(LAYOUTS)}. Name another file with --predict_file."
        ) from None
    names = layout.tests[0][1]
    for place in (folder, *(folder / name for name in layout.folders)):
        for name in names:
            if (place / name).is_file():
                return place / name
    raise UsageError(
        f"--input_data_dir={folder} has no test set of {layout.name}: expected {layout.folders[0]}/{names[0]} in it."
    )


def check_tokenizer(values: Mapping[str, Any], config: ExperimentConfig) -> None:
    """UsageError where the flags name another tokenizer than that of the records; reports those that are for predictions alone."""
    if file_to_predict(values) is None:
        idle = [as_flag(name) for name in ("predict_file", "input_data_dir", "task_name") if name in values]
        if idle:
            _log.info(f"{', '.join(idle)}: without --do_predict (or --mode=train_and_predict) nothing is predicted.")
    if "tokenizer" in values and config.task.train_data.is_given:
        from pretrain.converters.same_tokenizer import refuse_other_than_that_of

        name = "task.train_data"
        entry = tokenizer_entry(config.task.train_data, name)
        refuse_other_than_that_of(entry, name, values["tokenizer"], config.task.allow_other_tokenizer)


def predict_at_end(path: Path, model_dir: str, values: Mapping[str, Any], batch_size: int = 32) -> None:
    """Writes the predictions for a file into the model_dir, in place of earlier ones.

    Args:
      path: as file_to_predict returns it.
      model_dir: folder of the run.
      values: the flags: tokenizer, import_module and allow_other_tokenizer are used.
      batch_size: examples computed at a time.
    """
    from pretrain.prediction.file import predict

    modules = [name.strip() for text in values.get("import_module", ()) for name in text.split(",") if name.strip()]
    is_questions = is_named_squad(path.name)
    output = Path(model_dir) if is_questions else Path(model_dir, _RESULTS)
    predict(
        model_dir,
        path,
        output,
        format="squad" if is_questions else "tsv",
        tokenizer=_tokenizer(values.get("tokenizer"), model_dir),
        batch_size=batch_size,
        overwrite=True,
        import_modules=modules,
        allow_other_tokenizer=bool(values.get("allow_other_tokenizer")),
    )
    if not is_questions:
        write_submission(output, Path(model_dir, _SUBMISSION))


def write_submission(results: Path, submission: Path) -> None:
    """Makes of predictions with scores (format tsv) what GLUE's server takes: the index and the prediction, numbers from 0 to 5."""
    header, *rows = [line.split("\t") for line in results.read_text(encoding="utf-8").split("\n")[:-1]]
    empty = next((row[0] for row in rows if not row[1]), None)
    if empty is not None:
        _log.info(f"no {submission}: row {empty} has no prediction, and GLUE's server takes one for every row")
        return
    are_numbers = len(header) == 2  # classes have scores
    lines = ["\t".join(header[:2])]
    lines += [
        f"{name}\t{min(max(float(each), 0), 5):.3f}" if are_numbers else f"{name}\t{each}" for name, each, *_ in rows
    ]
    write_file(submission, "".join(f"{line}\n" for line in lines).encode())


def _tokenizer(given: str | None, model_dir: str) -> str | None:
    """The tokenizer to predict with; None where that given is the one kept with the model, whose options are known."""
    from pretrain.converters.tokenizer_files import find_tokenizer

    own = find_tokenizer(model_dir) if given else None
    return None if given and own and load_tokenizer(own).sha256 == load_tokenizer(given).sha256 else given
