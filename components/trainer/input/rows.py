"""Shards in, batches of tensors out, fast enough that the accelerator need not wait.

The chain for training, with what each link is for (us a row of 40 columns on one core):

    files      order shuffled every pass
    blocks     up to 1,024 serialised records of one file; files interleaved in threads (1.8)
    windows    blocks of all files joined and permuted by one `tf.random` op (0.7)
    batches    cut from the endless stream of windows, across the seams between passes
    features   a whole batch parsed at once, in parallel (3.2)
    prefetch

Records are handed over in blocks because the hand-over of each record between threads costs
more than reading it. Every pass gives every row exactly once; no row is dropped, however few
there are, and every training batch is full, so that a step is traced and compiled once.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from penstock.components.errors import UsageError
from penstock.components.tfrecord.feature_spec import FeatureSpec
from penstock.components.trainer.input.common import (
    first_record,
    interleaved,
    parallel_map,
    paths_of,
    share_of_worker,
    tuned,
)
from penstock.components.trainer.input.files import InputFiles, Source, find_input
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.input.read_errors import keeps_source

# Blocks of cached rows that are mixed before windows are cut from them again: 64 Ki rows.
_CACHED_BLOCKS_MIXED = 64


@keeps_source
def train_input_fn(
    source: Source,
    spec: Mapping[str, FeatureSpec],
    *,
    options: InputOptions,
    label: str | None = None,
    split: str = "train",
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Endless shuffled batches for training.

    Args:
        source: File paths and patterns as in TFX's `fn_args.train_files` (names that end in
            `.gz` are decompressed), or a folder with a manifest.
        spec: What to parse, by feature; see `feature_spec`.
        options: Batch size, shuffling and speed.
        label: The feature that is the label; None gives features only.
        split: The split to take from a manifest.
        input_context: This worker's place among several, as `tf.distribute` gives it: it then
            reads files of its own, and batches of `batch_size` / replicas rows.

    Returns:
        Dataset of `(features, label)`, or of `features` without a label. `features` maps names
        to tensors whose first dimension is the batch size; each pass over the files comes in
        another order and has each row once.

    Raises:
        DataError: There are no rows, too few files for the workers, or the records do not fit
            `spec`.
        UsageError: The label is not in `spec`, or an option does not go with it.
    """
    files, batch_size = _open(source, spec, label, split, options, input_context)
    deterministic = options.seed is not None
    paths = paths_of(files).shuffle(len(files.files), seed=options.seed)
    blocks = _blocks(paths, options, deterministic=deterministic)
    parse = _parser(spec)
    if options.cache == "memory":
        _require_fixed_length(spec)
        # The blocks come out of the cache in the order of the first pass: mix them anew.
        rows = parallel_map(blocks, parse, deterministic=deterministic).cache()
        rows = rows.shuffle(_CACHED_BLOCKS_MIXED, seed=options.seed)
        batches = _shuffled(rows, options).repeat().rebatch(batch_size, drop_remainder=True)
    else:
        serialised = _shuffled(blocks, options).repeat()
        batches = serialised.rebatch(batch_size, drop_remainder=True)
        # In order, or batches of the next pass would overtake those of this one. That costs
        # nothing: every batch takes the same time.
        batches = parallel_map(batches, parse, deterministic=True)
    return _finish(batches, label, options, deterministic=deterministic)


@keeps_source
def eval_input_fn(
    source: Source,
    spec: Mapping[str, FeatureSpec],
    *,
    options: InputOptions,
    label: str | None = None,
    split: str = "eval",
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """One pass over every row in the same order each time, for evaluation.

    Arguments and errors are those of `train_input_fn`. Nothing is dropped: only the very last
    batch is short where the rows do not divide.
    """
    files, batch_size = _open(source, spec, label, split, options, input_context)
    blocks = _blocks(paths_of(files), options, deterministic=True)
    batches = parallel_map(blocks.rebatch(batch_size), _parser(spec), deterministic=True)
    return _finish(batches, label, options, deterministic=True)


def _blocks(
    paths: tf.data.Dataset, options: InputOptions, *, deterministic: bool
) -> tf.data.Dataset:
    """Vectors of up to `block_rows` serialised records, each of one file."""

    def read(path: tf.Tensor, compression: tf.Tensor) -> tf.data.Dataset:
        return tf.data.TFRecordDataset(path, compression).batch(options.block_rows)

    return interleaved(paths, read, options, deterministic=deterministic)


def _shuffled(blocks: tf.data.Dataset, options: InputOptions) -> tf.data.Dataset:
    """The rows of all blocks, permuted within windows; the last window of a pass is short."""
    # The seeds are data, not the state of an op, so that windows may be permuted in parallel.
    seeds = tf.data.Dataset.random(seed=options.seed, rerandomize_each_iteration=True).batch(2)
    windows = tf.data.Dataset.zip((blocks.rebatch(options.shuffle_window_rows), seeds))
    return parallel_map(windows, _permute, deterministic=options.seed is not None)


def _permute(rows: Any, seed: tf.Tensor) -> Any:
    """Permute the rows of every tensor of a structure alike."""
    count = tf.shape(tf.nest.flatten(rows)[0])[0]
    keys = tf.random.stateless_uniform([count], seed, minval=None, maxval=None, dtype=tf.int32)
    order = tf.argsort(keys)
    return tf.nest.map_structure(lambda tensor: tf.gather(tensor, order), rows)


def _parser(spec: Mapping[str, FeatureSpec]) -> Callable[[tf.Tensor], dict[str, Any]]:
    return lambda serialised: tf.io.parse_example(serialised, dict(spec))


def _finish(
    batches: tf.data.Dataset, label: str | None, options: InputOptions, *, deterministic: bool
) -> tf.data.Dataset:
    """Split off the label and keep batches ready."""
    if label is not None:
        batches = batches.map(lambda features: (features, features.pop(label)))
    return tuned(batches, options, deterministic=deterministic)


def _open(
    source: Source,
    spec: Mapping[str, FeatureSpec],
    label: str | None,
    split: str,
    options: InputOptions,
    input_context: tf.distribute.InputContext | None,
) -> tuple[InputFiles, int]:
    """This worker's files and the rows of one of its batches, after a look at the first record."""
    if label is not None and label not in spec:
        raise UsageError(f"label {label!r} is not a feature; there are {', '.join(spec)}")
    files = find_input(source, split=split)
    first_record(
        files,
        lambda record: tf.io.parse_single_example(record, dict(spec)),
        "does not fit the schema ({reason})",
    )
    return share_of_worker(files, options, input_context)


def _require_fixed_length(spec: Mapping[str, FeatureSpec]) -> None:
    varying = [name for name, kind in spec.items() if isinstance(kind, tf.io.VarLenFeature)]
    if varying:
        raise UsageError(
            f"cache 'memory' needs features of fixed length; {', '.join(varying)} may vary: "
            "use cache 'none', or fix the length in the schema"
        )
