"""A node that fails in its container fails the run, and its error is one line."""

import re

import pytest

pytestmark = pytest.mark.image

TRY_TWICE = "retry: {times: 1, wait_seconds: 1}"


def test_a_failed_node_fails_the_run_with_its_message(cluster, taxi_csv):
    lines = taxi_csv.read_text().splitlines()[:100]
    fields = lines[7].split(",")
    fields[lines[0].split(",").index("fare")] = "free"
    lines[7] = ",".join(fields)
    trips = cluster.volume / "trips"
    trips.mkdir()
    (trips / "trips.csv").write_text("\n".join(lines))

    done = cluster.run(cluster.compile_taxi("bad", "data=/penstock/trips", placement=TRY_TWICE))

    assert done.returncode == 1
    lines = [line.strip() for line in done.stdout.splitlines()]
    assert [line for line in lines if line.startswith("penstock: ")] == 2 * [
        "penstock: node 'ShardedExampleGen' failed: /penstock/trips/trips.csv: line 8 (row 7), "
        "column 'fare': 'free' is not a number (FLOAT by the schema); fix it, or quarantine it "
        "with `ingest.on_bad_row=quarantine`"
    ]
    assert "Traceback" not in done.stdout
    assert re.search(
        r"bad.yaml: Pipeline .*taxi.* Inner task failed: .*shardedexamplegen", lines[-1]
    )
    # CuratedSchema needs no output of the failed node, so the run may or may not have completed it.
    states = cluster.last_run().states
    assert states.pop("CuratedSchema", "COMPLETE") == "COMPLETE"
    assert states == {"ShardedExampleGen": "FAILED"}
    assert not cluster.on_volume("/penstock/runs/taxi/serving_model").exists()
