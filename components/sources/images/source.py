"""Images as a `Source`: reads slices of a shuffled list of files into record batches.

Opening it lists and hashes every file and reads the labels, but decodes nothing; the worker that
reads an image finds its faults. The list is sorted by a digest of image name and seed, so that
every shard mixes the classes, and a new image does not change the order of the others.
"""

import os
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from penstock.components import image_features
from penstock.components.errors import DataError, counted
from penstock.components.files.content import hash_file
from penstock.components.files.find import Found, FoundFile, find
from penstock.components.sources.base import Column, RejectedRow
from penstock.components.sources.batches import batch_of
from penstock.components.sources.images.labels import (
    Labels,
    label_by_file,
    label_by_folder,
    read_class_names,
    read_labels,
)
from penstock.components.sources.images.options import Images
from penstock.components.sources.images.pixels import require_pillow, store
from penstock.components.sources.schema import shown
from penstock.components.sources.spread import Spread
from penstock.components.sources.whole_files import (
    Listing,
    WholeFileSource,
    list_files,
    rejected_file,
)
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

_IMAGE_COLUMNS = (
    Column(image_features.ENCODED, FeatureKind.BYTES),
    Column(image_features.FORMAT, FeatureKind.BYTES),
    Column(image_features.HEIGHT, FeatureKind.INT),
    Column(image_features.WIDTH, FeatureKind.INT),
    Column(image_features.CHANNELS, FeatureKind.INT),
)
_FILENAME = Column(image_features.FILENAME, FeatureKind.BYTES)
# Name of the digest in TensorFlow's object detection API.
DIGEST_COLUMN = Column("image/key/sha256", FeatureKind.BYTES)
# A larger file is rejected unread, because a worker holds a few whole images in memory, and a
# record has at most 2 GiB.
MAX_FILE_BYTES = 256 * MIB
# Number of left-out files whose names are reported.
_SHOWN_IGNORED = 20


def open_images(inputs: Sequence[str], options: Images, spread: Spread) -> WholeFileSource:
    require_pillow()
    tree = find(inputs, "images")
    labels = _labels(tree.entries, options)
    kept, rejected = _apply_policies(tree, labels, options)
    listing = list_files(tree, kept, rejected, options.shuffle_seed, MAX_FILE_BYTES, spread)
    rows = labels.rows.take(pa.array(listing.places, pa.int64()))
    columns = (_FILENAME, *labels.columns, *([DIGEST_COLUMN] if options.content_digest else []))
    facts = [pa.array([os.fsencode(one.name) for one in listing.files], pa.binary()), *rows.columns]
    if options.content_digest:
        digests = [one.digest.hex().encode() for one in listing.contents]
        facts.append(pa.array(digests, pa.binary()))
    given = (options.labels_file, options.class_names_file)
    return listing.source(
        "images",
        batch_of(columns, facts),
        b"".join(b"\0labels\0" + hash_file(path).digest for path in given if path),
        columns=(*_IMAGE_COLUMNS, *columns),
        notes=(*labels.notes, *_notes(listing, rows)),
        options=options,
        max_bytes=MAX_FILE_BYTES,
        convert=partial(_image, options=options),
    )


def _image(data: bytes, path: str, options: Images) -> tuple[bytes, bytes, int, int, int]:
    image = store(data, path, options)
    return image.encoded, image.format.encode(), image.height, image.width, image.channels


def _labels(images: Sequence[FoundFile], options: Images) -> Labels:
    names = read_class_names(options.class_names_file) if options.class_names_file else None
    if options.labels_file is None:
        return label_by_folder(images, names)
    return label_by_file(images, read_labels(options.labels_file, options), options, names)


def _apply_policies(
    tree: Found, labels: Labels, options: Images
) -> tuple[list[int], list[RejectedRow]]:
    rejected = list[RejectedRow]()
    without = set(labels.unlabelled) if options.unlabelled != "keep" else set()
    if options.unlabelled == "reject":
        names = [tree.entries[at].name for at in labels.unlabelled]
        reason = _unlabelled_reason(names, options)
        rejected += [rejected_file(tree.entries[at].path, reason) for at in labels.unlabelled]
    elif options.unlabelled == "drop":
        tree.ignored += [tree.entries[at].path for at in labels.unlabelled]
    if options.missing_images == "reject":
        rejected += _missing(labels, options.labels_file or "")
    rest = len(tree.ignored) - _SHOWN_IGNORED
    tree.ignored[_SHOWN_IGNORED:] = [f"{rest:,} more"] if rest > 0 else []
    kept = [at for at in range(len(tree.entries)) if at not in without]
    if not kept and not rejected and not tree.refused:
        raise DataError("no image is left: all are without label, and `unlabelled` is 'drop'")
    return kept, rejected


def _unlabelled_reason(names: Sequence[str], options: Images) -> str:
    others = f" ({len(names)} such images: {shown(names, 4)})" if len(names) > 1 else ""
    where = f"in {options.labels_file}" if options.labels_file else "and lies in no folder"
    return (
        f"has no label {where}{others}; add one (`labels_file`, or a folder below the input), or "
        "set `unlabelled='keep'` or 'drop'"
    )


def _missing(labels: Labels, file: str) -> list[RejectedRow]:
    names = [name for _, name in labels.missing]
    others = f" ({len(names)} such rows: {shown(names, 4)})" if len(names) > 1 else ""
    advice = f"below the input{others}; add it, or set `missing_images='drop'`"
    return [
        RejectedRow(file, row, 0, None, f"no image {name!r} {advice}", os.fsencode(name))
        for row, name in labels.missing
    ]


def _notes(listing: Listing, labels: pa.RecordBatch) -> tuple[str, ...]:
    """Returns notes on the numbers of classes, images per class and images without label.

    Images that a worker rejects later are counted too.
    """
    lines = []
    numbers: list[int | None] = [None] * len(listing.files)
    if labels.num_columns:
        numbers = labels.column(0).to_pylist()
    if counts := Counter(number for number in numbers if number is not None):
        few, many = min(counts.values()), max(counts.values())
        each = counted(many, "image") if few == many else f"{few:,} to {counted(many, 'image')}"
        lines.append(f"classes: {len(counts):,}, of {each}")
    if unlabelled := numbers.count(None):
        lines.append(f"{counted(unlabelled, 'image')} without label")
    return tuple(lines)
