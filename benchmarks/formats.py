"""Compares protobuf with JSON, and Penstock's files with those of peers.

Writes and reads, in each format, a million users with four posts each. Rows of one table are then
read from Penstock's files, from those of webdataset, grain, TensorFlow and Parquet, and by
PyTorch's readers, which need a Python environment of their own. Decoded images are read from
Penstock's files and from those of webdataset and grain.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from penstock.benchmarks import claims, messages, peers, photos, table, torch_peers
from penstock.benchmarks.harness import Check, Group, at_least, bound, require_packages
from penstock.components.errors import UsageError


@dataclass(frozen=True)
class Options:
    """Data to write and read, and the number of rounds.

    Attributes:
        users: Users with four posts each, as JSON and as nested protobuf; 0 leaves them out.
        rows: Rows of 40 columns for the peers; 0 leaves them out.
        images: Images of 299 x 299 decoded pixels for the peers; 0 leaves them out.
        seconds: Time for which each reader reads in each round.
        rounds: How often each contender runs.
        torch_python: Python of an environment with PyTorch's readers, which are then measured too.
            The environment needs torch, mosaicml-streaming, torchdata, pyarrow, pyarrow-hotfix,
            lazy-loader, psutil and google-crc32c. Empty leaves PyTorch's readers out.
    """

    users: int = 1_000_000
    rows: int = 65_536
    images: int = 256
    seconds: float = 2.0
    rounds: int = 3
    torch_python: str = ""

    def __post_init__(self) -> None:
        rows, images = (0, table.SHUFFLED_ROWS), (0, photos.BATCH)
        at_least(self, users=0, rows=rows, images=images, rounds=1, seconds=0)
        if not (self.rows or self.images or self.users):
            raise UsageError("nothing to measure: rows, images and users are 0")


def prepare(options: Options) -> None:
    """Writes users, table and images in all formats, unless they exist."""
    if options.torch_python:
        require_packages("torch_python", options.torch_python, torch_peers.PACKAGES)
    if options.users:
        messages.prepare(options.users)
    if options.rows:
        root = table.prepare(options.rows)
        peers.make_peers(root, peers.rows_of_table(options.rows))
        peers.make_blocks(root, options.rows)
        if options.torch_python:
            torch_peers.make_mapped(root, peers.rows_of_table(options.rows))
    if options.images:
        root = photos.prepare(options.images)
        peers.make_peers(root, peers.rows_of_images(root))


def groups(options: Options) -> list[Group]:
    """Returns the comparisons of message formats, and of peers on tables and on images."""
    found = []
    if options.users:
        found += _messages(options)
    if options.rows:
        found.append(_table_peers(options))
    if options.images:
        root, check = photos.root_of(options.images), partial(photos.check, pixels=True)
        ways = _readers(peers.OF_IMAGES, root, check, options.images, options.seconds)
        title = "Peers: the same decoded pixels, shuffled batches"
        ahead = Check(claims.AHEAD_OF_PEERS, peers.PACKED, [peers.WEBDATASET, peers.GRAIN])
        found.append(Group(title, "images", ways, [ahead]))
    return found


def _messages(options: Options) -> list[Group]:
    written, read = {}, {}
    for name, (write_all, read_all) in messages.FORMATS.items():
        written[name] = bound(messages.write_users, write_all, users=options.users)
        read[name] = bound(messages.read_users, read_all, name=name, users=options.users)
    protobuf, by = (messages.PROTOBUF, [messages.JSON]), "per_second"
    return [
        Group("Users written", "users", written, [
            Check(claims.PROTOBUF_SMALLER, *protobuf, messages.BYTES),
            Check(claims.PROTOBUF_WRITTEN_FASTER, *protobuf, by),
        ]),
        Group("Users read", "users", read, [Check(claims.PROTOBUF_FASTER, *protobuf, by)]),
    ]  # fmt: skip


def _readers(
    some: Mapping[str, peers.Peer], root: Path, check: Any, rows: int, seconds: float
) -> dict[str, Any]:
    given = {"root": root, "check": check, "rows": rows, "seconds": seconds}
    return {n: bound(peers.read, one.batches, peer=one, **given) for n, one in some.items()}


def _table_peers(options: Options) -> Group:
    pytorch = torch_peers.OF_TABLE if options.torch_python else {}
    root, every = table.root_of(options.rows), peers.OF_TABLE | pytorch
    ways = _readers(every, root, table.check, options.rows, options.seconds)
    rows = [peers.WEBDATASET, peers.GRAIN, torch_peers.MDS, torch_peers.MAPPED]
    blocks = [peers.GRAIN_BLOCKS, peers.SAVED, peers.PARQUET]
    checks = [
        Check(claims.AHEAD_OF_PEERS, peers.PACKED, rows),
        Check(claims.AHEAD_OF_BLOCKS, peers.PACKED, blocks),
    ]
    title = "Peers: a table of 40 columns, shuffled batches"
    return Group(title, "rows", ways, checks, dict.fromkeys(pytorch, options.torch_python))
