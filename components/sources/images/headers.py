"""Reads format, size and orientation of an image from its headers, and finds truncated images.

No pixel is decoded.

Damage that only a decoder finds (a JPEG altered between header and end mark) is not found here;
`verify='decode'` finds it. For a PNG, Pillow verifies the checksums of the chunks.
"""

import io
import os
import re
import struct
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from penstock.components.errors import short_error
from penstock.components.magic import format_of
from penstock.components.sources.images.options import Images
from penstock.components.sources.whole_files import UnfitFileError
from penstock.components.tfrecord.image_header import JPEG_FRAMES, image_header, jpeg_segments

if TYPE_CHECKING:
    from PIL.Image import Image

UPRIGHT = 1
_ORIENTATION = 0x0112
_JPEG_END = b"\xff\xd9"
_PNG_END = b"\0\0\0\0IEND\xaeB`\x82"  # The last chunk, which is empty, with its checksum
# Second bytes of JPEG markers. Every decoder reads `_COMMON_FRAMES`: baseline, extended and
# progressive frames with Huffman codes.
_SCAN = 0xDA
_EXIF = 0xE1
_COMMON_FRAMES = {0xC0, 0xC1, 0xC2}
# Order that the chunks of a PNG must have for libpng to read it. The name of a chunk that libpng
# may skip begins with a lower-case letter.
_OPTIONAL = rb"( [a-z][A-Za-z]{3})*"
_ORDER = re.compile(
    rb"(?!.*PLTE.*PLTE)IHDR%b( PLTE%b)?( IDAT)+%b( PLTE%b)? IEND" % ((_OPTIONAL,) * 4)
)
GRAY_MODES = ("1", "L", "LA", "La", "I", "I;16")
# Image format by file extension, including formats that are rejected.
_BY_EXTENSION = {
    **dict.fromkeys((".jpg", ".jpeg", ".jpe", ".jfif"), "JPEG"),
    **dict.fromkeys((".png", ".apng"), "PNG"),
    ".gif": "GIF",
    **dict.fromkeys((".bmp", ".dib"), "BMP"),
    ".webp": "WebP",
    **dict.fromkeys((".tif", ".tiff"), "TIFF"),
    **dict.fromkeys((".heic", ".heif"), "HEIC"),
    ".avif": "AVIF",
    ".svg": "SVG",
    **dict.fromkeys((".jp2", ".j2k", ".jpx"), "JPEG 2000"),
    ".psd": "PSD",
    ".ico": "ICO",
}
_MAGIC = (
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"\0\0\0\x0cjP  ", "JPEG 2000"),
    (b"\xff\x4f\xff\x51", "JPEG 2000"),
    (b"8BPS", "PSD"),
    (b"\0\0\1\0", "ICO"),
)
# `ftyp` brands of ISO media files that are images.
_BRANDS = {
    **dict.fromkeys((b"avif", b"avis"), "AVIF"),
    **dict.fromkeys((b"heic", b"heix", b"hevc", b"heim", b"heis", b"mif1", b"msf1"), "HEIC"),
}
_CUT_HEADERS = ((b"\xff\xd8", "JPEG"), (b"\x89PNG", "PNG"), (b"GIF8", "GIF"), (b"RIFF", "WebP"))
READABLE = "JPEG, PNG, GIF, BMP or WebP"


class Probe(NamedTuple):
    """An image as described by its headers; width and height are those before EXIF rotation."""

    format: str
    width: int
    height: int
    channels: int  # 1 (gray) or 3, as in TensorFlow's decoders; 0 if not `is_plain`
    is_plain: bool  # Whether `layout='bytes'` stores the file unchanged


def probe(data: bytes, path: str, options: Images) -> Probe:
    """Examines the bytes of a file; its extension must agree with them."""
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
        channels, is_plain = _probe_png(data)
    else:
        # TensorFlow treats GIF, BMP and WebP unlike JPEG and PNG, so they are encoded again.
        channels, is_plain = 0, False
    return Probe(header.format, header.width, header.height, channels, is_plain)


def check_pixels(width: int, height: int, most: int) -> None:
    """Raises UnfitFileError for an image without pixels or with more than `most` pixels."""
    if width * height == 0:
        raise UnfitFileError(f"damaged: its header says {width}x{height} pixels")
    if width * height > most:
        raise UnfitFileError(
            f"{width}x{height} is {width * height:,} pixels, more than `max_pixels` {most:,}; "
            "not decoded"
        )


def orientation(exif: bytes) -> int:
    """Returns the orientation in an EXIF block, 1 (upright) to 8; 1 if it has none."""
    from PIL.Image import Exif

    found = Exif()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found.load(exif)
            turned = found.get(_ORIENTATION, UPRIGHT)
        except Exception:  # Pillow raises several types of errors for damaged EXIF.
            return UPRIGHT
    return turned if turned in range(1, 9) else UPRIGHT


@contextmanager
def opened(data: bytes, kind: str) -> Iterator["Image"]:
    """Opens an image with Pillow; an error of Pillow in the `with` block becomes UnfitFileError."""
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            # Pillow's warning about large images is not needed, because images above `max_pixels`
            # were rejected before this. Other warnings, such as for damaged EXIF, do not affect the
            # pixels.
            warnings.simplefilter("ignore")
            yield Image.open(io.BytesIO(data), formats=[kind])
    except (UnfitFileError, MemoryError):
        raise
    except Exception as error:  # Pillow's plugins raise a dozen types of errors.
        # The text of this error type contains a memory address.
        is_unknown = isinstance(error, UnidentifiedImageError)
        reason = "its header cannot be read" if is_unknown else short_error(error, 120)
        raise UnfitFileError(f"damaged {kind} ({reason}); copy or write it again") from error


def has_alpha(image: "Image") -> bool:
    return "A" in image.mode or "a" in image.mode or "transparency" in image.info


def _probe_jpeg(data: bytes) -> tuple[int, bool]:
    turned = UPRIGHT
    frame: tuple[int, int, int] | None = None  # Marker, bits per sample, samples per pixel
    for marker, at, size in jpeg_segments(data):
        if marker == _EXIF and turned == UPRIGHT and data.startswith(b"Exif\0\0", at):
            turned = orientation(data[at : at + size])
        elif marker in JPEG_FRAMES and frame is None and at + 6 <= len(data):
            frame = (marker, data[at], data[at + 5])
        elif marker == _SCAN and frame is not None:
            break
    else:
        raise UnfitFileError("truncated JPEG: it ends before its pixels begin; copy it again")
    # Only the end mark has these bytes: compressed data cannot contain them, and thumbnails precede
    # the scan. The search starts at the end, where the mark is unless a camera appended bytes.
    if data.rfind(_JPEG_END, at) < 0:
        raise UnfitFileError("truncated JPEG: the mark of its end is missing; copy it again")
    marker, bits, components = frame
    if bits != 8 or components not in (1, 3, 4):
        raise UnfitFileError(
            f"JPEG of {components} x {bits} bits a pixel, which is not read; "
            "convert it to 8 bits of gray or RGB"
        )
    is_plain = marker in _COMMON_FRAMES and turned == UPRIGHT and components != 4
    return (components if is_plain else 0), is_plain


def _probe_png(data: bytes) -> tuple[int, bool]:
    if data.rfind(_PNG_END) < 0:
        raise UnfitFileError("truncated PNG: its last chunk is missing; copy it again")
    with opened(data, "PNG") as image:
        image.verify()
        is_gray, is_plain = image.mode in GRAY_MODES, not has_alpha(image)
        # If the chunks are not in `_ORDER`, Pillow may read a file that TensorFlow does not, so the
        # file is encoded again.
        is_plain &= bool(_ORDER.fullmatch(_png_chunks(data)))
        is_plain &= image.mode != "P" or image.palette is not None
    # The EXIF block is searched for in the bytes, because Pillow decodes the pixels before it reads
    # a block that follows them.
    exif = data.find(b"eXIf")
    if exif >= 0 and orientation(data[exif + 4 :]) != UPRIGHT:
        is_plain = False
    return ((1 if is_gray else 3) if is_plain else 0), is_plain


def _png_chunks(data: bytes) -> bytes:
    """Returns the types of a PNG's chunks up to its end, separated by blanks."""
    kinds, at = list[bytes](), len(b"\x89PNG\r\n\x1a\n")
    while at + 12 <= len(data) and kinds[-1:] != [b"IEND"]:
        size, kind = struct.unpack_from(">I4s", data, at)
        kinds.append(kind)
        at += 12 + size
    return b" ".join(kinds)


def format_by_extension(path: str) -> str | None:
    return _BY_EXTENSION.get(os.path.splitext(path)[1].lower())


def refusal(data: bytes) -> str:
    """Returns the reason for rejecting bytes that do not begin like a readable image."""
    kind = next((name for magic, name in _MAGIC if data.startswith(magic)), None)
    if data[4:8] == b"ftyp":
        kind = _BRANDS.get(data[8:12])
    elif b"<svg" in data[:1024].lower():
        kind = "SVG"
    if kind:
        return f"is {kind}, which is not read; convert it to {READABLE}"
    for magic, name in _CUT_HEADERS:
        if data.startswith(magic):
            return f"truncated or damaged: begins as {name} does, but its header is not whole"
    if found := format_of(data[:512]):
        return f"not an image: looks like {found.name}; {found.advice}"
    return f"not an image: begins with {data[:40]!r}; expected {READABLE}"
