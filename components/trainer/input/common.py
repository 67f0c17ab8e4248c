"""The links that rows, packed rows and images have in common: open, look, interleave, tune."""

from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeAlias, TypeVar

import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.components.tfrecord.unlisted import require_examples
from penstock.components.trainer.input.files import InputFiles
from penstock.components.trainer.input.options import ReadOptions

T = TypeVar("T")

# The feature that is the label; several, which then are a mapping by name; or none.
Label: TypeAlias = str | Sequence[str] | None


def names_of(label: Label, features: Collection[str]) -> tuple[str, ...]:
    """The names of the labels.

    Raises:
        UsageError: One is not among the features.
    """
    names = () if label is None else (label,) if isinstance(label, str) else tuple(label)
    for name in names:
        if name not in features:
            raise UsageError(f"label {name!r} is not a feature; there are {', '.join(features)}")
    return names


def apart(features: dict[str, Any], label: Label) -> Any:
    """`(features, label)`, or the features alone without one."""
    if label is None:
        return features
    if isinstance(label, str):
        return features, features.pop(label)
    return features, {name: features.pop(name) for name in label}


def rows_of_replica(options: ReadOptions, context: tf.distribute.InputContext | None) -> int:
    """Rows of a replica's share of a batch.

    Raises:
        UsageError: The batch cannot be divided among the replicas.
    """
    replicas = context.num_replicas_in_sync if context else 1
    if options.batch_size % replicas:
        raise UsageError(
            f"batch_size must be a multiple of the {replicas} replicas in sync, "
            f"got {options.batch_size}"
        )
    return options.batch_size // replicas


def share_of_worker(
    files: InputFiles, options: ReadOptions, context: tf.distribute.InputContext | None
) -> tuple[InputFiles, int]:
    """One worker's files for evaluation, and the rows of a replica's share of a batch.

    Raises:
        DataError: There are fewer files than workers.
        UsageError: The batch cannot be divided among the replicas.
    """
    if context is not None:
        files = files.shard(context.num_input_pipelines, context.input_pipeline_id)
    return files, rows_of_replica(options, context)


def first_record(files: InputFiles, parse: Callable[[tf.Tensor], T], expected: str) -> T:
    """The first record, parsed: what is wrong with the input as a whole is raised now.

    An endless dataset over no rows would spin for ever.

    Args:
        files: Where to look.
        parse: Takes a serialised record.
        expected: Completes "the first record ..." where it cannot be parsed; may have a
            `{reason}`.

    Raises:
        DataError: There is no record, or the first cannot be read or parsed.
    """
    for file, compression in zip(files.files, files.compressions, strict=True):
        try:
            for record in tf.data.TFRecordDataset(file, compression).take(1):
                require_examples(record.numpy(), file)
                return parse(record)
        except tf.errors.DataLossError as error:
            raise DataError(
                f"{file}: not a readable TFRecord ({error.message}); `penstock verify` says more"
            ) from error
        except tf.errors.InvalidArgumentError as error:
            reason = expected.format(reason=error.message)
            raise DataError(f"{file}: the first record {reason}") from error
    raise DataError(
        f"no records in {files.files[0]} and {len(files.files) - 1} other shards; "
        "is the split empty?"
    )


def paths_of(files: InputFiles) -> tf.data.Dataset:
    """One `(path, compression)` a file."""
    return tf.data.Dataset.from_tensor_slices((list(files.files), files.compressions))


def interleaved(
    paths: tf.data.Dataset,
    read: Callable[..., tf.data.Dataset],
    options: ReadOptions,
) -> tf.data.Dataset:
    """What `read` makes of each path and compression, several files at a time."""
    return paths.interleave(
        read,
        cycle_length=min(options.interleave_files, int(paths.cardinality())),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def parallel_map(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    """`map` in as many threads as tf.data finds good, in order.

    Out of order, batches of the next pass would overtake those of this one.
    """
    return dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def tuned(batches: tf.data.Dataset, options: ReadOptions) -> tf.data.Dataset:
    """Keep batches ready, within the threads and the memory that the options allow."""
    tuning = tf.data.Options()
    tuning.deterministic = True
    if options.private_threads is not None:
        tuning.threading.private_threadpool_size = options.private_threads
    if options.ram_budget_mib is not None:
        tuning.autotune.ram_budget = options.ram_budget_mib << 20
    return batches.prefetch(options.prefetch_batches).with_options(tuning)
