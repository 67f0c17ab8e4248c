"""A file's bytes to what a record holds of it, in one of three layouts.

`bytes` keeps a file as it is where TensorFlow decodes it to what the policies of `pixels` say.
Of the others (turned by EXIF, alpha, CMYK, GIF, BMP, WebP) a JPEG is encoded again as JPEG, and
everything else as PNG, which loses nothing; so each stored image is a JPEG or a PNG, upright,
of 1 or 3 channels.
"""

import io
from typing import TYPE_CHECKING, NamedTuple

from penstock.components.image_features import RAW
from penstock.components.sources.images.options import Images
from penstock.components.sources.images.pixels import decode, resize
from penstock.components.sources.images.probe import Probe, check_pixels, probe
from penstock.components.sources.whole_files.rows import UnfitFileError

if TYPE_CHECKING:
    from PIL.Image import Image


class StoredImage(NamedTuple):
    """An image as a record holds it: JPEG, PNG or, as `RAW`, uint8 [height, width, channels]."""

    encoded: bytes
    format: str
    height: int
    width: int
    channels: int


def store(data: bytes, path: str, options: Images) -> StoredImage:
    """What a record holds of an image, given the whole file and its name.

    Raises:
        UnfitFileError: It cannot be taken; says why.
    """
    seen = probe(data, path, options)
    if options.layout == "bytes":
        return _as_bytes(data, seen, options)
    image = decode(data, seen, options)
    if options.size is not None:
        if options.fit == "shortest":
            _check_enlarged(image, options)
        image = resize(image, options.size, options.fit)
    image = image.convert("L" if options.channels == 1 else "RGB")
    if options.layout == "decoded":
        return _stored(image, image.tobytes(), RAW)
    return _encoded(image, options.encoding.upper(), options)


def _as_bytes(data: bytes, seen: Probe, options: Images) -> StoredImage:
    if not seen.is_plain:
        image = decode(data, seen, options)
        return _encoded(image, "JPEG" if seen.format == "JPEG" else "PNG", options)
    if options.verify == "decode":
        decode(data, seen, options)
    return StoredImage(data, seen.format, seen.height, seen.width, seen.channels)


def _check_enlarged(image: "Image", options: Images) -> None:
    """A narrow strip grows beyond all bounds when its short side is made the size."""
    scale = (options.size or 0) / min(image.size)
    check_pixels(round(image.width * scale), round(image.height * scale), options.max_pixels)


def _encoded(image: "Image", kind: str, options: Images) -> StoredImage:
    buffer = io.BytesIO()
    try:
        if kind == "JPEG":
            image.save(buffer, kind, quality=options.jpeg_quality)
        else:
            image.save(buffer, kind)
    except (OSError, ValueError) as error:  # a side of more than 65,535 pixels, as JPEG
        raise UnfitFileError(f"cannot be written as {kind} ({error})") from error
    return _stored(image, buffer.getvalue(), kind)


def _stored(image: "Image", data: bytes, kind: str) -> StoredImage:
    channels = len(image.getbands())
    return StoredImage(data, kind, image.height, image.width, channels)
