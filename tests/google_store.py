"""A stand-in on loopback for Google Cloud Storage and its login, for all clients of a pipeline.

gcsfs and google-cloud-storage find it through the variable STORAGE_EMULATOR_HOST. TensorFlow's own
client accepts only Google's address, so it reaches this server through an HTTPS proxy, which is
this server too, and trusts the certificate made here.
"""

import base64
import datetime
import email
import json
import socketserver
import ssl
import urllib.parse
import uuid

import google_crc32c
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from faulty_server import FaultyHandler, QuietServer

# Variables by which TensorFlow, Python's requests and httplib2 find the certificate to trust.
_TRUST = ("CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "HTTPLIB2_CA_CERTS")


class GoogleHandler(FaultyHandler):
    """The part of the JSON API that clients use; objects of all buckets are `server.objects`."""

    def do_CONNECT(self):  # noqa: N802
        self.send_response(200)
        self.end_headers()
        self.connection = self.server.tls.wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb", self.rbufsize)
        self.wfile = socketserver._SocketWriter(self.connection)
        self.close_connection = False  # `requests` opens tunnels in HTTP/1.0

    def finish(self):
        super().finish()
        self.connection.close()

    def may_fail(self):
        return self.path.startswith("/download/")

    def answer(self):
        self.server.asked.append((self.command, self.path, self.headers.get("Authorization")))
        if self.path.startswith("/batch/"):
            return self.batch()
        return self.reply(self.command, self.path, self.body)

    def reply(self, method, target, body):
        url = urllib.parse.urlsplit(target)
        query = dict(urllib.parse.parse_qsl(url.query))
        if url.path.endswith("/token"):
            token = {"access_token": "token", "token_type": "Bearer", "expires_in": 3600}
            return self.json(200, token)
        if self.headers.get("Authorization") != "Bearer token":
            return self.json(401, {"error": {"code": 401, "message": "login wanted"}})
        if url.path.startswith("/upload/"):
            return self.upload(method, url.path, query, body)
        before, is_api, path = url.path.partition("/storage/v1/b/")
        if not is_api:
            return self.content(urllib.parse.unquote(url.path.split("/", 2)[2]), query)
        bucket, *rest = map(urllib.parse.unquote, path.split("/"))
        if bucket == "closed":
            return self.json(403, {"error": {"code": 403, "message": "no access"}})
        if not rest:
            return self.json(200, {"kind": "storage#bucket", "name": bucket, "location": "EU"})
        name, *to = rest[1:] or [""]
        objects = self.server.objects
        if not name:
            return self.listing(query)
        if name not in objects:
            return self.json(404, {"error": {"code": 404, "message": "not found"}})
        if to:
            action, _, _, _, copy = to
            objects[copy] = objects[name]
            done = {"done": True, "objectSize": "0", "totalBytesRewritten": "0"}
            item = self.item(copy)
            return self.json(200, item if action == "copyTo" else {**done, "resource": item})
        if method == "DELETE":
            objects.pop(name, None)
            return 204, {}, b""
        if before == "/download" or query.get("alt") == "media":
            return self.content(name, query)
        return self.json(200, self.item(name))

    def content(self, name, query):
        if name not in self.server.objects:
            return self.json(404, {"error": {"code": 404, "message": "not found"}})
        content = self.server.objects[name]
        wanted = query.get("ifGenerationMatch")
        if wanted not in (None, self.item(name)["generation"]):
            return self.json(412, {"error": {"code": 412, "message": "conditionNotMet"}})
        if not self.headers.get("Range"):
            return 200, {}, content
        start, _, end = self.headers["Range"].removeprefix("bytes=").partition("-")
        part = content[int(start) : int(end) + 1 if end else None]
        if not part:
            return 416, {}, b""
        place = f"bytes {start}-{int(start) + len(part) - 1}/{len(content)}"
        return 206, {"Content-Range": place}, part

    def listing(self, query):
        prefix, mark = query.get("prefix", ""), query.get("delimiter")
        entries = set()
        for name in list(self.server.objects):
            if name.startswith(prefix):
                first, found, _ = name[len(prefix) :].partition(mark or "\0")
                entries.add(prefix + first + found)
        entries = sorted(entry for entry in entries if entry > query.get("pageToken", ""))
        page = entries[: int(query.get("maxResults", 1000))]
        is_item = {e: not mark or mark not in e[len(prefix) :] for e in page}
        answer = {
            "items": [self.item(entry) for entry in page if is_item[entry]],
            "prefixes": [entry for entry in page if not is_item[entry]],
        }
        more = {"nextPageToken": page[-1]} if len(entries) > len(page) else {}
        return self.json(200, {name: found for name, found in answer.items() if found} | more)

    def upload(self, method, path, query, body):
        if method == "PUT":
            query, had = self.server.uploads[query["upload_id"]]
            had += body
            whole = self.headers.get("Content-Range", "").rpartition("/")[2]
            if whole == "*" or (whole and len(had) < int(whole)):
                return 308, {"Range": f"bytes=0-{len(had) - 1}"} if had else {}, b""
            return self.put(query, bytes(had))
        if query["uploadType"] == "multipart":
            described, body = self.parts(body)
            query = {"name": json.loads(described)["name"], **query}
        if query["uploadType"] != "resumable":
            return self.put(query, body)
        upload = uuid.uuid4().hex
        query = {**(json.loads(body) if body else {}), **query}
        self.server.uploads[upload] = (query, bytearray())
        scheme = "https" if isinstance(self.connection, ssl.SSLSocket) else "http"
        place = f"{scheme}://{self.headers['Host']}{path}"
        return 200, {"Location": f"{place}?uploadType=resumable&upload_id={upload}"}, b""

    def put(self, query, content):
        if query.get("ifGenerationMatch") == "0" and query["name"] in self.server.objects:
            return self.json(412, {"error": {"code": 412, "message": "conditionNotMet"}})
        self.server.objects[query["name"]] = content
        return self.json(200, self.item(query["name"]))

    def parts(self, body):
        """The contents of the two parts of a multipart body."""
        mark = b"--" + self.headers["Content-Type"].partition("boundary=")[2].strip("\"'").encode()
        newline = b"\r\n" if mark + b"\r\n" in body else b"\n"
        start = body.index(mark, len(mark))
        both = body[:start], body[start : body.rindex(mark)]
        return [part.partition(2 * newline)[2].removesuffix(newline) for part in both]

    def batch(self):
        head = f"Content-Type: {self.headers['Content-Type']}\r\n\r\n".encode()
        answers = []
        for part in email.message_from_bytes(head + self.body).get_payload():
            asked, _, rest = part.get_payload().replace("\r\n", "\n").partition("\n")
            method, target, _ = asked.split(" ")
            status, _, body = self.reply(method, target, rest.partition("\n\n")[2].encode())
            inner = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\n\r\n".encode()
            outer = b"--batch\r\nContent-Type: application/http\r\n\r\n"
            answers.append(outer + inner + body + b"\r\n")
        kind = {"Content-Type": "multipart/mixed; boundary=batch"}
        return 200, kind, b"".join(answers) + b"--batch--\r\n"

    def item(self, name):
        content = self.server.objects[name]
        version = str(abs(hash(content)))
        # google-cloud-storage, from 3.0, compares this with the checksum of the bytes that it sent.
        checksum = base64.b64encode(google_crc32c.Checksum(bytes(content)).digest()).decode()
        return {
            **{"name": name, "bucket": "b", "size": str(len(content)), "generation": version},
            "crc32c": checksum,
            "updated": "2026-01-01T00:00:00.000Z",
        }

    def json(self, status, value):
        return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


class GoogleStore(QuietServer):
    """The stand-in for Google Cloud Storage.

    Attributes:
        objects: Contents of the objects in all buckets, by name.
        environment: Variables that direct a process to the server, with a user's login.
    """

    def __init__(self, folder, handler=GoogleHandler):
        self.objects, self.uploads = {}, {}
        self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.tls.load_cert_chain(_certificate(folder / "google.pem"))
        super().__init__(handler)
        user = {"type": "authorized_user", "client_id": "i", "client_secret": "s"}
        login = folder / "google.json"
        login.write_text(json.dumps({**user, "refresh_token": "r"}))
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.environment = {
            "STORAGE_EMULATOR_HOST": self.address,
            "HTTPS_PROXY": self.address,
            **dict.fromkeys(_TRUST, str(folder / "google.pem")),
            "GOOGLE_APPLICATION_CREDENTIALS": str(login),
        }


def _certificate(file):
    """Writes a key and a self-signed certificate for Google's names."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "stand-in")])
    now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
    unused = "content_commitment key_encipherment data_encipherment key_agreement crl_sign"
    usage = dict.fromkeys([*unused.split(), "encipher_only", "decipher_only"], False)
    built = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now - day, now + day
    )
    for extension, is_critical in (
        (x509.SubjectAlternativeName([x509.DNSName("*.googleapis.com")]), False),
        (x509.BasicConstraints(ca=True, path_length=None), True),
        (x509.KeyUsage(digital_signature=True, key_cert_sign=True, **usage), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
    ):
        built = built.add_extension(extension, critical=is_critical)
    encoded = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    signed = built.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    file.write_bytes(encoded + signed)
    return file
