"""Files at addresses, over real HTTP on loopback: moto's S3, a proxy that fails, a web server."""

import http.client
import http.server
import os
import pickle
import shutil
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.components.errors import DataError, UsageError
from penstock.components.sources import remote_copy, remote_retry, remote_system, spool
from penstock.components.sources.open import open_source
from penstock.components.sources.options import SourceOptions
from penstock.components.sources.remote import RemoteFile
from penstock.components.tfrecord.manifest import read_manifest

slow = pytest.mark.slow


@pytest.fixture(autouse=True)
def new_clients():
    """Clients keep the settings that they were made with."""
    remote_system._make.cache_clear()


CSV = b"id,n\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(1000))


def data_error(call):
    with pytest.raises(DataError) as caught:
        call()
    return str(caught.value)


@pytest.fixture(scope="module")
def moto():
    """An S3 server; its port."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


class FaultyProxy(http.server.ThreadingHTTPServer):
    """Passes requests on to another server; GETs of parts meet the faults, one each, in turn."""

    def __init__(self, port):
        super().__init__(("127.0.0.1", 0), FaultyHandler)
        self.behind = port
        self.faults = []


class FaultyHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        fault = None
        if self.server.faults and self.headers.get("Range"):
            fault = self.server.faults.pop(0)
        if fault == "reset":
            linger_not = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)
            self.connection.close()
            self.close_connection = True
            return
        if fault == "stall":
            time.sleep(3)
        connection = http.client.HTTPConnection("127.0.0.1", self.server.behind)
        connection.request(self.command, self.path, headers=dict(self.headers))
        answer = connection.getresponse()
        body = answer.read()
        status = 503 if fault == "503" else answer.status
        if fault == "short":
            body = body[: len(body) // 2]
        self.send_response(status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "connection", "server", "date"):
                self.send_header(name, value)
        length = answer.getheader("Content-Length", "0") if self.command == "HEAD" else len(body)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"" if fault == "503" else body)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


class Quiet(FaultyProxy):
    def handle_error(self, *_):
        """What a fault breaks is meant to be broken."""


@pytest.fixture
def proxy(moto):
    server = Quiet(moto)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def s3(proxy, moto, monkeypatch, tmp_path):
    """A client of the server; what is tested goes through the proxy and has no other settings."""
    import boto3

    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.server_port}",
        "AWS_ACCESS_KEY_ID": "key-3f9c",
        "AWS_SECRET_ACCESS_KEY": "secret-3f9c",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    folder = tmp_path / "spool"
    folder.mkdir()
    monkeypatch.setenv("PENSTOCK_SPOOL", str(folder))
    monkeypatch.setattr(remote_retry, "WAIT_SECONDS", (0.05,) * 4)
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{moto}")
    client.create_bucket(Bucket="bucket")
    yield client
    for one in client.list_objects_v2(Bucket="bucket").get("Contents", ()):
        client.delete_object(Bucket="bucket", Key=one["Key"])
    client.delete_bucket(Bucket="bucket")


@slow
@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("s3://bucket/d", ["a.csv", "b.csv"]),
        ("s3://bucket/d/", ["a.csv", "b.csv"]),
        ("s3://bucket/d/*.csv", ["a.csv", "b.csv"]),
        ("s3://bucket/d/b.csv", ["b.csv"]),
        ("s3://bucket/d/**", ["a.csv", "b.csv", "sub/c.csv"]),
    ],
)
def test_folders_globs_and_files(s3, read_out, pattern, names):
    for name in ("d/a.csv", "d/b.csv", "d/sub/c.csv"):
        s3.put_object(Bucket="bucket", Key=name, Body=CSV)
    for name in ("d/_SUCCESS", "d/", "d/.crc"):
        s3.put_object(Bucket="bucket", Key=name, Body=b"")
    source = open_source(pattern)
    assert list(source.files) == [f"s3://bucket/d/{name}" for name in names]
    copy = pickle.loads(pickle.dumps(source))
    assert len(read_out(copy, parts=3).rows) == 1000 * len(names)


@slow
def test_parquet_and_what_is_wrong_are_named_by_their_address(s3, read_out, tmp_path):
    pq.write_table(pa.table({"x": list(range(5000))}), tmp_path / "x.parquet", row_group_size=1000)
    data = (tmp_path / "x.parquet").read_bytes()
    s3.put_object(Bucket="bucket", Key="x", Body=data)
    source = open_source("s3://bucket/x")
    assert source.kind == "parquet"
    assert len(read_out(source, parts=4).rows) == 5000
    s3.put_object(Bucket="bucket", Key="cut.parquet", Body=data[:-10])
    assert data_error(lambda: open_source("s3://bucket/cut.parquet")).startswith(
        "s3://bucket/cut.parquet: truncated"
    )
    s3.put_object(Bucket="bucket", Key="bad.csv", Body=b"a,b\n1,2\n3\n")
    out = read_out(open_source("s3://bucket/bad.csv"))
    assert str(out.rejected[0]).startswith("s3://bucket/bad.csv: line 3 (row 2)")
    assert data_error(lambda: open_source("s3://bucket/none")) == (
        "s3://bucket/none: no such file or folder"
    )
    assert data_error(lambda: open_source("s3://elsewhere/x")) == (
        "s3://elsewhere/x: no such file or folder "
        "(NoSuchBucket: The specified bucket does not exist)"
    )


@slow
@pytest.mark.parametrize("fault", ["503", "reset", "short", "stall"])
def test_a_fault_is_survived_a_few_times_and_then_named(s3, proxy, read_out, monkeypatch, fault):
    monkeypatch.setattr(remote_copy, "_BLOCK_BYTES", 2000)
    monkeypatch.setattr(remote_system, "DEADLINE_SECONDS", 1.0)
    s3.put_object(Bucket="bucket", Key="a.csv", Body=CSV)
    proxy.faults += [fault, fault]
    out = read_out(open_source("s3://bucket/a.csv"))
    assert proxy.faults == []
    assert out.rows == [[i, i * i] for i in range(1000)]
    s3.put_object(Bucket="bucket", Key="b.csv", Body=CSV)
    proxy.faults += [fault] * 100
    message = data_error(lambda: open_source("s3://bucket/b.csv"))
    assert message.startswith("s3://bucket/b.csv: cannot be read, 5 tries failed (")
    assert list(Path(os.environ["PENSTOCK_SPOOL"]).iterdir()) != []
    assert len(proxy.faults) >= 90


@slow
def test_what_is_read_is_what_was_scanned(s3, read_out):
    s3.put_object(Bucket="bucket", Key="a.csv", Body=CSV)
    source = open_source("s3://bucket/a.csv")
    s3.put_object(Bucket="bucket", Key="a.csv", Body=CSV.replace(b"10,100", b"10,999"))
    assert read_out(source).rows[10] == [10, 100]
    # Another machine has no copy yet, and the object in its former state is gone.
    shutil.rmtree(os.environ["PENSTOCK_SPOOL"])
    Path(os.environ["PENSTOCK_SPOOL"]).mkdir()
    message = data_error(lambda: read_out(source))
    assert message.startswith("s3://bucket/a.csv: was changed since it was listed")
    assert open_source("s3://bucket/a.csv").fingerprint != source.fingerprint


@slow
def test_the_fingerprint_is_that_of_the_same_local_files(s3, tmp_path):
    s3.put_object(Bucket="bucket", Key="a.csv", Body=CSV)
    (tmp_path / "a.csv").write_bytes(CSV)
    local = open_source(str(tmp_path / "a.csv"))
    assert open_source("s3://bucket/a.csv").fingerprint == local.fingerprint


@slow
def test_the_command_line_leaves_no_copy_and_no_credential(s3, tmp_path):
    for i in range(3):
        s3.put_object(Bucket="bucket", Key=f"d/{i}.csv", Body=CSV)
    temporary, out = tmp_path / "tmp", tmp_path / "shards"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    del environment["PENSTOCK_SPOOL"]
    done = subprocess.run(
        [
            *(Path(sys.executable).with_name("penstock"), "ingest", "s3://bucket/d", str(out)),
            *("--workers", "2", "--shards", "4"),
        ],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert read_manifest(out).account.read == 3000
    assert list(temporary.glob("penstock-spool*")) == []
    texts = [file.read_bytes() for file in out.rglob("*") if file.is_file()]
    assert not any(b"secret-3f9c" in text or b"key-3f9c" in text for text in texts)
    assert "3f9c" not in done.stdout + done.stderr


class WebHandler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        content = self.server.files.get(self.path)
        if content is None:
            self.send_error(404)
            return
        wanted = self.headers.get("Range")
        if wanted and self.server.ranges:
            start, _, end = wanted.removeprefix("bytes=").partition("-")
            part = content[int(start) : int(end) + 1]
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{end}/{len(content)}")
        else:
            part = content
            self.send_response(200)
        if self.server.ranges:
            self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        if self.command == "GET":
            self.server.requests += 1
            self.wfile.write(part)

    do_HEAD = do_GET  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def web(monkeypatch, tmp_path):
    """A web server."""
    (tmp_path / "spool").mkdir(exist_ok=True)
    monkeypatch.setenv("PENSTOCK_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setattr(remote_retry, "WAIT_SECONDS", (0.05,))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), WebHandler)
    server.files, server.ranges, server.requests = {"/a.csv": CSV}, True, 0
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("ranges", [True, False])
def test_a_file_of_a_web_server_in_parts_or_whole(web, read_out, monkeypatch, ranges):
    web.ranges = ranges
    address = f"http://127.0.0.1:{web.server_port}"
    assert read_out(open_source(f"{address}/a.csv")).rows == [[i, i * i] for i in range(1000)]
    assert web.requests == 1
    assert data_error(lambda: open_source(f"{address}/none.csv")) == (
        f"{address}/none.csv: no such file or folder"
    )


def test_a_server_that_is_not_there(monkeypatch):
    monkeypatch.setattr(remote_retry, "WAIT_SECONDS", (0.05,))
    message = data_error(lambda: open_source("http://127.0.0.1:9/a.csv"))
    assert message.startswith("http://127.0.0.1:9/a.csv: cannot be read, 2 tries failed (")


def test_no_room_for_a_copy(monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_SPOOL", str(tmp_path))
    file = RemoteFile("s3://bucket/large", 2**60, "v")
    message = data_error(lambda: spool.local_path(file))
    assert message.startswith("s3://bucket/large: 1152921504606846976 bytes do not fit into the ")
    assert list(tmp_path.iterdir()) == []


def test_copies_of_a_killed_process_are_removed(tmp_path):
    code = (
        "import os, signal; from penstock.components.sources import spool; "
        "print(spool._spool(), flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("PENSTOCK_SPOOL", None)
    first = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert Path(first.stdout.decode().strip()).is_dir()
    clean = code.replace("os.kill(os.getpid(), signal.SIGKILL)", "None")
    subprocess.run([sys.executable, "-c", clean], env=environment, check=True, capture_output=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "address",
    [
        "https://me:pw-3f9c@host/a.csv",
        "s3://key:pw-3f9c@bucket/a.csv",
        "https://host/a.csv?X-Amz-Signature=pw-3f9c",
        "https://host/a.csv?sig=pw-3f9c",
    ],
)
def test_an_address_with_a_secret_is_refused_and_not_repeated(address):
    with pytest.raises(UsageError) as caught:
        open_source(address)
    assert "holds a" in str(caught.value)
    assert "pw-3f9c" not in str(caught.value)


def test_addresses_that_no_files_are_read_from():
    with pytest.raises(UsageError, match=r"^minio://b/x: files are read from paths and s3, gs"):
        open_source("minio://b/x", SourceOptions(kind="csv"))
    with pytest.raises(UsageError, match=r"hdfs://.*needs Java and Hadoop's libhdfs"):
        open_source("hdfs://name/a.csv")
