"""Tables of Delta Lake as a `Source`; the package deltalake reads their log."""

import json
import os
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from penstock.components.errors import DataError, UsageError, short_error
from penstock.components.files.content import open_data
from penstock.components.files.remote import is_remote, normal_address
from penstock.components.sources import lake
from penstock.components.sources.parquet import ParquetSource
from penstock.components.sources.spread import Spread, here

_PARTITION = "partition."


def open_delta(inputs: Sequence[str], options: lake.Delta, spread: Spread = here) -> ParquetSource:
    place = lake.table_place(inputs, "delta")
    place = normal_address(place) if is_remote(place) else os.path.realpath(place)
    before = None
    with lake.errors_named(place, _explain):
        table, version = _open(place), options.version
        if time := options.time():
            version = _version_at(table, place, time)
        if version is not None:
            _load_version(table, place, version)
        snapshot = _snapshot(table, place)
        if options.since is not None:
            if options.since > snapshot.version:
                raise UsageError(
                    f"`since` {options.since} is after version {snapshot.version}, which is read"
                )
            _load_version(table, place, options.since)
            before = _snapshot(table, place)
    return lake.open_snapshot("delta", place, snapshot, before, options, spread)


def _open(place: str) -> Any:
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise UsageError(
            "kind 'delta' needs deltalake: pip install \"penstock-tfx[delta]\""
        ) from error
    if not (is_remote(place) or os.path.isdir(os.path.join(place, "_delta_log"))):
        what = (
            "is no Delta table: it has no _delta_log" if os.path.isdir(place) else "no such folder"
        )
        raise DataError(f"{place}: {what}; name the folder that holds _delta_log")
    # By default its S3 client refuses plain http, which test servers and on-site stores may use.
    is_plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http:")
    return DeltaTable(place, storage_options={"AWS_ALLOW_HTTP": str(is_plain).lower()})


def _explain(error: Exception) -> str:
    return (
        f"cannot be read as a Delta table ({short_error(error)}); name the folder that holds "
        "_delta_log, and a version that the log still has"
    )


def _load_version(table: Any, place: str, version: int) -> None:
    try:
        table.load_as_version(version)
    except Exception as error:  # deltalake raises several types
        latest = _open(place).version()
        known = "the log no longer has it" if 0 <= version <= latest else f"the latest is {latest}"
        raise DataError(f"{place}: has no version {version}: {known}") from error


def _version_at(table: Any, place: str, time: datetime) -> int:
    """Returns the latest version that was written at `time` or before."""
    latest, until = table.version(), 1000 * time.timestamp()
    # Compares times of the log's files, which copying changes; loads the oldest if all are later.
    table.load_as_version(time)
    version: int = table.version()
    while version < latest and _written(place, version + 1) <= until:
        version += 1
    while _written(place, version) > until:
        if not version:
            raise UsageError(f"`as_of` {time.isoformat()} is before the table was made")
        version -= 1
    return version


def _written(place: str, version: int) -> int:
    """Returns the time, in ms since 1970, at which the log says that a version was written."""
    try:
        with open_data(lake.located(f"{place}/_delta_log/{version:020d}.json")) as log:
            infos = [json.loads(line).get("commitInfo", {}) for line in log if line.strip()]
    except DataError:
        infos = []
    for info in infos:
        if written := info.get("inCommitTimestamp", info.get("timestamp")):
            return int(written)
    raise DataError(
        f"{place}: the log does not say when version {version} was written (its entry was removed, "
        "or has no time), so `as_of` cannot be resolved; give a later time, or `version`"
    )


def _snapshot(table: Any, place: str) -> lake.Snapshot:
    columns = [
        lake.LakeColumn(
            one["name"],
            str(one["type"]),
            # Files of a table with column mapping have other names.
            one["metadata"].get("delta.columnMapping.physicalName", one["name"]),
        )
        for one in json.loads(table.schema().to_json())["fields"]
    ]
    actions = table.get_add_actions(flatten=True)
    names = [name for name in actions.schema.names if name.startswith(_PARTITION)]
    deleted, files = _deleted(table), []
    values = zip(*(_values(actions, name) for name in names), strict=True) if names else None
    for path in _values(actions, "path"):
        partitions = zip(names, next(values), strict=True) if values else ()
        whole = unquote(path) if "://" in path else f"{place}/{unquote(path)}"
        files.append(
            lake.DataFile(
                whole,
                {name.removeprefix(_PARTITION): value for name, value in partitions},
                deleted.pop(whole, ()),
            )
        )
    if deleted:
        raise DataError(f"{place}: has deletions in {next(iter(deleted))}, not a file of it")
    return lake.Snapshot(table.version(), table.metadata().id, columns, files)


def _values(batch: Any, name: str) -> list[Any]:
    return [value.as_py() for value in batch[name]]


def _deleted(table: Any) -> dict[str, tuple[int, ...]]:
    found = {}
    if "deletionVectors" in (table.protocol().reader_features or ()):
        for batch in table.deletion_vectors():
            kept = zip(_values(batch, "filepath"), _values(batch, "selection_vector"), strict=True)
            for uri, keep in kept:
                path = unquote(urlsplit(uri).path if uri.startswith("file:") else uri)
                found[path] = tuple(np.flatnonzero(~np.array(keep, np.bool_)).tolist())
    return found
