"""An HTTP server on loopback that fails on demand, for stand-ins of real servers."""

import http.server
import socket
import struct
import threading
import time


class FaultyHandler(http.server.BaseHTTPRequestHandler):
    """Answers requests; each PUT, and each GET that may fail, gets the server's next fault."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # without this, each answer takes 40 ms more

    def do_GET(self):
        self.body = self.read_body()
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

    def read_body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":  # this overrides Content-Length
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def next_fault(self):
        if self.command == "PUT":
            return self.server.put_faults.pop(0) if self.server.put_faults else None
        faults = self.server.faults
        return faults.pop(0) if faults and self.command == "GET" and self.may_fail() else None

    def log_message(self, *_):
        pass


class QuietServer(http.server.ThreadingHTTPServer):
    """A server that prints no errors, because tests cause them on purpose."""

    daemon_threads = True

    def __init__(self, handler):
        super().__init__(("127.0.0.1", 0), handler)
        self.faults, self.put_faults, self.asked = [], [], []
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, *_):
        pass

    def close(self):
        self.shutdown()
        self.server_close()
