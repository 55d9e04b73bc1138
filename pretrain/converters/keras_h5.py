"""tf2_model.h5 and tf2_model_full.h5 of kamalkraj/ALBERT-TF2.0: Keras 2 files of an ALBERT of one shared layer.

The encoder's weights are in the group `albert_model`, those of the heads in `cls`, where the full file stores the word
embedding a second time.
"""

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nlpdata.errors import DataError, UsageError, opt
from nlpdata.files.disk import writing
from nlpdata.files.pointers import refuse_pointer
from nlpdata.files.temporary import temporary
from pretrain.converters.checkpoint import Checkpoint, find_model_config
from pretrain.converters.format import CheckpointFormat
from pretrain.converters.google_config import write_google_config
from pretrain.converters.heads import heads_of
from pretrain.converters.usage import in_pretrain
from pretrain.converters.weights import give, refuse_unwritten, take
from pretrain.encoders.model_config import HUGGING_FACE_CONFIG
from pretrain.encoders.published import published_form, unpublished
from pretrain.encoders.weight_names import WORD_EMBEDDINGS, WeightNames
from pretrain.settings.fields import Choice

_TIED = "albert_model/word_embeddings/embeddings"


class KerasH5Format(CheckpointFormat):
    """Files of ALBERT-TF2.0: tf2_model.h5 and, with all heads, tf2_model_full.h5."""

    place = "a file of ALBERT-TF2.0"
    places = "tf2_model.h5"
    writes = "`tf2_model.h5` and, with all heads, `tf2_model_full.h5`; ALBERT of one shared layer"
    library = "nlpdata"

    def recognises(self, place: Path) -> bool:
        return (
            place.suffix in (".h5", ".hdf5") and place.name != "tf_model.h5" and place.is_file()
        )  # that is transformers'

    def read(self, place: Path, model_config: Choice | None) -> Checkpoint:
        return _read(place, model_config)

    def refuse(self, checkpoint: Checkpoint) -> None:
        _whole_names(checkpoint)

    def write(self, folder: Path, checkpoint: Checkpoint) -> list[str]:
        _write(folder, checkpoint)
        return []

    def usage(self, folder: Path, checkpoint: Checkpoint, notes: Sequence[str]) -> str:
        return in_pretrain(checkpoint, "tf2_model_full.h5" if heads_of(checkpoint.weights) else "tf2_model.h5")


def _read(path: Path, model_config: Choice | None) -> Checkpoint:
    tensors = _read_tensors(path)
    encoder = find_model_config(model_config, [path.parent], str(path), own=[HUGGING_FACE_CONFIG])
    names = _names(encoder)
    if names is None:
        raise DataError(f"{path}: files of this kind hold ALBERT, but the configuration is one of {encoder.type}")
    weights, unused, left_out = take(tensors, names, encoder, str(path))
    if WORD_EMBEDDINGS not in weights:
        raise DataError(
            f"{path}: holds no word embeddings of ALBERT-TF2.0 ({_TIED}). It holds {', '.join(sorted(tensors)[:4]) or 'nothing'}"
        )
    return Checkpoint("h5", str(path), encoder, weights, unused, left_out=left_out)


def _read_tensors(path: Path) -> dict:
    """Arrays by the name of their weight, without ":0"; the repeated word embedding by its place in the file."""
    import h5py

    tensors: dict[str, np.ndarray] = {}

    def visit(place: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset):
            left = path.stat().st_size - sum(array.nbytes for array in tensors.values())
            _check_dataset(place, item, left)
            group, _, name = place.removesuffix(":0").partition("/")
            tensors[f"{group}/{name}" if group == "cls" and name == _TIED else name] = item[()]

    try:
        with open(path, "rb") as head:
            refuse_pointer(path, head.read(32))
        with h5py.File(path, "r") as file:
            file.visititems(visit)
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        raise DataError(f"{path}: cannot be read as HDF5: {error}") from None
    return tensors


def _check_dataset(place: str, item: Any, left: int) -> None:
    """ValueError for data in other files, and for those that need more memory than the file has bytes."""
    if item.external or item.is_virtual:
        raise ValueError(f"{place} is in another file")
    if item.shape is None:
        raise ValueError(f"{place} holds nothing")
    if item.dtype.kind not in "fiub" or item.nbytes > left:
        raise ValueError(f"{place} is {item.shape} of {item.dtype}, for which the file has {left} bytes")


# The inputs and layers of that repository's two models, in the order in which Keras 2 matches them.
_ENCODER_LAYERS = ("input_word_ids", "input_mask", "input_type_ids", "albert_model")
_FULL_LAYERS = (
    *_ENCODER_LAYERS,
    *("masked_lm_positions", "cls", "masked_lm_ids", "masked_lm_weights", "next_sentence_labels"),
    "al_bert_pretrain_loss_and_metric_layer",
)


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes tf2_model.h5, with all heads tf2_model_full.h5 too, and config.json into a folder."""
    encoder, heads = _groups(checkpoint, _whole_names(checkpoint))
    write_google_config(folder / "config.json", checkpoint.known_encoder)
    _write_file(folder / "tf2_model.h5", _ENCODER_LAYERS, {"albert_model": encoder})
    if heads:
        _write_file(folder / "tf2_model_full.h5", _FULL_LAYERS, {"albert_model": encoder, "cls": heads})


def write_core_model(folder: Path, checkpoint: Checkpoint) -> Path:
    """Writes tf2_model.h5, replacing an earlier one, and config.json, which it is read with; returns the first.

    UsageError where the format has no place for the model.
    """
    encoder, _ = _groups(checkpoint, _written_names(checkpoint))
    write_google_config(folder / "config.json", checkpoint.known_encoder)
    return _replace(folder / "tf2_model.h5", _ENCODER_LAYERS, {"albert_model": encoder})


def write_one(folder: Path, checkpoint: Checkpoint, encoder_only: bool) -> Path:
    """Writes tf2_model.h5 or tf2_model_full.h5 into a folder that holds other things, in one step; returns the file.

    UsageError where the file exists.
    """
    path = folder / ("tf2_model.h5" if encoder_only else "tf2_model_full.h5")
    if path.exists():
        raise UsageError(f"{path} already exists. Remove it, or convert into a new folder: SOURCE DEST --format h5.")
    encoder, heads = _groups(checkpoint, _written_names(checkpoint))
    if encoder_only:
        return _replace(path, _ENCODER_LAYERS, {"albert_model": encoder})
    return _replace(path, _FULL_LAYERS, {"albert_model": encoder, "cls": heads})


def _replace(path: Path, layers: tuple[str, ...], groups: dict[str, dict[str, np.ndarray]]) -> Path:
    with writing(path), temporary(path) as made:
        _write_file(made, layers, groups)
        os.replace(made, path)
    return path


def _names(encoder: Choice) -> WeightNames | None:
    """What these files call the weights of an encoder; None where they cannot hold it."""
    form = published_form(encoder.type)
    return form.names.get("h5") if form else None


def _written_names(checkpoint: Checkpoint) -> WeightNames:
    """What these files call its weights. UsageError where they have no place for one."""
    names = _names(checkpoint.known_encoder)
    options = checkpoint.known_encoder.options
    if names is None or (options.num_hidden_groups, options.inner_group_num) != (1, 1):
        raise UsageError(f"{checkpoint.source}: format h5 holds an ALBERT of one shared layer only")
    if others := unpublished(checkpoint.known_encoder):
        raise UsageError(f"{checkpoint.source}: format h5 has no place for {' and '.join(others)} of an encoder")
    refuse_unwritten(checkpoint, names, "h5")
    if "encoder/pooler/kernel" not in checkpoint.weights:
        raise UsageError(f"{checkpoint.source}: has no pooler, and format h5 needs one")
    return names


def _whole_names(checkpoint: Checkpoint) -> WeightNames:
    """The same of a whole checkpoint. UsageError also where it has one of the two heads."""
    names, found = _written_names(checkpoint), heads_of(checkpoint.weights)
    if found and not _has_all_heads(checkpoint, names):
        raise UsageError(
            f"{checkpoint.source}: has the heads {', '.join(sorted(found))}; a file of format h5 has both masked_lm and "
            f"sentence_pair, or none. Write the encoder alone with {opt('encoder_only')}, or choose another {opt('format')}."
        )
    return names


def _has_all_heads(checkpoint: Checkpoint, names: WeightNames) -> bool:
    return all(row.ours in checkpoint.weights for row in names.rows if row.theirs.startswith("cls/"))


def _groups(checkpoint: Checkpoint, names: WeightNames) -> tuple[dict, dict]:
    """The arrays of the groups albert_model and cls; the latter is {} where a head is missing. names: from _written_names."""
    tensors = give(checkpoint, names)
    encoder = {name: array for name, array in tensors.items() if name.startswith("albert_model/")}
    heads = {name: array for name, array in tensors.items() if name.startswith("cls/")}
    if not _has_all_heads(checkpoint, names):
        return encoder, {}
    return encoder, {_TIED: tensors[_TIED]} | heads


def _write_file(path: Path, layers: tuple[str, ...], groups: dict[str, dict[str, np.ndarray]]) -> None:
    import h5py

    content = io.BytesIO()  # HDF5 crashes where the disk takes no more
    with h5py.File(content, "w") as file:
        file.attrs["backend"] = "tensorflow"
        file.attrs["keras_version"] = "2.2.4-tf"
        file.attrs["layer_names"] = [name.encode() for name in layers]
        for layer in layers:
            group = file.create_group(layer)
            tensors = groups.get(layer, {})
            group.attrs["weight_names"] = [f"{name}:0".encode() for name in tensors]
            for name, array in tensors.items():
                group.create_dataset(f"{name}:0", data=array)
    path.write_bytes(content.getbuffer())
