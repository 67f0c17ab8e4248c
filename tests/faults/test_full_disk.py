"""Full disks: a tmpfs with less free space, or fewer free inodes, than an output needs."""

import os
import subprocess
from contextlib import contextmanager

import pytest

from penstock.components.errors import DataError
from penstock.components.gates.pusher import publish

pytestmark = pytest.mark.slow

SHARES = (0.0, 0.4, 0.95)


def size_of(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def rows(tmp_path_factory, penstock, taxi_csv):
    folder = tmp_path_factory.mktemp("rows")
    done = penstock("ingest", taxi_csv, folder / "rows")
    assert done.returncode == 0, done.stderr
    return folder / "rows"


@pytest.mark.parametrize("command", ["ingest", "pack"])
def test_a_command_says_it_in_one_line_and_leaves_nothing(
    tmp_path, small_disk, penstock, tree, rows, taxi_csv, command
):
    source = taxi_csv if command == "ingest" else rows
    assert penstock(command, source, tmp_path / "clean").returncode == 0
    for share in SHARES:
        small_disk.leave(int(share * size_of(tmp_path / "clean")))
        failed = penstock(command, source, small_disk.folder / "out")
        assert failed.returncode == 1, share
        said = [line for line in failed.stderr.splitlines() if "penstock:" in line]
        assert len(said) == 1, failed.stderr
        assert str(small_disk.folder) in said[0]
        assert "No space left on device; free space or inodes there" in said[0], said
        assert os.listdir(small_disk.folder) == []
    small_disk.free()
    assert penstock(command, source, small_disk.folder / "out").returncode == 0
    assert tree(small_disk.folder / "out") == tree(tmp_path / "clean")


@pytest.mark.parametrize("share", SHARES)
def test_a_model_is_pushed_whole_or_not_at_all(tmp_path, small_disk, tree, share):
    model, serving = tmp_path / "model", small_disk.folder / "serving"
    (model / "variables").mkdir(parents=True)
    (model / "saved_model.pb").write_bytes(b"graph" * 20_000)
    (model / "variables/variables.data").write_bytes(b"weights " * 50_000)
    first, _ = publish(str(model), str(serving))
    (model / "saved_model.pb").write_bytes(b"other" * 20_000)
    small_disk.leave(int(share * size_of(model)))
    with pytest.raises(DataError, match=r"cannot be pushed \(.*No space left.*\); nothing of it"):
        publish(str(model), str(serving))
    assert os.listdir(serving) == [first.name]
    small_disk.free()
    version, _ = publish(str(model), str(serving))
    assert tree(version) == tree(model)
    assert sorted(os.listdir(serving)) == [first.name, version.name]


def test_a_run_goes_on_once_there_is_room(small_disk, penstock, small_taxi):
    root = small_disk.folder / "runs"
    said = []
    for room in (200_000, 600_000, 2_000_000):
        small_disk.leave(room)
        failed = penstock(*small_taxi(root))
        lines = [line for line in failed.stderr.splitlines() if line.startswith("penstock:")]
        assert (failed.returncode, len(lines)) == (1, 1), (room, failed.stderr)
        assert "Traceback" not in failed.stderr
        said += lines
    assert f"{root}/metadata.sqlite: the metadata store cannot be used" in said[0]
    # For TFX's own Beam nodes the line has no path, as docs/reliability.md says.
    assert all("No space left on device" in line for line in said[1:]), said
    small_disk.free()
    done = penstock(*small_taxi(root))
    assert done.returncode == 0, done.stderr
    assert len(list((root / "serving_model").iterdir())) == 1


@contextmanager
def disk_of(folder, inodes):
    options = f"size=64m,nr_inodes={inodes}"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("inodes", [4, 6, 8])
def test_ingest_without_free_inodes_is_one_line_and_leaves_nothing(tmp_path, penstock, inodes):
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    with disk_of(tmp_path / "disk", inodes) as disk:
        failed = penstock("ingest", tmp_path / "a.csv", disk / "out")
        assert failed.returncode == 1
        [said] = [line for line in failed.stderr.splitlines() if "penstock:" in line]
        assert str(disk) in said
        assert "No space left on device; free space or inodes there" in said
        assert "Traceback" not in failed.stderr
        assert os.listdir(disk) == []


# With one of these numbers, a node's files use up the inodes; with the other, the journal of the
# metadata store does.
@pytest.mark.parametrize("inodes", [20, 60])
def test_run_without_free_inodes_is_one_line_with_place_and_remedy(
    tmp_path, penstock, small_taxi, inodes
):
    with disk_of(tmp_path / "disk", inodes) as disk:
        failed = penstock(*small_taxi(disk / "runs"))
    [said] = [line for line in failed.stderr.splitlines() if line.startswith("penstock:")]
    assert failed.returncode == 1
    assert f": {disk}/runs/" in said
    assert "inodes" in said
    assert "Traceback" not in failed.stderr
