"""Databases without a server: sqlite files."""

import errno
import os
import sqlite3

import pytest
from reading import data_error

from penstock.components.errors import DataError, UsageError, one_line
from penstock.components.example_gen.ingest import ingest
from penstock.components.example_gen.options import IngestInput
from penstock.components.sources import staging
from penstock.components.sources.base import Column
from penstock.components.sources.spread import Spread
from penstock.components.sources.sql.database import Database, Login, parse_address, read_login
from penstock.components.sources.sql.options import Sql
from penstock.components.sources.sql.source import open_database, read_database, state_of
from penstock.components.tfrecord.feature_kind import FeatureKind

INT, FLOAT, BYTES = FeatureKind.INT, FeatureKind.FLOAT, FeatureKind.BYTES
TRIPS = "id INTEGER PRIMARY KEY, fare REAL, company TEXT, raw BLOB"
SECRET = "pw-3f9c"


def trips(count):
    return [(i, i / 4, f"company {i % 3}", bytes([i % 256])) for i in range(count)]


def test_a_table_is_typed_by_its_values_and_read_in_the_order_of_its_primary_key(
    sqlite_table, open_sql, read_out
):
    rows = [(f"{9 - i}", i, i / 4, f"company {i % 3}", bytes([i])) for i in range(10)]
    address = sqlite_table("k TEXT PRIMARY KEY, id INTEGER, fare REAL, company TEXT, raw", rows)
    source = open_sql(address, table="t")
    assert source.columns == (
        Column("k", BYTES), Column("id", INT), Column("fare", FLOAT), Column("company", BYTES),
        Column("raw", BYTES),
    )  # fmt: skip
    assert source.rows == 10
    assert [[(p.start, p.end) for p in run] for run in source.cut(3)] == [
        [(0, 3)],
        [(3, 6)],
        [(6, 10)],
    ]
    assert read_out(source, parts=3).rows == [
        [b"%d" % (9 - i), i, i / 4, b"company %d" % (i % 3), bytes([i])] for i in range(9, -1, -1)
    ]


def test_the_login_of_another_database_does_not_matter(sqlite_table, open_sql, monkeypatch):
    monkeypatch.setenv("PENSTOCK_SQL_USER", "me")
    monkeypatch.setenv("PENSTOCK_SQL_PASSWORD", "pw")
    assert open_sql(sqlite_table(TRIPS, trips(3)), table="t").rows == 3


def test_a_value_in_one_of_several_groups_that_does_not_fit_rejects_its_row_only(
    sqlite_table, open_sql, read_out, monkeypatch
):
    monkeypatch.setattr(staging, "_GROUP_BYTES", 10_000)
    rows = trips(10_000)
    rows[6000] = (6000, "many", "", None)
    source = open_sql(sqlite_table(TRIPS, rows), table="t")
    for parts in (1, 7):
        out = read_out(source, parts=parts)
        assert [row[0] for row in out.rows] == [i for i in range(10_000) if i != 6000]
        assert out.errors == ["data.db: row 6001, column 'fare': 'many' is text, expected a number"]
        assert out.rejected[0].raw == b'{"id": 6000, "fare": "many", "company": "", "raw": null}'
    sizes = [sum(piece.end - piece.start for piece in run) for run in source.cut(7)]
    assert max(sizes) - min(sizes) <= 3


EVIL = "'; DROP TABLE t; --"
ENDS = (";", " ; ;\n", "; -- all of them", "; /* a */ -- b\n -- c", " -- it's", " -- a; -- b")


@pytest.mark.parametrize(
    ("query", "params", "rows"),
    [
        ("SELECT id FROM t WHERE id >= CAST(:least AS INTEGER) -- new", ("least=2",), [[2]]),
        ("SELECT id FROM t WHERE name = :name;", (f"name={EVIL}",), [[2]]),
        ("SELECT ';--' AS x FROM t WHERE ';' <> '; -- ' LIMIT 1", (), [[b";--"]]),
        *((f"SELECT id FROM t{end}", (), [[1], [2]]) for end in ENDS),
    ],
)
def test_a_query_has_bound_parameters_and_may_end_in_semicolons_and_comments(
    sqlite_table, open_sql, read_out, query, params, rows
):
    address = sqlite_table("id INTEGER, name TEXT", [(1, "a"), (2, EVIL)])
    assert read_out(open_sql(address, query=query, params=params)).rows == rows
    assert open_sql(address, table="t").rows == 2


def test_nulls_are_no_value_and_a_column_of_nulls_is_text(sqlite_table, open_sql, read_out):
    address = sqlite_table("id INTEGER, a REAL, b", [(1, None, None), (2, 0.5, None)])
    source = open_sql(address, table="t")
    assert [column.kind for column in source.columns] == [INT, FLOAT, BYTES]
    assert read_out(source).rows == [[1, None, None], [2, 0.5, None]]


def test_text_that_is_not_utf8_stays_as_it_is(sqlite_table, open_sql, read_out):
    address = sqlite_table("id TEXT, s TEXT", [("a", "good"), ("b", "x"), ("c", "y")])
    with sqlite3.connect(address.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE t SET s = CAST(x'6162ff' AS TEXT) WHERE id = 'b'")
    connection.close()
    out = read_out(open_sql(address, table="t"), parts=3)
    assert out.rows == [[b"a", b"good"], [b"b", b"ab\xff"], [b"c", b"y"]]


def test_a_schema_decides(sqlite_table, open_sql, read_out, tmp_path):
    schema = tmp_path / "schema.pbtxt"
    schema.write_text(
        'feature { name: "fare" type: FLOAT } feature { name: "id" type: FLOAT }'
        'feature { name: "gone" type: INT }'
    )
    address = sqlite_table(TRIPS, trips(2))
    source = open_sql(address, table="t", schema_file=str(schema), extra_columns="drop")
    assert read_out(source).rows == [[0.0, 0.0, None], [0.25, 1.0, None]]
    message = data_error(lambda: open_sql(address, table="t", schema_file=str(schema)))
    assert "has 'company', 'raw', which the schema does not name" in message
    schema.write_text('feature { name: "company" type: INT }')
    message = data_error(
        lambda: open_sql(address, table="t", schema_file=str(schema), extra_columns="drop")
    )
    assert "column 'company' has type binary, expected INT as the schema" in message


@pytest.mark.parametrize(
    ("error", "message", "given"),
    [
        (UsageError, "say what to read: a query or a table", {}),
        (DataError, "no such table: x", {"table": "x"}),
        (DataError, "duplicate column 'id'", {"query": "SELECT id, fare, id FROM t"}),
        (DataError, "duplicate column 'fare'", {"query": "SELECT fare, id + 1 AS Fare FROM t"}),
        (UsageError, "parameter :n without a value", {"query": "SELECT :n FROM t"}),
        (UsageError, "the query has no :x", {"query": "SELECT * FROM t", "params": ("x=1",)}),
        (DataError, "the query gives no rows", {"query": "SELECT * FROM t WHERE id < 0"}),
    ],
)
def test_refusals_name_what_is_wrong(sqlite_table, open_sql, error, message, given):
    address = sqlite_table(TRIPS, trips(3))
    with pytest.raises(error, match=message):
        open_sql(address, **given)


@pytest.mark.parametrize(
    ("error", "address", "message"),
    [
        (DataError, "sqlite:///{}/none.db", r"cannot be opened \(No such file or directory\)"),
        (DataError, "sqlite:///{}/text.db", "text.db: file is not a database"),
        (UsageError, "sqlite://", "expected a path: sqlite:///trips.db"),
        (
            UsageError,
            "sqlite:///{}/data.db?timeout=abc",
            "data.db: its driver is not there or refuses",
        ),
    ],
)
def test_addresses_without_a_database_are_refused(
    sqlite_table, open_sql, tmp_path, error, address, message
):
    sqlite_table(TRIPS, trips(3))
    (tmp_path / "text.db").write_text("no database, but long enough to be taken for one\n" * 100)
    with pytest.raises(error, match=message):
        open_sql(address.format(tmp_path), table="t")
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    "query",
    ["DELETE FROM t", "SELECT * FROM t; DELETE FROM t", "DROP TABLE t", "INSERT INTO t VALUES (9)"],
)
def test_a_query_that_changes_data_is_refused(sqlite_table, open_sql, read_out, query):
    address = sqlite_table("id INTEGER", [(1,), (2,)])
    assert "syntax error" in data_error(lambda: open_sql(address, query=query))
    assert read_out(open_sql(address, table="t")).rows == [[1], [2]]


def test_no_rows_if_that_is_allowed(sqlite_table, open_sql, read_out):
    source = open_sql(sqlite_table("id INTEGER", []), table="t", allow_empty=True)
    assert source.columns == (Column("id", BYTES),)
    assert read_out(source, parts=3).rows == []


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_rows_stay_as_they_were_read(sqlite_table, open_sql, read_out, journal):
    address = sqlite_table(TRIPS, trips(2000))
    writer = sqlite3.connect(address.removeprefix("sqlite:///"))
    writer.execute(f"PRAGMA journal_mode = {journal}")
    before, source = state_of(address), open_sql(address, table="t")
    writer.execute("UPDATE t SET fare = 7")
    writer.commit()
    assert state_of(address) != before
    assert read_out(source, parts=4).rows[1999][1] == 499.75
    writer.close()


def test_files_exist_as_long_as_the_source(sqlite_table, open_sql):
    source = open_sql(sqlite_table(TRIPS, trips(10)), table="t")
    [file] = source.scanned.values()
    path, _ = file.copy
    assert os.path.exists(path)
    del source
    assert not os.path.exists(path)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(errno.ENOSPC, "No space left")])
def test_nothing_stays_of_rows_that_were_not_all_read(sqlite_table, tmp_path, monkeypatch, error):
    monkeypatch.setattr(staging, "_GROUP_BYTES", 1000)

    def fail(path):
        raise error

    monkeypatch.setattr(staging, "inspect_parquet", fail)
    inputs = [IngestInput(sqlite_table(TRIPS, trips(3000)), Sql(table="t"))]
    (tmp_path / "to").mkdir()
    with pytest.raises(type(error) if isinstance(error, OSError) else error) as caught:
        ingest(inputs, tmp_path / "to" / "out")
    assert list((tmp_path / "to").iterdir()) == []
    if isinstance(error, OSError):
        assert one_line(caught.value).startswith(f"{tmp_path}/to/out: No space left; free space")


def test_a_locked_database_is_one_line(sqlite_table, open_sql):
    address = sqlite_table(TRIPS, trips(3))
    writer = sqlite3.connect(address.removeprefix("sqlite:///"))
    writer.execute("BEGIN EXCLUSIVE")
    message = data_error(lambda: open_sql(f"{address}?timeout=0.1", table="t"))
    assert message.endswith("data.db: database is locked")
    writer.close()


def test_a_database_of_any_make_is_read(sqlite_table, read_out):
    address = sqlite_table(TRIPS, trips(100))
    database = Database(open_database(address, None).url, None)
    assert database.state() is None
    with Spread() as spread:
        source = read_database(database, Sql(table="t"), spread.workspace())
        assert [row[2] for row in read_out(source, parts=4).rows[:2]] == [
            b"company 0",
            b"company 1",
        ]


@pytest.mark.parametrize(
    "address",
    [
        f"postgresql://reader:{SECRET}@host/db",
        f"postgresql://reader:{SECRET}/with@host/db",
        f"mssql+pyodbc://?odbc_connect=DRIVER%3D%7Bx%7D%3BPWD%3D{SECRET}",
        f"reader:{SECRET}@host/db",
        f"nonsense {SECRET}@",
    ],
)
def test_an_address_with_a_password_is_refused_and_not_repeated(address):
    with pytest.raises(UsageError) as caught:
        parse_address(address)
    assert SECRET not in str(caught.value)
    if "://" in address:
        assert "set PENSTOCK_SQL_PASSWORD or a `credentials_file` instead" in str(caught.value)


def test_an_address_without_one_is_taken():
    url = parse_address("postgresql://reader@host:5433/db?sslmode=require&passfile=/etc/pgpass")
    assert url.drivername == "postgresql+psycopg"
    assert Database(url, None).shown == "postgresql+psycopg://reader@host:5433/db"


def test_the_login_is_of_the_file_or_else_the_environment(tmp_path, monkeypatch):
    assert read_login(None) == Login(None, None)
    monkeypatch.setenv("PENSTOCK_SQL_USER", "me")
    monkeypatch.setenv("PENSTOCK_SQL_PASSWORD", "a=b")
    assert read_login(None) == Login("me", "a=b")
    file = tmp_path / "login"
    file.write_text("# reader\n\nuser = you\npassword = c=d\n")
    assert read_login(str(file)) == Login("you", "c=d")


def test_a_credentials_file_that_is_not_understood_is_not_repeated(tmp_path):
    file = tmp_path / "login"
    file.write_text(f"user = you\n{SECRET}\n")
    with pytest.raises(DataError, match=r"login: line 2: expected `user = \.\.\.` or") as caught:
        read_login(str(file))
    assert SECRET not in str(caught.value)
    with pytest.raises(DataError, match=r"none: cannot read the credentials \(No such file"):
        read_login(str(tmp_path / "none"))
