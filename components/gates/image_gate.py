"""TFX node that stops the run if images are unfit to train on.

In: Examples of images. Out: a verdict with a summary of the images, that later nodes wait for
(`transform.add_upstream_node(gate)`). It reads every image; StatisticsGen reads single features.
"""

import json
from collections import Counter
from typing import Any, TypedDict

from tfx.dsl.component.experimental.annotations import InputArtifact, Parameter
from tfx.types import artifact_utils
from tfx.types.standard_artifacts import Examples

from penstock.components.gates.checks import raise_unfit
from penstock.components.gates.image_checks import find_image_problems
from penstock.components.gates.image_statistics import (
    ImageStatistics,
    SplitImages,
    image_statistics,
)
from penstock.components.gates.options import ImageRules
from penstock.components.gates.options_component import options_component
from penstock.components.plain import from_json

# Photos may all have different sizes; the verdict lists the most frequent.
_MOST_SIZES = 10


class ImageGateOutputs(TypedDict):
    """Output of the gate: JSON with sizes, channels, formats, classes and duplicates."""

    verdict: str


@options_component(ImageRules)
def ImageGate(  # noqa: N802 - TFX names a node after its function
    examples: InputArtifact[Examples], options: Parameter[str]
) -> ImageGateOutputs:
    """Lets the run go on, or stops it with a list of all that is wrong with the images.

    Args:
        examples: Images from any ExampleGen that names features as `image_features` does.
        options: An `ImageRules`.

    Raises:
        DataError: The images are unfit; lists why.
    """
    splits = artifact_utils.decode_split_names(examples.split_names)
    statistics = image_statistics(examples.uri, splits)
    problems = find_image_problems(statistics, from_json(ImageRules, options))
    raise_unfit("the images are", problems)
    return {"verdict": json.dumps(_summary(statistics))}


def _summary(statistics: ImageStatistics) -> dict[str, Any]:
    return {
        "splits": {name: _split(images) for name, images in statistics.splits.items()},
        "duplicates": statistics.surplus,
    }


def _split(images: SplitImages) -> dict[str, Any]:
    sizes = Counter(images.sizes).most_common(_MOST_SIZES)
    heights, widths = zip(*images.sizes, strict=True)
    return {
        "images": images.images,
        "mean_bytes": round(images.bytes / images.images),
        "height": [min(heights), max(heights)],
        "width": [min(widths), max(widths)],
        "sizes": {f"{height}x{width}": count for (height, width), count in sizes},
        "channels": dict(sorted(images.channels.items())),
        "formats": dict(sorted(images.formats.items())),
        "classes": {
            f"{label} {min(images.texts.get(label, {''}))}".strip(): count
            for label, count in sorted(images.classes.items())
        },
    }
