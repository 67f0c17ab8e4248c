"""Shards in, batches of tensors out, fast enough that the accelerator need not wait.

The chain for training, with what each link is for (us a row of 40 columns on one core):

    files      order shuffled every pass
    blocks     up to 1,024 serialised records of one file; files interleaved in threads (1.8)
    windows    blocks of all files joined and permuted by one `tf.random` op (0.7)
    batches    cut from the endless stream of windows, across the seams between passes
    features   a whole batch parsed at once, in parallel (3.2)
    prefetch

Records are handed over in blocks because the hand-over of each record between threads costs
more than reading it. Every pass gives every row exactly once, and is over before the next
begins; every training batch is full, so that a step is traced and compiled once. A seed decides
the order, so that a training goes on at any step (see `order.py`).
"""

from collections.abc import Callable
from itertools import islice
from typing import Any, TypeAlias

import tensorflow as tf

from penstock.components.errors import DataError, UsageError, short_error
from penstock.components.tfrecord.example_proto import has_sequences
from penstock.components.trainer.input.cache import check_memory
from penstock.components.trainer.input.common import (
    Label,
    apart,
    first_record,
    interleaved,
    names_of,
    parallel_map,
    paths_of,
    rows_of_replica,
    share_of_worker,
    tuned,
)
from penstock.components.trainer.input.files import InputFiles, InputSource, find_input
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.input.parsing import Spec, parser
from penstock.components.trainer.input.passes import (
    Passes,
    open_passes,
    seeded_order,
    seeded_shuffle,
)
from penstock.components.trainer.input.read_errors import keeps_source
from penstock.components.trainer.input.start import InputStart

# Blocks of cached rows that are mixed before windows are cut from them again: 64 Ki rows.
_CACHED_BLOCKS_MIXED = 64
# Records that are parsed at a time, where a batch has fewer: what a batch costs by itself, 0.4 ms
# with 20 columns, is a seventh of the cost of 1,024 rows.
_PARSED_ROWS = 4096
_PARSED_BYTES = 4 * 2**20
# Records of which one at least is to have steps.
_LOOKED_AT = 1024
# What a string takes in a tensor beside its characters, at most.
_STRING_BYTES = 24

Parse: TypeAlias = Callable[[tf.Tensor], Any]


@keeps_source
def train_input_fn(
    source: InputSource,
    spec: Spec,
    *,
    options: InputOptions,
    label: Label = None,
    feature_lists: Spec | None = None,
    split: str = "train",
    input_context: tf.distribute.InputContext | None = None,
    start: InputStart | None = None,
) -> tf.data.Dataset:
    """Endless shuffled batches for training.

    Args:
        source: File paths and patterns as in TFX's `fn_args.train_files` (names that end in
            `.gz` are decompressed), or a folder with a manifest.
        spec: What to parse, by feature; see `feature_spec`. Of SequenceExamples the context.
        options: Batch size, shuffling and speed.
        label: The feature that is the label, or several: the label is then a mapping by name.
            None gives features only.
        feature_lists: What to parse of each step of SequenceExamples, by feature list; None where
            the records are Examples.
        split: The split to take from a manifest.
        input_context: This worker's place among several, as `tf.distribute` gives it: it then
            reads rows of its own, and batches of `batch_size` / replicas rows.
        start: The batches that were given before, to go on after them; see `train`.

    Returns:
        Dataset of `(features, label)`, or of `features` without a label. `features` maps names
        to tensors whose first dimension is the batch size, ragged ones padded to the longest of
        the batch; each pass over the files comes in another order and has each row once.
        Put a `prefetch` behind a `map` of your own: TensorFlow adds none.

    Raises:
        DataError: There are no rows, or the records do not fit `spec`.
        UsageError: The label is not in `spec`, an option does not go with it, the cache does not
            fit, or the input is another one than at the start.
    """
    files, parse = _open(source, spec, feature_lists, label, split)
    passes = open_passes(
        files,
        options,
        block_rows=options.block_rows,
        window=options.shuffle_window_rows,
        context=input_context,
        start=start,
    )
    batch_size = rows_of_replica(options, input_context)
    if options.cache == "memory":
        _check_cache(files, {**spec, **(feature_lists or {})}, parse, options)
        rows = parallel_map(_blocks(files, options), parse).cache()
        batches = _permuted(passes.numbers.flat_map(lambda n: _cached_windows(n, rows, passes)))
        return tuned(batches.rebatch(batch_size, drop_remainder=True), options)
    serialised = _permuted(passes.numbers.flat_map(lambda n: _windows(n, passes)))
    together = max(1, _parsed_together(passes, {**spec, **(feature_lists or {})}) // batch_size)
    batches = _parsed(serialised, parse, batch_size, together)
    return tuned(batches, options, together=together)


@keeps_source
def eval_input_fn(
    source: InputSource,
    spec: Spec,
    *,
    options: InputOptions,
    label: Label = None,
    feature_lists: Spec | None = None,
    split: str = "eval",
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """One pass over every row in the same order each time, for evaluation.

    Arguments and errors are those of `train_input_fn`. Nothing is dropped: only the very last
    batch is short where the rows do not divide.
    """
    files, parse = _open(source, spec, feature_lists, label, split)
    files, batch_size = share_of_worker(files, options, input_context)
    batches = parallel_map(_blocks(files, options).rebatch(batch_size), parse)
    return tuned(batches, options)


def _blocks(files: InputFiles, options: InputOptions) -> tf.data.Dataset:
    """Vectors of up to `block_rows` serialised records, each of one file, always in this order."""

    def read(path: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
        return tf.data.TFRecordDataset(path, compression).batch(options.block_rows)

    return interleaved(paths_of(files), read, options)


def _windows(number: tf.Tensor, passes: Passes) -> tf.data.Dataset:
    """The windows of a pass, serialised, with what `_permuted` needs."""
    found = passes.read(
        number,
        lambda path, kind: tf.data.TFRecordDataset(path, kind).batch(passes.order.block_rows),
    )
    return tf.data.Dataset.zip((found.windows, passes.seeds(number, found.window, found.drop)))


def _cached_windows(number: tf.Tensor, rows: tf.data.Dataset, passes: Passes) -> tf.data.Dataset:
    """The same of parsed rows, which come out of the cache in one order: mixed anew."""
    mixed = seeded_shuffle(rows, _CACHED_BLOCKS_MIXED, passes.seed(number, 0))
    window = passes.order.window
    begun = passes.begun(number)
    seeds = passes.seeds(number, begun // window, begun % window)
    return tf.data.Dataset.zip((mixed.rebatch(window).skip(begun // window), seeds))


def _permuted(windows: tf.data.Dataset) -> tf.data.Dataset:
    """The rows of each window in another order; of its tensors all in the same."""

    def permute(rows: Any, seed_and_drop: tuple[tf.Tensor, tf.Tensor]) -> Any:
        seed, drop = seed_and_drop
        count = tf.shape(tf.nest.flatten(rows)[0])[0]
        order = seeded_order(count, seed)[drop:]
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, order), rows)

    return parallel_map(windows, permute)


def _parsed_together(passes: Passes, spec: Spec) -> int:
    """Rows that may be parsed at a time: 0 where they are padded to the longest of their batch."""
    rows, stored = passes.files.rows, sum(passes.order.file_bytes)
    if rows is None or not all(isinstance(kind, tf.io.FixedLenFeature) for kind in spec.values()):
        return 0
    if any(passes.files.compressions):  # how large a row is, is not known
        return 0
    # Not more than a pass: to begin one takes 10 ms.
    return min(_PARSED_ROWS, rows, _PARSED_BYTES * rows // stored)


def _parsed(
    serialised: tf.data.Dataset, parse: Parse, batch_size: int, together: int
) -> tf.data.Dataset:
    """Full batches of parsed rows; of several together [together, rows, ...]."""
    groups = serialised.rebatch(together * batch_size, drop_remainder=True)
    if together == 1:
        return parallel_map(groups, parse)

    def cut(tensor: tf.Tensor) -> tf.Tensor:
        return tf.reshape(tensor, [together, batch_size, *tensor.shape[1:]])

    return parallel_map(groups, lambda group: tf.nest.map_structure(cut, parse(group)))


def _open(
    source: InputSource, spec: Spec, feature_lists: Spec | None, label: Label, split: str
) -> tuple[InputFiles, Parse]:
    """The files, after a look at the first record, and what parses their records, labels apart."""
    parsed = parser(spec, feature_lists)

    def parse(records: tf.Tensor) -> Any:
        return apart(parsed(records), label)

    names_of(label, [*spec, *(feature_lists or ())])
    files = find_input(source, split=split)
    try:
        first_record(
            files,
            lambda record: parse(record[tf.newaxis]),
            "does not fit the spec or schema ({reason})",
            has_lists=feature_lists is not None,
        )
    except ValueError as error:  # a kind of feature where TensorFlow has none
        raise UsageError(f"the spec cannot be parsed: {short_error(error)}") from error
    if feature_lists is not None:
        _require_steps(files)
    return files, parse


def _require_steps(files: InputFiles) -> None:
    """Refuse Examples where there were to be SequenceExamples: they parse as ones without steps."""
    pairs = zip(files.files, files.compressions, strict=True)
    records = (record for pair in pairs for record in tf.data.TFRecordDataset(*pair))
    if not any(has_sequences(record.numpy()) for record in islice(records, _LOOKED_AT)):
        raise DataError(
            f"{files.files[0]}: none of the first {_LOOKED_AT:,} records is a SequenceExample with "
            "steps; leave feature_lists out to read tf.train.Examples"
        )


def _check_cache(files: InputFiles, spec: Spec, parse: Parse, options: InputOptions) -> None:
    """Refuse features that cannot be cached, and rows that do not fit."""
    varying = [name for name, kind in spec.items() if not isinstance(kind, tf.io.FixedLenFeature)]
    if varying:
        raise UsageError(
            f"cache 'memory' needs features of fixed length; {', '.join(varying)} may vary: "
            "use cache 'none', or fix the length in the schema"
        )
    records = next(iter(_blocks(files, options)))
    each = sum(map(_tensor_bytes, tf.nest.flatten(parse(records)))) / len(records)
    rows = sum(files.counted())
    what = f"{rows:,} rows of about {each:,.0f} bytes"
    check_memory(int(rows * each), what, "use cache 'none', or pack the rows")


def _tensor_bytes(tensor: tf.Tensor) -> int:
    """Memory that a dense tensor takes."""
    if tensor.dtype == tf.string:
        return _STRING_BYTES * int(tf.size(tensor)) + int(tf.reduce_sum(tf.strings.length(tensor)))
    return int(tf.size(tensor)) * int(tensor.dtype.size)
