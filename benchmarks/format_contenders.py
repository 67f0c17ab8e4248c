"""One contender of `penstock bench formats`, in a process of its own: what it measured.

Each gives the size in bytes of what it wrote or reads, and `Measured` of writing and reading.
"""

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock.benchmarks import format_files, format_messages, format_peers, questions
from penstock.benchmarks import input as rows_benchmark
from penstock.benchmarks.harness import measure
from penstock.benchmarks.reading import reader
from penstock.components.errors import DataError


def contend(name: str, job: dict[str, Any]) -> dict[str, Any]:
    """Run one contender of a group."""
    group = job.pop("group")
    if group in format_peers.CONTENDERS:
        return _read_peer(name, kind=group, **job)
    return _GROUPS[group](name, **job)


def _users(name: str, users: int) -> dict[str, Any]:
    chosen = format_messages.FORMATS[name]
    count = max(1, round(users * chosen.share))
    made = format_messages.made_users(min(count, format_messages.DISTINCT))
    _import_for(name)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        path = Path(folder, "users")

        def write() -> int:
            chosen.write(made, count, path)
            return count

        def read() -> int:
            characters = chosen.read(path)
            if characters != count * format_messages.POST_CHARACTERS:
                raise DataError(f"{characters:,} characters of posts were read of {count:,} users")
            return count

        written = measure(write)
        size = path.stat().st_size
        return {"write": asdict(written), "read": asdict(measure(read)), "bytes": size}


def _import_for(name: str) -> None:
    """What a contender imports, so that it is not measured."""
    if name == format_messages.PROTOBUF:
        format_messages.user_message()
    elif name != format_messages.JSON:
        import pyarrow  # noqa: F401
        import tensorflow as tf

        from penstock.components.tfrecord import encoder, writer  # noqa: F401

        tf.constant(0)


def _compress(name: str, root: str, seconds: float) -> dict[str, Any]:
    data = format_files.records(sorted(Path(root).iterdir()))
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        shards = Path(folder, "shards")

        def write() -> int:
            format_files.write(shards, data, name)
            return len(data)

        written = asdict(measure(write))
        read = reader(iter(format_files.batches(shards, name)))
        size = format_files.folder_bytes(shards)
        return {"write": written, "read": asdict(measure(lambda: read(seconds))), "bytes": size}


def _read_shards(name: str, rows: int, seconds: float) -> dict[str, Any]:
    count = format_files.SHARD_COUNTS[name]
    folder = rows_benchmark.shards(questions.data_folder(), rows, count)
    files = sorted(str(file) for file in folder.iterdir())
    read = reader(iter(rows_benchmark.penstock(files)))
    measured = measure(lambda: read(seconds))
    return {"read": asdict(measured), "bytes": format_files.folder_bytes(folder)}


def _read_peer(name: str, kind: str, root: str, rows: int, seconds: float) -> dict[str, Any]:
    read = format_peers.reader_of(name, kind, Path(root), rows)
    size = format_peers.CONTENDERS[kind][name].stored_bytes(Path(root))
    return {"read": asdict(measure(lambda: read(seconds))), "bytes": size}


_GROUPS: dict[str, Callable[..., dict[str, Any]]] = {
    "users": _users,
    "compression": _compress,
    "shards": _read_shards,
}
