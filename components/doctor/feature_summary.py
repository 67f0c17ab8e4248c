"""Summarizes each feature over many records, from protobuf Features."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.components.tfrecord.image_header import image_header

# Maximum number of distinct values to count: few are a vocabulary, more are free values.
MAX_DISTINCT = 1000
_SAMPLE_CHARACTERS = 40
_SAMPLE_VALUES = 4


@dataclass
class FeatureSummary:
    """Values of one feature in the parsed records; a field is None if it does not apply."""

    name: str
    place: str  # `features`; or in a SequenceExample, `context` or `feature_lists`
    kind: str = ""  # `int64`, `float`, `bytes`, or several joined by `|`; `""` without values
    present: int = 0  # number of records with a value (for feature lists: with a step)
    records: int = 0
    min_values: int | None = None
    max_values: int | None = None
    min_steps: int | None = None
    max_steps: int | None = None
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    non_finite: int = 0
    min_bytes: int | None = None
    max_bytes: int | None = None
    distinct: int | None = None  # number of distinct values, up to `MAX_DISTINCT`
    # Number of bytes values by image format and size (`PNG 8x8`).
    contents: dict[str, int] = field(default_factory=dict)
    samples: tuple[str, ...] = ()  # some distinct values, abbreviated


class FeatureTally:
    """Summarizes one feature, record by record, in bounded memory."""

    def __init__(self, name: str, place: str, max_samples: int) -> None:
        self._summary = FeatureSummary(name, place)
        self._max_samples = max_samples
        self._kinds, self._distinct = set[str](), set[Any]()
        self._contents = Counter[str]()
        self._finite, self._total = 0, 0.0

    def add_feature(self, feature: Any) -> None:
        self._summary.present += self._add(feature)

    def add_steps(self, features: Any) -> None:
        self._widen("min_steps", "max_steps", [len(features)])
        self._summary.present += len(features) > 0
        for feature in features:
            self._add(feature)

    def summary(self, records: int, place: str | None = None) -> FeatureSummary:
        """Returns the summary over so many records; `place` is another name of the place."""
        is_counted = self._kinds & {"bytes", "int64"}
        return replace(
            self._summary,
            place=place or self._summary.place,
            kind="|".join(sorted(self._kinds)),
            records=records,
            min_values=self._summary.min_values or 0,
            max_values=self._summary.max_values or 0,
            mean=self._total / self._finite if self._finite else None,
            distinct=min(len(self._distinct), MAX_DISTINCT) if is_counted else None,
            contents=dict(self._contents.most_common(10)),
        )

    def _widen(self, low: str, high: str, values: Sequence[float]) -> None:
        for name, pick in ((low, min), (high, max)):
            known = getattr(self._summary, name)
            setattr(self._summary, name, pick(values if known is None else (known, *values)))

    def _add(self, feature: Any) -> bool:
        which = feature.WhichOneof("kind")
        values = getattr(feature, which).value if which else ()
        if not values:
            return False
        kind = which.removesuffix("_list")
        self._kinds.add(kind)
        self._widen("min_values", "max_values", [len(values)])
        if kind == "bytes":
            self._add_bytes(values)
        else:
            self._add_numbers(kind, values)
        if len(self._summary.samples) < self._max_samples:
            known = self._summary.samples
            self._summary.samples = tuple(dict.fromkeys((*known, _sample(values))))
        return True

    def _add_bytes(self, values: Iterable[bytes]) -> None:
        self._widen("min_bytes", "max_bytes", [len(value) for value in values])
        for value in values:
            if len(self._distinct) < MAX_DISTINCT:
                self._distinct.add(hash(value))
            if image := image_header(value):
                self._contents[str(image)] += 1

    def _add_numbers(self, kind: str, values: Sequence[float]) -> None:
        finite = [value for value in values if math.isfinite(value)]
        self._summary.non_finite += len(values) - len(finite)
        if finite:
            self._widen("minimum", "maximum", finite)
            self._finite += len(finite)
            self._total += sum(finite)
        if kind == "int64" and len(self._distinct) < MAX_DISTINCT:
            self._distinct.update(values)


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
