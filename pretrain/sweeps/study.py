"""The study of a hyperparameter tuning on Vertex AI: which flags of pretrain run are tried with which values, for which metric.

It comes from a file, in the form of Vertex AI's HyperparameterTuningJob or of AI Platform's HyperparameterSpec, from options, or
from both, of which the options count:

    study_of_file("study.yaml"), or Study().changed(metric="accuracy", max_trials=20)
    parameter("learning_rate", "1e-5:1e-4:log")   # a number between two bounds, on a scale
    parameter("train_batch_size", "16,32")        # one of several values

In a trial the service appends `--learning_rate=3e-5` and so on to the flags of the job.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from nlpdata.errors import DataError, UsageError, closest
from nlpdata.files.disk import reading
from nlpdata.files.json_kinds import as_written
from nlpdata.files.paths import read_file
from nlpdata.files.yaml_faults import MOST_YAML_BYTES, YAML_FAULTS, yaml_fault
from pretrain.tasks.metrics import Better

SCALES = {"linear": "UNIT_LINEAR_SCALE", "log": "UNIT_LOG_SCALE", "reverse_log": "UNIT_REVERSE_LOG_SCALE"}
ALGORITHMS = {"bayesian": "ALGORITHM_UNSPECIFIED", "grid": "GRID_SEARCH", "random": "RANDOM_SEARCH"}
_GOALS = {"higher": "MAXIMIZE", "lower": "MINIMIZE"}
_JOB_FIELDS = ("studySpec", "maxTrialCount", "parallelTrialCount", "maxFailedTrialCount")
_STUDY_FIELDS = (
    *("metrics", "parameters", "algorithm", "measurementSelectionType", "observationNoise", "studyStoppingConfig"),
    *("medianAutomatedStoppingSpec", "decayCurveStoppingSpec", "convexAutomatedStoppingSpec"),
)
_KINDS = ("doubleValueSpec", "integerValueSpec", "discreteValueSpec", "categoricalValueSpec")
_OLDER_FIELDS = (
    *(
        "goal",
        "hyperparameterMetricTag",
        "maxTrials",
        "maxParallelTrials",
        "maxFailedTrials",
        "enableTrialEarlyStopping",
    ),
    *("algorithm", "params"),
)
_OLDER_TYPES = {
    "DOUBLE": "doubleValueSpec",
    "INTEGER": "integerValueSpec",
    "DISCRETE": "discreteValueSpec",
    "CATEGORICAL": "categoricalValueSpec",
}


@dataclass(frozen=True)
class Study:
    """A study.

    Attributes:
      metric: metric of the evaluation that decides; "": not yet known.
      goal: MAXIMIZE or MINIMIZE; "": as the task declares it.
      parameters: Vertex AI's ParameterSpec of each, by the flag's name.
      max_trials, parallel_trials: number of runs in all, and at a time; 0: not yet known.
      more: further fields of Vertex AI's StudySpec, and maxFailedTrialCount.
    """

    metric: str = ""
    goal: str = ""
    parameters: Mapping[str, dict] = field(default_factory=dict)
    max_trials: int = 0
    parallel_trials: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)

    def changed(self, algorithm: str = "", parameters: Sequence[dict] = (), **given: Any) -> "Study":
        """The study with what options say in place of it; empty values change nothing. Parameters are added by name."""
        more = dict(self.more) | ({"algorithm": ALGORITHMS[algorithm]} if algorithm else {})
        own = dict(self.parameters) | {each["parameterId"]: each for each in parameters}
        return replace(self, parameters=own, more=more, **{name: value for name, value in given.items() if value})

    def with_goal(self, better: Better | None) -> "Study":
        """The study with the goal that a metric of that better side has. UsageError where it is unknown, or another one."""
        right = _GOALS.get(better or "")
        if not (right or self.goal):
            raise UsageError(
                f"the task does not declare which {self.metric} is better. Give --goal maximize or minimize."
            )
        if right and self.goal and right != self.goal:
            raise UsageError(
                f"--goal is {self.goal.lower()}, but a {better} {self.metric} is better: the worst trial would be chosen. Leave it "
                f"out, or give {right.lower()}."
            )
        return replace(self, goal=self.goal or right or "")

    def check(self) -> None:
        """UsageError for what a study must have."""
        if not self.metric:
            raise UsageError("a tuning needs --metric: what the evaluation measures, e.g. --metric accuracy.")
        if not self.parameters:
            raise UsageError(
                "a tuning needs parameters: --tune learning_rate=1e-5:1e-4:log, --tune train_batch_size=16,32, or --study FILE."
            )
        if self.max_trials < 1:
            raise UsageError("a tuning needs --max_trials: the number of runs, each of which costs what one job does.")
        if self.parallel_trials > self.max_trials:
            raise UsageError(
                f"--parallel_trials {self.parallel_trials} are more than --max_trials {self.max_trials} in all."
            )

    def job(self, trial: Mapping) -> dict:
        """Vertex AI's HyperparameterTuningJobSpec.

        Args:
          trial: CustomJobSpec of every trial.
        """
        more = {name: value for name, value in self.more.items() if name != "maxFailedTrialCount"}
        failed = {name: value for name, value in self.more.items() if name == "maxFailedTrialCount"}
        study = {
            "metrics": [{"metricId": self.metric, "goal": self.goal}],
            "parameters": list(self.parameters.values()),
            **more,
        }
        counts = {"maxTrialCount": self.max_trials, "parallelTrialCount": self.parallel_trials or 1, **failed}
        return {"studySpec": study, **counts, "trialJobSpec": dict(trial)}

    def extremes(self) -> Iterator[tuple[str, str]]:
        """(parameter, value) of the bounds of each number, and of each of several values: what a run must accept."""
        for name, spec in self.parameters.items():
            content: dict = next(spec[kind] for kind in _KINDS if kind in spec)
            for value in content.get("values") or (content["minValue"], content["maxValue"]):
                yield name, str(value)


# ---------------------------------------------------------------------------------------------------------------- options


def parameter(name: str, text: str, whole: bool = False) -> dict:
    """Vertex AI's ParameterSpec of `LOW:HIGH`, `LOW:HIGH:SCALE` or `A,B,C`.

    Args:
      name: the flag.
      text: its values.
      whole: whether the flag takes whole numbers only.

    UsageError for anything else.
    """
    place = f"--tune {name}={text}"
    if ":" not in text:
        values = [part.strip() for part in text.split(",") if part.strip()]
        if any(_number(part) is None for part in values):
            return checked({"parameterId": name, "categoricalValueSpec": {"values": values}}, place)
        spec = {"parameterId": name, "discreteValueSpec": {"values": values}, "scaleType": SCALES["linear"]}
        return checked(spec, place)
    low, high, *rest = text.split(":")
    scale = rest[0] if rest else "linear"
    if len(rest) > 1 or scale not in SCALES:
        raise UsageError(
            f"{place}: expected LOW:HIGH, LOW:HIGH:SCALE with a scale of {', '.join(SCALES)}, or values A,B,C."
            f"{closest(scale, SCALES)}"
        )
    kind = "integerValueSpec" if whole else "doubleValueSpec"
    content = {"minValue": low, "maxValue": high}
    return checked({"parameterId": name, kind: content, "scaleType": SCALES[scale]}, place)


def _number(text: object) -> float | None:
    try:
        value = float(str(text))
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _given(value: object) -> str:
    """A value in a message; what a file gives as null, or does not give, is nothing."""
    if value is None:
        return "nothing"
    return value if isinstance(value, str) else as_written(value)


def _plain(value: float, whole: bool) -> float | int:
    return int(value) if whole and not value % 1 else value


def checked(spec: dict, place: str) -> dict:
    """The ParameterSpec; UsageError, with its place, where the service would refuse it."""
    kinds = [kind for kind in _KINDS if kind in spec]
    unknown = set(spec) - {"parameterId", "scaleType", "conditionalParameterSpecs", *_KINDS}
    if len(kinds) != 1 or unknown:
        raise UsageError(
            f"{place}: a parameter has parameterId, one of {', '.join(_KINDS)}, and scaleType. Received: "
            f"{', '.join(map(_given, spec)) or 'nothing'}."
        )
    scale, content = spec.get("scaleType"), spec[kinds[0]]
    if scale is not None and scale not in SCALES.values():
        raise UsageError(
            f"{place}: scaleType must be one of {', '.join(SCALES.values())}. Received: {as_written(scale)}."
        )
    content = content if isinstance(content, dict) else {}
    if kinds[0] in ("discreteValueSpec", "categoricalValueSpec"):
        return {**spec, kinds[0]: {"values": _values(content.get("values"), kinds[0] == "discreteValueSpec", place)}}
    given = [content.get(name) for name in ("minValue", "maxValue")]
    low, high = (_number(value) for value in given)
    if low is None or high is None or low >= high:
        raise UsageError(
            f"{place}: the lower bound must be a number below the upper one. Received: {_given(given[0])} and {_given(given[1])}."
        )
    whole = kinds[0] == "integerValueSpec"
    if whole and (low % 1 or high % 1):
        raise UsageError(
            f"{place}: the bounds must be whole numbers. Received: {_given(given[0])} and {_given(given[1])}."
        )
    if scale == SCALES["log"] and low <= 0:
        raise UsageError(f"{place}: on a log scale the lower bound must be above 0. Received: {_given(given[0])}.")
    return {**spec, kinds[0]: {"minValue": _plain(low, whole), "maxValue": _plain(high, whole)}}


def _values(values: Any, are_numbers: bool, place: str) -> list:
    if not isinstance(values, list) or len(set(map(str, values))) < max(len(values), 2):
        raise UsageError(f"{place}: expected two different values or more. Received: {_given(values)}.")
    if not are_numbers:
        return [str(value) for value in values]
    numbers = [_number(value) for value in values]
    found = [number for number in numbers if number is not None]
    if len(found) < len(numbers):
        raise UsageError(f"{place}: discrete values must be numbers. Received: {as_written(values)}.")
    return [_plain(number, whole=True) for number in sorted(found)]


# ------------------------------------------------------------------------------------------------------------------- file


def study_of_file(path: Path) -> Study:
    """The study in a YAML or JSON file. UsageError where it is not there or not a study, DataError where it cannot be read."""
    if not path.is_file():
        raise UsageError(f"--study {path}: there is no such file.")
    try:
        with reading(path):
            content = yaml.safe_load(read_file(path, MOST_YAML_BYTES).decode("utf-8-sig"))
    except YAML_FAULTS as error:
        raise DataError(f"{path}: cannot be read: {yaml_fault(error)}") from None
    if not isinstance(content, dict):
        raise UsageError(f"{path}: expected a section studySpec (Vertex AI) or trainingInput (AI Platform).")
    older = content.get("trainingInput", content)
    if isinstance(older, dict) and "hyperparameters" in older:
        return _older_study(older["hyperparameters"], f"{path}: hyperparameters")
    content = {name: value for name, value in content.items() if name not in ("displayName", "trialJobSpec")}
    _refuse_unknown(content, _JOB_FIELDS, str(path))
    spec = content.get("studySpec")
    if not isinstance(spec, dict):
        raise UsageError(f"{path}: expected a section studySpec (Vertex AI) or trainingInput (AI Platform).")
    _refuse_unknown(spec, _STUDY_FIELDS, f"{path}: studySpec")
    metrics = spec.get("metrics") or [{}]
    if not isinstance(metrics, list) or len(metrics) > 1 or not isinstance(metrics[0], dict):
        raise UsageError(
            f"{path}: studySpec.metrics: one metric decides, e.g. [{{metricId: accuracy, goal: MAXIMIZE}}]."
        )
    more = {name: value for name, value in spec.items() if name not in ("metrics", "parameters")}
    if "maxFailedTrialCount" in content:
        more["maxFailedTrialCount"] = _count(content, "maxFailedTrialCount", str(path))
    return Study(
        str(metrics[0].get("metricId") or ""),
        _goal(metrics[0].get("goal"), f"{path}: studySpec.metrics"),
        _parameters(spec.get("parameters"), "parameterId", f"{path}: studySpec.parameters"),
        _count(content, "maxTrialCount", str(path)),
        _count(content, "parallelTrialCount", str(path)),
        more,
    )


def _older_study(spec: Any, place: str) -> Study:
    """AI Platform's HyperparameterSpec."""
    if not isinstance(spec, dict):
        raise UsageError(f"{place}: expected a section with {', '.join(_OLDER_FIELDS)}.")
    _refuse_unknown(spec, _OLDER_FIELDS, place)
    if spec.get("enableTrialEarlyStopping") not in (None, False):
        raise UsageError(
            f"{place}.enableTrialEarlyStopping is AI Platform's. Write the study as Vertex AI's studySpec, with "
            "medianAutomatedStoppingSpec or decayCurveStoppingSpec."
        )
    more: dict = {"algorithm": spec["algorithm"]} if spec.get("algorithm") else {}
    if "maxFailedTrials" in spec:
        more["maxFailedTrialCount"] = _count(spec, "maxFailedTrials", place)
    params = []
    for each in spec.get("params") or ():
        kind = _OLDER_TYPES.get(str(each.get("type"))) if isinstance(each, dict) else None
        if kind is None:
            raise UsageError(
                f"{place}.params: a parameter has a type of {', '.join(_OLDER_TYPES)}. Received: {as_written(each)}."
            )
        values = each.get("discreteValues") or each.get("categoricalValues")
        content = {"values": values} if values else {name: each.get(name) for name in ("minValue", "maxValue")}
        scale = {"scaleType": each["scaleType"]} if each.get("scaleType") not in (None, "NONE") else {}
        params.append({"parameterId": each.get("parameterName"), kind: content, **scale})
    return Study(
        str(spec.get("hyperparameterMetricTag") or ""),
        _goal(spec.get("goal"), f"{place}.goal"),
        _parameters(params, "parameterName", f"{place}.params"),
        _count(spec, "maxTrials", place),
        _count(spec, "maxParallelTrials", place),
        more,
    )


def _parameters(specs: Any, called: str, place: str) -> dict[str, dict]:
    found: dict[str, dict] = {}
    for number, spec in enumerate(specs if isinstance(specs, list) else []):
        here = f"{place}[{number}]"
        name = spec.get("parameterId") if isinstance(spec, dict) else None
        if not isinstance(name, str) or not name or name in found:
            raise UsageError(f"{here}: {called} must be the name of a flag, each once. Received: {_given(name)}.")
        found[name] = checked(spec, here)
    return found


def _goal(value: Any, place: str) -> str:
    if value in (None, "", "GOAL_TYPE_UNSPECIFIED"):
        return ""
    if value not in _GOALS.values():
        raise UsageError(f"{place}: the goal must be MAXIMIZE or MINIMIZE. Received: {as_written(value)}.")
    return value


def _count(content: Mapping, name: str, place: str) -> int:
    value = content.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise UsageError(f"{place}: {name} must be a whole number. Received: {as_written(value)}.")
    return value


def _refuse_unknown(content: Mapping, known: Sequence[str], place: str) -> None:
    for name in content:
        if name not in known:
            raise UsageError(
                f"{place}: no field {as_written(name)}.{closest(str(name), known)} Known: {', '.join(known)}."
            )
