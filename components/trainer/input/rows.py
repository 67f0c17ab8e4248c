"""Reads shards of row Examples as batches of tensors.

The stages for training, and in parentheses the time of a stage in us per row of 40 columns on one
core:

    files      are put in a new order for every pass
    blocks     of up to 1,024 serialised records are read, from several files in parallel (1.8)
    windows    are joined from blocks, and their records are permuted (0.7)
    batches    are cut from the endless stream of windows, across the ends of passes
    features   are parsed from whole batches, in parallel (3.2)
    prefetch   keeps some batches ready for the training

Records go from stage to stage in blocks, because handing each record to another thread costs more
than reading it. Every pass yields every row exactly once and ends before the next begins. Every
training batch is full, so the training step is traced and compiled only once. A seed decides the
order, so a training can resume at any step (see `readers/order.py`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import tensorflow as tf

from penstock.components.errors import DataError, UsageError, short_error
from penstock.components.tfrecord.example_proto import has_sequences
from penstock.components.trainer.input.common import (
    Label,
    apart,
    check_memory,
    first_record,
    interleaved,
    misfit,
    names_of,
    parallel_map,
    rows_of_replica,
    tuned,
)
from penstock.components.trainer.input.files import InputFiles, InputSource
from penstock.components.trainer.input.input import Input
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.input.parsing import Spec, parser
from penstock.components.trainer.input.passes import (
    InputStart,
    Passes,
    open_passes,
    seeded_order,
    seeded_shuffle,
    taken_in_turn,
)

# Number of blocks of cached rows that are mixed before windows are cut from them: at most 64 Ki
# rows.
_CACHED_BLOCKS_MIXED = 64
# Maximum number of rows that are parsed together, unless a single batch has more. Each call of the
# parser has a fixed cost of 0.4 ms with 20 columns, a seventh of the cost of parsing 1,024 rows.
_PARSED_ROWS = 4096
_PARSED_BYTES = 4 * 2**20
# Number of records that are parsed at once to find one that does not fit. If feature lists are
# wanted, at least one of the first `_LOOKED_AT` records must have steps.
_LOOKED_AT = 1024
# Maximum overhead of a string in a tensor, in addition to its characters, in bytes.
_STRING_BYTES = 24
_MISFIT = "does not fit the spec or schema ({reason})"

Parse: TypeAlias = Callable[[tf.Tensor], Any]


class RowInput(Input):
    def __init__(
        self,
        source: InputSource,
        spec: Spec,
        options: InputOptions,
        label: Label,
        feature_lists: Spec | None,
    ) -> None:
        super().__init__(source, options)
        self._spec, self._feature_lists, self._label = spec, feature_lists, label
        self._features = {**spec, **(feature_lists or {})}

    def _train(
        self, split: str, start: InputStart | None, context: tf.distribute.InputContext | None
    ) -> tf.data.Dataset:
        files, parse = self._open(split)
        options = self.options
        batch_size = rows_of_replica(options, context)
        shares = open_passes(files, options, context=context, start=start)
        if options.cache == "memory":
            _check_cache(files, self._features, parse, options)
            rows, [passes] = parallel_map(_blocks(files, options), parse).cache(), shares
            batches = _permuted(passes.numbers.flat_map(lambda n: _cached_windows(n, rows, passes)))
            return tuned(batches.rebatch(batch_size, drop_remainder=True), options)
        together = max(1, _parsed_together(shares[0], self._features) // batch_size)
        groups = _serialised(shares).rebatch(together * batch_size, drop_remainder=True)
        return tuned(parallel_map(groups, parse), options, together=together)

    def _eval(self, split: str) -> tf.data.Dataset:
        files, parse = self._open(split)
        blocks = _blocks(files, self.options).rebatch(self.options.batch_size)
        return tuned(parallel_map(blocks, parse), self.options)

    def misfit(self, split: str) -> str | None:
        """Returns a message about the first record that does not fit the spec; None if all do."""
        parse, files = parser(self._spec, self._feature_lists), self._files(split)
        for file, compression in files.pairs:
            blocks = tf.data.TFRecordDataset(file, compression).batch(_LOOKED_AT)
            for begin, block in blocks.enumerate().as_numpy_iterator():
                if _misfit_in(block, parse):
                    for number, record in enumerate(block, begin * _LOOKED_AT):
                        if reason := _misfit_in([record], parse):
                            return f"{file}: record {number} {reason}"
        return None

    def _open(self, split: str) -> tuple[InputFiles, Parse]:
        """Returns the files and the parser of their records; parses the first record as a check."""
        parsed = parser(self._spec, self._feature_lists)

        def parse(records: tf.Tensor) -> Any:
            return apart(parsed(records), self._label)

        names_of(self._label, self._features)
        files = self._files(split)
        try:
            first_record(
                files,
                lambda record: parse(record[tf.newaxis]),
                _MISFIT,
                has_lists=self._feature_lists is not None,
            )
        except ValueError as error:  # a kind of feature that TensorFlow does not allow here
            raise UsageError(f"the spec cannot be parsed: {short_error(error)}") from error
        if self._feature_lists is not None:
            _require_steps(files, self._feature_lists)
        return files, parse


def _misfit_in(records: Sequence[bytes], parse: Parse) -> str | None:
    try:
        parse(tf.constant(records))
    except tf.errors.InvalidArgumentError as error:
        return misfit(error, _MISFIT)
    return None


def _blocks(files: InputFiles, options: InputOptions) -> tf.data.Dataset:
    """Returns vectors of up to `block_rows` serialised records of a file, in a fixed order."""

    def read(path: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
        return tf.data.TFRecordDataset(path, compression).batch(options.block_rows)

    return interleaved(files, read, options)


def _serialised(shares: list[Passes]) -> tf.data.Dataset:
    """Returns vectors of serialised records in the order of training."""

    def windows(number: tf.Tensor, passes: Passes) -> tf.data.Dataset:
        found, first, drop = passes.read(number, batched=True)
        return tf.data.Dataset.zip((found, passes.seeds(number, first, drop)))

    streams = [
        _permuted(passes.numbers.flat_map(partial(windows, passes=passes))) for passes in shares
    ]
    if len(streams) > 1:
        rows = shares[0].step_rows
        streams = [stream.rebatch(rows, drop_remainder=True) for stream in streams]
    return taken_in_turn(streams, 1)


def _cached_windows(number: tf.Tensor, rows: tf.data.Dataset, passes: Passes) -> tf.data.Dataset:
    """Returns windows of cached rows.

    The cache yields the same order in each pass, so its blocks are mixed before windows are cut.
    """
    mixed = seeded_shuffle(rows, _CACHED_BLOCKS_MIXED, passes.seed(number, 0))
    window = passes.order.window
    begun = passes.begun(number)
    seeds = passes.seeds(number, begun // window, begun % window)
    return tf.data.Dataset.zip((mixed.rebatch(window).skip(begun // window), seeds))


def _permuted(windows: tf.data.Dataset) -> tf.data.Dataset:
    def permute(rows: Any, seed_and_drop: tuple[tf.Tensor, tf.Tensor]) -> Any:
        seed, drop = seed_and_drop
        count = tf.shape(tf.nest.flatten(rows)[0])[0]
        order = seeded_order(count, seed)[drop:]
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, order), rows)

    return parallel_map(windows, permute)


def _parsed_together(passes: Passes, spec: Spec) -> int:
    """Returns the number of rows to parse together; 0 means the rows of a single batch."""
    rows, stored = passes.files.rows, sum(passes.order.file_bytes)
    # The size of a row is unknown in compressed files.
    if rows is None or _varying(spec) or any(compression for _, compression in passes.files.pairs):
        return 0
    # The result is at most the number of rows in a pass: to collect more rows, the parser would
    # wait 10 ms for the start of the next pass.
    return min(_PARSED_ROWS, rows, _PARSED_BYTES * rows // stored)


def _require_steps(files: InputFiles, wanted: Spec) -> None:
    """Raises DataError if records are Examples, or if the name of a wanted list seems misspelt.

    TensorFlow reads a list with a misspelt name as a list without steps. The name seems misspelt if
    the records lack this list but have a list that is not wanted. If they have only wanted lists,
    the missing list may just be rare.
    """
    records = (record for pair in files.pairs for record in tf.data.TFRecordDataset(*pair))
    found: set[str] = set()
    for record in islice(records, _LOOKED_AT):
        if has_sequences(record.numpy()):
            message = tf.train.SequenceExample.FromString(record.numpy())
            found.update(message.feature_lists.feature_list)
        if found and found >= {*wanted}:
            return
    first = f"{files.files[0]}: none of the first {_LOOKED_AT:,} records"
    if not found:
        raise DataError(f"{first} is a SequenceExample with steps; leave feature_lists out")
    if others := found - {*wanted}:
        lacking = sorted({*wanted} - found)[0]
        has = ", ".join(sorted(others))
        raise DataError(f"{first} has the feature list {lacking!r}; they have {has} besides")


def _check_cache(files: InputFiles, spec: Spec, parse: Parse, options: InputOptions) -> None:
    if varying := _varying(spec):
        raise UsageError(
            f"cache 'memory' needs features of fixed length; {', '.join(varying)} may vary: "
            "use cache 'none', or fix the length in the schema"
        )
    records = next(iter(_blocks(files, options)))
    each = sum(map(_tensor_bytes, tf.nest.flatten(parse(records)))) / len(records)
    rows = sum(files.counted())
    check_memory(int(rows * each), f"{rows:,} rows of about {each:,.0f} bytes", "pack the rows")


def _varying(spec: Spec) -> list[str]:
    return [name for name, kind in spec.items() if not isinstance(kind, tf.io.FixedLenFeature)]


def _tensor_bytes(tensor: tf.Tensor) -> int:
    if tensor.dtype == tf.string:
        return _STRING_BYTES * int(tf.size(tensor)) + int(tf.reduce_sum(tf.strings.length(tensor)))
    return int(tf.size(tensor)) * int(tensor.dtype.size)
