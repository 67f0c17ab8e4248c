"""A decoded image at the size that was asked for; smaller ones are enlarged."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image


def resize(image: "Image", size: int, fit: str) -> "Image":
    """Resize with a filter that averages what it leaves out (bicubic).

    Args:
        image: Mode `L` or `RGB`.
        size: In pixels.
        fit: `crop` of the centre, `pad` with black, `stretch`: size x size; or `shortest`: the
            shorter side is `size`, the aspect is kept and nothing is cut.
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
