"""Number and names of shards, and the number of rows and files that a reader takes together."""

import math
from dataclasses import dataclass

from penstock.components.errors import counted
from penstock.components.limits import check_numbers

MIB = 2**20
SHARD_PREFIX = "data_tfrecord"
COMPRESSIONS = ("", "GZIP")  # TensorFlow's names

# For TFRecord on remote storage, TensorFlow advises 100-200 MB per shard
# (tensorflow.org/tutorials/load_data/tfrecord); 150 is the middle.
TARGET_SHARD_BYTES = 150 * MIB
# The same page recommends at least 10 MB per shard if the number of hosts decides the number of
# shards.
MIN_SHARD_BYTES = 10 * MIB
# The same page recommends ten times as many files as hosts that read them.
SHARDS_PER_HOST = 10
# Default number of files that a reader interleaves (also in trainer/input/options.py), and minimum
# planned number of shards for data of at least MIN_SHARD_BYTES.
READER_PARALLELISM = 8
# The shuffle window has more rows than that of TFX's stock reader, which has 10,000, but still
# takes only 10 MB for rows of 600 bytes.
SHUFFLE_WINDOW_ROWS = 16_384
# Maximum number of records in a block, which one thread passes to another. Passing a block takes
# about 30 us. This is little for 1,024 records, but for a single record it is five times the cost
# of parsing a narrow row.
_MAX_BLOCK_ROWS = 1024
# For data below MIN_SHARD_BYTES, a pass over one file takes a fraction of a second, and a pass over
# eight files is no faster (measured with 5 MiB on 2 cores), so more files have no use. Two files
# let two hosts read at once.
_FEW_SHARDS = 2

_SPLIT_PREFIX = "Split-"


def shard_name(index: int, count: int, *, compression: str = "") -> str:
    """Returns a name such as `data_tfrecord-00000-of-00016`, with `.gz` for GZIP compression."""
    if not 0 <= index < count:
        raise ValueError(f"shard index {index} is not within 0..{count - 1}")
    return f"{SHARD_PREFIX}-{index:05d}-of-{count:05d}{'.gz' if compression == 'GZIP' else ''}"


def block_rows_of(window_rows: int, files: int = READER_PARALLELISM) -> int:
    """Returns the number of rows per block such that a window mixes rows of all `files`."""
    return max(1, min(_MAX_BLOCK_ROWS, window_rows // files))


def split_dir(split: str) -> str:
    """Returns the folder in which TFX's readers expect a split, such as `Split-train`."""
    return f"{_SPLIT_PREFIX}{split}"


def split_of(folder: str) -> str | None:
    """Returns the split to which a folder of this name belongs, or None."""
    return folder.removeprefix(_SPLIT_PREFIX) if folder.startswith(_SPLIT_PREFIX) else None


@dataclass(frozen=True)
class ShardOptions:
    """Options for the number of shards.

    Attributes:
        shards: Number of shards of each split; by default it is planned.
        reading_hosts: Number of hosts, or training workers, that will read the shards at the same
            time. For data of at least 10 MiB with enough rows, a planned number of shards is a
            multiple of this number.
    """

    shards: int | None = None
    reading_hosts: int = 1

    def __post_init__(self) -> None:
        check_numbers(self, shards=1, reading_hosts=1)


@dataclass(frozen=True)
class ShardPlan:
    """Number of shards of a split, and the rule that led to it."""

    shards: int
    reason: str


def plan_shards(estimated_bytes: int, options: ShardOptions, *, rows: int) -> ShardPlan:
    """Plans the number of shards of a split: at most one per row.

    For data of at least MIN_SHARD_BYTES, a planned number is a multiple of the number of reading
    hosts, so that all hosts read equally many shards. A split with fewer rows than the planned
    number has one shard per row. `estimated_bytes` is the uncompressed size of the split's records.
    """
    asked, most = options.shards, max(rows, 1)
    if asked is not None and asked > most:
        return ShardPlan(most, f"{most} of {asked} asked for, as there are no more rows")
    if asked is not None:
        return ShardPlan(asked, f"{asked} as asked for")
    hosts = options.reading_hosts
    mebibytes = estimated_bytes / MIB
    shards, why = _needed_shards(estimated_bytes, hosts)
    if estimated_bytes >= MIN_SHARD_BYTES and shards % hosts:
        shards += hosts - shards % hosts
        why += f", rounded up to a multiple of {hosts} reading hosts"
    if shards > rows:
        shards, why = most, f"one for each of {rows} rows"
    return ShardPlan(shards, f"{shards} for about {mebibytes:.1f} MiB: {why}")


def _needed_shards(size: int, hosts: int) -> tuple[int, str]:
    """Returns the smallest number of shards that satisfies all rules, and the rule that decided."""
    if size < MIN_SHARD_BYTES:
        why = f"less than {MIN_SHARD_BYTES / MIB:.0f} MiB are read at once"
        return min(hosts, _FEW_SHARDS), why
    by_size = math.ceil(size / TARGET_SHARD_BYTES)
    by_hosts = min(SHARDS_PER_HOST * hosts, math.ceil(size / MIN_SHARD_BYTES))
    return max(
        (READER_PARALLELISM, f"the reader interleaves {READER_PARALLELISM} files"),
        (by_size, f"{TARGET_SHARD_BYTES / MIB:.0f} MiB a shard"),
        (
            by_hosts,
            f"{SHARDS_PER_HOST} for each of {counted(hosts, 'reading host')}, "
            f"at least {MIN_SHARD_BYTES / MIB:.0f} MiB a shard",
        ),
        key=lambda rule: rule[0],
    )
