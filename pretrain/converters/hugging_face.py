"""Hugging Face folders, read and written: config.json with model.safetensors (one file or sharded), or a legacy pytorch_model.bin.

Model, ForPreTraining, ForMaskedLM, ForSequenceClassification and ForQuestionAnswering of Bert, Albert and MobileBert; the
names of a bare model lack the prefix "bert.", "albert." or "mobilebert.".
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError, UsageError
from pretrain.config import Choice
from pretrain.converters import safetensors, torch_pickle
from pretrain.converters.checkpoint import Checkpoint, find_model_config, give, refuse_unwritten, table_of, take
from pretrain.converters.names import HUGGING_FACE
from pretrain.converters.places import HUGGING_FACE_WEIGHTS
from pretrain.json_files import read_object

_WHOLE, _INDEX, _PICKLED = HUGGING_FACE_WEIGHTS
_SHARDS = "model-*-of-*.safetensors"
# The decoder is the word embedding, and its bias the head's, stored again.
_TIED = {
    "cls.predictions.decoder.weight": "encoder/embeddings/word_embeddings",
    "predictions.decoder.weight": "encoder/embeddings/word_embeddings",
    "cls.predictions.decoder.bias": "masked_lm/output_bias",
    "predictions.decoder.bias": "masked_lm/output_bias",
}


def read(path: Path, model_config: Choice | None) -> Checkpoint | None:
    """Reads a Hugging Face folder, or its file of weights; None where the path is neither."""
    folder = path.parent if path.name in HUGGING_FACE_WEIGHTS else path
    weights_file = path if path != folder and path.is_file() else _weights_file(folder)
    if weights_file is None:
        return None
    encoder = find_model_config(model_config, [folder], str(path), first="config.json")
    _refuse_wide_queries(encoder, str(folder))
    tensors = _prefixed(_read_tensors(weights_file), encoder.type)
    weights, unused = take(tensors, table_of(HUGGING_FACE, encoder, str(path)), encoder, str(weights_file))
    if not weights:
        raise DataError(
            f"{weights_file}: no weight has a name of a {encoder.type} model. It holds {', '.join(sorted(tensors)[:4])}, ..."
        )
    for name, ours in _TIED.items():
        if name in unused and ours in weights:
            if not np.array_equal(tensors[name], weights[ours]):
                raise DataError(
                    f"{weights_file}: {name} differs from {ours}: its output layer is not tied to the embeddings, as it is "
                    "in our models"
                )
            unused[name] = f"the same as {ours}"
    weights = {path: array for path, array in weights.items() if array.size}  # see `write`
    return Checkpoint("hf", str(path), encoder, weights, unused, _labels(folder))


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
            raise DataError(f"{path}: names {', '.join(absent)}, which is not beside it")
        extra = sorted({file.name for file in folder.glob(_SHARDS)} - set(files))
        if extra:
            raise DataError(f"{path}: {', '.join(extra)} lies beside it, and it does not name that file")
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


def _labels(folder: Path) -> dict:
    """Label names in id order, from config.json, where they are more than LABEL_0, LABEL_1, ..."""
    path = folder / "config.json"
    labels = read_object(path).get("id2label") if path.is_file() else None
    if labels is None:
        return {}
    if not isinstance(labels, dict) or not all(key.isdecimal() for key in labels):
        raise DataError(f"{path}: id2label must give a name to each id. Received: {str(labels)[:60]}")
    names = [str(labels[key]) for key in sorted(labels, key=int)]
    return {} if all(re.fullmatch(r"LABEL_\d+", name) for name in names) else {"label_names": names}


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
    architecture = _architecture(checkpoint)
    if architecture.endswith("Model"):
        prefix = f"{checkpoint.encoder.type}."
        tensors = {name.removeprefix(prefix): array for name, array in tensors.items()}
    safetensors.write(folder / "model.safetensors", tensors, {"format": "pt"})
    config = json.dumps(_config(checkpoint, architecture), indent=2, sort_keys=True)
    (folder / "config.json").write_text(config + "\n", encoding="utf-8")


def _architecture(checkpoint: Checkpoint) -> str:
    """The class of transformers that has these heads."""
    name = {"bert": "Bert", "albert": "Albert", "mobilebert": "MobileBert"}[checkpoint.encoder.type]
    heads = {path.split("/")[0] for path in checkpoint.weights} - {"encoder"}
    classes = {
        frozenset(): "Model",
        frozenset({"masked_lm"}): "ForMaskedLM",
        frozenset({"masked_lm", "sentence_pair"}): "ForPreTraining",
        frozenset({"sentence_pair"}): "ForNextSentencePrediction",
        frozenset({"classifier"}): "ForSequenceClassification",
        frozenset({"span"}): "ForQuestionAnswering",
    }
    if frozenset(heads) not in classes or name + classes[frozenset(heads)] == "AlbertForNextSentencePrediction":
        raise UsageError(
            f"{checkpoint.source}: transformers has no class of {name} with the heads {', '.join(sorted(heads))}. Write the "
            "encoder alone with --encoder_only, or use another --format."
        )
    return name + classes[frozenset(heads)]


def _config(checkpoint: Checkpoint, architecture: str) -> dict:
    options = {k: v for k, v in asdict(checkpoint.encoder.options).items() if k not in _NOT_THEIRS}
    options["hidden_act"] = _ACTIVATIONS[options["hidden_act"]]
    if options.get("use_bottleneck_attention"):
        options["key_query_shared_bottleneck"] = False  # has no effect then, but their model gets its weights
    config = {"architectures": [architecture], "model_type": checkpoint.encoder.type, "pad_token_id": 0} | options
    if architecture.endswith("ForMaskedLM") or architecture.endswith("ForPreTraining"):
        config["tie_word_embeddings"] = True
    labels = checkpoint.extras.get("label_names")
    if "classifier/logits/bias" in checkpoint.weights:
        names = labels or [f"LABEL_{i}" for i in range(len(checkpoint.weights["classifier/logits/bias"]))]
        config["id2label"] = {str(i): name for i, name in enumerate(names)}
        config["label2id"] = {name: i for i, name in enumerate(names)}
    return config
