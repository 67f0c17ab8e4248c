import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("interrupted.py")


class Interrupted:
    """Runs `penstock` commands that get a signal at one of their places; see `interrupted.py`."""

    def __init__(self, penstock, folder):
        self._penstock, self._log = penstock, folder / "places"

    def __call__(self, *command, watch="renames", place=None, signal=None, cwd=None):
        self._log.write_text("")
        spec = {"log": str(self._log), "watch": watch, "place": place, "signal": signal}
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
    """The digest of each file below a folder, hidden ones apart, or of a file."""

    def of(path):
        if path.is_file():
            return hashlib.sha256(path.read_bytes()).hexdigest()
        files = sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
        return {str(file.relative_to(path)): of(file) for file in files}

    return of


@pytest.fixture
def small_disk(tmp_path):
    """Makes a file system of its own, of so many bytes."""
    mounted = []

    def make(size):
        folder = tmp_path / f"disk{len(mounted)}"
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder], check=True)
        mounted.append(folder)
        return folder

    yield make
    for folder in mounted:
        subprocess.run(["umount", "--lazy", folder], check=True)
