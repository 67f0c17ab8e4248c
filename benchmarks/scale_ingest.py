"""CSV of any size on an S3 stand-in, ingested and verified where little can be written.

Rows are made as they are asked for, so the input lies nowhere; outputs are the server's. Of the
commands' disks one can be written to, a tmpfs of `--disk-mib`, so that root runs this, on Linux.

    python benchmarks/scale_ingest.py                                  20 GB, 12 minutes of CPU
    python benchmarks/scale_ingest.py --rows 100000 --disk-mib 64      200 MB, half a minute
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from penstock.components.errors import DataError
from penstock.components.tfrecord.sharding import MIB

KEY = "/bucket/in/rows.csv"
HEADER = b"id,value,text\n"
ROW_BYTES = 2000
BAD_EVERY = 40_000  # has an id that is no number
_FIRST_ID = 10_000_000
_KINDS = 13  # of text, all within what GZIP looks back


class MadeCsv:
    """A CSV of rows of 2,000 bytes, any part of which is made when it is wanted."""

    def __init__(self, rows: int) -> None:
        self.size = len(HEADER) + rows * ROW_BYTES
        words = ["lock", "sluice", 'the ""race""', "weir,", "turbine", "first line\nsecond"]
        rng, texts = random.Random(0), []
        for kind in range(_KINDS):
            text = f'{_FIRST_ID},{kind}.5,"{" ".join(rng.choices(words, k=300))}'
            cut = text[: ROW_BYTES - 3].rstrip('"')  # not within a doubled quote
            texts.append(cut.ljust(ROW_BYTES - 2, ".").encode() + b'"\n')
        padded = b"".join(texts)
        self._rows = np.frombuffer(padded, np.uint8).reshape(_KINDS, ROW_BYTES)

    def part(self, start: int, end: int) -> bytes:
        """The bytes from `start` up to `end`."""
        if start < len(HEADER) < end:
            return self.part(start, len(HEADER)) + self.part(len(HEADER), end)
        if end <= len(HEADER):
            return HEADER[start:end]
        start, end = start - len(HEADER), end - len(HEADER)
        rows = np.arange(start // ROW_BYTES, -(-end // ROW_BYTES))
        made = self._rows[rows % _KINDS]
        made[:, :8] = (rows[:, None] + _FIRST_ID) // 10 ** np.arange(7, -1, -1) % 10 + ord("0")
        made[rows % BAD_EVERY == BAD_EVERY - 1, 0] = ord("x")
        first = int(rows[0]) * ROW_BYTES
        return made.tobytes()[start - first : end - first]


def serve(rows: int) -> None:
    """Be the S3 server: moto, which has the outputs, and the made object; prints its port."""
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    made, others = MadeCsv(rows), DomainDispatcherApplication(create_backend_app)
    facts = [("ETag", '"made"'), ("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")]

    def answer(asked: dict[str, Any], start: Callable[..., object]) -> Iterable[bytes]:
        if asked["PATH_INFO"] != KEY:
            return others(asked, start)
        if asked["REQUEST_METHOD"] == "HEAD":
            start("200 OK", [*facts, ("Content-Length", str(made.size))])
            return []
        if asked.get("HTTP_IF_MATCH") != '"made"':
            start("412 Precondition Failed", [("Content-Length", "0")])
            return []
        first, last = map(int, asked["HTTP_RANGE"].removeprefix("bytes=").split("-"))
        body = made.part(first, last + 1)
        shown = ("Content-Range", f"bytes {first}-{last}/{made.size}")
        start("206 Partial Content", [*facts, shown, ("Content-Length", str(len(body)))])
        return [body]

    server = make_server("127.0.0.1", 0, answer, threaded=True, request_handler=MotoRequestHandler)
    print(server.server_port, flush=True)
    server.serve_forever()


def inside(disk: Path, disk_mib: int, workers: int) -> None:
    """Ingest and verify in a mount namespace of this process; prints figures as JSON."""
    import psutil

    for mount in psutil.disk_partitions(all=True):
        command = ["mount", "-o", "remount,bind,ro", mount.mountpoint]
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk_mib}m", "tmpfs", disk], check=True)
    for place in ("/", "/tmp", "/var/tmp", "/dev/shm", Path.home(), Path.cwd()):
        if os.access(place, os.W_OK):
            raise DataError(f"{place}: can be written to, expected {disk} alone")
    os.environ.update(TMPDIR=str(disk), PENSTOCK_SPOOL=str(disk), MPLCONFIGDIR=str(disk))
    ingest = ["ingest", f"s3:/{KEY}", "s3://bucket/out", "--compression", "GZIP", "--json"]
    options = ["--on-bad-row", "quarantine", "--workers", str(workers)]
    runs = {"ingest": [*ingest, *options], "verify": ["verify", "s3://bucket/out", "--json"]}
    print(json.dumps({name: _measured(command, disk) for name, command in runs.items()}))


def _measured(command: list[str], disk: Path) -> dict[str, Any]:
    """A command's own output, CPU seconds, peak of memory and of the disk in MiB."""
    used, over = [0], threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            used.append(max(used.pop(), shutil.disk_usage(disk).used))

    looking = threading.Thread(target=look, daemon=True)
    looking.start()
    penstock, began = Path(sys.executable).with_name("penstock"), time.perf_counter()
    with tempfile.TemporaryFile(dir=disk) as out:
        process = subprocess.Popen([sys.executable, penstock, *command], stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        over.set()
        looking.join()
        if status:
            raise DataError(f"penstock {command[0]} ended with status {status}")
        out.seek(0)
        return {
            "said": json.loads(out.read()),
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "wall_seconds": time.perf_counter() - began,
            "peak_mib": usage.ru_maxrss / 1024,
            "disk_mib": used[0] / MIB,
        }


def run(rows: int, disk_mib: int, workers: int) -> dict[str, dict[str, Any]]:
    """Figures of `ingest` and `verify`, and those of the server; DataError if a row is missing."""
    import boto3
    import psutil

    command = [sys.executable, __file__, "--rows", str(rows), "--disk-mib", str(disk_mib)]
    with (
        tempfile.TemporaryDirectory(prefix="penstock-bench-") as disk,
        subprocess.Popen(
            [*command, "--serve"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as server,
    ):
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            os.environ.update(
                AWS_ENDPOINT_URL=f"http://127.0.0.1:{port}",
                AWS_ACCESS_KEY_ID="made",
                AWS_SECRET_ACCESS_KEY="made",
                AWS_DEFAULT_REGION="us-east-1",
                AWS_EC2_METADATA_DISABLED="true",
            )
            boto3.client("s3").create_bucket(Bucket="bucket")
            options = ["--inside", disk, "--workers", str(workers)]
            done = subprocess.run(
                ["unshare", "--mount", *command, *options], check=True, stdout=subprocess.PIPE
            )
            times = psutil.Process(server.pid).cpu_times()
        finally:
            server.kill()
    runs: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    account, bad = runs["ingest"]["said"]["account"], rows // BAD_EVERY
    verified = runs["verify"]["said"]["records"]
    found = (account["read"], account["quarantined"], sum(account["written"].values()), verified)
    if found != (rows, bad, rows - bad, rows - bad):
        raise DataError(f"{rows:,} rows, {bad:,} bad; found {account}, {verified:,} verified")
    return {**runs, "server": {"cpu_seconds": times.user + times.system}}


def main() -> None:
    """Run it and print a table; or, as a child, serve or do the work."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--disk-mib", type=int, default=4096)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(args.rows)
    elif args.inside:
        inside(args.inside, args.disk_mib, args.workers)
    else:
        runs = run(args.rows, args.disk_mib, args.workers)
        account = runs["ingest"]["said"]["account"]
        if args.json:
            print(json.dumps(runs, indent=1))
            return
        size = MadeCsv(args.rows).size
        print(
            f"{args.rows:,} rows, {size / 1e9:.1f} GB, a disk of {args.disk_mib:,} MiB; {account}"
        )
        for name, figures in runs.items():
            figures.pop("said", None)
            shown = (f"{key} {value:,.0f}" for key, value in figures.items())
            print(f"{name:8} {', '.join(shown)}")


if __name__ == "__main__":
    main()
