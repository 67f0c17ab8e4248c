"""A prepared TFDS data set as a `Source`: the records of its splits, unchanged.

The builder's metadata give the files of each split, their numbers of records and their features.
TFDS itself reads no record, and nothing is downloaded unless `prepare` is set.
"""

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.components.errors import DataError, UsageError, short_error
from penstock.components.files.address import masked, scheme_of
from penstock.components.files.find import find
from penstock.components.sources.base import Column
from penstock.components.sources.options import KindOptions
from penstock.components.sources.spread import Spread, here
from penstock.components.sources.tfrecords.decode import require_columns
from penstock.components.sources.tfrecords.source import TFRecord, TFRecordSource, open_tfrecords
from penstock.components.tfrecord.feature_kind import FeatureKind


@dataclass(frozen=True)
class Tfds(KindOptions):
    """A TFDS data set: the folder of its prepared builder, `.../mnist/3.0.1`, or its name, `mnist`.

    Attributes:
        data_dir: Folder in which to find data sets by name; None is TFDS' own (`TFDS_DATA_DIR`).
        prepare: Whether to prepare a data set that is not yet prepared, which may download it.
        dataset_splits: Splits of the data set to read; empty reads its only split, or the files
            that the input's pattern names.
        keep_features: Features to keep, nested ones as `box/x`; empty keeps all.
    """

    kind: str = "tfds"
    data_dir: str | None = None
    prepare: bool = False
    dataset_splits: tuple[str, ...] = ()
    keep_features: tuple[str, ...] = ()


def open_tfds(inputs: Sequence[str], options: Tfds, spread: Spread = here) -> TFRecordSource:
    if len(inputs) != 1:
        raise UsageError(f"TFDS reads one builder's folder, got {len(inputs)} inputs")
    if scheme_of(inputs[0]) is not None:
        raise UsageError(
            f"{masked(inputs[0])}: TFDS reads a builder's folder on a path; mount the bucket, or "
            "copy the folder"
        )
    place = inputs[0]
    above = os.path.dirname(place)
    if not glob.glob(place) and not (above and os.path.isdir(above)):
        place = _prepared_folder(place, options)
    folder = place if os.path.isdir(place) else os.path.dirname(place)
    info = _builder_info(folder)
    expected = _shard_records(info, folder)
    if os.path.isdir(place):
        files = [path for split in _chosen(info, folder, options) for path in expected[split]]
    else:
        files = list(find(place, None).files)
    records = {path: count for split in expected.values() for path, count in split.items()}
    source = open_tfrecords(
        files,
        TFRecord(keep_features=options.keep_features, sample_rows=1, allow_empty=True),
        spread,
    )
    for path in source.files:
        rows = source.scanned[path].rows if path in source.scanned else 0
        expected_rows = records.get(os.path.abspath(path), "nothing of it")
        if rows != expected_rows:
            raise DataError(
                f"{path}: has {rows} records, dataset_info.json says {expected_rows}; prepare the "
                "dataset again"
            )
    columns = tuple(_columns(info.features.get_serialized_info()))
    if options.keep_features:
        columns = require_columns(columns, options.keep_features, folder)
    return replace(source, columns=columns, kind="tfds")


def _tfds() -> Any:
    try:
        import tensorflow_datasets
    except ImportError as error:
        raise UsageError('TFDS is not installed: pip install "penstock-tfx[tfds]"') from error
    return tensorflow_datasets


def _prepared_folder(name: str, options: Tfds) -> str:
    tfds = _tfds()
    try:
        builder = tfds.builder(name, data_dir=options.data_dir)
        if not builder.is_prepared() and options.prepare:
            builder.download_and_prepare(file_format="tfrecord")
    except MemoryError:
        raise
    except Exception as error:  # TFDS raises many types.
        raise DataError(
            f"{name}: no file or folder, and TFDS has no such data set or cannot prepare it "
            f"({short_error(error)})"
        ) from error
    if not builder.is_prepared():
        raise DataError(
            f"{name}: is not prepared in {builder.data_path}; set `prepare`, which may download it"
        )
    return str(builder.data_path)


def _builder_info(folder: str) -> Any:
    try:
        info = _tfds().builder_from_directory(folder).info
    except UsageError:
        raise
    except MemoryError:
        raise
    except Exception as error:  # TFDS raises many types.
        reason = short_error(error)
        raise DataError(
            f"{folder}: not the folder of a prepared TFDS builder ({reason}); name the one with "
            "dataset_info.json"
        ) from error
    if info.file_format is None or info.file_format.value != "tfrecord":
        raise DataError(
            f"{folder}: its files are {getattr(info.file_format, 'value', 'unknown')}; prepare the "
            "dataset with file_format='tfrecord'"
        )
    return info


def _shard_records(info: Any, folder: str) -> dict[str, dict[str, int]]:
    found = {}
    for name, split in info.splits.items():
        paths = [
            os.path.join(os.path.abspath(folder), os.path.basename(p)) for p in split.filepaths
        ]
        lengths = zip(paths, split.shard_lengths, strict=True)
        found[name] = {path: int(count) for path, count in lengths}
    return found


def _chosen(info: Any, folder: str, options: Tfds) -> Sequence[str]:
    names = list(info.splits)
    shown = ", ".join(f"{name} ({info.splits[name].num_examples:,})" for name in names)
    for name in options.dataset_splits:
        if name not in names:
            raise UsageError(f"{folder}: has no split {name!r}; it has {shown}")
    if not options.dataset_splits and len(names) > 1:
        raise UsageError(
            f"{folder}: has splits {shown}; choose by `dataset_splits`, or bring each to its own "
            "split with a pattern of its files"
        )
    return options.dataset_splits or names


def _columns(serialized: Mapping[str, Any], prefix: str = "") -> Iterator[Column]:
    """Yields the features that TFDS serializes; nested names are joined by `/`."""
    for name, tensor in sorted(serialized.items()):
        if isinstance(tensor, Mapping):
            yield from _columns(tensor, f"{prefix}{name}/")
        else:
            yield Column(f"{prefix}{name}", _kind(tensor.np_dtype), is_list=tensor.shape != ())


def _kind(dtype: Any) -> FeatureKind:
    name = np.dtype(dtype).name
    if name.startswith(("float", "bfloat")):
        return FeatureKind.FLOAT
    if name.startswith(("int", "uint", "bool")):
        return FeatureKind.INT
    return FeatureKind.BYTES
