"""Compares two data sets column by column, with the distances of the ValidationGate.

Each side is a folder of tf.train.Examples, statistics that a StatisticsGen has stored, or any data
that can be ingested. The statistics of Examples are computed shard by shard; data to ingest is
first written to a temporary folder of Examples.
"""

import json
import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from google.protobuf.message import DecodeError
from tensorflow_metadata.proto.v0 import statistics_pb2

from penstock.components.engine.options import EngineOptions
from penstock.components.errors import DataError, UsageError, counted
from penstock.components.files.content import open_data
from penstock.components.files.remote import find_below, is_remote
from penstock.components.gates.drift import (
    FeatureStatistics,
    Statistics,
    by_name,
    distances,
    missing_share,
)
from penstock.components.sources.options import TABLE_KINDS, KindOptions
from penstock.components.tfrecord.manifest import MANIFEST_NAME
from penstock.components.tfrecord.sharding import split_dir

_KINDS = {
    FeatureStatistics.INT: "whole number",
    FeatureStatistics.FLOAT: "number",
    FeatureStatistics.STRING: "text",
}
_MOST_NAMED = 5
_STORED = "FeatureStats.pb"  # TFX's name for the statistics file in a split's folder


@dataclass(frozen=True)
class ColumnDiff:
    """A column of two data sets; the entries of a side that lacks the column are None.

    Attributes:
        kinds: Type of the values on each side; None if the side has no value.
        missing: Share of rows without a value on each side, 0..1.
        distance: Distance of the values as in `GateOptions.max_drift`, 0..1.
        new: Values of a text column that occur only on the second side, the most frequent first.
            Empty if the first side's statistics do not list all of its values.
    """

    column: str
    kinds: tuple[str | None, str | None]
    missing: tuple[float | None, float | None]
    distance: float
    new: tuple[str, ...] = ()


@dataclass(frozen=True)
class DataDiff:
    """Differences between two data sets; the columns are sorted by distance, the largest first.

    Attributes:
        names: Paths or addresses of the data sets.
        rows: Number of rows of each side.
        columns: All columns that either side has.
        limit: Distance above which a column differs.
    """

    names: tuple[str, str]
    rows: tuple[int, int]
    columns: tuple[ColumnDiff, ...]
    limit: float

    @property
    def different(self) -> tuple[ColumnDiff, ...]:
        """Columns whose distance is above the limit."""
        return tuple(one for one in self.columns if one.distance > self.limit)

    def to_json(self) -> str:
        return json.dumps({**asdict(self), "different": len(self.different)}, indent=1)

    def raise_different(self) -> None:
        """Raises a DataError that names the columns above the limit, if there are any."""
        if found := self.different:
            named = ", ".join(f"{one.column} {one.distance:.2f}" for one in found[:_MOST_NAMED])
            more = ", ..." if len(found) > _MOST_NAMED else ""
            raise DataError(
                f"{self.names[1]}: {len(found)} of {counted(len(self.columns), 'column')} further "
                f"than {self.limit:g} from {self.names[0]}: {named}{more}"
            )


def diff(
    a: str,
    b: str,
    *,
    limit: float = 0.2,
    ignore: Collection[str] = (),
    source: KindOptions | None = None,
    workers: int = 1,
) -> DataDiff:
    """Compares two data sets: Examples or stored statistics, a split of either, or data to ingest.

    Args:
        a: Path or address of the reference data, such as the training data.
        b: Path or address of the data to compare with it.
        limit: Distance above which a column differs, 0..1.
        ignore: Columns to leave out, such as ids; a name that neither side has is an error.
        source: Options for reading data that must be ingested first.
        workers: Number of processes.

    Raises:
        DataError: Data cannot be read or has no rows.
        UsageError: `limit` is not within 0..1, or neither side has a column of `ignore`.
    """
    if not 0 <= limit <= 1:
        raise UsageError(f"`limit` must be within 0..1, got {limit}")
    before, now = (_statistics(place, source, workers) for place in (a, b))
    known = by_name(before).keys() | by_name(now).keys()
    if unknown := [name for name in ignore if name not in known]:
        raise UsageError(f"`ignore`: no column {unknown[0]!r}; expected {', '.join(sorted(known))}")
    found = compare(before, now, names=(a, b), limit=limit)
    kept = tuple(one for one in found.columns if one.column not in ignore)
    return replace(found, columns=kept)


def compare(
    before: Statistics, now: Statistics, *, names: tuple[str, str], limit: float
) -> DataDiff:
    """Computes the differences of two data sets from their statistics; both must have rows."""
    sides = by_name(before), by_name(now)
    columns = []
    for name, distance in distances(before, now):
        old, new = (side.get(name) for side in sides)
        columns.append(
            ColumnDiff(
                name,
                (_kind(old), _kind(new)),
                (_missing(old), _missing(new)),
                distance,
                tuple(_new_values(old, new)) if old is not None and new is not None else (),
            )
        )
    columns.sort(key=lambda one: (-one.distance, one.column))
    rows = (before.num_examples, now.num_examples)
    return DataDiff(names, rows, tuple(columns), limit)


def _kind(feature: FeatureStatistics | None) -> str | None:
    if feature is None or not feature.WhichOneof("stats"):
        return None
    return _KINDS.get(feature.type, "other")


def _missing(feature: FeatureStatistics | None) -> float | None:
    return None if feature is None else missing_share(feature)


def _new_values(old: FeatureStatistics, new: FeatureStatistics) -> Iterator[str]:
    known = {bucket.label for bucket in old.string_stats.rank_histogram.buckets}
    if len(known) < old.string_stats.unique or not new.HasField("string_stats"):
        return  # `old` does not list all its values, or `new` has no texts.
    for bucket in new.string_stats.rank_histogram.buckets:
        if bucket.label not in known:
            yield bucket.label


def _statistics(place: str, source: KindOptions | None, workers: int) -> Statistics:
    found = _stored(place) or _computed(place, source, workers)
    if not found.num_examples:
        raise DataError(f"{place}: has no rows to compare")
    return found


def _computed(place: str, source: KindOptions | None, workers: int) -> Statistics:
    with tempfile.TemporaryDirectory(prefix="penstock-diff-") as workspace:
        folder, split = _examples_folder(place)
        if folder is None:
            if source is None or source.kind in (None, *TABLE_KINDS):
                _require_data(Path(place))
            folder = os.path.join(workspace, "examples")
            _ingest(place, folder, source, workers)
        return _summarize(folder, split, workspace, workers)


def _stored(place: str) -> Statistics | None:
    """Returns statistics from a file, a split's folder, or the training split of an artifact."""
    names = {place} if place.endswith(".pb") else set()
    names |= {os.path.join(place, part, _STORED) for part in ("", split_dir("train"))}
    found = find_below(place) if is_remote(place) else [one for one in names if os.path.isfile(one)]
    path = next((one for one in found if one in names), None)
    if path is None:
        return None
    try:
        with open_data(path) as file:
            [first, *_] = statistics_pb2.DatasetFeatureStatisticsList.FromString(
                file.read()
            ).datasets
    except (DecodeError, ValueError) as error:
        raise DataError(f"{path}: is no file of statistics as StatisticsGen writes") from error
    return first


def _examples_folder(place: str) -> tuple[str | None, Sequence[str]]:
    """Returns a folder of Examples and the wanted splits (empty for all); None for other data."""
    if is_remote(place):
        has_manifest = any(file.endswith(f"/{MANIFEST_NAME}") for file in find_below(place))
        return (place if has_manifest else None), []
    path, head = Path(place), split_dir("")
    if path.name.startswith(head) and path.is_dir():
        return str(path.parent), [path.name.removeprefix(head)]
    is_examples = (path / MANIFEST_NAME).is_file() or any(path.glob(f"{head}*/"))
    return (place if is_examples else None), []


def _require_data(path: Path) -> None:
    """Raises a DataError for a folder without data, such as a node's folder above its artifacts."""
    if not path.is_dir() or any(one.is_file() or "=" in one.name for one in path.iterdir()):
        return
    below = (
        found for folders in ("*", "*/*") for found in path.glob(f"{folders}/{split_dir('*')}")
    )
    split = next(below, None)
    raise DataError(
        f"{path}: holds no Examples, statistics or data files; name the folder of an artifact, "
        f"with {split_dir('NAME')} in it{f', as {split.parent}' if split else ''}, or data"
    )


def _ingest(place: str, folder: str, source: KindOptions | None, workers: int) -> None:
    from penstock.components.engine.tasks import task_engine
    from penstock.components.example_gen.ingest import ingest
    from penstock.components.example_gen.options import IngestInput, Split, SplitOptions

    one_split = SplitOptions((Split("all"),))
    engine = task_engine(EngineOptions(workers=workers))
    ingest([IngestInput(place, source, one_split)], folder, engine=engine)


def _summarize(folder: str, wanted: Sequence[str], workspace: str, workers: int) -> Statistics:
    from tensorflow_data_validation import StatsOptions

    from penstock.components.batches.shards import run_shards, shard_tasks
    from penstock.components.batches.statistics import SummarizeShard
    from penstock.components.engine.tasks import task_engine
    from penstock.components.sources.tfrecords.examples import find_splits

    work = SummarizeShard(StatsOptions().to_json())
    splits = [split.name for split in find_splits(folder, wanted)]
    tasks = [task for split in splits for task in shard_tasks(folder, split)]
    engine = task_engine(EngineOptions(workers=workers))
    parts = run_shards(work, tasks, engine=engine, output=os.path.join(workspace, "statistics"))
    return work.merged(parts).datasets[0]
