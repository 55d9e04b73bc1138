"""The document of Cerebras's TensorFlow BERT classifier (modelzoo, transformers/tf/bert/fine_tuning/classifier: run.py)."""

import json
import re
from pathlib import Path

from tests.migration.chain import Step, System
from tests.pages import WORDS, give_checkpoint
from tests.tfds_sets import prepare

_WORDS = ("a", "good", "bad", "fox", "dog", "the", "x", *map(str, range(12)))  # of tests.tfds_sets
_HERE = {"/path/to/": "path/to/"}
_THERE = {"<path/to/yaml>": "path/to/yaml", "</path/to/model_dir>": "path/to/model_dir"}


def give(folder: Path) -> None:
    """Prepared sets of TensorFlow Datasets, the YAML with a small model and few steps, and a checkpoint in TensorFlow's files."""
    from pretrain.converters.convert import convert_place

    (folder / "prepared").mkdir()
    prepare(folder / "prepared", ["sst2", "mnli"])[1].rename(folder / "tfds")
    words = [*WORDS[:5], *_WORDS, *WORDS[5 + len(_WORDS) :]]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n")
    (folder / "texts.txt").write_text("a good fox 3\na bad dog 5\n")
    give_checkpoint(folder)
    place = folder / "path" / "to"
    place.mkdir(parents=True)
    convert_place(str(folder / "base"), str(place / "tf1"), "tf1")
    for file in (place / "tf1").glob("bert_model.ckpt.*"):
        file.rename(place / file.name.replace("bert_model.ckpt", "pretrained_checkpoint.mdl"))
    shipped = Path(__file__).resolve().parents[2] / "pretrain" / "configs" / "cerebras"
    small = (shipped / "params_bert_base_msl512.yaml").read_text()
    for there, here in {
        "hidden_size: 768": "hidden_size: 32",
        "num_hidden_layers: 12": "num_hidden_layers: 1",
        "num_heads: 12": "num_heads: 2",
        "filter_size: 3072": "filter_size: 64",
        "max_position_embeddings: 512": "max_position_embeddings: 128",
    }.items():
        assert there in small
        small = small.replace(there, here)
    (place / "params_bert_base_msl512.yaml").write_text(small)
    for name, task in (("yaml", "sst2"), ("params_bert_base_mnli.yaml", "mnli")):
        text = (shipped / f"params_bert_base_{task}.yaml").read_text()
        for there, here in (
            (r"mixed_precision: true", "mixed_precision: false"),
            (r"steps: \d+, initial", "steps: 10, initial"),
            (r"rate: 5.0e-5", "rate: 2.0e-3"),
            (r"max_sequence_length: \d+", "max_sequence_length: 32"),
            (r"max_steps: \d+", "max_steps: 100"),
            (r"save_checkpoints_steps: \d+", "save_checkpoints_steps: 50"),
            (r"save_summary_steps: 100", "save_summary_steps: 50"),
        ):
            text, count = re.subn(there, here, text)
            assert count, there
        (place / name).write_text(text)


def _learned(folder: Path, output: str) -> None:
    results = json.loads((folder / "path" / "to" / "model_dir" / "eval_results.json").read_text())
    assert results["step"] == 100
    assert results["accuracy"] > 0.9, results
    assert results["examples"] == 12


def _matched(folder: Path, output: str) -> None:
    results = json.loads((folder / "mnli_dir" / "eval_results.json").read_text())
    assert results["examples"] == 24
    assert {"accuracy", "accuracy_matched", "accuracy_mismatched"} <= results.keys()
    assert results["accuracy"] == (results["accuracy_matched"] + results["accuracy_mismatched"]) / 2


SYSTEM = System(
    name="cerebras",
    title="Cerebras's TensorFlow BERT (modelzoo)",
    about="""
`run.py` is `pretrain run`, with the same flags; `csrun_cpu` and `csrun_wse` go. `--params` reads the YAML files of
that system: the four of its classifier are here under their names (`--params=params_bert_base_sst2.yaml`), and the model,
data, optimizer and lengths of your own are translated. What has no meaning here is named when the run starts; what would give
another model or training is refused.

`data_processor: Sst2DataProcessor` and `MnliDataProcessor` read the sets `glue/sst2` and `glue/mnli` that TensorFlow Datasets has
prepared in `data_dir`. Nothing is downloaded: where a set is not there, the message says how to prepare it. Their relative paths
start from the folder in which the command runs, or from that of the YAML file. Where `vocab_file` is missing, the checkpoint's
vocabulary is used. MNLI is evaluated on both of its sets together and on each: `accuracy`, `accuracy_matched`,
`accuracy_mismatched`. Its YAML files say `num_cls_classes: 2`; the labels are three, and three are learned.
""",
    programs={
        "csrun_cpu python run.py": "pretrain run",
        "csrun_wse python run.py": "pretrain run",
        "python run.py": "pretrain run",
    },
    steps=(
        Step(
            heading="Validate only",
            text="Builds the model, reads the data, traces a step, and checks shapes and labels. Nothing is written.",
            old="""
csrun_cpu python run.py \\
  --mode=train \\
  --params <path/to/yaml> \\
  --model_dir </path/to/model_dir> \\
  --validate_only
""",
            stand_ins=_THERE,
            prints=(r"glue/sst2 \(train\)", r"validated; no step was taken"),
        ),
        Step(
            heading="Compile only",
            text="The same, and compiles the step.",
            old="""
csrun_cpu python run.py \\
  --mode=train \\
  --params <path/to/yaml> \\
  --model_dir </path/to/model_dir> \\
  --compile_only
""",
            stand_ins=_THERE,
            prints=(r"validated and compiled; no step was taken",),
        ),
        Step(
            heading="Fine-tuning on a Cerebras system",
            text="""
`--cs_ip` has no effect: this runs on CPU, GPU or TPU. A checkpoint may have any name: what it is, is found out from its files.
Checkpoints of TensorFlow (this name is then the prefix of `pretrained_checkpoint.mdl.index` and its data), of Keras, TensorFlow
Hub, Hugging Face and our own are read, with the names of google-research or those libraries.
""",
            old="""
csrun_wse python run.py \\
--mode train \\
--cs_ip x.x.x.x \\
--params /path/to/yaml \\
--model_dir /path/to/model_dir \\
--checkpoint_path /path/to/pretrained_checkpoint.mdl
""",
            stand_ins=_HERE,
            prints=(
                r"--cs_ip has no effect here",
                r"step 0, from the weights of path/to/pretrained_checkpoint\.mdl",
                r"step 100/100",
            ),
            writes=("path/to/model_dir/checkpoints/step-00000050", "path/to/model_dir/checkpoints/step-00000100"),
        ),
        Step(
            heading="Fine-tuning on a GPU",
            text="""
After the command before, it resumes that run, which is done. `--max_steps` makes a run longer; `--steps` ends a call after some
steps.
""",
            old="""
python run.py \\
--mode train \\
--params /path/to/yaml \\
--model_dir /path/to/model_dir \\
--checkpoint_path /path/to/pretrained_checkpoint.mdl
""",
            stand_ins=_HERE,
            prints=(r"nothing to do: path/to/model_dir holds a checkpoint of step 100",),
        ),
        Step(
            heading="Evaluation",
            text="""
Of the newest checkpoint, or of the one that `--checkpoint_path` names. `--eval_steps` counts batches; 0 is all of the data. The
scores are in `eval_results.json`; theirs leaves a last batch out that is not full, ours counts every example.
""",
            old="""
python run.py \\
--mode eval \\
--eval_steps 0 \\
--params /path/to/yaml \\
--model_dir /path/to/model_dir
""",
            stand_ins=_HERE,
            prints=(r"^evaluation at step 100: .*accuracy",),
            check=_learned,
        ),
        Step(
            heading="Evaluation of every checkpoint",
            old="""
python run.py \\
--mode eval_all \\
--params /path/to/yaml \\
--model_dir /path/to/model_dir
""",
            stand_ins=_HERE,
            prints=(r"^evaluation at step 50: ", r"^evaluation at step 100: "),
        ),
        Step(
            heading="MNLI, trained and evaluated",
            text="`--steps` ends this call after some steps; the next one resumes.",
            old="""
python run.py \\
--mode train_and_eval \\
--params configs/params_bert_base_mnli.yaml \\
--model_dir mnli_dir \\
--steps 1000 \\
--checkpoint_path /path/to/pretrained_checkpoint.mdl
""",
            stand_ins={"configs/": "path/to/", "/path/to/pre": "path/to/pre", "--steps 1000": "--steps 2"},
            prints=(
                r"glue/mnli \(validation_matched \+ validation_mismatched\)",
                r"this call ends after step 2 of 100",
            ),
            check=_matched,
        ),
        Step(
            heading="Predictions",
            text="`--mode predict` of that system predicts its `eval_input`; here it is texts, one a line.",
            new="""
pretrain predict --model_dir path/to/model_dir --input texts.txt --output predictions.tsv
""",
            writes=("predictions.tsv",),
        ),
    ),
    give=give,
    after="""
## Your own input function

Theirs returns features and labels, with an `input_mask` that is 1 on padding. Name it in the YAML,
`data_processor: my_data:train_input`; it is called with the data section and returns a dict of arrays, a generator or a
`tf.data.Dataset`, that ends ([extending](../extending.md#examples-of-your-own)). `invert_mask: False` says that its mask is 1 on
real tokens.

## What is translated

| there | here |
|---|---|
| `optimizer_type` adamw, adam, sgd, momentum | `adamw` (adam: without decay, with bias correction), `sgd` with `momentum` |
| `grad_accum_steps: N` | `trainer.gradient_accumulation_steps`; a step is N batches of `batch_size`, there and here |
| `learning_rate`: a number, Constant, Linear, or a Linear warm-up and one of them | `learning_rate` and `warmup` |
| `mixed_precision: True` | `runtime.mixed_precision_dtype` float16, with `loss_scaling_factor` |
| `pretrain_params_path` | the model of that file |
| `eval_steps` | `trainer.validation_steps` |
| `save_checkpoints_steps` | `trainer.checkpoint_interval`, `trainer.validation_interval` |
""",
)
