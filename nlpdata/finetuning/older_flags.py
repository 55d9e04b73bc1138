"""Flags of the older create_finetuning_data.py scripts that are not one option each.

Sources: create_finetuning_data.py of the TensorFlow Model Garden and of kamalkraj/ALBERT-TF2.0. The flags that are one
option each are in nlpdata.cli.aliases.
"""

from collections.abc import Sequence

from nlpdata.errors import UsageError

# The kinds that --fine_tuning_task_type names, and the task that each implies; None: --classification_task_name does.
_TASK_TYPES = {"classification": None, "regression": None, "squad": "squad"}
# tfds_params key -> our option
_TFDS = {
    "dataset": "--tfds",
    "data_dir": "--tfds-data-dir",
    "text_key": "--text-column",
    "text_b_key": "--text-b-column",
    "label_key": "--label-column",
}
_TFDS_SPLITS = {"train_split": "train", "dev_split": "dev", "test_split": "test"}

# The scripts' option for the file of a split.
_OUTPUTS = {
    "--train-data-output-path": "train",
    "--eval-data-output-path": "dev",
    "--test-data-output-path": "test",
}
# Options that say which splits there are, or where those without a name go; questions come one file a command.
_OWN_WAYS = {"--splits", "--output", "--output-dir", "--tfds", "--tfds-splits", "--squad-data-file"}


def finetuning_argv(argv: Sequence[str]) -> list[str]:
    """argv with --fine_tuning_task_type, --mnli_type and --tfds_params rewritten to our options.

    Raises UsageError where they name what create-finetuning does not make.
    """
    rest, result, mnli = list(argv), [], None
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        name = name.replace("_", "-")
        if name not in ("--fine-tuning-task-type", "--mnli-type", "--tfds-params"):
            result.append(word)
            continue
        if not equals:
            if not rest:
                raise UsageError(f"{name} needs a value.")
            value = rest.pop(0)
        if name == "--fine-tuning-task-type":
            result += _task_type(value)
        elif name == "--mnli-type":
            mnli = value
        elif name == "--tfds-params" and value:
            result += tfds_options(value)
    if mnli is None and _names_one_eval_file(result):
        mnli = "matched"  # the scripts' default: they write one file
    result += _named_splits(result)
    return _with_mnli_type(result, mnli) if mnli else result


def _named_splits(argv: Sequence[str]) -> list[str]:
    """--splits of the files that the scripts' options name: they write no others, whose names all datasets would share."""
    given = {word.partition("=")[0].replace("_", "-") for word in argv}
    named = [split for flag, split in _OUTPUTS.items() if flag in given]
    return ["--splits", ",".join(named)] if named and not given & _OWN_WAYS else []


def _names_one_eval_file(argv: Sequence[str]) -> bool:
    return any(word.partition("=")[0].replace("_", "-") == "--eval-data-output-path" for word in argv)


def _task_type(value: str) -> list[str]:
    if value not in _TASK_TYPES:
        known = ", ".join(_TASK_TYPES)
        raise UsageError(f"--fine_tuning_task_type: create-finetuning makes {known}. Received: {value!r}.")
    task = _TASK_TYPES[value]
    return ["--task", task] if task else []


def _with_mnli_type(argv: list[str], kind: str) -> list[str]:
    """--task mnli of one kind of dev set, as --mnli_type says."""
    if kind not in ("matched", "mismatched"):
        raise UsageError(f"--mnli_type is matched or mismatched. Received: {kind!r}.")
    result = []
    for i, word in enumerate(argv):
        name, equals, value = word.partition("=")
        task_flag = name.replace("_", "-") in ("--task", "--classification-task-name")
        before = argv[i - 1].replace("_", "-") if i else ""
        if task_flag and equals and value.lower() == "mnli":
            word = f"{name}=mnli-{kind}"
        elif before in ("--task", "--classification-task-name") and word.lower() == "mnli":
            word = f"mnli-{kind}"
        result.append(word)
    return result


def tfds_options(params: str) -> list[str]:
    """The Model Garden's tfds_params, `dataset=glue/sst2,text_key=sentence,...`, as our options."""
    result, splits = [], []
    for item in params.split(","):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals or not value:
            raise UsageError(f"--tfds_params: received {item!r}, expected key=value pairs with commas between them.")
        if key in _TFDS:
            result += [_TFDS[key], value]
        elif key in _TFDS_SPLITS:
            splits.append(f"{_TFDS_SPLITS[key]}={value}")
        elif (key == "is_regression" and value.lower() not in ("false", "0")) or (
            key == "label_type" and value == "float"
        ):
            result += ["--task", "regression"]
        elif key not in ("is_regression", "label_type", "test_label"):
            known = ", ".join([*_TFDS, *_TFDS_SPLITS, "is_regression", "label_type"])
            raise UsageError(f"--tfds_params: {key} has no counterpart here. Known: {known}.")
    return result + (["--tfds-splits", ",".join(splits)] if splits else [])
