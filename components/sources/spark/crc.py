"""Hadoop's checksums: `.part-00000.crc` beside `part-00000`.

Written by org.apache.hadoop.fs.ChecksumFileSystem: four bytes "crc" and NUL, a big-endian int of
the bytes that each checksum is of, then a big-endian CRC-32 for each so many.
"""

import os
import struct
import zlib

from penstock.components.errors import DataError
from penstock.components.files.content import open_data

_MAGIC = b"crc\0"
_HEADER_BYTES = len(_MAGIC) + 4


def sums_name(name: str) -> str:
    """The name of the file beside `name` that holds its checksums."""
    return f".{name}.crc"


def name_of_sums(name: str) -> str | None:
    """The name of the file that a file of checksums is of; None if it is none by its name."""
    of = name.removeprefix(".").removesuffix(".crc")
    return of if name == sums_name(of) else None


def check_crc(path: str, beside: str) -> None:
    """Compare a file with its checksums in the file `beside`; DataError says where it differs."""
    name = os.path.basename(beside)
    with open_data(beside) as file:
        sums = file.read()
    if sums[:4] != _MAGIC or len(sums) < _HEADER_BYTES or (len(sums) - _HEADER_BYTES) % 4:
        raise DataError(f"{beside}: not a Hadoop checksum file; remove it, or copy it again")
    size = struct.unpack(">i", sums[4:_HEADER_BYTES])[0]
    if size < 1:
        raise DataError(f"{beside}: says a checksum is of {size} bytes; copy it again")
    offset = 0
    with open_data(path) as file:
        for (stored,) in struct.iter_unpack(">I", sums[_HEADER_BYTES:]):
            part = file.read(size)
            if not part or zlib.crc32(part) != stored:
                raise DataError(
                    f"{path}: differs from its checksum in {name} at offset {offset} to "
                    f"{offset + size}; copy both from where Spark wrote them"
                )
            offset += len(part)
        if file.read(1):
            raise DataError(
                f"{path}: has more than the {offset} bytes that {name} has checksums of; "
                "copy both from where Spark wrote them"
            )
