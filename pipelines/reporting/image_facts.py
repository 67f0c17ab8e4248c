"""Samples, sizes and classes of the images in an Examples artifact.

Reads the first records of each shard only.
"""

import base64
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from penstock.components import image_features
from penstock.components.files.remote import is_remote
from penstock.components.tfrecord.image_header import image_header
from penstock.components.tfrecord.sharding import split_dir
from penstock.pipelines.reporting.artifact_files import (
    Features,
    as_text,
    names_in,
    rows_in,
    split_folder,
    splits_in,
    values_of,
)
from penstock.pipelines.reporting.histograms import Bar

# Number of images read from each split; takes 0.5 s for images of 85 KB.
MOST_READ = 2_000
_SAMPLES = 24
_KEPT = 8 * _SAMPLES
# A larger image is scaled down by Pillow, or left out if Pillow is not installed.
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
    """Images of a run.

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


@dataclass(frozen=True)
class _Image:
    place: str
    label: str
    data: bytes


def gather_images(examples: str) -> ImageFacts | None:
    """Gathers the facts of the images in an `Examples` artifact; None without images."""
    if is_remote(examples):
        return None
    sizes: Counter[str] = Counter()
    classes: dict[str, Counter[str]] = {}
    by_label: dict[str, list[_Image]] = {}
    kept = 0
    for split in splits_in(examples):
        for image in _images(split_folder(examples, split), split):
            header = image_header(image.data)
            sizes[str(header) if header else "no image that is known here"] += 1
            classes.setdefault(split, Counter())[image.label] += 1
            own = by_label.setdefault(image.label, [])
            if len(own) < _SAMPLES and kept < _KEPT:
                own.append(image)
                kept += 1
    if not classes:
        return None
    labels = sorted({label for counts in classes.values() for label in counts}, key=_natural)
    return ImageFacts(
        [_sample(image) for image in _in_turn([by_label[label] for label in labels])],
        [Bar(size, count) for size, count in sizes.most_common(8)],
        {s: [Bar(label, c[label]) for label in labels] for s, c in classes.items()},
    )


def _images(folder: str, split: str) -> Iterator[_Image]:
    most = max(1, MOST_READ // max(1, len(names_in(folder))))
    for shard, number, features in rows_in(folder, of_each=most):
        if image_features.ENCODED not in features:
            return  # the data has no images
        for data in values_of(features, image_features.ENCODED)[:1]:
            place = f"{split_dir(split)}/{shard}, record {number}"
            yield _Image(place, image_label(features), data)


def image_label(features: Features) -> str:
    return (
        as_text(
            values_of(features, image_features.TEXT)
            or values_of(features, image_features.LABEL)[:1]
        )
        or "no label"
    )


def _natural(label: str) -> tuple[int, str]:
    return (int(label), "") if label.isdecimal() else (1 << 62, label)


def _in_turn(groups: Sequence[Sequence[_Image]]) -> list[_Image]:
    longest = max(map(len, groups))
    turns = [group[i] for i in range(longest) for group in groups if i < len(group)]
    return turns[:_SAMPLES]


def _sample(image: _Image) -> Sample:
    header = image_header(image.data)
    return Sample(image_source(image.data), image.label, f"{header or 'unknown'}, {image.place}")


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
