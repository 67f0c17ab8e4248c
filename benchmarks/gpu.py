"""The share of time that the device waits: inputs, networks and options, against a batch on it.

The first day on a GPU in one command, some ten minutes. Without a GPU the networks are small and
share the cores with their input.
"""

import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from penstock.benchmarks import claims, photos, table, training
from penstock.benchmarks.harness import Check, Group, Measured, at_least, bound, measure, need
from penstock.benchmarks.training import first_batch, gpu_names
from penstock.components.errors import UsageError

NAIVE, ROWS, PACKED, LIMIT = "naive", "row Examples", "packed", "one batch"
SHORT_TABLE, LONG_TABLE = "a table, short steps", "a table, long steps"
SHORT_IMAGES, LONG_IMAGES = "images, short steps", "images, long steps"


@dataclass(frozen=True)
class GpuOptions:
    """Tables and images to train on, and the number of rounds.

    Attributes:
        rows: Rows of the generated table of 40 columns.
        images: Generated JPEG photos of 375 x 500.
        seconds: How long each training lasts, in steady steps.
        rounds: How often each runs.
        only: Comparisons whose titles have this in them; nothing takes all.
    """

    rows: int = 131_072
    images: int = 512
    seconds: float = 3.0
    rounds: int = 1
    only: str = ""

    def __post_init__(self) -> None:
        rows, images = (table.BATCH, table.BATCH), (photos.BATCH, photos.BATCH)
        at_least(self, rows=rows, images=images, rounds=1, seconds=0)
        titles = [group.title for group in _groups(self)]
        if not any(self.only in title for title in titles):
            raise UsageError(
                f"no comparison has {self.only!r} in its title: there are {'; '.join(titles)}"
            )


def image_size() -> int:
    """Returns the height and width that networks of images get."""
    return 224 if gpu_names() else 96


def _table_units(short: bool) -> int:
    if gpu_names():
        return 256 if short else 8192
    return 64 if short else 512


def _images(read: Callable[..., Any], options: GpuOptions) -> Any:
    return read(photos.root_of(options.images), image_size()).map(training.image_and_label)


def _table(read: Callable[..., Any], options: GpuOptions, **more: Any) -> Any:
    return training.table_batches(read, table.root_of(options.rows), **more)


@dataclass(frozen=True)
class Network:
    """A network whose steps have one length, and the readers that feed it."""

    unit: str
    batch: int
    steps_a_call: int
    make: Callable[[], Any]
    inputs: Mapping[str, Callable[..., Any]]
    batches: Callable[..., Any]


_TABLE = {NAIVE: table.naive, ROWS: table.row_examples, PACKED: table.packed}
_IMAGES = {NAIVE: photos.generator, ROWS: photos.jpeg_rows, PACKED: photos.packed}
NETWORKS = {
    SHORT_TABLE: Network("rows", table.BATCH, 20,
                         lambda: training.table_model(_table_units(short=True)), _TABLE, _table),
    LONG_TABLE: Network("rows", table.BATCH, 4,
                        lambda: training.table_model(_table_units(short=False)), _TABLE, _table),
    SHORT_IMAGES: Network("images", photos.BATCH, 4,
                          lambda: training.image_model(image_size(), 16), _IMAGES, _images),
    LONG_IMAGES: Network("images", photos.BATCH, 2,
                         lambda: training.image_model(
                             image_size(), 64, "ResNet50" if gpu_names() else None
                         ), _IMAGES, _images),
}  # fmt: skip

STEP_OPTIONS: Sequence[Mapping[str, Any]] = (
    {},
    {"mixed_precision": "mixed_bfloat16"},
    {"xla": True},
    {"prefetch_to_device": True},
    {"gpu_memory_growth": False},
    {"steps_per_execution": 1},
)
INPUT_OPTIONS: Sequence[Mapping[str, Any]] = (
    {},
    {"private_threads": 1},
    {"private_threads": len(os.sched_getaffinity(0))},
    {"ram_budget_mib": 64},
    {"prefetch_batches": 2},
    {"prefetch_batches": 32},
)


def train(
    read: Callable[..., Any],
    *,
    network: str,
    options: GpuOptions,
    reading: Mapping[str, Any] | None = None,
    is_limit: bool = False,
    **step: Any,
) -> Measured:
    """Trains a network, then goes on with one batch that is already there, and compares the steps.

    Args:
        read: Reader of row Examples or packed records.
        network: Name in `NETWORKS`.
        options: Data and seconds.
        reading: Options of `Input.rows`.
        is_limit: Whether all steps have the same batch.
        step: One of `STEP_OPTIONS`.
    """
    import keras
    import tensorflow as tf

    chosen, gpus = NETWORKS[network], tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, step.get("gpu_memory_growth", True))
    keras.mixed_precision.set_global_policy(step.get("mixed_precision", "float32"))
    batches = chosen.batches(read, options, **reading or {})
    batches = first_batch(batches) if is_limit else batches
    if step.get("prefetch_to_device") and gpus:
        batches = batches.apply(tf.data.experimental.prefetch_to_device("/GPU:0"))
    model = chosen.make()
    model.jit_compile = step.get("xla", False)
    calls = step.get("steps_per_execution", chosen.steps_a_call)
    found = training.steady(model, batches, chosen.batch, options.seconds, steps_a_call=calls)
    alone = training.steady(
        model, first_batch(batches), chosen.batch, options.seconds / 2, steps_a_call=calls
    )
    step_ms, least_ms = (
        1000 * one.wall_seconds / one.rows * chosen.batch for one in (found, alone)
    )
    extra = {
        "step, ms": step_ms,
        "on one batch, ms": least_ms,
        "idle, %": max(0.0, 100 * (1 - least_ms / step_ms)),
    }
    return replace(found, extra={**extra, **_device(batches, found.rows / found.wall_seconds)})


def _device(batches: Any, rows_per_second: float) -> dict[str, float]:
    """Returns the bytes copied per second, the time to copy a batch, and the GPU's peak memory."""
    import tensorflow as tf

    batch = tf.nest.flatten(next(iter(batches)))
    size = sum(int(tf.size(one)) * one.dtype.size for one in batch)
    copied = {"copied, GB/s": rows_per_second * size / int(batch[0].shape[0]) / 1e9}
    if not gpu_names():
        return copied
    began = time.perf_counter()
    for _ in range(20):
        with tf.device("/GPU:0"):
            sums = [tf.reduce_sum(tf.cast(tf.identity(one), tf.float32)) for one in batch]
    [float(one) for one in sums]
    peak = tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20
    return {**copied, "copy a batch, ms": 50 * (time.perf_counter() - began), "GPU, MiB": peak}


def verdict(read: Callable[..., Any], *, network: str, options: GpuOptions) -> Measured:
    """Trains by Penstock; the extra figure is the verdict that the training ends with."""
    from penstock.components.trainer.loop import train as train_model
    from penstock.components.trainer.options import TrainOptions

    chosen = NETWORKS[network]
    steps = 20 * chosen.steps_a_call
    how = TrainOptions(max_steps=steps)
    words: list[str] = []

    def work() -> int:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            data = chosen.batches(read, options)
            trained = train_model(chosen.make, data, options=how, model_run_dir=folder)
        words.append(trained.record.verdict)
        return steps * chosen.batch

    found = measure(work)
    return replace(found, extra={"verdict": words[0]})


def prepare(options: GpuOptions) -> None:
    """Makes the table and the images, unless they exist."""
    units = {group.unit for group in groups(options)}
    if "rows" in units:
        table.prepare(options.rows)
    if "images" in units:
        need("PIL")
        photos.prepare(options.images, image_size())


def groups(options: GpuOptions) -> list[Group]:
    """Inputs of each network, options of the step and options of the input."""
    return [group for group in _groups(options) if options.only in group.title]


def _groups(options: GpuOptions) -> list[Group]:
    found = []
    for name, network in NETWORKS.items():
        given = {"network": name, "options": options}
        ways = {one: bound(train, read, **given) for one, read in network.inputs.items()}
        ways[LIMIT] = bound(train, network.inputs[PACKED], is_limit=True, **given)
        check = Check(claims.DEVICE_NEVER_WAITS, PACKED, [LIMIT], "per_second")
        found.append(Group(f"Inputs: {name}", network.unit, ways, [check]))
        says = {one: bound(verdict, read, **given) for one, read in network.inputs.items()}
        found.append(Group(f"Verdicts: {name}", network.unit, says))
    for name in (SHORT_TABLE, LONG_IMAGES):
        ways = {
            _named(one): bound(train, NETWORKS[name].inputs[PACKED], network=name, options=options,
                               **one)
            for one in STEP_OPTIONS
        }  # fmt: skip
        found.append(Group(f"Options of the step: {name}", NETWORKS[name].unit, ways))
    ways = {
        _named(one): partial(train, table.row_examples, network=SHORT_TABLE, options=options,
                             reading=one)
        for one in INPUT_OPTIONS
    }  # fmt: skip
    return [*found, Group(f"Options of the input: {SHORT_TABLE}", "rows", ways)]


def _named(options: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={value}" for key, value in options.items()) or "as it comes"


def setting(options: GpuOptions) -> list[str]:
    """The device and the data."""
    return [
        "the first device: see the machine; without a GPU the networks are small, share the cores "
        "with their input, and a GPU's figures will differ",
        f"{options.rows:,} rows of 40 columns in batches of {table.BATCH}, {options.images:,} JPEG "
        f"photos of 375 x 500 in batches of {photos.BATCH}; files are in the page cache",
        f"{options.rounds} rounds of {options.seconds:g} s of steady steps, each a process "
        "of its own, in turn; idle is the time beyond the same steps on one batch that is there",
    ]
