"""A Cerebras YAML -> the experiment that it describes, and a layer over it."""

import logging
from pathlib import Path
from typing import Any

from nlpdata.errors import UsageError, closest
from nlpdata.files.json_kinds import as_written
from pretrain.settings.dialects.cerebras.inputs import SECTIONS, TEXT_SETS, input_fields
from pretrain.settings.dialects.cerebras.keys import DEFAULTS, KEYS, OPTIMIZERS
from pretrain.settings.dialects.cerebras.schedule import learning_rate_layer
from pretrain.settings.fields import MOST_EXAMPLES
from pretrain.settings.values import parse_value
from pretrain.settings.yaml_files import find_config, read_yaml

_log = logging.getLogger(__name__)

_RULED = {  # keys that functions below and inputs.py read
    "data_processor", "data_dir", "data_file", "vocab_file", "do_lower", "invert_mask", "embedding_size",
    "pretrain_params_path", "optimizer_type", "learning_rate", "disable_lr_steps_reset", "grad_accum_steps",
}  # fmt: skip
_TEXTS = ("data_processor", "data_dir", "data_file", "vocab_file", "pretrain_params_path", "optimizer_type")  # of them
_TASK_FIELDS = {  # fields that only one kind of experiment has
    "task.model.num_classes": "sentence_prediction",
    "task.model.classifier_dropout_prob": "sentence_prediction",
    "task.use_next_sentence_label": "pretraining",
}


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
                raise self._error(name, f"expected names with values. Received: {as_written(content)}")
            self._check_texts(name, content or {})
        for name in ("train_input", "eval_input", "model", "optimizer", "runconfig"):
            self._params[name] = dict(self._params.get(name) or {})
        if not self._params["eval_input"] and self._params["train_input"].get("data_processor") in TEXT_SETS:
            self._params["eval_input"] = dict(self._params["train_input"])  # as theirs; it reads the validation split
        self._with_pretraining_model()
        self._experiment = experiment or self._find_experiment()

    def translate(self) -> tuple[str, dict]:
        for section, content in self._params.items():
            given = content or {}
            defaults = {key: value for key, value in DEFAULTS.get(section, {}).items() if given and key not in given}
            for key, value in (defaults | given).items():
                self._translate_key(section, key, value)
        vocab_file = self._vocabulary()
        for section, ours in SECTIONS.items():
            for field, value in input_fields(
                section, self._params[section], vocab_file, f"--params {self._path}"
            ).items():
                self._put(f"task.{ours}.{field}", value)
        self._classes()
        self._model()
        self._optimizer()
        self._micro_steps()
        if self._without_effect:
            _log.info(f"{self._path}: without effect here: {', '.join(self._without_effect)}")
        return self._experiment, self._layer

    def _error(self, key: str, message: str) -> UsageError:
        return UsageError(f"--params {self._path}: {key}: {message}")

    def _check_texts(self, section: str, content: dict) -> None:
        for key in _TEXTS:
            values = content.get(key)
            for value in values if isinstance(values, list) and key == "data_file" else [values]:
                if value is not None and not isinstance(value, str):
                    kind = "text, or a list of texts" if key == "data_file" else "text"
                    raise self._error(f"{section}.{key}", f"expected {kind}. Received: {as_written(values)}")

    def _value(self, hint: type, key: str, default: Any, bounds: tuple | None = None) -> Any:
        """The value of a key with its section."""
        section, name = key.split(".")
        try:
            return parse_value(hint, self._params[section].get(name, default), bounds)
        except ValueError as error:
            raise self._error(key, str(error)) from None

    def _put(self, path: str, value: Any) -> None:
        *sections, name = path.split(".")
        tree = self._layer
        for section in sections:
            tree = tree.setdefault(section, {})
        tree[name] = value

    def _places(self, given: str) -> list[Path]:
        """Where a file may be that this one names: theirs starts from the task's folder, in which the command is run."""
        here = find_config(self._path).resolve().parent
        return [folder / given for folder in (here.parent, here, Path.cwd())]

    def _with_pretraining_model(self) -> None:
        """Takes the model that pretrain_params_path describes for what this file leaves open, as their code does."""
        given = self._params["model"].get("pretrain_params_path")
        if not given:
            return
        places = self._places(given)
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            raise self._error(
                "model.pretrain_params_path", f"there is no such file. Looked for {', '.join(map(str, places))}."
            )
        theirs = read_yaml(found).get("model") or {}
        if not isinstance(theirs, dict):
            raise UsageError(f"--params {found}: model: expected names with values. Received: {as_written(theirs)}")
        theirs = dict(theirs)
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

    def _vocabulary(self) -> Path | None:
        """Their vocabulary file, where it is there: the model's vocab_size is the number of its entries."""
        data = self._params["train_input"]
        given = data.get("vocab_file")
        if not given:
            return None
        found = next((place for place in self._places(given) if place.is_file()), None)
        if found is None:
            _log.info(
                f"{self._path}: train_input.vocab_file: there is no {given}; texts take the checkpoint's vocabulary, and "
                "vocab_size is not changed"
            )
        elif not data.get("vocab_size"):
            self._put("task.model.encoder.vocab_size", len(found.read_bytes().splitlines()))
        return found

    def _classes(self) -> None:
        """The classes of a set of TensorFlow Datasets: their MNLI files say 2, which cannot tell its 3 labels apart."""
        told = self._params["model"].get("num_cls_classes")
        name = self._layer.get("task", {}).get("train_data", {}).get("tfds_name")
        classes = next((each.classes for each in TEXT_SETS.values() if each.name == name), None)
        if classes and told is not None and parse_value(int, told) != classes:
            _log.info(f"{self._path}: model.num_cls_classes {told}: {name} has {classes} classes, which are learned")
            self._put("task.model.num_classes", classes)

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
        if kind not in OPTIMIZERS:
            raise self._error("optimizer.optimizer_type", f"{kind!r} is not there. Use {', '.join(OPTIMIZERS)}.")
        ours = self._layer["trainer"]["optimizer_config"]
        name, implied, taken = OPTIMIZERS[kind]
        given = ours.get("optimizer", {})
        if "epsilon" not in given:  # theirs depends on the precision
            mixed = self._value(bool, "model.mixed_precision", False)
            given["epsilon"] = "1e-5" if mixed else "1e-8"
        options = {field: value for field, value in given.items() if field in taken}
        ours["optimizer"] = {"type": name, name: options | implied}
        if "learning_rate" in optimizer:
            reset = not self._value(bool, "optimizer.disable_lr_steps_reset", False)
            try:
                ours |= learning_rate_layer(optimizer["learning_rate"], reset)
            except ValueError as error:
                raise self._error("optimizer.learning_rate", str(error)) from None

    def _micro_steps(self) -> None:
        """Their step is grad_accum_steps batches; ours a batch that is cut into so many parts."""
        count = self._value(int, "optimizer.grad_accum_steps", 1, (1, MOST_EXAMPLES))
        batch_size = self._params["train_input"].get("batch_size")
        if count > 1 and batch_size:
            total = count * self._value(int, "train_input.batch_size", 1)
            self._put("trainer.gradient_accumulation_steps", count)
            self._put("task.train_data.global_batch_size", total)
            _log.info(f"{self._path}: a step is {count} batches of {batch_size} (grad_accum_steps): {total} examples")
