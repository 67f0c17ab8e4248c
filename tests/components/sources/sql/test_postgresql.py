"""A real PostgreSQL server, over TCP with a password."""

import logging

import pytest
from reading import data_error

from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput
from penstock.components.sources.base import Column
from penstock.components.sources.sql.options import Sql
from penstock.components.tfrecord.feature_kind import FeatureKind

pytestmark = pytest.mark.slow

INT, FLOAT, BYTES = FeatureKind.INT, FeatureKind.FLOAT, FeatureKind.BYTES


def execute(server, *statements):
    with server.connect() as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def trips(postgres):
    execute(
        postgres,
        "CREATE TABLE trips (id bigint PRIMARY KEY, fare numeric(9,2), company text)",
        "INSERT INTO trips SELECT i, i * 0.25, 'company ' || i % 3 FROM generate_series(0, 9999) i",
    )
    return postgres


def test_rows_of_a_table_by_its_primary_key(trips, open_sql, read_out):
    source = open_sql(trips.address, table="public.trips")
    assert source.columns == (Column("id", INT), Column("fare", FLOAT), Column("company", BYTES))
    assert source.rows == 10_000
    rows = read_out(source, parts=5).rows
    assert [row[0] for row in rows] == list(range(10_000))
    assert rows[7] == [7, 1.75, b"company 1"]


def test_every_type_by_its_policy(postgres, open_sql, read_out):
    execute(
        postgres,
        "CREATE TYPE mood AS ENUM ('sad', 'happy')",
        """CREATE TABLE t (
            id int, b bool, i2 int2, f4 float4, n numeric, d date, ts timestamp, tz timestamptz,
            t time, u uuid, j jsonb, raw bytea, c char(3), m mood, li int[], lt text[],
            "Big %:x" text
        )""",
        """INSERT INTO t VALUES (1, true, 7, 0.5, 12.25, '1970-01-11', '1970-01-01 00:00:01',
            '1970-01-01 02:00:00+02', '00:00:02', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11',
            '{"b": 1,  "a": [2]}', '\\x00ff', 'ab', 'happy', '{1,2}', '{x,NULL}', 'big')""",
        "INSERT INTO t (id, li) VALUES (2, '{}')",
        "INSERT INTO t (id, lt, ts) VALUES (3, '{y,z}', '1969-12-31 23:59:59.999999')",
    )
    source = open_sql(postgres.address, table="t")
    kinds = {column.name: (column.kind, column.is_list) for column in source.columns}
    assert kinds["li"] == (INT, True)
    assert kinds["lt"] == (BYTES, True)
    assert [kind for kind, _ in kinds.values()] == [
        INT, INT, INT, FLOAT, FLOAT, INT, INT, INT, INT, BYTES, BYTES, BYTES, BYTES, BYTES, INT,
        BYTES, BYTES,
    ]  # fmt: skip
    out = read_out(source)
    assert out.rows == [
        [2, *[None] * 13, [], None, None],
        [3, *[None] * 5, -1, *[None] * 8, [b"y", b"z"], None],
    ]
    assert out.errors == [
        "postgres: row 1, column 'lt': value 2 of the list: null within a list, which no feature "
        "can hold"
    ]
    execute(postgres, "UPDATE t SET lt = '{x}' WHERE id = 1")
    query = "SELECT * FROM t ORDER BY id"
    first = read_out(open_sql(postgres.address, query=query)).rows[0]
    assert first == [
        1, 1, 7, 0.5, 12.25, 10, 1_000_000, 0, 2_000_000,
        b"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", b'{"a": [2], "b": 1}', b"\x00\xff", b"ab ",
        b"happy", [1, 2], [b"x"], b"big",
    ]  # fmt: skip


def test_what_no_feature_holds(postgres, open_sql, read_out):
    execute(
        postgres,
        "CREATE TABLE t (id int, at timestamp, x float8, span interval)",
        "INSERT INTO t VALUES (1, 'infinity', 1), (2, '0044-03-15 BC', 1), (3, '2000-01-01', "
        "'NaN'), (4, '2000-01-01', 1e39), (5, '2000-01-01', 0.5)",
    )
    message = data_error(lambda: open_sql(postgres.address, table="t"))
    assert "column 'span' has type interval, which no feature can hold; cast it" in message
    out = read_out(open_sql(postgres.address, query="SELECT id, at, x FROM t"))
    assert out.rows == [[5, 946_684_800_000_000, 0.5]]
    assert [error.partition(": row ")[2] for error in out.errors] == [
        "1, column 'at': 'infinity' is text, expected a whole number",
        "2, column 'at': '0044-03-15 00:00:00 BC' is text, expected a whole number",
        "3, column 'x': nan is not finite; `non_finite` 'null' or 'keep' would let it in",
        "4, column 'x': 1e+39 is beyond float32 (3.4e38); as BYTES it would be kept",
    ]


def test_a_query_cannot_write(trips, open_sql):
    query = "WITH gone AS (DELETE FROM trips RETURNING id) SELECT id FROM gone"
    message = data_error(lambda: open_sql(trips.address, query=query))
    assert "WITH clause containing a data-modifying statement must be at the top level" in message
    execute(
        trips,
        "CREATE FUNCTION f() RETURNS bigint LANGUAGE sql AS 'DELETE FROM trips RETURNING id'",
    )
    message = data_error(lambda: open_sql(trips.address, query="SELECT f() AS id"))
    assert "cannot execute DELETE in a read-only transaction" in message
    assert open_sql(trips.address, table="trips").rows == 10_000


def test_a_connection_lost_in_the_midst_is_one_line_and_leaves_nothing(trips, tmp_path):
    ends = "CASE WHEN id = 9000 THEN pg_terminate_backend(pg_backend_pid()) END"
    source = Sql(query=f"SELECT id, {ends} AS x FROM trips")
    message = data_error(lambda: ingest([IngestInput(trips.address, source)], tmp_path / "out"))
    assert ": connection lost (" in message
    assert message.endswith("); start again when the server answers")
    assert list(tmp_path.iterdir()) == []


def test_a_query_is_read_once_in_its_own_order(trips, open_sql, read_out):
    execute(trips, "CREATE SEQUENCE calls")
    query = "SELECT id, nextval('calls') AS call FROM trips ORDER BY id DESC"
    assert "read-only transaction" in data_error(lambda: open_sql(trips.address, query=query))
    execute(trips, "CREATE FUNCTION told(bigint) RETURNS bigint LANGUAGE plpgsql AS "
            "'BEGIN RAISE LOG ''told %'', $1; RETURN $1; END'")  # fmt: skip
    source = open_sql(trips.address, query="SELECT told(id) AS id FROM trips ORDER BY id DESC")
    assert [row[0] for row in read_out(source, parts=3).rows] == list(range(9999, -1, -1))
    assert (trips.folder / "log").read_text().count("LOG:  told 7\n") == 1


def test_a_server_that_is_gone_is_one_line(trips, open_sql):
    trips.control("stop", "-m", "immediate")
    try:
        message = data_error(lambda: open_sql(trips.address, table="trips"))
        assert "Connection refused" in message
    finally:
        trips.control("start")


def test_a_wrong_password_is_refused_and_never_shown(trips, open_sql, monkeypatch, caplog):
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("PENSTOCK_SQL_PASSWORD", "pw-wrong-one")
    message = data_error(lambda: open_sql(trips.address, table="trips"))
    assert "password authentication failed" in message
    assert "pw-wrong-one" not in message + caplog.text
