"""Writes scikit-learn's digits like a user's data: image files, and a file of labels.

data/images/0000.png ...    8 x 8 pixels, gray, 0..255
data/labels.csv             file, class and text of each image
"""

import shutil
import tempfile
from pathlib import Path

from penstock import DataError, UsageError
from penstock.pipelines.digits.features import WORDS

IMAGES = "images"
LABELS = "labels.csv"

# The data set has 17 levels of gray.
_MOST = 16


def write_digits(folder: Path) -> None:
    """Writes the data, always the same bytes, by one rename, unless it exists.

    Raises:
        DataError: The folder has other contents, or cannot be written.
        UsageError: scikit-learn is not installed.
    """
    if (folder / LABELS).exists():
        return
    if folder.exists():
        raise DataError(f"{folder}: is there without {LABELS}; remove it, or give data")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        attempt = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            _write(attempt)
            attempt.chmod(0o755)
            attempt.rename(folder)
        finally:
            shutil.rmtree(attempt, ignore_errors=True)
    except OSError as error:
        if not (folder / LABELS).exists():  # otherwise another process was faster
            raise DataError(f"{folder}: cannot be written ({error.strerror})") from error


def _write(folder: Path) -> None:
    try:
        import numpy as np
        from PIL import Image
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise UsageError(
            f"the digits need {error.name}: pip install 'penstock-tfx[digits]', or give data"
        ) from error
    digits = load_digits()
    pixels = np.round(digits.images * (255 / _MOST)).astype(np.uint8)
    names = [f"{number:04d}.png" for number in range(len(pixels))]
    (folder / IMAGES).mkdir()
    for name, image in zip(names, pixels, strict=True):
        Image.fromarray(image).save(folder / IMAGES / name)
    labels = [
        f"{name},{label},{WORDS[label]}" for name, label in zip(names, digits.target, strict=True)
    ]
    (folder / LABELS).write_text("\n".join(["file,class,text", *labels, ""]), encoding="utf-8")
