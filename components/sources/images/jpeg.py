"""Size, channels and orientation of a JPEG, from its markers; no pixel is decoded."""

import struct
from typing import NamedTuple

from penstock.components.sources.images.exif import UPRIGHT, orientation

_END = b"\xff\xd9"
_SCAN = 0xDA
_EXIF = 0xE1
# Start of frame: baseline, extended and progressive with Huffman codes, 8 bits a sample, are what
# every decoder reads; C4, C8 and CC in their midst mean something else.
_COMMON_FRAMES = {0xC0, 0xC1, 0xC2}
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class JpegMarkers(NamedTuple):
    """A JPEG's markers.

    Attributes:
        components: Samples a pixel: 1 (gray), 3, or 4 (CMYK).
        bits: Bits a sample.
        is_common: Whether every decoder reads its kind of compression.
        orientation: EXIF's, 1 where it has none.
        is_whole: Whether its end is marked; what is between is not looked at.
    """

    components: int
    bits: int
    is_common: bool
    orientation: int
    is_whole: bool


def read_markers(data: bytes) -> JpegMarkers | None:
    """The markers of a whole JPEG; None where they end before the pixels begin."""
    at, turned = 2, UPRIGHT
    frame: tuple[int, int, int] | None = None
    while data[at : at + 1] == b"\xff" and at + 4 <= len(data):
        marker, size = struct.unpack_from(">BH", data, at + 1)
        if marker == 0xFF:  # a fill byte
            at += 1
            continue
        body = at + 4
        if marker == _EXIF and turned == UPRIGHT and data.startswith(b"Exif\0\0", body):
            turned = orientation(data[body : body + size - 2])
        elif marker in _FRAMES and frame is None and body + 6 <= len(data):
            frame = (marker, data[body], data[body + 5])
        elif marker == _SCAN and frame is not None:
            # Compressed data hold no such pair, and thumbnails are before the scan. From the end,
            # where it stands unless a camera appended something.
            return JpegMarkers(
                components=frame[2],
                bits=frame[1],
                is_common=frame[0] in _COMMON_FRAMES,
                orientation=turned,
                is_whole=data.rfind(_END, at) >= 0,
            )
        at += 2 + size
    return None
