"""Shards that no manifest speaks for: what can be wrong with them, found before they are read.

TensorFlow reads on in silence where a member of a set is missing, a file is empty or ends inside
a header, or a GZIP stream without its end. A file cut exactly between two records looks whole.
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock.components.errors import DataError
from penstock.components.tfrecord.example_proto import has_sequences
from penstock.components.tfrecord.records import RecordReader, open_file, read_records
from penstock.components.tfrecord.shard_sets import missing_members

# Decompression takes most of the time, and lets other threads work.
_THREADS = 4
# Records of files as they were when they were counted, by path, inode, size, mtime and ctime.
_counted: dict[tuple[str, int, int, int, int], int] = {}


def check_unlisted(files: Sequence[str]) -> tuple[int, ...]:
    """Count the records of each file; refuse sets with a gap, and local files empty or cut.

    Takes about 0.3 us a record, and the decompression of what is compressed; once for each state of
    a file.

    Raises:
        DataError: Names the set or the file, and where it is cut.
    """
    for fault in missing_members(map(Path, files)):
        raise DataError(f"{fault}; bring back the whole set, and only that")
    with ThreadPoolExecutor(_THREADS) as pool:
        return tuple(pool.map(_count, files))


def find_damage(files: Iterable[str]) -> str | None:
    """The first fault of some files, every checksum looked at; None where all is well."""
    for file in files:
        try:
            for _ in read_records(file):
                pass
        except DataError as error:
            return str(error)
    return None


def require_examples(payload: bytes, where: str) -> None:
    """Refuse, by DataError, a SequenceExample, whose lists a parser of Examples drops."""
    if has_sequences(payload):
        raise DataError(
            f"{where}: holds SequenceExamples, of which only tf.io.parse_sequence_example reads "
            "the feature lists; expected tf.train.Examples, or feature_lists=... in the call"
        )


def _count(file: str) -> int:
    found = os.stat(file)
    key = (file, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    if key not in _counted:
        if not found.st_size:
            raise DataError(
                f"{file}: zero bytes; a shard that holds no rows is not to be told from one that "
                "was lost, take it away or write it again"
            )
        with open_file(file) as content:
            _counted[key] = RecordReader(content, file).count()
    return _counted[key]
