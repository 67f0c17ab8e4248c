"""Tables of Delta Lake, written by deltalake: any version of them, and what was added since."""

import datetime
import json
import os
import re

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


def test_a_version_and_a_time_are_read(trips):
    assert [row["id"] for row in read(opened(trips, version=0))] == [0, 1, 2]
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()
    assert len(read(opened(trips, as_of=now))) == 6
    with pytest.raises(
        UsageError, match=r"`as_of` 2001-01-01T00:00:00\+00:00 is before the table was made"
    ):
        opened(trips, as_of="2001-01-01")
    for version in (7, -1):
        with pytest.raises(DataError, match=f"has no version {version}: the latest is 1"):
            opened(trips, version=version)


def written(place):
    """Sets the times at which the versions of a table were written, and returns them."""
    logs = sorted(place.glob("_delta_log/*.json"))
    for at, log in enumerate(logs):
        time = 1_700_000_000_000 + 1000 * at
        log.write_text(re.sub(r'"timestamp":\d+', f'"timestamp":{time}', log.read_text()))
        os.utime(log, (0, 0))  # As a copy of the table may have.
    return [f"2023-11-14T22:13:{20 + at}Z" for at in range(len(logs))]


def test_a_time_is_looked_up_in_the_log_of_a_copied_table(tmp_path):
    for at in range(3):
        write_delta(tmp_path / "t", {"id": pa.array([at])})
    for at, time in enumerate(written(tmp_path / "t")):
        assert len(read(opened(tmp_path / "t", as_of=time))) == at + 1
    with pytest.raises(UsageError, match="is before the table was made"):
        opened(tmp_path / "t", as_of="2023-11-14T22:13:19Z")


def test_a_time_before_the_oldest_version_of_the_log_is_refused(tmp_path):
    from deltalake import DeltaTable

    for at in range(4):
        write_delta(tmp_path / "t", {"id": pa.array([at])})
    times = written(tmp_path / "t")
    DeltaTable(str(tmp_path / "t")).create_checkpoint()
    for at in range(3):
        (tmp_path / f"t/_delta_log/{at:020}.json").unlink()
    assert len(read(opened(tmp_path / "t", as_of=times[3]))) == 4
    with pytest.raises(DataError, match=r"does not say when version 2 was written .* give a later"):
        opened(tmp_path / "t", as_of=times[1])


def test_a_table_without_rows_is_refused_unless_it_may_be_empty(tmp_path):
    write_delta(tmp_path / "t", {"id": pa.array([], pa.int64())}, mode="error")
    add_file(tmp_path / "t", {"id": pa.array([], pa.int64())})
    with pytest.raises(DataError, match=r"t: has no rows \(version 0\); .*allow_empty"):
        opened(tmp_path / "t")
    assert opened(tmp_path / "t", allow_empty=True).rows == 0


def add_file(place, columns):
    """Adds a data file to the newest entry of a log; deltalake writes none without rows."""
    pq.write_table(pa.table(columns), place / "added.parquet")
    size = (place / "added.parquet").stat().st_size
    action = {"path": "added.parquet", "partitionValues": {}, "size": size}
    log = max(place.glob("_delta_log/*.json"))
    action |= {"modificationTime": 0, "dataChange": True}
    log.write_text(f"{log.read_text().rstrip()}\n{json.dumps({'add': action})}\n")


def test_rows_added_since_a_version_are_read(trips):
    assert [row["id"] for row in read(opened(trips, since=0))] == [3, 4, 5]
    with pytest.raises(DataError, match=r"no rows were added since 1 \(version 1\)"):
        opened(trips, since=1)
    empty = opened(trips, since=1, allow_empty=True)
    assert (empty.rows, empty.columns) == (0, opened(trips).columns)
    with pytest.raises(UsageError, match="`since` 1 is after version 0, which is read"):
        opened(trips, since=1, version=0)


def test_rows_deleted_since_a_version_are_refused(trips):
    from deltalake import DeltaTable

    DeltaTable(str(trips)).delete("id = 1")
    assert [row["id"] for row in read(opened(trips))] == [0, 2, 3, 4, 5]
    with pytest.raises(DataError, match="rows of version 1 were deleted or rewritten"):
        opened(trips, since=1)


def test_the_version_is_in_the_manifest_and_decides_the_fingerprint(trips, tmp_path):
    first, both = opened(trips, version=0), opened(trips)
    assert first.fingerprint == opened(trips, version=0).fingerprint
    assert len({first.fingerprint, both.fingerprint, opened(trips, since=0).fingerprint}) == 3
    manifest = ingest([IngestInput(str(trips), Delta(since=0))], tmp_path / "out")
    assert (manifest.source_kind, manifest.source_snapshot) == ("delta", "1, since 0")
    assert manifest.account.read == 3


def test_a_column_that_was_added_later_is_null_in_older_files(trips):
    columns = {"id": [6], "day": pa.array(DAYS[:1]), "city": ["x"], "fare": [1.5]}
    write_delta(trips, columns, partition_by=["day", "city"], schema_mode="merge")
    source = opened(trips)
    assert {c.name: c.kind for c in source.columns}["fare"] is FLOAT
    assert [row["fare"] for row in read(source)] == [None] * 6 + [1.5]


@pytest.mark.parametrize("parts", [1, 3])
def test_deletion_vectors_and_column_mapping_are_honoured(tmp_path, parts):
    write_delta(tmp_path / "t", {"col-1": range(9), "col-2": [i / 2 for i in range(9)]})
    log = tmp_path / "t/_delta_log/00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    features = ["columnMapping", "deletionVectors"]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {
                "minReaderVersion": 3, "minWriterVersion": 7,
                "readerFeatures": features, "writerFeatures": features,
            }  # fmt: skip
        if "metaData" in action:
            schema = json.loads(action["metaData"]["schemaString"])
            for at, field in enumerate(schema["fields"], 1):
                field["metadata"] = {
                    "delta.columnMapping.id": at, "delta.columnMapping.physicalName": field["name"]
                }  # fmt: skip
                field["name"] = ("id", "fare")[at - 1]
            action["metaData"]["schemaString"] = json.dumps(schema)
            action["metaData"]["configuration"] = {"delta.columnMapping.mode": "name"}
        if "add" in action:
            action["add"]["deletionVector"] = deletion_vector([0, 3, 8])
    log.write_text("\n".join(map(json.dumps, actions)))
    (tmp_path / "link").symlink_to(tmp_path / "t")
    assert opened(tmp_path / "link").rows == 6
    source = opened(tmp_path / "t")
    assert source.rows == 6
    assert read(source, parts) == [{"id": i, "fare": i / 2} for i in (1, 2, 4, 5, 6, 7)]


def test_a_bad_row_after_deleted_ones_keeps_its_number(tmp_path):
    write_delta(tmp_path / "t", {"x": [1.0, 2.0, float("nan"), 4.0]})
    log = tmp_path / "t/_delta_log/00000000000000000000.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {
                "minReaderVersion": 3, "minWriterVersion": 7,
                "readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"],
            }  # fmt: skip
        if "add" in action:
            action["add"]["deletionVector"] = deletion_vector([0])
    log.write_text("\n".join(map(json.dumps, actions)))
    source = opened(tmp_path / "t")
    [batch] = source.read(source.cut(1)[0])
    assert [row.row for row in batch.rejected] == [3]
    assert batch.table.column(0).to_pylist() == [2.0, 4.0]


def test_a_table_is_not_read_as_a_folder_of_files(trips):
    with pytest.raises(DataError, match=r"is a Delta table, .* say --kind delta"):
        open_source(str(trips))


def test_what_is_no_table_is_refused_in_one_line(tmp_path):
    with pytest.raises(DataError, match="is no Delta table: it has no _delta_log; name"):
        opened(tmp_path)
    with pytest.raises(DataError, match="no such folder"):
        opened(tmp_path / "no")
    with pytest.raises(UsageError, match="--kind delta reads one table, got 2 inputs"):
        open_source([str(tmp_path)] * 2, Delta())
    with pytest.raises(UsageError, match="`version` and `as_of` are both given"):
        Delta(version=1, as_of="2024-01-01")
    with pytest.raises(UsageError, match="`as_of` must be a time"):
        Delta(as_of="yesterday")


def test_a_node_is_cached_until_the_table_has_another_version(trips, tmp_path):
    inputs = [IngestInput(f"{trips}/*", Delta())]
    before = input_fingerprint(inputs)
    assert before == input_fingerprint(inputs)
    write_delta(
        trips, {"id": [9], "day": pa.array(DAYS[:1]), "city": ["x"]}, partition_by=["day", "city"]
    )
    assert before != input_fingerprint(inputs)
