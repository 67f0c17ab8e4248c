"""Tables of Apache Iceberg as a `Source`; the package pyiceberg reads their metadata."""

import os
from collections.abc import Sequence
from typing import Any, BinaryIO

from penstock.components.errors import DataError, UsageError
from penstock.components.files.content import look, open_data
from penstock.components.files.remote import is_remote
from penstock.components.sources import lake
from penstock.components.sources.columnar import ColumnarSource
from penstock.components.sources.spread import Spread

try:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.io import FileIO, InputFile
    from pyiceberg.table import StaticTable
except ModuleNotFoundError as error:
    raise UsageError(
        "kind 'iceberg' needs pyiceberg: pip install 'penstock-tfx[iceberg]'"
    ) from error

_HOW_TO_NAME = (
    "name its current metadata file (.../metadata/00007-....metadata.json), its folder if that has "
    "metadata/version-hint.text, or CATALOG.DATABASE.TABLE"
)
_MERGE = "merge them into the data files, in Spark by CALL system.rewrite_data_files(...)"


def open_iceberg(inputs: Sequence[str], options: lake.Iceberg, spread: Spread) -> ColumnarSource:
    del spread  # Unused: opening reads only the footers of the data files.
    place = lake.table_place(inputs, "iceberg")
    with lake.errors_named(place, f"{_HOW_TO_NAME}; if it has deletes, {_MERGE}"):
        snapshot = _snapshot(_load(place), options.as_of)
    return lake.open_snapshot("iceberg", place, snapshot, options)


class PenstockFileIO(FileIO):
    """Opens metadata in the same way as data files: with retries and the same credentials."""

    def new_input(self, location: str) -> "_Input":
        return _Input(location)

    def new_output(self, location: str) -> Any:
        raise UsageError(f"{location}: tables of Iceberg are only read")

    def delete(self, location: Any) -> None:
        self.new_output(location)


class _Input(InputFile):
    def __len__(self) -> int:
        return look(lake.located(self.location))[0]

    def exists(self) -> bool:
        return True  # `open` raises an error that names the missing file.

    def open(self, seekable: bool = True) -> BinaryIO:
        del seekable
        return open_data(lake.located(self.location))


def _load(place: str) -> Any:
    ours = {"py-io-impl": f"{__name__}.{PenstockFileIO.__name__}"}
    if is_remote(place) or os.path.exists(place):
        try:
            return StaticTable.from_metadata(place, ours)
        except DataError as error:
            raise DataError(f"{error}; {_HOW_TO_NAME}") from error
    catalog, _, name = place.partition(".")
    return load_catalog(catalog, **ours).load_table(name)


def _snapshot(table: Any, as_of: int | None) -> lake.Snapshot:
    chosen, schema = table.current_snapshot(), table.schema()
    if as_of is not None:
        chosen = table.snapshot_by_id(as_of)
        schema = chosen and table.schemas().get(chosen.schema_id, schema)
    if chosen is None:
        ids = ", ".join(str(one.snapshot_id) for one in table.metadata.snapshots[-8:])
        raise DataError(f"{table.location()}: has no such snapshot; the latest are {ids or 'none'}")
    columns = [
        lake.LakeColumn(one.name, str(one.field_type).replace(" ", ""), one.field_id)
        for one in schema.fields
    ]
    names = {one.field_id: one.name for one in schema.fields}
    specs, files = table.specs(), []
    for task in table.scan(snapshot_id=chosen.snapshot_id).plan_files():
        path = task.file.file_path
        if task.delete_files:
            raise DataError(f"{path}: has rows that other files delete; {_MERGE}")
        # The format is a string or an enum, depending on the version of pyiceberg.
        form = str(getattr(task.file.file_format, "value", task.file.file_format)).upper()
        if form != "PARQUET":
            raise DataError(f"{path}: is {form}, expected Parquet; write it as Parquet")
        partitions = {
            names[field.source_id]: task.file.partition[at]
            for at, field in enumerate(specs[task.file.spec_id].fields)
            if str(field.transform) == "identity" and field.source_id in names
        }
        files.append(lake.DataFile(path, partitions))
    files.sort(key=lambda file: file.path)
    return lake.Snapshot(chosen.snapshot_id, str(table.metadata.table_uuid), columns, files)
