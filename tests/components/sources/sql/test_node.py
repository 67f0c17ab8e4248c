"""Databases as sources of a real pipeline, which may leak no password."""

import logging
import sqlite3

import pytest
from shared_runs import run_stock
from tfx.proto import example_gen_pb2, range_config_pb2

from penstock.components.example_gen.component import ShardedExampleGen
from penstock.components.example_gen.options import IngestOptions
from penstock.components.sources.sql.options import Sql
from penstock.components.tfrecord.manifest import read_manifest
from penstock.components.tfrecord.sharding import ShardOptions

TWO_SHARDS = IngestOptions(shards=ShardOptions(shards=2))


def files_with(text, *folders):
    files = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    assert files
    return [file for file in files if text.encode() in file.read_bytes()]


def test_sqlite_in_a_pipeline_is_cached_until_it_changes(tmp_path, sqlite_table):
    address = sqlite_table("id INTEGER PRIMARY KEY, n REAL", [(i, i / 2) for i in range(100)])

    def node(**options):
        return ShardedExampleGen(address, source=Sql(**options), ingest=TWO_SHARDS)

    first = run_stock(tmp_path, node(table="t"))
    assert read_manifest(first[0].uri).account.read == 100
    assert read_manifest(first[0].uri).source_kind == "sql"
    assert len(run_stock(tmp_path, node(table="t"))) == 1  # served from the cache
    with sqlite3.connect(address.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE t SET n = 7 WHERE id = 5")
    connection.close()
    assert len(run_stock(tmp_path, node(table="t"))) == 2
    assert len(run_stock(tmp_path, node(query="SELECT * FROM t WHERE id < 9"))) == 3


def test_splits_by_query_and_the_day_of_a_span(tmp_path, sqlite_table):
    day = 24 * 3600
    rows = [(i, i * day // 2) for i in range(10)]  # Two rows per day.
    address = sqlite_table("id INTEGER PRIMARY KEY, at INTEGER", rows)
    of_the_day = "at >= @span_begin_timestamp AND at < @span_end_timestamp"
    inputs = example_gen_pb2.Input(
        splits=[
            {"name": "train", "pattern": f"SELECT * FROM t WHERE {of_the_day}"},
            {"name": "eval", "pattern": "SELECT * FROM t WHERE id > 6"},
        ]
    )
    node = ShardedExampleGen(
        address,
        input_config=inputs,
        range_config=range_config_pb2.RangeConfig(
            static_range={"start_span_number": 3, "end_span_number": 3}
        ),
        source=Sql(),
        ingest=TWO_SHARDS,
    )
    [artifact] = run_stock(tmp_path, node)
    assert read_manifest(artifact.uri).account.written == {"train": 2, "eval": 3}
    assert artifact.custom_properties["span"].int_value == 3


@pytest.mark.slow
def test_a_password_is_nowhere_after_a_run(tmp_path, postgres, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    with postgres.connect() as connection:
        connection.execute(
            "CREATE TABLE t AS SELECT i AS id, i * 0.5 AS n FROM generate_series(1, 300) i"
        )
    source = Sql(query="SELECT * FROM t WHERE id > :least", params=("least=0",))
    [artifact] = run_stock(
        tmp_path, ShardedExampleGen(postgres.address, source=source, ingest=TWO_SHARDS)
    )
    assert read_manifest(artifact.uri).account.read == 300
    bad = Sql(query="SELECT * FROM gone")
    with pytest.raises(Exception, match='relation "gone" does not exist') as caught:
        run_stock(tmp_path, ShardedExampleGen(postgres.address, source=bad, ingest=TWO_SHARDS))
    assert files_with("least=0", tmp_path), "nothing is searched"
    assert files_with(postgres.password, tmp_path) == []
    written = capfd.readouterr()
    assert postgres.password not in caplog.text + written.out + written.err + str(caught.value)
