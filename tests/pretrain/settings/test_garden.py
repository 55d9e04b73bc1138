"""The Model Garden's configuration files mean here what they mean there; what is not available is refused with what to use."""

import copy

import pytest

from nlpdata.errors import UsageError
from pretrain.experiments import experiment
from pretrain.settings.schema import registered
from pretrain.settings.tree import with_layers
from pretrain.settings.yaml_files import read_yaml
from pretrain.training.checks.settings import check_experiment
from pretrain.training.stages.plan import stage_configs
from tests.messages import messages
from tests.pretrain.settings import garden_files as garden

_POLYNOMIAL = "trainer.optimizer_config.learning_rate.options"
_WARMUP = "trainer.optimizer_config.warmup.options"
_ENCODER = "task.model.encoder.options"
TRAINING = {
    "trainer.optimizer_config.optimizer.type": "adamw",
    f"{_POLYNOMIAL}.end_learning_rate": 0.0,
    f"{_WARMUP}.power": 1.0,
}
BASE = {
    f"{_ENCODER}.{name}": value
    for name, value in {
        "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072,
        "hidden_act": "gelu_tanh", "max_position_embeddings": 512, "type_vocab_size": 2, "initializer_range": 0.02,
    }.items()
}  # fmt: skip
TABLE = {
    "glue_mnli_matched": ("bert/sentence_prediction", garden.GLUE, TRAINING | {
        "task.model.num_classes": 3, "task.init_checkpoint": "", "task.train_data.global_batch_size": 32,
        "task.train_data.seq_length": 128, "task.train_data.drop_remainder": True, "task.train_data.is_training": True,
        "task.validation_data.drop_remainder": False, "task.validation_data.is_training": False,
        "task.validation_data.global_batch_size": 32, "task.validation_data.seq_length": 128,
        "trainer.train_steps": 36813, "trainer.steps_per_loop": 1000, "trainer.summary_interval": 1000,
        "trainer.checkpoint_interval": 3000, "trainer.validation_interval": 6135, "trainer.validation_steps": 307,
        "trainer.best_checkpoint_export_subdir": "best_ckpt", "trainer.best_checkpoint_eval_metric": "cls_accuracy",
        "trainer.best_checkpoint_metric_comp": "higher", f"{_POLYNOMIAL}.decay_steps": 36813,
        f"{_POLYNOMIAL}.initial_learning_rate": 3e-5, f"{_POLYNOMIAL}.power": 1.0, f"{_WARMUP}.warmup_steps": 3681,
    }),
    "glue_mnli_text": ("bert/sentence_prediction_text", garden.GLUE_TEXT, {
        "task.train_data.tfds_name": "glue/mnli", "task.train_data.tfds_split": "train",
        "task.train_data.text_fields": ["premise", "hypothesis"], "task.train_data.do_lower_case": True,
        "task.validation_data.tfds_split": "validation_matched", "task.validation_data.do_lower_case": True,
        "task.train_data.vocab_file": "", "trainer.max_to_keep": 5, f"{_POLYNOMIAL}.decay_steps": 36813,
    }),
    "squad_v1": ("bert/squad", garden.SQUAD, TRAINING | {
        "task.max_answer_length": 30, "task.n_best_size": 20, "task.null_score_diff_threshold": 0.0,
        "task.train_data.global_batch_size": 48, "task.train_data.seq_length": 384,
        "task.validation_data.do_lower_case": True, "task.validation_data.doc_stride": 128,
        "task.validation_data.query_length": 64, "task.validation_data.seq_length": 384,
        "task.validation_data.version_2_with_negative": False, "task.validation_data.vocab_file": "",
        "trainer.train_steps": 3699, "trainer.validation_steps": 226, "trainer.max_to_keep": 5,
        "trainer.best_checkpoint_eval_metric": "final_f1", f"{_POLYNOMIAL}.initial_learning_rate": 8e-5,
        f"{_POLYNOMIAL}.decay_steps": 3699, f"{_WARMUP}.warmup_steps": 370,
    }),
    "wiki_books_pretrain": ("bert/pretraining", garden.PRETRAINING, TRAINING | {
        "task.use_next_sentence_label": True, "task.train_data.input_path": "wiki*,books*",
        "task.train_data.global_batch_size": 512, "task.train_data.seq_length": 512,
        "task.train_data.max_predictions_per_seq": 76, "task.validation_data.max_predictions_per_seq": 76,
        "task.validation_data.input_path": "wiki-00000-of-00500,books-00000-of-00500",
        "trainer.train_steps": 1_000_000, "trainer.checkpoint_interval": 20_000, "trainer.validation_interval": 1000,
        "trainer.validation_steps": 64, f"{_POLYNOMIAL}.initial_learning_rate": 1e-4,
        f"{_POLYNOMIAL}.decay_steps": 1_000_000, f"{_WARMUP}.warmup_steps": 10_000,
    }),
    "bert_en_uncased_base": ("bert/pretraining", garden.BERT_BASE, BASE | {
        "task.model.encoder.type": "bert", f"{_ENCODER}.vocab_size": 30522, f"{_ENCODER}.hidden_dropout_prob": 0.1,
        f"{_ENCODER}.attention_probs_dropout_prob": 0.1,
    }),
    "albert_base": ("albert/pretraining", garden.ALBERT_BASE, BASE | {
        "task.model.encoder.type": "albert", f"{_ENCODER}.vocab_size": 30000, f"{_ENCODER}.embedding_size": 128,
        f"{_ENCODER}.hidden_dropout_prob": 0.0, f"{_ENCODER}.attention_probs_dropout_prob": 0.0,
    }),
    "labse_bert_base": ("bert/pretraining", garden.LABSE, {
        "task.model.encoder.type": "bert", f"{_ENCODER}.vocab_size": 501153, f"{_ENCODER}.hidden_act": "gelu_tanh",
    }),
    "en_uncased_student": ("bert/pretraining", garden.MOBILEBERT_STUDENT, {
        "task.model.encoder.type": "mobilebert", f"{_ENCODER}.vocab_size": 30522, f"{_ENCODER}.embedding_size": 128,
        f"{_ENCODER}.max_position_embeddings": 512, f"{_ENCODER}.num_hidden_layers": 24, f"{_ENCODER}.hidden_size": 512,
        f"{_ENCODER}.num_attention_heads": 4, f"{_ENCODER}.intermediate_size": 512, f"{_ENCODER}.hidden_act": "relu",
        f"{_ENCODER}.hidden_dropout_prob": 0.0, f"{_ENCODER}.attention_probs_dropout_prob": 0.1,
        f"{_ENCODER}.intra_bottleneck_size": 128, f"{_ENCODER}.key_query_shared_bottleneck": True,
        f"{_ENCODER}.num_feedforward_networks": 4, f"{_ENCODER}.classifier_activation": False,
    }),
}  # fmt: skip


def value_of(config, path):
    for name in path.split("."):
        config = getattr(config, name)
    return config


def test_the_stages_of_the_progressive_trainer():
    stages = [
        {"num_layers": 3, "num_steps": "10", "override_train_data": {"masking_rate": "0.2", "shuffle_buffer_size": 9}},
        {"num_encoder_layers": 6, "num_steps": 20},
    ]
    base = registered("bert/pretraining")
    base.trainer.train_steps = 7
    for layer in (
        {"trainer": {"type": "progressive", "progressive": {"stage_list": stages}}},
        {"task": {"stage_list": stages}},
    ):
        config = with_layers(base, [("a", copy.deepcopy(layer))])
        found = config.trainer.stages
        assert [(stage.train_steps, stage.num_hidden_layers) for stage in found] == [(10, 3), (20, 6)]
        assert config.trainer.train_steps is None  # of a layer below
        assert [each.task.train_data.masked_lm_prob for each in stage_configs(config)] == [0.2, None]
    assert with_layers(base, [("a", {"trainer": {"progressive": {}}})]).trainer.stages == []


@pytest.mark.parametrize("name", TABLE)
def test_every_field_of_the_file_has_its_value(name, tmp_path):
    base, text, expected = TABLE[name]
    (tmp_path / f"{name}.yaml").write_text(text)
    config = with_layers(registered(base), [(name, read_yaml(tmp_path / f"{name}.yaml"))])
    assert {path: value_of(config, path) for path in expected} == expected


@pytest.mark.parametrize("name", ["glue_mnli_matched", "squad_v1", "wiki_books_pretrain"])
def test_the_file_trains_and_evaluates(name, tmp_path):
    base, text, _ = TABLE[name]
    (tmp_path / "a.yaml").write_text(text)
    config = with_layers(registered(base), [("a.yaml", read_yaml(tmp_path / "a.yaml"))])
    check_experiment(config, "train_and_eval", config.trainer.train_steps)


@pytest.mark.parametrize("name", garden.TASKS)
def test_every_field_of_the_gardens_classes_is_known(name):
    data = garden.DATA[name]
    task = copy.deepcopy(garden.TASKS[name]) | {"train_data": data, "validation_data": data}
    task["model"]["encoder"] = {"type": "bert", "bert": garden.BERT}
    layer = {"task": task, "trainer": garden.TRAINER, "runtime": garden.RUNTIME}
    config = experiment(name, layer)
    assert config.trainer.optimizer_config.optimizer.options.gradient_clip_norm == 1.0
    assert config.trainer.optimizer_config.optimizer.options.epsilon == 1e-7
    assert (config.task.train_data.is_training, config.task.validation_data.is_training) == (True, False)
    assert (config.runtime.mixed_precision_dtype, config.runtime.num_replicas) == ("float32", None)
    assert config.task.model.encoder.options.hidden_act == "gelu_tanh"


def test_types_under_other_names():
    optimizer = {"optimizer": {"type": "adamw_experimental", "adamw_experimental": garden.ADAMW_EXPERIMENTAL}}
    encoder = {"type": "bert_v2", "bert_v2": {"num_layers": 3}}
    layer = {"trainer": {"optimizer_config": optimizer}, "task": {"model": {"encoder": encoder}}}
    config = experiment("bert/pretraining", layer)
    chosen = config.trainer.optimizer_config.optimizer
    assert (chosen.type, chosen.options.weight_decay_rate, chosen.options.gradient_clip_norm) == ("adamw", 0.02, 0.5)
    assert (config.task.model.encoder.type, config.task.model.encoder.options.num_hidden_layers) == ("bert", 3)


def test_plain_gradient_descent():
    sgd = {"name": "SGD", "decay": 0.0, "nesterov": False, "momentum": 0.9, "jit_compile": False, "clipnorm": None}
    optimizer = {"optimizer": {"type": "sgd_experimental", "sgd_experimental": sgd}}
    chosen = experiment(
        "bert/pretraining", {"trainer": {"optimizer_config": optimizer}}
    ).trainer.optimizer_config.optimizer
    assert (chosen.type, chosen.options.momentum) == ("sgd", 0.9)


def test_an_unset_type_of_warm_up_is_none():
    layer = {"trainer": {"optimizer_config": {"warmup": {"type": None}}}}
    assert experiment("bert/pretraining", layer).trainer.optimizer_config.warmup is None


def test_training_data_without_sentence_labels_learns_words_alone():
    layer = {"task": {"train_data": {"use_next_sentence_label": "false"}}}
    assert not experiment("bert/pretraining", layer).task.use_next_sentence_label
    own = {"task": {"use_next_sentence_label": True, "train_data": {"use_next_sentence_label": False}}}
    assert experiment("bert/pretraining", own).task.use_next_sentence_label


def test_the_offset_of_a_decay_is_where_it_starts():
    layer = {"trainer": {"optimizer_config": {"learning_rate": {"polynomial": {"decay_steps": 10, "offset": 5}}}}}
    assert value_of(experiment("bert/pretraining", layer), f"{_POLYNOMIAL}.decay_start") == 5


def test_the_average_of_the_garden():
    fields = {
        "name": "ExponentialMovingAverage",
        "trainable_weights_only": True,
        "average_decay": 0.999,
        "start_step": 7,
    }
    layer = {"trainer": {"optimizer_config": {"ema": fields | {"dynamic_decay": False, "global_clipnorm": None}}}}
    ema = experiment("bert/pretraining", layer).trainer.optimizer_config.ema
    assert (ema.average_decay, ema.start_step, ema.dynamic_decay, ema.evaluate) == (0.999, 7, False, True)
    assert (
        experiment("bert/pretraining", {"trainer": {"optimizer_config": {"ema": None}}}).trainer.optimizer_config.ema
        is None
    )


_RATES = [
    ("cosine", {"decay_steps": 90, "alpha": 0.1, "offset": 5}, "cosine", {"decay_start": 5}),
    ("exponential", {"decay_steps": 90, "decay_rate": 0.5, "staircase": None}, "exponential", {"staircase": False}),
    ("stepwise", {"boundaries": [3, 9], "values": [1e-3, 1e-4, 1e-5], "offset": 2}, "stepwise", {"decay_start": 2}),
    ("power", {"initial_learning_rate": 1e-3, "power": -0.5}, "power", {"total_decay_steps": None}),
    ("power_linear", {"total_decay_steps": 80, "linear_decay_fraction": 0.2}, "power", {"total_decay_steps": 80}),
    ("power_with_offset", {"offset": 8, "pre_offset_learning_rate": 1e6}, "power", {"decay_start": 8}),
]


@pytest.mark.parametrize(("type", "fields", "ours", "expected"), _RATES, ids=[case[0] for case in _RATES])
def test_learning_rates_of_the_garden(type, fields, ours, expected):
    layer = {"trainer": {"optimizer_config": {"learning_rate": {"type": type, type: {"name": "Any"} | fields}}}}
    chosen = experiment("bert/pretraining", layer).trainer.optimizer_config.learning_rate
    assert chosen.type == ours
    expected = {name: value for name, value in fields.items() if name != "offset"} | expected
    assert {name: getattr(chosen.options, name) for name in expected} == expected


def test_adafactor_of_the_garden():
    fields = {
        "name": "Adafactor",
        "factored": True,
        "multiply_by_parameter_scale": True,
        "beta1": None,
        "decay_rate": 0.7,
    }
    fields |= {"step_offset": 0, "clipping_threshold": 2.0, "epsilon1": 1e-20, "epsilon2": 1e-2, "weight_decay": 0.1}
    optimizer = {"type": "adafactor", "adafactor": fields}
    chosen = experiment("bert/pretraining", {"trainer": {"optimizer_config": {"optimizer": optimizer}}})
    found = chosen.trainer.optimizer_config.optimizer
    assert found.type == "adafactor"
    expected = (0.7, 2.0, 1e-20, 1e-2, 0.1)
    names = ("decay_rate", "clip_threshold", "epsilon_1", "epsilon_2", "weight_decay_rate")
    assert tuple(getattr(found.options, name) for name in names) == expected


REFUSED = [
    (
        "factored",
        {"trainer": {"optimizer_config": {"optimizer": {"type": "adafactor", "min_dim_size_to_factor": 128}}}},
        "every matrix is factored",
    ),
    ("adafactor_keras", {"trainer": {"optimizer_config": {"optimizer": {"type": "adafactor_keras"}}}}, "-beta_2_decay"),
    (
        "cycle",
        {"trainer": {"optimizer_config": {"learning_rate": {"polynomial": {"cycle": "true"}}}}},
        "a decay ends once",
    ),
    ("ema", {"trainer": {"optimizer_config": {"ema": {"clipnorm": 0.9}}}}, "clipping is the optimizer's"),
    (
        "ema's decay",
        {"trainer": {"optimizer_config": {"ema": {"average_decay": 1.5}}}},
        "ema.average_decay: must be at most 1",
    ),
    (
        "clipnorm",
        {"trainer": {"optimizer_config": {"optimizer": {"adamw": {"clipnorm": 1.0}}}}},
        "use gradient_clip_norm",
    ),
    ("amsgrad", {"trainer": {"optimizer_config": {"optimizer": {"adamw": {"amsgrad": True}}}}}, "not available"),
    ("recovery of another type", {"trainer": {"recovery_max_trials": "often"}}, "expected a whole number"),
    ("cls_heads of another type", {"task": {"model": {"cls_heads": ["next"]}}}, "of two classes"),
    ("cls_heads as text", {"task": {"model": {"cls_heads": "next"}}}, "of two classes"),
    (
        "a stage's rate",
        {"trainer": {"progressive": {"stage_list": [{"num_layers": 3, "initial_learning_rate": 1e-4}]}}},
        r"trainer\.stages\[0\]\.initial_learning_rate: is 0.0001: one learning rate runs over all stages",
    ),
    (
        "a stage's validation",
        {"task": {"stage_list": [{"override_valid_data": {"seq_length": 3}}]}},
        "all stages are evaluated",
    ),
    ("stages that are no list", {"trainer": {"stages": 3}}, "trainer.stages: is a list of sections with names in them"),
    ("small_train_data", {"task": {"small_train_data": {"seq_length": 128}}}, "stages are a list in trainer.stages"),
    ("teacher", {"task": {"teacher_model": {"cls_heads": []}}}, "no model here learns from another"),
    ("electra", {"task": {"model": {"generator_encoder": {"bert": {}}}}}, "no second encoder"),
    ("norm_first", {"task": {"model": {"encoder": {"bert": {"norm_first": True}}}}}, "normalise after each sum"),
    ("embedding_size", {"task": {"model": {"encoder": {"bert": {"embedding_size": 128}}}}}, "encoder type albert"),
    (
        "layer_norm",
        {"task": {"model": {"encoder": {"type": "mobilebert", "normalization_type": "layer_norm"}}}},
        "student",
    ),
    ("cls_heads", {"task": {"model": {"cls_heads": [{"num_classes": 3}]}}}, "of two classes"),
    ("tfds", {"task": {"train_data": {"tfds_name": "wikipedia/20201201.en"}}}, "nlpdata create-pretraining"),
    ("worker_hosts", {"runtime": {"worker_hosts": "a:1,b:2"}}, "TF_CONFIG"),
    ("cores", {"runtime": {"num_cores_per_replica": 2}}, "a replica is one device"),
    ("bigbird", {"task": {"model": {"encoder": {"type": "bigbird", "bigbird": {}}}}}, "Use bert, albert or mobilebert"),
    ("any", {"task": {"model": {"encoder": {"type": "any", "any": {}}}}}, "Use bert, albert or mobilebert"),
    (
        "step_cosine",
        {"trainer": {"optimizer_config": {"learning_rate": {"type": "step_cosine_with_offset"}}}},
        "Use cosine, stepwise or wsd",
    ),
    ("lars", {"trainer": {"optimizer_config": {"optimizer": {"type": "lars"}}}}, "Use adamw, lamb, sgd or adafactor"),
    ("nesterov", {"trainer": {"optimizer_config": {"optimizer": {"type": "sgd", "nesterov": True}}}}, "not available"),
    ("adam", {"trainer": {"optimizer_config": {"optimizer": {"type": "adam"}}}}, "weight_decay_rate: 0"),
]


@pytest.mark.parametrize(("layer", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_what_is_not_available_is_refused_with_what_to_use(layer, message):
    with pytest.raises(UsageError, match=message):
        experiment("bert/pretraining", layer)


@pytest.mark.parametrize("name", ["bert/text_wiki_pretraining", "bert/tagging", "electra/pretraining", "xlnet/squad"])
def test_experiments_that_are_not_available(name):
    with pytest.raises(UsageError, match=rf"the Model Garden's experiment '{name}' is not available here\. "):
        registered(name)


def test_a_field_without_effect_is_named_with_its_line(tmp_path):
    (tmp_path / "a.yaml").write_text("trainer:\n  train_tf_function: true\n")
    with messages() as said:
        with_layers(registered("bert/pretraining"), [("a.yaml", read_yaml(tmp_path / "a.yaml"))])
    assert said == ["a.yaml:2: trainer.train_tf_function has no effect here."]
