"""Size and channels of a PNG, from its chunks; no pixel is decoded.

What stops libpng, which TensorFlow decodes with, is refused here, though other decoders go on:
the order of the chunks, their checksums and the header (https://www.w3.org/TR/png-3/#5Chunks).
"""

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from penstock.components.sources.images.exif import UPRIGHT, orientation

_SIGNATURE_BYTES = 8
_HAS_ALPHA = {4, 6}
_GRAY = {0, 4}
_PALETTE = 3
# Bits a sample that each type of colour may have, and samples a pixel.
_BITS = {0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}}
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
# First column and row, and steps between columns and rows, of each pass of Adam7.
_PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
           (0, 1, 1, 2))  # fmt: skip
_MOST_FILTER = 4


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
    """Decompress the pixels of a PNG whose chunks are sound, as strictly as libpng.

    Raises:
        PngError: They are damaged, or not all there.
    """
    width, height, bits, colour, _, _, interlace = struct.unpack_from(">IIBBBBB", data, 16)
    packed = b"".join(chunk.data for chunk in _chunks(data) if chunk.kind == b"IDAT")
    passes = _PASSES if interlace else ((0, 0, 1, 1),)
    sizes = [(-(-(width - x) // across), -(-(height - y) // down)) for x, y, across, down in passes]
    rows = [(-(-w * bits * _SAMPLES[colour] // 8) + 1, h) for w, h in sizes if w > 0 and h > 0]
    inflating = zlib.decompressobj()
    try:
        pixels = inflating.decompress(packed)
    except zlib.error as error:
        raise PngError(f"its pixels cannot be decompressed ({error})") from error
    if not inflating.eof or len(pixels) < sum(size * count for size, count in rows):
        raise PngError("its pixels end early")
    at = 0
    for size, count in rows:
        if max(pixels[at : at + size * count : size]) > _MOST_FILTER:
            raise PngError("a row has a filter that there is none of")
        at += size * count


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
        raise PngError("its header says what no PNG has")
    if not header.is_sound:
        raise PngError("the checksum of its header is wrong")
    return colour


def _check_order(
    kind: bytes, body: memoryview, seen: set[bytes], before: bytes, *, has_palette: bool
) -> None:
    if kind == b"PLTE":
        if kind in seen or (has_palette and b"IDAT" in seen):
            raise PngError("its palette stands twice, or behind the pixels")
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
