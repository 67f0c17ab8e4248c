"""Any snapshot of Iceberg tables, with metadata written by pyiceberg."""

import datetime
import os
import re
from pathlib import Path

import pyarrow as pa
import pytest
from lake_tables import IcebergTable, read

from penstock.components.errors import DataError
from penstock.components.example_gen.ingest import IngestInput, ingest
from penstock.components.sources.base import Column
from penstock.components.sources.lake import Iceberg
from penstock.components.sources.open import open_source
from penstock.components.tfrecord.feature_kind import FeatureKind

pytest.importorskip("pyiceberg")
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DateType, DoubleType, LongType, NestedField, StringType, TimeType
from pyiceberg.utils.config import Config

INT, FLOAT, BYTES = FeatureKind.INT, FeatureKind.FLOAT, FeatureKind.BYTES
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "day", DateType(), required=False),
    NestedField(3, "city", StringType(), required=False),
)
DAY = datetime.date(2024, 1, 1)


def ids(source):
    return [row["id"] for row in read(source)]


def opened(place, **options):
    return open_source(str(place), Iceberg(**options))


def rows(first, last):
    count = last - first
    return {
        "id": pa.array(range(first, last), pa.int64()),
        "day": pa.array([DAY] * count, pa.date32()),
        "city": [f"c{i}" for i in range(first, last)],
    }


@pytest.fixture
def trips(tmp_path):
    table = IcebergTable(tmp_path, SCHEMA)
    table.versions = [table.append(rows(0, 3)), table.append(rows(3, 6))]
    return table


def test_snapshots_are_read_by_metadata_file_and_by_catalog(trips, monkeypatch):
    source = opened(trips.metadata)
    assert source.columns == (Column("id", INT), Column("day", INT), Column("city", BYTES))
    assert read(source)[4] == {"id": 4, "day": 19723, "city": b"c4"}
    assert ids(opened(trips.metadata, as_of=trips.versions[0])) == [0, 1, 2]
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", trips.uri)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    assert ids(opened("lake.db.trips")) == [0, 1, 2, 3, 4, 5]


def test_a_folder_is_read_by_its_version_hint(trips, tmp_path):
    with pytest.raises(DataError, match=r"name its current metadata file .*CATALOG.DATABASE.TABLE"):
        opened(tmp_path / "warehouse/db/trips")
    hint = re.sub(r".*/", "", trips.metadata)
    (tmp_path / "warehouse/db/trips/metadata/version-hint.text").write_text(hint)
    assert len(ids(opened(tmp_path / "warehouse/db/trips"))) == 6


def test_the_snapshot_is_in_the_manifest(trips, tmp_path):
    first, _ = trips.versions
    manifest = ingest([IngestInput(trips.metadata, Iceberg(as_of=first))], tmp_path / "out")
    assert (manifest.source_snapshot, manifest.account.read) == (str(first), 3)
    with pytest.raises(DataError, match="has no such snapshot; the latest are"):
        opened(trips.metadata, as_of=1)


@pytest.mark.parametrize("kind", ["positions", "values", "deletion vector"])
def test_a_table_with_deletes_is_refused(trips, kind):
    if kind == "positions":
        trips.delete(trips.last, [0])
    elif kind == "values":
        trips.delete_equal({"id": [1]})
    else:
        trips.add_deletion_vector()
    with pytest.raises(DataError, match=r"delete.* merge them into the data files") as error:
        opened(trips.metadata)
    assert "\n" not in str(error.value)
    assert ids(opened(trips.metadata, as_of=trips.versions[-1])) == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("place", ["/dev/zero", "pipe"])
def test_metadata_that_names_a_device_or_a_pipe_is_refused(trips, tmp_path, place):
    if place == "pipe":
        os.mkfifo(tmp_path / "pipe")
        place = str(tmp_path / "pipe")
    metadata = Path(trips.metadata)
    metadata.write_text(
        re.sub(r'("manifest-list":\s*)"[^"]*"', rf'\1"{place}"', metadata.read_text())
    )
    with pytest.raises(DataError, match=f"{place}: is no regular file"):
        opened(metadata)


def test_folder_of_a_table_says_its_kind(trips):
    with pytest.raises(DataError, match=r"is an Iceberg table.* --kind iceberg"):
        open_source(trips.metadata.rpartition("/metadata/")[0])


def test_columns_that_were_renamed_added_and_dropped(trips):
    with trips.table.update_schema() as update:
        update.rename_column("city", "place")
        update.add_column("fare", DoubleType())
        update.delete_column("day")
    trips.append({"id": [6], "place": ["c6"], "fare": [1.5]})
    source = opened(trips.metadata)
    assert source.columns == (Column("id", INT), Column("place", BYTES), Column("fare", FLOAT))
    assert read(source)[-2:] == [
        {"id": 5, "place": b"c5", "fare": None},
        {"id": 6, "place": b"c6", "fare": 1.5},
    ]
    old = opened(trips.metadata, as_of=trips.versions[0])
    assert [column.name for column in old.columns] == ["id", "day", "city"]


def test_the_latest_rows_have_the_columns_that_the_table_has_now(trips):
    before = opened(trips.metadata)
    with trips.table.update_schema() as update:
        update.rename_column("city", "place")
    source = opened(trips.metadata)
    assert source.fingerprint != before.fingerprint
    assert read(source)[0] == {"id": 0, "day": 19723, "place": b"c0"}
    old = opened(trips.metadata, as_of=trips.versions[1])
    assert [column.name for column in old.columns] == ["id", "day", "city"]


def test_a_table_without_rows_is_refused(tmp_path):
    table = IcebergTable(tmp_path, SCHEMA)
    table.append(rows(0, 0))
    with pytest.raises(DataError, match=r"has no rows \(version .*, and no data files"):
        opened(table.metadata, allow_empty=True)


def test_a_file_without_field_ids_is_refused(trips):
    trips.append(rows(6, 7), ids=False)
    with pytest.raises(DataError, match=r"has no field ids, .* write it again"):
        opened(trips.metadata)


def test_an_identity_partition_that_is_in_no_file_is_a_column(tmp_path):
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "day"))
    table = IcebergTable(tmp_path, SCHEMA, spec)
    table.append({"id": [1], "city": ["x"]}, partition=(19723,))
    table.append({"id": [2], "city": ["y"]}, partition=(None,))
    assert read(opened(table.metadata)) == [
        {"id": 1, "day": 19723, "city": b"x"},
        {"id": 2, "day": None, "city": b"y"},
    ]


def test_a_partition_of_a_type_that_only_files_hold_is_named(tmp_path):
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "at", TimeType(), required=False),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "at"))
    table = IcebergTable(tmp_path, schema, spec)
    table.append({"id": [1]}, partition=(3_600_000_000,))
    with pytest.raises(DataError, match=r"lacks the partition column 'at' of type time, .*"):
        opened(table.metadata)


@pytest.mark.skipif(
    not hasattr(pa.types, "is_string_view"), reason="pyiceberg writes by pyarrow 17"
)
def test_a_table_that_pyiceberg_wrote_whole(trips):
    trips.table.append(pa.table(rows(6, 9)))
    trips.table.delete("id = 1")
    assert ids(opened(trips.metadata)) == [0, 2, 3, 4, 5, 6, 7, 8]
