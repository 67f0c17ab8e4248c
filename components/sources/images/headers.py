"""Format, size, orientation and soundness of an image, from its headers; no pixel is decoded.

Damage that only a decoder meets (bytes altered between header and end mark) is not found here;
`verify='decode'` finds it. PNGs that stop libpng, with which TensorFlow decodes, are rejected even
if other decoders go on: chunk order, checksums, header (https://www.w3.org/TR/png-3/#5Chunks).
"""

import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from penstock.components.sources.images.looks import format_by_extension, refusal
from penstock.components.sources.images.options import Images
from penstock.components.sources.whole_files import UnfitFileError
from penstock.components.tfrecord.image_header import image_header

UPRIGHT = 1
_ORIENTATION = 0x0112
_SHORT = 3
# JPEG markers. Frames are baseline, extended and progressive with Huffman codes and 8 bits a
# sample, which every decoder reads, and the other frames; C4, C8 and CC mean something else.
_JPEG_END = b"\xff\xd9"
_SCAN = 0xDA
_EXIF = 0xE1
_COMMON_FRAMES = {0xC0, 0xC1, 0xC2}
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# PNG: colour types, and the bits a sample that each may have.
_SIGNATURE_BYTES = 8
_HAS_ALPHA = {4, 6}
_GRAY = {0, 4}
_PALETTE = 3
_BITS = {0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}}


class Probe(NamedTuple):
    """An image as its headers describe it; width and height as stored, before EXIF rotation."""

    format: str
    width: int
    height: int
    channels: int  # 1 (gray) or 3, as TensorFlow decodes it; 0 if not `is_plain`.
    is_plain: bool  # TensorFlow decodes it to what the policies say.


def probe(data: bytes, path: str, options: Images) -> Probe:
    """Examines the bytes of a file, whose extension must agree with them."""
    if not data:
        raise UnfitFileError("is empty (0 bytes), expected an image; copy it again")
    header = image_header(data)
    if header is None:
        raise UnfitFileError(refusal(data))
    promised = format_by_extension(path)
    if promised not in (None, header.format):
        raise UnfitFileError(
            f"its extension says {promised} but it holds {header.format}; rename or convert it"
        )
    check_pixels(header.width, header.height, options.max_pixels)
    if header.format == "JPEG":
        channels, is_plain = _probe_jpeg(data)
    elif header.format == "PNG":
        channels, is_plain = _probe_png(data, options)
    else:
        channels, is_plain = 0, False  # TensorFlow's decoders differ for these formats.
    return Probe(header.format, header.width, header.height, channels, is_plain)


def check_pixels(width: int, height: int, most: int) -> None:
    """Rejects, by UnfitFileError, an image without pixels or with more than `most`."""
    if width * height == 0:
        raise UnfitFileError(f"damaged: its header says {width}x{height} pixels")
    if width * height > most:
        raise UnfitFileError(
            f"{width}x{height} is {width * height:,} pixels, more than `max_pixels` {most:,}; "
            "not decoded"
        )


def orientation(exif: bytes) -> int:
    """Returns the orientation in an EXIF block, 1 (upright) to 8; 1 if it has none."""
    tiff = exif.removeprefix(b"Exif\0\0")
    order = {b"II*\0": "<", b"MM\0*": ">"}.get(tiff[:4])
    if order is None:
        return UPRIGHT
    try:
        (directory,) = struct.unpack_from(f"{order}I", tiff, 4)
        (entries,) = struct.unpack_from(f"{order}H", tiff, directory)
        for at in range(directory + 2, directory + 2 + 12 * entries, 12):
            tag, kind, _, value = struct.unpack_from(f"{order}HHIH", tiff, at)
            if tag == _ORIENTATION:
                return value if kind == _SHORT and 1 <= value <= 8 else UPRIGHT
    except struct.error:
        pass
    return UPRIGHT


def _probe_jpeg(data: bytes) -> tuple[int, bool]:
    at, turned = 2, UPRIGHT
    frame: tuple[int, int, int] | None = None  # Marker, bits a sample, samples a pixel.
    while data[at : at + 1] == b"\xff" and at + 4 <= len(data):
        marker, size = struct.unpack_from(">BH", data, at + 1)
        if marker == 0xFF:  # A fill byte.
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
    # Compressed data have no such pair, and thumbnails are before the scan. Searched from the end,
    # where it is unless a camera appended something.
    if data.rfind(_JPEG_END, at) < 0:
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


def _probe_png(data: bytes, options: Images) -> tuple[int, bool]:
    try:
        chunks = _read_chunks(data)
        if chunks is not None and options.verify == "decode":
            _check_png_pixels(data)
    except _PngError as error:
        raise UnfitFileError(f"damaged PNG: {error}; copy or write it again") from error
    if chunks is None:
        raise UnfitFileError("truncated PNG: its last chunk is missing; copy it again")
    is_gray, has_alpha, turned = chunks
    is_plain = turned == UPRIGHT and not has_alpha
    return (1 if is_gray else 3) if is_plain else 0, is_plain


class _PngError(Exception):
    """Reason why libpng does not decode a PNG."""


class _Chunk(NamedTuple):
    kind: bytes
    data: memoryview
    is_sound: bool  # Whether its checksum is right.


def _read_chunks(data: bytes) -> tuple[bool, bool, int] | None:
    """Returns whether a PNG is gray and whether it has alpha, and its orientation; None if cut."""
    chunks = _chunks(data)
    header = next(chunks, None)
    if header is None:
        return None
    colour = _check_header(header)
    has_alpha, turned, before = colour in _HAS_ALPHA, UPRIGHT, header.kind
    seen: set[bytes] = set()
    for kind, body, is_sound in chunks:
        if not kind.isalpha() or not kind.isascii():
            raise _PngError(f"a chunk is called {kind!r}")
        is_critical = kind in (b"IDAT", b"IEND") or (kind == b"PLTE" and colour == _PALETTE)
        if is_critical and not is_sound:
            raise _PngError(f"the checksum of {kind.decode()} is wrong")
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


def _check_png_pixels(data: bytes) -> None:
    """Decompresses the pixels up to their checksum, without which Pillow would go on."""
    inflating = zlib.decompressobj()
    with suppress(zlib.error):  # Pillow names it.
        for chunk in _chunks(data):
            if chunk.kind == b"IDAT":
                inflating.decompress(chunk.data)
        if not inflating.eof:
            raise _PngError("its pixels end early")


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
    if header.kind != b"IHDR" or len(header.data) != 13:
        raise _PngError("its header is not one")
    bits, colour, compression, filtering, interlace = header.data[8:]
    if bits not in _BITS.get(colour, ()) or compression or filtering or interlace > 1:
        raise _PngError("its header has invalid values")
    if not header.is_sound:
        raise _PngError("the checksum of its header is wrong")
    return colour


def _check_order(
    kind: bytes, body: memoryview, seen: set[bytes], before: bytes, *, has_palette: bool
) -> None:
    if kind == b"PLTE":
        if kind in seen or (has_palette and b"IDAT" in seen):
            raise _PngError("its palette appears twice, or after the pixels")
        if has_palette and (len(body) % 3 or not 3 <= len(body) <= 768):
            raise _PngError(f"its palette has {len(body)} bytes")
    elif kind == b"IDAT":
        if has_palette and b"PLTE" not in seen:
            raise _PngError("its palette is missing")
        if kind in seen and before != kind:
            raise _PngError("its pixels are in parts with something between them")
    elif kind == b"IEND":
        if b"IDAT" not in seen:
            raise _PngError("it has no pixels")
    elif kind[0] & 0x20 == 0:  # A capital: must not be skipped.
        raise _PngError(f"it has a second header or the unknown chunk {kind.decode()}")
