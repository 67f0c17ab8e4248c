"""Real servers on loopback that fail on demand: moto's S3 behind a proxy, Google's API, the web."""

import http.client
import http.server
import json
import os
import socket
import struct
import threading
import time
import urllib.parse

import pytest

from penstock.components.files import remote_retry, remote_system


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    """Clients as this test's environment has them, short waits, and a spool of its own."""
    remote_system._make.cache_clear()
    monkeypatch.setattr(remote_retry, "WAIT_SECONDS", (0.05,) * 4)
    monkeypatch.setattr(remote_system, "DEADLINE_SECONDS", 1.0)
    (tmp_path / "spool").mkdir()
    monkeypatch.setenv("PENSTOCK_SPOOL", str(tmp_path / "spool"))
    yield
    remote_system._make.cache_clear()


class FaultyHandler(http.server.BaseHTTPRequestHandler):
    """Answers that meet the server's faults, one each, in turn."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self.next_fault()
        if fault == "reset":
            linger_not = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_not)
            self.connection.close()
            self.close_connection = True
            return
        if fault == "stall":
            time.sleep(1.5)
        status, headers, body = self.answer()
        if fault == "503":
            status, headers, body = 503, {}, b""
        if fault == "short":
            body = body[: len(body) // 2]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if not headers.keys() & {"Content-Length", "Transfer-Encoding", "Connection"}:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if fault == "break" else body)
            self.close_connection = self.close_connection or fault == "break"

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815

    def next_fault(self):
        if self.command == "PUT":
            return self.server.put_faults.pop(0) if self.server.put_faults else None
        faults = self.server.faults
        return faults.pop(0) if faults and self.command == "GET" and self.may_fail() else None

    def log_message(self, *_):
        pass


class ProxyHandler(FaultyHandler):
    """Passes on to another server; only PUTs and GETs of parts meet faults."""

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
    """Files of `server.files`; `server.ways` switches what servers differ in."""

    def may_fail(self):
        return True

    def answer(self):
        ways = self.server.ways
        self.server.asked.append((self.command, self.headers.get("Range")))
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
        wanted = self.headers.get("Range")
        if wanted and "ranges" in ways and self.headers.get("If-Range") == headers.get("ETag"):
            start = int(wanted.removeprefix("bytes=").partition("-")[0])
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
            return 206, headers, content[start:]
        if "chunked" in ways:
            headers["Transfer-Encoding"] = "chunked"
            chunks = (content[at : at + 1000] for at in range(0, len(content), 1000))
            body = b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in chunks)
            return 200, headers, body + b"0\r\n\r\n"
        if "no length" in ways:
            return 200, headers | {"Connection": "close"}, content
        headers["Content-Length"] = str(len(content))
        return 200, headers, content


class GoogleHandler(FaultyHandler):
    """The part of the JSON API that files take; objects are `server.objects`."""

    def may_fail(self):
        return self.path.startswith("/download/")

    def answer(self):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        if self.command == "POST":
            return self.upload(query)
        bucket, _, name = url.path.partition("/storage/v1/b/")[2].partition("/o")
        name = urllib.parse.unquote(name.lstrip("/"))
        objects = self.server.objects
        if bucket == "closed":
            return self.json(403, {"error": {"code": 403, "message": "no access"}})
        if not name:
            prefix = query.get("prefix", "")
            below = [key for key in objects if key.startswith(prefix)]
            return self.json(200, {"items": [self.item(key) for key in below]})
        if self.command == "DELETE" and objects.pop(name, None) is not None:
            return 204, {}, b""
        if name not in objects:
            return self.json(404, {"error": {"code": 404, "message": "not found"}})
        if not self.may_fail():
            return self.json(200, self.item(name))
        wanted = query.get("ifGenerationMatch")
        if wanted not in (None, self.item(name)["generation"]):
            return self.json(412, {"error": {"code": 412, "message": "conditionNotMet"}})
        if not self.headers.get("Range"):
            return 200, {}, objects[name]
        start, _, end = self.headers["Range"].removeprefix("bytes=").partition("-")
        return 206, {}, objects[name][int(start) : int(end) + 1]

    def upload(self, query):
        _, head, body = self.body.split(b"--==0==", 2)
        name = json.loads(head.partition(b"\n\n")[2])["name"]
        if query.get("ifGenerationMatch") == "0" and name in self.server.objects:
            return self.json(412, {"error": {"code": 412, "message": "conditionNotMet"}})
        self.server.objects[name] = body.partition(b"\n\n")[2].removesuffix(b"\n--==0==--")
        return self.json(200, self.item(name))

    def item(self, name):
        content = self.server.objects[name]
        version = str(abs(hash(content)))
        return {"name": name, "bucket": "b", "size": str(len(content)), "generation": version}

    def json(self, status, value):
        return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


class QuietServer(http.server.ThreadingHTTPServer):
    """A server that a test breaks on purpose."""

    daemon_threads = True

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.faults, self.put_faults, self.asked = [], [], []
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}).start()

    def handle_error(self, *_):
        pass

    def close(self):
        self.shutdown()
        self.server_close()


@pytest.fixture(scope="session")
def moto():
    """An S3 server; its port."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield server.get_host_and_port()[1]
    server.stop()


@pytest.fixture
def proxy(moto):
    """What stands before the S3 server; meets `faults`."""
    server = QuietServer(ProxyHandler)
    server.behind = moto
    yield server
    server.close()


@pytest.fixture
def s3(proxy, moto, monkeypatch):
    """A client of the server; what is tested goes through the proxy and has no other settings."""
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
    """A web server with `/a.csv` of 1,000 rows of two numbers."""
    server = QuietServer(WebHandler)
    server.files, server.ways = {}, {"etag", "ranges"}
    server.redirects, server.statuses = {}, {}
    server.address = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.close()


@pytest.fixture
def google(monkeypatch):
    """Google's JSON API; its objects are `objects`."""
    import fsspec

    server = QuietServer(GoogleHandler)
    server.objects = {}
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setitem(fsspec.config.conf, "gs", {"token": "anon"})
    yield server
    server.close()
