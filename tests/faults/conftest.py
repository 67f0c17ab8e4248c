import hashlib
import json
import os
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("interrupted.py")


class Interrupted:
    """Runs `penstock` commands; can send each a signal at one place (see `interrupted.py`)."""

    def __init__(self, penstock, folder):
        self._penstock, self._log = penstock, folder / "places"

    def __call__(
        self,
        *command,
        watch="renames",
        place=None,
        after=0,
        signal=None,
        cwd=None,
        script="",
        exchange=True,
    ):
        self._log.write_text("")
        spec = {
            "log": str(self._log),
            "watch": watch,
            "place": place,
            "after": after,
            "signal": signal,
            "script": str(script),
            "exchange": exchange,
        }
        env = {**os.environ, "INTERRUPT": json.dumps(spec)}
        return self._penstock.start(*command, script=str(SCRIPT), env=env, cwd=cwd).wait()

    @property
    def places(self):
        """The places that the last command passed."""
        return self._log.read_text().splitlines()


@pytest.fixture
def interrupted(penstock, tmp_path_factory):
    return Interrupted(penstock, tmp_path_factory.mktemp("places"))


@pytest.fixture(scope="session")
def tree():
    """A function that returns the digests of a folder's files, except hidden ones, or of a file."""

    def of(path):
        if path.is_file():
            return hashlib.sha256(path.read_bytes()).hexdigest()
        files = sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
        return {str(file.relative_to(path)): of(file) for file in files}

    return of


@pytest.fixture(scope="session")
def small_taxi(tmp_path_factory, taxi_csv):
    """A function that takes a run's root; returns a taxi command for 3,000 trips and 40 steps."""
    data = tmp_path_factory.mktemp("trips") / "trips.csv"
    data.write_text("".join(taxi_csv.read_text().splitlines(keepends=True)[:3001]))
    sets = (
        f"data={data}", "train.max_steps=40", "train.steps_per_epoch=20",
        "evaluation.thresholds.BinaryAccuracy=0", "evaluation.thresholds.AUC=0",
        "must_beat=null",
    )  # fmt: skip
    assignments = [part for text in sets for part in ("--set", text)]
    return lambda root, *more: ("run", "taxi", "--root", root, *assignments, *more)
