"""Inspects any TFRecord files at a path, without TensorFlow, and returns a report.

Parses some records of each file, and reads all records if that is fast.
"""

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from penstock.components.doctor.feature_summary import FeatureSummary, FeatureTally
from penstock.components.doctor.read_file import Look
from penstock.components.doctor.walk import Report, walk
from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.tfrecord.records import Record

# To parse and summarize takes 50-100 us per record: a tenth of a second in all.
DEFAULT_RECORDS = 1000
# Maximum bytes to parse, over all files, for records of hundreds of kilobytes.
_SUMMARY_BYTES = 64 * 2**20
# Maximum bytes to read only to count and check records, over all files: a second or two.
_COUNT_BYTES = 256 * 2**20


@dataclass(frozen=True)
class InspectReport(Report):
    """Files at a path, their faults, and a summary of the features of the parsed records.

    `payloads` counts the parsed records by kind, and batches as `packed`.
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

    Parses at most `max_records` records (None: all) and 64 MiB, from the beginnings of all files,
    and keeps `samples` distinct values of each feature.
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


class _Survey:
    """Features of the parsed records of all files."""

    def __init__(self, samples: int) -> None:
        self.payloads: Counter[str] = Counter()
        self._samples = samples
        self._tallies: dict[tuple[str, str], FeatureTally] = {}

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
        # An Example's features are in the same place as the context of a SequenceExample.
        place = None if self.payloads["SequenceExample"] else "features"
        return tuple(self._tallies[key].summary(records, place) for key in sorted(self._tallies))

    def _tally(self, place: str, name: str) -> FeatureTally:
        key = (place, name)
        if key not in self._tallies:
            self._tallies[key] = FeatureTally(name, place, self._samples)
        return self._tallies[key]


class _Look(Look):
    """Parses records of a file up to the first two limits, then only counts up to the third."""

    def __init__(
        self, survey: _Survey, records: float, summary_bytes: float, count_bytes: float
    ) -> None:
        self._survey, self._records = survey, records
        self._summary_bytes, self._count_bytes = summary_bytes, count_bytes
        self._parsed = 0

    def add(self, record: Record) -> bool:
        if self._parsed < self._records and record.offset < self._summary_bytes:
            self._parsed += 1
            self._survey.add(record.payload)
            return True
        return record.offset < self._count_bytes
