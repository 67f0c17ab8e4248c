"""Calls of a pushed model, which KServe's server answers and its logger records, become rows.

The logger is the agent that KServe puts in front of a server: a proxy, built from KServe's Go
module.
"""

import base64
import csv
import json
import os
import queue
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import polars
import pyarrow as pa
import pytest
from faulty_server import FaultyHandler, QuietServer
from free_ports import free_port

import penstock

ROOT = Path(__file__).parents[4]
TEXTS = ("payment_type", "company")
FLOATS = ("fare", "trip_miles", "pickup_latitude", "pickup_longitude", "dropoff_latitude",
          "dropoff_longitude")  # fmt: skip
REQUESTS = penstock.sources.Requests()
MODEL = """
import json, sys
import tensorflow as tf
model = tf.saved_model.load(sys.argv[1])
serve = model.signatures["serve_columns"]
kinds = {name: spec.dtype for name, spec in serve.structured_input_signature[1].items()}
print("ready", flush=True)
for line in sys.stdin:
    rows = json.loads(line)
    columns = {name: tf.constant([row[name] for row in rows if name in row], kind)
               for name, kind in kinds.items()}
    found = {name: value.numpy().tolist() for name, value in serve(**columns).items()}
    found["text"] = [text.decode() for text in found["text"]]
    print(json.dumps([dict(zip(found, one)) for one in zip(*found.values())]), flush=True)
"""

# Building the agent takes minutes, and the package kserve has many dependencies to download.
pytestmark = pytest.mark.timeout(1500)


def made(path):
    """Returns the path of a file, which `make` builds if it is missing."""
    if not path.exists() and subprocess.run(["make", path.relative_to(ROOT)], cwd=ROOT).returncode:
        pytest.skip("KServe is built by go, from the package index and the module proxy")
    return path


@pytest.fixture(scope="module")
def kserve_python():
    """The path of Python in an environment with the package kserve."""
    return made(ROOT / "build" / "kserve" / "bin" / "python")


@pytest.fixture(scope="module")
def agent():
    """The path of KServe's agent."""
    return made(ROOT / "build" / "kserve-agent")


@contextmanager
def serving(command, port, log, **variables):
    """Runs a server, waits until it answers on its port, and stops it at the end."""
    with log.open("w") as out:
        process = subprocess.Popen(
            command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **variables}
        )
    try:
        while True:
            assert process.poll() is None, log.read_text()
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=300)
                break
            except urllib.error.URLError:
                time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def server(kserve_python, taxi_run, tmp_path):
    """Port of KServe's ModelServer with the model of the taxi run."""
    port = free_port()
    script = Path(__file__).with_name("kserve_server.py")
    model = [sys.executable, "-c", MODEL, taxi_run.summary["pushed"]]
    with serving([kserve_python, script, str(port), *model], port, tmp_path / "server.log"):
        yield port


class SinkHandler(FaultyHandler):
    """Stores events as JSON lines, like a broker's sink, and objects as files, in place of S3."""

    def may_fail(self):
        return False

    def answer(self):
        event = {n[3:].lower(): text for n, text in self.headers.items() if n.startswith("Ce-")}
        if event:
            is_json = self.body.startswith(b"{")
            if self.body:
                coded = base64.b64encode(self.body).decode()
                event |= {"data": json.loads(self.body)} if is_json else {"data_base64": coded}
            with (self.server.folder / "events.jsonl").open("a") as file:
                file.write(json.dumps(event) + "\n")
        elif self.command == "PUT":
            (self.server.folder / self.path.rpartition("/")[2]).write_bytes(self.body)
        self.server.came.put(self.path)
        return 200, {}, b""


@pytest.fixture
def sink(tmp_path):
    sink = QuietServer(SinkHandler)
    sink.folder, sink.came = tmp_path / "logs", queue.Queue()
    sink.folder.mkdir()
    yield sink
    sink.close()


def ask(port, body):
    headers = {"Content-Type": "application/json"}
    url = f"http://127.0.0.1:{port}/v1/models/taxi:predict"
    request = urllib.request.Request(url, body, headers)
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)


def instance(row):
    """A row in the form that the signature takes."""
    return {
        name: text if name in TEXTS else float(text) if name in FLOATS else int(float(text))
        for name, text in row.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("form", ["events", "json", "parquet"])
def test_rows_and_predictions_are_those_that_were_sent(
    form, server, agent, sink, taxi_run, taxi_csv, tmp_path
):
    with taxi_csv.open(newline="") as file:
        rows = [{**row, "tips": ""} for row in csv.DictReader(file)]
    rows = [{n: v for n, v in row.items() if v} for row in rows]
    # JSON has no NaN for a missing number. So the test uses only rows with the most common set of
    # columns.
    [(columns, _)] = Counter(frozenset(row) for row in rows).most_common(1)
    rows = [row for row in rows if row.keys() == columns][:600]

    port, other = free_port(), free_port()
    address = f"http://127.0.0.1:{sink.server_port}"
    logs = ["--log-url", address]
    if form != "events":
        logs = [
            *("--log-url", "s3://logs", "--log-store-path", "taxi", "--log-store-format", form),
            *("--log-marshaller-port", str(other)),
            *("--log-marshaller-url", f"http://127.0.0.1:{other}/marshal"),
        ]
    probe = json.dumps({"tcpSocket": {"host": "127.0.0.1", "port": server}})
    store = {"AWS_ENDPOINT_URL": address, "AWS_DEFAULT_REGION": "x", "AWS_ACCESS_KEY_ID": "a"}
    store |= {"AWS_SECRET_ACCESS_KEY": "a", "S3_USER_VIRTUAL_BUCKET": "false"}
    options = ["--port", str(port), "--component-port", str(server), *logs]
    with serving(
        [agent, *options], port, tmp_path / "agent.log", SERVING_READINESS_PROBE=probe, **store
    ):
        for at in range(0, len(rows), 200):
            some = [instance(row) for row in rows[at : at + 200]]
            ask(port, json.dumps({"instances": some}).encode())
        with pytest.raises(urllib.error.HTTPError):
            ask(port, b"no JSON")
        # The sink receives nine messages: two for each of the three calls, two for the health check
        # of the server, and one for the request without a response.
        for _ in range(9):
            sink.came.get(timeout=300)

    if form == "parquet" and pa.__version__.startswith("10."):
        # pyarrow 10 cannot decode DELTA_LENGTH_BYTE_ARRAY.
        with pytest.raises(penstock.DataError, match=r"record 1 cannot be read \(Not yet impl"):
            penstock.ingest(str(sink.folder), tmp_path / "shards", source=REQUESTS)
        for file in sink.folder.iterdir():
            polars.read_parquet(file).write_parquet(file)

    shards = tmp_path / "shards"
    manifest = penstock.ingest(str(sink.folder), shards, source=REQUESTS)
    assert manifest.account.read == 600
    added = {"prediction", "probability", "request_id"}
    added |= {"request_time"} if form == "events" else set()
    assert {c.name for c in manifest.columns} == {*rows[0], *added}

    [trained] = (taxi_run.root / "pipeline/StatisticsGen/statistics").iterdir()
    for before in (taxi_run.summary["examples"], str(trained)):
        found = penstock.diff(before, shards)
        assert {"tips", *added} <= {one.column for one in found.different}
        assert next(one.distance for one in found.columns if one.column == "fare") < 0.1

    with (tmp_path / "asked.csv").open("w", newline="") as file:
        out = csv.DictWriter(file, rows[0])
        out.writeheader()
        out.writerows(rows)
    penstock.predict(str(taxi_run.root), str(tmp_path / "asked.csv"), tmp_path / "predicted.csv")
    with (tmp_path / "predicted.csv").open(newline="") as file:
        predicted = [row["prediction"] for row in csv.DictReader(file)]
    logged = [
        row["prediction"]
        for split in ("train", "eval")
        for row in penstock.Rows(shards, split=split)
    ]
    assert sorted(predicted) == sorted(one.decode() for one in logged)
