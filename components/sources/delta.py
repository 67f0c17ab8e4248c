"""Tables of Delta Lake as a `Source`; the package deltalake reads their log."""

import json
import os
import posixpath
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from penstock.components.errors import DataError, UsageError
from penstock.components.files.remote import is_remote, normal_address
from penstock.components.sources import lake
from penstock.components.sources.columnar import ColumnarSource
from penstock.components.sources.spread import Spread

_PARTITION = "partition."
_ADVICE = "name the folder that holds _delta_log, and a version that the log still has"


def open_delta(inputs: Sequence[str], options: lake.Delta, spread: Spread) -> ColumnarSource:
    del spread  # only footers are read
    place = lake.table_place(inputs, "delta")
    place = normal_address(place) if is_remote(place) else os.path.realpath(place)
    with lake.errors_named(place, _ADVICE):
        table = _open(place, options.as_of)
        snapshot = _snapshot(table, place)
    return lake.open_snapshot("delta", place, snapshot, options)


def _open(place: str, version: int | None) -> Any:
    try:
        from deltalake import DeltaTable
    except ImportError as error:
        raise UsageError(
            "kind 'delta' needs deltalake: pip install \"penstock-tfx[delta]\""
        ) from error
    # By default its S3 client refuses plain http, which test servers and on-site stores may use.
    is_plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http:")
    options = {"AWS_ALLOW_HTTP": str(is_plain).lower()}
    return DeltaTable(place, version=version, storage_options=options)


def _snapshot(table: Any, place: str) -> lake.Snapshot:
    # Asked of every table, since a log may hold deletion vectors that its protocol does not name.
    for batch in table.deletion_vectors():
        for file in _values(batch, "filepath"):
            raise DataError(
                f"{place}: rows of {posixpath.basename(file)} are deleted by a deletion vector, "
                "which is not read; merge it into the data files, in Spark by REORG TABLE ... "
                "APPLY (PURGE)"
            )
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
    by_name = {name.removeprefix(_PARTITION): _values(actions, name) for name in names}
    files = [
        lake.DataFile(_within(place, path), {name: by_name[name][at] for name in by_name})
        for at, path in enumerate(_values(actions, "path"))
    ]
    return lake.Snapshot(table.version(), table.metadata().id, columns, files)


def _within(place: str, path: str) -> str:
    """Returns the place of a data file; DataError if the log leads out of the table."""
    inner = unquote(path)
    whole = inner if "://" in inner else posixpath.join(place, inner)
    bare = whole.removeprefix("file://")
    if ".." in bare.split("/") or not bare.startswith(f"{place}/"):
        raise DataError(f"{place}: its log names {path}, which is not within the table")
    return whole


def _values(batch: Any, name: str) -> list[Any]:
    return [value.as_py() for value in batch[name]]
