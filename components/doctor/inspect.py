"""Inspects any TFRecord files at a path, without TensorFlow, and returns a report.

Parses the first records of each file; reads up to 256 MiB, over all files, to count the records.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.components.doctor.read_file import Look
from penstock.components.doctor.verify import Report, walk
from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.tfrecord.image_header import image_header
from penstock.components.tfrecord.records import Record

# Parsing and summarizing take 50-100 us per record: at most a tenth of a second for 1,000 records.
DEFAULT_RECORDS = 1000
# Maximum number of bytes to parse over all files; records of more than about 65 KiB reach it before
# they reach `DEFAULT_RECORDS`.
_SUMMARY_BYTES = 64 * 2**20
# Maximum number of bytes to read over all files, in order to count and check records; reading them
# takes a second or two.
_COUNT_BYTES = 256 * 2**20
# Maximum number of distinct values to count for a feature: enough to tell a vocabulary from
# arbitrary values.
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
    # Number of images by format and size (`PNG 8x8`); only the ten most frequent are kept.
    contents: dict[str, int] = field(default_factory=dict)
    samples: tuple[str, ...] = ()  # some distinct values, shortened


@dataclass(frozen=True)
class InspectReport(Report):
    """Files at a path, their faults, and a summary of the features of the parsed records.

    `payloads` counts the parsed records by kind; Arrow batches count as `packed`.
    """

    payloads: dict[str, int] = field(default_factory=dict)
    packed_rows: int = 0
    features: tuple[FeatureSummary, ...] = ()

    @property
    def records_looked_at(self) -> int:
        return sum(self.payloads.values())


def inspect(
    path: str, *, samples: int = 3, max_records: int | None = DEFAULT_RECORDS
) -> InspectReport:
    """Inspects a TFRecord file, a folder of files, or the files that match a glob.

    Parses up to about `max_records` records or 64 MiB over all files, and at least the first record
    of each file; if `max_records` is None, parses everything. Keeps up to `samples` distinct values
    per feature.
    """
    survey = _Survey(samples)
    in_all = (math.inf,) * 3
    if max_records is not None:
        in_all = (max_records, _SUMMARY_BYTES, _COUNT_BYTES)
    report = walk(path, lambda files: _Look(survey, *(most / files for most in in_all)))
    packed = [file for file in report.files if file.packed]
    if packed:
        survey.payloads["packed"] = sum(file.records for file in packed)
    return InspectReport(
        **vars(report),
        payloads=dict(survey.payloads),
        packed_rows=sum(file.rows or 0 for file in packed),
        features=survey.summaries(),
    )


class _FeatureTally:
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
        """Returns the summary over `records` records; `place` overrides the feature's own place."""
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


class _Survey:
    """Features of the parsed records of all files."""

    def __init__(self, samples: int) -> None:
        self.payloads: Counter[str] = Counter()
        self._samples = samples
        self._tallies: dict[tuple[str, str], _FeatureTally] = {}

    def add(self, payload: bytes) -> None:
        message: Any = parse_example(payload)
        if message is None:
            self.payloads["other"] += 1
            return
        steps = message.feature_lists.feature_list
        for name, feature in message.context.feature.items():
            self._tally("context", name).add_feature(feature)
        for name, feature_list in steps.items():
            self._tally("feature_lists", name).add_steps(feature_list.feature)
        kind = "SequenceExample" if steps else "Example" if message.context.feature else "empty"
        self.payloads[kind] += 1

    def summaries(self) -> tuple[FeatureSummary, ...]:
        records = self.payloads.total() - self.payloads["other"] - self.payloads["packed"]
        # `add` gives the features of Examples the place `context`, too.
        place = None if self.payloads["SequenceExample"] else "features"
        return tuple(self._tallies[key].summary(records, place) for key in sorted(self._tallies))

    def _tally(self, place: str, name: str) -> _FeatureTally:
        key = (place, name)
        if key not in self._tallies:
            self._tallies[key] = _FeatureTally(name, place, self._samples)
        return self._tallies[key]


@dataclass
class _Look(Look):
    """Parses at most `records` records, in the first `summary_bytes`; counts to `count_bytes`."""

    survey: _Survey
    records: float
    summary_bytes: float
    count_bytes: float
    parsed: int = field(default=0, init=False)

    def add(self, record: Record) -> bool:
        if self.parsed < self.records and record.offset < self.summary_bytes:
            self.parsed += 1
            self.survey.add(record.payload)
            return True
        return record.offset < self.count_bytes


def _sample(values: Any) -> str:
    shown = [_sample_value(value) for value in values[:_SAMPLE_VALUES]]
    if len(values) == 1:
        return shown[0]
    more = f", ... ({len(values):,} values)" if len(values) > _SAMPLE_VALUES else ""
    return f"[{', '.join(shown)}{more}]"


def _sample_value(value: float | bytes) -> str:
    if isinstance(value, float):
        # The result has the fewest digits that identify the float32, with every version of NumPy.
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
