"""An image decoded to one fixed form, upright, 8 bits, gray or RGB, without alpha; and resized.

The policies, for all kinds: EXIF orientation is applied; of 16 bits the upper 8 are kept, as
TensorFlow does; CMYK becomes RGB without colour management; alpha goes over white, black or
is dropped; of an animation the first frame counts.
"""

import io
import warnings
from typing import TYPE_CHECKING

import numpy as np

from penstock.components.errors import UsageError, short_error
from penstock.components.sources.images.exif import UPRIGHT, orientation
from penstock.components.sources.images.options import Images
from penstock.components.sources.images.probe import Probe, check_pixels
from penstock.components.sources.whole_files.rows import UnfitFileError

if TYPE_CHECKING:
    from PIL.Image import Image

_BACKGROUNDS = {"white": (255, 255, 255, 255), "black": (0, 0, 0, 255)}
_GRAY_MODES = ("1", "L", "LA", "La")
# How Pillow reduces a JPEG while it decodes: to no less than this many times the wanted size, so
# that the filter that does the rest still has something to average.
_DRAFT_SCALE = 2


def require_pillow() -> None:
    """Refuse to begin where Pillow is not installed.

    Raises:
        UsageError: Says what to install.
    """
    try:
        import PIL  # noqa: F401
    except ImportError as error:
        raise UsageError('images need Pillow: pip install "penstock[images]"') from error


def decode(data: bytes, probe: Probe, options: Images) -> "Image":
    """Decode an image; of mode `L` where it has no colours, else `RGB`.

    A JPEG that is to be made much smaller comes smaller from the decoder, of the same shape.

    Raises:
        UnfitFileError: It cannot be decoded.
    """
    from PIL import Image

    try:
        with warnings.catch_warnings():
            # What is too large was refused already, and what else Pillow warns of, damaged EXIF
            # and the like, does not change the pixels.
            warnings.simplefilter("ignore")
            image = Image.open(io.BytesIO(data), formats=[probe.format])
            check_pixels(*image.size, options.max_pixels)  # headers may contradict each other
            if probe.format == "JPEG" and options.size is not None:
                wanted = _DRAFT_SCALE * options.size
                image.draft(None, (wanted, wanted))
            image.load()
            turned = orientation(image.info.get("exif", b""))
            return _turn(_eight_bits(image, options.alpha), turned)
    except UnfitFileError:
        raise
    except MemoryError:
        raise
    except Exception as error:  # Pillow's plugins raise a dozen kinds of them
        reason = short_error(error, 120)
        raise UnfitFileError(
            f"{probe.format} that cannot be decoded ({reason}); copy it again"
        ) from error


def _eight_bits(image: "Image", alpha: str) -> "Image":
    """The first frame as `L` or `RGB`."""
    from PIL import Image

    if image.mode.startswith("I"):  # gray of 16 bits
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    is_gray = image.mode in _GRAY_MODES
    if alpha != "drop" and _has_alpha(image):
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, _BACKGROUNDS[alpha]), image)
    elif image.mode in ("RGBa", "La"):
        image = image.convert("RGBA")
    return image.convert("L" if is_gray else "RGB")


def _has_alpha(image: "Image") -> bool:
    return "A" in image.mode or "a" in image.mode or "transparency" in image.info


def _turn(image: "Image", turned: int) -> "Image":
    from PIL.Image import Transpose

    # EXIF's number to what makes the picture upright.
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
    """Resize a gray or RGB image with a filter that averages what it leaves out (bicubic).

    To `size` x `size` pixels by `fit`: `crop` of the centre, `pad` with black, `stretch`; or
    `shortest`: the shorter side is `size`, the aspect is kept and nothing is cut.
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
