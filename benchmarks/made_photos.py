"""Made photos for benchmarks: natural spectra, JPEGs of 4:3 and 3:2, of 500 pixels in 85 KB.

Noise whose energy falls with frequency as that of photos does, so that a JPEG of it has a photo's
size and takes a photo's time to decode. Fixed by seed.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.benchmarks.make_once import make_once

if TYPE_CHECKING:
    import numpy as np

CLASSES = 10
QUALITY = 90
WIDTH = 500


def photos(folder: Path, count: int, width: int = WIDTH) -> Path:
    """`classN/NUMBER.jpg` in a folder of its own in `folder`, made unless they are there."""
    name = f"photos-{count}" if width == WIDTH else f"photos-{count}-of-{width}"
    return make_once(folder / name, lambda root: _make(root, count, width))


def label_of(photo: Path) -> int:
    """The class of a photo, by its folder."""
    return int(photo.parent.name.removeprefix("class"))


def _make(root: Path, count: int, width: int) -> None:
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    side = max(1024, 1 << width.bit_length())
    colours = [np.stack([_field(a, side, rng) for _ in range(3)], axis=-1) for a in (1.0, 1.3, 1.6)]
    lights = [_field(a, side, rng)[..., None] for a in (0.9, 1.1, 1.3)]
    for number in range(count):
        height = width * 3 // 4 if number % 3 else width * 2 // 3
        colour = _part(colours[rng.integers(3)], height, width, rng)
        light = _part(lights[rng.integers(3)], height, width, rng)
        image = 22 * colour + 38 * light + rng.uniform(80, 160)
        image += rng.normal(size=(height, width, 1)) * rng.uniform(0, 6)
        file = root / f"class{number % CLASSES}" / f"{number:06d}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.clip(image, 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(file, quality=QUALITY)


def _field(falloff: float, side: int, rng: "np.random.Generator") -> "np.ndarray":
    """Noise of mean 0 and variance 1, whose amplitude falls with frequency to that power."""
    import numpy as np

    spectrum = np.fft.rfft2(rng.normal(size=(side, side)))
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None])
    frequency[0, 0] = 1
    field = np.fft.irfft2(spectrum / frequency**falloff, s=(side, side))
    field -= field.mean()
    scaled: np.ndarray = (field / field.std()).astype(np.float32)
    return scaled


def _part(field: "np.ndarray", height: int, width: int, rng: "np.random.Generator") -> "np.ndarray":
    top, left = rng.integers(len(field) - height), rng.integers(len(field) - width)
    return field[top : top + height, left : left + width]
