"""tf2_model.h5 and tf2_model_full.h5 of kamalkraj/ALBERT-TF2.0: Keras 2 weight files of an ALBERT of one shared layer.

The encoder's weights lie in the group `albert_model`, those of the heads in `cls`, where the full file stores the word
embedding a second time.
"""

from pathlib import Path

import numpy as np

from nlpdata.errors import DataError
from pretrain.config import Choice
from pretrain.converters.checkpoint import Checkpoint, find_model_config, take
from pretrain.converters.names import KAMALKRAJ

_TIED = "albert_model/word_embeddings/embeddings"


def read(path: Path, model_config: Choice | None) -> Checkpoint | None:
    """Reads an HDF5 file of weights; None where the path is none."""
    if path.suffix not in (".h5", ".hdf5") or not path.is_file():
        return None
    tensors, again = _read_tensors(path)
    encoder = find_model_config(model_config, [path.parent], str(path))
    if encoder.type not in KAMALKRAJ:
        raise DataError(f"{path}: files of this kind hold ALBERT, but the configuration is one of {encoder.type}")
    weights, unused = take(tensors, KAMALKRAJ[encoder.type], encoder, str(path))
    if not weights:
        raise DataError(
            f"{path}: holds no weights of ALBERT-TF2.0. It holds {', '.join(sorted(tensors)[:4]) or 'nothing'}"
        )
    for name, array in again.items():
        if not np.array_equal(array, tensors[_TIED]):
            raise DataError(f"{path}: {name} differs from the encoder's word embeddings, which it should repeat")
        unused[name] = "the same as encoder/embeddings/word_embeddings"
    return Checkpoint("h5", str(path), encoder, weights, unused)


def _read_tensors(path: Path) -> tuple[dict, dict]:
    """Arrays by the name of their weight, without ":0"; and the repeated word embedding by its place in the file."""
    import h5py

    tensors, again = {}, {}

    def visit(place, item):
        if isinstance(item, h5py.Dataset):
            group, _, name = place.removesuffix(":0").partition("/")
            if group == "cls" and name == _TIED:
                again[place] = item[()]
            else:
                tensors[name] = item[()]

    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
    except (OSError, RuntimeError, KeyError) as error:
        raise DataError(f"{path}: cannot be read as HDF5: {error}") from None
    return tensors, again
