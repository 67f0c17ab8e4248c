"""A stand-in for BigQuery's REST API, made for these tests; sqlite runs the queries.

It answers jobs.query, jobs.get, jobs.getQueryResults, tabledata.list and tables.list, in pages of
`PAGE_ROWS` rows. No emulator of BigQuery's own SQL was available.
"""

import json
import re
import sqlite3
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

PAGE_ROWS = 40


class StandIn(ThreadingHTTPServer):
    """`types` has the BigQuery types of result columns by name; other columns are INTEGER."""

    def __init__(self, types):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.types, self.queries, self.results, self.denied = types, [], {}, False
        self.database = sqlite3.connect(":memory:", check_same_thread=False)
        self.database.create_function("to_json_string", 1, json.dumps)
        self.database.create_function("farm_fingerprint", 1, lambda text: hash_of(text))
        self.database.create_function("mod", 2, lambda a, b: a % b)
        self.database.create_function("concat", -1, lambda *texts: "".join(texts))
        self.lock = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def run(self, body):
        text = re.sub(r"@`(\w+)`", r":\1", body["query"])
        self.queries.append(text)
        parameters = {
            one["name"]: _value(one["parameterType"]["type"], one["parameterValue"]["value"])
            for one in body.get("queryParameters", ())
        }
        with self.lock:
            cursor = self.database.execute(text, parameters)
            names = [one[0] for one in cursor.description]
            rows = cursor.fetchall()
        job = f"job-{len(self.results)}"
        fields = [
            {"name": n, "type": self.types.get(n, "INTEGER"), "mode": "NULLABLE"} for n in names
        ]
        self.results[job] = {"fields": fields}, rows
        return job


def hash_of(text):
    import hashlib

    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def _value(kind, text):
    return int(text) if kind == "INT64" else text


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        text = self.rfile.read(int(self.headers["Content-Length"]))
        if not self.path.partition("?")[0].endswith("/queries"):
            return self._answer({"error": {"code": 400, "message": f"not here: {self.path}"}}, 400)
        body = json.loads(text)
        if self.server.denied:
            return self._answer({"error": {"code": 403, "message": "Access Denied: no\nsuch"}}, 403)
        try:
            job = self.server.run(body)
        except Exception as error:  # Without an answer, a client would retry.
            error = {"code": 400, "message": str(error), "errors": [{"reason": "invalidQuery"}]}
            return self._answer({"error": error}, 400)
        return self._answer(self._page(job, 0))

    def do_GET(self):
        url = urlsplit(self.path)
        if found := re.search(r"/jobs/([\w-]+)$", url.path):
            table = {"projectId": "p", "datasetId": "results", "tableId": found[1]}
            return self._answer({
                "jobReference": {"projectId": "p", "jobId": found[1], "location": "EU"},
                "status": {"state": "DONE"},
                "configuration": {"query": {"query": "", "destinationTable": table}},
            })  # fmt: skip
        if found := re.search(
            r"(?:/queries/|/datasets/results/tables/)([\w-]+)(/data)?$", url.path
        ):
            at = int(parse_qs(url.query).get("pageToken", ["0"])[0])
            return self._answer(self._page(found[1], at))
        if url.path.endswith("/tables"):
            reference = {"projectId": "p", "datasetId": "d", "tableId": "trips"}
            return self._answer({"tables": [{"tableReference": reference, "type": "TABLE"}]})
        return self._answer({"error": {"code": 404, "message": f"not here: {url.path}"}}, 404)

    def _page(self, job, at):
        schema, rows = self.server.results[job]
        some = rows[at : at + PAGE_ROWS]
        page = {
            "jobReference": {"projectId": "p", "jobId": job, "location": "EU"},
            "jobComplete": True, "schema": schema, "totalRows": str(len(rows)),
            "rows": [{"f": [{"v": None if v is None else str(v)} for v in row]} for row in some],
        }  # fmt: skip
        return page | ({"pageToken": str(at + PAGE_ROWS)} if at + PAGE_ROWS < len(rows) else {})

    def _answer(self, body, status=200):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass
