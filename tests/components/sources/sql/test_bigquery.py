"""BigQuery through its own client and dialect, against a stand-in for its REST API."""

import pytest
from bigquery_stand_in import StandIn
from reading import rows_of

from penstock.components.errors import DataError, PenstockError
from penstock.components.sources.open import open_source
from penstock.components.sources.sql.options import Sql
from penstock.components.tfrecord.feature_kind import FeatureKind

pytest.importorskip("sqlalchemy_bigquery")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")
INT, FLOAT, BYTES = FeatureKind.INT, FeatureKind.FLOAT, FeatureKind.BYTES
ADDRESS = "bigquery://p/d"
TYPES = {
    "id": "INTEGER", "fare": "FLOAT", "city": "STRING", "day": "DATE", "at": "TIMESTAMP",
    "tip": "NUMERIC", "paid": "BOOLEAN", "where_": "GEOGRAPHY", "penstock_key": "INTEGER",
}  # fmt: skip


@pytest.fixture
def server(monkeypatch):
    import google.auth
    from google.auth.credentials import AnonymousCredentials
    from google.cloud.bigquery import Client

    server = StandIn(TYPES)
    monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", server.address)
    monkeypatch.setattr(google.auth, "default", lambda **_: (AnonymousCredentials(), "p"))
    # The stand-in has no Storage API.
    monkeypatch.setattr(Client, "_ensure_bqstorage_client", lambda *_, **__: None)
    server.database.execute("CREATE TABLE trips (id, fare, city, day, at, tip, paid)")
    rows = [
        (i, i / 2, None if i % 9 == 0 else f"c{i}", "2024-01-02", 1_704_196_800_000_000 + i, "0.25",
         "true" if i % 2 else "false")
        for i in range(150)
    ]  # fmt: skip
    server.database.executemany("INSERT INTO trips VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    yield server
    server.shutdown()
    server.server_close()


def opened(**options):
    return open_source(ADDRESS, Sql(**options))


@pytest.mark.parametrize("parts", [1, 4])
def test_a_table_is_read_by_one_query(server, parts):
    source = opened(table="trips")
    assert source.rows == 150
    assert [(c.name, c.kind) for c in source.columns] == [
        ("id", INT), ("fare", FLOAT), ("city", BYTES), ("day", INT), ("at", INT), ("tip", FLOAT),
        ("paid", INT),
    ]  # fmt: skip
    rows = rows_of(source, parts)
    assert [row["id"] for row in rows] == list(range(150))
    assert rows[9] == {
        "id": 9, "fare": 4.5, "city": None, "day": 19724, "at": 1_704_196_800_000_009, "tip": 0.25,
        "paid": 1,
    }  # fmt: skip


def test_a_query_has_parameters_and_runs_once(server):
    query = "SELECT id, city FROM trips WHERE city = :city"
    source = opened(query=query, params=("city=c7",))
    assert rows_of(source) == [{"id": 7, "city": b"c7"}]
    assert len(server.queries) == 1


def test_faults_are_one_line(server):
    with pytest.raises(DataError, match="no such table: nope") as caught:
        opened(query="SELECT * FROM nope")
    assert "\n" not in str(caught.value)
    server.database.execute("CREATE TABLE places (id, where_)")
    with pytest.raises(DataError, match="'where_' has type GEOGRAPHY, which no feature can hold"):
        opened(table="places")
    server.denied = True
    with pytest.raises(PenstockError, match="Access Denied: no") as caught:
        opened(table="trips")
    assert "\n" not in str(caught.value)


def test_no_login_is_one_line(monkeypatch):
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError

    def refuse(**_):
        raise DefaultCredentialsError("Your default credentials were not found.")

    monkeypatch.setattr(google.auth, "default", refuse)
    with pytest.raises(DataError, match=r"no login \(Your .*GOOGLE_APPLICATION_CREDENTIALS"):
        opened(table="trips")
