"""TFX node that stops the run if images are unfit for training.

Input: Examples of images. Output: a verdict with a summary of the images, for which later nodes
wait (`transform.add_upstream_node(gate)`). It reads every image: statistics of single features
cannot show that an image is in two splits, or that equal images have different classes.
"""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypedDict

from tfx.dsl.component.experimental.annotations import InputArtifact, Parameter
from tfx.types import artifact_utils
from tfx.types.standard_artifacts import Examples

from penstock.components.gates.checks import raise_unfit
from penstock.components.gates.image_statistics import (
    ImageStatistics,
    SplitImages,
    image_statistics,
)
from penstock.components.gates.options import ImageRules
from penstock.components.gates.options_component import options_component
from penstock.components.plain import from_json

# Photos may all have different sizes; the verdict lists only the most frequent ones.
_MOST_SIZES = 10
# Maximum number of list items in a message; the others are counted.
_MOST_LISTED = 5


class ImageGateOutputs(TypedDict):
    """Output of the gate: JSON with sizes, channels, formats, classes and duplicates."""

    verdict: str


@options_component(ImageRules)
def ImageGate(  # noqa: N802 - TFX names a node after its function
    examples: InputArtifact[Examples], options: Parameter[str]
) -> ImageGateOutputs:
    """Lets the run continue, or stops it with a list of all problems of the images.

    Args:
        examples: Images from any ExampleGen whose features are named as in `image_features`.
        options: An `ImageRules`.

    Raises:
        DataError: The images are unfit; lists the problems.
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


def find_image_problems(statistics: ImageStatistics, rules: ImageRules) -> list[str]:
    problems: list[str] = []
    for split, images in statistics.splits.items():
        if not images.images:
            problems.append(f"split '{split}': no images; expected at least one")
            continue
        problems += [f"split '{split}': {text}" for text in _split_problems(images, rules)]
    problems += _class_problems(statistics, rules)
    problems += _duplicate_problems(statistics, rules)
    return problems


def _split_problems(images: SplitImages, rules: ImageRules) -> Iterator[str]:
    least = rules.min_side_pixels
    small = {size: n for size, n in images.sizes.items() if min(size) < least}
    if small:
        sizes = _listed([f"{height}x{width} ({n})" for (height, width), n in sorted(small.items())])
        yield f"{sum(small.values())} images are smaller than {least} pixels: {sizes}"
    for channels, count in sorted(images.channels.items()):
        if channels not in rules.channels:
            allowed = " or ".join(map(str, rules.channels))
            yield f"{count} images have {channels} channels; expected {allowed}"
    if unlabelled := images.classes.get(-1):
        yield f"{unlabelled} images have no class; expected one for each"


def _class_problems(statistics: ImageStatistics, rules: ImageRules) -> Iterator[str]:
    called: dict[int, set[str]] = {}
    for images in statistics.splits.values():
        for label, texts in images.texts.items():
            called.setdefault(label, set()).update(texts)
    for label, texts in sorted(called.items()):
        if len(texts) > 1:
            yield f"class {label} has several names: {', '.join(map(repr, sorted(texts)))}"
    if len(called) == 1:
        yield f"all images are of class {_named(called, next(iter(called)))}; expected at least two"
    for split, images in statistics.splits.items():
        if not images.images:
            continue
        counts = {label: images.classes.get(label, 0) for label in called}
        few = {label: n for label, n in counts.items() if n < rules.min_class_images}
        if few:
            yield (
                f"split '{split}': {len(few)} classes have fewer than {rules.min_class_images} "
                f"images: {_listed([f'{_named(called, c)} {n}' for c, n in sorted(few.items())])}"
            )
        most, fewest = max(counts.values(), default=0), min(counts.values(), default=0)
        if fewest and rules.max_class_imbalance and most / fewest > rules.max_class_imbalance:
            yield (
                f"split '{split}': the largest class has {most} images, the smallest {fewest}; "
                f"expected at most {rules.max_class_imbalance:g} times as many"
            )


def _duplicate_problems(statistics: ImageStatistics, rules: ImageRules) -> Iterator[str]:
    total = sum(images.images for images in statistics.splits.values())
    if statistics.contradicting:
        yield (
            f"{statistics.contradicting} images are identical to others of another class; "
            "correct the labels"
        )
    for (a, b), count in statistics.shared.items():
        if count > rules.max_shared_images:
            yield (
                f"{count} images are in split '{a}' and in split '{b}', so that evaluation would "
                "see what was trained on; split by `partition_feature` 'image/encoded'"
            )
    share = statistics.surplus / total if total else 0.0
    if share > rules.max_duplicate_share:
        yield (
            f"{statistics.surplus} of {total} images are copies of others ({share:.1%}); expected "
            f"at most {rules.max_duplicate_share:.1%}"
        )


def _named(called: dict[int, set[str]], label: int) -> str:
    words = next(iter(sorted(called[label])))
    return f"{label} {words!r}" if words else str(label)


def _listed(parts: list[str]) -> str:
    more = f" and {len(parts) - _MOST_LISTED} more" if len(parts) > _MOST_LISTED else ""
    return ", ".join(parts[:_MOST_LISTED]) + more
