"""The columns of rows of Python values, from a sample of them.

Most values decide what a column holds, so that no single bad one changes its type.
"""

import datetime
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from uuid import UUID

from penstock.components.errors import DataError
from penstock.components.sources.base import Column
from penstock.components.sources.python_values import is_nested
from penstock.components.sources.tokens import FLOAT32_LIMIT
from penstock.components.tfrecord.feature_kind import FeatureKind

_WHOLE = (int, datetime.date, datetime.time, datetime.timedelta)


def _class(value: object) -> str:
    if isinstance(value, (str, bytes, bytearray, memoryview, UUID)):
        return "texts"
    if isinstance(value, (float, Decimal)):
        # What no FLOAT column takes says nothing for one.
        return "floats" if -FLOAT32_LIMIT < value < FLOAT32_LIMIT else "rejected"
    return "integers" if isinstance(value, _WHOLE) else "others"


class ValueSample:
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

    def merge(self, other: "ValueSample") -> None:
        """Count what another sample counted, of rows that follow."""
        for mine, others in ((self._shapes, other._shapes), (self._values, other._values)):
            for name, counted in others.items():
                mine.setdefault(name, Counter()).update(counted)
        self._nested_in = other._nested_in | self._nested_in

    def columns(self, nested: str) -> tuple[Column, ...]:
        """The columns as they were met; DataError for a nested one where `nested` is not `json`."""
        return tuple(self._column(name, nested) for name in self._shapes)

    def _column(self, name: str, nested: str) -> Column:
        kind, is_list = self.feature(name)
        if self._shape(name) == "nested" and nested != "json":
            raise DataError(
                f"{self._nested_in[name]}: column {name!r} holds objects or lists of lists, which "
                "no feature can hold; set `nested='json'` to keep them as JSON text, or leave the "
                "column out of a schema and set `extra_columns='drop'`"
            )
        return Column(name, kind or FeatureKind.BYTES, is_list, is_text=True)

    def feature(self, name: str) -> tuple[FeatureKind | None, bool]:
        """Kind (None where it has no values) and whether a list; BYTES of what is nested."""
        shape, values = self._shape(name), self._values.get(name, Counter())
        if shape == "nested":
            return FeatureKind.BYTES, False
        numbers = values["integers"] + values["floats"] + values["rejected"]
        if not numbers and not values["texts"]:
            return None, shape == "list"
        if values["texts"] >= numbers:
            return FeatureKind.BYTES, shape == "list"
        whole = values["integers"] and not values["floats"]
        return FeatureKind.INT if whole else FeatureKind.FLOAT, shape == "list"

    def _shape(self, name: str) -> str:
        shapes = self._shapes.get(name)
        return shapes.most_common(1)[0][0] if shapes else "one"
