"""`pretrain run`: from a command line to a configuration, a message or a run."""

import json
import os
import shlex
import subprocess
import sys
from dataclasses import asdict

import pytest

from nlpdata.errors import UsageError
from pretrain.converters import native
from pretrain.encoders.model_config import read_model_config
from pretrain.experiments import experiment_lines
from pretrain.experiments.pretraining import bert_local
from pretrain.registry import EXPERIMENTS
from pretrain.run import main, resolve, run_mode
from pretrain.settings.flags import parse_flags
from tests.messages import messages
from tests.pages import give_checkpoint


def config_of(line, **options):
    return resolve(parse_flags(shlex.split(line)), **options)


@pytest.fixture
def no_backend(monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")


def failure(capsys, line, code=2):
    assert main(shlex.split(line)) == code
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return captured.err


# ------------------------------------------------------------------------------------------------------- configuration


def test_precedence_is_experiment_files_in_order_flags_overrides(tmp_path):
    (tmp_path / "a.yaml").write_text("trainer: {max_to_keep: 2, checkpoint_interval: 2, summary_interval: 2}\n")
    (tmp_path / "b.yaml").write_text("trainer: {checkpoint_interval: 3, summary_interval: 3, steps_per_loop: 3}\n")
    config = config_of(
        f"--experiment=bert/pretraining --params_override=trainer.steps_per_loop=5 --steps_per_loop=4 "
        f"--save_checkpoints_steps=4 --config_file={tmp_path}/a.yaml --config_file={tmp_path}/b.yaml"
    )
    trainer = config.trainer
    assert (trainer.max_to_keep, trainer.summary_interval, trainer.checkpoint_interval, trainer.steps_per_loop) == (
        *(2, 3),
        *(4, 5),
    )
    assert trainer.validation_interval == 1000


def test_epochs_flag_clears_steps_of_a_file(tmp_path):
    (tmp_path / "a.yaml").write_text("trainer: {train_steps: 500}\n")
    line = f"--experiment=bert/pretraining --config_file={tmp_path}/a.yaml"
    assert config_of(line).trainer.train_steps == 500
    assert config_of(f"{line} --num_train_epochs=3").trainer.train_steps is None
    assert config_of(f"{line} --num_train_epochs=3 --num_train_steps=7").trainer.train_steps == 7


def test_flags_reach_their_fields():
    config = config_of(
        "--experiment=bert/pretraining --optimizer=lamb --weight_decay=.02 --learning_rate=1e-4 --warmup_proportion=.2 "
        "--strategy_type=one --seed=7 --max_seq_length=128 --mixed_precision_dtype=bf16 --enable_xla"
    )
    optimization = config.trainer.optimizer_config
    assert (optimization.optimizer.type, optimization.optimizer.options.weight_decay_rate) == ("lamb", 0.02)
    assert optimization.learning_rate.options.initial_learning_rate == 1e-4
    assert optimization.warmup.options.warmup_proportion == 0.2
    assert (config.runtime.distribution_strategy, config.runtime.mixed_precision_dtype) == ("one_device", "bfloat16")
    assert (config.runtime.seed, config.task.train_data.seed, config.runtime.enable_xla) == (7, 7, True)
    assert (config.task.train_data.seq_length, config.task.validation_data.seq_length) == (128, 128)


def test_learning_rate_flag_fits_a_constant_rate_too():
    config = config_of(
        "--experiment=bert/pretraining --learning_rate=3e-4 "
        "--params_override=trainer.optimizer_config.learning_rate.type=constant"
    )
    assert config.trainer.optimizer_config.learning_rate.type == "constant"


def test_tpu_flag_names_the_tpu_and_chooses_it_unless_it_is_empty():
    assert config_of("--experiment=bert/pretraining --tpu=").runtime.distribution_strategy == "auto"
    runtime = config_of("--experiment=bert/pretraining --tpu=my-tpu").runtime
    assert (runtime.tpu, runtime.distribution_strategy) == ("my-tpu", "tpu")


@pytest.mark.parametrize("name", ["bert/pretraining", "albert/pretraining", "bert/local"])
def test_experiments_need_no_file(name):
    config = config_of(f"--experiment={name}")
    assert config.trainer.train_steps is None
    assert config.task.model.encoder.type == name.split("/")[0]


def test_an_experiment_of_ones_own():
    config = config_of("--experiment=pretrain.experiments.pretraining:bert_local")
    assert config == config_of("--experiment=bert/local")


def test_do_eval_of_a_pretraining_without_other_records_evaluates_the_training_data():
    """As run_pretraining.py of google-research does."""
    line = "--experiment=bert/pretraining --do_train --input_file=a"
    assert config_of(f"{line} --do_eval").task.validation_data.input_path == "a"
    assert config_of(f"{line} --do_eval --eval_files=b").task.validation_data.input_path == "b"
    for other in (line, f"{line} --mode=train_and_eval", f"{line.replace('pretraining', 'squad')} --do_eval"):
        assert not config_of(other).task.validation_data.is_given


# ------------------------------------------------------------------------------------------------------ lines of others

GARDEN = """--experiment=bert/sentence_prediction --mode=train_and_eval --model_dir=gs://some_bucket/my_output_dir
 --config_file=configs/experiments/glue_mnli_matched.yaml --tfhub_cache_dir=out/hub_cache --tpu=my-tpu
 --params_override=task.train_data.input_path=gs://some_bucket/datasets/mnli_train.tf_record,\
task.validation_data.input_path=gs://some_bucket/datasets/mnli_eval.tf_record,\
task.hub_module_url=https://tfhub.dev/tensorflow/bert_en_uncased_L-12_H-768_A-12/3,runtime.distribution_strategy=tpu"""


def test_an_experiment_without_a_description_is_listed(monkeypatch):
    monkeypatch.setattr(bert_local, "__doc__", None)
    assert "bert/local" in experiment_lines()


def test_an_encoder_is_chosen_by_its_name_alone(tmp_path):
    (tmp_path / "a.yaml").write_text("task: {model: {encoder: albert}}\n")
    for line in (f"--config_file={tmp_path}/a.yaml", "--params_override=task.model.encoder=albert"):
        assert config_of(f"--experiment=bert/local {line}").task.model.encoder.type == "albert"


def test_garden_readme_line():
    config = config_of(GARDEN, read_checkpoints=False)  # its module is not here
    assert config.task.train_data.input_path == "gs://some_bucket/datasets/mnli_train.tf_record"
    assert config.task.init_checkpoint == "https://tfhub.dev/tensorflow/bert_en_uncased_L-12_H-768_A-12/3"
    assert (config.runtime.distribution_strategy, config.runtime.tpu) == ("tpu", "my-tpu")
    assert (config.task_type, config.task.model.num_classes) == ("sentence_prediction", 3)
    assert run_mode(parse_flags(shlex.split(GARDEN))) == "train_and_eval"


@pytest.mark.parametrize(
    "flags",
    [
        "--config_file=/nlp/bert/experiments/wiki_books_pretrain.yaml",
        "--config_file=configs/experiments/glue_mnli_matched.yaml --config_file=configs/models/bert_en_uncased_base.yaml",
    ],
)
def test_garden_config_file_lines(flags):
    assert parse_flags(shlex.split(flags))["config_file"] == [word.split("=")[1] for word in flags.split()]


def test_garden_params_override_line():
    values = parse_flags(["--params_override=task.train_data.input_path=/some/path,task.hub_module_url=/some/tfhub"])
    config = resolve({"experiment": "bert/pretraining", **values}, read_checkpoints=False)
    assert (config.task.train_data.input_path, config.task.init_checkpoint) == ("/some/path", "/some/tfhub")


def test_garden_gin_line():
    values = parse_flags(["--gin_file=/nlp/gin/talking_gated_encoder.gin"])
    encoder = resolve({"experiment": "bert/pretraining", **values}, read_checkpoints=False).task.model.encoder.options
    assert (encoder.attention, encoder.feed_forward) == ("talking_heads", "gated")


def test_garden_local_line():
    line = "-- --experiment=bert/local --model_dir=/tmp/tfnlp_sandbox/ --mode=train --alsologtostderr"
    values = parse_flags(shlex.split(line))
    assert (values["model_dir"], run_mode(values)) == ("/tmp/tfnlp_sandbox/", "train")
    assert resolve(values).task.train_data.input_path == "toy:nsp"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "--mode=train --params path/to/yaml --model_dir path/to/model_dir --validate_only",
            "there is no configuration file path/to/yaml",
        ),
        (
            "--mode train --cs_ip x.x.x.x --params /path/to/yaml --model_dir /path/to/model_dir "
            "--checkpoint_path /path/to/pretrained_checkpoint.mdl",
            "there is no configuration file /path/to/yaml",
        ),
        (
            "--experiment=bert/pretraining --mode train --cs_ip x.x.x.x --model_dir x --checkpoint_path /path/to/no.mdl",
            "/path/to/no.mdl: no such file, folder or checkpoint prefix",
        ),
    ],
)
def test_cerebras_lines(capsys, no_backend, line, message):
    assert message in failure(capsys, line)


def albert_json(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"vocab_size": 1000, "embedding_size": 16, "hidden_size": 32, "num_hidden_layers": 2,
                                "num_attention_heads": 4, "intermediate_size": 64, "num_hidden_groups": 1,
                                "inner_group_num": 1, "hidden_act": "gelu", "max_position_embeddings": 512,
                                "type_vocab_size": 2, "initializer_range": 0.02}))  # fmt: skip
    return path


def test_albert_line(tmp_path):
    line = (
        f"--albert_config_file={albert_json(tmp_path)} --do_train --init_checkpoint=base/tf2_model_full.h5 "
        "--input_files=processed_data/train.tf_record --meta_data_file_path=processed_data/train_meta_data "
        "--output_dir=pretrained_model --strategy_type=mirror --train_batch_size=128 --num_train_epochs=3"
    )
    values = parse_flags(shlex.split(line))
    config = resolve(values)
    assert config.task.model.encoder.type == "albert"
    assert config.task.model.encoder.options.embedding_size == 16
    assert (config.trainer.num_train_epochs, config.trainer.train_steps) == (3, None)
    assert config.trainer.optimizer_config.optimizer.type == "lamb"
    data = config.task.train_data
    assert (data.global_batch_size, data.input_path) == (128, "processed_data/train.tf_record")
    assert data.meta_path == config.task.validation_data.meta_path == "processed_data/train_meta_data"
    assert config.task.init_checkpoint == "base/tf2_model_full.h5"
    assert config.runtime.distribution_strategy == "mirrored"
    assert (values["model_dir"], run_mode(values)) == ("pretrained_model", "train")


@pytest.mark.parametrize(
    ("task_type", "flags", "experiment"),
    [
        ("albert_pretraining", "", "albert/pretraining"),
        ("albert_classification", "", "albert/sentence_prediction"),
        ("bert_regression", "", "albert/sentence_prediction"),
        ("albert_squad", "", "albert/squad"),
        (None, "--task_name=CoLA", "albert/sentence_prediction"),
        (None, "--predict_file=dev.json", "albert/squad"),
        (None, "", "albert/pretraining"),
    ],
)
def test_the_records_decide_which_experiment_an_architecture_file_implies(tmp_path, task_type, flags, experiment):
    meta = tmp_path / "train_meta_data"
    if task_type:
        meta.write_text(json.dumps({"task_type": task_type}))
    with messages() as notes:
        config_of(f"--albert_config_file={albert_json(tmp_path)} --input_meta_data_path={meta} {flags}")
    assert f"experiment: {experiment}, which --experiment would name" in notes


def test_the_lines_of_the_fine_tuning_scripts(tmp_path):
    """run_classifer.py and run_squad.py of ALBERT-TF2.0, as its README has them."""
    line = (
        "--train_data_path=cola_processed/CoLA_train.tf_record --eval_data_path=cola_processed/CoLA_eval.tf_record "
        f"--input_meta_data_path=cola_processed/CoLA_meta_data --albert_config_file={albert_json(tmp_path)} "
        "--task_name=CoLA --spm_model_file=large/vocab/30k-clean.model --output_dir=CoLA_OUT "
        "--init_checkpoint=large/tf2_model.h5 --do_train --do_eval --train_batch_size=16 --learning_rate=1e-5 "
        "--custom_training_loop --optimizer=AdamW --weight_decay=0.02 --classifier_dropout=0.2"
    )
    values = parse_flags(shlex.split(line))
    config = resolve(values, read_checkpoints=False)
    assert (config.task_type, run_mode(values)) == ("sentence_prediction", "train_and_eval")
    assert config.task.validation_data.input_path == "cola_processed/CoLA_eval.tf_record"
    assert config.task.train_data.meta_path == "cola_processed/CoLA_meta_data"
    assert config.task.model.classifier_dropout_prob == 0.2
    optimization = config.trainer.optimizer_config
    assert (optimization.optimizer.type, optimization.optimizer.options.weight_decay_rate) == ("adamw", 0.02)
    assert (optimization.learning_rate.options.initial_learning_rate, config.trainer.num_train_epochs) == (1e-5, 3)
    line = (
        "--mode=train_and_predict --input_meta_data_path=out/meta --train_data_path=out/train.tf_record "
        f"--predict_file=dev-v2.0.json --albert_config_file={albert_json(tmp_path)} --init_checkpoint=x.h5 "
        "--spm_model_file=a.model --train_batch_size=24 --predict_batch_size=12 --learning_rate=1.5e-5 "
        "--num_train_epochs=3 --model_dir=out --strategy_type=mirror --version_2_with_negative --max_seq_length=384"
    )
    values = parse_flags(shlex.split(line))
    config = resolve(values, read_checkpoints=False)
    assert (config.task_type, run_mode(values)) == ("question_answering", "train")
    assert run_mode({**values, "eval_files": "x"}) == "train_and_eval"
    assert (config.task.version_2_with_negative, config.task.train_data.seq_length) == (True, 384)
    assert config.task.validation_data.global_batch_size == 12


def test_the_tokenizer_is_that_of_data_that_is_text():
    line = "--experiment=bert/squad --input_files=train.tfrecord --eval_files=dev-v1.1.json --vocab_file=vocab.txt"
    task = config_of(line).task
    assert (task.train_data.vocab_file, task.validation_data.vocab_file) == ("", "vocab.txt")
    own = f"{line} --params_override=task.validation_data.vocab_file=own.txt"
    assert config_of(own).task.validation_data.vocab_file == "own.txt"
    line = "--experiment=bert/sentence_prediction --params_override=task.train_data.tfds_name=glue/sst2 --tokenizer=a.model"
    task = config_of(line).task
    assert (task.train_data.vocab_file, task.validation_data.vocab_file) == ("a.model", "")
    assert config_of("--experiment=bert/pretraining --input_files=a.tfrecord --tokenizer=a.model").task.train_data


def test_an_architecture_file_of_the_other_kind(tmp_path):
    with pytest.raises(UsageError, match="describes an encoder of type 'albert', not 'bert'"):
        config_of(f"--bert_config_file={albert_json(tmp_path)}")


def test_model_config_by_name():
    encoder = config_of("--experiment=albert/pretraining --model_config=albert_large_v2").task.model.encoder
    assert (encoder.type, encoder.options.hidden_size) == ("albert", 1024)
    with pytest.raises(UsageError, match="albert_base_v2"):
        config_of("--experiment=albert/pretraining --model_config=albert_bas_v2")


def test_the_encoder_is_that_of_the_checkpoint_unless_named(tmp_path, monkeypatch):
    give_checkpoint(tmp_path)
    line = f"--experiment=albert/sentence_prediction --init_checkpoint={tmp_path}/base"
    with messages() as notes:
        encoder = config_of(line).task.model.encoder
    assert (encoder.type, encoder.options.hidden_size) == ("bert", 32)
    assert f"of type bert, with the sizes of {tmp_path}/base" in notes[-1]
    assert config_of(f"{line} --model_config=bert_tiny").task.model.encoder.options.hidden_size == 128
    native.write(tmp_path / "run" / "checkpoints" / "step-00000001", {}, {"step": 1, "encoder": {
        "type": "bert", "options": asdict(read_model_config("bert_mini").options)}})  # fmt: skip
    own = "--experiment=bert/sentence_prediction --init_checkpoint=gone"
    assert config_of(f"{own} --model_dir={tmp_path}/run").task.model.encoder == read_model_config("bert_mini")
    monkeypatch.setenv("AIP_MODEL_DIR", f"{tmp_path}/run")
    assert config_of(own).task.model.encoder == read_model_config("bert_mini")
    monkeypatch.delenv("AIP_MODEL_DIR")
    (tmp_path / "run").rename(tmp_path / "seed-0")
    assert config_of(f"{own} --model_dir={tmp_path} --seeds=2").task.model.encoder == read_model_config("bert_mini")
    line = line.replace("albert", "bert")
    changed = config_of(f"{line} --params_override=task.model.encoder.bert.hidden_dropout_prob=0.3").task.model.encoder
    assert (changed.options.hidden_size, changed.options.hidden_dropout_prob) == (32, 0.3)
    with pytest.raises(UsageError, match="gone: no such file, folder or checkpoint prefix"):
        config_of("--experiment=bert/sentence_prediction --init_checkpoint=gone --model_dir=none_yet")


# ------------------------------------------------------------------------------------------------------- mode, backend


@pytest.mark.parametrize(
    ("line", "mode"),
    [
        ("", "train"),
        ("--mode=eval", "eval"),
        ("--mode eval_all", "eval_all"),
        ("--do_train", "train"),
        ("--do_train=True --do_eval=True", "train_and_eval"),
        ("--do_eval", "eval"),
        ("--do_predict", "predict"),
        ("--do_train --do_predict", "train"),
        ("--mode=predict", "predict"),
        ("--mode=train_and_predict", "train"),
        ("--mode=train --validate_only", "validate_only"),
        ("--mode=train --compile_only", "compile_only"),
        ("--mode=continuous_eval", "continuous_eval"),
        ("--mode=continuous_train_and_eval", "continuous_train_and_eval"),
    ],
)
def test_modes(line, mode):
    assert run_mode(parse_flags(shlex.split(line))) == mode


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--mode=trian", "Received: 'trian'. Did you mean train"),
        ("--nodo_train", "nothing to do"),
        ("--validate_only --compile_only", "exclude each other"),
    ],
)
def test_wrong_modes(line, message):
    with pytest.raises(UsageError) as caught:
        run_mode(parse_flags(shlex.split(line)))
    assert message in str(caught.value)


# --------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "--experiment is missing. --experiment=help lists them"),
        ("--experiment=bert/pretrainin", "unknown experiment 'bert/pretrainin'. Did you mean bert/pretraining"),
        ("--experiment=bert/local", "--model_dir is missing"),
        (
            "--experiment=bert/local --train_batch_size=many",
            "--train_batch_size: task.train_data.global_batch_size: expected",
        ),
        ("--experiment=bert/local --params_override=trainer.train_stps=1", "--params_override: trainer.train_stps:"),
        (
            "--experiment=bert/local --model_dir=x --params_override=trainer.stages=[{train_steps:few}]",
            "--params_override: trainer.stages[0].train_steps: expected a whole number",
        ),
        (
            "--experiment=bert/local --model_dir=x --params_override=trainer.stages=[{},{train_data:{seq_len:8}}]",
            "trainer.stages[1].train_data.seq_len: PretrainingDataConfig has no such field. Did you mean seq_length?",
        ),
        (
            "--experiment=bert/local --model_dir=x --params_override=trainer.type=defualt",
            "trainer.type: unknown trainer 'defualt'. Did you mean default?",
        ),
        ("--experiment=bert/local --gin_params=a.b=1", "--gin_params 'a.b=1': there is no class a here."),
        ("--experiment=bert/local --num_train_steps=0", "trainer.train_steps: must be at least 1. Received: 0."),
        ("--experiment=bert/local --backend=jaxx", "--backend=jaxx"),
        ("--experiment=json:loads", "experiment 'json:loads' fails: TypeError: loads() missing"),
        ("--experiment=os:getcwd", "experiment 'os:getcwd' returns str. It must be a function of no arguments"),
    ],
)
def test_wrong_options_exit_2(capsys, no_backend, line, message):
    assert message in failure(capsys, line)


def test_a_model_dir_that_is_not_a_folder(tmp_path, capsys, no_backend):
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    for name in ("file", "loop"):
        assert main(["--experiment=bert/local", f"--model_dir={tmp_path / name}"]) == 2
        assert f"{tmp_path / name} is not a folder. Name a new folder, or that of a run." in capsys.readouterr().err


def test_a_listing_has_the_users_experiments_with_and_without_docstrings(tmp_path, monkeypatch, capsys, no_backend):
    (tmp_path / "own_experiments.py").write_text(
        "from functools import partial\n\nimport pretrain\nfrom pretrain.registry import EXPERIMENTS\n\n\n"
        '@EXPERIMENTS.register("own/bare")\ndef bare():\n    return pretrain.experiment("bert/local")\n\n\n'
        '@EXPERIMENTS.register("own/told")\ndef told():\n    """One line.\n\n    More."""\n    return bare()\n\n\n'
        'made = partial(bare)\nEXPERIMENTS.register("own/made", "own_experiments:made")\n'
        'EXPERIMENTS.register("own/gone", "own_experiments:gone")\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(EXPERIMENTS, "_entries", dict(EXPERIMENTS._entries))
    assert main(["--experiment=help", "--import_module=own_experiments"]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines() if line.startswith("own/")]
    assert lines == [
        "own/bare",
        "own/gone (AttributeError: module 'own_experiments' has no attribute 'gone')",
        "own/made",
        "own/told One line.",
    ]
    assert main(["--experiment=own/bare", "--import_module=own_experiments", "--print_config"]) == 0
    assert capsys.readouterr().out.startswith("task_type: pretraining")


def run_process(line, code=None):
    """The exit code, stdout and stderr of a process that fails where one of the heavy modules was imported."""
    program = code or (
        "import sys\nfrom pretrain.run import main\ncode = main(sys.argv[1:])\n"
        "heavy = {'tensorflow', 'keras', 'jax', 'torch', 'apache_beam'} & set(sys.modules)\n"
        "assert not heavy, heavy\nsys.exit(code)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", program, *shlex.split(line)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.mark.parametrize(
    ("line", "code", "shown"),
    [
        ("--help", 0, "--model_config"),
        ("--experiment=help", 0, "Tiny BERT on records that it makes"),
        ("--experiment=albert/pretraining --model_config=albert_base_v2 --print_config", 0, "hidden_size: 768"),
        ("--experiment=bert/local --params_override=task.model.encoder.hiden_size=3", 2, "Did you mean hidden_size"),
        ("--experiment=bert/local --wat", 2, "no flag --wat"),
    ],
)
def test_help_and_errors_load_no_framework(line, code, shown):
    done = run_process(line)
    assert done.returncode == code, done.stderr
    assert shown in done.stdout + done.stderr


def test_printed_configuration_is_a_config_file(tmp_path, capsys, no_backend):
    line = "--experiment=bert/pretraining --train_batch_size=8 --optimizer=lamb"
    assert main([*line.split(), "--print_config"]) == 0
    (tmp_path / "all.yaml").write_text(capsys.readouterr().out)
    assert config_of(f"--experiment=albert/pretraining --config_file={tmp_path}/all.yaml") == config_of(line)
