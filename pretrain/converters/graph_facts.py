"""What the graph of a SavedModel or TF-Hub module shows of its encoder: numbers that shapes of weights do not have.

The names of operations are those that google-research/bert, google-research/albert and the TensorFlow Model Garden give them.
"""

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlpdata.errors import DataError
from nlpdata.files.disk import reading
from nlpdata.files.paths import read_file
from nlpdata.files.pointers import refuse_pointer_at

_SELF = r"(self_attention|attention(_1)?/self)/"
_SCALE = re.compile(_SELF + r"Mul/y$")
_EPSILON = re.compile(r"(LayerNorm|layer_norm)[^/]*/batchnorm/add/y$")
_RATE = re.compile(r"dropout[^/]*/(GreaterEqual/y|rate|truediv/x)$|dropout[^/]*/dropout/(GreaterEqual/y|rate)$")
_MOST_BYTES = 2 << 30  # of a message of protobuf
_TANH_CUBE = 0.044715  # only the approximation of gelu by tanh has it


@dataclass(frozen=True)
class GraphFacts:
    """None: the graph does not show it, or shows several values.

    Attributes:
      attention_size: width of an attention head.
      attentions: number of attentions that a forward pass computes; 0: none is found.
      hidden_act, layer_norm_eps, hidden_dropout_prob, attention_probs_dropout_prob: as options of an encoder.
    """

    attention_size: int | None = None
    attentions: int = 0
    hidden_act: str | None = None
    layer_norm_eps: float | None = None
    hidden_dropout_prob: float | None = None
    attention_probs_dropout_prob: float | None = None


def read_graph(path: Path) -> GraphFacts:
    """What a saved_model.pb shows. DataError where it is damaged."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    model = saved_model_pb2.SavedModel()
    refuse_pointer_at(path)
    try:
        with reading(path):
            model.ParseFromString(read_file(path, _MOST_BYTES))
    except DecodeError as error:
        raise DataError(f"{path}: cannot be read as a SavedModel: {error}") from None
    parts = [list(nodes) for graph in model.meta_graphs for nodes in _parts(graph.graph_def)]
    return _facts(parts)


def _parts(graph: Any) -> Iterator[Iterable]:
    """The nodes of a graph, and those of each of its functions."""
    yield graph.node
    for function in graph.library.function:
        yield function.node_def


def _facts(parts: list[list]) -> GraphFacts:
    nodes = [node for part in parts for node in part]
    operations = {node.op for node in nodes}
    constants = [(node.name, value) for node in nodes if (value := _number(node)) is not None]
    scale = _only(value for name, value in constants if _SCALE.search(name))
    rates = [(name, value) for name, value in constants if _RATE.search(name) and 0 < value < 1]
    own = re.compile(_SELF)
    return GraphFacts(
        attention_size=round(1 / scale**2) if scale and scale <= 1 else None,
        attentions=max((sum(node.op == "Softmax" for node in part) for part in parts), default=0),
        hidden_act=_activation(operations, [value for _, value in constants]),
        layer_norm_eps=_only(value for name, value in constants if _EPSILON.search(name)),
        hidden_dropout_prob=_only(value for name, value in rates if not own.search(name)),
        attention_probs_dropout_prob=_only(value for name, value in rates if own.search(name)),
    )


def _number(node: Any) -> float | None:
    """The value of a constant that is one float32; None for other nodes."""
    if node.op != "Const":
        return None
    tensor = node.attr["value"].tensor
    if tensor.dtype != 1 or tensor.tensor_shape.dim:  # DT_FLOAT
        return None
    from tensorflow.python.framework import tensor_util

    try:
        value = float(tensor_util.MakeNdarray(tensor))
    except (TypeError, ValueError):  # damaged
        return None
    return value if math.isfinite(value) else None


def _only(values: Iterable[float]) -> float | None:
    """The one value that there is, to the six digits that float32 keeps."""
    found = {float(f"{value:.6g}") for value in values}
    return found.pop() if len(found) == 1 else None


def _activation(operations: set[str], constants: list[float]) -> str | None:
    if any(math.isclose(value, _TANH_CUBE, rel_tol=1e-5) for value in constants):
        return "gelu_tanh"
    return "gelu" if operations & {"Erf", "Erfc"} else "relu" if "Relu" in operations else None
