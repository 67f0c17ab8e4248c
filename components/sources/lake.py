"""One version of a table whose log lists Parquet files (Delta, Iceberg), as a `Source`."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from penstock.components.errors import DataError, UsageError
from penstock.components.files.listing import Listing
from penstock.components.files.remote import is_remote, remote_file
from penstock.components.sources.columnar import type_columns
from penstock.components.sources.files import inspect_files, map_files
from penstock.components.sources.options import ColumnOptions
from penstock.components.sources.parquet import ParquetFile, ParquetSource, inspect_parquet
from penstock.components.sources.spread import Spread

# Names of types in the tables' schemas (Delta, Iceberg) that differ from Arrow's own.
_ARROW_TYPES = {
    "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "int": pa.int32(),
    "long": pa.int64(), "boolean": pa.bool_(), "date": pa.date32(), "string": pa.string(),
    "binary": pa.binary(), "float": pa.float32(), "double": pa.float64(),
    "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip


@dataclass(frozen=True)
class LakeOptions(ColumnOptions):
    """Options shared by tables with a log.

    Attributes:
        version: Version (Delta) or snapshot id (Iceberg) to read; None reads the latest.
        as_of: Time, as 2024-05-01T12:00:00Z, at which the table is read.
        since: Read only the rows that were added after this version or snapshot id; fails if rows
            were deleted or rewritten since.
    """

    version: int | None = None
    as_of: str | None = None
    since: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.version is not None and self.as_of is not None:
            raise UsageError("`version` and `as_of` are both given; give one of them")
        self.time()

    def time(self) -> datetime | None:
        """Returns `as_of` as a time, in UTC if it names no zone."""
        if self.as_of is None:
            return None
        try:
            time = datetime.fromisoformat(self.as_of.replace("Z", "+00:00"))
        except ValueError as error:
            raise UsageError(
                f"`as_of` must be a time as 2024-05-01T12:00:00Z, got {self.as_of!r}"
            ) from error
        return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


@dataclass(frozen=True)
class Delta(LakeOptions):
    """A version of a table of Delta Lake, by its folder or address."""

    kind: str = "delta"


@dataclass(frozen=True)
class Iceberg(LakeOptions):
    """A snapshot of an Iceberg table, by its `...metadata.json`, its folder or CATALOG.DB.TABLE."""

    kind: str = "iceberg"


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of a table, as the table's log describes it."""

    path: str
    partitions: Mapping[str, Any] = field(default_factory=dict)  # Values by column.
    deleted: tuple[int, ...] = ()  # Rows of the file, from 0, that the table no longer has.


class LakeColumn(NamedTuple):
    """A column of a table: name, type, and its name or Parquet field id in the files."""

    name: str
    type: str
    stored: str | int


@dataclass(frozen=True)
class Snapshot:
    version: int
    identity: str  # Equal for all versions of the table.
    columns: Sequence[LakeColumn]
    files: Sequence[DataFile]
    ids: Mapping[str, str | int] = field(default_factory=dict)  # By column, for files without ids.


def table_place(inputs: Sequence[str], kind: str) -> str:
    """Returns the only input, without the `/*` that a node appends."""
    if len(inputs) != 1:
        raise UsageError(f"--kind {kind} reads one table, got {len(inputs)} inputs")
    return inputs[0].removesuffix("/*").rstrip("/")


@contextmanager
def errors_named(place: str, explain: Callable[[Exception], str]) -> Iterator[None]:
    """Turns errors of a table's library into a DataError with the place."""
    try:
        yield
    except (DataError, UsageError):
        raise
    except Exception as error:
        raise DataError(f"{place}: {explain(error)}") from error


def open_snapshot(
    kind: str,
    table: str,
    snapshot: Snapshot,
    before: Snapshot | None,
    options: LakeOptions,
    spread: Spread,
) -> ParquetSource:
    wanted = _added(table, snapshot, before) if before else list(snapshot.files)
    # If no rows are to be read, the table's first file gives the types of the columns.
    opened = wanted or (list(snapshot.files[:1]) if options.allow_empty else [])
    paths = map_files(located, [one.path for one in opened])
    found = inspect_files(inspect_parquet, paths, spread) if paths else []
    files = [_as_listed(*pair, snapshot) for pair in zip(found, opened, strict=True)]
    if not wanted:
        files = [replace(file, rows=0) for file in files]
    if not files or not (options.allow_empty or any(file.rows for file in files)):
        what = f"no rows were added since {options.since}" if before else "has no rows"
        raise DataError(f"{table}: {what} (version {snapshot.version}); set `allow_empty` to go on")
    source = ParquetSource.of(
        kind,
        files,
        Listing(tuple(paths), ()),
        columns=type_columns(files, options),
        options=options,
        snapshot=f"{snapshot.version}" + (f", since {options.since}" if before else ""),
        notes=(f"version {snapshot.version} of the table",),
    )
    # Columns and ids of a table may change without a new version, so the digest covers them.
    content = f"{kind} {snapshot.identity} {source.snapshot} {snapshot.columns} {snapshot.ids}"
    return replace(source, fingerprint=hashlib.sha256(content.encode()).hexdigest())


def _added(table: str, snapshot: Snapshot, before: Snapshot) -> list[DataFile]:
    kept = {one.path: one.deleted for one in snapshot.files}
    for file in before.files:
        if kept.get(file.path) != file.deleted:
            raise DataError(
                f"{table}: rows of version {before.version} were deleted or rewritten until "
                f"version {snapshot.version} (at least in {file.path}), and `since` reads only "
                "tables that were appended to; read a whole version"
            )
    old = {one.path for one in before.files}
    return [one for one in snapshot.files if one.path not in old]


def located(path: str) -> str:
    """Returns the path, or the object in its current version, of a location in a log."""
    if path.startswith("file:"):
        return "/" + path.removeprefix("file:").lstrip("/")
    return remote_file(path) if is_remote(path) else path


def _as_listed(file: ParquetFile, listed: DataFile, snapshot: Snapshot) -> ParquetFile:
    """Returns a file with the table's columns; a column that it lacks has one value in all rows."""
    by_id: dict[str | int | None, str] = {_field_id(one): one.name for one in file.schema}
    if set(by_id) == {None}:  # Added by another tool, such as Iceberg's `add_files`.
        ids = snapshot.ids or {column.name: column.stored for column in snapshot.columns}
        by_id = {ids[name]: name for name in file.schema.names if name in ids}
    stored, constants, fields = {}, {}, []
    for column in snapshot.columns:
        name = by_id.get(column.stored) if isinstance(column.stored, int) else column.stored
        if name is not None and name in file.schema.names:
            stored[column.name] = name
            fields.append(file.schema.field(name).with_name(column.name))
        else:
            value, arrow_type = listed.partitions.get(column.name), _arrow_type(column.type)
            if value is not None and pa.types.is_null(arrow_type):
                raise DataError(
                    f"{file.path}: lacks the partition column {column.name!r} of type "
                    f"{column.type}, which is read from data files alone; write it into them"
                )
            constants[column.name] = value
            fields.append(pa.field(column.name, arrow_type))
    return replace(
        file,
        schema=pa.schema(fields),
        stored=stored,
        constants=constants,
        deleted=np.array(listed.deleted, np.int64),
        rows=file.rows - len(listed.deleted),
    )


def _field_id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(b"PARQUET:field_id")
    return int(text) if text else None


def _arrow_type(name: str) -> pa.DataType:
    if name.startswith("decimal("):
        return pa.decimal128(*map(int, name[len("decimal(") : -1].split(",")))
    return _ARROW_TYPES.get(name, pa.null())
