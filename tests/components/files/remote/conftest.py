"""Loopback servers that fail on demand: a proxy to moto's S3, a Google stand-in, a web server."""

import http.client
import os

import pytest
from faulty_server import FaultyHandler, QuietServer
from google_store import GoogleStore

from penstock.components.files import remote_system, retry


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """Gives each test new clients, short waits before retries, and an empty folder for copies."""
    remote_system._make.cache_clear()
    monkeypatch.setattr(retry, "WAIT_SECONDS", (0.05,) * 4)
    monkeypatch.setattr(remote_system, "DEADLINE_SECONDS", 1.0)
    (tmp_path / "spool").mkdir()
    monkeypatch.setenv("PENSTOCK_SPOOL", str(tmp_path / "spool"))
    yield
    remote_system._make.cache_clear()


class ProxyHandler(FaultyHandler):
    """Forwards requests to another server; only a PUT, or a GET of a part, can have a fault."""

    def may_fail(self):
        return bool(self.headers.get("Range"))

    def answer(self):
        self.server.asked.append(dict(self.headers))
        connection = http.client.HTTPConnection("127.0.0.1", self.server.behind)
        connection.request(self.command, self.path, self.body, dict(self.headers))
        answer = connection.getresponse()
        body = answer.read()
        own = ("content-length", "connection", "server", "date", "transfer-encoding")
        headers = {k: v for k, v in answer.getheaders() if k.lower() not in own}
        if self.command == "HEAD":
            headers["Content-Length"] = answer.getheader("Content-Length", "0")
        return answer.status, headers, body


class WebHandler(FaultyHandler):
    """Serves `server.files`; `server.ways` selects behaviours in which servers differ."""

    def may_fail(self):
        return True

    def answer(self):
        ways = self.server.ways
        self.server.asked.append(self.command)
        if self.path in self.server.redirects:
            return 302, {"Location": self.server.redirects[self.path]}, b""
        path = self.path.partition("?")[0]
        if path in self.server.statuses:
            return self.server.statuses[path], {}, b""
        if path not in self.server.files:
            return 404, {}, b"not here"
        if self.command == "HEAD" and "no head" in ways:
            return 405, {}, b""
        content = self.server.files[path]
        headers = {"Content-Type": "text/html" if "page" in ways else "application/octet-stream"}
        if "etag" in ways:
            headers["ETag"] = f'"{hash(content)}"'
        if "chunked" in ways:
            headers["Transfer-Encoding"] = "chunked"
            chunks = (content[at : at + 1000] for at in range(0, len(content), 1000))
            body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
            return 200, headers, body + b"0\r\n\r\n"
        if "no length" in ways:
            return 200, headers | {"Connection": "close"}, content
        headers["Content-Length"] = str(len(content))
        return 200, headers, content


@pytest.fixture(scope="session")
def moto():
    """The port of moto's S3 server."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


@pytest.fixture
def proxy(moto):
    """The proxy in front of the S3 server; `faults` spoil GETs of parts, `put_faults` PUTs."""
    server = QuietServer(ProxyHandler)
    server.behind = moto
    yield server
    server.close()


@pytest.fixture
def s3(proxy, moto, monkeypatch):
    """A client of the S3 server; AWS variables direct the tested code to the proxy instead."""
    import boto3

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.server_port}",
        "AWS_ACCESS_KEY_ID": "key-3f9c",
        "AWS_SECRET_ACCESS_KEY": "secret-3f9c",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{moto}")
    client.create_bucket(Bucket="bucket")
    yield client
    for one in client.list_objects_v2(Bucket="bucket").get("Contents", ()):
        client.delete_object(Bucket="bucket", Key=one["Key"])
    client.delete_bucket(Bucket="bucket")


@pytest.fixture
def web():
    """A web server that has no files at first and sends ETags."""
    server = QuietServer(WebHandler)
    server.files, server.ways = {}, {"etag"}
    server.redirects, server.statuses = {}, {}
    server.address = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.close()


@pytest.fixture
def google(tmp_path, monkeypatch):
    """A stand-in for Google's JSON API; its attribute `objects` contains the stored objects."""
    server = GoogleStore(tmp_path)
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    yield server
    server.close()
