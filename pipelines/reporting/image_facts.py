"""Samples, sizes and classes of the images in an Examples artifact.

Reads only the first records of each shard.
"""

import base64
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.components import image_features
from penstock.components.files.remote import is_remote
from penstock.components.tfrecord.example_proto import values_of
from penstock.components.tfrecord.image_header import image_header
from penstock.components.tfrecord.sharding import split_dir
from penstock.pipelines.reporting.artifact_files import (
    Features,
    as_text,
    names_in,
    rows_in,
    split_folder,
    splits_in,
)
from penstock.pipelines.reporting.histograms import Bar

# Maximum number of images read from each split; reading them takes 0.5 s if each has 85 KB.
MOST_READ = 2_000
_SAMPLES = 24
_KEPT = 8 * _SAMPLES
# Pillow scales an image of more than `_LARGEST_BYTES` down to `_THUMBNAIL_PIXELS` a side; without
# Pillow, the image is not shown.
_THUMBNAIL_PIXELS = 96
_LARGEST_BYTES = 24_576
_MIME = {"JPEG": "jpeg", "PNG": "png", "GIF": "gif", "BMP": "bmp", "WebP": "webp"}


@dataclass(frozen=True)
class Sample:
    source: str
    label: str
    text: str


@dataclass(frozen=True)
class ImageFacts:
    """Facts about the images of a run.

    Attributes:
        sizes: Number of images by format and size, the most frequent first.
        classes: Number of images by label and split.
    """

    samples: Sequence[Sample]
    sizes: Sequence[Bar]
    classes: dict[str, Sequence[Bar]]

    @property
    def looked_at(self) -> dict[str, float]:
        return {split: sum(bar.count for bar in bars) for split, bars in self.classes.items()}


def gather_images(examples: str) -> ImageFacts | None:
    """Gathers facts of the images in an `Examples` artifact.

    Returns None if it is remote or has no images.
    """
    if is_remote(examples):
        return None
    sizes: Counter[str] = Counter()
    classes: dict[str, Counter[str]] = {}
    kept: dict[str, list[tuple[bytes, str]]] = {}  # content and place, by label
    for split in splits_in(examples):
        for place, label, data in _images(split_folder(examples, split), split):
            sizes[str(image_header(data) or "no image that is known here")] += 1
            classes.setdefault(split, Counter())[label] += 1
            of_label = kept.setdefault(label, [])
            if len(of_label) < _SAMPLES and sum(map(len, kept.values())) < _KEPT:
                of_label.append((data, place))
    if not classes:
        return None
    labels = sorted(kept, key=_natural)
    # The samples take one image of each label in turn.
    turns = [(n, i, label) for i, label in enumerate(labels) for n in range(len(kept[label]))]
    chosen = [(label, *kept[label][n]) for n, _, label in sorted(turns)[:_SAMPLES]]
    return ImageFacts(
        [
            Sample(image_source(data), label, f"{image_header(data) or 'unknown'}, {place}")
            for label, data, place in chosen
        ],
        [Bar(size, count) for size, count in sizes.most_common(8)],
        {split: [Bar(label, of[label]) for label in labels] for split, of in classes.items()},
    )


def _images(folder: str, split: str) -> Iterator[tuple[str, str, bytes]]:
    """Yields place, label and content of the first images of each shard."""
    most = max(1, MOST_READ // max(1, len(names_in(folder))))
    for shard, number, features in rows_in(folder, of_each=most):
        if image_features.ENCODED not in features:
            return  # the data has no images
        for data in values_of(features, image_features.ENCODED)[:1]:
            yield f"{split_dir(split)}/{shard}, record {number}", image_label(features), data


def image_label(features: Features) -> str:
    text = values_of(features, image_features.TEXT)
    return as_text(text or values_of(features, image_features.LABEL)[:1]) or "no label"


def _natural(label: str) -> tuple[int, str]:
    return (int(label), "") if label.isdecimal() else (1 << 62, label)


def image_source(data: bytes) -> str:
    """Returns the data URI of an image, scaled down if large; empty if it cannot be shown."""
    header = image_header(data)
    if header is None:
        return ""
    if len(data) <= _LARGEST_BYTES:
        return f"data:image/{_MIME[header.format]};base64,{base64.b64encode(data).decode()}"
    try:
        from PIL import Image, UnidentifiedImageError
    except ModuleNotFoundError:
        return ""  # the extra `images` is not installed
    try:
        with Image.open(io.BytesIO(data)) as opened:
            small = opened.convert("RGB")
            small.thumbnail((_THUMBNAIL_PIXELS, _THUMBNAIL_PIXELS))
            out = io.BytesIO()
            small.save(out, "JPEG", quality=80)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
        return ""
    return f"data:image/jpeg;base64,{base64.b64encode(out.getvalue()).decode()}"
