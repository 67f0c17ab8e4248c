import errno
import fcntl
import multiprocessing
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.components.errors import UsageError
from penstock.components.files import commit
from penstock.components.files.commit import attempt, attempt_file, check_file, check_target
from penstock.components.tfrecord import recovery
from penstock.components.tfrecord.manifest import Manifest, RowAccount, Shard, write_manifest


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def finished(folder, text="old", **parts):
    """Writes a finished output with one shard."""
    shard = Shard("Split-train/a", 1, 3, "0")
    (folder / "Split-train").mkdir(parents=True)
    (folder / shard.file).write_text(text)
    account = RowAccount(read=1, written={"train": 1})
    write_manifest(folder, Manifest({"train": [shard]}, (), "", "csv", "", 1, account, **parts))


def test_the_output_appears_when_the_block_ends(tmp_path):
    target = tmp_path / "out"
    with attempt(target) as folder:
        (folder / "a").write_text("1")
        assert not target.exists()
    assert names(target) == ["a"]
    assert names(tmp_path) == ["out"]


def test_a_failed_block_leaves_nothing(tmp_path):
    with pytest.raises(RuntimeError, match="no"), attempt(tmp_path / "out") as folder:
        (folder / "a").write_text("1")
        raise RuntimeError("no")
    assert names(tmp_path) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_empty_folder_is_filled(tmp_path, overwrite):
    (tmp_path / "out").mkdir()
    with attempt(tmp_path / "out", overwrite=overwrite) as folder:
        (folder / "a").write_text("1")
    assert names(tmp_path / "out") == ["a"]


def test_an_occupied_output_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("1")
    with pytest.raises(UsageError, match=r"out exists already; .* pass --overwrite"):
        attempt(tmp_path / "out").__enter__()
    assert names(tmp_path / "out") == ["precious"]


def test_a_file_that_is_there_is_refused(tmp_path):
    (tmp_path / "page.html").write_text("1")
    with pytest.raises(UsageError) as error:
        check_file(tmp_path / "page.html")
    assert str(error.value) == (
        f"{tmp_path}/page.html exists already; name another output or pass --overwrite"
    )
    check_file(tmp_path / "page.html", overwrite=True)
    check_file(tmp_path / "new.html")
    with pytest.raises(UsageError, match="is a folder; name a file"):
        check_file(tmp_path, overwrite=True)
    with pytest.raises(UsageError, match=r"^/dev/null: not a regular file; refusing to replace"):
        check_file("/dev/null", overwrite=True)
    with pytest.raises(UsageError, match=r"^s3://b/page\.html: output must be a local"):
        check_file("s3://b/page.html")
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(UsageError, match="exists already"):
        check_file(tmp_path / "link")


def test_a_file_that_came_meanwhile_is_refused(tmp_path):
    page = tmp_path / "page.html"
    with (
        pytest.raises(UsageError, match="exists already"),
        attempt_file(page, overwrite=False) as new,
    ):
        new.write_text("mine")
        page.write_text("theirs")
    assert page.read_text() == "theirs"
    assert names(tmp_path) == ["page.html"]


@pytest.mark.parametrize("check", [check_file, check_target])
def test_an_output_below_a_file_is_refused(tmp_path, check):
    (tmp_path / "file").touch()
    with pytest.raises(UsageError) as error:
        check(tmp_path / "file/a/b")
    assert str(error.value) == (
        f"{tmp_path}/file/a/b: {tmp_path}/file: is a file; name another output"
    )


@pytest.mark.parametrize("check", [check_file, check_target])
def test_an_output_in_a_folder_of_others_is_refused(tmp_path, check):
    def told_of():
        if os.getuid() == 0:
            os.setuid(65534)
        with pytest.raises(UsageError, match=r"/.*: you may not write there; name another output"):
            check(tmp_path / "a/b")

    tmp_path.chmod(0o500)
    child = multiprocessing.get_context("fork").Process(target=told_of)
    child.start()
    child.join()
    assert child.exitcode == 0


@pytest.mark.parametrize("can_exchange", [True, False])
def test_overwrite_replaces_the_old_output_at_the_end(tmp_path, monkeypatch, caplog, can_exchange):
    if not can_exchange:
        monkeypatch.setattr(commit, "exchange", lambda first, second: False)
    finished(tmp_path / "out")
    with attempt(tmp_path / "out", overwrite=True) as folder:
        (folder / "new").write_text("1")
        assert names(tmp_path / "out") == ["Split-train", "manifest.json"]
    assert names(tmp_path / "out") == ["new"]
    assert names(tmp_path) == ["out"]
    assert ("cannot exchange two folders in one step" in caplog.text) == (not can_exchange)


def test_overwrite_through_a_link_replaces_its_target(tmp_path):
    finished(tmp_path / "disk" / "out")
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "out")
    with attempt(tmp_path / "link", overwrite=True) as folder:
        (folder / "new").write_text("1")
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "disk" / "out") == ["new"]
    assert names(tmp_path / "disk") == ["out"]


def _overwrite_often(target, times):
    for _ in range(times):
        with attempt(target, overwrite=True) as folder:
            folder.rmdir()
            finished(folder, "new")


@pytest.mark.slow
def test_overwrite_leaves_no_moment_without_an_output(tmp_path):
    target = tmp_path / "out"
    finished(target)
    process = multiprocessing.get_context("fork").Process(
        target=_overwrite_often, args=(target, 300)
    )
    process.start()
    looks = missing = 0
    while process.is_alive():
        looks += 1
        missing += not os.path.exists(target / "manifest.json")
    assert process.exitcode == 0
    assert looks > 300
    assert missing == 0


@pytest.mark.parametrize("name", ["src/precious", "Split-train/notes", ".hidden", "quarantine/a"])
def test_overwrite_of_an_output_with_foreign_files_is_refused(tmp_path, name):
    finished(tmp_path / "out", quarantine="quarantine")
    (tmp_path / "out" / name).parent.mkdir(exist_ok=True)
    (tmp_path / "out" / name).write_text("1")
    with pytest.raises(UsageError) as caught:
        attempt(tmp_path / "out", overwrite=True).__enter__()
    assert str(caught.value) == (
        f"{tmp_path}/out: holds {name}, which its manifest.json does not list; refusing to delete "
        "what Penstock did not write: move it away, or name another output"
    )
    assert (tmp_path / "out" / name).read_text() == "1"
    (tmp_path / "out" / name).unlink()
    (tmp_path / "out" / "link").symlink_to(tmp_path)
    with pytest.raises(UsageError, match="holds link, which"):
        check_target(tmp_path / "out", overwrite=True)


def test_overwrite_replaces_what_penstock_wrote_beside_the_shards(tmp_path):
    packed = {"columns": [{"vocabulary": "vocabulary/city.txt"}, {"vocabulary": None}]}
    finished(tmp_path / "out", quarantine="quarantine", parquet="parquet", packed=packed)
    for name in (
        "quarantine/rejected-00003.jsonl", "parquet/train/data-00000-of-00002.parquet",
        "vocabulary/city.txt", ".digests.json", f".manifest.json.{'0' * 32}",
        f"Split-train/.a.{'f' * 32}", f"..digests.json.{'1' * 32}",
    ):  # fmt: skip
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("1")
    with attempt(tmp_path / "out", overwrite=True):
        pass
    assert names(tmp_path / "out") == []


def test_overwrite_keeps_the_output_if_a_foreign_file_appears_meanwhile(tmp_path):
    finished(tmp_path / "out")
    with (
        pytest.raises(UsageError, match="holds precious, which"),
        attempt(tmp_path / "out", overwrite=True),
    ):
        (tmp_path / "out" / "precious").write_text("1")
    assert names(tmp_path / "out") == ["Split-train", "manifest.json", "precious"]
    assert names(tmp_path) == ["out"]


@pytest.mark.slow
def test_overwrite_keeps_the_output_if_a_foreign_file_appears_at_the_exchange(
    tmp_path, monkeypatch
):
    finished(tmp_path / "out")
    exchange = commit.exchange

    def exchange_late(first, second):
        monkeypatch.setattr(commit, "exchange", exchange)
        (second / "precious").write_text("1")
        return exchange(first, second)

    monkeypatch.setattr(commit, "exchange", exchange_late)
    with (
        pytest.raises(UsageError, match="holds precious, which"),
        attempt(tmp_path / "out", overwrite=True),
    ):
        pass
    assert names(tmp_path / "out") == ["Split-train", "manifest.json", "precious"]
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("length", [200, 201, 255])
def test_outputs_with_long_names_are_made_and_replaced(tmp_path, length):
    target = tmp_path / ("ä" * (length // 2) + "x" * (length % 2))
    for overwrite in (False, True):
        with attempt(target, overwrite=overwrite) as folder:
            folder.rmdir()
            finished(folder)
    assert names(tmp_path) == [target.name]
    page = tmp_path / ("p" * length)
    with attempt_file(page) as file:
        file.write_text("1")
    assert page.read_text() == "1"


@pytest.mark.parametrize("target", ["gs://b/out", "s3://b/out", Path("s3://b/out")])
def test_a_bucket_is_refused_with_the_way_to_mount_it(tmp_path, monkeypatch, target):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError) as caught:
        attempt(target).__enter__()
    assert str(caught.value) == (
        f"{target}: output must be a local or mounted path; mount the bucket "
        "(gcsfuse, a CSI driver) and name the mount point"
    )
    assert list(tmp_path.iterdir()) == []


def _die_within(target):
    with attempt(target) as folder:
        (folder / "half").write_text("1")
        os.kill(os.getpid(), signal.SIGKILL)


def test_attempt_that_cannot_be_removed_is_removed_by_the_next(tmp_path, monkeypatch):
    with monkeypatch.context() as without_descriptors:
        no_removal = SimpleNamespace(rmtree=lambda *_, **__: None)
        without_descriptors.setattr(recovery, "shutil", no_removal)
        with pytest.raises(OSError, match="Too many"), attempt(tmp_path / "out"):
            raise OSError(errno.EMFILE, "Too many open files")
    assert len(names(tmp_path)) == 2  # the attempt's folder and its lock
    with attempt(tmp_path / "other"):
        pass
    assert names(tmp_path) == ["other"]


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_no_lock_that_nobody_removes(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    process = multiprocessing.get_context("fork").Process(
        target=_die_within, args=(tmp_path / "out",)
    )
    process.start()
    process.join()
    monkeypatch.undo()
    with attempt(tmp_path / "other"):
        pass
    assert names(tmp_path) == ["other"]


def test_another_process_at_work_is_left_alone(tmp_path):
    with attempt(tmp_path / "out") as folder:
        with attempt(tmp_path / "other"):
            pass
        assert folder.exists()
    assert names(tmp_path) == ["other", "out"]


@pytest.mark.parametrize("text", ["{}", '{"name": "my app"}', "no JSON", '{"version": 99}', None])
def test_overwrite_of_what_is_no_output_is_refused(tmp_path, text):
    web, reason = tmp_path / "web", "no manifest.json"
    (web / "src").mkdir(parents=True)
    (web / "src" / "precious").write_text("1")
    if text is not None:
        (web / "manifest.json").write_text(text)
        reason = "its manifest.json is not one of Penstock's, or damaged"
    for place in (web, web / "src" / "precious"):
        with pytest.raises(UsageError) as caught:
            attempt(place, overwrite=True).__enter__()
        assert str(caught.value) == (
            f"{place}: not written by penstock ingest or pack ({reason}); refusing to overwrite "
            "it; name another output"
        )
        reason = "no manifest.json"
    assert (web / "src" / "precious").read_text() == "1"
