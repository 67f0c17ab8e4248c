"""Writes scikit-learn's digits like a user's data: image files, and a file of labels.

data/images/0000.png ...    8 x 8 pixels, gray, 0..255
data/labels.csv             file, class and text of each image
"""

from pathlib import Path

from penstock import DataError, UsageError
from penstock.pipelines.digits.features import WORDS

IMAGES = "images"
LABELS = "labels.csv"

# The data set has 17 levels of gray.
_MOST = 16


def write_digits(folder: Path) -> None:
    """Writes the data, always the same bytes, the labels last; nothing if they exist.

    Raises:
        DataError: The folder cannot be written.
        UsageError: Pillow is not installed.
    """
    if (folder / LABELS).exists():
        return
    try:
        _write(folder)
    except ImportError as error:
        raise UsageError(
            f"the digits need {error.name}: pip install 'penstock-tfx[digits]', or give data"
        ) from error
    except OSError as error:
        raise DataError(f"{folder}: cannot be written ({error.strerror})") from error


def _write(folder: Path) -> None:
    import numpy as np
    from PIL import Image
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = np.round(digits.images * (255 / _MOST)).astype(np.uint8)
    names = [f"{number:04d}.png" for number in range(len(pixels))]
    (folder / IMAGES).mkdir(parents=True, exist_ok=True)
    for name, image in zip(names, pixels, strict=True):
        Image.fromarray(image).save(folder / IMAGES / name)
    labels = [
        f"{name},{label},{WORDS[label]}" for name, label in zip(names, digits.target, strict=True)
    ]
    part = folder / f".{LABELS}"
    part.write_text("\n".join(["file,class,text", *labels, ""]), encoding="utf-8")
    part.rename(folder / LABELS)
