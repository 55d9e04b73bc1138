"""Hugging Face folders, read and written: config.json with model.safetensors (one file or sharded), or a legacy pytorch_model.bin.

Model, ForPreTraining, ForMaskedLM, ForNextSentencePrediction, ForSequenceClassification and ForQuestionAnswering of Bert,
Albert and MobileBert; the names of a bare model lack the prefix "bert.", "albert." or "mobilebert.". Of other classes, as
`architectures` in config.json names them, the encoder is read.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.files.json_files import read_object
from pretrain.converters import safetensors, torch_pickle
from pretrain.converters.checkpoint import (
    UNKNOWN,
    Checkpoint,
    find_model_config,
    give,
    refuse_unwritten,
    table_of,
    take,
)
from pretrain.converters.facts import write_facts
from pretrain.converters.heads import head_of
from pretrain.converters.hugging_face_heads import HeadConfig, architecture_of, head_fields
from pretrain.converters.names import HUGGING_FACE, TIED_HUGGING_FACE
from pretrain.converters.places import HUGGING_FACE_WEIGHTS
from pretrain.settings.schema import Choice

_WHOLE, _INDEX, _PICKLED = HUGGING_FACE_WEIGHTS
_SHARDS = "model-*-of-*.safetensors"


def read(path: Path, model_config: Choice | None) -> Checkpoint | None:
    """Reads a Hugging Face folder, or its file of weights; None where the path is neither."""
    folder = path.parent if path.name in HUGGING_FACE_WEIGHTS else path
    weights_file = path if path != folder and path.is_file() else _weights_file(folder)
    if weights_file is None:
        return None
    encoder = find_model_config(model_config, [folder], str(path), first="config.json")
    _refuse_wide_queries(encoder, str(folder))
    tensors = _prefixed(_read_tensors(weights_file), encoder.type)
    table, config = table_of(HUGGING_FACE, encoder, str(path)), HeadConfig(folder / "config.json")
    heads, left_out = config.heads(encoder, tensors)
    table = [row for row in table if head_of(row.ours) in (None, *heads)]
    tied = {name: ours for name, ours in TIED_HUGGING_FACE[encoder.type].items() if head_of(ours) in (None, *heads)}
    weights, unused, untied = take(tensors, table, encoder, str(weights_file), tied)
    for name in [name for name, why in unused.items() if left_out and why == UNKNOWN]:
        unused[name] = f"of {', '.join(left_out)}, which is left out"
    if "masked_lm" in heads:
        left_out |= untied
    if not weights:
        raise DataError(
            f"{weights_file}: no weight has a name of a {encoder.type} model. It holds {', '.join(sorted(tensors)[:4])}, ..."
        )
    weights = {path: array for path, array in weights.items() if array.size}  # see `write`
    facts = config.facts(weights["classifier/logits/kernel"].shape[1]) if "classifier/logits/kernel" in weights else {}
    return Checkpoint("hf", str(path), encoder, weights, unused, facts, left_out=left_out)


def _refuse_wide_queries(encoder: Choice, source: str) -> None:
    """UsageError for a MobileBERT whose queries are made of wide vectors, as Google's code allows (its teacher model)."""
    options = encoder.options
    if encoder.type != "mobilebert" or options.key_query_shared_bottleneck or options.use_bottleneck_attention:
        return
    if options.hidden_size != options.intra_bottleneck_size:
        raise UsageError(
            f"{source}: key_query_shared_bottleneck and use_bottleneck_attention are both false: query and key are made of "
            f"vectors of hidden_size ({options.hidden_size}). transformers, which reads this format, has them only of "
            f"intra_bottleneck_size ({options.intra_bottleneck_size}). Use --format tf1 or native."
        )


def _weights_file(folder: Path) -> Path | None:
    """The file of weights in a folder: safetensors before pytorch_model.bin, which repeats them, as their library takes them.

    UsageError where there is one file and an index of several: they are not of one model.
    """
    found = [name for name in HUGGING_FACE_WEIGHTS if (folder / name).is_file()]
    if {_WHOLE, _INDEX} <= set(found):
        raise UsageError(f"{folder}: holds {_WHOLE} and {_INDEX}: which is meant? Name the path of one of them.")
    return folder / found[0] if found else None


def _read_tensors(path: Path) -> Mapping[str, np.ndarray]:
    if path.name == _PICKLED:
        return torch_pickle.read_tensors(path)
    return _Sharded(path) if path.name == _INDEX else safetensors.Safetensors(path)


class _Sharded(Mapping):
    """Tensors of several safetensors files: each is read from the file that the index names for it.

    DataError where index and files contradict each other.
    """

    def __init__(self, path: Path):
        places = read_object(path).get("weight_map")
        if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
            raise DataError(f"{path}: not an index of safetensors files: weight_map is {str(places)[:40]}")
        folder, files = path.parent, sorted(set(places.values()))
        absent = [file for file in files if Path(file).name != file or not (folder / file).is_file()]
        if absent:
            raise DataError(f"{path}: names {', '.join(absent)}, which is not next to it")
        extra = sorted({file.name for file in folder.glob(_SHARDS)} - set(files))
        if extra:
            raise DataError(f"{path}: {', '.join(extra)} is next to it, and it does not name that file")
        shards = {file: safetensors.Safetensors(folder / file) for file in files}
        for name, file in places.items():
            if name not in shards[file]:
                raise DataError(f"{path}: says that {name} is in {file}, which has no such tensor")
        for file, shard in shards.items():
            unnamed = sorted(shard.keys() - places.keys())
            if unnamed:
                raise DataError(f"{path}: does not name {unnamed[0]}, which is in {file}")
        self._shards = {name: shards[file] for name, file in places.items()}

    def __getitem__(self, name) -> np.ndarray:
        return self._shards[name][name]

    def __iter__(self):
        return iter(self._shards)

    def __len__(self):
        return len(self._shards)


def _prefixed(tensors, kind: str) -> dict:
    """The tensors under a task model's names, also where a bare model left the prefix out; LayerNorm's old names too."""
    bare = not any(name.startswith(f"{kind}.") for name in tensors)
    inner = re.compile(r"(embeddings|encoder|pooler)\.")
    named = {}
    for name in tensors:
        full = f"{kind}.{name}" if bare and inner.match(name) else name
        full = full.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        named[full] = name
    return _Renamed(tensors, named)


class _Renamed(dict):
    """Tensors under other names, still read only when used: {their new name: old name}."""

    def __init__(self, tensors, names):
        super().__init__(names)
        self._tensors = tensors

    def __getitem__(self, name):
        return self._tensors[super().__getitem__(name)]


# Our activations under Hugging Face's names.
_ACTIVATIONS = {"gelu": "gelu", "gelu_new": "gelu_new", "gelu_tanh": "gelu_new", "relu": "relu"}
_NOT_THEIRS = ("embedding_projection",)  # fields of ours that their configuration does not have


def write(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes config.json and model.safetensors into an existing folder, for AutoModel and its kin."""
    table = table_of(HUGGING_FACE, checkpoint.encoder, checkpoint.source)
    refuse_unwritten(checkpoint, table, "hf")
    _refuse_wide_queries(checkpoint.encoder, checkpoint.source)
    weights = dict(checkpoint.weights)
    options = checkpoint.encoder.options
    if checkpoint.encoder.type == "albert" and "encoder/embedding_projection/kernel" not in weights:
        # Theirs always has the projection; the identity computes the same.
        weights["encoder/embedding_projection/kernel"] = np.eye(options.hidden_size, dtype=np.float32)
        weights["encoder/embedding_projection/bias"] = np.zeros(options.hidden_size, np.float32)
    if checkpoint.encoder.type == "mobilebert" and "masked_lm/output_bias" in weights:
        # Theirs has this weight also where it is empty: embeddings as wide as the layers.
        weights.setdefault("masked_lm/extra_output_weights", np.zeros((options.vocab_size, 0), np.float32))
    tensors = give(replace(checkpoint, weights=weights), table)
    if architecture_of(checkpoint).endswith("Model"):
        prefix = f"{checkpoint.encoder.type}."
        tensors = {name.removeprefix(prefix): array for name, array in tensors.items()}
    # Some versions read the head's bias under its first name, some under its second.
    copies = {name: ours for name, ours in TIED_HUGGING_FACE[checkpoint.encoder.type].items() if head_of(ours)}
    tensors |= {name: weights[ours] for name, ours in copies.items() if ours in weights}
    safetensors.write(folder / "model.safetensors", tensors, {"format": "pt"})
    write_facts(folder, checkpoint, but=("kind", "label_names"))
    config = json.dumps(_config(checkpoint), indent=2, sort_keys=True)
    (folder / "config.json").write_text(config + "\n", encoding="utf-8")


def _config(checkpoint: Checkpoint) -> dict:
    options = {k: v for k, v in asdict(checkpoint.encoder.options).items() if k not in _NOT_THEIRS}
    options["hidden_act"] = _ACTIVATIONS[options["hidden_act"]]
    if options.get("use_bottleneck_attention"):
        options["key_query_shared_bottleneck"] = False  # has no effect then, but their model gets its weights
    return {"model_type": checkpoint.encoder.type, "pad_token_id": 0} | options | head_fields(checkpoint)
