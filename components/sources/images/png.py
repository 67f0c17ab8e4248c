"""Size and channels of a PNG, from its chunks; no pixel is decoded.

What stops libpng, which TensorFlow decodes with, is refused here, though other decoders go on:
the order of the chunks, their checksums and the header (https://www.w3.org/TR/png-3/#5Chunks).
"""

import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from penstock.components.sources.images.exif import UPRIGHT, orientation

_SIGNATURE_BYTES = 8
_HAS_ALPHA = {4, 6}
_GRAY = {0, 4}
_PALETTE = 3
# Bits a sample that each type of colour may have.
_BITS = {0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}}


class PngError(Exception):
    """A PNG that libpng does not decode; says why."""


class _Chunk(NamedTuple):
    kind: bytes
    data: memoryview
    is_sound: bool
    """Whether its checksum is right."""


def read_chunks(data: bytes) -> tuple[bool, bool, int] | None:
    """Whether a PNG is gray, whether pixels may be transparent, and EXIF's orientation, else 1.

    None where its chunks do not go on to the one that ends it.

    Raises:
        PngError: They are not as libpng wants them.
    """
    chunks = _chunks(data)
    header = next(chunks, None)
    if header is None:
        return None
    colour = _check_header(header)
    has_alpha, turned, before = colour in _HAS_ALPHA, UPRIGHT, header.kind
    seen: set[bytes] = set()
    for kind, body, is_sound in chunks:
        if not kind.isalpha() or not kind.isascii():
            raise PngError(f"a chunk is called {kind!r}")
        is_critical = kind in (b"IDAT", b"IEND") or (kind == b"PLTE" and colour == _PALETTE)
        if is_critical and not is_sound:
            raise PngError(f"the checksum of {kind.decode()} is wrong")
        _check_order(kind, body, seen, before, has_palette=colour == _PALETTE)
        if kind == b"IEND":
            return colour in _GRAY, has_alpha, turned
        if kind == b"tRNS":
            has_alpha = True
        elif kind == b"eXIf":
            turned = orientation(bytes(body))
        seen.add(kind)
        before = kind
    return None


def check_pixels(data: bytes) -> None:
    """Decompress the pixels of a PNG whose chunks are sound, to their checksum.

    Pillow, which decodes them next, goes on where that is missing, and libpng does not.

    Raises:
        PngError: They end before it.
    """
    inflating = zlib.decompressobj()
    with suppress(zlib.error):  # which Pillow names
        for chunk in _chunks(data):
            if chunk.kind == b"IDAT":
                inflating.decompress(chunk.data)
        if not inflating.eof:
            raise PngError("its pixels end early")


def _chunks(data: bytes) -> Iterator[_Chunk]:
    at, view = _SIGNATURE_BYTES, memoryview(data)
    while at + 12 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + size
        if end > len(data):
            return
        stored = int.from_bytes(view[end - 4 : end], "big")
        is_sound = zlib.crc32(view[at + 4 : end - 4]) == stored
        yield _Chunk(kind, view[at + 8 : end - 4], is_sound)
        at = end


def _check_header(header: _Chunk) -> int:
    """The type of colour that a sound header says."""
    if header.kind != b"IHDR" or len(header.data) != 13:
        raise PngError("its header is not one")
    bits, colour, compression, filtering, interlace = header.data[8:]
    if bits not in _BITS.get(colour, ()) or compression or filtering or interlace > 1:
        raise PngError("its header has invalid values")
    if not header.is_sound:
        raise PngError("the checksum of its header is wrong")
    return colour


def _check_order(
    kind: bytes, body: memoryview, seen: set[bytes], before: bytes, *, has_palette: bool
) -> None:
    if kind == b"PLTE":
        if kind in seen or (has_palette and b"IDAT" in seen):
            raise PngError("its palette appears twice, or after the pixels")
        if has_palette and (len(body) % 3 or not 3 <= len(body) <= 768):
            raise PngError(f"its palette has {len(body)} bytes")
    elif kind == b"IDAT":
        if has_palette and b"PLTE" not in seen:
            raise PngError("its palette is missing")
        if kind in seen and before != kind:
            raise PngError("its pixels are in parts with something between them")
    elif kind == b"IEND":
        if b"IDAT" not in seen:
            raise PngError("it has no pixels")
    elif kind[0] & 0x20 == 0:  # a capital: not to be passed over
        raise PngError(f"it has a second header or the unknown chunk {kind.decode()}")
