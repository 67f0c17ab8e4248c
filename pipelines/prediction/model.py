"""Finds and opens a pushed model, runs batches through a signature, and explains predictions."""

import os
import posixpath
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
    MISSING_INT,
    SERVE_COLUMNS,
    SERVE_IMAGES,
    class_names_node,
)

_LOCAL = SimpleNamespace(exists=os.path.exists, isdir=os.path.isdir, listdir=os.listdir)
_SAVED_MODEL = "saved_model.pb"
_KINDS = {"int64": FeatureKind.INT, "float32": FeatureKind.FLOAT, "string": FeatureKind.BYTES}
# With more classes than this, probabilities are lists, because in Parquet each field of a struct is
# a column.
_MOST_NAMED_CLASSES = 100
_MOST_COLUMNS = 3  # columns named in an explanation
_LEAST_SHARE = 0.001  # share of the largest effect; smaller effects are left out


@dataclass(frozen=True)
class PushedModel:
    """A SavedModel with a signature that takes columns or images.

    Attributes:
        columns: Kind of each column of the signature, by its name in the signature.
        lists: Names of the columns that contain lists.
    """

    path: str
    signature: str
    columns: Mapping[str, FeatureKind]
    lists: frozenset[str]
    _class_names: Mapping[str, Sequence[str]]  # by the name of the node in the graph
    _function: Any = field(repr=False)
    _module: Any = field(repr=False)  # keeps the variables alive

    @property
    def is_of_images(self) -> bool:
        return self.signature == SERVE_IMAGES

    def outputs(self, columns: Mapping[str, Any]) -> dict[str, dict[str, np.ndarray]]:
        """Returns the signature's outputs for a batch, by target and then by output name.

        Keys are the targets' prefixes, such as `price/`; the prefix of a single target is empty.
        """
        found: dict[str, dict[str, np.ndarray]] = {}
        for name, value in self._function(**columns).items():
            target, slash, part = name.rpartition("/")
            found.setdefault(f"{target}{slash}", {})[part] = value.numpy()
        return found

    def predict(self, columns: Mapping[str, Any]) -> dict[str, pa.Array]:
        """Returns the predictions for a batch of tensors [rows], or [rows, longest] for lists.

        For classes, the result has `prediction`, the name of the predicted class; `probability`,
        the probability of this class; and `probabilities`, a struct with one field per class, or a
        list if there are over 100 classes or no class names. The predicted class is the most
        probable one or, if a threshold was chosen for two classes, the one that this threshold
        selects. For a regression, the result has only `prediction`. With several targets, names
        begin with the target: `price/prediction`.
        """
        found: dict[str, pa.Array] = {}
        for prefix, parts in self.outputs(columns).items():
            if "value" in parts:
                found[f"{prefix}prediction"] = pa.array(parts["value"])
                continue
            texts = [text.decode(errors="replace") for text in parts["text"]]
            names = self._class_names.get(class_names_node(prefix.removesuffix("/")), ())
            found[f"{prefix}prediction"] = pa.array(texts, pa.string())
            found[f"{prefix}probability"] = pa.array(number_of(parts, parts["label"]))
            found[f"{prefix}probabilities"] = _by_class(parts["probabilities"], names)
        return dict(sorted(found.items()))


def number_of(parts: Mapping[str, np.ndarray], label: np.ndarray | None) -> np.ndarray:
    """Returns each row's predicted number or, if `label` is given, the probability of its label."""
    if label is None:
        return parts["value"]
    return np.take_along_axis(parts["probabilities"], label.reshape(-1, 1), 1)[:, 0]


def _by_class(probabilities: np.ndarray, names: Sequence[str]) -> pa.Array:
    """Returns per row a struct with a field per class; a list if classes are many or unnamed."""
    classes = probabilities.shape[1]
    if len(names) == classes <= _MOST_NAMED_CLASSES:
        columns = [pa.array(np.ascontiguousarray(column)) for column in probabilities.T]
        return pa.StructArray.from_arrays(columns, names=list(names))
    flat = pa.array(np.ascontiguousarray(probabilities).reshape(-1))
    return pa.FixedSizeListArray.from_arrays(flat, classes)


def open_model(place: str) -> PushedModel:
    """Opens a pushed model; in a folder of versions or a root of runs, opens the newest version."""
    path = place if is_remote(place) else _find(place, _LOCAL)
    import tensorflow as tf  # takes 3 s, so it comes after the check of the path

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


class Explainer:
    """Finds the columns whose replacement by a typical value changes each prediction most.

    A row's text looks like `income=900 (-0.31), age=71 (+0.08)`. The number in parentheses is the
    change that this value, compared with the typical one, makes to the probability of the predicted
    class or to the predicted number. To explain a batch, the model is called once with the batch as
    it is, and once for each column that has a typical value. The typical row is made from the first
    batch: the median of numbers and the most frequent text; lists are left out. `names` maps each
    column of the model to the name of this column in the data.
    """

    def __init__(
        self, model: PushedModel, columns: Mapping[str, Any], names: Mapping[str, str]
    ) -> None:
        values = {name: value.numpy() for name, value in columns.items() if name not in model.lists}
        if len(next(iter(values.values()), ())) < 2:
            raise DataError("--explain compares rows with a typical one: give at least two rows")
        found = {name: _typical(value) for name, value in values.items()}
        self._model, self._names = model, names
        self._typical = {name: value for name, value in found.items() if value is not None}

    def because(self, columns: Mapping[str, Any]) -> dict[str, pa.Array]:
        """Returns the column `because`, or columns such as `price/because` for several targets."""
        import tensorflow as tf

        before = self._model.outputs(columns)
        effects: dict[str, list[np.ndarray]] = {prefix: [] for prefix in before}
        for name, typical in self._typical.items():
            replaced = tf.fill(columns[name].shape, tf.constant(typical, columns[name].dtype))
            after = self._model.outputs({**columns, name: replaced})
            for prefix, parts in before.items():
                label = parts.get("label")
                change = number_of(parts, label) - number_of(after[prefix], label)
                effects[prefix].append(change)
        values = [columns[name].numpy() for name in self._typical]
        return {
            f"{prefix}because": pa.array(self._texts(np.stack(changes), values))
            for prefix, changes in effects.items()
            if changes
        }

    def _texts(self, changes: np.ndarray, values: list[np.ndarray]) -> list[str]:
        names = [self._names[served] for served in self._typical]
        least = _LEAST_SHARE * float(np.abs(changes).max())
        order = np.argsort(-np.abs(changes), axis=0, kind="stable")[:_MOST_COLUMNS]
        return [
            ", ".join(
                f"{names[at]}={_text(values[at][row])} ({changes[at, row]:+.3g})"
                for at in order[:, row]
                if abs(changes[at, row]) > least
            )
            for row in range(changes.shape[1])
        ]


def _typical(values: np.ndarray) -> Any:
    if values.dtype == object:
        texts, counts = np.unique(values[values != b""], return_counts=True)
        return texts[np.argmax(counts)] if len(texts) else None
    there = values[~np.isnan(values)] if values.dtype.kind == "f" else values[values != MISSING_INT]
    return np.sort(there)[len(there) // 2] if len(there) else None


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode(errors="replace") or "nothing"
    is_missing = np.isnan(value) if isinstance(value, np.floating) else value == MISSING_INT
    return "nothing" if is_missing else f"{value:.6g}"
