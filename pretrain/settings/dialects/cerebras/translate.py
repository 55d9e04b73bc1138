"""A Cerebras YAML -> the experiment that it describes, and a layer over it."""

import logging
from pathlib import Path
from typing import Any

from nlpdata.errors import UsageError, closest
from nlpdata.records.contract import find_meta
from pretrain.settings.dialects.cerebras.keys import DEFAULTS, KEYS
from pretrain.settings.dialects.cerebras.schedule import learning_rate_layer
from pretrain.settings.values import parse_value
from pretrain.settings.yaml_files import read_yaml

_log = logging.getLogger(__name__)

_RULED = {  # keys that functions below read
    "data_dir", "data_file", "vocab_file", "embedding_size", "pretrain_params_path", "optimizer_type", "learning_rate",
    "disable_lr_steps_reset",
}  # fmt: skip
_TASK_FIELDS = {  # fields that only one kind of experiment has
    "task.model.num_classes": "sentence_prediction",
    "task.model.classifier_dropout_prob": "sentence_prediction",
    "task.use_next_sentence_label": "pretraining",
}
_SPLITS = {"train_input": ("train",), "eval_input": ("dev", "eval", "val")}  # how names of their records begin


def read_params(path: str, experiment: str | None = None) -> tuple[str, dict]:
    """(experiment, tree of changes to it) that a Cerebras YAML describes.

    Args:
      path: the file.
      experiment: the one to change; None: the one that the file describes.

    Raises UsageError, with file and dotted path, for a key that is not known and for a value that cannot be honoured.
    """
    return _Params(path, experiment).translate()


class _Params:
    def __init__(self, path: str, experiment: str | None) -> None:
        self._path = path
        self._layer: dict[str, Any] = {}
        self._without_effect: list[str] = []
        self._params = dict(read_yaml(path))
        for name, content in self._params.items():
            if name not in KEYS:
                raise self._error(name, f"no section of theirs is known by this name.{closest(name, KEYS)}")
            if not isinstance(content or {}, dict):
                raise self._error(name, f"expected names with values. Received: {content!r}")
        for name in ("train_input", "model", "optimizer", "runconfig"):
            self._params[name] = dict(self._params.get(name) or {})
        self._with_pretraining_model()
        self._experiment = experiment or self._find_experiment()

    def translate(self) -> tuple[str, dict]:
        for section, content in self._params.items():
            given = content or {}
            defaults = {key: value for key, value in DEFAULTS.get(section, {}).items() if given and key not in given}
            for key, value in (defaults | given).items():
                self._translate_key(section, key, value)
        for section, ours in (("train_input", "train_data"), ("eval_input", "validation_data")):
            self._records(section, ours)
        self._vocabulary()
        self._model()
        self._optimizer()
        if self._without_effect:
            _log.info(f"{self._path}: without effect here: {', '.join(self._without_effect)}")
        return self._experiment, self._layer

    def _error(self, key: str, message: str) -> UsageError:
        return UsageError(f"--params {self._path}: {key}: {message}")

    def _put(self, path: str, value: Any) -> None:
        *sections, name = path.split(".")
        tree = self._layer
        for section in sections:
            tree = tree.setdefault(section, {})
        tree[name] = value

    def _with_pretraining_model(self) -> None:
        """Takes the model that pretrain_params_path describes for what this file leaves open, as their code does."""
        given = self._params["model"].get("pretrain_params_path")
        if not given:
            return
        here = Path(self._path).resolve().parent
        places = [folder / given for folder in (here.parent, here, Path.cwd())]  # theirs is the task's folder
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            raise self._error(
                "model.pretrain_params_path", f"there is no such file. Looked for {', '.join(map(str, places))}."
            )
        theirs = dict(read_yaml(found).get("model") or {})
        theirs.pop("use_vsl", None)
        self._params["model"] = {**theirs, **self._params["model"]}

    def _find_experiment(self) -> str:
        model, data = self._params["model"], self._params["train_input"]
        if "QuestionAnswering" in str(data.get("data_processor")):
            return "bert/squad"
        is_classifier = "cls_dropout_rate" in model or "pretrain_params_path" in model or "num_cls_classes" in model
        return "bert/sentence_prediction" if is_classifier else "bert/pretraining"

    def _translate_key(self, section: str, key: str, value: Any) -> None:
        name, known = f"{section}.{key}", KEYS[section]
        if key not in known:
            raise self._error(name, f"no key of theirs is known by this name.{closest(key, known)}")
        rule = known[key]
        if value is None or key in _RULED:
            return
        if rule.only is not None:
            if str(value).lower() not in rule.only:
                same = f"Only {' or '.join(rule.only)} is the same." if rule.only else "Leave it out."
                raise self._error(name, f"{value!r} makes another model or training than can be had here. {same}")
            return
        kind = self._experiment.rpartition("/")[2]
        fields = [field for field in rule.fields if _TASK_FIELDS.get(field, kind) == kind]
        if not fields and key in (self._params[section] or {}):
            self._without_effect.append(name)
        for field in fields:
            data = "train_data" if section == "train_input" else "validation_data"
            try:
                self._put(field.replace("*", data), rule.convert(value))
            except ValueError as error:
                raise self._error(name, str(error)) from None

    def _records(self, section: str, ours: str) -> None:
        content = self._params.get(section) or {}
        given = content.get("data_file") or content.get("data_dir")
        if given:
            paths, found = [], []
            for path in given if isinstance(given, list) else [given]:
                pattern, files = _record_files(path, "data_file" in content, _SPLITS[section])
                paths.append(pattern)
                found += files
            self._put(f"task.{ours}.input_path", paths)
            self._check_records(section, ours, paths, found)

    def _vocabulary(self) -> None:
        """The number of entries, where it takes their vocabulary file to know it."""
        data = self._params["train_input"]
        given = data.get("vocab_file")
        if not given or data.get("vocab_size"):
            return
        if Path(given).is_file():
            self._put("task.model.encoder.vocab_size", len(Path(given).read_bytes().splitlines()))
        else:
            _log.info(f"{self._path}: train_input.vocab_file: there is no {given}; vocab_size is not changed")

    def _check_records(self, section: str, ours: str, paths: list[str], found: list[Path]) -> None:
        """Reports records that are missing; those without a meta file are theirs, with an input_mask that is 1 on padding."""
        if not found:
            flag = "--input_files" if ours == "train_data" else "--eval_files"
            made = (
                "nlpdata create-pretraining"
                if self._experiment.endswith("pretraining")
                else (
                    "nlpdata create-finetuning, of a folder of TensorFlow Datasets with --tfds glue/sst2 --tfds-data-dir"
                )
            )
            _log.info(
                f"{self._path}: {section}: no records at {', '.join(paths)}. Name others with {flag} (made by {made})."
            )
        elif find_meta(found[0]) is None:
            self._put(f"task.{ours}.invert_mask", True)
            _log.info(
                f"{self._path}: {section}: no meta file next to {found[0]}: read as Cerebras's, with 1 on padding"
            )

    def _model(self) -> None:
        model = self._params["model"]
        if model.get("embedding_size") not in (None, model.get("hidden_size")):
            raise self._error(
                "model.embedding_size", "BERT's is hidden_size here; use --experiment=albert/pretraining."
            )
        options = self._layer.get("task", {}).get("model", {}).get("encoder")
        if options:
            self._layer["task"]["model"]["encoder"] = {"type": "bert", "bert": options}

    def _optimizer(self) -> None:
        optimizer = self._params["optimizer"]
        if not optimizer:
            return
        kind = str(optimizer.get("optimizer_type", "")).lower()
        if kind not in ("adam", "adamw"):
            raise self._error("optimizer.optimizer_type", f"{kind!r} is not there. Use adam or adamw.")
        ours = self._layer["trainer"]["optimizer_config"]
        ours["optimizer"] = {"type": "adamw", "adamw": ours.get("optimizer", {})}
        if kind == "adam":
            ours["optimizer"]["adamw"] |= {"weight_decay_rate": 0.0, "bias_correction": True}
        if "learning_rate" in optimizer:
            reset = not parse_value(bool, optimizer.get("disable_lr_steps_reset", False))
            try:
                ours |= learning_rate_layer(optimizer["learning_rate"], reset)
            except ValueError as error:
                raise self._error("optimizer.learning_rate", str(error)) from None


def _record_files(path: str, is_file: bool, beginnings: tuple[str, ...]) -> tuple[str, list[Path]]:
    """(pattern, files that it matches) of a data_file or data_dir; of a folder with several splits, those of one."""
    if is_file:
        return path, [Path(path)] if Path(path).exists() else []
    for beginning in (*beginnings, ""):
        pattern = f"{beginning}*.tf*record*"
        files = sorted(Path(path).glob(pattern))
        if files or not beginning:
            break
    return f"{path.rstrip('/')}/{pattern}", files
