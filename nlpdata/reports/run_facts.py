"""What the files in the folder of a run say of it. They are data that anybody may have written, or that a killed process left.

    params.yaml        the configuration
    metrics.jsonl      a line for each summary and each evaluation
    run.json           parameters, stages, data, and the calls that trained the run (pretrain.training.logs.run_file)
    checkpoints/step-N/state.json     step, recoveries
    eval_results.json, eval_data.json  the last evaluation, and what it was on
    eval_report.json   its scores by class

A file that is missing leaves its facts out; one that cannot be read does so too, and is named in `faults`.
"""

import math
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, TypeGuard

import yaml

from nlpdata.errors import DataError
from nlpdata.files.disk import reading
from nlpdata.files.json_files import json_lines, parse_object
from nlpdata.files.json_kinds import LIST, OBJECT, TEXT, TEXTS, Kind, fault, or_null, whole
from nlpdata.files.paths import read_file
from nlpdata.files.yaml_faults import MOST_YAML_BYTES, YAML_FAULTS, yaml_fault

METRICS, CONFIG_FILE, RUN_FILE, CHECKPOINTS = "metrics.jsonl", "params.yaml", "run.json", "checkpoints"
EVAL_RESULTS, EVAL_DATA, EVAL_REPORT = "eval_results.json", "eval_data.json", "eval_report.json"
GLUE_FILE, SEEDS_FILE = "glue.json", "seeds.json"
STATE_FILE = "state.json"  # of a checkpoint

_MOST_BYTES = 1 << 24  # of a file that is read at once
_SHOWN = 5  # of what is left out
_MOST_POINTS = 1 << 16  # of a curve
_MOST_METRICS = 64
_LONGEST_NAME = 100  # of a metric
_MOST_FIELDS = 4000
_MOST_DEPTH = 12
_MOST_STEPS = 1 << 62
_LARGEST = 1e300  # what is beyond it counts as infinite: sums and axes of charts overflow
_SCALARS = (str, int, float, bytes, date, type(None))  # of YAML; a time is a date, too

_NUMBER = Kind("a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool))
_AMOUNT = Kind(f"a number from 0 to {_LARGEST:g}", lambda value: is_finite(value) and value >= 0)
_WHOLE = whole(_MOST_STEPS)
_DATA = {
    "examples": _WHOLE,
    "batch_size": _WHOLE,
    "seq_length": or_null(_WHOLE),
    "masked_lm_prob": _AMOUNT,
    "files": TEXTS,
    "records": OBJECT,
}
_CLASSES = {
    "step": _WHOLE,
    "kind": TEXT,
    "remark": TEXT,
    "classes": LIST,
    "classes.*": OBJECT,
    "classes.*.name": TEXT,
    **{f"classes.*.{name}": or_null(_AMOUNT) for name in ("precision", "recall", "f1")},
    **{f"classes.*.{name}": _WHOLE for name in ("support", "predicted", "right")},
}
_KINDS = {
    "parameters": _WHOLE,
    "steps": _WHOLE,
    "learning_rate": TEXT,
    "idle_fields": TEXTS,
    "stages": LIST,
    "stages.*": OBJECT,
    **{f"stages.*.{name}": _WHOLE for name in ("first_step", "last_step", "steps_per_epoch")},
    "stages.*.num_hidden_layers": or_null(_WHOLE),
    **{f"stages.*.{name}": kind for name, kind in _DATA.items()},
    "calls": LIST,
    "calls.*": OBJECT,
    **{f"calls.*.{name}": TEXT for name in ("started", "ended", "mode", "outcome", "message", "device", "backend", "python")},
    **{f"calls.*.{name}": _WHOLE for name in ("first_step", "last_step", "replicas")},
    "calls.*.versions": OBJECT,
    "calls.*.versions.*": TEXT,
    "calls.*.seconds": OBJECT,
    "calls.*.seconds.*": _AMOUNT,
    "calls.*.total_seconds": _AMOUNT,
}  # fmt: skip


@dataclass(frozen=True)
class Curve:
    """Values of a metric at steps, ascending; of very many each point is the mean of some."""

    points: tuple[tuple[int, float], ...]

    @property
    def last(self) -> float:
        return self.points[-1][1]


@dataclass(frozen=True)
class Run:
    """A run, as its folder has it.

    Attributes:
      name: of the folder.
      folder: the folder.
      config: dotted path -> value of every field of the configuration.
      train, evaluations: metric -> its curve.
      results: metric -> value of the last evaluation, with "step" and "examples" where they are known.
      evaluated_on: eval_data.json: the data of that evaluation; {} where it is not known.
      classes: eval_report.json: scores of each class at a step; {} where it is not known.
      about: run.json; {} where there is none.
      state: state.json of the newest checkpoint that can be read; {} where there is none.
      checkpoints: the steps of the checkpoints that are there, ascending.
      faults: what could not be read, and why.
    """

    name: str
    folder: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Curve] = field(default_factory=dict)
    evaluations: Mapping[str, Curve] = field(default_factory=dict)
    results: Mapping[str, float] = field(default_factory=dict)
    evaluated_on: Mapping[str, Any] = field(default_factory=dict)
    classes: Mapping[str, Any] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, Any] = field(default_factory=dict)
    checkpoints: tuple[int, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def calls(self) -> Sequence[Mapping[str, Any]]:
        return self.about.get("calls", ())

    @property
    def used_config(self) -> Mapping[str, Any]:
        """The configuration without the fields that the run says it had no use for."""
        idle = {*self.about.get("idle_fields", ())}
        return {path: value for path, value in self.config.items() if path not in idle}

    @property
    def recoveries(self) -> Sequence[Mapping[str, Any]]:
        """{"step": of the checkpoint that was returned to, "diverged_at": step}, oldest first."""
        found = self.state.get("recoveries")
        each_is_whole = isinstance(found, list) and all(isinstance(each, dict) for each in found)
        return found if each_is_whole and found is not None else ()

    @property
    def step(self) -> int:
        """The last step of which anything is on the disk."""
        curves = [*self.train.values()]
        ends = [call.get("last_step", 0) for call in self.calls]
        return max([0, *self.checkpoints, *(curve.points[-1][0] for curve in curves), *ends])

    @property
    def steps(self) -> int | None:
        """The length of the run in steps; None where it is not known."""
        given = self.about.get("steps") or self.config.get("trainer.train_steps")
        return given if isinstance(given, int) and not isinstance(given, bool) and given > 0 else None

    @property
    def outcome(self) -> str:
        """How its last call ended: finished, stopped_early, max_time, steps_a_call, interrupted, failed, or unfinished.

        unfinished is a run that says nothing of an end: it is running, or was killed; or it is of an older version and has not
        come to its last step.
        """
        if self.calls:
            return str(self.calls[-1].get("outcome", "unfinished"))
        return "finished" if self.steps is not None and self.steps in self.checkpoints else "unfinished"

    @property
    def encoder(self) -> tuple[str, Mapping[str, Any]]:
        """(type, options) of the encoder that is configured; ("", {}) where there is none."""
        kind = self.config.get("task.model.encoder.type")
        prefix = f"task.model.encoder.{kind}."
        options = {path.removeprefix(prefix): value for path, value in self.config.items() if path.startswith(prefix)}
        return (str(kind), options) if kind else ("", {})


def is_run(folder: str | os.PathLike) -> bool:
    """Whether a folder is that of a run: it has a configuration, metrics or checkpoints."""
    place = Path(folder)
    return (place / METRICS).is_file() or (place / RUN_FILE).is_file() or bool(_checkpoints(place / CHECKPOINTS))


def find_runs(folder: str | os.PathLike, depth: int = 3) -> list[Path]:
    """The folders of runs that a folder is or holds, sorted: those of a sweep are two levels below its own.

    DataError for a folder that cannot be read; one that is removed meanwhile holds none.
    """
    place = Path(folder)
    below: list[str] = []
    with reading(place), suppress(FileNotFoundError):
        if is_run(place):
            return [place]
        if depth == 0 or not place.is_dir():
            return []
        with os.scandir(place) as entries:  # which knows folders from files without asking for each
            below = sorted(entry.path for entry in entries if entry.is_dir())
    return [found for each in below for found in find_runs(each, depth - 1)]


def run_above(folder: str | os.PathLike) -> Path | None:
    """The folder of the run that a folder, such as that of a checkpoint, lies in; None where it lies in none."""
    return next((above for above in Path(folder).absolute().parents if (above / CONFIG_FILE).is_file()), None)


def read_run(folder: str | os.PathLike, name: str = "") -> Run:
    """What the files in the folder of a run say of it; `name`: for people, default the folder's."""
    place = Path(folder)
    faults: list[str] = []
    train, evaluations = _read_metrics(place / METRICS, faults)
    about, evaluated_on = _checked(place / RUN_FILE, _KINDS, faults), _checked(place / EVAL_DATA, _DATA, faults)
    steps, state = _newest_state(place / CHECKPOINTS, faults)
    results = {
        key: value if is_finite(value) else _float(value)
        for key, value in read_facts(place / EVAL_RESULTS, faults).items()
        if _NUMBER.fits(value)
    }
    return Run(
        name or place.resolve().name,
        place,
        _read_config(place / CONFIG_FILE, faults),
        train,
        evaluations,
        results,
        evaluated_on,
        _checked(place / EVAL_REPORT, _CLASSES, faults),
        about,
        state,
        steps,
        tuple(faults),
    )


def run_file_fault(content: Mapping[str, Any]) -> str | None:
    """A value of run.json of another kind than its key expects, for a message; None where all are right."""
    return fault(content, _KINDS) or (None if "calls" in content else "calls is missing, expected a list")


class _Points:
    """Points of a curve, in bounded memory: where they are too many, neighbours become their mean."""

    def __init__(self) -> None:
        self._points: list[tuple[int, float]] = []

    def add(self, step: int, value: float) -> None:
        self._points.append((step, value))
        if len(self._points) >= 2 * _MOST_POINTS:
            pairs = zip(self._points[::2], self._points[1::2], strict=True)
            self._points = [(later, (first + second) / 2) for (_, first), (later, second) in pairs]

    def curve(self) -> Curve:
        return Curve(tuple(sorted(self._points, key=lambda point: point[0])))


def _read_metrics(path: Path, faults: list[str]) -> tuple[dict[str, Curve], dict[str, Curve]]:
    """(metric -> curve) of the train lines, and of the eval lines."""
    found: dict[str, dict[str, _Points]] = {"train": {}, "eval": {}}
    damaged, left_out = Counter[int](), set[str]()
    try:
        for number, line in json_lines(path):
            own = found.get(str(line.get("split"))) if line else None
            if line is None or own is None or not _WHOLE.fits(line.get("step")):
                damaged[number if len(damaged) < _SHOWN else 0] += 1
                continue
            for name, value in line.items():
                if name == "step" or not _NUMBER.fits(value):
                    continue
                if name in own or (len(own) < _MOST_METRICS and len(name) <= _LONGEST_NAME):
                    own.setdefault(name, _Points()).add(line["step"], _float(value))
                elif len(left_out) < _SHOWN:
                    left_out.add(name[:80])
    except DataError as error:
        faults.append(str(error))
    if damaged:
        lines = ", ".join(map(str, filter(None, damaged))) + (", ..." if damaged[0] else "")
        faults.append(f"{path}: {damaged.total()} lines are not metrics of a step, and are left out: {lines}")
    if left_out:
        names = ", ".join(sorted(left_out))
        limits = f"more than {_MOST_METRICS} metrics, or names of more than {_LONGEST_NAME} characters"
        faults.append(f"{path}: {limits}; left out: {names}")
    return tuple({name: points.curve() for name, points in own.items()} for own in found.values())  # type: ignore[return-value]


def read_facts(path: Path, faults: list[str]) -> dict:
    """The JSON object in a file; {} where there is none, or it cannot be read, which is added to `faults`."""
    try:
        raw = _content(path, _MOST_BYTES)
        return {} if raw is None else parse_object(raw, str(path))
    except DataError as error:
        faults.append(str(error))
        return {}


def _checked(path: Path, kinds: Mapping[str, Kind], faults: list[str]) -> dict:
    """The same, with the kinds that its values must have."""
    content = read_facts(path, faults)
    if found := fault(content, kinds):
        faults.append(f"{path}: {found}")
        return {}
    return content


def _content(path: Path, most: int) -> bytes | None:
    """The bytes of a file; None where there is none. DataError where it cannot be read, or is larger than what it should be."""
    with reading(path), suppress(FileNotFoundError):
        return read_file(path, most)
    return None


def _checkpoints(folder: Path) -> dict[int, Path]:
    """Step -> the checkpoint of that step. OSError where the folder is there and cannot be read."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    return {int(match[1]): folder / name for name in names if (match := re.fullmatch(r"step-([0-9]{1,18})", name))}


def _newest_state(folder: Path, faults: list[str]) -> tuple[tuple[int, ...], dict]:
    """(steps of the checkpoints, state.json of the newest that can be read)."""
    try:
        found = _checkpoints(folder)
    except OSError as error:
        faults.append(f"{folder}: cannot be read: {error.strerror or error}")
        return (), {}
    for step in sorted(found, reverse=True):
        state = read_facts(found[step] / STATE_FILE, faults)
        if state:
            return tuple(sorted(found)), state
    return tuple(sorted(found)), {}


def _read_config(path: Path, faults: list[str]) -> dict[str, Any]:
    """Dotted path -> value of a configuration; lists of plain values are one."""
    try:
        raw = _content(path, MOST_YAML_BYTES)
        tree = {} if raw is None else yaml.safe_load(raw.decode("utf-8-sig"))
        if not isinstance(tree, dict):
            raise DataError(f"{path}: expected sections such as `trainer:`, found a {type(tree).__name__}")
    except DataError as error:
        faults.append(str(error))
        return {}
    except YAML_FAULTS as error:
        faults.append(f"{path}: is not YAML: {yaml_fault(error)}")
        return {}
    fields: dict[str, Any] = {}
    size = 0
    for visited, (place, value) in enumerate(_fields(tree, "", 0)):
        size += _size(value)
        if visited >= _MOST_FIELDS or size > MOST_YAML_BYTES:
            faults.append(
                f"{path}: has more than {_MOST_FIELDS} fields or {MOST_YAML_BYTES} characters; the first are shown"
            )
            break
        if place is not None:
            fields[place] = value
    return fields


def _size(value: Any) -> int:
    """Characters that a leaf takes, about: by its aliases a small file may name a long text many times."""
    if isinstance(value, list):
        return sum(map(_size, value))
    return (
        len(value)
        if isinstance(value, str | bytes)
        else max(value.bit_length() // 3, 1)
        if isinstance(value, int)
        else 1
    )


def _fields(value: Any, place: str, depth: int) -> Iterator[tuple[str | None, Any]]:
    """(dotted path, value) of a tree's leaves, and (None, None) for each node above them."""
    inner = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
    plain = isinstance(value, _SCALARS) or (
        isinstance(value, list) and all(isinstance(each, _SCALARS) for each in inner)
    )
    if plain or depth == _MOST_DEPTH or not isinstance(value, dict | list):
        yield place, value if plain else "..."
        return
    yield None, None
    entries = value.items() if isinstance(value, dict) else ((f"[{number}]", each) for number, each in enumerate(inner))
    for name, each in entries:
        dot = "." if place and not str(name).startswith("[") else ""
        yield from _fields(each, f"{place}{dot}{name}", depth + 1)


def is_finite(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number that is neither nan nor infinite, nor beyond 1e300, which counts as infinite."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _float(value: int | float) -> float:
    """A number as a float; one that is too large is infinite."""
    return float(value) if is_finite(value) or value != value else math.copysign(math.inf, 1 if value > 0 else -1)
