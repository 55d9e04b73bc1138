"""Hugging Face folders, read and written: config.json with model.safetensors (one file or sharded), or a legacy pytorch_model.bin.

Model, ForPreTraining, ForMaskedLM, ForNextSentencePrediction, ForSequenceClassification and ForQuestionAnswering of Bert,
Albert and MobileBert; the names of a bare model lack the prefix "bert.", "albert." or "mobilebert.". Of other classes, as
`architectures` in config.json names them, the encoder is read.
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.files.json_files import read_object
from pretrain.converters import safetensors, torch_pickle
from pretrain.converters.checkpoint import Checkpoint, find_model_config
from pretrain.converters.format import CheckpointFormat
from pretrain.converters.heads import head_of
from pretrain.converters.hugging_face_heads import HeadConfig, architecture_of, head_fields, hugging_face_form
from pretrain.converters.places import HUGGING_FACE_WEIGHTS, has_hugging_face_weights
from pretrain.converters.tokenizer_files import write_for_hugging_face
from pretrain.converters.weights import UNKNOWN, form_of, give, names_of, refuse_unwritten, take
from pretrain.encoders.model_config import HUGGING_FACE_CONFIG
from pretrain.encoders.published import HuggingFaceForm
from pretrain.encoders.weight_names import WeightNames
from pretrain.settings.schema import Choice

_WHOLE, _INDEX, _PICKLED = HUGGING_FACE_WEIGHTS
_SHARDS = "model-*-of-*.safetensors"


class HuggingFaceFormat(CheckpointFormat):
    """A folder of transformers, or its file of weights."""

    place = "Hugging Face's weights"
    places = "Hugging Face folders"
    writes = "Hugging Face folder, with tokenizer files"
    holds = ("kind", "label_names")

    def recognises(self, place: Path) -> bool:
        return has_hugging_face_weights(_folder_of(place))

    def read(self, place: Path, model_config: Choice | None) -> Checkpoint:
        return _read(place, model_config)

    def write(self, folder: Path, checkpoint: Checkpoint) -> list[str]:
        _write(folder, checkpoint)
        return []

    def write_tokenizer(self, folder: Path, checkpoint: Checkpoint) -> list[str]:
        """As AutoTokenizer needs it."""
        longest = checkpoint.known_encoder.options.max_position_embeddings
        assert checkpoint.tokenizer is not None
        return write_for_hugging_face(folder, checkpoint.tokenizer, longest)


def _folder_of(path: Path) -> Path:
    """The folder itself, or that of one of its files of weights."""
    return path.parent if path.name in HUGGING_FACE_WEIGHTS else path


def _read(path: Path, model_config: Choice | None) -> Checkpoint:
    folder = _folder_of(path)
    weights_file = path if path != folder and path.is_file() else _weights_file(folder)
    encoder = find_model_config(model_config, [folder], str(path), own=[HUGGING_FACE_CONFIG])
    names, form = names_of(encoder, "hf", str(path)), hugging_face_form(encoder)
    _refuse(form, encoder, str(folder))
    tensors, config = _prefixed(_read_tensors(weights_file), form.prefix), HeadConfig(folder / HUGGING_FACE_CONFIG)
    heads, left_out = config.heads(form, tensors)
    weights, unused, untied = take(tensors, _of_heads(names, (None, *heads)), encoder, str(weights_file))
    for name in [name for name, why in unused.items() if left_out and why == UNKNOWN]:
        unused[name] = f"of {', '.join(left_out)}, which is left out"
    if "masked_lm" in heads:
        left_out |= untied
    if not weights:
        raise DataError(
            f"{weights_file}: no weight has a name of a {encoder.type} model. It holds {', '.join(sorted(tensors)[:4])}, ..."
        )
    weights = {path: array for path, array in weights.items() if array.size}  # an empty one means none
    facts = config.facts(weights["classifier/logits/kernel"].shape[1]) if "classifier/logits/kernel" in weights else {}
    return Checkpoint("hf", str(path), encoder, weights, unused, facts, left_out=left_out)


def _of_heads(names: WeightNames, heads: Collection[str | None]) -> WeightNames:
    """The names of the encoder (None) and of some heads."""
    return WeightNames(
        [row for row in names.rows if head_of(row.ours) in heads],
        {name: ours for name, ours in names.tied.items() if head_of(ours) in heads},
    )


def _refuse(form: HuggingFaceForm, encoder: Choice, source: str) -> None:
    """UsageError for a model that transformers cannot compute."""
    if refusal := form.refusal(encoder.options):
        raise UsageError(f"{source}: {refusal}. Use --format tf1 or native.")


def _weights_file(folder: Path) -> Path:
    """The file of weights in a folder that has one: safetensors before pytorch_model.bin, which repeats them.

    UsageError where there is one file and an index of several: they are not of one model.
    """
    found = [name for name in HUGGING_FACE_WEIGHTS if (folder / name).is_file()]
    if {_WHOLE, _INDEX} <= set(found):
        raise UsageError(f"{folder}: holds {_WHOLE} and {_INDEX}: which is meant? Name the path of one of them.")
    return folder / found[0]


def _read_tensors(path: Path) -> Mapping[str, np.ndarray]:
    if path.name == _PICKLED:
        return torch_pickle.read_tensors(path)
    return _Sharded(path) if path.name == _INDEX else safetensors.Safetensors(path)


class _Sharded(Mapping):
    """Tensors of several safetensors files: each is read from the file that the index names for it.

    DataError where index and files contradict each other.
    """

    def __init__(self, path: Path) -> None:
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

    def __getitem__(self, name: str) -> np.ndarray:
        return self._shards[name][name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shards)

    def __len__(self) -> int:
        return len(self._shards)


def _prefixed(tensors: Mapping[str, np.ndarray], prefix: str) -> dict[str, Any]:
    """The tensors under a task model's names, also where a bare model left the prefix out; LayerNorm's old names too."""
    bare = not any(name.startswith(f"{prefix}.") for name in tensors)
    inner = re.compile(r"(embeddings|encoder|pooler)\.")
    named = {}
    for name in tensors:
        full = f"{prefix}.{name}" if bare and inner.match(name) else name
        full = full.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
        named[full] = name
    return _Renamed(tensors, named)


class _Renamed(dict):
    """Tensors under other names, still read only when used: {their new name: old name}."""

    def __init__(self, tensors: Mapping[str, np.ndarray], names: dict[str, str]) -> None:
        super().__init__(names)
        self._tensors = tensors

    def __getitem__(self, name: str) -> np.ndarray:
        return self._tensors[super().__getitem__(name)]


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes config.json and model.safetensors into an existing folder, for AutoModel and the like."""
    encoder = checkpoint.known_encoder
    names = names_of(encoder, "hf", checkpoint.source)
    form = hugging_face_form(encoder)
    refuse_unwritten(checkpoint, names, "hf")
    _refuse(form, encoder, checkpoint.source)
    weights = form.completed(checkpoint.weights, encoder.options)
    tensors = give(replace(checkpoint, weights=dict(weights)), names)
    if architecture_of(checkpoint).endswith("Model"):
        tensors = {name.removeprefix(f"{form.prefix}."): array for name, array in tensors.items()}
    # Some versions read the head's bias under its first name, some under its second.
    tensors |= {name: weights[ours] for name, ours in names.tied.items() if head_of(ours) and ours in weights}
    safetensors.write(folder / "model.safetensors", tensors, {"format": "pt"})
    config = json.dumps(_config(checkpoint, form), indent=2, sort_keys=True)
    (folder / HUGGING_FACE_CONFIG).write_text(config + "\n", encoding="utf-8")


def _config(checkpoint: Checkpoint, form: HuggingFaceForm) -> dict[str, Any]:
    options = form.to_config(asdict(checkpoint.known_encoder.options))
    activation = options.get("hidden_act")
    if activation is not None:
        options["hidden_act"] = form.written_activations.get(activation, activation)
    model_type = form_of(checkpoint.known_encoder).model_type
    return {"model_type": model_type, "pad_token_id": 0} | options | head_fields(checkpoint)
