"""Tests reading any version of Delta Lake tables, which the package deltalake writes."""

import datetime
import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from lake_tables import deletion_vector, read, write_delta

from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.driver import input_fingerprint
from penstock.components.example_gen.ingest import IngestInput, ingest
from penstock.components.sources.base import Column
from penstock.components.sources.lake import Delta
from penstock.components.sources.open import open_source
from penstock.components.tfrecord.feature_kind import FeatureKind

pytest.importorskip("deltalake")
INT, FLOAT, BYTES = FeatureKind.INT, FeatureKind.FLOAT, FeatureKind.BYTES
DAYS = [datetime.date(2024, 1, 1), datetime.date(2024, 1, 2), None]


def opened(place, **options):
    return open_source(str(place), Delta(**options))


@pytest.fixture
def trips(tmp_path):
    place = tmp_path / "a b" / "trips"
    for first in (0, 3):
        ids = range(first, first + 3)
        columns = {"id": ids, "day": pa.array(DAYS, pa.date32()), "city": ["a b/c", "x%y", None]}
        write_delta(place, columns, partition_by=["day", "city"])
    return place


def test_partitions_are_columns_of_their_type(trips):
    source = opened(trips)
    assert source.columns == (Column("id", INT), Column("day", INT), Column("city", BYTES))
    assert read(source)[:3] == [
        {"id": 0, "day": 19723, "city": b"a b/c"},
        {"id": 1, "day": 19724, "city": b"x%y"},
        {"id": 2, "day": None, "city": None},
    ]
    assert source.notes == ("version 1 of the table",)


def test_a_version_is_read_by_its_number(trips):
    assert [row["id"] for row in read(opened(trips, as_of=0))] == [0, 1, 2]
    for version in (7, -1):
        with pytest.raises(DataError, match=r"trips: cannot be read \(.*\); .* a version that"):
            opened(trips, as_of=version)


def test_a_table_without_rows_is_refused_unless_it_may_be_empty(tmp_path):
    write_delta(tmp_path / "t", {"id": pa.array([], pa.int64())}, mode="error")
    add_file(tmp_path / "t", {"id": pa.array([], pa.int64())})
    with pytest.raises(DataError, match=r"t: has no rows \(version 0\); .*allow_empty"):
        opened(tmp_path / "t")
    assert opened(tmp_path / "t", allow_empty=True).rows == 0


def add_file(place, columns):
    """Adds a data file to the newest log entry; deltalake itself writes no file without rows."""
    pq.write_table(pa.table(columns), place / "added.parquet")
    size = (place / "added.parquet").stat().st_size
    action = {"path": "added.parquet", "partitionValues": {}, "size": size}
    log = max(place.glob("_delta_log/*.json"))
    action |= {"modificationTime": 0, "dataChange": True}
    log.write_text(f"{log.read_text().rstrip()}\n{json.dumps({'add': action})}\n")


def test_the_version_is_in_the_manifest_and_decides_the_fingerprint(trips, tmp_path):
    first, both = opened(trips, as_of=0), opened(trips)
    assert first.fingerprint == opened(trips, as_of=0).fingerprint
    assert first.fingerprint != both.fingerprint
    manifest = ingest([IngestInput(str(trips), Delta(as_of=0))], tmp_path / "out")
    assert (manifest.source_kind, manifest.source_snapshot) == ("delta", "0")
    assert manifest.account.read == 3


def test_a_column_that_was_added_later_is_null_in_older_files(trips):
    columns = {"id": [6], "day": pa.array(DAYS[:1]), "city": ["x"], "fare": [1.5]}
    write_delta(trips, columns, partition_by=["day", "city"], schema_mode="merge")
    source = opened(trips)
    assert {c.name: c.kind for c in source.columns}["fare"] is FLOAT
    assert [row["fare"] for row in read(source)] == [None] * 6 + [1.5]


def edit_log(place, edit):
    """Applies `edit` to each action in the first entry of a table's log."""
    log = place / "_delta_log/00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        edit(action)
    log.write_text("\n".join(map(json.dumps, actions)))


def test_renamed_columns_are_read_by_their_names_in_the_files(tmp_path):
    write_delta(tmp_path / "t", {"col-1": range(9), "col-2": [i / 2 for i in range(9)]})

    def rename(action):
        if "protocol" in action:
            action["protocol"] = {"minReaderVersion": 2, "minWriterVersion": 5}
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            for at, field in enumerate(schema["fields"], 1):
                field["metadata"] = {
                    "delta.columnMapping.id": at, "delta.columnMapping.physicalName": field["name"]
                }  # fmt: skip
                field["name"] = ("id", "fare")[at - 1]
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}

    edit_log(tmp_path / "t", rename)
    (tmp_path / "link").symlink_to(tmp_path / "t")
    assert read(opened(tmp_path / "link")) == [{"id": i, "fare": i / 2} for i in range(9)]


@pytest.mark.parametrize("is_named", [True, False], ids=["named by the protocol", "not named"])
def test_a_table_with_a_deletion_vector_is_refused(tmp_path, is_named):
    write_delta(tmp_path / "t", {"id": range(9)})

    def delete(action):
        if is_named and "protocol" in action:
            action["protocol"] = {
                "minReaderVersion": 3, "minWriterVersion": 7,
                "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"],
            }  # fmt: skip
        if "add" in action:
            action["add"]["deletionVector"] = deletion_vector([0, 3, 8])

    edit_log(tmp_path / "t", delete)
    with pytest.raises(DataError, match=r"rows of part-.*\.parquet are deleted by a deletion vec"):
        opened(tmp_path / "t")


@pytest.mark.parametrize("path", ["../other/x.parquet", "%2e%2e/other/x.parquet", "file:///x"])
def test_a_file_outside_of_the_table_is_refused(tmp_path, path):
    write_delta(tmp_path / "t", {"id": range(9)})
    (tmp_path / "other").mkdir()
    [file] = (tmp_path / "t").glob("*.parquet")
    file.rename(tmp_path / "other/x.parquet")
    edit_log(tmp_path / "t", lambda action: "add" in action and action["add"].update(path=path))
    with pytest.raises(DataError, match=r"t: its log names .*, which is not within the table"):
        opened(tmp_path / "t")


def test_a_pipe_as_a_data_file_is_refused(tmp_path):
    write_delta(tmp_path / "t", {"id": range(9)})
    [file] = (tmp_path / "t").glob("*.parquet")
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(DataError, match=rf"{file.name}: is no regular file"):
        opened(tmp_path / "t")


def test_a_table_is_not_read_as_a_folder_of_files(trips):
    with pytest.raises(DataError, match=r"is a Delta table, .* say --kind delta"):
        open_source(str(trips))


def test_what_is_no_table_is_refused_in_one_line(tmp_path):
    for place in (tmp_path, tmp_path / "no"):
        with pytest.raises(DataError, match=f"{place}: cannot be read .* that holds _delta_log"):
            opened(place)
    with pytest.raises(UsageError, match="--kind delta reads one table, got 2 inputs"):
        open_source([str(tmp_path)] * 2, Delta())


def test_a_node_is_cached_until_the_table_has_another_version(trips, tmp_path):
    inputs = [IngestInput(f"{trips}/*", Delta())]
    before = input_fingerprint(inputs)
    assert before == input_fingerprint(inputs)
    write_delta(
        trips, {"id": [9], "day": pa.array(DAYS[:1]), "city": ["x"]}, partition_by=["day", "city"]
    )
    assert before != input_fingerprint(inputs)
