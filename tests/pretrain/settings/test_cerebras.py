"""--params: Cerebras's YAML becomes an experiment of ours, or an error that says why not."""

import shlex

import numpy as np
import pytest
import yaml

from nlpdata.errors import UsageError
from pretrain.data.sentences import sentence_batches
from pretrain.optimizers.schedules import LinearWarmup, Polynomial
from pretrain.run import resolve
from pretrain.settings.dialects.cerebras.translate import read_params
from pretrain.settings.flags import parse_flags
from tests.messages import messages
from tests.pretrain.finetuning import examples, records, write
from tests.pretrain.runs import tiny

MODEL = """
model:
    hidden_size: 32
    use_position_embedding: True
    use_segment_embedding: True
    position_embedding_type: 'learned'
    max_position_embeddings: 32
    num_hidden_layers: 2
    dropout_rate: 0.1
    layer_norm_epsilon: 1e-5
    num_heads: 2
    filter_size: 64
    encoder_nonlinearity: 'gelu'
    use_ffn_bias: True
    use_vsl: True
    mixed_precision: False
"""
CLASSIFIER = """
train_input:
    data_processor: Sst2DataProcessor
    data_dir: {data}
    max_sequence_length: 32
    batch_size: 12
    shuffle: True
eval_input:
    data_dir: {data}
    max_sequence_length: 32
    batch_size: 6
predict_input:
    batch_size: 1
model:
    pretrain_params_path: pretraining.yaml
    cls_dropout_rate: 0.1
    num_cls_classes: 3
    mixed_precision: True
optimizer:
    optimizer_type: "adamw"
    weight_decay_rate: 0.01
    epsilon: 1e-6
    learning_rate:
        - {{scheduler: "Linear", steps: 2000, initial_learning_rate: 0.0, end_learning_rate: 0.00005}}
        - {{scheduler: "Constant", learning_rate: 0.00005}}
    loss_scaling_factor: "dynamic"
runconfig:
    max_steps: 20000
    save_checkpoints_steps: 2000
    eval_steps: 0
    keep_checkpoint_max: 0
    tf_random_seed: 1202
    throttle_secs: 0
"""
PRETRAINING = """
train_input: {data_dir: owt, max_sequence_length: 512, max_predictions_per_seq: 80, batch_size: 256, vocab_size: 30522}
optimizer:
    optimizer_type: adam
    max_gradient_norm: 1.0
    disable_lr_steps_reset: True
    learning_rate:
        - {steps: 10000, scheduler: Linear, initial_learning_rate: 0.0, end_learning_rate: 0.0001}
        - {steps: 1000000, scheduler: Linear, initial_learning_rate: 0.0001, end_learning_rate: 0.0}
runconfig: {max_steps: 900000}
"""


def config_of(folder, text, flags=""):
    (folder / "params.yaml").write_text(text)
    (folder / "pretraining.yaml").write_text(MODEL)
    line = f"--mode train --params {folder}/params.yaml --model_dir run {flags}"
    return resolve(parse_flags(shlex.split(line)))


@pytest.fixture
def own_records(tmp_path):
    (tmp_path / "data").mkdir()
    for split in ("train", "dev"):
        records(tmp_path / "data" / f"{split}.tfrecord", 16)
    return tmp_path / "data"


def test_a_classifier(tmp_path, own_records):
    with messages() as notes:
        config = config_of(tmp_path, CLASSIFIER.format(data=own_records))
    task, trainer, encoder = config.task, config.trainer, config.task.model.encoder
    assert (config.task_type, task.model.num_classes, task.model.classifier_dropout_prob) == (
        "sentence_prediction",
        3,
        0.1,
    )
    assert task.train_data.input_path == [f"{own_records}/train*.tf*record*"]
    assert task.validation_data.input_path == [f"{own_records}/dev*.tf*record*"]
    assert (task.train_data.global_batch_size, task.validation_data.global_batch_size) == (12, 6)
    assert (task.train_data.seq_length, task.train_data.invert_mask) == (32, False)
    options = encoder.options
    assert (encoder.type, options.hidden_size, options.num_attention_heads, options.intermediate_size) == (
        "bert",
        32,
        2,
        64,
    )
    assert (options.attention_probs_dropout_prob, options.layer_norm_eps, options.hidden_act) == (
        0.0,
        1e-5,
        "gelu_tanh",
    )
    optimization = trainer.optimizer_config
    assert (optimization.learning_rate.type, optimization.learning_rate.options.learning_rate) == ("constant", 5e-5)
    assert (optimization.warmup.options.warmup_steps, optimization.warmup.options.warmup_learning_rate) == (2000, 0.0)
    adamw = optimization.optimizer.options
    assert (adamw.weight_decay_rate, adamw.gradient_clip_norm, adamw.bias_correction) == (0.01, 0, False)
    assert (trainer.train_steps, trainer.checkpoint_interval, trainer.validation_steps) == (20000, 2000, -1)
    assert (config.runtime.seed, config.runtime.mixed_precision_dtype, config.runtime.loss_scale) == (
        1202,
        "float16",
        "dynamic",
    )
    assert notes == [
        f"{tmp_path}/params.yaml: without effect here: predict_input.batch_size, runconfig.throttle_secs"
    ]  # and shuffle, which is as theirs; use_vsl is not taken over from the pretraining file


def test_pretraining_and_what_is_above_it(tmp_path):
    text = PRETRAINING + MODEL
    with messages() as notes:
        config = config_of(tmp_path, text, "--train_batch_size=8 --params_override=trainer.train_steps=7")
    assert (config.task_type, config.trainer.train_steps, config.task.train_data.global_batch_size) == (
        "pretraining",
        7,
        8,
    )
    assert config.task.train_data.max_predictions_per_seq == 80
    optimizer = config.trainer.optimizer_config.optimizer.options
    assert (optimizer.weight_decay_rate, optimizer.bias_correction, optimizer.gradient_clip_norm) == (0.0, True, 1.0)
    decay = config.trainer.optimizer_config.learning_rate.options
    assert (decay.initial_learning_rate, decay.decay_steps) == (1e-4, 1_000_000)
    assert any("no records at owt/*.tf*record*" in note for note in notes)
    assert config_of(tmp_path, text, "--experiment=albert/pretraining").task.model.encoder.type == "bert"


def test_the_vocabulary_file_gives_the_size(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\nword\n")
    text = (PRETRAINING + MODEL).replace("vocab_size: 30522", f"vocab_file: {tmp_path}/vocab.txt")
    assert config_of(tmp_path, text).task.model.encoder.options.vocab_size == 3
    with messages() as notes:
        config = config_of(tmp_path, text.replace("vocab.txt", "v.txt"))
    assert config.task.model.encoder.options.vocab_size == 30522
    assert any(f"there is no {tmp_path}/v.txt; texts take the checkpoint's" in note for note in notes)


def test_a_decay_from_its_own_beginning_is_the_same_line(tmp_path):
    text = (PRETRAINING + MODEL).replace("disable_lr_steps_reset: True", "disable_lr_steps_reset: False")
    optimization = config_of(tmp_path, text).trainer.optimizer_config
    rate = LinearWarmup.for_run(
        optimization.warmup.options, 900_000, Polynomial.for_run(optimization.learning_rate.options, 900_000)
    )
    theirs = {0: 0, 5000: 5e-5, 10_000: 1e-4, 510_000: 5e-5, 1_010_000: 0}
    assert [float(rate(step)) for step in theirs] == pytest.approx(list(theirs.values()), rel=1e-5, abs=1e-12)


def test_records_of_theirs_have_1_on_padding(tmp_path):
    (tmp_path / "data").mkdir()
    columns = examples(16)
    columns["input_mask"] = 1 - columns["input_mask"]
    write(tmp_path / "data" / "train-0.tfrecords", columns)
    text = CLASSIFIER.format(data=tmp_path / "data")
    with messages() as notes:
        task = config_of(tmp_path, text, "--batch_size=4").task
    assert task.train_data.invert_mask
    assert any("read as Cerebras's, with 1 on padding" in note for note in notes)
    flags = f"--params_override=task.model.encoder.vocab_size={tiny().options.vocab_size}"
    task = config_of(tmp_path, text, flags).task
    batch = sentence_batches(task.train_data, task)[0].batch(0)
    assert np.all(batch["input_mask"] == (batch["input_ids"] != 0))
    task = config_of(tmp_path, text, f"{flags},task.train_data.invert_mask=false").task
    with pytest.raises(UsageError, match=r"input_mask is not 1 on real tokens.*Set invert_mask to true"):
        sentence_batches(task.train_data, task)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("batch_size: 12", "batchsize: 12", r"train_input\.batchsize: no key.* Did you mean batch_size"),
        ("runconfig:", "runconfg:", r"runconfg: no section.* Did you mean runconfig"),
        ('"adamw"', "rmsprop", r"optimizer\.optimizer_type: 'rmsprop' is not there\. Use adam, adamw, sgd, momentum"),
        (
            "cls_dropout_rate: 0.1",
            "use_pre_normalization: True",
            r"model\.use_pre_normalization: 'True' makes another model",
        ),
        ("epsilon: 1e-6", "grad_accum_steps: 0", r"optimizer\.grad_accum_steps: must be at least 1\. Received: 0"),
        ("shuffle: True", "add_special_tokens: False", r"train_input\.add_special_tokens: 'False' makes another"),
        ("shuffle: True", "shuffle: False", r"train_input\.shuffle: 'False' makes another"),
        ('"Constant", learning_rate: 0.00005', '"Cosine"', r"learning_rate: scheduler 'Cosine' is not supported"),
        ("learning_rate: 0.00005}", "learning_rate: 0.1}", r"first schedule ends at 0\.1, the second begins at 5e-05"),
        ("pretraining.yaml", "absent.yaml", r"model\.pretrain_params_path: there is no such file\. Looked for"),
        ("batch_size: 12", "batch_size: many", r"global_batch_size: expected a whole number\. Received: 'many'"),
        ("eval_steps: 0", "eval_steps: x", r"runconfig\.eval_steps: expected a whole number"),
    ],
)
def test_faults(tmp_path, own_records, old, new, message):
    text = CLASSIFIER.format(data=own_records)
    assert old in text
    with pytest.raises(UsageError, match=message):
        config_of(tmp_path, text.replace(old, new, 1))


def replaced(tree, value):
    """This tree, time and again, with another of its values replaced each time."""
    for key in tree if isinstance(tree, dict) else range(len(tree)):
        for other in [value, *(replaced(tree[key], value) if isinstance(tree[key], dict | list) else [])]:
            changed = tree.copy()
            changed[key] = other
            yield changed


@pytest.mark.parametrize("value", [[], [[]], {"a": 1}, 5, "x"], ids=str)
def test_values_of_other_types_are_taken_or_refused(tmp_path, own_records, value):
    (tmp_path / "pretraining.yaml").write_text(MODEL)
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    classifier = yaml.safe_load(CLASSIFIER.format(data=own_records))
    classifier["train_input"] |= {"vocab_file": "vocab.txt", "do_lower": True}
    pretraining = yaml.safe_load(PRETRAINING)
    pretraining["train_input"]["data_file"] = [f"{own_records}/train.tfrecord"]
    refused = []
    for tree in (classifier, pretraining):
        for number, changed in enumerate(replaced(tree, value)):
            path = tmp_path / f"{number}.yaml"
            path.write_text(yaml.safe_dump(changed))
            try:
                read_params(str(path), None)
            except UsageError as error:
                refused.append((path, error))
    assert refused
    assert all(str(path) in str(error) for path, error in refused)


def text_set(folder, name):
    """A folder as TensorFlow Datasets prepares it, as far as it is looked at here."""
    place = folder / name / "2.0.0"
    place.mkdir(parents=True)
    (place / "dataset_info.json").write_text("{}")


@pytest.mark.parametrize(
    ("processor", "name", "evaluated", "classes"),
    [
        ("Sst2DataProcessor", "glue/sst2", "validation", 2),
        ("MnliDataProcessor", "glue/mnli", "validation_matched+validation_mismatched", 3),
    ],
)
def test_prepared_text_sets_are_read_as_they_are(tmp_path, processor, name, evaluated, classes):
    text_set(tmp_path / "tfds", name)
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nword\n")
    text = CLASSIFIER.format(data=tmp_path / "tfds").replace("num_cls_classes: 3", "num_cls_classes: 2")
    text = text.replace("data_processor: Sst2DataProcessor", f"data_processor: {processor}\n    vocab_file: vocab.txt")
    with messages() as notes:
        task = config_of(tmp_path, text.replace("eval_input:", f"eval_input:\n    data_processor: {processor}")).task
    for data, split in ((task.train_data, "train"), (task.validation_data, evaluated)):
        assert (data.tfds_name, data.tfds_split, data.tfds_data_dir) == (name, split, str(tmp_path / "tfds"))
        assert (data.input_path, data.seq_length, data.do_lower_case, data.invert_mask) == ("", 32, True, False)
        assert data.vocab_file == str(tmp_path / "vocab.txt")
    assert (task.model.num_classes, task.model.encoder.options.vocab_size) == (classes, 6)
    assert any(f"num_cls_classes 2: {name} has 3 classes" in note for note in notes) == (classes == 3)
    without = text.split("eval_input:")[0] + "model:" + text.split("model:", 1)[1]  # as theirs, evaluates the same set
    assert config_of(tmp_path, without).task.validation_data.tfds_split == evaluated
    flags = "--input_files=a.tfrecord --eval_files=b.tfrecord"  # name other data, as before
    named = config_of(tmp_path, text, flags).task
    assert (named.train_data.input_path, named.train_data.tfds_name) == ("a.tfrecord", "")
    assert (named.validation_data.input_path, named.validation_data.tfds_name) == ("b.tfrecord", "")


def test_options_of_their_texts(tmp_path):
    text_set(tmp_path / "tfds", "glue/sst2")
    text = CLASSIFIER.format(data=tmp_path / "tfds")
    data = config_of(tmp_path, text.replace("batch_size: 12", "batch_size: 12\n    do_lower: False")).task.train_data
    assert (data.do_lower_case, data.vocab_file) == (False, "")
    assert config_of(tmp_path, text).task.train_data.do_lower_case is None  # as stored with the checkpoint's vocabulary


def test_a_function_of_ones_own(tmp_path):
    text = CLASSIFIER.format(data="x").replace(
        "data_processor: Sst2DataProcessor", "data_processor: my_data:train_input"
    )
    data = config_of(tmp_path, text).task.train_data
    assert (data.input_function, data.input_path, data.invert_mask) == ("my_data:train_input", "", True)
    data = config_of(tmp_path, text.replace("batch_size: 12", "batch_size: 12\n    invert_mask: False")).task.train_data
    assert data.invert_mask is False


def test_a_processor_that_is_not_known(tmp_path, own_records):
    text = CLASSIFIER.format(data=own_records).replace("Sst2DataProcessor", "MyProcessor")
    with messages() as notes:
        assert config_of(tmp_path, text).task.train_data.input_path
    assert any(
        "train_input.data_processor: MyProcessor is not known here, so records of data_dir are read" in n for n in notes
    )


@pytest.mark.parametrize(
    ("lines", "kind", "options"),
    [
        ('optimizer_type: "sgd"', "sgd", {"momentum": 0.0, "gradient_clip_norm": 0.0}),
        ('optimizer_type: "momentum"', "sgd", {"momentum": 0.9}),
        (
            'optimizer_type: "Momentum"\n    momentum: 0.8\n    max_gradient_norm: 2',
            "sgd",
            {"momentum": 0.8, "gradient_clip_norm": 2.0},
        ),
        (
            'optimizer_type: "adam"\n    beta1: 0.8',
            "adamw",
            {"beta_1": 0.8, "weight_decay_rate": 0.0, "bias_correction": True},
        ),
        ('optimizer_type: "adamw"', "adamw", {"weight_decay_rate": 0.01, "bias_correction": False}),
    ],
)  # fmt: skip
def test_their_optimizers(tmp_path, own_records, lines, kind, options):
    text = CLASSIFIER.format(data=own_records).replace('optimizer_type: "adamw"', lines)
    optimizer = config_of(tmp_path, text).trainer.optimizer_config.optimizer
    assert optimizer.type == kind
    assert {name: getattr(optimizer.options, name) for name in options} == options


@pytest.mark.parametrize(("mixed", "epsilon"), [("True", 1e-5), ("False", 1e-8)])
def test_their_epsilon_depends_on_the_precision(tmp_path, own_records, mixed, epsilon):
    text = CLASSIFIER.format(data=own_records).replace("    epsilon: 1e-6\n", "")
    text = text.replace("mixed_precision: True", f"mixed_precision: {mixed}")
    assert config_of(tmp_path, text).trainer.optimizer_config.optimizer.options.epsilon == epsilon


def test_a_step_of_several_batches(tmp_path, own_records):
    text = CLASSIFIER.format(data=own_records).replace("epsilon: 1e-6", "grad_accum_steps: 4")
    with messages() as notes:
        config = config_of(tmp_path, text)
    assert (config.trainer.gradient_accumulation_steps, config.task.train_data.global_batch_size) == (4, 48)
    assert config.task.validation_data.global_batch_size == 6
    assert any("a step is 4 batches of 12 (grad_accum_steps): 48 examples" in note for note in notes)


def test_steps_of_a_call(tmp_path, own_records):
    text = CLASSIFIER.format(data=own_records).replace("max_steps: 20000", "max_steps: 20000\n    steps: 7")
    assert config_of(tmp_path, text).trainer.steps_a_call == 7
    trainer = config_of(tmp_path, text, "--steps 5 --max_steps 9 --eval_steps 0").trainer
    assert (trainer.steps_a_call, trainer.train_steps, trainer.validation_steps) == (5, 9, -1)


@pytest.mark.parametrize("path", ["{}", "{}.yaml", "configs/{}.yaml", "configs/cerebras/{}.yaml"])
def test_their_files_are_found_by_name(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    line = f"--params {path.format('params_bert_base_sst2')} --model_dir run"
    assert resolve(parse_flags(shlex.split(line))).task.train_data.tfds_name == "glue/sst2"


@pytest.mark.parametrize("size", ["base", "large"])
@pytest.mark.parametrize("task", ["sst2", "mnli"])
def test_their_files_have_their_values(size, task):
    config = resolve({"params": f"params_bert_{size}_{task}"})
    sizes = {"base": (768, 12, 12, 3072), "large": (1024, 24, 16, 4096)}[size]
    options = config.task.model.encoder.options
    names = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size")
    assert tuple(getattr(options, name) for name in names) == sizes
    assert (options.hidden_dropout_prob, options.attention_probs_dropout_prob, options.layer_norm_eps) == (
        0.1,
        0.1,
        1e-5,
    )
    assert (options.hidden_act, options.max_position_embeddings) == ("gelu_tanh", 512)
    length, warmup, steps, every, classes = {
        "sst2": (72, 2000, 20_000, 2000, 2),
        "mnli": (448, 10_000, 100_000, 10_000, 3),
    }[task]
    for data in (config.task.train_data, config.task.validation_data):
        assert (data.tfds_name, data.tfds_data_dir, data.seq_length, data.global_batch_size) == (
            f"glue/{task}",
            "./tfds",
            length,
            12,
        )
    assert (config.task.model.num_classes, config.task.model.classifier_dropout_prob) == (classes, 0.1)
    optimization = config.trainer.optimizer_config
    assert optimization.learning_rate.options.learning_rate == {"base": 5e-5, "large": 5e-6}[size]
    assert optimization.warmup.options.warmup_steps == warmup
    adamw = optimization.optimizer.options
    assert (adamw.weight_decay_rate, adamw.epsilon, adamw.gradient_clip_norm, adamw.bias_correction) == (
        0.01,
        1e-6,
        1.0,
        False,
    )
    trainer = config.trainer
    assert (trainer.train_steps, trainer.checkpoint_interval, trainer.summary_interval, trainer.max_to_keep) == (
        steps,
        every,
        100,
        2,
    )
    assert (config.runtime.seed, config.runtime.mixed_precision_dtype, config.runtime.loss_scale) == (
        1202,
        "float16",
        "dynamic",
    )


@pytest.mark.parametrize("size", ["base", "large"])
def test_their_pretraining_files(size):
    config = resolve({"params": f"params_bert_{size}_msl512"})
    assert (config.task_type, config.task.train_data.global_batch_size, config.task.train_data.seq_length) == (
        "pretraining",
        256,
        512,
    )
    decay = config.trainer.optimizer_config.learning_rate.options
    assert (decay.initial_learning_rate, decay.end_learning_rate, decay.decay_steps) == (1e-4, 0.0, 1_000_000)
    assert config.trainer.optimizer_config.warmup.options.warmup_steps == 10_000
