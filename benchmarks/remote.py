"""Reads from slow storage: a disk without a page cache, and S3 with latency.

S3 is served by Versity's gateway on this machine, behind a proxy that delays each request as a
network would. tf.data reads from the gateway through tensorflow-io, in a Python environment of its
own; Penstock copies the shards first. Two passes are measured: the first from the opening of the
files to the last row, then the next one.

    go install github.com/versity/versitygw/cmd/versitygw@latest
    python3.10 -m venv ENV; ENV/bin/pip install tensorflow==2.16.2 tensorflow-io lazy-loader psutil
    penstock bench remote --s3-server ~/go/bin/versitygw --tf-io-python ENV/bin/python
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.benchmarks import claims, ladder, table
from penstock.benchmarks.harness import (
    Check,
    Group,
    Measured,
    at_least,
    bound,
    make_once,
    measure,
    require_packages,
)

WAITS_MS = (0, 5, 20)
_PACKAGES = ("tensorflow", "tensorflow-io", "lazy-loader", "psutil")
_STEPS = (ladder.NAIVE, "prefetch", "interleave", "parallel map", "vectorised map", ladder.TUNED)
OWN = {ladder.ROWS: table.row_examples, ladder.PACKED: table.packed}
AGAIN = "next pass, rows/s"
_STORE, _BUCKET = "s3", "bench"
_LOGIN = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


@dataclass(frozen=True)
class Options:
    """Data to read, and the number of rounds.

    Attributes:
        rows: Rows of the generated table of 40 columns.
        rounds: How often each contender runs.
        s3_server: Path of the program `versitygw`. Empty leaves S3 out.
        tf_io_python: Python of an environment with tensorflow, tensorflow-io, lazy-loader and
            psutil, in which tf.data reads from S3. Required with `s3_server`.
    """

    rows: int = 131_072
    rounds: int = 3
    s3_server: str = ""
    tf_io_python: str = ""

    def __post_init__(self) -> None:
        at_least(self, rows=(table.BATCH, table.BATCH), rounds=1)


def prepare(options: Options) -> None:
    """Makes and packs the data, unless it exists."""
    if options.s3_server:
        require_packages("tf_io_python", options.tf_io_python, _PACKAGES)
    root = table.prepare(options.rows)
    if options.s3_server:
        make_once(root / _STORE, lambda store: _fill(store, root, options.s3_server))


def _fill(store: Path, root: Path, server: str) -> None:
    """Writes rows and packed records to a bucket, whose objects the gateway keeps as files."""
    import boto3

    (store / _BUCKET).mkdir(parents=True)
    with _gateway(store, 0, server) as url:
        client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
        for path in (one for name in ("rows", "packed") for one in (root / name).rglob("*")):
            if path.is_file():
                client.upload_file(str(path), _BUCKET, str(path.relative_to(root)))


def groups(options: Options) -> list[Group]:
    """Returns the comparisons for a cold disk and for S3 at each latency."""
    found = [_group(options, "A disk without a page cache", None)]
    if options.s3_server:
        found += [_group(options, f"S3, {ms} ms a request", ms) for ms in WAITS_MS]
    return found


def _group(options: Options, title: str, wait_ms: int | None) -> Group:
    given = {"options": options, "wait_ms": wait_ms}
    ways = {n: bound(_passes, ladder.STEPS[n], **given, own=False) for n in _STEPS}
    pythons = {} if wait_ms is None else dict.fromkeys(ways, options.tf_io_python)
    ways |= {name: bound(_passes, read, **given, own=True) for name, read in OWN.items()}
    checks = [
        Check(claims.INTERLEAVE_FASTER, "interleave", ["prefetch"], "per_second"),
        Check(claims.PARALLEL_MAP_FASTER, "parallel map", ["interleave"], "per_second"),
        Check(claims.UP_TO_SEVEN_TIMES, ladder.PACKED, [ladder.NAIVE], "per_second"),
    ]
    return Group(title, "rows", ways, checks, pythons)


def _passes(
    step: Callable[..., Any], options: Options, wait_ms: int | None, *, own: bool
) -> Measured:
    """Measures a pass from the opening of the files, and the rate of the next pass."""
    root = table.root_of(options.rows)
    batches = step if own else lambda place: step(ladder.table_input(place))
    list(batches(root).take(1))  # imports and tracing are not counted
    with ExitStack() as stack:
        place: Path | str = root
        if wait_ms is not None:
            stack.enter_context(_gateway(root / _STORE, wait_ms, options.s3_server))
            place = f"s3://{_BUCKET}"
            if not own:
                _open_s3(f"{place}/rows/manifest.json")

        def one_pass() -> int:
            if wait_ms is None:
                _forget(root)
            steps = options.rows // table.BATCH
            return sum(len(next(iter(b.values()))) for b in batches(place).take(steps))

        found, more = measure(one_pass), measure(one_pass)
    return replace(found, extra={AGAIN: more.rows / more.wall_seconds})


def _open_s3(file: str) -> None:
    """Enables s3:// in TensorFlow; reads a file, so the S3 client exists before threads need it."""
    import tensorflow as tf
    import tensorflow_io  # noqa: F401

    with tf.io.gfile.GFile(file, "rb") as opened:
        opened.read()


def _forget(root: Path) -> None:
    """Makes the kernel drop its cached pages of the files, so that they come from the disk."""
    for path in root.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def _gateway(store: Path, wait_ms: int, server: str) -> Iterator[str]:
    """Serves a folder of buckets as S3, behind a proxy that delays requests; yields the URL."""
    login = ["--access", _LOGIN["AWS_ACCESS_KEY_ID"], "--secret", _LOGIN["AWS_SECRET_ACCESS_KEY"]]
    with tempfile.TemporaryDirectory() as folder:
        socket = f"{folder}/s3"
        gateway = [server, "--quiet", "--port", socket, *login, "posix", str(store)]
        proxy = [sys.executable, __file__, socket, str(wait_ms)]
        with (
            subprocess.Popen(gateway, stdout=subprocess.DEVNULL) as first,
            subprocess.Popen(proxy, stdout=subprocess.PIPE, text=True) as second,
        ):
            try:
                assert second.stdout is not None
                url = second.stdout.readline().strip()
                os.environ.update(_LOGIN, S3_ENDPOINT=url, AWS_ENDPOINT_URL=url)
                yield url
            finally:
                first.kill()
                second.kill()


async def hold_back(socket: str, wait_ms: int) -> None:
    """Forwards connections to a socket, and delays requests; prints the URL where it listens."""

    async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter, wait: float) -> None:
        while data := await source.read(2**20):
            await asyncio.sleep(wait)
            to.write(data)
            await to.drain()
        to.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers, requests = await asyncio.open_unix_connection(socket)
        await asyncio.gather(
            copy(reader, requests, wait_ms / 1000), copy(answers, writer, 0), return_exceptions=True
        )

    while not os.path.exists(socket):
        await asyncio.sleep(0.01)
    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(hold_back(sys.argv[1], int(sys.argv[2])))
