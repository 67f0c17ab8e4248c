"""Signatures of a SavedModel and a sample request, read without loading the model."""

import base64
import json
import math
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.components.errors import DataError
from penstock.components.files.remote import find_below, is_remote
from penstock.components.files.spool import local_path
from penstock.components.tfrecord.records import read_records
from penstock.pipelines.reporting.artifact_files import (
    names_in,
    read_bytes,
    split_folder,
    splits_in,
)
from penstock.pipelines.runs.prune import folder_bytes

# Longer requests are not worth copying as text.
_LONGEST_RECORD_BYTES = 4096
_PROGRAM = """\
import tensorflow as tf

record = next(iter(tf.data.TFRecordDataset({shard!r}, {compression!r})))
model = tf.saved_model.load({model!r})
print(model.signatures[{signature!r}](record[tf.newaxis]))"""

_FILE = "saved_model.pb"


@dataclass(frozen=True)
class TensorSpec:
    """An input or output of a signature.

    In `shape`, a None is a dimension of any size; if `shape` is None, the rank is unknown.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None


@dataclass(frozen=True)
class Signature:
    name: str
    inputs: Sequence[TensorSpec]
    outputs: Sequence[TensorSpec]


@dataclass(frozen=True)
class ModelFacts:
    """A SavedModel."""

    folder: str
    size: int
    parameters: int | None
    signatures: Sequence[Signature]
    tensorflow: str


def gather_model(uri: str) -> ModelFacts:
    folder = find_saved_model(uri)
    # Importing TensorFlow takes seconds, so its version is used only if it is already imported.
    from tensorflow.core.protobuf import saved_model_pb2

    graph = saved_model_pb2.SavedModel.FromString(read_bytes(posixpath.join(folder, _FILE)))
    meta = graph.meta_graphs[0]
    names = sorted(meta.signature_def, key=lambda name: (name != "serving_default", name))
    return ModelFacts(
        folder,
        folder_bytes(folder),
        _parameters(meta),
        [_signature(n, meta.signature_def[n]) for n in names if not n.startswith("__")],
        meta.meta_info_def.tensorflow_version,
    )


def find_saved_model(uri: str) -> str:
    """Returns the folder of the SavedModel, preferring a serving model; DataError if none."""
    below = find_below(uri) if is_remote(uri) else map(str, Path(uri).rglob(_FILE))
    found = [posixpath.dirname(path) for path in below if posixpath.basename(path) == _FILE]
    if not found:
        raise DataError(f"{uri}: no {_FILE} in it")
    return min(found, key=lambda folder: ("serving" not in folder.lower(), len(folder), folder))


def _signature(name: str, raw: Any) -> Signature:
    return Signature(name, _specs(raw.inputs), _specs(raw.outputs))


def _specs(tensors: Any) -> list[TensorSpec]:
    from tensorflow.core.framework import types_pb2

    specs = []
    for name, tensor in sorted(tensors.items()):
        dtype = types_pb2.DataType.Name(tensor.dtype).removeprefix("DT_").lower()
        dtype = {"float": "float32", "double": "float64"}.get(dtype, dtype)
        open_rank = tensor.tensor_shape.unknown_rank
        sizes = tuple(None if d.size < 0 else d.size for d in tensor.tensor_shape.dim)
        specs.append(TensorSpec(name, dtype, None if open_rank else sizes))
    return specs


def _parameters(meta: Any) -> int | None:
    nodes = meta.object_graph_def.nodes
    variables = [node.variable for node in nodes if node.WhichOneof("kind") == "variable"]
    shapes = [[dim.size for dim in v.shape.dim] for v in variables if v.trainable]
    return sum(math.prod(shape) for shape in shapes) if shapes else None


@dataclass(frozen=True)
class Request:
    """A sample request as texts to copy."""

    python: str
    rest: str | None


def make_request(signature: Signature, model: str, examples: str) -> Request | None:
    """Returns a request with the first row of the last split of an `Examples` artifact.

    Returns None if there is no row, or the signature does not take serialized Examples.
    """
    takes_examples = len(signature.inputs) == 1 and signature.inputs[0].dtype == "string"
    sample = _sample(examples) if takes_examples else None
    if sample is None:
        return None
    shard, record = sample
    compression = "GZIP" if shard.endswith(".gz") else ""
    python = _PROGRAM.format(
        shard=shard, compression=compression, model=model, signature=signature.name
    )
    if len(record) > _LONGEST_RECORD_BYTES:
        return Request(python, None)
    instance = {signature.inputs[0].name: {"b64": base64.b64encode(record).decode()}}
    body = {"signature_name": signature.name, "instances": [instance]}
    return Request(python, json.dumps(body))


def _sample(examples: str) -> tuple[str, bytes] | None:
    for split in reversed(splits_in(examples)):
        folder = split_folder(examples, split)
        for name in names_in(folder):
            path = posixpath.join(folder, name)
            for record in read_records(local_path(path)):
                return path, record.payload
    return None
