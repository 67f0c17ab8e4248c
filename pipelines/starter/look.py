"""A look at data of any kind: what a pipeline of it should be like."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from penstock.components import image_features
from penstock.components.errors import DataError, UsageError
from penstock.components.sources.images.looks import format_by_extension
from penstock.components.sources.images.options import Images
from penstock.components.sources.images.source import open_images
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Table
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.pipelines.starter.columns import ColumnLook, look_at_columns
from penstock.pipelines.starter.roles import Roles, find_roles

_LABEL_FILES = (".csv", ".json", ".mat")
_LOOKED_AT_IMAGES = 200
_LOOKED_AT_FILES = 10_000
_MIN_SIDE, _MAX_SIDE = 8, 96
_MAX_LIST = 2**31 - 1  # more than one value: a list of any length


@dataclass(frozen=True)
class TableLook:
    """A table: the kind of its files, its rows, what each column is like, and what for."""

    kind: str
    rows: int
    columns: tuple[ColumnLook, ...]
    roles: Roles


@dataclass(frozen=True)
class ImagesLook:
    """Images and their classes.

    Attributes:
        rows: Images.
        labels_file: The file with their labels; None where folders say it.
        label_column: Its column that says the class; None for a usual name.
        classes: Images of each class, by its words or number.
        side: Pixels of the side that the model is to see.
        channels: 1 where all are gray, else 3.
        has_words: Whether the classes have words beside their numbers.
    """

    rows: int
    labels_file: str | None
    label_column: str | None
    classes: dict[str, int]
    side: int
    channels: int
    has_words: bool


def look_at(
    data: str, targets: Sequence[str], labels_file: str | None = None
) -> TableLook | ImagesLook:
    """Look at data; a folder with an image anywhere in it is of images.

    Of these there is at most one target, a column of the label file, which is the one that lies
    with them unless it is given.

    Raises:
        DataError: There is nothing to learn from; says why.
        UsageError: A target is missing, or is not a column.
    """
    if os.path.isdir(data) and any(map(format_by_extension, _files(data))):
        if len(targets) > 1:
            raise UsageError("images have one target, a column of their label file")
        return _look_at_images(data, targets, labels_file or _label_file(data))
    if labels_file:
        raise UsageError(f"{data}: no folder of images, so labels go with nothing")
    if not targets:
        raise UsageError("a table needs --target, the column to predict")
    source = open_source(data, Table(non_finite="null"))
    columns = look_at_columns(source)
    return TableLook(source.kind, source.rows, tuple(columns), find_roles(columns, targets))


def _files(folder: str) -> Iterator[str]:
    """Names of files below a folder, the first ones."""
    walked = (name for _, _, names in os.walk(folder) for name in names)
    return islice(walked, _LOOKED_AT_FILES)


def _label_file(folder: str) -> str | None:
    """The one label file in the folder of images or, where they are in no folders, beside it."""
    here = Path(folder)
    inside = [p for p in sorted(here.iterdir()) if p.suffix.lower() in _LABEL_FILES]
    flat = any(format_by_extension(path.name) for path in here.iterdir() if path.is_file())
    found = inside or (
        [p for p in sorted(here.parent.iterdir()) if p.suffix.lower() in _LABEL_FILES]
        if flat
        else []
    )
    if len(found) > 1:
        raise UsageError(
            f"{folder}: several files may hold the labels ({', '.join(p.name for p in found)}); "
            "say which by --labels"
        )
    return str(found[0]) if found else None


def _look_at_images(data: str, targets: Sequence[str], labels_file: str | None) -> ImagesLook:
    column = targets[0] if targets else None
    if column and labels_file is None:
        raise UsageError(f"{data}: folders say the class; --target is a column of a label file")
    try:
        source = open_images([data], Images(labels_file=labels_file, label_column=column))
    except DataError as error:
        text = str(error).replace("with `label_column` or `text_column`", "by --target")
        raise DataError(text) from error
    if source.rejected_by_scan:
        raise DataError(str(source.rejected_by_scan[0]))
    labels = source.labels.to_pydict()
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
    """The `schema.pbtxt` of a table: types of all columns, and what a label may be."""
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
            feature.presence.min_count = 1 if column.present else 0
            continue
        feature.presence.min_fraction, feature.presence.min_count = 1.0, 1
        if target.classes and kind is FeatureKind.BYTES:
            feature.string_domain.value.extend(target.classes)
        elif target.classes:
            numbers = [int(name) for name in target.classes]
            feature.int_domain.min, feature.int_domain.max = min(numbers), max(numbers)
    return text_format.MessageToString(schema, use_short_repeated_primitives=True)
