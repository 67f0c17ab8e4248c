"""Reads packed shards as batches, in a hundredth of the CPU time of parsing rows one by one.

The stages of the input, and what each one does:

    order      computes row numbers: blocks of several files in turn, permuted in windows
    groups     copies the rows of several batches from their blocks to one array per column
    features   turns these arrays into tensors
    prefetch   keeps some groups ready for the training
    batches    cuts groups into batches without another copy; converts lists to `tf.SparseTensor`

The strings of a feature reach TensorFlow as one `TensorProto`, which is built from Arrow's bytes.
One Python object per string would take ten times as long. A pass yields every row exactly once, and
every training batch is full.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.packing.layout import PackedColumn
from penstock.components.readers.order import RowOrder, numpy_permutation
from penstock.components.readers.packed_shards import Numbers, PackedShards
from penstock.components.tfrecord.encoder import varint
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
from penstock.components.trainer.input.passes import ENDLESS, InputStart, Passes, open_passes

# Maximum size of the rows of a group, in bytes: for larger buffers, the operating system maps new
# memory each time.
_MAX_GROUP_BYTES = 8 * 2**20
_DTYPES = {"INT": tf.int64, "FLOAT": tf.float32, "BYTES": tf.string}

Array = npt.NDArray[Any]


class PackedInput(Input):
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
        files, shards = self._open(split)
        batch_size = rows_of_replica(self.options, context)
        shares = open_passes(
            files,
            self.options,
            block_rows=shards.layout.block_rows,
            context=context,
            start=start,
        )
        numbers, step_rows = _in_turn(shares, shards), len(shares) * shares[0].step_rows
        cut_rows = batch_size if len(shares) == 1 else step_rows
        group = cut_rows * _group_batches(files, self.options, cut_rows)
        begins = tf.data.Dataset.range(shares[0].step * step_rows, ENDLESS - group, group)
        return self._batches(shards, begins, lambda at: numbers(at, group), group, batch_size)

    def _eval(self, split: str) -> tf.data.Dataset:
        shards, batch_size = self._open(split)[1], self.options.batch_size
        numbers = shards.all_numbers()
        begins = tf.data.Dataset.range(0, len(numbers), batch_size)
        return self._batches(shards, begins, lambda at: numbers[at : at + batch_size], None, 1)

    def _files(self, split: str) -> InputFiles:
        return find_packed(self.source, split=split)[0]

    def _open(self, split: str) -> tuple[InputFiles, PackedShards]:
        files, layout = find_packed(self.source, split=split)
        names = [column.name for column in layout.columns]
        labels = names_of(self._label, names)
        if unknown := sorted(set(self._wanted_columns or ()) - set(names)):
            raise UsageError(f"column {unknown[0]!r} is not packed; there are {', '.join(names)}")
        wanted = {*(names if self._wanted_columns is None else self._wanted_columns), *labels}
        in_memory = self.options.cache == "memory"
        if in_memory:
            stored = sum(files.sizes)
            check_memory(stored, f"packed shards of {stored:,} bytes", "read fewer columns")
        shards = PackedShards(
            layout,
            [name for name in names if name in wanted],
            files.files,
            files.counted(),
            window_rows=self.options.shuffle_window_rows,
            in_memory=in_memory,
        )
        shards.batch(np.arange(1))  # raises DataError if the first shard is unlike `layout`
        return files, shards

    def _batches(
        self,
        shards: PackedShards,
        begins: tf.data.Dataset,
        numbers: Callable[[int], Numbers],
        rows: int | None,
        batch_size: int,
    ) -> tf.data.Dataset:
        """Returns batches of rows; `numbers` maps each element of `begins` to row numbers.

        `rows` is the number of rows for each element, a multiple of `batch_size`. If it is None,
        the number varies, and each element yields one batch.
        """
        kinds = [kind for column in shards.columns for kind in _kinds(column)]

        def pick(begin: np.int64) -> list[Array]:
            picked = shards.batch(numbers(int(begin))).columns
            pairs = zip(shards.columns, picked, strict=True)
            return [part for column, array in pairs for part in _parts(column, array)]

        def features(begin: tf.Tensor) -> Any:
            parts = iter(python_op(pick, [begin], kinds))
            found = {column.name: _tensor(column, parts, rows) for column in shards.columns}
            return apart(found, self._label)

        together = 1 if rows is None else rows // batch_size
        groups = parallel_map(begins, features)
        has_texts = tf.string in kinds
        return _sparse(tuned(groups, self.options, together=together, has_texts=has_texts))


def _in_turn(shares: list[Passes], shards: PackedShards) -> Callable[[int, int], Numbers]:
    """Returns a function that maps a position and a count to the numbers of the rows to train on.

    The position is a row's place in the order of training of one worker. In each step, all rows of
    the worker's first share come first, then those of the second, and so on.
    """
    orders = [RowOrder(one.order, shards.first_numbers, numpy_permutation) for one in shares]

    def numbers(begin: int, count: int) -> Numbers:
        parts = [order.numbers(begin // len(orders), count // len(orders)) for order in orders]
        if len(parts) == 1:
            return parts[0]
        return np.stack([part.reshape(-1, shares[0].step_rows) for part in parts], 1).reshape(-1)

    return numbers


def _group_batches(files: InputFiles, options: InputOptions, batch_size: int) -> int:
    """Returns the number of batches in a group: as many as in a window, or fewer for large rows."""
    row_bytes = sum(files.sizes) / sum(files.counted())
    return max(1, int(min(options.shuffle_window_rows, _MAX_GROUP_BYTES / row_bytes)) // batch_size)


def _dtype(column: PackedColumn) -> tf.DType:
    is_stored = column.storage not in ("text", "words", "blob", "list")
    return tf.as_dtype(column.storage) if is_stored else _DTYPES[column.kind]


def _kinds(column: PackedColumn) -> list[tf.DType]:
    """Returns the types of the arrays into which a column's rows are picked."""
    return [*([tf.int64] if column.storage == "list" else []), _dtype(column)]


def _parts(column: PackedColumn, array: pa.Array) -> list[Array]:
    is_one = pa.types.is_primitive(array.type) or pa.types.is_binary(array.type)
    values = array if is_one else array.flatten()
    found = _proto(values) if pa.types.is_binary(values.type) else values.to_numpy()
    if column.storage != "list":
        return [found]
    return [np.diff(array.offsets.to_numpy()).astype(np.int64), found]


def _proto(texts: pa.Array) -> Array:
    """Returns a serialized `TensorProto` of texts: their sizes as varints, then their bytes."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, 4 * texts.offset)
    content = memoryview(data)[ends[0] : ends[-1]] if data is not None else b""
    sizes = np.diff(ends)
    # As a varint, a size below 128 is one byte, which has the size as its value.
    is_short = sizes.max(initial=0) < 128
    head = sizes.astype(np.uint8).tobytes() if is_short else b"".join(map(varint, sizes.tolist()))
    proto = tf.make_tensor_proto([], tf.string, [0])
    proto.tensor_shape.dim[0].size = len(texts)
    # The byte `\x22` is the tag of field 4, tensor_content.
    parts = (proto.SerializeToString(), b"\x22", varint(len(head) + len(content)), head, content)
    return np.array(b"".join(parts), object)


def _tensor(column: PackedColumn, parts: Iterator[tf.Tensor], rows: int | None) -> Any:
    """Returns the next column from `parts`: a tensor, or a `tf.RaggedTensor` for lists."""
    lengths = tf.ensure_shape(next(parts), [rows]) if column.storage == "list" else None
    values = next(parts)
    if _dtype(column) == tf.string:
        values = tf.io.parse_tensor(tf.ensure_shape(values, []), tf.string)
    if lengths is None:
        return tf.reshape(values, [-1 if rows is None else rows, *column.shape])
    values = tf.ensure_shape(values, [None])
    return tf.RaggedTensor.from_row_lengths(values, lengths, validate=False)


def _sparse(batches: tf.data.Dataset) -> tf.data.Dataset:
    specs = tf.nest.flatten(batches.element_spec)
    if not any(isinstance(spec, tf.RaggedTensorSpec) for spec in specs):
        return batches

    def sparse(*batch: Any) -> Any:
        made = tf.nest.map_structure(
            lambda part: part.to_sparse() if isinstance(part, tf.RaggedTensor) else part, batch
        )
        return made if len(made) > 1 else made[0]

    return batches.map(sparse).prefetch(1)
