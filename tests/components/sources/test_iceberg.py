"""Tables of Iceberg, with metadata by pyiceberg: any snapshot, and what was added since."""

import datetime
import json
import re

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

from penstock.components.sources import iceberg

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
    assert ids(opened(trips.metadata, version=trips.versions[0])) == [0, 1, 2]
    time = trips.table.metadata.snapshots[0].timestamp_ms / 1000
    time = datetime.datetime.fromtimestamp(time, datetime.timezone.utc).isoformat()
    assert ids(opened(trips.metadata, as_of=time))[:3] == [0, 1, 2]
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


def test_rows_added_since_a_snapshot_are_read(trips, tmp_path):
    first, second = trips.versions
    options = Iceberg(since=first)
    assert ids(open_source(trips.metadata, options)) == [3, 4, 5]
    manifest = ingest([IngestInput(trips.metadata, options)], tmp_path / "out")
    assert manifest.source_snapshot == f"{second}, since {first}"
    with pytest.raises(DataError, match="no rows were added"):
        opened(trips.metadata, since=second)
    for unknown in ({"version": 1}, {"since": 1}):
        with pytest.raises(DataError, match="has no such snapshot; the latest are"):
            opened(trips.metadata, **unknown)


def test_positional_deletes_are_honoured(trips):
    before = trips.versions[-1]
    trips.append(rows(6, 206))
    trips.delete(trips.last, [0, 5, 199])
    trips.delete(trips.last, [5])
    source = opened(trips.metadata)
    assert source.rows == 203
    kept = [*range(6), *(i for i in range(6, 206) if i not in (6, 11, 205))]
    assert ids(source) == kept
    assert ids(opened(trips.metadata, since=before)) == kept[6:]


@pytest.mark.parametrize("kind", ["equality deletes", "is PUFFIN, expected Parquet; such deletes"])
def test_deletes_that_are_not_read_are_refused(trips, kind):
    if kind == "equality deletes":
        trips.delete_equal({"id": [1]})
    else:
        trips.add_deletion_vector()
    with pytest.raises(DataError, match=f"{kind}.* merge them into the data files") as error:
        opened(trips.metadata)
    assert "\n" not in str(error.value)


def test_folder_of_a_table_says_its_kind(trips):
    with pytest.raises(DataError, match=r"is an Iceberg table.* --kind iceberg"):
        open_source(trips.metadata.rpartition("/metadata/")[0])


def test_rows_deleted_since_a_snapshot_are_refused(trips):
    before = trips.versions[-1]
    trips.delete(trips.last, [1])
    with pytest.raises(DataError, match=f"rows of version {before} were deleted or rewritten"):
        opened(trips.metadata, since=before)


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
    old = opened(trips.metadata, version=trips.versions[0])
    assert [column.name for column in old.columns] == ["id", "day", "city"]


def test_the_latest_rows_have_the_columns_that_the_table_has_now(trips):
    before = opened(trips.metadata)
    with trips.table.update_schema() as update:
        update.rename_column("city", "place")
    source = opened(trips.metadata)
    assert source.fingerprint != before.fingerprint
    assert read(source)[0] == {"id": 0, "day": 19723, "place": b"c0"}
    assert read(opened(trips.metadata, since=trips.versions[0]))[0]["place"] == b"c3"
    old = opened(trips.metadata, version=trips.versions[1])
    assert [column.name for column in old.columns] == ["id", "day", "city"]


def test_a_renamed_column_of_a_file_without_field_ids_is_found_by_the_name_mapping(trips):
    names = [{"field-id": at, "names": [one]} for at, one in enumerate(("id", "day", "city"), 1)]
    with trips.table.transaction() as change:
        change.set_properties({"schema.name-mapping.default": json.dumps(names)})
    trips.append(rows(6, 7), ids=False)
    with trips.table.update_schema() as update:
        update.rename_column("city", "place")
    trips.append({"id": [7], "place": ["c7"]})
    assert [row["place"] for row in read(opened(trips.metadata))[-2:]] == [b"c6", b"c7"]


def test_a_table_without_rows_is_refused_unless_it_may_be_empty(tmp_path):
    table = IcebergTable(tmp_path, SCHEMA)
    table.append(rows(0, 1))
    table.delete(table.last, [0])
    with pytest.raises(DataError, match=r"has no rows .*allow_empty"):
        opened(table.metadata)
    assert opened(table.metadata, allow_empty=True).rows == 0


def test_a_file_of_deletes_is_read_once(tmp_path, monkeypatch):
    table, opened_files = IcebergTable(tmp_path, SCHEMA), []
    for at in range(3):
        table.append(rows(at, at + 1))
    for _ in range(17):
        table.delete(table.last, [0])
    read_deletes = iceberg._positions
    monkeypatch.setattr(
        iceberg, "_positions", lambda path: opened_files.append(path) or read_deletes(path)
    )
    assert ids(opened(table.metadata)) == [0, 1]
    assert len(opened_files) == len(set(opened_files)) == 17


def test_a_file_without_field_ids_is_read_by_name(trips):
    trips.append(rows(6, 7), ids=False)
    assert read(opened(trips.metadata))[-1] == {"id": 6, "day": 19723, "city": b"c6"}


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
