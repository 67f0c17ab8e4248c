"""TFX node that stops the run if images are unfit for training.

Input: Examples of images. Output: a verdict with the number of images, for which later nodes wait
(`transform.add_upstream_node(gate)`). It reads every image once, without decoding: statistics
of single features cannot show that an image is in two splits, or that equal images have different
classes. Memory is 16 bytes per image.
"""

import glob
import hashlib
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from tfx.dsl.component.experimental.annotations import InputArtifact, Parameter
from tfx.types import artifact_utils
from tfx.types.standard_artifacts import Examples

from penstock.components import image_features as names
from penstock.components.errors import DataError
from penstock.components.gates.checks import raise_unfit
from penstock.components.gates.node import Verdict, options_component
from penstock.components.gates.options import ImageRules
from penstock.components.plain import from_json
from penstock.components.tfrecord.example_proto import parse_example, values_of
from penstock.components.tfrecord.records import read_records
from penstock.components.tfrecord.sharding import split_dir

# Maximum number of list items in a message; the others are counted.
_MOST_LISTED = 5
_NO_LABEL = -1
# 64 bits: among a hundred million different images, two have equal digests with probability 3e-4.
_DIGEST_BYTES = 8
_PAIR = np.dtype([("key", np.uint64), ("label", np.int64)])


@options_component(ImageRules)
def ImageGate(  # noqa: N802 - TFX names a node after its function
    examples: InputArtifact[Examples], options: Parameter[str]
) -> Verdict:
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
    counts = {name: images.total() for name, images in statistics.splits.items()}
    return {"verdict": json.dumps({"images": counts, "duplicates": statistics.surplus})}


class Kind(NamedTuple):
    """Properties that many images share; `label` -1 stands for no class, whose text is empty."""

    height: int
    width: int
    channels: int
    label: int
    text: str


@dataclass(frozen=True)
class ImageStatistics:
    """Images of all splits of an Examples artifact, and counts of images with equal bytes."""

    splits: Mapping[str, Counter[Kind]]
    # Number of images that are copies of an earlier one, in all splits.
    surplus: int
    # Number of equal images with different classes.
    contradicting: int
    # Number of images that are in both splits, by pair of splits.
    shared: Mapping[tuple[str, str], int]


def image_statistics(uri: str, splits: Sequence[str]) -> ImageStatistics:
    """Reads all images of the splits of an Examples artifact; DataError for other records."""
    found = {split: Counter[Kind]() for split in splits}
    pairs = {s: np.fromiter(_read(uri, s, images), _PAIR) for s, images in found.items()}
    # Equal images are sorted by class, so a change between neighbours is a contradiction.
    each = np.sort(np.concatenate([*pairs.values(), np.empty(0, _PAIR)]), order=["key", "label"])
    is_again = each["key"][1:] == each["key"][:-1]
    contradicted = each["key"][1:][is_again & (each["label"][1:] != each["label"][:-1])]
    shared = {
        (a, b): len(np.intersect1d(pairs[a]["key"], pairs[b]["key"]))
        for a, b in itertools.combinations(pairs, 2)
    }
    contradicting = int(np.isin(each["key"], contradicted).sum())
    return ImageStatistics(found, int(is_again.sum()), contradicting, shared)


def _read(uri: str, split: str, images: Counter[Kind]) -> Iterator[tuple[int, int]]:
    """Counts the images of a split, and yields digest and class of each."""
    for file in sorted(glob.glob(os.path.join(glob.escape(uri), split_dir(split), "*"))):
        for record in read_records(file):
            example = parse_example(record.payload)
            features: Any = example.context.feature if example else {}
            encoded = [v for v in values_of(features, names.ENCODED) if isinstance(v, bytes)]
            if len(encoded) != 1:
                raise DataError(
                    f"{file}: record {record.number} has no {names.ENCODED!r}: not an image; "
                    "write it with `penstock ingest --kind images`"
                )
            label = _first(features, names.LABEL, _NO_LABEL)
            text = _first(features, names.TEXT, b"") if label != _NO_LABEL else b""
            height, width = _first(features, names.HEIGHT), _first(features, names.WIDTH)
            channels = _first(features, names.CHANNELS)
            kind = Kind(height, width, channels, label, text.decode("utf-8", "replace"))
            images[kind] += 1
            digest = hashlib.blake2b(encoded[0], digest_size=_DIGEST_BYTES).digest()
            yield int.from_bytes(digest, "little"), label


def _first(features: Any, name: str, missing: Any = 0) -> Any:
    found = next(iter(values_of(features, name)), missing)
    return found if isinstance(found, type(missing)) else missing


def _by(images: Counter[Kind], key: Callable[[Kind], Any]) -> Counter[Any]:
    """Returns the number of images by a property of their kind."""
    found: Counter[Any] = Counter()
    for kind, count in images.items():
        found[key(kind)] += count
    return found


def find_image_problems(statistics: ImageStatistics, rules: ImageRules) -> list[str]:
    problems: list[str] = []
    for split, images in statistics.splits.items():
        if images:
            problems += [f"split '{split}': {text}" for text in _split_problems(images, rules)]
        else:
            problems.append(f"split '{split}': no images; expected at least one")
    problems += _class_problems(statistics, rules)
    problems += _duplicate_problems(statistics, rules)
    return problems


def _split_problems(images: Counter[Kind], rules: ImageRules) -> Iterator[str]:
    least = rules.min_side_pixels
    small = {
        size: n
        for size, n in _by(images, attrgetter("height", "width")).items()
        if min(size) < least
    }
    if small:
        sizes = _listed([f"{height}x{width} ({n})" for (height, width), n in sorted(small.items())])
        yield f"{sum(small.values())} images are smaller than {least} pixels: {sizes}"
    for channels, count in sorted(_by(images, attrgetter("channels")).items()):
        if channels not in rules.channels:
            allowed = " or ".join(map(str, rules.channels))
            yield f"{count} images have {channels} channels; expected {allowed}"
    if unlabelled := _by(images, attrgetter("label"))[_NO_LABEL]:
        yield f"{unlabelled} images have no class; expected one for each"


def _class_problems(statistics: ImageStatistics, rules: ImageRules) -> Iterator[str]:
    called: dict[int, set[str]] = {}
    for images in statistics.splits.values():
        for kind in images:
            if kind.label != _NO_LABEL:
                called.setdefault(kind.label, set()).add(kind.text)
    for label, texts in sorted(called.items()):
        if len(texts) > 1:
            yield f"class {label} has several names: {', '.join(map(repr, sorted(texts)))}"
    if len(called) == 1:
        yield f"all images are of class {_named(called, *called)}; expected at least two"
    for split, images in statistics.splits.items():
        if not images:
            continue
        labels = _by(images, attrgetter("label"))
        counts = {label: labels[label] for label in called}
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
    total = sum(images.total() for images in statistics.splits.values())
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
    words = min(called[label])
    return f"{label} {words!r}" if words else str(label)


def _listed(parts: list[str]) -> str:
    more = f" and {len(parts) - _MOST_LISTED} more" if len(parts) > _MOST_LISTED else ""
    return ", ".join(parts[:_MOST_LISTED]) + more
