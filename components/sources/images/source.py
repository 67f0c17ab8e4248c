"""Images as a `Source`: slices of a shuffled list of files in, record batches out.

Opening it lists and hashes every file and reads the labels, but decodes nothing; faults of an image
are found by the worker that reads it. The list is sorted by a digest of image name and seed: every
shard mixes the classes, and a new image does not move the others.
"""

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from penstock.components import image_features
from penstock.components.errors import DataError, counted
from penstock.components.files.content import Content
from penstock.components.files.find import Found, FoundFile, find
from penstock.components.sources.base import Column, RejectedRow
from penstock.components.sources.batches import take_rows
from penstock.components.sources.images.labelling import Labels, label_by_file, label_by_folder
from penstock.components.sources.images.labels import read_class_names, read_labels
from penstock.components.sources.images.options import Images
from penstock.components.sources.images.pixels import require_pillow, store
from penstock.components.sources.schema import shown
from penstock.components.sources.spread import Spread, here
from penstock.components.sources.whole_files import (
    FileList,
    FileRows,
    WholeFileSource,
    rejected_file,
    scan_each,
    scan_file,
    shuffled,
)
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

IMAGE_COLUMNS = (
    Column(image_features.ENCODED, FeatureKind.BYTES),
    Column(image_features.FORMAT, FeatureKind.BYTES),
    Column(image_features.HEIGHT, FeatureKind.INT),
    Column(image_features.WIDTH, FeatureKind.INT),
    Column(image_features.CHANNELS, FeatureKind.INT),
    Column(image_features.FILENAME, FeatureKind.BYTES),
)
# Name of this feature in TensorFlow's object detection API.
DIGEST_COLUMN = Column("image/key/sha256", FeatureKind.BYTES)
# A larger file is rejected unread: a worker holds a few whole images, and a record ends at 2 GiB.
MAX_FILE_BYTES = 256 * MIB
# Number of left-out files that are reported by name.
_SHOWN_IGNORED = 20


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageList(FileList):
    """The list of images; `labels` has a row for each, from the label file or the folders."""

    labels: pa.RecordBatch

    def for_reading(self, start: int, end: int) -> "ImageList":
        rows = range(start, min(end, self.labels.num_rows))
        return replace(super().for_reading(start, end), labels=take_rows(self.labels, rows))


@dataclass(frozen=True, eq=False, kw_only=True)
class ImageSource(WholeFileSource[ImageList]):
    """Images, listed and labelled; the scan rejects links that lead out of the folder."""

    # Few: images of the first batch are decoded only to estimate the size of records.
    first_rows = 16

    options: Images

    @property
    def labels(self) -> pa.RecordBatch:
        (files,) = self.scanned.values()
        return files.labels

    def add_row(self, files: ImageList, at: int, data: bytes, rows: FileRows) -> None:
        image = store(data, files.paths[at], self.options)
        facts = (image.format.encode(), image.height, image.width, image.channels)
        rows.add(at, image.encoded, facts)

    def features(self, files: ImageList, rows: FileRows, places: pa.Array) -> dict[str, pa.Array]:
        headers = zip(*rows.facts, strict=True) if rows.facts else [()] * 4
        found = {
            column.name: pa.array(values, column.arrow_type)
            for column, values in zip(IMAGE_COLUMNS[1:5], headers, strict=True)
        }
        found[image_features.FILENAME] = files.names.take(places)
        for name, column in zip(files.labels.schema.names, files.labels.columns, strict=True):
            found[name] = column.take(places)
        if self.options.content_digest:
            digests = files.digests.take(places).to_pylist()
            texts = [digest.hex().encode() for digest in digests]
            found[DIGEST_COLUMN.name] = pa.array(texts, pa.binary())
        return found


def open_images(inputs: Sequence[str], options: Images, spread: Spread = here) -> ImageSource:
    require_pillow()
    tree = find(inputs, "images")
    labels = _labels(tree.entries, options)
    kept, rejected = _apply_policies(tree, labels, options)
    order = shuffled([os.fsencode(tree.entries[at].name) for at in kept], options.shuffle_seed)
    kept = [kept[at] for at in order]
    images = [tree.entries[at] for at in kept]
    contents = scan_each(_scan, [image.path for image in images], spread)
    listed = ImageList.of(images, contents, rejected, labels=take_rows(labels.rows, kept))
    digest = (DIGEST_COLUMN,) if options.content_digest else ()
    return ImageSource(
        kind="images",
        columns=(*IMAGE_COLUMNS, *labels.columns, *digest),
        fingerprint=listed.fingerprint("images", _labels_digest(options)),
        rows=listed.rows,
        files=listed.paths or tuple(tree.refused),
        input_bytes=listed.content.size,
        ignored=_short(tree.ignored),
        rejected_by_scan=listed.rejected,
        notes=(*labels.notes, *_notes(listed)),
        options=options,
        scanned={listed.path: listed},
        max_bytes=MAX_FILE_BYTES,
    )


def _labels(images: Sequence[FoundFile], options: Images) -> Labels:
    names = read_class_names(options.class_names_file) if options.class_names_file else None
    if options.labels_file is None:
        return label_by_folder(images, names)
    return label_by_file(images, read_labels(options.labels_file, options), options, names)


def _apply_policies(
    tree: Found, labels: Labels, options: Images
) -> tuple[list[int], list[RejectedRow]]:
    """Returns the indices of the images to read, and the rows that are rejected unread."""
    rejected: list[RejectedRow] = [
        rejected_file(path, reason) for path, reason in sorted(tree.refused.items())
    ]
    without = set(labels.unlabelled) if options.unlabelled != "keep" else set()
    if options.unlabelled == "reject":
        names = [tree.entries[at].name for at in labels.unlabelled]
        reason = _unlabelled_reason(names, options)
        rejected += [rejected_file(tree.entries[at].path, reason) for at in labels.unlabelled]
    elif options.unlabelled == "drop":
        tree.ignored += [tree.entries[at].path for at in labels.unlabelled]
    if options.missing_images == "reject":
        rejected += _missing(labels, options.labels_file or "")
    kept = [at for at in range(len(tree.entries)) if at not in without]
    if not kept and not rejected:
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


def _scan(path: str) -> Content:
    return scan_file(path, MAX_FILE_BYTES)


def _notes(listed: ImageList) -> tuple[str, ...]:
    """Counts images by class, and those with equal content, bad images included."""
    lines = []
    names = [os.fsdecode(name) for name in listed.names.to_pylist()]
    numbers: list[int | None] = [None] * len(names)
    if image_features.LABEL in listed.labels.schema.names:
        numbers = listed.labels.column(0).to_pylist()
    if counts := Counter(number for number in numbers if number is not None):
        few, many = min(counts.values()), max(counts.values())
        each = counted(many, "image") if few == many else f"{few:,} to {counted(many, 'image')}"
        lines.append(f"classes: {len(counts):,}, of {each}")
    if unlabelled := numbers.count(None):
        lines.append(f"{counted(unlabelled, 'image')} without label")
    groups: dict[bytes, list[int]] = {}
    for at, digest in enumerate(listed.digests.to_pylist()):
        groups.setdefault(digest, []).append(at)
    equal = [group for group in groups.values() if len(group) > 1]
    mixed = [group for group in equal if len({numbers[at] for at in group}) > 1]
    for found, what in ((equal, "that several images have"), (mixed, "of several classes")):
        if found:
            largest = max(found, key=len)
            shown_names = shown(sorted(names[at] for at in largest), 3)
            lines.append(f"{counted(len(found), 'content')} {what}, as {shown_names}")
    return tuple(lines)


def _labels_digest(options: Images) -> bytes:
    given = (options.labels_file, options.class_names_file)
    return b"".join(b"\0labels\0" + _scan(path).digest for path in given if path)


def _short(paths: Sequence[str]) -> tuple[str, ...]:
    rest = len(paths) - _SHOWN_IGNORED
    return (*paths[:_SHOWN_IGNORED], *([f"{rest:,} more"] if rest > 0 else []))
