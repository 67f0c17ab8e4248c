"""ExampleGen that writes scikit-learn's digits like a user's data: image files and labels.

data/images/0000.png ...    8 x 8 pixels, gray, 0..255
data/labels.csv             file, class and text of each image

The driver writes these files before it lists the input files, in `penstock run` and in a container.
"""

from pathlib import Path
from typing import Any

from tfx.orchestration import data_types
from tfx.types import standard_component_specs

from penstock import DataError, UsageError
from penstock.nodes import ShardedExampleGen
from penstock.pipelines.digits.features import WORDS

IMAGES = "images"
LABELS = "labels.csv"
Driver: Any = ShardedExampleGen.DRIVER_CLASS

# The data set has the gray levels 0 to 16.
_MOST = 16


class DigitsDriver(Driver):
    """Driver that writes the images into its input folder, and `labels.csv` next to it."""

    def resolve_exec_properties(
        self,
        exec_properties: dict[str, Any],
        pipeline_info: data_types.PipelineInfo,
        component_info: data_types.ComponentInfo,
    ) -> dict[str, Any]:
        """Writes the digits, then resolves the inputs; raises DataError if writing fails."""
        images = Path(exec_properties[standard_component_specs.INPUT_BASE_KEY])
        write_digits(images.parent)
        return super().resolve_exec_properties(exec_properties, pipeline_info, component_info)


class DigitsExampleGen(ShardedExampleGen):
    """`ShardedExampleGen` whose input folder need not exist yet."""

    DRIVER_CLASS = DigitsDriver


def write_digits(folder: Path) -> None:
    """Writes the images and then the labels; does nothing if the labels file exists.

    The files have the same bytes each time.

    Raises:
        DataError: The folder cannot be written.
        UsageError: Pillow or scikit-learn is not installed.
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
