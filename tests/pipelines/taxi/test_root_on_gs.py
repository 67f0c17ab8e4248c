"""The whole taxi pipeline with its artifacts at gs://, with every client that its nodes use."""

import json
import os
from pathlib import Path

import pytest
from google_store import GoogleStore
from shared_runs import states, words

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture
def store(tmp_path):
    server = GoogleStore(tmp_path)
    yield server
    server.close()


def test_run_on_gs_works_in_every_node(store, tmp_path, penstock, taxi_csv):
    sets = (
        *("pipeline_root=gs://bucket/taxi", f"data={taxi_csv.parent}", f"root={tmp_path}/here"),
        *("train.max_steps=80", "pack=true"),
    )
    command = ("run", "taxi", *(part for one in sets for part in ("--set", one)), "--json")
    runs = []
    for _ in range(2):
        done = penstock(*command, env={**os.environ, **store.environment})
        assert done.returncode == 0, done.stderr
        runs.append(json.loads(done.stdout))
    first, again = runs

    assert set(states(first).values()) == {"done"}
    assert first["data"]["account"]["read"] == 15_002
    assert first["evaluation"]["metrics"]["overall"]["example_count"] == 2_567
    assert first["rivals"][0]["rows"] == 2_567
    assert first["blessed"] is True
    assert first["model"].startswith("gs://bucket/taxi/Trainer/model/")
    assert Path(first["pushed"]).parent == tmp_path / "here/serving_model"
    page = (tmp_path / "here/report.html").read_text()
    assert "Missing from this page" not in words(page)
    assert {name.split("/")[0] for name in store.objects} == {"taxi"}
    assert set(states(again).values()) == {"cached"}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["google.json", "google.pem", "here"]
