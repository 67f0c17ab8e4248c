"""Summarizes each feature over many records, from protobuf Features."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from penstock.components.tfrecord.image_header import image_header

# Maximum number of distinct values to count: few are a vocabulary, more are free values.
MAX_DISTINCT = 1000
_SAMPLE_CHARACTERS = 40
_SAMPLE_VALUES = 4


@dataclass(frozen=True)
class FeatureSummary:
    """Values of one feature in the parsed records; a field is None if it does not apply."""

    name: str
    place: str  # `features`; or in a SequenceExample, `context` or `feature_lists`
    kind: str  # `int64`, `float`, `bytes`, or several joined by `|`; `""` without values
    present: int  # number of records with a value (for feature lists: with a step)
    records: int
    min_values: int
    max_values: int
    min_steps: int | None
    max_steps: int | None
    minimum: float | None
    maximum: float | None
    mean: float | None
    non_finite: int
    min_bytes: int | None
    max_bytes: int | None
    distinct: int | None  # number of distinct values, up to `MAX_DISTINCT`
    contents: dict[str, int]  # number of bytes values by image format and size (`PNG 8x8`)
    samples: tuple[str, ...]  # some distinct values, abbreviated


@dataclass
class FeatureTally:
    """Summarizes one feature, record by record, in bounded memory."""

    name: str
    place: str
    max_samples: int
    present: int = 0
    finite: int = 0
    total: float = 0.0
    non_finite: int = 0
    kinds: set[str] = field(default_factory=set)
    distinct: set[Any] = field(default_factory=set)
    contents: Counter[str] = field(default_factory=Counter)
    samples: list[str] = field(default_factory=list)
    _ranges: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    def add_feature(self, feature: Any) -> None:
        self.present += self._add(feature)

    def add_steps(self, features: Any) -> None:
        self._widen("steps", len(features), len(features))
        self.present += len(features) > 0
        for feature in features:
            self._add(feature)

    def summary(self, records: int) -> FeatureSummary:
        none = (None, None)
        min_values, max_values = self._ranges.get("values", (0, 0))
        min_steps, max_steps = self._ranges.get("steps", none)
        minimum, maximum = self._ranges.get("numbers", none)
        min_bytes, max_bytes = self._ranges.get("bytes", none)
        return FeatureSummary(
            name=self.name,
            place=self.place,
            kind="|".join(sorted(self.kinds)),
            present=self.present,
            records=records,
            min_values=min_values,
            max_values=max_values,
            min_steps=min_steps,
            max_steps=max_steps,
            minimum=minimum,
            maximum=maximum,
            mean=self.total / self.finite if self.finite else None,
            non_finite=self.non_finite,
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            distinct=(
                min(len(self.distinct), MAX_DISTINCT) if self.kinds & {"bytes", "int64"} else None
            ),
            contents=dict(self.contents.most_common(10)),
            samples=tuple(self.samples),
        )

    def _widen(self, what: str, low: float, high: float) -> None:
        lowest, highest = self._ranges.get(what, (low, high))
        self._ranges[what] = min(low, lowest), max(high, highest)

    def _add(self, feature: Any) -> bool:
        which = feature.WhichOneof("kind")
        values = getattr(feature, which).value if which else ()
        if not values:
            return False
        kind = which.removesuffix("_list")
        self.kinds.add(kind)
        self._widen("values", len(values), len(values))
        if kind == "bytes":
            self._add_bytes(values)
        else:
            self._add_numbers(kind, values)
        if len(self.samples) < self.max_samples:
            sample = _sample(values)
            if sample not in self.samples:
                self.samples.append(sample)
        return True

    def _add_bytes(self, values: Iterable[bytes]) -> None:
        for value in values:
            self._widen("bytes", len(value), len(value))
            if len(self.distinct) < MAX_DISTINCT:
                self.distinct.add(hash(value))
            if image := image_header(value):
                self.contents[str(image)] += 1

    def _add_numbers(self, kind: str, values: Sequence[float]) -> None:
        finite = [value for value in values if math.isfinite(value)]
        self.non_finite += len(values) - len(finite)
        if finite:
            self._widen("numbers", min(finite), max(finite))
            self.finite += len(finite)
            self.total += sum(finite)
        if kind == "int64" and len(self.distinct) < MAX_DISTINCT:
            self.distinct.update(values)


def _sample(values: Any) -> str:
    shown = [_sample_value(value) for value in values[:_SAMPLE_VALUES]]
    if len(values) == 1:
        return shown[0]
    more = f", ... ({len(values):,} values)" if len(values) > _SAMPLE_VALUES else ""
    return f"[{', '.join(shown)}{more}]"


def _sample_value(value: float | bytes) -> str:
    if isinstance(value, float):
        # Shortest digits that identify the number; NumPy versions format it differently.
        return repr(float(str(np.float32(value))))
    if not isinstance(value, bytes):
        return str(value)
    if image := image_header(value):
        return f"<{image}, {len(value):,} bytes>"
    text = value[: 4 * _SAMPLE_CHARACTERS].decode(errors="ignore")  # this may cut a character
    is_text = all(one.isprintable() or one in "\n\r\t" for one in text)
    if value and not (text and is_text and value.startswith(text.encode())):
        return f"<{len(value):,} bytes>"
    return repr(text if len(text) <= _SAMPLE_CHARACTERS else text[:_SAMPLE_CHARACTERS] + "...")
