"""A pushed model: found, opened, and asked batch by batch through one of its signatures."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.trainer.served_columns import SERVE_COLUMNS, SERVE_IMAGES

_SAVED_MODEL = "saved_model.pb"
_KINDS = {tf.int64: FeatureKind.INT, tf.float32: FeatureKind.FLOAT, tf.string: FeatureKind.BYTES}


@dataclass(frozen=True)
class PushedModel:
    """A SavedModel with a signature of columns or of images.

    Attributes:
        columns: The kind of each column that the signature takes, by its name there.
        lists: Those of them that take lists.
    """

    path: str
    signature: str
    columns: Mapping[str, FeatureKind]
    lists: frozenset[str]
    _function: Any = field(repr=False)
    _module: Any = field(repr=False)  # keeps the variables alive

    @property
    def is_of_images(self) -> bool:
        return self.signature == SERVE_IMAGES

    def predict(self, columns: Mapping[str, Any]) -> dict[str, pa.Array]:
        """The predictions of a batch.

        Args:
            columns: Tensors [rows], of lists [rows, longest], by the signature's names; all.

        Returns:
            For a target with classes `prediction`, the most probable in words, its `probability`,
            and `probabilities`, a list with one for each class; for a value `prediction`. Several
            targets have their name before: `price/prediction`.
        """
        outputs = {name: value.numpy() for name, value in self._function(**columns).items()}
        found: dict[str, pa.Array] = {}
        for name, value in outputs.items():
            prefix, part = re.fullmatch(r"(.*/)?(\w+)", name).groups("")  # type: ignore[union-attr]
            if part == "value":
                found[f"{prefix}prediction"] = pa.array(value)
            elif part == "text":
                texts = [text.decode(errors="replace") for text in value]
                found[f"{prefix}prediction"] = pa.array(texts, pa.string())
            elif part == "probabilities":
                found[f"{prefix}probability"] = pa.array(value.max(axis=1))
                flat = pa.array(np.ascontiguousarray(value).reshape(-1))
                found[f"{prefix}probabilities"] = pa.FixedSizeListArray.from_arrays(
                    flat, value.shape[1]
                )
        return dict(sorted(found.items()))


def open_model(place: str) -> PushedModel:
    """Open a pushed model."""
    path = place
    try:
        path = _find(place)
        module = tf.saved_model.load(path)
    except (OSError, tf.errors.OpError, ValueError) as error:
        said = getattr(error, "message", error)
        raise DataError(f"{path}: the model cannot be read ({said})") from error
    for signature in (SERVE_COLUMNS, SERVE_IMAGES):
        if signature in module.signatures:
            function = module.signatures[signature]
            specs = function.structured_input_signature[1]
            kinds = {name: _KINDS[spec.dtype] for name, spec in specs.items()}
            lists = frozenset(name for name, spec in specs.items() if spec.shape.rank > 1)
            return PushedModel(path, signature, kinds, lists, function, module)
    raise UsageError(
        f"{path}: the model has no signature {SERVE_COLUMNS} or {SERVE_IMAGES}, it has "
        f"{', '.join(module.signatures) or 'none'}; export it by train_tables or train_images, or "
        "give export(signatures=...)"
    )


def _find(place: str) -> str:
    for folder in (place, os.path.join(place, "serving_model")):
        if tf.io.gfile.exists(os.path.join(folder, _SAVED_MODEL)):
            return folder
        if tf.io.gfile.isdir(folder):
            names = [name.rstrip("/") for name in tf.io.gfile.listdir(folder)]
            versions = sorted((name for name in names if name.isdigit()), key=int)
            if versions:
                return os.path.join(folder, versions[-1])
    raise DataError(
        f"{place}: no model; expected a folder with {_SAVED_MODEL}, one of pushed versions, or "
        "the root of runs that pushed one"
    )
