"""Finds and opens a pushed model, and runs batches through one of its signatures."""

import os
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.components.errors import DataError, UsageError, short_error
from penstock.components.files.remote import is_remote
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.trainer.served_columns import (
    SERVE_COLUMNS,
    SERVE_IMAGES,
    class_names_node,
)

_LOCAL = SimpleNamespace(exists=os.path.exists, isdir=os.path.isdir, listdir=os.listdir)
_SAVED_MODEL = "saved_model.pb"
_KINDS = {"int64": FeatureKind.INT, "float32": FeatureKind.FLOAT, "string": FeatureKind.BYTES}
# Each field of a struct is a column of the Parquet file.
_MOST_NAMED_CLASSES = 100


@dataclass(frozen=True)
class PushedModel:
    """A SavedModel with a signature of columns or of images.

    Attributes:
        columns: Kind of each column of the signature, by its name in the signature.
        lists: Names of the columns that hold lists.
    """

    path: str
    signature: str
    columns: Mapping[str, FeatureKind]
    lists: frozenset[str]
    _class_names: Mapping[str, Sequence[str]]  # by name of the node in the graph
    _function: Any = field(repr=False)
    _module: Any = field(repr=False)  # keeps the variables alive

    @property
    def is_of_images(self) -> bool:
        return self.signature == SERVE_IMAGES

    def outputs(self, columns: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Returns what the signature gives for a batch, by name."""
        return {name: value.numpy() for name, value in self._function(**columns).items()}

    def predict(self, columns: Mapping[str, Any]) -> dict[str, pa.Array]:
        """Returns the predictions for a batch of tensors [rows], or [rows, longest] for lists.

        For classes: `prediction`, the name of the most probable class, or by the threshold that was
        chosen for two; its `probability`, and `probabilities`, a struct by class name. For a
        regression: `prediction`. With several targets, names begin with the target:
        `price/prediction`.
        """
        outputs = self.outputs(columns)
        found: dict[str, pa.Array] = {}
        for name, value in outputs.items():
            prefix, part = re.fullmatch(r"(.*/)?(\w+)", name).groups("")  # type: ignore[union-attr]
            if part == "value":
                found[f"{prefix}prediction"] = pa.array(value)
            elif part == "text":
                texts = [text.decode(errors="replace") for text in value]
                found[f"{prefix}prediction"] = pa.array(texts, pa.string())
            elif part == "probabilities":
                said = outputs[f"{prefix}label"].reshape(-1, 1)
                found[f"{prefix}probability"] = pa.array(np.take_along_axis(value, said, 1)[:, 0])
                names = self._class_names.get(class_names_node(prefix.removesuffix("/")), ())
                found[f"{prefix}probabilities"] = _by_class(value, names)
        return dict(sorted(found.items()))


def _by_class(probabilities: np.ndarray, names: Sequence[str]) -> pa.Array:
    """Returns [rows, classes] as structs by class name; lists without names or of many classes."""
    classes = probabilities.shape[1]
    if len(names) == classes <= _MOST_NAMED_CLASSES:
        columns = [pa.array(np.ascontiguousarray(column)) for column in probabilities.T]
        return pa.StructArray.from_arrays(columns, names=list(names))
    flat = pa.array(np.ascontiguousarray(probabilities).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, classes)


def open_model(place: str) -> PushedModel:
    """Opens a pushed model; in a folder of versions or a root of runs, opens the newest one."""
    path = place if is_remote(place) else _find(place, _LOCAL)
    import tensorflow as tf  # takes 3 s, so after the check of the path

    try:
        path = _find(place, tf.io.gfile) if is_remote(place) else path
        module = tf.saved_model.load(path)
    except (OSError, tf.errors.OpError, ValueError) as error:
        raise DataError(f"{place}: the model cannot be read ({short_error(error)})") from error
    for signature in (SERVE_COLUMNS, SERVE_IMAGES):
        if function := module.signatures.get(signature):
            specs = function.structured_input_signature[1]
            kinds = {name: _KINDS[spec.dtype.name] for name, spec in specs.items()}
            lists = frozenset(name for name, spec in specs.items() if spec.shape.rank > 1)
            names = _class_names(function.graph)
            return PushedModel(path, signature, kinds, lists, names, function, module)
    raise UsageError(
        f"{path}: the model has no signature {SERVE_COLUMNS} or {SERVE_IMAGES}, it has "
        f"{', '.join(module.signatures) or 'none'}; export it by train_tables or train_images, or "
        "give export_model(signatures=...)"
    )


def _class_names(graph: Any) -> dict[str, list[str]]:
    import tensorflow as tf

    nodes = (node for one in graph.as_graph_def().library.function for node in one.node_def)
    found = {
        node.name: tf.make_ndarray(node.attr["value"].tensor)
        for node in nodes
        if node.op == "Const" and node.name.startswith(class_names_node(""))
    }
    return {node: [one.decode(errors="replace") for one in names] for node, names in found.items()}


def _find(place: str, files: Any) -> str:
    for folder in (place, posixpath.join(place, "serving_model")):
        if files.exists(posixpath.join(folder, _SAVED_MODEL)):
            return folder
        if files.isdir(folder):
            names = [name.rstrip("/") for name in files.listdir(folder)]
            versions = sorted((name for name in names if name.isdigit()), key=int)
            if versions:
                return posixpath.join(folder, versions[-1])
    raise DataError(
        f"{place}: no model; expected a folder with {_SAVED_MODEL}, a folder of pushed versions, "
        "or the root of runs that pushed a model"
    )
