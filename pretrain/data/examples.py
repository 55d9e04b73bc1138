"""Examples of a user's own: numpy arrays, a generator, or a tf.data.Dataset, in the place of record files.

examples = Examples({"input_ids": ids, "input_mask": mask, "segment_ids": segments}, labels, label_names=["no", "yes"])

They are read once, into memory (8 bytes a number of integers): so a run sees them in the order that its seed gives, resumes at any
step, and counts epochs, as with records.
"""

import importlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nlpdata.errors import UsageError
from nlpdata.records.contract import Feature
from nlpdata.registry import users_code
from pretrain.settings.data_section import DataConfig

_LABELS = ("label_ids", "labels", "label")
_MOST = 20_000_000  # examples: a source that gives more does not end


class Examples:
    """What `nlpdata.open_records` gives of records, of examples in memory.

    Args:
      source: a dict of arrays, name -> (n, ...); or anything that gives, one after the other, such dicts of one example
        (1-dimensional input_ids) or of a batch of them; or pairs of such a dict and labels. It must end.
      labels: (n,) classes or numbers, (n, labels) 0 or 1 for several labels; or in `source`, as label_ids or labels.
      label_names: names of the classes, in the order of their ids; then task.model.num_classes may be left out.
      name: for messages.

    Attributes:
      features, paths, counts, where: as of records.
      meta: what a meta file would say: task_type and label_names.

    Raises UsageError where arrays do not fit each other.
    """

    def __init__(
        self,
        source: Any,
        labels: Any = None,
        *,
        label_names: Sequence[str] = (),
        name: str = "examples",
    ) -> None:
        self._name = name
        parts = [dict(source)] if isinstance(source, Mapping) else self._parts(source)
        if labels is not None:
            parts[0]["label_ids"] = labels
        self._columns = self._joined([self._arrays(part, at) for at, part in enumerate(parts)])
        count = len(next(iter(self._columns.values())))
        self.paths, self.counts = [Path(name)], np.array([count])
        self.features = tuple(
            Feature(name, str(values.dtype), values.shape[1]) for name, values in self._columns.items()
        )
        self.meta = self._meta(list(map(str, label_names)))

    def __len__(self) -> int:
        return int(self.counts[0])

    def __getitem__(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        return {name: values[rows] for name, values in self._columns.items()}

    def where(self, row: int) -> str:
        """An example's place, for messages."""
        return f"{self._name}, example {row}"

    def _parts(self, source: Any) -> list[dict]:
        """The dicts that a source gives, with the labels among them."""
        parts: list[dict] = []
        count = 0
        for element in self._elements(source):
            features, labels = element if isinstance(element, tuple) and len(element) == 2 else (element, None)
            if not isinstance(features, Mapping) or not features:
                raise UsageError(
                    f"{self._name}: expected dicts of features, or pairs of one and labels. Received: {type(element).__name__}."
                )
            parts.append(dict(features) if labels is None else {**features, "label_ids": labels})
            count += np.shape(next(iter(features.values())))[0] if np.ndim(features.get("input_ids", 0)) == 2 else 1
            if count > _MOST:
                raise UsageError(f"{self._name}: more than {_MOST:,} examples. Does it repeat without end?")
        if not parts:
            raise UsageError(f"{self._name}: there are no examples.")
        return parts

    def _elements(self, source: Any) -> Iterator[Any]:
        if hasattr(source, "as_numpy_iterator"):  # a tf.data.Dataset
            if int(source.cardinality()) == -1:
                raise UsageError(
                    f"{self._name}: the dataset repeats without end. Leave .repeat() out: a run counts epochs."
                )
            return source.as_numpy_iterator()
        if not isinstance(source, Iterable):
            raise UsageError(
                f"{self._name}: expected a dict of arrays, a generator or a tf.data.Dataset. Received: {type(source).__name__}."
            )
        return iter(source)

    def _arrays(self, part: dict, at: int) -> dict[str, np.ndarray]:
        """Arrays (n, width), int64 or float32, under our names."""
        labels = next((key for key in _LABELS if key in part), None)
        if labels:
            part = {**{key: value for key, value in part.items() if key not in _LABELS}, "label_ids": part[labels]}
        batched = np.ndim(part.get("input_ids", next(iter(part.values())))) > 1
        arrays = {}
        for key, value in part.items():
            array = np.asarray(value)
            if array.dtype.kind not in "iubf":
                raise UsageError(f"{self._name}: {key} of part {at} holds {array.dtype}; expected numbers.")
            array = array.astype(np.float32 if array.dtype.kind == "f" else np.int64, copy=False)
            array = array if batched else array[None]
            arrays[key] = array.reshape(len(array), -1)
        lengths = {key: len(array) for key, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            raise UsageError(f"{self._name}: arrays of different numbers of examples: {lengths}.")
        return arrays

    def _joined(self, parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        widths = [{key: (array.shape[1], array.dtype) for key, array in part.items()} for part in parts]
        for at, each in enumerate(widths):
            wrong = [key for key in {**widths[0], **each} if widths[0].get(key) != each.get(key)]
            if wrong:
                told = [
                    f"{found[0]} of {found[1]}" if found else "none"
                    for found in (w.get(wrong[0]) for w in (widths[0], each))
                ]
                raise UsageError(
                    f"{self._name}: part {at} has another {wrong[0]} than the first: {told[1]}, not {told[0]}. Give all the same "
                    "features, padded with 0 to one length."
                )
        return {
            key: np.concatenate([part[key] for part in parts]) if len(parts) > 1 else parts[0][key] for key in parts[0]
        }

    def _meta(self, label_names: list[str]) -> dict:
        labels = self._columns.get("label_ids")
        if labels is None:
            return {}
        kind = "multilabel" if labels.shape[1] > 1 else "regression" if labels.dtype.kind == "f" else "classification"
        if label_names and kind == "regression":
            raise UsageError(
                f"{self._name}: its labels are numbers, which have no names. Received: {', '.join(label_names[:8])}."
            )
        meta: dict[str, Any] = {"task_type": f"bert_{kind}"}
        return meta | ({"label_names": label_names, "num_labels": len(label_names)} if label_names else {})


def own_examples(config: DataConfig, name: str) -> Examples:
    """What the function of a data section's input_function returns, as Examples.

    Args:
      config: the section, with which the function is called.
      name: its dotted path, for messages.

    UsageError where it cannot be called or what it returns does not fit.
    """
    field = f"{name}.input_function"
    if config.input_path:
        raise UsageError(f"{name}.input_path and {field} are two sources of examples; give one.")
    module, colon, attribute = config.input_function.partition(":")
    if not (module and colon and attribute):
        raise UsageError(f"{field} must be module:function. Received: {config.input_function!r}.")
    with users_code(f"{field}: {config.input_function} fails"):
        made = getattr(importlib.import_module(module), attribute)(config)
        if isinstance(made, Examples):
            return made
        source, labels = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
        return Examples(source, labels, name=config.input_function)
