"""A key of the environment, and every file that a whole pipeline leaves."""

import json
import os
import zipfile

import pytest

KEY = "planted-comet-key-0123456789"


@pytest.mark.ci
def test_no_key_is_in_any_artifact_log_or_metadata_of_a_pipeline(tmp_path, penstock):
    root = tmp_path / "taxi"
    done = penstock(
        *("run", "taxi", "--set", f"root={root}"),
        *("--set", "train.max_steps=40", "--set", "train.steps_per_epoch=40"),
        *("--set", "track.kind=comet", "--set", "track.offline=true"),
        env={**os.environ, "COMET_API_KEY": KEY, "MLFLOW_TRACKING_TOKEN": KEY},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert KEY not in done.stdout + done.stderr
    (record,) = root.glob("pipeline/Trainer/model_run/*/tracker.json")
    assert json.loads(record.read_text())["failure"] is None
    (archive,) = record.parent.glob("comet/*.zip")
    with zipfile.ZipFile(archive) as members:
        assert not [name for name in members.namelist() if KEY.encode() in members.read(name)]
    assert (record.parent / "utilisation.json").exists()
    files = [path for path in root.rglob("*") if path.is_file()]
    assert root / "metadata.sqlite" in files
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
