"""The columns of JSON rows, from a sample of them.

Most values decide what a column holds, so that no single bad one changes its type.
"""

from collections import Counter
from collections.abc import Mapping

from penstock.components.errors import DataError
from penstock.components.sources.base import Column
from penstock.components.sources.python_values import is_nested
from penstock.components.sources.tokens import FLOAT32_LIMIT
from penstock.components.tfrecord.feature_kind import FeatureKind


def _class(value: object) -> str:
    if isinstance(value, str):
        return "texts"
    if isinstance(value, float):
        # What no FLOAT column takes says nothing for one.
        return "floats" if abs(value) < FLOAT32_LIMIT else "rejected"
    return "integers"


class JsonSample:
    """Counts what the columns of the sampled rows hold."""

    def __init__(self) -> None:
        self._shapes: dict[str, Counter[str]] = {}
        self._values: dict[str, Counter[str]] = {}
        self._nested_in: dict[str, str] = {}

    def add(self, row: Mapping[str, object], path: str) -> None:
        """Count one row of a file."""
        for name, value in row.items():
            shapes = self._shapes.setdefault(name, Counter())
            values = self._values.setdefault(name, Counter())
            if value is None:
                continue
            shape = "nested" if is_nested(value) else "list" if isinstance(value, list) else "one"
            shapes[shape] += 1
            if shape == "nested":
                self._nested_in.setdefault(name, path)
            else:
                items = value if isinstance(value, list) else [value]
                values.update(_class(item) for item in items if item is not None)

    def columns(self, nested: str) -> tuple[Column, ...]:
        """The columns in the order in which they were met first.

        Raises:
            DataError: A column holds nested values, and `nested` is not `json`; names it.
        """
        return tuple(self._column(name, nested) for name in self._shapes)

    def _column(self, name: str, nested: str) -> Column:
        shapes, values = self._shapes[name], self._values[name]
        shape = shapes.most_common(1)[0][0] if shapes else "one"
        if shape == "nested":
            if nested == "json":
                return Column(name, FeatureKind.BYTES, is_text=True)
            raise DataError(
                f"{self._nested_in[name]}: column {name!r} holds objects or lists of lists, which "
                "no feature can hold; set `nested='json'` to keep them as JSON text, or leave the "
                "column out of a schema and set `extra_columns='drop'`"
            )
        numbers = values["integers"] + values["floats"] + values["rejected"]
        if values["texts"] >= numbers:
            kind = FeatureKind.BYTES
        else:
            whole = values["integers"] and not values["floats"]
            kind = FeatureKind.INT if whole else FeatureKind.FLOAT
        return Column(name, kind, is_list=shape == "list", is_text=True)
