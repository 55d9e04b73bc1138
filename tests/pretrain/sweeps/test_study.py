"""The study of a tuning: parameters from words and from files, and what the service would refuse."""

import json

import pytest

from nlpdata.errors import DataError, UsageError
from pretrain.sweeps.study import Study, parameter, study_of_file


@pytest.mark.parametrize(
    ("text", "whole", "kind", "content", "scale"),
    [
        ("1e-5:1e-4:log", False, "doubleValueSpec", {"minValue": 1e-5, "maxValue": 1e-4}, "UNIT_LOG_SCALE"),
        ("0:1", False, "doubleValueSpec", {"minValue": 0.0, "maxValue": 1.0}, "UNIT_LINEAR_SCALE"),
        ("1:8:reverse_log", True, "integerValueSpec", {"minValue": 1, "maxValue": 8}, "UNIT_REVERSE_LOG_SCALE"),
        ("32, 16,64", True, "discreteValueSpec", {"values": [16, 32, 64]}, "UNIT_LINEAR_SCALE"),
        ("0.1,0.01", False, "discreteValueSpec", {"values": [0.01, 0.1]}, "UNIT_LINEAR_SCALE"),
        ("adamw,lamb", False, "categoricalValueSpec", {"values": ["adamw", "lamb"]}, None),
    ],
)
def test_a_parameter_of_words(text, whole, kind, content, scale):
    expected = {"parameterId": "x", kind: content} | ({"scaleType": scale} if scale else {})
    assert parameter("x", text, whole) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1:2:logg", "Did you mean log?"),
        ("1:2:log:3", "expected LOW:HIGH, LOW:HIGH:SCALE"),
        ("2:1", "the lower bound must be a number below the upper one. Received: 2 and 1"),
        ("1:1", "the lower bound must be a number below"),
        ("a:2", "the lower bound must be a number below the upper one. Received: a and 2"),
        ("1:inf", "the lower bound must be a number below the upper one. Received: 1 and inf"),
        ("0:1:log", "on a log scale the lower bound must be above 0. Received: 0"),
        ("1.5:3", "the bounds must be whole numbers. Received: 1.5 and 3"),
        ("16", "expected two different values or more"),
        ("16,16", "expected two different values or more"),
        ("", "expected two different values or more"),
    ],
)
def test_words_that_are_no_parameter(text, message):
    with pytest.raises(UsageError) as caught:
        parameter("x", text, whole=True)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"--tune x={text}")


def test_a_study_of_ai_platform(tmp_path):
    """The config.yaml of the structured samples, whose numbers YAML reads as text."""
    path = tmp_path / "config.yaml"
    path.write_text(
        "trainingInput:\n"
        "  hyperparameters:\n"
        "    goal: MINIMIZE\n"
        "    hyperparameterMetricTag: loss\n"
        "    maxTrials: 2\n"
        "    maxParallelTrials: 2\n"
        "    enableTrialEarlyStopping: False\n"
        "    params:\n"
        "    - {parameterName: learning-rate, type: DOUBLE, minValue: 1e-4, maxValue: 1, scaleType: UNIT_LOG_SCALE}\n"
        "    - {parameterName: batch-size, type: INTEGER, minValue: 1, maxValue: 256, scaleType: UNIT_LINEAR_SCALE}\n"
        "    - {parameterName: optimizer, type: CATEGORICAL, categoricalValues: [adamw, lamb]}\n"
        "    - {parameterName: seed, type: DISCRETE, discreteValues: [1, 2]}\n"
    )
    study = study_of_file(path)
    assert (study.metric, study.goal, study.max_trials, study.parallel_trials) == ("loss", "MINIMIZE", 2, 2)
    assert list(study.parameters.values()) == [
        {
            "parameterId": "learning-rate",
            "doubleValueSpec": {"minValue": 1e-4, "maxValue": 1.0},
            "scaleType": "UNIT_LOG_SCALE",
        },
        {
            "parameterId": "batch-size",
            "integerValueSpec": {"minValue": 1, "maxValue": 256},
            "scaleType": "UNIT_LINEAR_SCALE",
        },
        {"parameterId": "optimizer", "categoricalValueSpec": {"values": ["adamw", "lamb"]}},
        {"parameterId": "seed", "discreteValueSpec": {"values": [1, 2]}},
    ]
    assert [value for name, value in study.extremes() if name != "seed"] == [
        "0.0001",
        "1.0",
        "1",
        "256",
        "adamw",
        "lamb",
    ]


METRIC = {"metricId": "accuracy"}
RATE = {"parameterId": "learning_rate", "doubleValueSpec": {"minValue": 1, "maxValue": 2}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ([], "expected a section studySpec (Vertex AI) or trainingInput (AI Platform)"),
        ({"maxTrialCount": 3}, "expected a section studySpec"),
        ({"studySpek": {}}, "no field 'studySpek'. Did you mean studySpec?"),
        ({"studySpec": {"metric": []}}, "studySpec: no field 'metric'. Did you mean metrics?"),
        ({"studySpec": {"metrics": [METRIC, METRIC]}}, "studySpec.metrics: one metric decides"),
        ({"studySpec": {"metrics": [{**METRIC, "goal": "MAX"}]}}, "the goal must be MAXIMIZE or MINIMIZE. Received: 'MAX'"),
        ({"studySpec": {"parameters": [RATE, RATE]}}, "studySpec.parameters[1]: parameterId must be the name of a flag, each once"),
        ({"studySpec": {"parameters": [{"parameterId": "x"}]}}, "studySpec.parameters[0]: a parameter has parameterId, one of"),
        ({"studySpec": {"parameters": [{**RATE, "scale": "log"}]}}, "a parameter has parameterId, one of"),
        ({"studySpec": {"parameters": [{**RATE, "scaleType": "LOG"}]}}, "scaleType must be one of UNIT_LINEAR_SCALE"),
        ({"studySpec": {"parameters": [{**RATE, "doubleValueSpec": {"maxValue": 2}}]}}, "upper one. Received: nothing and 2."),
        ({"studySpec": {"parameters": [{"parameterId": None}]}}, "the name of a flag, each once. Received: nothing."),
        ({"studySpec": {"parameters": [{"parameterId": "x", "discreteValueSpec": None}]}}, "or more. Received: nothing."),
        ({"studySpec": {"parameters": [{"parameterId": "x", "discreteValueSpec": {"values": [None, 1]}}]}}, "Received: [null, 1]."),
        ({"studySpec": {"metrics": [{**METRIC, "goal": False}]}}, "MAXIMIZE or MINIMIZE. Received: false."),
        ({"studySpec": {}, "maxTrialCount": None}, "maxTrialCount must be a whole number. Received: null."),
        ({"hyperparameters": {"params": [None]}}, "DISCRETE, CATEGORICAL. Received: null."),
        ({"studySpec": {}, "maxTrialCount": "3"}, "maxTrialCount must be a whole number. Received: '3'"),
        ({"hyperparameters": {"goals": 1}}, "hyperparameters: no field 'goals'. Did you mean goal?"),
        ({"hyperparameters": {"params": [{"type": "FLOAT"}]}}, "a parameter has a type of DOUBLE, INTEGER"),
        ({"hyperparameters": {"enableTrialEarlyStopping": True}}, "with medianAutomatedStoppingSpec or decayCurveStoppingSpec"),
    ],
)  # fmt: skip
def test_files_that_are_no_study(tmp_path, content, message):
    path = tmp_path / "study.yaml"
    path.write_text(json.dumps(content))
    with pytest.raises(UsageError) as caught:
        study_of_file(path)
    assert message in str(caught.value)


def test_names_that_are_no_text(tmp_path):
    """YAML has them; a metric of null is none, not one that is called None."""
    (tmp_path / "study.yaml").write_text("studySpec: {metrics: [{metricId: null}], 1: 2}")
    with pytest.raises(UsageError, match=r"studySpec: no field 1\. Known: metrics"):
        study_of_file(tmp_path / "study.yaml")
    (tmp_path / "study.yaml").write_text("studySpec: {metrics: [{metricId: null}]}")
    assert study_of_file(tmp_path / "study.yaml").metric == ""
    (tmp_path / "study.yaml").write_text("studySpec: {parameters: [{parameterId: x, 1: 2}]}")
    with pytest.raises(UsageError, match=r"and scaleType\. Received: parameterId, 1\."):
        study_of_file(tmp_path / "study.yaml")


def test_a_file_that_is_not_yaml(tmp_path):
    (tmp_path / "study.yaml").write_text("studySpec: [")
    with pytest.raises(DataError, match=r"study\.yaml: cannot be read: "):
        study_of_file(tmp_path / "study.yaml")
    (tmp_path / "study.yaml").write_text(f"studySpec: [{'1,' * (1 << 18)}]")  # PyYAML would take seconds
    with pytest.raises(DataError, match=r"study\.yaml: cannot be read: it has more than 524,288 bytes"):
        study_of_file(tmp_path / "study.yaml")


def test_the_goal_of_a_metric():
    assert Study("accuracy").with_goal("higher").goal == "MAXIMIZE"
    assert Study("loss").with_goal("lower").goal == "MINIMIZE"
    assert Study("own", "MINIMIZE").with_goal(None).goal == "MINIMIZE"
    with pytest.raises(UsageError, match=r"the task does not declare which own is better\. Give --goal"):
        Study("own").with_goal(None)
    with pytest.raises(UsageError, match="--goal is maximize, but a lower loss is better"):
        Study("loss", "MAXIMIZE").with_goal("lower")
