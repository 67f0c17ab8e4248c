"""Measures what share of the time the device waits for each input.

The waiting time is the time by which the steps take longer than the same steps on one stored batch.
Without a GPU, the networks are small and share the cores with their input. The benchmark takes some
ten minutes. On a new GPU, run it before the other benchmarks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.benchmarks import claims, ladder, photos, table, training
from penstock.benchmarks.harness import Check, Group, Measured, at_least, bound
from penstock.benchmarks.training import first_batch, gpu_names
from penstock.components.errors import UsageError

NAIVE, ROWS, PACKED, LIMIT = "naive", "row Examples", "packed", "one batch"
SHORT_TABLE, LONG_TABLE = "a table, short steps", "a table, long steps"
SHORT_IMAGES, LONG_IMAGES = "images, short steps", "images, long steps"


@dataclass(frozen=True)
class Options:
    """Tables and images to train on, and the number of rounds.

    Attributes:
        rows: Rows of the generated table of 40 columns.
        images: Generated JPEG photos of 375 or 333 x 500.
        seconds: Duration of the measured steady steps of each training.
        rounds: Number of runs of each training.
        only: Text in the titles of the comparisons to run; if it is empty, all run.
    """

    rows: int = 131_072
    images: int = 512
    seconds: float = 3.0
    rounds: int = 1
    only: str = ""

    def __post_init__(self) -> None:
        rows, images = (table.BATCH, table.BATCH), (photos.BATCH, photos.BATCH)
        at_least(self, rows=rows, images=images, rounds=1, seconds=0)
        if not groups(self):
            raise UsageError(f"no comparison has {self.only!r} in its title")


def image_size() -> int:
    """Returns the height and width of the images that networks get."""
    return 224 if gpu_names() else 96


def _table_units(short: bool) -> int:
    if gpu_names():
        return 256 if short else 8192
    return 64 if short else 512


def _images(read: Callable[..., Any], options: Options) -> Any:
    return read(photos.root_of(options.images), image_size()).map(training.image_and_label)


def _table(read: Callable[..., Any], options: Options) -> Any:
    return training.table_batches(read, table.root_of(options.rows))


@dataclass(frozen=True)
class Network:
    """A network whose steps all take the same time, and the readers that feed it."""

    unit: str
    batch: int
    steps_a_call: int
    make: Callable[[], Any]
    inputs: Mapping[str, Callable[..., Any]]
    batches: Callable[..., Any]


def naive(root: Path) -> Any:
    """One `parse_single_example` after another, without prefetching or shuffling."""
    return ladder.naive(ladder.table_input(root))


_TABLE = {NAIVE: naive, ROWS: table.row_examples, PACKED: table.packed}
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


def train(
    read: Callable[..., Any],
    *,
    network: str,
    options: Options,
    is_limit: bool = False,
) -> Measured:
    """Trains a network on a reader and then on one stored batch, and compares the step times.

    Args:
        read: One of the readers in the network's `inputs`.
        network: Name in `NETWORKS`.
        options: Sizes of the data, and duration of the measured steps.
        is_limit: Whether all steps use the same batch.
    """
    import tensorflow as tf

    chosen = NETWORKS[network]
    for gpu in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(gpu, enable=True)
    batches = chosen.batches(read, options)
    batches = first_batch(batches) if is_limit else batches
    model = chosen.make()
    model.jit_compile = False
    found, alone = (
        training.steady(model, data, chosen.batch, seconds, steps_a_call=chosen.steps_a_call)
        for data, seconds in (
            (batches, options.seconds), (first_batch(batches), options.seconds / 2)
        )
    )  # fmt: skip
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
    """Returns the GB of input copied per second and, with a GPU, its peak memory in MiB."""
    import tensorflow as tf

    batch = tf.nest.flatten(next(iter(batches)))
    size = sum(int(tf.size(one)) * one.dtype.size for one in batch)
    copied = {"copied, GB/s": rows_per_second * size / int(batch[0].shape[0]) / 1e9}
    if not gpu_names():
        return copied
    peak = tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20
    return {**copied, "GPU, MiB": peak}


def prepare(options: Options) -> None:
    """Makes the table and the images, unless they exist."""
    units = {group.unit for group in groups(options)}
    if "rows" in units:
        table.prepare(options.rows)
    if "images" in units:
        photos.prepare(options.images, image_size())


def groups(options: Options) -> list[Group]:
    """Returns a comparison of inputs for each network."""
    return [group for group in _groups(options) if options.only in group.title]


def _groups(options: Options) -> list[Group]:
    found = []
    for name, network in NETWORKS.items():
        given = {"network": name, "options": options}
        ways = {one: bound(train, read, **given) for one, read in network.inputs.items()}
        ways[LIMIT] = bound(train, network.inputs[PACKED], is_limit=True, **given)
        check = Check(claims.DEVICE_NEVER_WAITS, PACKED, [LIMIT], "per_second")
        found.append(Group(f"Inputs: {name}", network.unit, ways, [check]))
    return found
