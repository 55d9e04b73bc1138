"""Configurations of pretraining: YAML files, --params_override, flags, architecture files, Cerebras's params."""

import json

import yaml

from tests.fuzz import mutations
from tests.fuzz.cases import ROOT, Case, target

EXPERIMENTS = ("albert/pretraining", "bert/pretraining", "bert/sentence_prediction", "albert/squad")


def _resolved(case: Case, *words: str) -> None:
    """What the run does before it loads Keras: the configuration is resolved and checked."""
    from nlpdata.errors import spelling
    from pretrain.run import resolve, run_mode
    from pretrain.settings.flags import as_flag, parse_flags
    from pretrain.training.checks.settings import check_experiment

    case.log.append(" ".join(words)[:2000])
    with spelling(as_flag):
        values = parse_flags(list(words))
        check_experiment(resolve(values), run_mode(values))


def _paths(tree: dict, start: str = "") -> list[str]:
    """The dotted paths of all fields of a configuration."""
    found = []
    for name, value in tree.items():
        found += [f"{start}{name}"] + (_paths(value, f"{start}{name}.") if isinstance(value, dict) else [])
    return found


def _tree(experiment: str) -> dict:
    from pretrain.run import resolve
    from pretrain.settings.tree import to_tree

    return to_tree(resolve({"experiment": experiment}))


@target("settings/params_override", heavy=True)
def _override(case: Case) -> None:
    experiment = case.draw.choice(EXPERIMENTS)
    parts = []
    for _ in range(case.draw.choice((1, 1, 2, 3))):
        value = mutations.number(case.draw) if case.draw.random() < 0.6 else mutations.text(case.draw)
        parts.append(f"{case.draw.choice(_paths(_tree(experiment)))}={value}")
    text = ",".join(parts)
    if case.draw.random() < 0.2:
        text = case.damaged(text).decode("utf-8", "surrogateescape")
    _resolved(case, f"--experiment={experiment}", "--input_files=x.tfrecord", f"--params_override={text}")


@target("settings/yaml", heavy=True)
def _yaml(case: Case) -> None:
    experiment = case.draw.choice(EXPERIMENTS)
    tree = json.loads(json.dumps(_tree(experiment)))
    if case.draw.random() < 0.5:
        content = case.damaged(yaml.safe_dump(tree))
    else:
        content = yaml.safe_dump(mutations.odd_json(case.draw, tree)).encode("utf-8", "surrogatepass")
    path = case.write("a.yaml", content)
    _resolved(case, f"--experiment={experiment}", f"--config_file={path}")


@target("settings/flags", heavy=True)
def _flags(case: Case) -> None:
    from pretrain.settings.flags import FLAGS

    words = [f"--experiment={case.draw.choice(EXPERIMENTS)}", "--input_files=x.tfrecord"]
    for _ in range(case.draw.choice((1, 1, 2, 3))):
        flag = case.draw.choice(FLAGS)
        value = mutations.number(case.draw) if case.draw.random() < 0.6 else mutations.text(case.draw)
        words.append(f"--{case.draw.choice((flag.name, *flag.aliases))}={value}")
    _resolved(case, *words)


GIN = """
include 'talking_gated_encoder.gin'
RATE = 0.25
OptimizationConfig.optimizer = @Lamb
Lamb.exclude_from_weight_decay = ['a', 'b']
TransformerScaffold:
  attention_cls = @TalkingHeadsAttention
  dropout_rate = %RATE
Polynomial.power = 2.0
"""


@target("settings/gin", heavy=True)
def _gin(case: Case) -> None:
    path = case.write("a.gin", case.damaged(GIN.encode()))
    value = mutations.number(case.draw) if case.draw.random() < 0.6 else mutations.text(case.draw)
    name = case.draw.choice(("AdamW.epsilon", "BertEncoder.hidden_act", "TransformerScaffold.attention_cls", "RATE"))
    _resolved(case, "--experiment=bert/pretraining", f"--gin_file={path}", f"--gin_params={name} = {value}")


@target("settings/model-config", heavy=True)
def _model_config(case: Case) -> None:
    name = case.draw.choice(("albert_base_v2", "bert_tiny", "mobilebert_uncased"))
    path = case.write("config.json", case.odd_json(json.loads((ROOT / f"model_configs/{name}.json").read_text())))
    kind = "albert" if name.startswith("albert") else "bert"
    _resolved(case, f"--experiment={kind}/pretraining", "--input_files=x.tfrecord", f"--model_config={path}")


PARAMS = """
train_input:
  data_processor: BertTFRecordsProcessor
  data_dir: ./data
  batch_size: 256
  max_sequence_length: 128
  max_predictions_per_seq: 20
  vocab_size: 30522
  shuffle: True
  mixed_precision: True
model:
  hidden_size: 768
  num_hidden_layers: 12
  num_heads: 12
  filter_size: 3072
  dropout_rate: 0.1
  attention_dropout_rate: 0.1
  max_position_embeddings: 512
  encoder_nonlinearity: gelu
  layer_norm_epsilon: 1.e-12
optimizer:
  optimizer_type: adamw
  weight_decay_rate: 0.01
  learning_rate:
    - scheduler: Linear
      initial_learning_rate: 0.0
      end_learning_rate: 0.0001
      steps: 9000
    - scheduler: Linear
      initial_learning_rate: 0.0001
      end_learning_rate: 0.0
runconfig:
  max_steps: 900000
  save_checkpoints_steps: 9000
  tf_random_seed: 1202
"""


@target("settings/cerebras-params", heavy=True)
def _params(case: Case) -> None:
    if case.draw.random() < 0.5:
        content = case.damaged(PARAMS)
    else:
        content = yaml.safe_dump(mutations.odd_json(case.draw, yaml.safe_load(PARAMS))).encode("utf-8", "surrogatepass")
    _resolved(case, f"--params={case.write('params.yaml', content)}")
