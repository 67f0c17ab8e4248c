"""Statistics of images: reads shards, returns sizes, channels, formats, classes and duplicates.

One pass over every record, without decoding: sizes are those that the ExampleGen stored. Memory is
16 bytes per image.
"""

import glob
import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.components import image_features as names
from penstock.components.errors import DataError
from penstock.components.tfrecord.example_proto import parse_example
from penstock.components.tfrecord.records import read_records
from penstock.components.tfrecord.sharding import split_dir

_NO_LABEL = -1
# 64 bits: among a hundred million different images, two have equal digests with probability 3e-4.
_DIGEST_BYTES = 8
_PAIR = np.dtype([("key", np.uint64), ("label", np.int64)])


@dataclass
class SplitImages:
    images: int = 0
    # Total size of the encoded images.
    bytes: int = 0
    # Number of images by (height, width).
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    channels: Counter[int] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    # Number of images by class; -1 stands for no class.
    classes: Counter[int] = field(default_factory=Counter)
    # Names of each class.
    texts: dict[int, set[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class ImageStatistics:
    """Images of all splits of an Examples artifact, and counts of images with equal bytes."""

    splits: Mapping[str, SplitImages]
    # Number of images that are copies of an earlier one, in all splits.
    surplus: int
    # Number of equal images with different classes.
    contradicting: int
    # Number of images that are in both splits, by pair of splits.
    shared: Mapping[tuple[str, str], int]


def image_statistics(uri: str, splits: Sequence[str]) -> ImageStatistics:
    """Reads all images of the splits of an Examples artifact; DataError for other records."""
    found = {split: SplitImages() for split in splits}
    pairs = {s: np.fromiter(_read(uri, s, images), _PAIR) for s, images in found.items()}
    # Equal images are sorted by class, so a change between neighbours is a contradiction.
    each = np.sort(np.concatenate([*pairs.values(), np.empty(0, _PAIR)]), order=["key", "label"])
    is_again = each["key"][1:] == each["key"][:-1]
    contradicted = each["key"][1:][is_again & (each["label"][1:] != each["label"][:-1])]
    distinct = {split: np.unique(of_split["key"]) for split, of_split in pairs.items()}
    shared = {
        (a, b): len(np.intersect1d(distinct[a], distinct[b], assume_unique=True))
        for a, b in itertools.combinations(pairs, 2)
    }
    contradicting = int(np.isin(each["key"], contradicted).sum())
    return ImageStatistics(found, int(is_again.sum()), contradicting, shared)


def _read(uri: str, split: str, images: SplitImages) -> Iterator[tuple[int, int]]:
    """Counts the images of a split, and yields digest and class of each."""
    for file in sorted(glob.glob(os.path.join(glob.escape(uri), split_dir(split), "*"))):
        for record in read_records(file):
            example = parse_example(record.payload)
            feature = example.context.feature if example else {}
            encoded = feature[names.ENCODED].bytes_list.value if names.ENCODED in feature else []
            if len(encoded) != 1:
                raise DataError(
                    f"{file}: record {record.number} has no {names.ENCODED!r}: not an image; "
                    "write it with `penstock ingest --kind images`"
                )
            label = _whole(feature, names.LABEL, _NO_LABEL)
            images.images += 1
            images.bytes += len(encoded[0])
            images.sizes[_whole(feature, names.HEIGHT), _whole(feature, names.WIDTH)] += 1
            images.channels[_whole(feature, names.CHANNELS)] += 1
            images.formats[_text(feature, names.FORMAT)] += 1
            images.classes[label] += 1
            if label != _NO_LABEL:
                images.texts.setdefault(label, set()).add(_text(feature, names.TEXT))
            digest = hashlib.blake2b(encoded[0], digest_size=_DIGEST_BYTES).digest()
            yield int.from_bytes(digest, "little"), label


def _whole(feature: Mapping[str, "object"], name: str, missing: int = 0) -> int:
    values = feature[name].int64_list.value if name in feature else ()  # type: ignore[attr-defined]
    return int(values[0]) if values else missing


def _text(feature: Mapping[str, "object"], name: str) -> str:
    values = feature[name].bytes_list.value if name in feature else ()  # type: ignore[attr-defined]
    return values[0].decode("utf-8", "replace") if values else ""
