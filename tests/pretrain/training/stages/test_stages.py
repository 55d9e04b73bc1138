"""A run with stages is one run: whatever ends it in whichever stage, it resumes as if nothing had happened."""

import json
from dataclasses import replace

import numpy as np
import pytest

from nlpdata.errors import DataError, UsageError
from pretrain.converters import native
from pretrain.data import example_digest, pretraining_batches
from pretrain.data.tokenizers import tokenizer_entry
from pretrain.experiments import stored_encoder
from pretrain.settings.data_section import PretrainingDataConfig
from pretrain.settings.trainer_section import OptimizationConfig
from pretrain.training.budget import TimeBudget
from pretrain.training.checks.agreement import idle_rows
from pretrain.training.stages.plan import Span, declared_steps, spans, stage_configs
from pretrain.training.trainer import Trainer
from tests.pretrain.runs import changed, curve, experiment, lines, run, tiny

pytestmark = pytest.mark.usefixtures("module_eagerly")

FIRST, SECOND = 3, 3


class Crash(Exception):
    pass


class Crashing(Trainer):
    """Ends without a checkpoint in step 3, which is of the first stage, and in step 6, of the second one."""

    def take_step(self, step, prepared):
        if step == FIRST:  # of the second stage the first
            (self.model_dir / "known").write_text(json.dumps(self.budget.spent))
        if step + 1 in (3, 6) and not (self.model_dir / f"crashed-{step}").exists():
            (self.model_dir / f"crashed-{step}").touch()
            raise Crash
        return super().take_step(step, prepared)


@pytest.fixture(scope="module")
def config(record_sets):
    """Another batch, length, masking rate and depth in the second stage; dropout; checkpoints at odd places."""
    config = experiment(
        record_sets["dynamic"],
        eval_path=record_sets["dynamic"],
        encoder=tiny("bert"),
        trainer={
            "type": "progressive", "train_steps": None, "checkpoint_interval": 2, "log_example_digest": True, "max_to_keep": 9,
            "validation_interval": 2, "tensorboard": False, "validation_steps": 1,
            "stages": [
                {"train_steps": FIRST, "num_hidden_layers": 1},
                {"train_steps": SECOND, "num_hidden_layers": 2, "gradient_accumulation_steps": 2,
                 "train_data": {"global_batch_size": 8, "masked_lm_prob": 0.3}},
            ],
        },
    )  # fmt: skip
    of_text = PretrainingDataConfig(**vars(config.task.train_data), objective="sop")
    return replace(config, task=replace(config.task, train_data=of_text))


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory, module_eagerly):
    """(model_dir, what was said)"""
    model_dir = tmp_path_factory.mktemp("whole") / "run"
    return model_dir, run(config, model_dir, "train_and_eval")


def test_a_crash_in_either_stage_leaves_no_trace(config, whole, tmp_path):
    crashing, model_dir = changed(config, "trainer", type=f"{__name__}:Crashing"), tmp_path / "run"
    for _ in range(2):
        with pytest.raises(Crash):
            run(crashing, model_dir)
    assert "checkpoint" in json.loads((model_dir / "known").read_text())  # the second stage knows how long one took
    said = "\n".join(run(config, model_dir))
    assert f"resuming from {model_dir}/checkpoints/step-00000004, after step 4 of 6" in said
    assert "stage 2 of 2, from step 5 to 6" in said
    assert "stage 1 of 2, from" not in said
    assert "before," not in said  # report_changes has nothing to report
    _assert_same(model_dir, whole[0])


def test_a_call_that_ends_with_a_stage_leaves_no_trace(config, whole, tmp_path):
    run(changed(config, "trainer", steps_a_call=FIRST), tmp_path, "train_and_eval")
    metrics = (tmp_path / "metrics.jsonl").read_text().splitlines(keepends=True)
    assert json.loads(metrics[-1])["split"] == "eval"
    (tmp_path / "metrics.jsonl").write_text("".join(metrics[:-1]))  # as if it was killed before that evaluation
    said = run(config, tmp_path, "train_and_eval")
    assert not [line for line in said if "stages" in line]  # params.yaml has them as they were given
    _assert_same(tmp_path, whole[0])
    assert lines(tmp_path, "eval") == lines(whole[0], "eval")


def _assert_same(model_dir, expected):
    """Equal to the last bit: losses, rates, examples, weights, optimizer."""
    found = curve(model_dir)
    assert found == curve(expected)
    assert len(found) == FIRST + SECOND
    a, b = (native.read_arrays(native.locate(folder)) for folder in (model_dir, expected))
    assert a.keys() == b.keys()
    assert all(np.array_equal(a[name], b[name]) for name in a)


def test_each_stage_has_its_data_from_its_first_step_on(config, whole):
    model_dir, said = whole
    digests = []
    for stage, steps in zip(stage_configs(config), (FIRST, SECOND), strict=True):
        data = pretraining_batches(stage.task.train_data, stage.task)
        digests += [example_digest(data.batch(step)) for step in range(steps)]
    assert [digest for _, _, digest in curve(model_dir).values()] == digests
    assert "stage 2 of 2, steps 4 to 6: 596 examples, 74 steps of 8 an epoch, length 32, num_hidden_layers 2" in said
    weights = native.read_arrays(native.locate(model_dir))
    counted = sum(weight.size for name, weight in weights.items() if name.startswith("model/"))
    about = json.loads((model_dir / "run.json").read_text())
    assert about["parameters"] == counted  # of the depth of the last stage
    evaluated = json.loads((model_dir / "eval_data.json").read_text())
    assert [stage["masked_lm_prob"] for stage in (*about["stages"], evaluated)] == [0.15, 0.3, 0.15]
    assert about["idle_fields"] == [f"task.train_data.{name}" for name in PretrainingDataConfig.of_text]
    assert "task.train_data: no effect on records, which are made already: objective" in said
    rates = [rate for _, rate, _ in curve(model_dir).values()]
    assert rates[2:] == pytest.approx([1e-3 * (6 - step) / 4 for step in range(2, 6)])  # one decay over both
    assert [line["step"] for line in lines(model_dir, "eval")] == [2, 3, 4, 6]  # validation_interval, ends of stages


def test_rows_of_the_embedding_that_are_of_no_piece_are_told(config):
    task = config.task
    pieces = tokenizer_entry(task.train_data, "task.train_data")[1]["vocab_size"]
    sizes = {rows: replace(task.model.encoder.options, vocab_size=rows) for rows in (pieces + 2, 4 * pieces)}
    near, far = (
        replace(task, model=replace(task.model, encoder=replace(task.model.encoder, options=each)))
        for each in sizes.values()
    )
    assert idle_rows(near) is None
    assert f"tokenizer has {pieces:,} pieces: 75% of the rows of the embedding learn nothing" in idle_rows(far)


def test_checkpoints_of_both_depths_are_evaluated(config, whole, tmp_path):
    from pretrain.converters import read_encoder

    model_dir = whole[0]
    before = {line["step"]: line for line in lines(model_dir, "eval")}
    encoders = {step: native.step_folder(model_dir / "checkpoints", step) for step in (FIRST, FIRST + SECOND)}
    assert [read_encoder(str(place), None).options.num_hidden_layers for place in encoders.values()] == [1, 2]
    assert stored_encoder(config, str(encoders[FIRST])) is None  # a command that resumes keeps the configuration's
    again = tmp_path / "run"
    for place in encoders.values():
        (again / "checkpoints" / place.name).mkdir(parents=True)
        for file in place.iterdir():
            (again / "checkpoints" / place.name / file.name).write_bytes(file.read_bytes())
    run(config, again, "eval_all")
    assert {line["step"]: line for line in lines(again, "eval")} == {
        step: before[step] for step in (FIRST, FIRST + SECOND)
    }


def test_the_deeper_model_is_the_stack_of_the_shallower_one(whole):
    below = native.read_arrays(native.locate(whole[0]))  # of 2 layers
    above = Span(0, 1, 5).enter(below)
    for kind in (
        "model/encoder/layer_{}/attention/query/kernel",
        "optimizer/adamw/model_encoder_layer_{}_feed_forward_output_bias_velocity",
    ):
        assert np.any(below[kind.format(0)] != below[kind.format(1)])
        assert all(above[kind.format(layer)] is below[kind.format(layer % 2)] for layer in range(5))
        assert kind.format(5) not in above
    others = [{name: array for name, array in state.items() if "layer_" not in name} for state in (above, below)]
    assert others[0] == others[1]
    assert Span(0, 1, 2).enter(below) == below


class Once(Trainer):
    """The loss of the first step of the second stage is not a number, the first time."""

    def take_step(self, step, prepared):
        statistics = super().take_step(step, prepared)
        return dict.fromkeys(statistics, np.nan) if step == FIRST and not self.recoveries else statistics


def test_recovery_at_the_start_of_a_stage(config, whole, tmp_path):
    run(changed(config, "trainer", type=f"{__name__}:Once", recovery_max_trials=1), tmp_path)
    info = native.read_info(native.locate(tmp_path))
    assert info["recoveries"] == [{"step": FIRST, "diverged_at": FIRST + 1}]
    stage = stage_configs(config)[1]
    data = pretraining_batches(stage.task.train_data, stage.task)
    found, expected = curve(tmp_path), curve(whole[0])
    assert [found[step][2] for step in range(FIRST + 1, FIRST + SECOND + 1)] == [
        example_digest(data.batch(step)) for step in range(1, SECOND + 1)
    ]
    assert {step: found[step] for step in range(1, FIRST + 1)} == {step: expected[step] for step in range(1, FIRST + 1)}


def test_no_stage_is_begun_without_time(record_sets, tmp_path, monkeypatch):
    monkeypatch.setattr(TimeBudget, "allows", lambda budget, *parts: "loop" not in parts)
    trainer = {"train_steps": None, "tensorboard": False, "stages": [{"train_steps": 1}, {"train_steps": 1}]}
    said = run(experiment(record_sets["dynamic"], encoder=tiny("bert"), trainer=trainer), tmp_path)
    assert "trainer.max_time: this call ends after step 1 of 2. Run the same command again to resume." in said
    assert native.step_of(native.locate(tmp_path)) == 1
    assert not [line for line in said if line.startswith("stage 2 of 2, from")]


# ------------------------------------------------------------------------------------------------------------- the rules


def test_seeds_and_sources_of_stages():
    base = experiment("a.tfrecord", data={"seed": 7}, trainer={"train_steps": None})
    stages = [{}, {"train_data": {"input_function": "my:examples"}}, {"train_data": {"seed": 3}}]
    data = [each.task.train_data for each in stage_configs(changed(base, "trainer", stages=stages))]
    assert [each.seed for each in data] == [7, 8, 3]
    assert [(each.input_path, each.input_function) for each in data] == [
        ("a.tfrecord", ""), ("", "my:examples"), ("a.tfrecord", "")
    ]  # fmt: skip
    assert stage_configs(base) == [base]


def test_spans_add_up():
    base = experiment("a", trainer={"train_steps": None, "stages": [{"train_steps": 3}, {}]})
    assert spans(base, [3, 4]) == [Span(0, 3), Span(3, 7)]
    assert declared_steps(base) is None
    assert declared_steps(changed(base, "trainer", stages=[{"train_steps": 3}, {"train_steps": 2}])) == 5
    with pytest.raises(UsageError, match=r"trainer\.train_steps is 9, and the stages have 3 \+ 4 = 7 steps"):
        spans(changed(base, "trainer", train_steps=9), [3, 4])


GROWING = ({"train_steps": 1, "num_hidden_layers": 1}, {"train_steps": 1, "num_hidden_layers": 2})


@pytest.mark.parametrize(
    ("stages", "more", "message"),
    [
        ([{}, {"train_data": {"sequence": 3}}], {}, r"trainer\.stages\[1\]\.train_data\.sequence: DataConfig has no such field"),
        ([{"train_data": {"seq_length": 0}}], {}, r"trainer\.stages\[0\]\.train_data\.seq_length: must be at least 1"),
        ([{}, {"train_data": {"masked_lm_prob": 1}}], {}, r"trainer\.stages\[1\]: task\.train_data\.masked_lm_prob is 1"),
        ([{}, {"num_hidden_layers": 2}], {}, r"trainer\.stages\[0\]\.num_hidden_layers is missing: other stages have it"),
        (GROWING[::-1], {}, r"trainer\.stages\[1\]\.num_hidden_layers is 1, and the stage before has 2: layers are added"),
        (GROWING, {"optimizer_config": OptimizationConfig(freeze=["embeddings"])}, "cannot be frozen in a run whose layers"),
        ([], {"type": "progressive"}, r"trainer\.type is progressive, and trainer\.stages is empty"),
        ([{"train_steps": 2}, {"train_steps": 2, "train_data": {"input_path": "none"}}], {}, r"trainer\.stages\[1\]: .*none"),
        ([{}, {"gradient_accumulation_steps": 3}], {}, r"trainer\.stages\[1\]: task\.train_data\.global_batch_size 16 cannot"),
        ([{}, {"train_data": {"global_batch_size": 999}}], {}, r"trainer\.stages\[1\]: .* fewer than one batch of 999"),
    ],
)  # fmt: skip
def test_what_is_refused_before_the_first_step(record_sets, tmp_path, stages, more, message):
    trainer = {"train_steps": None, "stages": list(stages), **more}
    with pytest.raises((UsageError, DataError), match=message):
        run(experiment(record_sets["dynamic"], encoder=tiny("bert"), trainer=trainer), tmp_path)
    assert not (tmp_path / "metrics.jsonl").exists()


def test_models_that_cannot_grow(record_sets, tmp_path):
    trainer = {"train_steps": None, "stages": list(GROWING)}
    with pytest.raises(UsageError, match="this encoder has 1 layers, of which none have weights of their own"):
        run(experiment(record_sets["dynamic"], encoder=tiny("albert"), trainer=trainer), tmp_path)
    adafactor = experiment(record_sets["dynamic"], encoder=tiny("bert"), trainer=trainer)
    adafactor.trainer.optimizer_config.optimizer = "adafactor"
    with pytest.raises(
        UsageError, match=r"the optimizer's optimizer/.* does not say which weight it belongs to.* Use adamw"
    ):
        run(adafactor, tmp_path)
    assert not (tmp_path / "metrics.jsonl").exists()
