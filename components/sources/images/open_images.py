"""Folders, globs and a label file to an `ImageSource`: listed, hashed, labelled, shuffled."""

import hashlib
import os
import re
from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.files.content import Content
from penstock.components.image_features import LABEL, TEXT
from penstock.components.sources.base import RejectedRow
from penstock.components.sources.batches import take_rows
from penstock.components.sources.images.label_file import read_class_names, read_labels
from penstock.components.sources.images.labelling import Labels, label_by_file, label_by_folder
from penstock.components.sources.images.options import Images
from penstock.components.sources.images.pixels import require_pillow
from penstock.components.sources.images.source import DIGEST_COLUMN, IMAGE_COLUMNS, ImageSource
from penstock.components.sources.layout import shown
from penstock.components.sources.spread import Spread, here
from penstock.components.sources.whole_files.rows import rejected_file, shuffled
from penstock.components.sources.whole_files.scan import scan_each, scan_file
from penstock.components.sources.whole_files.source import Listed
from penstock.components.sources.whole_files.tree import STRAY, FoundFile, Tree, find_tree
from penstock.components.tfrecord.sharding import MIB

# What is surely no image; every other file counts, and is rejected later if it is none after all.
_STRAY = re.compile(
    rf"{STRAY.pattern}|\.(txt|[ct]sv|jsonl?|xml|ya?ml|md|html?|mat|np[yz]|h5|hdf5|pbtxt|parquet|pkl"
    r"|pth?|ini|db|log|py|sh|ipynb)$",
    re.IGNORECASE,
)
# A file of more is rejected without being read: a worker holds a few whole images, and a record
# ends at 2 GiB.
MAX_FILE_BYTES = 256 * MIB
# What was left out is reported by name up to so many files.
_SHOWN_IGNORED = 20


def open_images(inputs: Sequence[str], options: Images, spread: Spread = here) -> ImageSource:
    """List, hash and label images; none is decoded.

    Raises:
        DataError: There are none, or the labels are damaged or do not agree with them.
        UsageError: Pillow, or what a label file needs, is not installed.
    """
    require_pillow()
    tree = find_images(inputs)
    labels = _labels(tree.files, options)
    kept, rejected = _apply_policies(tree, labels, options)
    images = [tree.files[at] for at in kept]
    order = shuffled([os.fsencode(image.name) for image in images], options.shuffle_seed)
    images = [images[at] for at in order]
    listed = Listed.of(images, scan_each(_scan, [image.path for image in images], spread))
    rows = take_rows(labels.rows, [kept[at] for at in order])
    digest = (DIGEST_COLUMN,) if options.content_digest else ()
    return ImageSource(
        kind="images",
        columns=(*IMAGE_COLUMNS, *labels.columns, *digest),
        fingerprint=_fingerprint(listed, rejected, options),
        rows=len(images) + len(rejected),
        files=listed.paths or tuple(tree.refused),
        input_bytes=int(listed.sizes.sum()),
        ignored=_short(tree.ignored),
        rejected_by_scan=tuple(rejected),
        notes=(*labels.notes, *_notes(listed, rows)),
        listed=listed,
        max_bytes=MAX_FILE_BYTES,
        options=options,
        labels=rows,
    )


def find_images(inputs: Sequence[str]) -> Tree:
    """Find the images of folders (recursively), globs and named files.

    Raises:
        DataError: An input is not there, or there is no image in any.
        UsageError: An input is an address that no files are read from.
    """
    return find_tree(inputs, _STRAY, "image file")


def _labels(images: Sequence[FoundFile], options: Images) -> Labels:
    names = read_class_names(options.class_names_file) if options.class_names_file else None
    if options.labels_file is None:
        return label_by_folder(images, names)
    return label_by_file(images, read_labels(options.labels_file, options), options, names)


def _apply_policies(
    tree: Tree, labels: Labels, options: Images
) -> tuple[list[int], list[RejectedRow]]:
    """Places of the images that are read, and what is rejected without being read."""
    rejected: list[RejectedRow] = [
        rejected_file(path, reason) for path, reason in sorted(tree.refused.items())
    ]
    without = set(labels.unlabelled) if options.unlabelled != "keep" else set()
    if options.unlabelled == "reject":
        names = [tree.files[at].name for at in labels.unlabelled]
        reason = _unlabelled_reason(names, options)
        rejected += [rejected_file(tree.files[at].path, reason) for at in labels.unlabelled]
    elif options.unlabelled == "drop":
        tree.ignored += [tree.files[at].path for at in labels.unlabelled]
    if options.missing_images == "reject":
        rejected += _missing(labels, options)
    kept = [at for at in range(len(tree.files)) if at not in without]
    if not kept and not rejected:
        raise DataError("no image is left: all are without label, and unlabelled is 'drop'")
    return kept, rejected


def _unlabelled_reason(names: Sequence[str], options: Images) -> str:
    others = f" ({len(names)} such images: {shown(names, 4)})" if len(names) > 1 else ""
    keep = "set `unlabelled='keep'` or 'drop'"
    if options.labels_file:
        return f"has no label in {options.labels_file}{others}; add one, or {keep}"
    return (
        f"has no label: it lies in no folder below the input{others}; name the folder above, give "
        f"`labels_file`, or {keep}"
    )


def _missing(labels: Labels, options: Images) -> list[RejectedRow]:
    assert options.labels_file is not None or not labels.missing
    names = [name for _, name in labels.missing]
    others = f" ({len(names)} such rows: {shown(names, 4)})" if len(names) > 1 else ""
    return [
        RejectedRow(
            file=options.labels_file or "",
            row=row,
            line=0,
            column=None,
            reason=f"no image {name!r} below the input{others}; add it, or set "
            "`missing_images='drop'`",
            raw=os.fsencode(name),
        )
        for row, name in labels.missing
    ]


def _scan(path: str) -> Content:
    return scan_file(path, MAX_FILE_BYTES)


def _notes(listed: Listed, labels: pa.RecordBatch) -> tuple[str, ...]:
    """What a person should know of classes and of files with equal content, bad images included."""
    nothing: list = [None] * len(listed.paths)
    columns = dict(zip(labels.schema.names, labels.columns, strict=True))
    numbers, texts = (columns[n].to_pylist() if n in columns else nothing for n in (LABEL, TEXT))
    names = [os.fsdecode(name) for name in listed.names.to_pylist()]
    return image_notes(names, listed.digests.to_pylist(), numbers, texts)


def image_notes(
    names: Sequence[str],
    digests: Sequence[bytes],
    numbers: Sequence[int | None],
    texts: Sequence[bytes | None],
) -> tuple[str, ...]:
    """Images by class, and files with equal content; all arguments have an entry an image."""
    lines = []
    counts = Counter(pair for pair in zip(numbers, texts, strict=True) if pair[0] is not None)
    if counts:
        few, many = min(counts.values()), max(counts.values())
        each = f"{few:,}" if few == many else f"{few:,} to {many:,}"
        classes = _plural(len(counts), "class", "classes")
        lines.append(f"{classes} of {each} {'image' if many == 1 else 'images'}")
    if unlabelled := sum(number is None for number in numbers):
        lines.append(f"{_plural(unlabelled, 'image', 'images')} without label")
    groups: dict[bytes, list[int]] = {}
    for at, digest in enumerate(digests):
        groups.setdefault(digest, []).append(at)
    equal = [group for group in groups.values() if len(group) > 1]
    equal.sort(key=lambda group: (-len(group), min(names[at] for at in group)))
    if equal:
        extra = _plural(sum(map(len, equal)) - len(equal), "image repeats", "images repeat")
        lines.append(f"{extra} another one's content, as {_named(names, equal[0])}")
    if mixed := [group for group in equal if len({numbers[at] for at in group}) > 1]:
        have = _plural(len(mixed), "content has", "contents have")
        lines.append(f"{have} several classes, as {_named(names, mixed[0])}")
    return tuple(lines)


def _plural(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def _named(names: Sequence[str], group: Sequence[int]) -> str:
    return shown(sorted(names[at] for at in group), 3)


def _fingerprint(listed: Listed, rejected: Sequence[RejectedRow], options: Images) -> str:
    """Digest of all names and content: images, label file, names of classes, what was refused.

    `content.fingerprint` finds out names by paths, which takes longer than to open a file.
    """
    digest = hashlib.sha256(b"images")
    for name, content in zip(listed.names.to_pylist(), listed.digests.to_pylist(), strict=True):
        digest.update(b"\0" + name + b"\0" + content)
    given = [path for path in (options.labels_file, options.class_names_file) if path]
    for file in map(_scan, given):
        digest.update(b"\0labels\0" + file.sha256)
    for row in rejected:
        if row.file not in given:
            digest.update(b"\0rejected\0" + os.fsencode(str(row)))
    return digest.hexdigest()


def _short(paths: Sequence[str]) -> tuple[str, ...]:
    rest = len(paths) - _SHOWN_IGNORED
    return (*paths[:_SHOWN_IGNORED], *([f"{rest:,} more"] if rest > 0 else []))
