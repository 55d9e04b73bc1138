"""TensorFlow checkpoints: those of google-research/bert and /albert, TF1 Hub modules, TF2 SavedModels, the Model Garden.

All of them keep their tensors in the same kind of file pair (PREFIX.index, PREFIX.data-*). TF1 names a tensor after its
variable. TF2 names it after the objects that hold it, and states the variable's name in the object graph; that name is
what our tables use, so that a checkpoint and a SavedModel of the same model are read alike.
"""

import glob
import math
import re
import shutil
import tempfile
import weakref
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from nlpdata.errors import DataError, UsageError
from nlpdata.files.disk import reading
from nlpdata.files.paths import read_file
from nlpdata.files.pointers import refuse_pointer_at
from pretrain.converters.architecture import agreeing, encoder_shown, shown_by
from pretrain.converters.checkpoint import Checkpoint, find_model_config, stored_model_config
from pretrain.converters.format import CheckpointFormat
from pretrain.converters.google_config import google_form, write_google_config
from pretrain.converters.graph_facts import read_graph
from pretrain.converters.heads import as_classifier
from pretrain.converters.saved_model import ROOT, read_description
from pretrain.converters.tensorflow_index import check_index
from pretrain.converters.usage import in_pretrain
from pretrain.converters.weights import give, names_of, refuse_unwritten, take
from pretrain.encoders.published import GoogleForm, google_config_files, published_forms
from pretrain.encoders.weight_names import WORD_EMBEDDINGS, WeightNames
from pretrain.settings.fields import Choice

_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_PART = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")  # ends of the names of a checkpoint's files
_MOST_OF_LIST = 1 << 20  # bytes of the file `checkpoint`, a list of names
_MAGIC = set("*?[\\")  # what TensorFlow's patterns are made of
_OF_FOLDERS = ("checkpoint", "saved_model.pb")  # files that are about the whole folder


def find_prefix(path: Path) -> Path | None:
    """The checkpoint that a path means: a prefix, any of its files, a folder of checkpoints or its file `checkpoint`, or a
    SavedModel's folder or its saved_model.pb."""
    if _index(path).is_file():
        return _prefix_of(path)
    path = path.parent if path.is_file() and path.name in _OF_FOLDERS else path
    if not path.is_dir():
        return None
    found = sorted(path.glob("*.index"))
    if (path / "variables" / "variables.index").is_file():
        if found:
            raise UsageError(
                f"{path}: holds a SavedModel and the checkpoint {found[0].stem}: which is meant? Name "
                f"{path / 'variables' / 'variables'} or {path / found[0].stem}."
            )
        return path / "variables" / "variables"
    if (path / "checkpoint").is_file():
        return path / _latest(path, found)
    if len(found) > 1:
        raise UsageError(
            f"{path}: holds {len(found)} checkpoints and no file `checkpoint` that says which is the latest. Name one: "
            f"{', '.join(str(path / file.stem) for file in found[:4])}"
        )
    return path / found[0].stem if found else None


def _latest(folder: Path, found: list[Path]) -> str:
    """The name of the checkpoint in `folder` that its file `checkpoint` names. UsageError where it is not in that folder.

    A folder that was moved or copied keeps the file with the old place in it: what counts is the name.
    """
    from google.protobuf import text_format
    from tensorflow.python.training.checkpoint_state_pb2 import CheckpointState

    path = folder / "checkpoint"
    refuse_pointer_at(path)
    try:
        with reading(path):
            named = text_format.Parse(read_file(path, _MOST_OF_LIST), CheckpointState()).model_checkpoint_path
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read as TensorFlow's list of checkpoints: {_first_line(error)}") from None
    name = named.replace("\\", "/").rpartition("/")[2]
    if not name or not (folder / f"{name}.index").is_file():
        there = f"There are {', '.join(file.stem for file in found[:4])}: name" if found else "Name"
        raise UsageError(
            f"{path}: says that the latest checkpoint is {named!r}, which is not in this folder. {there} the one to read."
        )
    return name


def _names_of(prefix: Path) -> list[str]:
    """The names of files that are, or begin with, this one."""
    folder = prefix.parent
    return [file.name for file in folder.iterdir() if file.name.startswith(prefix.name)] if folder.is_dir() else []


def _prefix_of(path: Path) -> Path:
    """The prefix that a file of a checkpoint belongs to; another path as it is."""
    return path.with_name(_PART.sub("", path.name)) if path.is_file() else path


def _index(path: Path) -> Path:
    """The .index file of a prefix, or of any file of a checkpoint."""
    prefix = _prefix_of(path)
    return prefix.parent / f"{prefix.name}.index"  # `with_name` has none for "."


def _refuse_pointers(prefix: Path) -> None:
    """DataError where one of a checkpoint's files is a pointer of Git LFS, or cannot be read."""
    for path in sorted(prefix.parent.glob(f"{glob.escape(prefix.name)}.*")):
        if _PART.search(path.name):
            refuse_pointer_at(path)


def _content_of_index(prefix: Path) -> bytes:
    path = prefix.parent / f"{prefix.name}.index"
    with reading(path):
        return read_file(path)


class _Tensors(Mapping):
    """Tensors of a checkpoint by the name of their variable, read when asked for."""

    def __init__(self, prefix: Path) -> None:
        import tensorflow as tf

        self._prefix = prefix
        _refuse_pointers(prefix)
        self._place = str(prefix) if _MAGIC.isdisjoint(str(prefix)) else self._linked(prefix)
        try:
            check_index(_content_of_index(prefix))
            self._reader = tf.train.load_checkpoint(self._place)
            shapes = self._reader.get_variable_to_shape_map()
            _check_sizes(prefix, shapes, self._reader.get_variable_to_dtype_map())
            self._keys = {name: name for name in shapes}
            if _GRAPH in self._keys:
                self._keys |= self._variable_names()
            self.shapes = {name: shapes[key] for name, key in self._keys.items()}
        # TypeError where it knows no such dtype.
        except (tf.errors.OpError, ValueError, RuntimeError, IndexError, TypeError) as error:
            raise DataError(f"{prefix}: cannot be read as a TensorFlow checkpoint: {self._fault(error)}") from None

    def _variable_names(self) -> dict[str, str]:
        from google.protobuf.message import DecodeError
        from tensorflow.core.protobuf import trackable_object_graph_pb2

        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        try:
            graph.ParseFromString(self._reader.get_tensor(_GRAPH))
        except DecodeError as error:
            raise DataError(f"{self._prefix}: the object graph is damaged: {error}") from None
        named = {}
        for node in graph.nodes:
            for attribute in node.attributes:
                if attribute.full_name and attribute.checkpoint_key in self._keys:
                    named[attribute.full_name] = attribute.checkpoint_key
        for key in named.values():
            self._keys.pop(key, None)
        return named

    def _fault(self, error: Exception) -> str:
        return _first_line(error).replace(self._place, str(self._prefix))

    def _linked(self, prefix: Path) -> str:
        """The prefix of links to the files in a temporary folder: TensorFlow takes a prefix for a pattern."""
        folder = Path(tempfile.mkdtemp(prefix="nlpdata-checkpoint-"))
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        for file in prefix.absolute().parent.iterdir():
            if file.name.startswith(f"{prefix.name}.") and _PART.fullmatch(file.name, len(prefix.name)):
                (folder / f"model{file.name[len(prefix.name) :]}").symlink_to(file)
        return str(folder / "model")

    def __getitem__(self, name: str) -> np.ndarray:
        import tensorflow as tf

        try:
            return self._reader.get_tensor(self._keys[name])
        except (tf.errors.OpError, ValueError, RuntimeError, IndexError) as error:
            raise DataError(f"{self._prefix}: {name} cannot be read: {self._fault(error)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)


def _check_sizes(prefix: Path, shapes: Mapping, dtypes: Mapping) -> None:
    """ValueError where the index names more data than there are: memory would be taken for them first."""
    claimed = sum(math.prod(shape) * (dtypes[name].size or 0) for name, shape in shapes.items())
    there = sum(file.stat().st_size for file in prefix.parent.glob(f"{glob.escape(prefix.name)}.data-*"))
    if claimed > there:
        raise ValueError(f"its index names {claimed} bytes of tensors, its data files have {there}")


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


class TensorFlowFormat(CheckpointFormat):
    """Reads whatever a TensorFlow file pair holds; writes what google-research's code reads."""

    place = "a TensorFlow checkpoint"
    places = "TensorFlow checkpoints (prefix or folder), TF-Hub modules and SavedModels (folder), .zip and tar archives of these"
    writes = "names and configuration of google-research"
    library = "nlpdata"
    written_with = "tensorflow"

    def recognises(self, place: Path) -> bool:
        if _index(place).is_file():
            return True
        folder = place.parent if place.is_file() and place.name in _OF_FOLDERS else place
        return (folder / "variables" / "variables.index").is_file() or any(folder.glob("*.index"))

    def explain(self, place: Path) -> None:
        """A checkpoint whose .index is not there: it names the tensors, so nothing can be read without it."""
        find_prefix(place)
        names = [file.name for file in place.iterdir()] if place.is_dir() else _names_of(place)
        parts = sorted(name for name in names if _PART.search(name))
        if parts:
            folder = place if place.is_dir() else place.parent
            index = folder / f"{_PART.sub('', parts[0])}.index"
            raise UsageError(
                f"{folder / parts[0]}: part of a TensorFlow checkpoint whose {index.name} is not next to it."
            )

    def read(self, place: Path, model_config: Choice | None) -> Checkpoint:
        prefix = find_prefix(place)
        assert prefix is not None, place  # it is recognised
        return _read(place, prefix, model_config)

    def refuse(self, checkpoint: Checkpoint) -> None:
        _written_form(checkpoint)

    def write(self, folder: Path, checkpoint: Checkpoint) -> list[str]:
        _write(folder, checkpoint)
        return []

    def usage(self, folder: Path, checkpoint: Checkpoint, notes: Sequence[str]) -> str:
        return in_pretrain(checkpoint)


def _read(path: Path, prefix: Path, model_config: Choice | None) -> Checkpoint:
    tensors = _Tensors(prefix)
    path = path.parent if path.is_file() and path.name in _OF_FOLDERS else path
    own = read_description(path)
    if own and f"{ROOT}{WORD_EMBEDDINGS}" in tensors:
        weights = {name.removeprefix(ROOT): tensors[name] for name in tensors if name.startswith(ROOT)}
        return Checkpoint("savedmodel", str(path), own[0], weights, {}, own[1])
    format = _naming(tensors)
    if format is None:
        raise DataError(
            f"{prefix}: a TensorFlow checkpoint, but not of BERT or ALBERT: no word embeddings under a known name. It holds "
            f"{', '.join(sorted(tensors)[:4])}, ..."
        )
    folders = [prefix.parent, prefix.parent.parent / "assets", prefix.parent.parent]
    folders = folders if prefix.name == "variables" else folders[:1]
    encoder, notes = _encoder(tensors, format, folders, str(path), model_config)
    weights, unused, _ = take(tensors, names_of(encoder, format, str(path)), encoder, str(prefix))
    return Checkpoint(format, str(path), encoder, weights, unused, notes=notes)


def _encoder(
    tensors: _Tensors, format: str, folders: list[Path], source: str, given: Choice | None
) -> tuple[Choice, tuple[str, ...]]:
    """The encoder that a file next to the weights describes, else the given one, else that which weights and graph show; notes.

    UsageError where the first two contradict the weights, or where these do not show all.
    """
    stored = stored_model_config(folders, own=google_config_files())
    known, graph = stored or given, folders[-1] / "saved_model.pb"
    facts = read_graph(graph) if stored is None and graph.is_file() else None
    shown = shown_by(tensors.shapes, format, facts, known.type if known else None)
    if shown is None:
        return stored or find_model_config(given, [], source), ()
    return encoder_shown(shown, source) if known is None else (agreeing(shown, known, source, stored is not None), ())


def _naming(tensors: Collection[str]) -> str | None:
    """The format whose name of the word embeddings is there: TensorFlow 1's, or the Model Garden's; None where neither is."""
    for format in ("tf1", "tf2"):
        names = [
            form.names[format].name_of(WORD_EMBEDDINGS) for form in published_forms().values() if format in form.names
        ]
        if any(name in tensors for name in names):
            return format
    return None


def _written_form(checkpoint: Checkpoint) -> tuple[WeightNames, GoogleForm]:
    """What google-research calls its weights, and its files. UsageError where there is no place for it."""
    names = names_of(checkpoint.known_encoder, "tf1", checkpoint.source)
    refuse_unwritten(as_classifier(checkpoint), names, "tf1")
    return names, google_form(checkpoint.known_encoder)


def _write(folder: Path, checkpoint: Checkpoint) -> None:
    """Writes a checkpoint as google-research/bert and /albert name it, with its JSON configuration, into a folder."""
    import tensorflow as tf

    names, google = _written_form(checkpoint)
    tensors = give(as_classifier(checkpoint), names)
    order = sorted(tensors)
    arrays = [tf.constant(tensors[name]) for name in order]
    prefix = str(folder / google.checkpoint)
    tf.raw_ops.SaveV2(prefix=prefix, tensor_names=order, shape_and_slices=[""] * len(order), tensors=arrays)
    (folder / "checkpoint").write_text(f'model_checkpoint_path: "{google.checkpoint}"\n', encoding="utf-8")
    write_google_config(folder / google.config_file, checkpoint.known_encoder)
