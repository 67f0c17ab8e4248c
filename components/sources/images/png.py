"""What must be known of a PNG, from its chunks: no pixel is decoded."""

import struct
from dataclasses import dataclass

from penstock.components.sources.images.exif import UPRIGHT, orientation

_SIGNATURE_BYTES = 8
_HAS_ALPHA = {4, 6}
_GRAY = {0, 4}
# Bits a sample that each type of colour may have.
_BITS = {0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}}


@dataclass(frozen=True)
class PngChunks:
    """A PNG's chunks.

    Attributes:
        is_gray: Whether it has no colours.
        has_alpha: Whether pixels may be transparent, by a channel or by a chosen colour.
        orientation: EXIF's, 1 where it has none.
        is_whole: Whether the chunks go on to the one that ends it, pixels among them.
    """

    is_gray: bool
    has_alpha: bool
    orientation: int
    is_whole: bool


def read_chunks(data: bytes) -> PngChunks | None:
    """The chunks of a whole PNG; None where it does not begin with a header as there are."""
    if data[12:16] != b"IHDR" or len(data) < 29:
        return None
    bits, colour = data[24], data[25]
    if bits not in _BITS.get(colour, ()):
        return None
    has_alpha, turned, has_pixels, is_whole = colour in _HAS_ALPHA, UPRIGHT, False, False
    at = _SIGNATURE_BYTES
    while at + 12 <= len(data):
        size, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + size
        if end > len(data):
            break
        if kind == b"IEND":
            is_whole = has_pixels
            break
        if kind == b"IDAT":
            has_pixels = True
        elif kind == b"tRNS":
            has_alpha = True
        elif kind == b"eXIf":
            turned = orientation(data[at + 8 : end - 4])
        at = end
    return PngChunks(colour in _GRAY, has_alpha, turned, is_whole)
