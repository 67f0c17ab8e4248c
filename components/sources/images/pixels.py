"""Decodes images to one fixed form, resizes them, and stores them in one of three layouts.

For all formats, EXIF orientation is applied. 16-bit values keep the upper 8 bits, as in TensorFlow.
CMYK becomes RGB without colour management. Transparent pixels are laid over white or black, or
alpha is dropped. Only the first frame of an animation is used.

The layout `bytes` keeps a file unchanged if TensorFlow decodes it to exactly the form described
above. Otherwise a JPEG is encoded again as JPEG, and any other format as PNG, which is lossless. So
each stored image is an upright JPEG or PNG of 1 or 3 channels.
"""

import io
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from penstock.components.errors import UsageError
from penstock.components.image_features import RAW
from penstock.components.sources.images.headers import (
    GRAY_MODES,
    UPRIGHT,
    Probe,
    check_pixels,
    has_alpha,
    opened,
    orientation,
    probe,
)
from penstock.components.sources.images.options import Images
from penstock.components.sources.whole_files import UnfitFileError

if TYPE_CHECKING:
    from PIL.Image import Image

_BACKGROUNDS = {"white": (255, 255, 255, 255), "black": (0, 0, 0, 255)}
_MOST_JPEG_SIDE = 65_500  # libjpeg's limit.
# Pillow may shrink a JPEG while decoding it, but not below this multiple of the wanted size, so
# that the resizing filter still has pixels to average.
_DRAFT_SCALE = 2


class StoredImage(NamedTuple):
    """An image as a record stores it: JPEG, PNG or, as `RAW`, uint8 [height, width, channels]."""

    encoded: bytes
    format: str
    height: int
    width: int
    channels: int


def store(data: bytes, path: str, options: Images) -> StoredImage:
    seen = probe(data, path, options)
    if options.layout == "bytes":
        return _as_bytes(data, seen, options)
    image = decode(data, seen, options)
    if options.size is not None:
        if options.fit == "shortest":  # The long side of a narrow strip could become huge.
            scale = options.size / min(image.size)
            wide, high = round(image.width * scale), round(image.height * scale)
            check_pixels(wide, high, options.max_pixels)
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


def _encoded(image: "Image", kind: str, options: Images) -> StoredImage:
    if kind == "JPEG" and max(image.size) > _MOST_JPEG_SIDE:
        raise UnfitFileError(
            f"would have {image.width}x{image.height} pixels, and a JPEG at most "
            f"{_MOST_JPEG_SIDE:,} a side; set `encoding='png'`, or another `fit` or `size`"
        )
    buffer = io.BytesIO()
    try:
        if kind == "JPEG":
            image.save(buffer, kind, quality=options.jpeg_quality)
        else:
            image.save(buffer, kind)
    except (OSError, ValueError) as error:
        raise UnfitFileError(f"cannot be written as {kind} ({error})") from error
    return _stored(image, buffer.getvalue(), kind)


def _stored(image: "Image", data: bytes, kind: str) -> StoredImage:
    channels = len(image.getbands())
    return StoredImage(data, kind, image.height, image.width, channels)


def require_pillow() -> None:
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise UsageError('images need Pillow: pip install "penstock-tfx[images]"') from error


def decode(data: bytes, probe: Probe, options: Images) -> "Image":
    """Decodes to mode `L` or `RGB`.

    A JPEG that `options.size` makes much smaller is decoded at reduced size.
    """
    with opened(data, probe.format) as image:
        check_pixels(*image.size, options.max_pixels)  # Pillow's size may differ from `probe`'s.
        if probe.format == "JPEG" and options.size is not None:
            wanted = _DRAFT_SCALE * options.size
            image.draft(None, (wanted, wanted))
        image.load()
        turned = orientation(image.info.get("exif", b""))
        return _turn(_eight_bits(image, options.alpha), turned)


def _eight_bits(image: "Image", alpha: str) -> "Image":
    from PIL import Image

    if image.mode.startswith("I"):  # 16-bit gray
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    is_gray = image.mode in GRAY_MODES
    if alpha != "drop" and has_alpha(image):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, _BACKGROUNDS[alpha]), image)
    elif image.mode in ("RGBa", "La"):
        image = image.convert("RGBA")
    return image.convert("L" if is_gray else "RGB")


def _turn(image: "Image", turned: int) -> "Image":
    from PIL.Image import Transpose

    # Operation that makes the image upright, by EXIF orientation
    methods = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    return image if turned == UPRIGHT else image.transpose(methods[turned])


def resize(image: "Image", size: int, fit: str) -> "Image":
    """Resizes a gray or RGB image with an antialiasing bicubic filter.

    `fit` is `crop` (the centre), `pad` (with black) or `stretch`, each to `size` x `size` pixels;
    or `shortest`: the shorter side becomes `size`, the aspect is kept and nothing is cut.
    """
    from PIL.Image import Resampling, new

    width, height = image.size
    if fit == "stretch":
        return image.resize((size, size), Resampling.BICUBIC)
    if fit == "crop":
        side = min(width, height)
        left, top = (width - side) / 2, (height - side) / 2
        box = (left, top, left + side, top + side)
        return image.resize((size, size), Resampling.BICUBIC, box=box)
    side = min(width, height) if fit == "shortest" else max(width, height)
    scaled = tuple(max(1, round(size * length / side)) for length in (width, height))
    image = image.resize((scaled[0], scaled[1]), Resampling.BICUBIC)
    if fit == "shortest":
        return image
    padded = new(image.mode, (size, size))
    padded.paste(image, ((size - image.width) // 2, (size - image.height) // 2))
    return padded
