"""Made JPEG images of realistic size: noise with the spectrum of photographs, fixed by seed."""

import io
from pathlib import Path

import numpy as np

HEIGHT, WIDTH = 375, 500
CLASSES = 10
# Of the fields that images are cut from.
_FIELD = 1024


def jpeg_files(folder: Path, count: int, *, seed: int = 7) -> list[Path]:
    """`CLASS/NUMBER.jpg` of about 90 KB each in `folder`, made unless they are there."""
    if not folder.exists():
        part = folder.with_suffix(".part")
        rng = np.random.default_rng(seed)
        fields = [_field(rng, power) for power in (1.0, 1.3, 1.6)]
        for number in range(count):
            path = part / str(number % CLASSES) / f"{number:05d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(_jpeg(rng, fields))
        part.rename(folder)
    return sorted(folder.glob("*/*.jpg"))


def _field(rng: np.random.Generator, power: float) -> np.ndarray:
    """float32 [size, size, 3] of mean 0 and deviation 1; smoother with a higher power."""
    y, x = np.fft.fftfreq(_FIELD)[:, None], np.fft.rfftfreq(_FIELD)[None]
    radius = np.sqrt(y * y + x * x)
    radius[0, 0] = 1
    planes = []
    for _ in range(3):
        spectrum = np.fft.rfft2(rng.normal(size=(_FIELD, _FIELD)))
        plane = np.fft.irfft2(spectrum / radius**power, s=(_FIELD, _FIELD))
        planes.append((plane - plane.mean()) / plane.std())
    return np.stack(planes, -1).astype(np.float32)


def _jpeg(rng: np.random.Generator, fields: list[np.ndarray]) -> bytes:
    from PIL import Image

    field = fields[rng.integers(len(fields))]
    top, left = rng.integers(0, _FIELD - HEIGHT), rng.integers(0, _FIELD - WIDTH)
    pixels = field[top : top + HEIGHT, left : left + WIDTH] * 45 + rng.uniform(80, 160)
    grain = rng.normal(size=(HEIGHT, WIDTH, 1)) * rng.uniform(0, 6)
    image = Image.fromarray(np.clip(pixels + grain, 0, 255).astype(np.uint8))
    out = io.BytesIO()
    image.save(out, "JPEG", quality=90)
    return out.getvalue()
