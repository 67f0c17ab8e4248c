"""Size, channels and orientation of a JPEG, from its markers; no pixel is decoded."""

import struct

from penstock.components.sources.images.exif import UPRIGHT, orientation
from penstock.components.sources.whole_files.rows import UnfitFileError

_END = b"\xff\xd9"
_SCAN = 0xDA
_EXIF = 0xE1
# Start of frame: baseline, extended and progressive with Huffman codes, 8 bits a sample, are what
# every decoder reads; C4, C8 and CC in their midst mean something else.
_COMMON_FRAMES = {0xC0, 0xC1, 0xC2}
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


def probe_jpeg(data: bytes) -> tuple[int, bool]:
    """Channels and plainness of a JPEG, as of `Probe`; what is before its end mark is not read.

    Raises:
        UnfitFileError: It is cut, or no decoder here reads it.
    """
    at, turned = 2, UPRIGHT
    frame: tuple[int, int, int] | None = None  # its marker, bits a sample, samples a pixel
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
            break
        at += 2 + size
    else:
        raise UnfitFileError("truncated JPEG: it ends before its pixels begin; copy it again")
    # Compressed data hold no such pair, and thumbnails are before the scan. From the end, where it
    # stands unless a camera appended something.
    if data.rfind(_END, at) < 0:
        raise UnfitFileError("truncated JPEG: the mark of its end is missing; copy it again")
    assert frame is not None
    marker, bits, components = frame
    if bits != 8 or components not in (1, 3, 4):
        raise UnfitFileError(
            f"JPEG of {components} x {bits} bits a pixel, which is not read; "
            "convert it to 8 bits of gray or RGB"
        )
    is_plain = marker in _COMMON_FRAMES and turned == UPRIGHT and components != 4
    return (components if is_plain else 0), is_plain
