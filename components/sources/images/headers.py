"""Format, size, orientation and soundness of an image, from its headers; no pixel is decoded.

Damage that only a decoder meets (bytes altered between header and end mark) is not found here;
`verify='decode'` finds it. A PNG that libpng, TensorFlow's decoder, refuses (wrong chunk
order, checksum or header) is rejected even if others read it
(https://www.w3.org/TR/png-3/#5Chunks).
"""

import re
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from penstock.components.sources.images.looks import format_by_extension, refusal
from penstock.components.sources.images.options import Images
from penstock.components.sources.whole_files import UnfitFileError
from penstock.components.tfrecord.image_header import image_header

UPRIGHT = 1
_ORIENTATION = 0x0112
_SHORT = 3
# JPEG markers. Every decoder reads the common frames: baseline, extended and progressive with
# Huffman codes and 8 bits per sample. C4, C8 and CC do not begin a frame.
_JPEG_END = b"\xff\xd9"
_SCAN = 0xDA
_EXIF = 0xE1
_COMMON_FRAMES = {0xC0, 0xC1, 0xC2}
_FRAMES = set(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
# PNG: sets of colour types, and the allowed bits per sample of each type.
_SIGNATURE_BYTES = 8
_HAS_ALPHA = {4, 6}
_GRAY = {0, 4}
_PALETTE = 3
# Chunks that decoders may skip begin with a small letter.
_OPTIONAL = rb"( [a-z][A-Za-z]{3})*"
_PALETTE_ORDER = re.compile(rb"IHDR%b PLTE%b( IDAT)+%b IEND" % ((_OPTIONAL,) * 3))
# Only an image of palette colours needs its PLTE before the pixels; libpng skips a later one.
_ORDER = re.compile(
    rb"(?!.*PLTE.*PLTE)IHDR%b( PLTE%b)?( IDAT)+%b( PLTE%b)? IEND" % ((_OPTIONAL,) * 4)
)
_BITS = {0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}}


class Probe(NamedTuple):
    """An image as its headers describe it; width and height as stored, before EXIF rotation."""

    format: str
    width: int
    height: int
    channels: int  # 1 (gray) or 3, as TensorFlow decodes it; 0 if not `is_plain`.
    is_plain: bool  # Whether TensorFlow decodes the file as the policies demand.


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
    """Raises UnfitFileError for an image without pixels or with more than `most`."""
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
    frame: tuple[int, int, int] | None = None  # Marker, bits per sample, samples per pixel.
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
    # Only the end mark has these bytes: compressed data cannot, and thumbnails precede the scan.
    # Searched from the end, where the mark is unless a camera appended something.
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
    chunks = list(_chunks(data))
    problem = _header_problem(chunks[0]) if chunks else None
    if not problem and (not chunks or chunks[-1].kind != b"IEND"):
        raise UnfitFileError("truncated PNG: its last chunk is missing; copy it again")
    problem = problem or _order_problem(chunks)
    if not problem and options.verify == "decode" and not _is_inflated(chunks):
        problem = "its pixels end early"
    if problem:
        raise UnfitFileError(f"damaged PNG: {problem}; copy or write it again")
    colour, by_kind = chunks[0].data[9], {chunk.kind: chunk.data for chunk in chunks}
    has_alpha = colour in _HAS_ALPHA or b"tRNS" in by_kind
    is_plain = not has_alpha and orientation(bytes(by_kind.get(b"eXIf", b""))) == UPRIGHT
    return (1 if colour in _GRAY else 3) if is_plain else 0, is_plain


class _Chunk(NamedTuple):
    kind: bytes
    data: memoryview
    is_sound: bool  # Whether its checksum is right.


def _chunks(data: bytes) -> Iterator[_Chunk]:
    """Yields the chunks up to the last one; fewer if the file is cut."""
    at, view, kind = _SIGNATURE_BYTES, memoryview(data), b""
    while at + 12 <= len(data) and kind != b"IEND":
        size, kind = struct.unpack_from(">I4s", data, at)
        end = at + 12 + size
        if end > len(data):
            return
        stored = int.from_bytes(view[end - 4 : end], "big")
        yield _Chunk(kind, view[at + 8 : end - 4], zlib.crc32(view[at + 4 : end - 4]) == stored)
        at = end


def _header_problem(header: _Chunk) -> str | None:
    if header.kind != b"IHDR" or len(header.data) != 13:
        return "its first chunk is not a header"
    bits, colour, compression, filtering, interlace = header.data[8:]
    is_valid = bits in _BITS.get(colour, ()) and not (compression or filtering or interlace > 1)
    return None if is_valid else "its header has invalid values"


def _order_problem(chunks: Sequence[_Chunk]) -> str | None:
    has_palette = chunks[0].data[9] == _PALETTE
    for kind, data, is_sound in chunks:
        is_needed = kind != b"PLTE" or has_palette
        if kind[:1].isupper() and is_needed and not is_sound:
            return f"the checksum of {kind.decode(errors='replace')} is wrong"
        if kind == b"PLTE" and has_palette and (len(data) % 3 or not 3 <= len(data) <= 768):
            return f"its palette has {len(data)} bytes"
    kinds = b" ".join(chunk.kind for chunk in chunks)
    if (_PALETTE_ORDER if has_palette else _ORDER).fullmatch(kinds):
        return None
    what = "a palette" if has_palette else "chunks"
    short = re.sub(rb"(IDAT )+", b"IDAT ", kinds)[:200].decode(errors="replace")
    return f"libpng does not read {what} in this order: {short}"


def _is_inflated(chunks: Sequence[_Chunk]) -> bool:
    """Returns whether the pixels are complete; Pillow would not notice if they end early."""
    inflating = zlib.decompressobj()
    with suppress(zlib.error):  # Pillow reports damage itself.
        for chunk in chunks:
            if chunk.kind == b"IDAT":
                inflating.decompress(chunk.data)
        return inflating.eof
    return True
