"""Code shared by the inputs of rows, packed records and images: checks, interleaving, tuning."""

import atexit
import re
import threading
import time
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any, TypeAlias, TypeVar

import numpy as np
import psutil
import tensorflow as tf

from penstock.components.errors import DataError, UsageError
from penstock.components.tfrecord.checked import require_stamp, stamp_of
from penstock.components.tfrecord.sharding import MIB
from penstock.components.tfrecord.unlisted import require_example, require_examples
from penstock.components.trainer.input.files import InputFiles
from penstock.components.trainer.input.options import InputOptions
from penstock.components.trainer.utilisation.speed import memory_limit_mib

T = TypeVar("T")

# Name of the feature that is the label; several names (the label is then a mapping by name); None
# for no label.
Label: TypeAlias = str | Sequence[str] | None

# Share of the free memory that a cache may take; the rest is left for the model and its batches.
_MEMORY_SHARE = 0.7
# If tf.data's threads make no call for this many seconds at the end of the process, they are
# assumed to make no more calls.
_QUIET_SECONDS = 0.25
_PATIENCE_SECONDS = 10.0


class _PythonCalls:
    """Counts calls of tf.data's threads into Python, which must end before the interpreter does.

    A thread that calls Python while the interpreter shuts down never returns; the process then
    hangs, because it waits for TensorFlow's threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._last = 0.0
        self._is_over = False

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        with self._lock:
            if not self._last:
                atexit.register(self._end)
            self._last = time.monotonic()
            if self._is_over:
                raise StopIteration
            self._running += 1
        try:
            return function(*args)
        finally:
            with self._lock:
                self._running -= 1

    def _end(self) -> None:
        """Refuses new calls, and waits for running calls that still fill the last buffers."""
        self._is_over = True
        patience = time.monotonic() + _PATIENCE_SECONDS
        while time.monotonic() < patience:
            if not self._running and time.monotonic() - self._last > _QUIET_SECONDS:
                return
            time.sleep(0.01)


_calls = _PythonCalls()


def python_op(function: Callable[..., Any], inputs: list[Any], kinds: Any) -> Any:
    """Returns a `tf.numpy_function` that is safe if the process ends while tf.data prefetches."""
    return tf.numpy_function(partial(_calls.call, function), inputs, kinds)


def names_of(label: Label, features: Collection[str]) -> tuple[str, ...]:
    names = () if label is None else (label,) if isinstance(label, str) else tuple(label)
    if len(set(names)) < len(names):
        raise UsageError(f"label must name each feature once, got {', '.join(names)}")
    for name in names:
        if name not in features:
            raise UsageError(f"label {name!r} is not a feature; there are {', '.join(features)}")
    return names


def apart(features: dict[str, Any], label: Label) -> Any:
    if label is None:
        return features
    if isinstance(label, str):
        return features, features.pop(label)
    return features, {name: features.pop(name) for name in label}


def free_memory_bytes() -> int:
    within_limit = memory_limit_mib() * MIB - psutil.Process().memory_info().rss
    return max(0, int(min(psutil.virtual_memory().available, within_limit)))


def check_memory(needed: int, what: str, advice: str) -> None:
    """Raises UsageError if a cache does not fit into free memory."""
    free = _MEMORY_SHARE * free_memory_bytes()
    if needed > free:
        raise UsageError(
            f"cache 'memory': {what} take {needed / 2**30:.2f} GiB, and {free / 2**30:.2f} GiB may "
            f"be taken of what is free; use cache 'none', or {advice}"
        )


def rows_of_replica(options: InputOptions, context: tf.distribute.InputContext | None) -> int:
    replicas = context.num_replicas_in_sync if context else 1
    if options.batch_size % replicas:
        raise UsageError(
            f"batch_size must be a multiple of the {replicas} replicas in sync, "
            f"got {options.batch_size}"
        )
    return options.batch_size // replicas


# Number of records that are searched for SequenceExamples in a remote file, or in a file of which
# ingest has already checked all records.
_CHECKED_RECORDS = 100

# Text that TensorFlow adds to an error message, such as "{{function_node ...}} ",
# "Name: <unknown>, " and " [Op:ParseExampleV2]".
_OF_THE_OP = re.compile(r"^\{\{.*?\}\} |Name: <unknown>, | \[Op:\w+\]")


def _require_examples(files: InputFiles) -> None:
    """Raises DataError for a record that is not a `tf.train.Example`.

    Checks only the first records of a remote file, or of a file that ingest has checked.
    """
    for file, compression in files.pairs:
        if "://" not in file:
            require_examples(file, None if files.may_mix else _CHECKED_RECORDS)
            continue
        records = tf.data.TFRecordDataset(file, compression).take(_CHECKED_RECORDS)
        for number, record in records.enumerate():
            require_example(record.numpy(), f"{file}: record {number}")


def first_record(
    files: InputFiles, parse: Callable[[tf.Tensor], T], expected: str, *, has_lists: bool = False
) -> T:
    """Parses and returns the first record, so that faults of the whole input are found early.

    Without rows it raises DataError, because an endless dataset without rows would loop for ever.
    If the record cannot be parsed, the error's message has "the first record", then `expected` with
    TensorFlow's message as its `{reason}`.
    """
    for file, compression in files.pairs:
        try:
            for record in tf.data.TFRecordDataset(file, compression).take(1):
                if not has_lists:
                    _require_examples(files)
                return parse(record)
        except (tf.errors.DataLossError, tf.errors.InvalidArgumentError) as error:
            raise DataError(f"{file}: the first record {misfit(error, expected)}") from error
    raise DataError(
        f"no records in {files.files[0]} and {len(files.files) - 1} other shards; "
        "is the split empty?"
    )


def misfit(error: tf.errors.OpError, expected: str) -> str:
    """Returns `expected`, in which TensorFlow's message without the op's name is the `{reason}`."""
    return expected.format(reason=" ".join(_OF_THE_OP.sub("", error.message).split()))


def path_op(files: InputFiles) -> Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
    """Returns an op that maps a file's number to its path and compression.

    The op fails if a local file was replaced since this call.
    """
    compressions = tf.constant([compression for _, compression in files.pairs])
    stamps = [None if "://" in file else stamp_of(file) for file in files.files]

    def path_of(number: np.int64) -> str:
        file, stamp = files.files[number], stamps[number]
        if stamp is not None:
            require_stamp(file, stamp)
        return file

    def place(number: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        path = tf.ensure_shape(python_op(path_of, [number], tf.string), [])
        return path, tf.gather(compressions, number)

    return place


def interleaved(
    files: InputFiles, read: Callable[..., tf.data.Dataset], options: InputOptions
) -> tf.data.Dataset:
    """Returns the elements of `read(path, compression)`, reading several files at a time."""
    places = tf.data.Dataset.range(len(files.files)).map(path_op(files))
    return places.interleave(
        read,
        cycle_length=min(options.interleave_files, len(files.files)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def parallel_map(dataset: tf.data.Dataset, function: Callable[..., Any]) -> tf.data.Dataset:
    """Maps elements in order, in as many threads as tf.data chooses.

    Without this order, batches of the next pass could overtake batches of this one.
    """
    return dataset.map(function, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def tuned(
    batches: tf.data.Dataset, options: InputOptions, *, together: int = 1, has_texts: bool = False
) -> tf.data.Dataset:
    """Prefetches batches, within the threads and the memory that the options allow.

    With `has_texts`, stages run in one thread per core (at most 16) unless `ram_budget_mib` is set.
    If tf.data tuned the number of threads, it would add up the lengths of all texts at each stage,
    which takes 15 ns of CPU per text. An element with several batches (`together`) is cut into
    batches only where it is consumed, because handing an element from thread to thread takes 30 us
    of CPU.
    """
    tuning = tf.data.Options()
    tuning.deterministic = True
    if options.private_threads is not None:
        tuning.threading.private_threadpool_size = options.private_threads
    if options.ram_budget_mib is not None:
        tuning.autotune.ram_budget = options.ram_budget_mib << 20
    elif has_texts:
        tuning.autotune.enabled = False
    ready = batches.prefetch(-(-options.prefetch_batches // together))
    if together > 1:
        tuning.experimental_optimization.inject_prefetch = False  # `ready` prefetches
        ready = ready.flat_map(lambda *group: _cut(group, together))
    return ready.with_options(tuning)


def _cut(group: tuple[Any, ...], together: int) -> tf.data.Dataset:
    """Returns the batches of a group; does not copy dense batches whose memory is aligned."""
    batches = tf.nest.map_structure(lambda part: _stacked(part, together), group)
    return tf.data.Dataset.from_tensor_slices(batches if len(batches) > 1 else batches[0])


def _stacked(part: Any, together: int) -> Any:
    rows = part.shape[0] // together
    if isinstance(part, tf.RaggedTensor):
        return tf.RaggedTensor.from_uniform_row_length(part, rows)
    return tf.reshape(part, [together, rows, *part.shape[1:]])
