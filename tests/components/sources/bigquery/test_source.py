"""BigQuery without BigQuery: Google's own client against a server on loopback that answers a dry
run as BigQuery does, and, in the place of Beam's reader, rows as that reader gives them. The query
itself runs only with credentials, which a test has not.
"""

import json
import threading
from datetime import date, datetime, time, timezone
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import apache_beam as beam
import pytest
from apache_beam.io.gcp.bigquery import ReadFromBigQuery
from google.auth import credentials as google_credentials

from penstock.components.engine.pipeline import local_pipeline
from penstock.components.errors import DataError, UsageError
from penstock.components.example_gen.ingest import ingest, plan_job
from penstock.components.example_gen.options import IngestOptions
from penstock.components.example_gen.split_options import SplitOptions
from penstock.components.sources.base import Column
from penstock.components.sources.bigquery import source as bigquery_module
from penstock.components.sources.bigquery.options import (
    BigQueryOptions,
    bigquery_columns,
    check_query,
)
from penstock.components.sources.bigquery.source import read_rows
from penstock.components.sources.bigquery.values import plain_row
from penstock.components.sources.open import open_source
from penstock.components.tfrecord.feature_kind import FeatureKind

INT, FLOAT, BYTES = FeatureKind.INT, FeatureKind.FLOAT, FeatureKind.BYTES
QUERY = "SELECT id, fare, day FROM trips.rides"
FIELDS = [
    {"name": "id", "type": "INTEGER", "mode": "NULLABLE"},
    {"name": "fare", "type": "NUMERIC", "mode": "NULLABLE"},
    {"name": "day", "type": "DATE", "mode": "NULLABLE"},
]


class FakeBigQuery(BaseHTTPRequestHandler):
    modified = "1700000000000"
    asked: ClassVar[list] = []

    def do_POST(self):
        job = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(job["configuration"])
        query = job["configuration"]["query"]["query"]
        if "no_such" in query:
            self._answer(404, {"error": {"code": 404, "message": "Not found: Table p:trips.no_such",
                                         "errors": [{"reason": "notFound"}]}})  # fmt: skip
            return
        table = {"projectId": "my-project", "datasetId": "trips", "tableId": "rides"}
        statistics = {"query": {"schema": {"fields": FIELDS}, "referencedTables": [table],
                                "totalBytesProcessed": "1234"}}  # fmt: skip
        reference = {"projectId": "my-project", "jobId": "j", "location": "US"}
        done = {"jobReference": reference, "status": {"state": "DONE"}, "statistics": statistics}
        self._answer(200, {**done, "configuration": job["configuration"]})

    def do_GET(self):
        table = {"projectId": "my-project", "datasetId": "trips", "tableId": "rides"}
        self._answer(200, {"tableReference": table, "lastModifiedTime": self.modified})

    def _answer(self, code, body):
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server(monkeypatch):
    FakeBigQuery.asked = []
    FakeBigQuery.modified = "1700000000000"
    with ThreadingHTTPServer(("127.0.0.1", 0), FakeBigQuery) as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        monkeypatch.setenv("BIGQUERY_EMULATOR_HOST", f"http://127.0.0.1:{http.server_port}")
        anonymous = google_credentials.AnonymousCredentials()
        monkeypatch.setattr("google.auth.default", lambda *_, **__: (anonymous, "my-project"))
        yield FakeBigQuery
        http.shutdown()


def opened(query=QUERY):
    return open_source("bigquery://my-project", BigQueryOptions(query=query))


def test_a_query_is_checked_without_being_run(server):
    source = opened()
    assert source.columns == (Column("id", INT), Column("fare", FLOAT), Column("day", INT))
    assert source.input_bytes == 1234
    assert [asked["dryRun"] for asked in server.asked] == [True]
    assert server.asked[0]["query"]["query"] == QUERY
    assert server.asked[0]["query"]["useLegacySql"] is False


def test_the_fingerprint_is_the_query_and_when_its_tables_changed(server):
    first = opened().fingerprint
    assert opened().fingerprint == first
    assert opened(QUERY + " LIMIT 5").fingerprint != first
    server.modified = "1700000000001"
    assert opened().fingerprint != first


def test_bigquerys_own_words_are_passed_on(server):
    with pytest.raises(DataError) as error:
        opened("SELECT 1 FROM trips.no_such")
    assert "BigQuery, project my-project: 404" in str(error.value)
    assert "Not found: Table p:trips.no_such" in str(error.value)


def test_rows_become_shards(server, monkeypatch, tmp_path):
    rows = [{"id": i, "fare": Decimal("2.5"), "day": date(1970, 1, 3)} for i in range(50)]
    rows.append({"id": None, "fare": None, "day": None})
    monkeypatch.setattr(bigquery_module, "read_rows", lambda *_: beam.Create(rows))
    options = IngestOptions()
    job = plan_job(opened(), SplitOptions(), options)
    manifest = ingest([job], tmp_path / "out", options, lambda: local_pipeline(1))
    assert manifest.source_kind == "bigquery"
    assert manifest.account.read == sum(manifest.account.written.values()) == 51
    found = [
        r for run in job.source.cut(2) for b in job.source.read(run) for r in b.table.to_pylist()
    ]
    assert {"id": 7, "fare": 2.5, "day": 2} in found
    assert {"id": None, "fare": None, "day": None} in found


def test_beams_reader_gets_the_query():
    direct = read_rows("my-project", BigQueryOptions(query=QUERY))
    assert isinstance(direct, ReadFromBigQuery)
    assert direct.method == "DIRECT_READ"
    assert direct._kwargs["query"] == QUERY
    assert direct._kwargs["use_standard_sql"] is True
    export = read_rows("my-project", BigQueryOptions(query=QUERY, gcs_location="gs://b/tmp"))
    assert (export.method, export.gcs_location) == ("EXPORT", "gs://b/tmp")


def test_without_credentials(monkeypatch):
    from google.auth.exceptions import DefaultCredentialsError

    def none(*_, **__):
        raise DefaultCredentialsError("nothing found")

    monkeypatch.setattr("google.auth.default", none)
    with pytest.raises(UsageError, match=r"no credentials .nothing found.; run `gcloud auth"):
        opened()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "query must begin with SELECT or WITH, got ''"),
        ("DELETE FROM t", "query must begin with SELECT or WITH, got 'DELETE FROM t'"),
        ("SELECT 1; DROP TABLE t", "query must be one statement, without a ';' within"),
        ("SELECT 1 -- it's\n; DELETE FROM t WHERE a = 'x'",
         "query must be one statement, without a ';' within"),
        ("SELECT '-- ' ; DELETE FROM t -- '", "query must be one statement, without a ';' within"),
    ],
)  # fmt: skip
def test_what_is_no_query(query, message):
    with pytest.raises(UsageError) as error:
        BigQueryOptions(query=query)
    assert str(error.value) == message


def test_what_is_one():
    for query in (QUERY, "WITH a AS (SELECT 1) SELECT * FROM a;", "-- why\nselect ';' AS x",
                  "SELECT 1 -- it's; all", "SELECT `a;b`, '--;' FROM t; # end; here",
                  "(SELECT 1) UNION ALL (SELECT 2)"):  # fmt: skip
        check_query(query)


def test_addresses_and_types():
    with pytest.raises(UsageError, match="expected bigquery://PROJECT, who pays for the query"):
        open_source("trips.csv", BigQueryOptions(query=QUERY))
    with pytest.raises(UsageError, match="BigQuery needs a query, SELECT"):
        open_source("bigquery://my-project", BigQueryOptions())
    with pytest.raises(UsageError, match="column 'a' has BigQuery's type RECORD, which no feature"):
        bigquery_columns([("a", "RECORD", "NULLABLE")])
    assert bigquery_columns([("a", "STRING", "REPEATED")]) == (Column("a", BYTES, is_list=True),)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (True, 1), ("12", 12), ("true", 1), (date(1970, 1, 3), 2), ("1970-01-03", 2),
        (time(0, 0, 1), 1_000_000), ("00:00:01.5", 1_500_000),
        (datetime(1970, 1, 1, 0, 0, 1, tzinfo=timezone.utc), 1_000_000),
        (datetime(1970, 1, 1, 0, 0, 1), 1_000_000),
        ("1970-01-01 00:00:01 UTC", 1_000_000), ("1970-01-01T00:00:01.25", 1_250_000),
    ],
)  # fmt: skip
def test_whole_numbers(value, expected):
    assert plain_row({"a": value}, [Column("a", INT)]) == {"a": expected}


def test_other_values():
    columns = [Column("f", FLOAT), Column("s", BYTES, is_text=True), Column("b", BYTES),
               Column("l", INT, is_list=True), Column("n", INT)]  # fmt: skip
    row = {"f": Decimal("0.5"), "s": "x", "b": b"\xff", "l": ["1", 2]}
    assert plain_row(row, columns) == {"f": 0.5, "s": "x", "b": b"\xff", "l": [1, 2], "n": None}
