"""Logs of a pushed model that KServe's own ModelServer served, back as rows."""

import csv
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

import pytest
from free_ports import free_port

import penstock

ROOT = Path(__file__).parents[4]
VENV = ROOT / "build" / "kserve"
TEXTS = ("payment_type", "company")
FLOATS = ("fare", "trip_miles", "pickup_latitude", "pickup_longitude", "dropoff_latitude",
          "dropoff_longitude")  # fmt: skip
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


@pytest.fixture(scope="module")
def kserve_python():
    """Python of an environment with the package kserve."""
    python = VENV / "bin" / "python"
    if (
        not python.exists()
        or subprocess.run([python, "-c", "import kserve"], check=False).returncode
    ):
        subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        done = subprocess.run([python, "-m", "pip", "install", "-q", "kserve==0.21.0"], check=False)
        if done.returncode:
            pytest.skip("the package index has no kserve for this Python")
    return python


@pytest.fixture
def server(kserve_python, taxi_run, tmp_path):
    """Sends an event to the server of the taxi run's model; returns the server's own event."""
    port = free_port()
    script = Path(__file__).with_name("kserve_server.py")
    model = [sys.executable, "-c", MODEL, taxi_run.summary["pushed"]]
    log = (tmp_path / "server.log").open("w")
    process = subprocess.Popen(
        [kserve_python, script, str(port), *model], stdout=log, stderr=subprocess.STDOUT
    )

    def send(event):
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/v1/models/taxi:predict",
            json.dumps(event).encode(),
            {"Content-Type": "application/cloudevents+json"},
        )
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.load(answer)

    while True:
        assert process.poll() is None, (tmp_path / "server.log").read_text()
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/v2/health/ready", timeout=300)
            break
        except urllib.error.URLError:
            time.sleep(0.1)
    yield send
    process.terminate()
    process.wait()


def instance(row):
    """A row as the signature takes it."""
    return {
        name: text if name in TEXTS else float(text) if name in FLOATS else int(float(text))
        for name, text in row.items()
    }


@pytest.mark.slow
def test_rows_and_predictions_of_kserve_are_those_that_were_sent(
    server, taxi_run, taxi_csv, tmp_path
):
    with taxi_csv.open(newline="") as file:
        rows = [{**row, "tips": ""} for row in csv.DictReader(file)]
    rows = [{n: v for n, v in row.items() if v} for row in rows]
    # JSON has no NaN for a missing number, so each call has rows with the same columns.
    [(columns, _)] = Counter(frozenset(row) for row in rows).most_common(1)
    rows = [row for row in rows if row.keys() == columns][:600]
    with (tmp_path / "events.jsonl").open("w") as log:
        for at in range(0, len(rows), 200):
            asked = {
                **{"specversion": "1.0", "id": f"call-{at}", "source": "test"},
                "type": "org.kubeflow.serving.inference.request",
                "time": "2026-06-01T12:00:00Z",
                "data": {"instances": [instance(row) for row in rows[at : at + 200]]},
            }
            answered = server(asked)
            assert answered["type"] == "io.kserve.inference.response"
            # KServe's logger, a sidecar, gives both events the id of the request.
            log.writelines(
                f"{json.dumps(one)}\n" for one in (asked, {**answered, "id": asked["id"]})
            )
        with pytest.raises(urllib.error.HTTPError):
            server({**asked, "id": "bad", "data": {}})
        log.write(json.dumps({**asked, "id": "bad", "data": {}}) + "\n")

    shards = tmp_path / "shards"
    source = penstock.sources.Requests()
    manifest = penstock.ingest(str(tmp_path / "events.jsonl"), shards, source=source)
    assert manifest.account.read == 600
    added = {"prediction", "probability", "request_id", "request_time"}
    assert {c.name for c in manifest.columns} == {*rows[0], *added}

    found = penstock.diff(taxi_run.summary["examples"], shards)
    far = {one.column: one.distance for one in found.different}
    assert {"tips", *added} <= far.keys()
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
