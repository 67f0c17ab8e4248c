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

# By default, Python looks for cycles after every 700 new objects. The search takes a quarter of the
# CPU time of importing TensorFlow and TFX, and a part of the time of tracing each graph.
gc.set_threshold(100_000, 50, 100)

# The package rfc3987_syntax is optional for jsonschema, which TFX imports. It builds a grammar when
# it is imported, which takes a tenth of the time in which a worker collects the tests.
sys.modules.setdefault("rfc3987_syntax", None)

# Hypothesis draws the same examples in each run, so that a change in the results comes from a
# change in the code. HYPOTHESIS_PROFILE=default gives other examples in each run.
hypothesis.settings.register_profile("fixed", derandomize=True, database=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_collection_modifyitems(items):
    """Puts the files with slow tests first.

    If a slow file started last, it would keep a single worker busy while the other workers are
    idle.

    Among the slow files, the one that only reads the runs of other tests comes last, so that it
    does not wait for these runs.
    """
    slow = {i.path for i in items if i.get_closest_marker("slow") or i.get_closest_marker("ci")}
    items.sort(key=lambda item: (item.path not in slow, item.path.name == "test_whole_runs.py"))


@pytest.fixture(scope="session")
def tfx_dir():
    """Folder of the installed tfx package, found without an import; it contains real data."""
    return Path(importlib.util.find_spec("tfx").submodule_search_locations[0])


@pytest.fixture(scope="session")
def taxi_csv(tfx_dir):
    """The path of a CSV file with 15,002 real taxi trips."""
    return tfx_dir / "examples/chicago_taxi_pipeline/data/simple/data.csv"


@pytest.fixture(scope="session")
def penstock(tmp_path_factory):
    """An object that runs `penstock` commands, each in a process that has already imported TFX."""
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
    """A shared run of the taxi pipeline on a copy of the real trips, `taxi-data/trips.csv`."""
    data = shared_folder / "taxi-data"
    with locked(data):
        if not data.exists():
            data.mkdir()
            shutil.copy(taxi_csv, data / "trips.csv")
    return SharedRun(penstock, "taxi", shared_folder / "taxi", f"data={data}")


@pytest.fixture(scope="session")
def digits_run(shared_folder, penstock):
    """A shared run of the digits pipeline."""
    return SharedRun(penstock, "digits", shared_folder / "digits")


class SmallDisk:
    """A separate file system with little space.

    Attributes:
        folder: Folder for files.
    """

    def __init__(self, folder):
        self.folder = folder / "work"
        self._ballast = folder / "ballast"
        self.folder.mkdir()

    def leave(self, size):
        """Fills the disk, except for about `size` bytes."""
        self._ballast.unlink(missing_ok=True)
        with self._ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, shutil.disk_usage(self.folder).free - size)

    def free(self):
        """Frees the space that `leave` filled."""
        self._ballast.unlink()


@pytest.fixture(autouse=True)
def _no_lines_by_time(monkeypatch):
    """Turns off the progress lines that a slow machine would log and a fast one would not."""
    monkeypatch.setattr(activity, "SECONDS_BETWEEN_LINES", float("inf"))


@pytest.fixture
def our_messages(caplog):
    """A function that returns the lines that Penstock has logged.

    It leaves out the lines of libraries, because these depend on which tests ran earlier.
    """
    return lambda: [r.getMessage() for r in caplog.records if r.name.startswith("penstock")]


@pytest.fixture
def small_disk(tmp_path):
    """An empty file system of 64 MiB, whose free bytes `leave` sets; needs root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", folder], check=True)
    yield SmallDisk(folder)
    subprocess.run(["umount", "--lazy", folder], check=True)
