import gc
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import hypothesis
import pytest
from penstock_process import Penstock
from shared_runs import SharedRun, locked

from penstock.components import activity

# By default Python looks for cycles after every 700 new objects, a quarter of the CPU time of
# importing TensorFlow and TFX, and a part of that of each traced graph.
gc.set_threshold(100_000, 50, 100)

# Optional to jsonschema, which TFX imports: it builds a grammar at its import, a tenth of the
# seconds in which a worker collects the tests.
sys.modules.setdefault("rfc3987_syntax", None)

# The same examples in each run, so that a change is judged by what it changed. For other ones:
# HYPOTHESIS_PROFILE=default.
hypothesis.settings.register_profile("fixed", derandomize=True, database=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_collection_modifyitems(items):
    """Files with whole pipelines first; one begun last would keep a single worker busy alone.

    Among these, the file that only reads runs made by other tests comes last, so it need not wait.
    """
    slow = {i.path for i in items if i.get_closest_marker("slow") or i.get_closest_marker("ci")}
    items.sort(key=lambda item: (item.path not in slow, item.path.name == "test_whole_runs.py"))


@pytest.fixture(scope="session")
def tfx_dir():
    """The installed tfx package, for the real data in it; found without importing it."""
    return Path(importlib.util.find_spec("tfx").submodule_search_locations[0])


@pytest.fixture(scope="session")
def taxi_csv(tfx_dir):
    """15,002 real taxi trips."""
    return tfx_dir / "examples/chicago_taxi_pipeline/data/simple/data.csv"


@pytest.fixture(scope="session")
def penstock(tmp_path_factory):
    """Runs `penstock` commands, each in a process that has TFX imported already."""
    started = Penstock(tmp_path_factory.mktemp("penstock"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory):
    """The folder that all workers of this session share."""
    own = tmp_path_factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@pytest.fixture(scope="session")
def taxi_run(shared_folder, penstock, taxi_csv):
    """The taxi pipeline on a copy of the real trips, in `taxi-data/trips.csv`."""
    data = shared_folder / "taxi-data"
    with locked(data):
        if not data.exists():
            data.mkdir()
            shutil.copy(taxi_csv, data / "trips.csv")
    return SharedRun(penstock, "taxi", shared_folder / "taxi", f"data={data}")


@pytest.fixture(scope="session")
def digits_run(shared_folder, penstock):
    """The digits pipeline."""
    return SharedRun(penstock, "digits", shared_folder / "digits")


class SmallDisk:
    """A file system of its own.

    Attributes:
        folder: Where to write.
    """

    def __init__(self, folder):
        self.folder = folder / "work"
        self._ballast = folder / "ballast"
        self.folder.mkdir()

    def leave(self, size):
        """Leave so many bytes free, about."""
        self._ballast.unlink(missing_ok=True)
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(self.folder).free - size)

    def free(self):
        """Leave all of it free."""
        self._ballast.unlink()


@pytest.fixture(autouse=True)
def _no_lines_by_time(monkeypatch):
    """A slow machine logs no more lines of progress than a fast one."""
    monkeypatch.setattr(activity, "SECONDS_BETWEEN_LINES", float("inf"))


@pytest.fixture
def our_messages(caplog):
    """Returns what Penstock logged: whether a library's lines arrive depends on earlier tests."""
    return lambda: [r.getMessage() for r in caplog.records if r.name.startswith("penstock")]


@pytest.fixture
def small_disk(tmp_path):
    """An empty file system of 64 MiB, whose free bytes `leave` sets; needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], check=True)
    yield SmallDisk(folder)
    subprocess.run(["umount", "--lazy", folder], check=True)
