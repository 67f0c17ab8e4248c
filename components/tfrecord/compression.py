"""Streaming decompression: reads a file, yields chunks of its uncompressed bytes.

The compression of a file is recognised by its first bytes, not by its name.
"""

import itertools
import zlib
from collections.abc import Iterator
from typing import Protocol

from penstock.components.tfrecord.framing import HEADER_BYTES, masked_crc

# A chunk is large enough that Python's cost per chunk is small compared with the check of 1 MiB of
# records. It is small enough that the memory of a hundred open readers does not matter.
CHUNK_BYTES = 1 << 20

_WBITS = {"GZIP": 16 + zlib.MAX_WBITS, "ZLIB": zlib.MAX_WBITS}


class DamagedStreamError(Exception):
    """Compressed data cannot be decompressed; the caller adds the file and the position."""


class Readable(Protocol):
    def read(self, size: int, /) -> bytes:
        """Returns at most `size` bytes; at the end of the file, empty bytes."""
        ...


def compression_of(head: bytes) -> str:
    """Returns `""`, `"GZIP"` or `"ZLIB"`, TensorFlow's names, given a file's first 12 bytes."""
    # An uncompressed file may begin with GZIP's magic, for example if its first record is 559,903
    # bytes long. The checksum of the length then shows that the file is uncompressed.
    stored = int.from_bytes(head[8:HEADER_BYTES], "little")
    if len(head) >= HEADER_BYTES and masked_crc(head[:8]) == stored:
        return ""
    if head.startswith(b"\x1f\x8b"):
        return "GZIP"
    if head[:1] == b"\x78" and int.from_bytes(head[:2], "big") % 31 == 0:
        return "ZLIB"
    return ""


def read_chunks(file: Readable, head: bytes, compression: str) -> Iterator[bytes]:
    """Yields the uncompressed content of a file in nonempty chunks of at most about 1 MiB.

    `head` was already read from the file. Raises DamagedStreamError after the undamaged part.
    """
    raw = itertools.chain([head] if head else [], iter(lambda: file.read(CHUNK_BYTES), b""))
    return _inflate(raw, compression) if compression else raw


def _inflate(raw: Iterator[bytes], compression: str) -> Iterator[bytes]:
    """Decompresses concatenated members, for example the output of `cat a.gz b.gz`."""
    decoder = zlib.decompressobj(_WBITS[compression])
    for chunk in raw:
        data = chunk
        while data:
            if decoder.eof:
                data = data.lstrip(b"\0")  # padding between or after members is allowed
                if not data:
                    break
                decoder = zlib.decompressobj(_WBITS[compression])
            try:
                output = decoder.decompress(data, CHUNK_BYTES)
            except zlib.error as error:
                raise DamagedStreamError(f"is damaged ({error})") from error
            if output:
                yield output
            data = decoder.unused_data if decoder.eof else decoder.unconsumed_tail
    if rest := decoder.flush():
        yield rest
    if not decoder.eof:
        raise DamagedStreamError("is cut: it ends without its end mark")
