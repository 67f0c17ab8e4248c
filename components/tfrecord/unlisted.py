"""Checks TFRecord files that no manifest lists, before they are read.

TensorFlow continues silently if a file of a set is missing, if a file is empty or ends inside a
header, or if a GZIP stream lacks its end. These checks find all of this, but not a file that is cut
exactly between two records.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import islice
from pathlib import Path

from penstock.components.errors import DataError
from penstock.components.tfrecord.checked import disk_state
from penstock.components.tfrecord.example_proto import (
    has_sequences,
    is_example,
    unusual_examples,
)
from penstock.components.tfrecord.records import RecordReader, open_file, read_records

# Beginnings of names that are not shards: hidden files, markers, and the folder of unfinished files
# that Beam leaves if an engine repeats a task.
NO_SHARDS = (".", "_", "beam-temp-")
# This pattern also matches names of shards that other programs write, such as
# `images.tfrecord-00000-of-00004`, `images-00000-of-00004.tfrecord` and the names that TFDS uses.
_MEMBER = re.compile(r"^(?P<stem>.+)-(?P<index>\d{5,})-of-(?P<count>\d{5,})(?P<suffix>.*)$")
# Maximum number of missing files to search for and name: a file's name may claim that there are
# millions.
_MAX_NAMED = 10
# Several threads help: decompression takes most of the time and releases the GIL.
_THREADS = 4


def check_unlisted(files: Sequence[str]) -> tuple[int, ...]:
    """Counts the records of each file; raises DataError if a set lacks a file or a file is cut.

    Takes about 0.3 us per record, plus decompression; a file that did not change is counted once.
    """
    for fault in missing_members(map(Path, files)):
        raise DataError(f"{fault}; bring back the whole set, and only that")
    with ThreadPoolExecutor(_THREADS) as pool:
        return tuple(pool.map(lambda file: _count(file, disk_state(file)), files))


def find_damage(files: Iterable[str]) -> str | None:
    """Returns the first fault found by a check of all checksums, or None."""
    for file in files:
        try:
            for _ in read_records(file):
                pass
        except DataError as error:
            return str(error)
    return None


def require_examples(file: str, records: int | None = None) -> None:
    """Raises DataError for a record that is not an Example.

    A parser of Examples would drop the lists of a SequenceExample. Checks the first `records`
    records of a local file; None checks all. This takes 0.7 us per record plus decompression; a
    file that has not changed is checked only once.
    """
    _require_examples(file, disk_state(file), records)


@cache
def _require_examples(file: str, state: tuple[int, ...], records: int | None) -> None:
    del state
    with open_file(file) as content:
        payloads = islice(RecordReader(content, file).unchecked_payloads(), records)
        for number, payload in unusual_examples(payloads):
            require_example(payload, f"{file}: record {number}")


def require_example(payload: bytes, where: str) -> None:
    if not is_example(payload):
        raise DataError(f"{where} is not a tf.train.Example; `penstock inspect` shows what it is")
    if has_sequences(payload):
        raise DataError(
            f"{where}: is a SequenceExample, whose feature lists only Input.rows reads, given "
            "`feature_lists`; expected a tf.train.Example"
        )


@cache
def _count(file: str, state: tuple[int, ...]) -> int:
    del state
    if not os.path.getsize(file):
        raise DataError(
            f"{file}: zero bytes; an empty shard cannot be told from a lost one; remove it or "
            "write it again"
        )
    with open_file(file) as content:
        return RecordReader(content, file).count()


def missing_members(files: Iterable[Path]) -> Iterator[str]:
    """Yields one line for each incomplete set of `-NNNNN-of-NNNNN` files.

    It also reports two sets with the same stem but different counts, which a retry may leave.
    """
    counts: dict[tuple[Path, str, str], set[str]] = defaultdict(set)
    for file in files:
        if match := _MEMBER.match(file.name):
            counts[file.parent, match["stem"], match["suffix"]].add(match["count"])
    for (folder, stem, suffix), sets in sorted(counts.items()):
        on_disk = set(os.listdir(folder))
        for count in sorted(sets):
            members = (f"{stem}-{i:0{len(count)}d}-of-{count}{suffix}" for i in range(int(count)))
            missing = list(
                islice((name for name in members if name not in on_disk), _MAX_NAMED + 1)
            )
            if missing:
                yield f"{folder}: of the {int(count)} shards of {stem!r}, {_list(missing)} missing"
        if len(sets) > 1:
            names = " and ".join(f"-of-{count}" for count in sorted(sets))
            yield f"{folder}: {stem!r} has shards {names}; one set is left from another run"


def _list(missing: list[str]) -> str:
    more = " and more" if len(missing) > _MAX_NAMED else ""
    return f"{', '.join(missing[:_MAX_NAMED])}{more} {'is' if len(missing) == 1 else 'are'}"
