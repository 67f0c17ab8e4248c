"""Whole ingests of remote files: by the command, in a node, and when a signal stops them."""

import os
import signal
import time
from pathlib import Path

import pytest
from shared_runs import run_stock

from penstock.components.tfrecord.manifest import read_manifest

pytestmark = pytest.mark.slow
CSV = b"id,n\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(1000))


@pytest.fixture
def ingest(penstock, tmp_path):
    """A function that starts `penstock ingest` with `tmp` as its folder of temporary files."""
    (tmp_path / "tmp").mkdir()

    def start(*arguments):
        environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
        del environment["PENSTOCK_SPOOL"]
        return penstock.start("ingest", *arguments, env=environment)

    return start


def spools(tmp_path):
    return list((tmp_path / "tmp").glob(".penstock-spool*"))


def test_the_command_line(s3, ingest, tmp_path):
    for i in range(3):
        s3.put_object(Bucket="bucket", Key=f"d/{i}.csv", Body=CSV)
    out = tmp_path / "shards"
    done = ingest(
        *("s3://bucket/d", out, "--split", "train=3", "--split", "eval=1"),
        *("--workers", "2", "--shards", "4"),
    ).wait()
    assert done.returncode == 0, done.stderr
    manifest = read_manifest(out)
    assert manifest.account.read == 3000
    assert sum(manifest.account.written.values()) == 3000
    assert 2100 < manifest.account.written["train"] < 2400
    assert manifest.source_files == 3
    assert [column.name for column in manifest.columns] == ["id", "n"]
    assert spools(tmp_path) == []
    texts = [file.read_bytes() for file in out.rglob("*") if file.is_file()]
    assert len(texts) > 8
    assert not any(b"3f9c" in text for text in texts)
    assert "3f9c" not in done.stdout + done.stderr


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGKILL])
def test_a_signal_while_files_are_copied(web, ingest, tmp_path, sent):
    web.files["/a.csv"] = CSV
    web.faults += ["stall"] * 3
    run = ingest(f"{web.address}/a.csv", tmp_path / "out")
    until = time.monotonic() + 500
    while len(web.faults) == 3:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert len(spools(tmp_path)) == 2  # the folder of copies and its lock
    os.kill(run.pid, sent)
    done = run.wait()
    assert done.returncode != 0
    if sent == signal.SIGKILL:  # its copies remain; the next run removes them
        web.faults.clear()
        done = ingest(f"{web.address}/a.csv", tmp_path / "out").wait()
        assert done.returncode == 0, done.stderr
    assert spools(tmp_path) == []
    assert "Traceback" not in done.stderr
    assert (tmp_path / "out").exists() == (sent == signal.SIGKILL)


def test_the_node_runs_again_when_an_object_changes_and_not_else(s3, proxy, tmp_path):
    from penstock.components.example_gen.component import ShardedExampleGen

    def outputs():
        artifacts = run_stock(tmp_path, ShardedExampleGen("s3://bucket/d/"))
        return sorted((artifact.uri for artifact in artifacts), key=lambda uri: int(Path(uri).name))

    s3.put_object(Bucket="bucket", Key="d/a.csv", Body=CSV)
    first = outputs()
    assert [read_manifest(uri).account.read for uri in first] == [1000]
    assert list((tmp_path / "spool").iterdir()) == []
    proxy.asked.clear()
    s3.put_object(Bucket="bucket", Key="d/a.csv", Body=CSV)  # the same content with a later time
    assert outputs() == first
    assert not any("Range" in headers for headers in proxy.asked)  # the content was not read again
    s3.put_object(Bucket="bucket", Key="d/a.csv", Body=CSV.replace(b"10,100", b"10,999"))
    again = outputs()
    assert len(again) == 2
    prints = {read_manifest(uri).source_fingerprint for uri in again}
    assert len(prints) == 2
    assert b"3f9c" not in (tmp_path / "metadata.sqlite").read_bytes()
