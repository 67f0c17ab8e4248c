"""Format and size in pixels of an image, from its header bytes."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

_BMP_HEADER_SIZES = {12, 40, 52, 56, 64, 108, 124}
# Markers that begin a frame: C0 to CF, except C4, C8 and CC, which have other meanings.
JPEG_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class ImageHeader(NamedTuple):
    """Format (`JPEG`, `PNG`, `GIF`, `BMP`, `WebP`), width and height in pixels of an image."""

    format: str
    width: int
    height: int

    def __str__(self) -> str:
        return f"{self.format} {self.width}x{self.height}"


def image_header(data: bytes) -> ImageHeader | None:
    try:
        if data.startswith(b"\xff\xd8\xff"):
            return _jpeg(data)
        if data.startswith(b"\x89PNG\r\n\x1a\n"):
            return ImageHeader("PNG", *struct.unpack_from(">II", data, 16))
        if data.startswith((b"GIF87a", b"GIF89a")):
            return ImageHeader("GIF", *struct.unpack_from("<HH", data, 6))
        if data.startswith(b"BM"):
            return _bmp(data)
        if data.startswith(b"RIFF") and data[8:12] == b"WEBP":
            return _webp(data)
    except struct.error:
        pass
    return None


def jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yields marker, offset and size of each segment; ends where no marker follows.

    The segment of a scan (DA) is usually the last, because pixels follow it instead of a marker.
    """
    at = 2
    while data[at : at + 1] == b"\xff" and at + 4 <= len(data):
        marker, size = struct.unpack_from(">BH", data, at + 1)
        if marker == 0xFF:  # A fill byte
            at += 1
            continue
        yield marker, at + 4, size - 2
        at += 2 + size


def _jpeg(data: bytes) -> ImageHeader | None:
    for marker, at, _ in jpeg_segments(data):
        if marker in JPEG_FRAMES:
            height, width = struct.unpack_from(">HH", data, at + 1)
            return ImageHeader("JPEG", width, height)
    return None


def _bmp(data: bytes) -> ImageHeader | None:
    # Text may begin with "BM" too, so the size of the header decides.
    (size,) = struct.unpack_from("<I", data, 14)
    if size not in _BMP_HEADER_SIZES:
        return None
    width, height = struct.unpack_from("<HH" if size == 12 else "<ii", data, 18)
    return ImageHeader("BMP", width, abs(height))  # height < 0 if the top row is first


def _webp(data: bytes) -> ImageHeader | None:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return ImageHeader("WebP", width & 0x3FFF, height & 0x3FFF)
    if kind == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return ImageHeader("WebP", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    if kind == b"VP8X":
        width, height = (int.from_bytes(data[i : i + 3], "little") for i in (24, 27))
        return ImageHeader("WebP", width + 1, height + 1) if len(data) >= 30 else None
    return None
