"""Looks at a table or images: finds columns, roles, classes and sizes."""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from penstock.components import image_features
from penstock.components.errors import DataError, UsageError
from penstock.components.files.remote import is_remote
from penstock.components.gates.leakage import GROUP, Leak, find_leaks
from penstock.components.plain import from_plain
from penstock.components.sources.images.headers import format_by_extension
from penstock.components.sources.images.options import Images
from penstock.components.sources.images.source import open_images
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Table
from penstock.components.sources.spread import Spread
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.pipelines.starter.columns import ColumnLook, look_at_columns, sample_rows
from penstock.pipelines.starter.options import StarterOptions
from penstock.pipelines.starter.roles import Roles, find_roles, split_at

_LABEL_FILES = (".csv", ".json", ".mat")
_LOOKED_AT_IMAGES = 200
_LOOKED_AT_FILES = 10_000
_MIN_SIDE, _MAX_SIDE = 8, 96
# NaN and infinity in a table count as missing.
_NO_NAN = {"non_finite": "null"}
# If fewer rows than this have a value in a column, a split may get none of these rows, so the
# schema does not require the column.
_MIN_PRESENT = 20
_MAX_LIST = 2**31 - 1  # in a schema, any maximum above 1 means a list of any length


@dataclass(frozen=True)
class TableLook:
    """A table and the roles of its columns."""

    kind: str
    rows: int
    columns: tuple[ColumnLook, ...]
    roles: Roles
    leaks: tuple[Leak, ...] = ()
    # First time value of the evaluation rows; None without a time column
    split_at: str | None = None

    @property
    def gaps(self) -> dict[str, int]:
        """Number of sample rows without a value, for each target with such rows."""
        targets = {target.name for target in self.roles.targets}
        return {c.name: c.nulls for c in self.columns if c.name in targets and c.nulls}


@dataclass(frozen=True)
class ImagesLook:
    """Images and their classes."""

    rows: int
    # Path of the label file; None if the folders are the classes
    labels_file: str | None
    # Column of the label file with the class; None if it has one of the usual names
    label_column: str | None
    # Number of images by the name or number of their class
    classes: dict[str, int]
    # Side of the model's input in pixels
    side: int
    channels: int
    # Whether the classes have names in addition to their numbers
    has_words: bool


def look_at(data: str, options: StarterOptions) -> TableLook | ImagesLook:
    """Looks at a table, or at images if `data` is a folder that contains an image.

    Images have at most one target: a column of the label file. By default, the label file is the
    only CSV, JSON or MATLAB file in the folder of the images. If there is none and the images are
    directly in this folder, the parent folder is searched.
    """
    targets, labels_file = options.targets, options.labels_file
    if not (is_remote(data) or os.path.exists(data) or any(c in data for c in "*?[")):
        raise UsageError(f"{data}: no such file or folder")
    if os.path.isdir(data) and any(map(format_by_extension, _files(data))):
        if len(targets) > 1:
            raise UsageError("images have one target, a column of their label file")
        if options.drop or options.roles or options.group or options.time:
            raise UsageError(
                "drop, role, group and time are about the columns of a table, not images"
            )
        return _look_at_images(data, options, labels_file or _label_file(data))
    if labels_file:
        raise UsageError(
            f"{data}: no folder of images; leave --labels out, or give the folder of the images"
        )
    if not targets:
        raise UsageError("a table needs --target, the column to predict")
    if "schema_file" in options.source:
        raise UsageError("`schema_file`: the package gets a schema of its own; leave it out")
    reading = from_plain(Table, {**_NO_NAN, **options.source})
    source = open_source(data, reading)
    table = sample_rows(source, reading.null_tokens)
    columns = look_at_columns(source, table)
    roles = find_roles(columns, options)
    left_out = [*roles.left_out, *([options.time] if options.time else [])]
    leaks = find_leaks({"": table}, options.targets, left_out=left_out, group=options.group)
    return TableLook(
        source.kind,
        source.rows,
        tuple(columns),
        roles,
        # A split by time cannot also keep groups together, so leaks whose remedy is `GROUP` are
        # left out.
        tuple(leak for leak in leaks if not (options.time and leak.remedy == GROUP)),
        next((split_at(column) for column in columns if column.name == options.time), None),
    )


def source_options(look: TableLook | ImagesLook, options: StarterOptions) -> dict[str, Any]:
    """Returns the options for reading the data, by name, for the config of the package."""
    if isinstance(look, TableLook):
        return {**_NO_NAN, **options.source}
    labels = {"labels_file": look.labels_file, "label_column": look.label_column}
    return {**{name: value for name, value in labels.items() if value}, **options.source}


def _files(folder: str) -> Iterator[str]:
    walked = (name for _, _, names in os.walk(folder) for name in names)
    return islice(walked, _LOOKED_AT_FILES)


def _label_file(folder: str) -> str | None:
    def label_files(place: Path) -> list[Path]:
        return [path for path in sorted(place.iterdir()) if path.suffix.lower() in _LABEL_FILES]

    here = Path(folder)
    is_flat = any(format_by_extension(path.name) for path in here.iterdir() if path.is_file())
    found = label_files(here) or (label_files(here.parent) if is_flat else [])
    if len(found) > 1:
        raise UsageError(
            f"{folder}: several files may hold the labels ({', '.join(p.name for p in found)}); "
            "say which by --labels"
        )
    return str(found[0]) if found else None


def _look_at_images(data: str, options: StarterOptions, labels_file: str | None) -> ImagesLook:
    column = options.targets[0] if options.targets else None
    if column and labels_file is None:
        raise UsageError(
            f"{data}: the folders are the classes; --target is a column of a label file"
        )
    try:
        named = {"labels_file": labels_file, "label_column": column, **options.source}
        source = open_images([data], from_plain(Images, named), Spread())
    except DataError as error:
        text = str(error).replace("with `label_column` or `text_column`", "by --target")
        raise DataError(text) from error
    if source.rejected_by_scan:
        raise DataError(str(source.rejected_by_scan[0]))
    labels = source.facts.to_pydict()
    words = labels.get(image_features.TEXT) or labels[image_features.LABEL]
    counts = Counter(w.decode() if isinstance(w, bytes) else str(w) for w in words)
    sides, channels = [], set()
    for batch in source.read(source.cut(max(1, source.rows // _LOOKED_AT_IMAGES))[0]):
        headers = batch.table.to_pydict()
        sizes = zip(headers[image_features.HEIGHT], headers[image_features.WIDTH], strict=True)
        sides += [min(size) for size in sizes]
        channels.update(headers[image_features.CHANNELS])
    if not sides:
        raise DataError(f"{data}: none of the first images can be read; see penstock ingest")
    if len(counts) < 2:
        raise DataError(
            f"{data}: images of {len(counts) or 'no'} class; expected at least two, a folder each "
            "or by a label file"
        )
    middle = sorted(sides)[len(sides) // 2]
    side = min(max(_MIN_SIDE, middle // 8 * 8), _MAX_SIDE)
    return ImagesLook(
        source.rows,
        labels_file,
        column,
        dict(sorted(counts.items())),
        side,
        1 if channels == {1} else 3,
        has_words=image_features.TEXT in labels,
    )


def schema_text(look: TableLook) -> str:
    """Returns the `schema.pbtxt` of a table: types of all columns, and domains of the targets."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    targets = {target.name: target for target in look.roles.targets}
    schema = schema_pb2.Schema()
    for column in look.columns:
        kind = FeatureKind.INT if column.name in look.roles.whole else column.kind
        feature = schema.feature.add(name=column.name, type=schema_pb2.FeatureType.Value(kind.name))
        target = targets.get(column.name)
        feature.value_count.max = _MAX_LIST if column.is_list else 1
        if target is None:
            feature.presence.min_count = int(column.present >= _MIN_PRESENT)
            continue
        feature.presence.min_fraction, feature.presence.min_count = 1.0, 1
        if target.classes and kind is FeatureKind.BYTES:
            feature.string_domain.value.extend(target.classes)
        elif target.classes:
            numbers = [int(name) for name in target.classes]
            feature.int_domain.min, feature.int_domain.max = min(numbers), max(numbers)
    return text_format.MessageToString(schema, use_short_repeated_primitives=True)
