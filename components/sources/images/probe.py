"""Format, size and orientation of an image, from its headers; no pixel is decoded.

A fault that only a decoder meets (bytes altered between header and end mark) is not found
here; `verify='decode'` finds it.
"""

from typing import NamedTuple

from penstock.components.sources.images.exif import UPRIGHT
from penstock.components.sources.images.jpeg import probe_jpeg
from penstock.components.sources.images.looks import format_by_extension, refusal
from penstock.components.sources.images.options import Images
from penstock.components.sources.images.png import PngError, read_chunks
from penstock.components.sources.images.png import check_pixels as check_png_pixels
from penstock.components.sources.whole_files.rows import UnfitFileError
from penstock.components.tfrecord.image_header import image_header


class Probe(NamedTuple):
    """An image as its headers describe it.

    Attributes:
        format: `JPEG`, `PNG`, `GIF`, `BMP` or `WebP`.
        width: In pixels, as stored: before it is turned.
        height: In pixels, as stored.
        channels: 1 (gray) or 3, of what TensorFlow decodes the bytes to; 0 where not `is_plain`.
        is_plain: Whether TensorFlow decodes the bytes to what the policies say as they are:
            upright, without alpha that counts, of a format and colours that it reads.
    """

    format: str
    width: int
    height: int
    channels: int
    is_plain: bool


def probe(data: bytes, path: str, options: Images) -> Probe:
    """Look at the bytes of a file, whose extension must agree with them.

    Raises:
        UnfitFileError: It is no image, not whole, too large, or not what its name says.
    """
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
        channels, is_plain = probe_jpeg(data)
    elif header.format == "PNG":
        channels, is_plain = _probe_png(data, options)
    else:
        channels, is_plain = 0, False  # TensorFlow's decoders differ in what they read of these
    return Probe(header.format, header.width, header.height, channels, is_plain)


def check_pixels(width: int, height: int, most: int) -> None:
    """Refuse an image without pixels, or with more than `most`.

    Raises:
        UnfitFileError: Names its size.
    """
    if width * height == 0:
        raise UnfitFileError(f"damaged: its header says {width}x{height} pixels")
    if width * height > most:
        raise UnfitFileError(
            f"{width}x{height} is {width * height:,} pixels, more than `max_pixels` {most:,}; "
            "not decoded"
        )


def _probe_png(data: bytes, options: Images) -> tuple[int, bool]:
    try:
        chunks = read_chunks(data)
        if chunks is not None and options.verify == "decode":
            check_png_pixels(data)
    except PngError as error:
        raise UnfitFileError(f"damaged PNG: {error}; copy or write it again") from error
    if chunks is None:
        raise UnfitFileError("truncated PNG: its last chunk is missing; copy it again")
    is_gray, has_alpha, turned = chunks
    is_plain = turned == UPRIGHT and not (has_alpha and options.alpha != "drop")
    return (1 if is_gray else 3) if is_plain else 0, is_plain
