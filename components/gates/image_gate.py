"""TFX node that stops the run if images are unfit for training.

Input: Examples of images. Output: a verdict with the number of images. Later nodes wait for the
verdict (`transform.add_upstream_node(gate)`). The node reads every image once, without decoding it,
because statistics of single features cannot show that two splits share an image, or that equal
images have different classes. Memory is about 100 bytes per image.
"""

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from tfx.dsl.component.experimental.annotations import InputArtifact, Parameter
from tfx.types import artifact_utils
from tfx.types.standard_artifacts import Examples

from penstock.components import image_features as names
from penstock.components.batches.shards import shard_tasks
from penstock.components.errors import DataError
from penstock.components.gates.gate import raise_unfit
from penstock.components.gates.options import ImageRules, Verdict, options_component
from penstock.components.plain import from_json
from penstock.components.sources.tfrecords.examples import read_payloads
from penstock.components.tfrecord.example_proto import parse_example, values_of

# Maximum number of list items in a message; the remaining items are only counted.
_MOST_LISTED = 5
_NO_LABEL = -1
# 64 bits: among a hundred million different images, two have equal digests with probability 3e-4.
_DIGEST_BYTES = 8
_SIZES = ("height", "width", "channels")
# `key` is the digest of the image's bytes. `text` is the index of the class's text, which replaces
# the index when all images have been read.
_IMAGE = np.dtype(
    [("key", np.uint64), ("label", np.int64), ("text", np.int32), *((n, np.int32) for n in _SIZES)]
)


@options_component(ImageRules)
def ImageGate(  # noqa: N802 - TFX names a node after its function
    examples: InputArtifact[Examples], options: Parameter[str]
) -> Verdict:
    """Lets the run continue, or stops it with a list of all problems of the images.

    Args:
        examples: Images from any ExampleGen, with features named as in `image_features`.
        options: An `ImageRules`.

    Raises:
        DataError: The images are unfit; lists the problems.
    """
    images = read_images(examples.uri, artifact_utils.decode_split_names(examples.split_names))
    raise_unfit("the images are", find_image_problems(images, from_json(ImageRules, options)))
    counts = images["split"].value_counts(sort=False).to_dict()
    duplicates = int(images.duplicated("key").sum())
    return {"verdict": json.dumps({"images": counts, "duplicates": duplicates})}


def read_images(uri: str, splits: Sequence[str]) -> pd.DataFrame:
    """Reads all images in splits of an Examples artifact; raises DataError for other records.

    Returns:
        A row for each image, with the columns `split` (a categorical of `splits`), `key` (equal for
        equal bytes), `label` (-1 without a class), `text` (empty without a class), `height`,
        `width` and `channels`.
    """
    texts: dict[str, int] = {}
    found = [np.fromiter(_read(uri, split, texts), _IMAGE) for split in splits]
    images = pd.DataFrame(np.concatenate([*found, np.empty(0, _IMAGE)]))
    places = np.repeat(np.arange(len(found)), [len(one) for one in found])
    images["split"] = pd.Categorical.from_codes(places, list(splits))
    images["text"] = pd.Categorical.from_codes(images["text"], list(texts))
    return images


def _read(uri: str, split: str, texts: dict[str, int]) -> Iterator[tuple[int, ...]]:
    for task in shard_tasks(uri, split):
        payloads = itertools.chain.from_iterable(read_payloads(task.file, task.shard))
        for number, payload in enumerate(payloads):
            example = parse_example(payload)
            features: Any = example.context.feature if example else {}
            encoded = [v for v in values_of(features, names.ENCODED) if isinstance(v, bytes)]
            if len(encoded) != 1:
                raise DataError(
                    f"{task.file}: record {number} has no {names.ENCODED!r}: not an image; "
                    "write it with `penstock ingest --kind images`"
                )
            label = _first(features, names.LABEL, _NO_LABEL)
            text = _first(features, names.TEXT, b"") if label != _NO_LABEL else b""
            place = texts.setdefault(text.decode("utf-8", "replace"), len(texts))
            sizes = (_first(features, name) for name in (names.HEIGHT, names.WIDTH, names.CHANNELS))
            digest = hashlib.blake2b(encoded[0], digest_size=_DIGEST_BYTES).digest()
            yield int.from_bytes(digest, "little"), label, place, *sizes


def _first(features: Any, name: str, missing: Any = 0) -> Any:
    found = next(iter(values_of(features, name)), missing)
    return found if isinstance(found, type(missing)) else missing


def find_image_problems(images: pd.DataFrame, rules: ImageRules) -> list[str]:
    """Returns all problems of the images of `read_images`, one line each."""
    by_split = {name: images[images["split"] == name] for name in images["split"].cat.categories}
    return [
        *(
            f"split '{split}': {text}"
            for split, of_split in by_split.items()
            for text in _size_problems(of_split, rules)
        ),
        *_class_problems(images, by_split, rules),
        *_duplicate_problems(images, by_split, rules),
    ]


def _size_problems(images: pd.DataFrame, rules: ImageRules) -> Iterator[str]:
    if not len(images):
        yield "no images; expected at least one"
    small = images[images[["height", "width"]].min(axis=1) < rules.min_side_pixels]
    if len(small):
        counts = small.value_counts(["height", "width"]).sort_index()
        sizes = _listed([f"{height}x{width} ({n})" for (height, width), n in counts.items()])
        yield f"{len(small)} images are smaller than {rules.min_side_pixels} pixels: {sizes}"
    for channels, count in images["channels"].value_counts().sort_index().items():
        if channels not in rules.channels:
            allowed = " or ".join(map(str, rules.channels))
            yield f"{count} images have {channels} channels; expected {allowed}"
    if unlabelled := int((images["label"] == _NO_LABEL).sum()):
        yield f"{unlabelled} images have no class; expected one for each"


def _class_problems(
    images: pd.DataFrame, by_split: Mapping[str, pd.DataFrame], rules: ImageRules
) -> Iterator[str]:
    labelled = images[images["label"] != _NO_LABEL]
    called = {label: sorted(of["text"].unique()) for label, of in labelled.groupby("label")}
    named = {
        label: f"{label} {texts[0]!r}" if texts[0] else str(label)
        for label, texts in called.items()
    }
    for label, texts in called.items():
        if len(texts) > 1:
            yield f"class {label} has several names: {', '.join(map(repr, texts))}"
    if len(called) == 1:
        yield f"all images are of class {next(iter(named.values()))}; expected at least two"
    for split, of_split in by_split.items():
        counts = of_split["label"].value_counts().reindex([*called], fill_value=0)
        if not len(of_split) or counts.empty:
            continue
        few = counts[counts < rules.min_class_images]
        if len(few):
            yield (
                f"split '{split}': {len(few)} classes have fewer than {rules.min_class_images} "
                f"images: {_listed([f'{named[label]} {n}' for label, n in few.items()])}"
            )
        most, fewest = counts.max(), counts.min()
        if fewest and rules.max_class_imbalance and most / fewest > rules.max_class_imbalance:
            yield (
                f"split '{split}': the largest class has {most} images, the smallest {fewest}; "
                f"expected at most {rules.max_class_imbalance:g} times as many"
            )


def _duplicate_problems(
    images: pd.DataFrame, by_split: Mapping[str, pd.DataFrame], rules: ImageRules
) -> Iterator[str]:
    labels = images.drop_duplicates(["key", "label"])["key"]
    if contradicting := int(images["key"].isin(labels[labels.duplicated()]).sum()):
        yield (
            f"{contradicting} images are identical to others of another class; correct the labels"
        )
    for a, b in itertools.combinations(by_split, 2):
        count = len(np.intersect1d(by_split[a]["key"], by_split[b]["key"]))
        if count > rules.max_shared_images:
            yield (
                f"{count} images are in split '{a}' and in split '{b}', so that evaluation would "
                "see what was trained on; split by `partition_feature` 'image/encoded'"
            )
    surplus, total = int(images.duplicated("key").sum()), len(images)
    if total and surplus / total > rules.max_duplicate_share:
        yield (
            f"{surplus} of {total} images are copies of others ({surplus / total:.1%}); expected "
            f"at most {rules.max_duplicate_share:.1%}"
        )


def _listed(parts: list[str]) -> str:
    more = f" and {len(parts) - _MOST_LISTED} more" if len(parts) > _MOST_LISTED else ""
    return ", ".join(parts[:_MOST_LISTED]) + more
