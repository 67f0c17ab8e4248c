"""Size and signatures of a SavedModel, read without loading the model."""

import math
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.components.errors import DataError
from penstock.components.files.remote import find_below, is_remote
from penstock.pipelines.reporting.artifact_files import read_bytes
from penstock.pipelines.runs.prune import folder_bytes

_FILE = "saved_model.pb"


@dataclass(frozen=True)
class ModelFacts:
    """A SavedModel.

    Attributes:
        signatures: Inputs and outputs of each signature by name, in the form `examples: string
            [batch]`.
    """

    folder: str
    size: int
    parameters: int | None
    signatures: Mapping[str, tuple[Sequence[str], Sequence[str]]]
    tensorflow: str


def gather_model(uri: str) -> ModelFacts:
    folder = find_saved_model(uri)
    # This import is here because importing TensorFlow takes seconds.
    from tensorflow.core.protobuf import saved_model_pb2

    graph = saved_model_pb2.SavedModel.FromString(read_bytes(posixpath.join(folder, _FILE)))
    meta = graph.meta_graphs[0]
    served = {n: d for n, d in meta.signature_def.items() if not n.startswith("__")}
    names = sorted(served, key=lambda name: (name != "serving_default", name))
    return ModelFacts(
        folder,
        folder_bytes(folder),
        _parameters(meta),
        {name: (_specs(served[name].inputs), _specs(served[name].outputs)) for name in names},
        meta.meta_info_def.tensorflow_version,
    )


def find_saved_model(uri: str) -> str:
    """Returns a SavedModel's folder, preferably a serving model's; raises DataError without one."""
    below = find_below(uri) if is_remote(uri) else map(str, Path(uri).rglob(_FILE))
    found = [posixpath.dirname(path) for path in below if posixpath.basename(path) == _FILE]
    if not found:
        raise DataError(f"{uri}: no {_FILE} in it")
    return min(found, key=lambda folder: ("serving" not in folder.lower(), len(folder), folder))


def _specs(tensors: Any) -> list[str]:
    from tensorflow.core.framework import types_pb2

    specs = []
    for name, tensor in sorted(tensors.items()):
        dtype = types_pb2.DataType.Name(tensor.dtype).removeprefix("DT_").lower()
        dtype = {"float": "float32", "double": "float64"}.get(dtype, dtype)
        sizes = [str(dim.size) if dim.size >= 0 else "any" for dim in tensor.tensor_shape.dim]
        if sizes[:1] == ["any"]:
            sizes[0] = "batch"
        shape = "of any rank" if tensor.tensor_shape.unknown_rank else f"[{', '.join(sizes)}]"
        specs.append(f"{name}: {dtype} {shape}")
    return specs


def _parameters(meta: Any) -> int | None:
    nodes = meta.object_graph_def.nodes
    variables = [node.variable for node in nodes if node.WhichOneof("kind") == "variable"]
    shapes = [[dim.size for dim in v.shape.dim] for v in variables if v.trainable]
    return sum(math.prod(shape) for shape in shapes) if shapes else None
