"""A prepared TFDS data set as a `Source`: the records of its splits, unchanged.

The builder's metadata lists the files of each split with their numbers of records, and the
features. TFDS itself reads no records, and downloads nothing unless `prepare` is set.
"""

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from penstock.components.errors import DataError, UsageError, short_error
from penstock.components.files.address import masked, scheme_of
from penstock.components.files.find import find
from penstock.components.sources.base import Column
from penstock.components.sources.options import KindOptions
from penstock.components.sources.spread import Spread
from penstock.components.sources.tfrecords.decode import require_columns
from penstock.components.sources.tfrecords.source import TFRecord, TFRecordSource, open_tfrecords
from penstock.components.tfrecord.feature_kind import FeatureKind


@dataclass(frozen=True)
class Tfds(KindOptions):
    """A TFDS data set: the folder of its prepared builder, `.../mnist/3.0.1`, or its name, `mnist`.

    Attributes:
        data_dir: Folder in which to find data sets by name; None uses TFDS' own folder
            (`TFDS_DATA_DIR`).
        prepare: Whether to prepare a data set that is not yet prepared, which may download it.
        dataset_splits: Splits of the data set to read; empty reads its only split, or the files
            that match the input's pattern.
        keep_features: Features to keep, nested ones by path, such as `box/x`; empty keeps all.
    """

    kind: str = "tfds"
    data_dir: str | None = None
    prepare: bool = False
    dataset_splits: tuple[str, ...] = ()
    keep_features: tuple[str, ...] = ()


def open_tfds(inputs: Sequence[str], options: Tfds, spread: Spread) -> TFRecordSource:
    if len(inputs) != 1:
        raise UsageError(f"TFDS reads one builder's folder, got {len(inputs)} inputs")
    [place] = inputs
    if scheme_of(place) is not None:
        raise UsageError(
            f"{masked(place)}: TFDS reads a builder's folder on a path; mount the bucket, or "
            "copy the folder"
        )
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
    plain = TFRecord(keep_features=options.keep_features, sample_rows=1, allow_empty=True)
    source = open_tfrecords(files, plain, spread)
    for path in source.files:
        rows = source.scanned[path].rows if path in source.scanned else 0
        if rows != (wanted := records.get(os.path.abspath(path), "nothing of it")):
            raise DataError(
                f"{path}: has {rows} records, dataset_info.json says {wanted}; prepare the "
                "dataset again"
            )
    columns = tuple(_columns(info.features.get_serialized_info()))
    if options.keep_features:
        columns = require_columns(columns, options.keep_features, folder)
    return replace(source, columns=columns, kind="tfds")


@contextmanager
def _tfds(place: str, fault: str) -> Iterator[Any]:
    """Yields the TFDS module; an error in the `with` block becomes a DataError."""
    try:
        import tensorflow_datasets
    except ImportError as error:
        raise UsageError('TFDS is not installed: pip install "penstock-tfx[tfds]"') from error
    try:
        yield tensorflow_datasets
    except MemoryError:
        raise
    except Exception as error:  # TFDS raises many types of errors.
        raise DataError(f"{place}: {fault} ({short_error(error)})") from error


def _prepared_folder(name: str, options: Tfds) -> str:
    with _tfds(name, "no file or folder, and no data set that TFDS has or can prepare") as tfds:
        builder = tfds.builder(name, data_dir=options.data_dir)
        if not builder.is_prepared() and options.prepare:
            builder.download_and_prepare(file_format="tfrecord")
    if not builder.is_prepared():
        raise DataError(
            f"{name}: is not prepared in {builder.data_path}; set `prepare`, which may download it"
        )
    return str(builder.data_path)


def _builder_info(folder: str) -> Any:
    with _tfds(folder, "not the folder of a prepared builder, with dataset_info.json") as tfds:
        info = tfds.builder_from_directory(folder).info
    kind = getattr(info.file_format, "value", "unknown")
    if kind != "tfrecord":
        raise DataError(
            f"{folder}: its files are {kind}; prepare the dataset with file_format='tfrecord'"
        )
    return info


def _shard_records(info: Any, folder: str) -> dict[str, dict[str, int]]:
    """Returns the number of records of each file, by split and path."""
    found = {}
    for name, split in info.splits.items():
        names = map(os.path.basename, split.filepaths)
        paths = [os.path.join(os.path.abspath(folder), one) for one in names]
        found[name] = dict(zip(paths, map(int, split.shard_lengths), strict=True))
    return found


def _chosen(info: Any, folder: str, options: Tfds) -> Sequence[str]:
    names = list(info.splits)
    unknown = [name for name in options.dataset_splits if name not in names]
    if unknown or not (options.dataset_splits or len(names) == 1):
        shown = ", ".join(f"{name} ({info.splits[name].num_examples:,})" for name in names)
        fault = f"has no split {unknown[0]!r}; it has" if unknown else "choose `dataset_splits` of"
        raise UsageError(f"{folder}: {fault} {shown}")
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
