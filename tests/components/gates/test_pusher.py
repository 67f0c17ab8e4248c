import os
import resource
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest
from tfx.types.standard_artifacts import PushedModel

from penstock.components.errors import DataError
from penstock.components.gates import pusher
from penstock.components.gates.pusher import publish
from penstock.components.gates.served_model import check_served, folder_digest


def model(folder, text="a model"):
    (folder / "variables").mkdir(parents=True)
    (folder / "saved_model.pb").write_text(text)
    (folder / "variables/variables.data").write_bytes(b"weights " * 1000)
    return str(folder)


@pytest.fixture
def serving(tmp_path):
    return str(tmp_path / "serving")


def pushed(version, digest=""):
    artifact = PushedModel()
    artifact.set_string_custom_property("pushed_destination", str(version))
    artifact.set_string_custom_property("pushed_version", version.name)
    artifact.set_string_custom_property("pushed_sha256", digest)
    return artifact


@pytest.mark.slow
def test_newest_version_is_the_one_pushed_last(tmp_path, serving, monkeypatch):
    first, second = model(tmp_path / "a"), model(tmp_path / "b", "another")
    versions = [publish(path, serving)[0] for path in (first, second, first, second)]
    assert [int(v.name) - int(versions[0].name) for v in versions] == [0, 1, 2, 3]
    back = SimpleNamespace(time=lambda: 0.0)  # a clock that was set back
    monkeypatch.setattr(pusher, "time", back)
    newest, digest = publish(first, serving)
    assert int(newest.name) == int(versions[-1].name) + 1
    assert folder_digest(str(newest)) == digest == folder_digest(first)
    assert sorted(os.listdir(serving)) == sorted(v.name for v in (*versions, newest))


def test_push_of_the_newest_model_changes_nothing(tmp_path, serving):
    version, _ = publish(model(tmp_path / "a"), serving)
    assert publish(str(tmp_path / "a"), serving)[0] == version
    assert os.listdir(serving) == [version.name]


@pytest.mark.slow
def test_check_served_refuses_missing_altered_or_superseded_versions(tmp_path, serving):
    version, digest = publish(model(tmp_path / "a"), serving)
    check_served(pushed(version, digest))
    newer, _ = publish(model(tmp_path / "b", "another"), serving)
    with pytest.raises(DataError, match=f"{version}: was pushed, but {newer.name} is the newest"):
        check_served(pushed(version, digest))
    shutil.rmtree(newer)
    (version / "saved_model.pb").write_text("A model")
    with pytest.raises(DataError, match=f"{version}: the pushed model was altered"):
        check_served(pushed(version, digest))
    shutil.rmtree(version)
    with pytest.raises(DataError, match=f"{version}: the pushed model is gone"):
        check_served(pushed(version, digest))
    check_served(PushedModel())  # this model was not pushed


@pytest.fixture
def file_limit():
    """The hard limit of the file size; after the test, both limits are restored."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield before[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.slow
def test_failed_push_leaves_no_partial_version(tmp_path, serving, file_limit):
    path = model(tmp_path / "a")
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, file_limit))
    with pytest.raises(DataError, match=r"cannot be pushed \(.*File too large.*\); nothing of it"):
        publish(path, serving)
    assert os.listdir(serving) == []


@pytest.mark.slow
def test_killed_push_leaves_no_version_and_the_next_one_cleans_up(tmp_path, serving):
    path = model(tmp_path / "a")
    code = (
        "import os, signal, sys\n"
        "from penstock.components.gates import pusher\n"
        "pusher.os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)\n"
        "pusher.publish(*sys.argv[1:])\n"
    )
    killed = subprocess.run([sys.executable, "-c", code, path, serving], check=False)
    assert killed.returncode == -9
    assert [name for name in os.listdir(serving) if name.isdecimal()] == []
    version, _ = publish(path, serving)
    assert os.listdir(serving) == [version.name]
