"""A JSON server on loopback, for stand-ins of APIs; it only records requests and answers them."""

import json
from urllib.parse import parse_qsl, urlsplit

from faulty_server import FaultyHandler, QuietServer


class _Handler(FaultyHandler):
    protocol_version = "HTTP/1.0"
    do_PATCH = FaultyHandler.do_GET  # noqa: N815

    def answer(self):
        address, body = urlsplit(self.path), json.loads(self.body or "null")
        query = dict(parse_qsl(address.query))
        self.server.requests.append((self.command, address.path, query, body, self.headers))
        status, value = self.server.answer(self.command, address.path, body)
        text = value if isinstance(value, str) else json.dumps(value)
        return status, {"Content-Type": "application/json"}, text.encode()


class JsonServer(QuietServer):
    """Sends what `answer(method, path, body)` returns: a status, and a JSON value or a text.

    Attributes:
        host: Address of the server.
        requests: Method, path, query, body and headers of each request.
    """

    def __init__(self, answer=None):
        super().__init__(_Handler)
        self.host = f"http://127.0.0.1:{self.server_port}"
        self.requests = []
        if answer:
            self.answer = answer
