"""Formats: protobuf or JSON, compressed or not, how many shards, and which peers' files.

penstock bench formats
"""

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.benchmarks import (
    claims,
    format_files,
    format_messages,
    format_peers,
    packed_images,
    questions,
    torch_peers,
)
from penstock.benchmarks import input as rows_benchmark
from penstock.benchmarks import packed as packed_tables
from penstock.benchmarks.format_contenders import contend
from penstock.benchmarks.harness import Measured, median, runs_in_turn
from penstock.benchmarks.outcome import Comparison, Contender, FactTable, Outcome
from penstock.components.errors import UsageError
from penstock.components.tfrecord.sharding import MIB

_WORK = {
    format_peers.TABLE: "a table of 40 columns",
    format_peers.UNIQUE: "a table of 40 columns, 3 of 8 texts unique",
    format_peers.IMAGES: "the same decoded pixels",
}

Runs = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class FormatsOptions:
    """What is written and read, and how often.

    Attributes:
        users: Users with a post of 280 characters, as JSON and as protobuf; 0 leaves them out.
        rows: Rows of 40 columns, compressed and in shards, and for the peers; 0 leaves them out.
        images: Images of 299 x 299 decoded pixels for the peers; 0 leaves them out.
        seconds: How long each reader reads in each round.
        rounds: How often each contender runs.
        torch_python: Python of an environment with PyTorch's readers, which are then measured too:
            torch, mosaicml-streaming, torchdata, pyarrow, pyarrow-hotfix, lazy-loader, psutil and
            google-crc32c. Empty leaves them out.
    """

    users: int = 1_000_000
    rows: int = 65_536
    images: int = 256
    seconds: float = 2.0
    rounds: int = 3
    torch_python: str = ""

    def __post_init__(self) -> None:
        for name, batch in (
            ("rows", format_peers.SHUFFLED_ROWS),
            ("images", packed_images.BATCH_SIZE),
        ):
            if getattr(self, name) < 0 or getattr(self, name) % batch:
                raise UsageError(f"{name} must be a multiple of {batch}, got {getattr(self, name)}")
        if self.users < 0 or self.rounds < 1 or self.seconds <= 0:
            raise UsageError(
                f"users must be at least 0, rounds at least 1 and seconds more than 0, got "
                f"{self.users}, {self.rounds} and {self.seconds:g}"
            )
        if not (self.rows or self.images or self.users):
            raise UsageError("nothing to measure: rows, images and users are 0")


def prepare(options: FormatsOptions) -> None:
    """Make the tables, the images and the peers' copies of them, unless they are there."""
    folder = questions.data_folder()
    if options.rows:
        for count in format_files.SHARD_COUNTS.values():
            rows_benchmark.shards(folder, options.rows, count)
        for unique in (False, True):
            root = packed_tables.prepare(folder, options.rows, unique=unique)
            format_peers.make_peers(root, format_peers.rows_of_table(options.rows, unique=unique))
            format_peers.make_blocks(root, options.rows, unique=unique)
            if options.torch_python:
                rows = format_peers.rows_of_table(options.rows, unique=unique)
                torch_peers.make_mapped(root, rows)
    if options.images:
        root = packed_images.prepare(folder, options.images)
        format_peers.make_peers(root, format_peers.rows_of_images(root))


def run(options: FormatsOptions) -> Outcome:
    """All groups, one after the other; in each, all contenders in turn."""
    began = time.perf_counter()
    if options.rows or options.images:
        questions.need(*format_peers.PACKAGES)
    torch = torch_peers.versions(options.torch_python) if options.torch_python else ""
    questions.prepare(__file__, options)
    groups: list[_Group] = []
    if options.users:
        groups.append(_messages(options))
    if options.rows:
        groups += [_compressions(options), _shards(options)]
        groups += [_peers(options, kind) for kind in (format_peers.TABLE, format_peers.UNIQUE)]
    if options.images:
        groups.append(_peers(options, format_peers.IMAGES))
    return Outcome(
        question="formats",
        title="Formats: protobuf or JSON, compression, shards, peers",
        setting=_setting(options, torch),
        comparisons=[comparison for group in groups for comparison in group.comparisons],
        facts=[table for group in groups for table in group.facts],
        verdicts=[verdict for group in groups for verdict in group.verdicts],
        seconds=time.perf_counter() - began,
    )


@dataclass(frozen=True)
class _Group:
    """A part of the question: contenders at the same work."""

    comparisons: Sequence[Comparison]
    facts: Sequence[FactTable] = ()
    verdicts: Sequence[claims.Judgement] = ()


def _measure_all(names: Sequence[str], options: FormatsOptions, **job: Any) -> Runs:
    arguments = questions.job_arguments(**job)
    return runs_in_turn(__file__, [(name, arguments) for name in names], options.rounds)


def _comparison(
    title: str, unit: str, runs: Runs, what: str, notes: Callable[[str], str] = lambda _: ""
) -> Comparison:
    found = {name: median([Measured(**run[what]) for run in some]) for name, some in runs.items()}
    contenders = [Contender.of(name, one, notes(name)) for name, one in found.items()]
    return Comparison(title, unit, contenders)


def _messages(options: FormatsOptions) -> _Group:
    runs = _measure_all(list(format_messages.FORMATS), options, group="users", users=options.users)

    def note(name: str) -> str:
        return questions.first_line(format_messages.FORMATS[name].write)

    write = _comparison("Users written", "users", runs, "write", note)
    read = _comparison("Users read", "users", runs, "read", note)
    size = {name: some[0]["bytes"] / some[0]["write"]["rows"] for name, some in runs.items()}
    json_lines, protobuf = format_messages.JSON, format_messages.PROTOBUF
    rows = [
        (
            name,
            size[name],
            size[name] * options.users / MIB,
            options.users / write.named(name).per_second,
            options.users / read.named(name).per_second,
        )
        for name in runs
    ]
    headers = ("Format", "Bytes a user", "MiB in all", "Seconds to write", "Seconds to read")
    verdicts = [
        claims.judge(claims.PROTOBUF_SMALLER, size[json_lines] / size[protobuf],
                     f"bytes a user, {json_lines} to {protobuf}"),
        claims.judge(claims.PROTOBUF_FASTER, read.rate_ratio(protobuf, to=json_lines),
                     f"reading, users/s, {protobuf} to {json_lines}"),
        claims.judge(claims.PROTOBUF_WRITTEN_FASTER, write.rate_ratio(protobuf, to=json_lines),
                     f"writing, users/s, {protobuf} to {json_lines}"),
    ]  # fmt: skip
    return _Group([write, read], [FactTable(f"{options.users:,} users", headers, rows)], verdicts)


def _compressions(options: FormatsOptions) -> _Group:
    source = questions.data_folder() / f"shards-{options.rows}"
    names = list(format_files.COMPRESSIONS)
    runs = _measure_all(
        names, options, group="compression", root=str(source), seconds=options.seconds
    )
    write = _comparison("Row Examples written, by compression", "rows", runs, "write")
    read = _comparison("Row Examples read to batches, by compression", "rows", runs, "read")
    size = {name: some[0]["bytes"] for name, some in runs.items()}
    rows = [(n, size[n] / options.rows, size[n] / MIB, size[n] / size["none"]) for n in names]
    headers = ("Compression", "Bytes a row", "MiB", "Share of none")
    return _Group([write, read], [FactTable("Size, by compression", headers, rows)])


def _shards(options: FormatsOptions) -> _Group:
    counts = format_files.SHARD_COUNTS
    runs = _measure_all(
        list(counts), options, group="shards", rows=options.rows, seconds=options.seconds
    )
    size = {name: some[0]["bytes"] / MIB / counts[name] for name, some in runs.items()}
    title = "Row Examples read to shuffled batches, by shards"
    return _Group(
        [_comparison(title, "rows", runs, "read", lambda name: f"{size[name]:.2f} MiB each")]
    )


def _peers(options: FormatsOptions, kind: str) -> _Group:
    is_table = kind != format_peers.IMAGES
    count = options.rows if is_table else options.images
    folder = questions.data_folder()
    if is_table:
        root = packed_tables.root_of(folder, count, unique=kind == format_peers.UNIQUE)
    else:
        root = packed_images.root_of(folder, count)
    readers: dict[str, Callable[..., Any]] = {
        n: one.batches for n, one in format_peers.CONTENDERS[kind].items()
    }
    arguments = questions.job_arguments(
        group=kind, root=str(root), rows=count, seconds=options.seconds
    )
    groups = [(__file__, sys.executable, list(readers))]
    if options.torch_python and is_table:
        questions.prepare(torch_peers.__file__, {"root": str(root)}, options.torch_python)
        readers |= {name: read for name, (read, _) in torch_peers.CONTENDERS.items()}
        groups.append((torch_peers.__file__, options.torch_python, list(torch_peers.CONTENDERS)))
    runs: Runs = {name: [] for name in readers}
    for _ in range(options.rounds):
        for script, python, names in groups:
            contenders = [(name, arguments) for name in names]
            for name, found in runs_in_turn(script, contenders, 1, python=python).items():
                runs[name] += found
    title = f"Peers: {_WORK[kind]}, shuffled batches"
    read = _comparison(
        title, "rows" if is_table else "images", runs, "read",
        lambda name: questions.first_line(readers[name]),
    )  # fmt: skip
    size = {name: some[0]["bytes"] for name, some in runs.items()}
    table = FactTable(
        f"Size, {_WORK[kind]}",
        ("Format", f"Bytes {'a row' if is_table else 'an image'}", "MiB"),
        [(name, size[name] / count, size[name] / MIB) for name in runs],
    )
    verdicts = []
    for claim, peers in (
        (
            claims.AHEAD_OF_PEERS,
            (format_peers.WEBDATASET, format_peers.GRAIN, torch_peers.MDS, torch_peers.MAPPED),
        ),
        (
            claims.AHEAD_OF_BLOCKS,
            (format_peers.GRAIN_BLOCKS, format_peers.SAVED, format_peers.PARQUET),
        ),
    ):
        # Ahead of every peer is ahead of the best.
        ratios = {
            peer: read.cpu_ratio(format_peers.PACKED, to=peer) for peer in peers if peer in runs
        }
        if ratios:
            best = min(ratios, key=lambda peer: ratios[peer])
            how = f"{title.removeprefix('Peers: ')}: CPU time, {best}, the best of them, to packed"
            verdicts.append(claims.judge(claim, ratios[best], how))
    return _Group([read], [table], verdicts)


def _setting(options: FormatsOptions, torch: str) -> list[str]:
    from importlib.metadata import version

    lines = []
    if options.users:
        lines.append(
            f"{options.users:,} made users: a post of {format_messages.POST_CHARACTERS} ASCII "
            "characters and five small fields; tf.train.Example writes a tenth of them; protobuf "
            f"{version('protobuf')}"
        )
    if options.rows:
        lines.append(
            f"{options.rows:,} made rows of 20 floats, 12 integers and 8 texts, 16 shards where "
            "not said otherwise"
        )
    if options.images:
        lines.append(f"{options.images:,} made images of 299 x 299, decoded, in every format")
    if options.rows or options.images:
        peers = ("webdataset", "grain", "array-record")
        lines.append(
            f"peers: {', '.join(f'{name} {version(name)}' for name in peers)}; a record is a row, "
            f"raw bytes behind pickle, or, in blocks, {format_peers.BLOCK_ROWS:,} rows; they run "
            "in their own threads, no further processes"
        )
    if torch:
        lines.append(f"in a Python of their own: {torch}")
    return [
        *lines,
        f"medians of {options.rounds} rounds, each contender a process of its own, in turn; "
        f"readers of batches read for {options.seconds:g} s; files are in the page cache",
    ]


if __name__ == "__main__":
    questions.answer_child(FormatsOptions, prepare, contend)
