"""Tables of Delta Lake and Apache Iceberg as a `Source`; their metadata lists Parquet files.

The package deltalake reads the logs of Delta tables; `iceberg.py` reads the metadata of Iceberg.
"""

import hashlib
import json
import os
import posixpath
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa

from penstock.components.errors import DataError, PenstockError, UsageError, short_error
from penstock.components.files.find import Found, FoundFile
from penstock.components.files.remote import is_remote, normal_address, remote_file
from penstock.components.sources.columnar import ColumnarFile, ColumnarSource, type_columns
from penstock.components.sources.files import map_files
from penstock.components.sources.options import ColumnOptions
from penstock.components.sources.parquet import inspect_parquet, read_parquet
from penstock.components.sources.spread import Spread

# Arrow's types, by the names of types in the schemas of Delta and Iceberg tables.
_ARROW_TYPES = {
    "byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "int": pa.int32(),
    "long": pa.int64(), "boolean": pa.bool_(), "date": pa.date32(), "string": pa.string(),
    "binary": pa.binary(), "float": pa.float32(), "double": pa.float64(),
    "timestamp": pa.timestamp("us"), "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}  # fmt: skip
# Prefix of partition columns in deltalake's list of files.
_PARTITION = "partition."
_DELTA_ADVICE = "name the folder that holds _delta_log, and a version that the log still has"


@dataclass(frozen=True)
class LakeOptions(ColumnOptions):
    """Options shared by Delta and Iceberg tables.

    Attributes:
        as_of: Version (Delta) or snapshot id (Iceberg) to read; None reads the latest.
    """

    as_of: int | None = None


@dataclass(frozen=True)
class Delta(LakeOptions):
    """A version of a Delta Lake table, given by its folder or address."""

    kind: str = "delta"


@dataclass(frozen=True)
class Iceberg(LakeOptions):
    """A snapshot of an Iceberg table, given by `...metadata.json`, folder or CATALOG.DB.TABLE."""

    kind: str = "iceberg"


class DataFile(NamedTuple):
    """A Parquet file of a table, as the table's log describes it."""

    path: str
    partitions: Mapping[str, Any]  # Partition values, by column.


class LakeColumn(NamedTuple):
    """A column of a table: name, type, and its name or Parquet field id in the files."""

    name: str
    type: str
    stored: str | int


class Snapshot(NamedTuple):
    version: int
    identity: str  # The same for all versions of the table
    columns: Sequence[LakeColumn]
    files: Sequence[DataFile]


def table_place(inputs: Sequence[str], kind: str) -> str:
    """Returns the only input, without `/*`, TFX's default pattern, which a pipeline appends."""
    if len(inputs) != 1:
        raise UsageError(f"--kind {kind} reads one table, got {len(inputs)} inputs")
    return inputs[0].removesuffix("/*").rstrip("/")


@contextmanager
def errors_named(place: str, advice: str) -> Iterator[None]:
    """Turns errors of the library that reads a table into a DataError that names the table."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:  # each library raises several types of errors
        raise DataError(f"{place}: cannot be read ({short_error(error)}); {advice}") from error


def open_snapshot(
    kind: str, table: str, snapshot: Snapshot, options: LakeOptions
) -> ColumnarSource:
    """Returns the source of a table's version; its fingerprint needs no hashes of data files."""
    paths = map_files(located, [one.path for one in snapshot.files])
    found = map_files(inspect_parquet, paths)
    files = [_as_listed(*pair, snapshot) for pair in zip(found, snapshot.files, strict=True)]
    if not any(file.rows for file in files) and not (files and options.allow_empty):
        advice = "; set `allow_empty` to go on" if files else ", and no data files"
        raise DataError(f"{table}: has no rows (version {snapshot.version}){advice}")
    # Columns of a table may change without a new version, so the digest covers them.
    content = f"{kind} {snapshot.identity} {snapshot.version} {snapshot.columns}"
    return ColumnarSource.of(
        kind,
        files,
        Found([FoundFile(path, path) for path in paths]),
        columns=type_columns(files, options),
        fingerprint=hashlib.sha256(content.encode()).hexdigest(),
        options=options,
        read_groups=read_parquet,
        snapshot=str(snapshot.version),
        notes=(f"version {snapshot.version} of the table",),
    )


def located(path: str) -> str:
    """Converts a location in a log to a local path, or to the current version of a remote file."""
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    if is_remote(path):
        return remote_file(path)
    with suppress(FileNotFoundError):  # The reader raises an error that names the missing file.
        if not stat.S_ISREG(os.stat(path).st_mode):  # reading a pipe or device would never end
            raise DataError(f"{path}: is no regular file; restore the table from a copy")
    return path


def _as_listed(file: ColumnarFile, listed: DataFile, snapshot: Snapshot) -> ColumnarFile:
    """Returns a file with the table's columns.

    A column that the file lacks has the same value in all rows: the partition value, or null.
    """
    by_id: dict[str | int | None, str] = {_field_id(one): one.name for one in file.schema}
    if isinstance(snapshot.columns[0].stored, int) and set(by_id) == {None}:
        raise DataError(
            f"{file.path}: has no field ids, as a file that another tool wrote and that was "
            "added to the table; write it again, in Spark by CALL system.rewrite_data_files"
        )
    stored, constants, fields = {}, {}, []
    for column in snapshot.columns:
        name = by_id.get(column.stored, str(column.stored))
        if name in file.schema.names:
            stored[column.name] = name
            fields.append(file.schema.field(name).with_name(column.name))
            continue
        constants[column.name] = value = listed.partitions.get(column.name)
        arrow_type = _arrow_type(column.type)
        if value is not None and pa.types.is_null(arrow_type):
            raise DataError(
                f"{file.path}: lacks the partition column {column.name!r} of type {column.type}, "
                "which is read from data files alone; write it into them"
            )
        fields.append(pa.field(column.name, arrow_type))
    return replace(file, schema=pa.schema(fields), stored=stored, constants=constants)


def _field_id(field: pa.Field) -> int | None:
    text = (field.metadata or {}).get(b"PARQUET:field_id")
    return int(text) if text else None


def _arrow_type(name: str) -> pa.DataType:
    if name.startswith("decimal("):
        return pa.decimal128(*map(int, name[len("decimal(") : -1].split(",")))
    return _ARROW_TYPES.get(name, pa.null())


def open_delta(inputs: Sequence[str], options: Delta, spread: Spread) -> ColumnarSource:
    del spread  # Unused: opening reads only the footers of the data files.
    place = table_place(inputs, "delta")
    place = normal_address(place) if is_remote(place) else os.path.realpath(place)
    with errors_named(place, _DELTA_ADVICE):
        snapshot = _delta_snapshot(_delta_table(place, options.as_of), place)
    return open_snapshot("delta", place, snapshot, options)


def _delta_table(place: str, version: int | None) -> Any:
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise UsageError(
            "kind 'delta' needs deltalake: pip install \"penstock-tfx[delta]\""
        ) from error
    # By default, the library's S3 client refuses plain http, which test servers and on-site stores
    # may use.
    is_plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http:")
    options = {"AWS_ALLOW_HTTP": str(is_plain).lower()}
    return DeltaTable(place, version=version, storage_options=options)


def _delta_snapshot(table: Any, place: str) -> Snapshot:
    # Every table is asked for deletion vectors, because a log may contain some although the table's
    # protocol does not list this feature.
    for batch in table.deletion_vectors():
        for file in _values(batch, "filepath"):
            raise DataError(
                f"{place}: rows of {posixpath.basename(file)} are deleted by a deletion vector, "
                "which is not read; merge it into the data files, in Spark by REORG TABLE ... "
                "APPLY (PURGE)"
            )
    columns = [
        LakeColumn(
            one["name"],
            str(one["type"]),
            # With column mapping, columns have other names in the files than in the table.
            one["metadata"].get("delta.columnMapping.physicalName", one["name"]),
        )
        for one in json.loads(table.schema().to_json())["fields"]
    ]
    actions = table.get_add_actions(flatten=True)
    names = [name for name in actions.schema.names if name.startswith(_PARTITION)]
    by_name = {name.removeprefix(_PARTITION): _values(actions, name) for name in names}
    files = [
        DataFile(_within(place, path), {name: by_name[name][at] for name in by_name})
        for at, path in enumerate(_values(actions, "path"))
    ]
    return Snapshot(table.version(), table.metadata().id, columns, files)


def _within(place: str, path: str) -> str:
    """Returns a data file's path or address; raises DataError if it is outside the table."""
    inner = unquote(path)
    whole = inner if "://" in inner else posixpath.join(place, inner)
    bare = whole.removeprefix("file://")
    if ".." in bare.split("/") or not bare.startswith(f"{place}/"):
        raise DataError(f"{place}: its log names {path}, which is not within the table")
    return whole


def _values(batch: Any, name: str) -> list[Any]:
    return [value.as_py() for value in batch[name]]
