"""Inspects any TFRecord files at a path, without TensorFlow, and returns a report.

Parses some records of each file, and counts all records if that is fast.
"""

import json
import math
import os
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock.components.doctor.feature_summary import FeatureSummary, FeatureTally
from penstock.components.errors import DataError
from penstock.components.files.find import SHARDS, find
from penstock.components.packing.arrow_check import is_packed, packed_rows
from penstock.components.tfrecord.checked import find_scopes, shard_faults
from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.tfrecord.framing import FOOTER_BYTES, HEADER_BYTES
from penstock.components.tfrecord.manifest import Manifest
from penstock.components.tfrecord.records import Frame, RecordReader, open_file

# To parse and summarize takes 50-100 us per record: a tenth of a second in all.
DEFAULT_RECORDS = 1000
# Maximum bytes to parse, over all files, for records of hundreds of kilobytes.
_SUMMARY_BYTES = 64 * 2**20
# Maximum bytes to read only to count records, over all files: a second or two.
_COUNT_BYTES = 256 * 2**20
_HEXDUMP_BYTES = 64


@dataclass(frozen=True)
class InspectedFile:
    """Size on disk and number of records of one file; without `is_exact` the number is estimated.

    `fault` is the place of the first damage, where counting stops.
    """

    file: str
    bytes: int
    compression: str
    records: int
    is_exact: bool
    fault: str | None


@dataclass(frozen=True)
class InspectReport:
    path: str
    files: tuple[InspectedFile, ...]
    skipped: tuple[str, ...]
    payloads: dict[str, int]
    packed_rows: int
    first_file: str | None
    first_frame: Frame | None
    features: tuple[FeatureSummary, ...]
    hexdump: str
    set_faults: tuple[str, ...] = ()
    manifests: Mapping[str, Manifest] = field(default_factory=dict)

    @property
    def records_looked_at(self) -> int:
        return sum(self.payloads.values())

    @property
    def records(self) -> int:
        return sum(file.records for file in self.files)

    @property
    def is_exact(self) -> bool:
        return all(file.is_exact for file in self.files)

    @property
    def faults(self) -> tuple[str, ...]:
        """Faults found against the manifests, and the first fault of each damaged file."""
        return self.set_faults + tuple(file.fault for file in self.files if file.fault)

    def to_json(self) -> str:
        totals = {name: getattr(self, name) for name in ("records", "is_exact", "faults")}
        return json.dumps({**asdict(self), **totals}, indent=1)


def inspect(
    path: str, *, samples: int = 3, max_records: int | None = DEFAULT_RECORDS
) -> InspectReport:
    """Inspects a TFRecord file, a folder of files, or the files that match a glob.

    Parses at most `max_records` records (None: all) and 64 MiB, from the beginnings of all files,
    and keeps `samples` distinct values of each feature.
    """
    manifests, set_faults = _sets(path)
    try:
        found = find(path, SHARDS)
    except DataError as error:
        raise DataError("\n".join((str(error), *set_faults))) from error
    survey = _Survey(samples)
    limits = [math.inf] * 3
    if max_records is not None:
        in_all = (max_records, _SUMMARY_BYTES, _COUNT_BYTES)
        limits = [most / len(found.files) for most in in_all]
    files = tuple(_look_into(Path(file), survey, *limits) for file in found.files)
    first_file, first_frame = _first_frame(files)
    return InspectReport(
        path=path,
        files=files,
        skipped=tuple(found.ignored),
        payloads=dict(survey.payloads),
        packed_rows=survey.packed_rows,
        first_file=first_file,
        first_frame=first_frame,
        features=survey.summaries(),
        hexdump=survey.hexdump,
        set_faults=set_faults,
        manifests=manifests,
    )


def _sets(path: str) -> tuple[dict[str, Manifest], tuple[str, ...]]:
    """Returns manifests by folder and faults of shards; digests only if files are read whole."""
    faults: list[str] = []
    try:
        scopes = find_scopes(path)
        for scope in scopes:
            size = sum(shard.bytes for shard in scope.shards)
            faults += shard_faults(scope, digests=size <= _COUNT_BYTES)
    except DataError as error:  # in the manifest; the files are still inspected
        return {}, (*faults, str(error))
    return {str(scope.root): scope.manifest for scope in scopes}, tuple(faults)


class _Survey:
    def __init__(self, samples: int) -> None:
        self.payloads: Counter[str] = Counter()
        self.packed_rows = 0
        self.hexdump = ""
        self._samples = samples
        self._tallies: dict[tuple[str, str], FeatureTally] = {}

    def add(self, payload: bytes) -> None:
        message: Any = parse_example(payload)
        if message is None:
            self.payloads["other"] += 1
            self.hexdump = self.hexdump or _hexdump(payload)
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
        tallies = [self._tallies[key] for key in sorted(self._tallies)]
        if not self.payloads["SequenceExample"]:
            for tally in tallies:
                tally.place = "features"  # what an Example calls its context
        return tuple(tally.summary(records) for tally in tallies)

    def _tally(self, place: str, name: str) -> FeatureTally:
        key = (place, name)
        if key not in self._tallies:
            self._tallies[key] = FeatureTally(name, place, self._samples)
        return self._tallies[key]


def _look_into_packed(path: Path, survey: _Survey) -> InspectedFile:
    batches, rows, fault = 0, 0, None
    try:
        batches, rows = packed_rows(path)
    except DataError as error:
        fault = str(error)
    survey.payloads["packed"] += batches
    survey.packed_rows += rows
    return InspectedFile(str(path), path.stat().st_size, "", batches, fault is None, fault)


def _look_into(
    path: Path, survey: _Survey, records: float, summary_bytes: float, count_bytes: float
) -> InspectedFile:
    """Parses records within the first two limits, then counts records within the third."""
    if is_packed(path):
        return _look_into_packed(path, survey)
    count = end = 0
    fault = None
    is_exact = False
    with open_file(path) as file:
        size = os.fstat(file.fileno()).st_size
        reader = RecordReader(file, str(path))
        try:
            for record in reader.records():
                if count < records and end < summary_bytes:
                    survey.add(record.payload)
                elif end >= count_bytes:
                    break
                count += 1
                end = record.offset + HEADER_BYTES + len(record.payload) + FOOTER_BYTES
            else:
                is_exact = True
        except DataError as error:
            fault = str(error)
        if not is_exact and fault is None:
            read = file.tell() if reader.compression else end
            count = round(count * size / read)
    return InspectedFile(str(path), size, reader.compression, count, is_exact, fault)


def _first_frame(files: tuple[InspectedFile, ...]) -> tuple[str | None, Frame | None]:
    """Returns file and layout of the first good record; if there is none, of the first record."""
    damaged: tuple[str | None, Frame | None] = (None, None)
    for inspected in files:
        if is_packed(inspected.file):
            continue
        with open_file(inspected.file) as file:
            try:
                frame = RecordReader(file, inspected.file).first_frame()
            except DataError:  # damaged compressed data: already a fault of the file
                continue
        if frame is not None and frame.is_length_right:
            return inspected.file, frame
        if frame is not None and damaged[1] is None:
            damaged = inspected.file, frame
    return damaged


def _hexdump(payload: bytes) -> str:
    lines = []
    for start in range(0, min(len(payload), _HEXDUMP_BYTES), 16):
        row = payload[start : start + 16]
        text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        lines.append(f"{start:08x}  {row.hex(' '):<47}  {text}")
    return "\n".join(lines)
