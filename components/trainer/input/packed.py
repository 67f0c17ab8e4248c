"""Reads packed shards as batches of tensors, for a hundredth of the cost of parsing rows.

The stages, with the purpose of each:

    order      row numbers: blocks of several files, permuted in windows
    groups     the rows of several batches, copied from their blocks into one array a type
    features   columns cut from these arrays, texts looked up in the dictionaries
    prefetch
    batches    cut from groups, without a copy but for lists, which become sparse

A pass yields every row exactly once, and every training batch is full.
"""

import posixpath
import tempfile
from collections.abc import Callable, Collection
from typing import Any

import numpy as np
import numpy.typing as npt
import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.components.files.content import hash_file
from penstock.components.packing.layout import PackedLayout
from penstock.components.readers.order import RowOrder, numpy_permutation
from penstock.components.readers.packed_shards import PackedShards
from penstock.components.tfrecord.checked import altered
from penstock.components.tfrecord.manifest import Shard
from penstock.components.trainer.input.common import (
    Label,
    apart,
    check_memory,
    names_of,
    parallel_map,
    python_op,
    rows_of_replica,
    tuned,
)
from penstock.components.trainer.input.files import InputFiles, InputSource, find_packed
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.input.packed_rows import PackedRows
from penstock.components.trainer.input.passes import ENDLESS, Passes, open_passes
from penstock.components.trainer.input.start import InputStart

# Maximum bytes of rows copied together: larger buffers are newly mapped by the system each time.
_MAX_GROUP_BYTES = 8 * 2**20


class PackedInput(Input):
    kind = "packed"

    def __init__(
        self,
        source: InputSource,
        options: InputOptions,
        label: Label,
        columns: Collection[str] | None,
    ) -> None:
        super().__init__(source, options)
        self._label, self._wanted_columns = label, columns

    def _train(
        self, split: str, start: InputStart | None, context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        files, layout = find_packed(self.source, split=split)
        wanted, options = self._wanted(layout), self.options
        batch_size = rows_of_replica(options, context)
        shares = open_passes(
            files, options, block_rows=layout.block_rows, context=context, start=start
        )
        opened = _open(files, layout, wanted, options)
        rows, numbers = PackedRows(opened), _Numbers(shares, opened.first_numbers)
        step_rows = batch_size if len(shares) == 1 else numbers.step_rows
        group = step_rows * _group_batches(files, options, step_rows)
        begin = shares[0].step * numbers.step_rows
        begins = tf.data.Dataset.range(begin, ENDLESS - group, group)
        groups = self._features(begins, rows, lambda at: numbers.of(at, group), group)
        batches = tuned(groups, options, together=group // batch_size, has_texts=rows.has_texts)
        return _sparse(batches)

    def _eval(self, split: str) -> tf.data.Dataset:
        files, layout = find_packed(self.source, split=split)
        batch_size = self.options.batch_size
        opened = _open(files, layout, self._wanted(layout), self.options)
        rows, numbers = PackedRows(opened), opened.all_numbers()
        begins = tf.data.Dataset.range(0, len(numbers), batch_size)
        batches = self._features(begins, rows, lambda at: numbers[at : at + batch_size], None)
        return _sparse(tuned(batches, self.options, has_texts=rows.has_texts))

    def _files(self, split: str) -> InputFiles:
        return find_packed(self.source, split=split)[0]

    def _wanted(self, layout: PackedLayout) -> frozenset[str]:
        names = [column.name for column in layout.columns]
        labels = names_of(self._label, names)
        if unknown := sorted(set(self._wanted_columns or ()) - set(names)):
            raise UsageError(f"column {unknown[0]!r} is not packed; there are {', '.join(names)}")
        wanted = names if self._wanted_columns is None else self._wanted_columns
        return frozenset([*wanted, *labels])

    def _features(
        self,
        begins: tf.data.Dataset,
        rows: PackedRows,
        numbers: Callable[[int], npt.NDArray[np.int64]],
        count: int | None,
    ) -> tf.data.Dataset:
        """Returns the features of the rows whose numbers are those from each of `begins` on."""

        def pick(begin: np.int64) -> list[npt.NDArray[Any]]:
            return rows.pick(numbers(int(begin)))

        def features(begin: tf.Tensor) -> Any:
            picked = python_op(pick, [begin], rows.kinds)
            return apart(rows.tensors(picked, count), self._label)

        return parallel_map(begins, features)


def _sparse(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Returns batches whose lists are `tf.SparseTensor`."""
    specs = tf.nest.flatten(batches.element_spec)
    if not any(isinstance(spec, tf.RaggedTensorSpec) for spec in specs):
        return batches

    def sparse(*batch: Any) -> Any:
        made = tf.nest.map_structure(
            lambda part: part.to_sparse() if isinstance(part, tf.RaggedTensor) else part, batch
        )
        return made if len(made) > 1 else made[0]

    return batches.map(sparse).prefetch(1)


class _Numbers:
    """Numbers of one worker's rows in the order of training; its shares take turns in each step."""

    def __init__(self, shares: list[Passes], first_numbers: npt.NDArray[np.int64]) -> None:
        self.step_rows = shares[0].step_rows * len(shares)
        self._share_rows = shares[0].step_rows
        self._orders = [RowOrder(one.order, first_numbers, numpy_permutation) for one in shares]

    def of(self, begin: int, count: int) -> npt.NDArray[np.int64]:
        shares = len(self._orders)
        parts = [order.numbers(begin // shares, count // shares) for order in self._orders]
        if shares == 1:
            return parts[0]
        return np.stack([part.reshape(-1, self._share_rows) for part in parts], 1).reshape(-1)


def _open(
    files: InputFiles, layout: PackedLayout, wanted: Collection[str], options: InputOptions
) -> PackedShards:
    if options.cache == "memory":
        stored = sum(files.sizes)
        check_memory(stored, f"packed shards of {stored:,} bytes", "read fewer columns")
    local = files.files
    folder = tempfile.TemporaryDirectory(prefix="penstock-packed-") if "://" in local[0] else None
    if folder:
        local = _copied(files, folder.name)
    return PackedShards(
        layout,
        [column.name for column in layout.columns if column.name in wanted],
        local,
        files.counted(),
        window_rows=options.shuffle_window_rows,
        in_memory=options.cache == "memory",
        folder=folder,
    )


def _copied(files: InputFiles, folder: str) -> tuple[str, ...]:
    """Returns copies of remote shards, whose digests are those of the manifest."""
    copies = []
    for number, file in enumerate(files.files):
        copies.append(posixpath.join(folder, str(number)))
        tf.io.gfile.copy(file, copies[-1])
        found = hash_file(copies[-1]).digest.hex()
        if files.sha256 and found != files.sha256[number]:
            raise DataError(altered(file, found, Shard(file, 0, 0, files.sha256[number])))
    return tuple(copies)


def _group_batches(files: InputFiles, options: InputOptions, batch_size: int) -> int:
    """Returns how many batches to copy together: a window of them, unless rows are large."""
    row_bytes = sum(files.sizes) / sum(files.counted())
    return max(1, int(min(options.shuffle_window_rows, _MAX_GROUP_BYTES / row_bytes)) // batch_size)
