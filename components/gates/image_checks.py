"""Checks of images before training: their statistics in, problems out.

TFDV's statistics of single features cannot see that an image is in two splits, that a class is
missing from a split, or that equal images have different classes.
"""

from collections.abc import Iterator

from penstock.components.gates.image_statistics import ImageStatistics, SplitImages
from penstock.components.gates.options import ImageRules

# Items of a list in a message; the rest is counted.
_MOST_LISTED = 5


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
