"""Trains a network on photos, from JPEG files by a Python generator and from TFRecords.

A second comparison only reads images, at 299 x 299: by a PIL loop and from packed records.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.benchmarks import claims, photos, training
from penstock.benchmarks.harness import Check, Group, Measured, at_least, bound, measure
from penstock.benchmarks.training import read_in_python

GENERATOR, ROWS, PACKED, ONE_BATCH = (
    "Python generator", "row Examples", "packed", "one cached batch",
)  # fmt: skip
PIL_LOOP = "PIL loop"


@dataclass(frozen=True)
class Options:
    """Network, images and number of rounds.

    Attributes:
        images: Number of generated JPEG photos, 375 or 333 x 500 pixels each.
        size: Height and width of the network's images.
        filters: Number of filters in the first of three convolutions, which determines the time of
            a step.
        network: A network of `keras.applications`, with random weights, that replaces the
            convolutions; for example InceptionResNetV2, whose default image size is 299.
        seconds: Time for which each contender trains, and reads, in each round.
        rounds: How often each contender runs.
    """

    images: int = 1024
    size: int = 128
    filters: int = 16
    network: str | None = None
    seconds: float = 8.0
    rounds: int = 3

    def __post_init__(self) -> None:
        at_least(self, images=(photos.BATCH, photos.BATCH), size=16, filters=1, rounds=1, seconds=0)


def one_batch(root: Path, size: int) -> Any:
    """Repeats the first packed batch at no cost, so no other input can be faster."""
    return training.first_batch(photos.packed(root, size))


INPUTS: dict[str, Callable[[Path, int], Any]] = {
    GENERATOR: photos.generator,
    ROWS: photos.jpeg_rows,
    PACKED: photos.packed,
    ONE_BATCH: one_batch,
}
READERS: dict[str, Callable[[Path], Any]] = {
    PIL_LOOP: photos.pil_loop,
    PACKED: photos.packed,
}


def _train(way: Callable[..., Any], options: Options) -> Measured:
    batches = way(photos.root_of(options.images), options.size).map(training.image_and_label)
    model = training.image_model(options.size, options.filters, options.network)
    return training.steady(model, batches, photos.BATCH, options.seconds, steps_a_call=4)


def _read(way: Callable[..., Any], options: Options) -> Measured:
    root = photos.root_of(options.images)
    batches = iter(way(root))
    photos.check(batches, options.images, root, pixels=way is photos.packed)
    return measure(lambda: read_in_python(batches, options.seconds))


def prepare(options: Options) -> None:
    """Makes the photos in all forms, unless they exist."""
    photos.prepare(options.images, options.size)


def groups(options: Options) -> list[Group]:
    """Returns the comparisons of training, and of reading alone."""
    by = "per_second"
    checks = [
        *(Check(claims.IMAGES_TRAIN_FASTER, name, [GENERATOR], by) for name in (ROWS, PACKED)),
        *(Check(claims.EPOCHS_FASTER, name, [GENERATOR], by) for name in (ROWS, PACKED)),
        Check(claims.PACKED_NEAR_LIMIT, PACKED, [ONE_BATCH], by),
    ]
    trained = {name: bound(_train, way, options=options) for name, way in INPUTS.items()}
    read = {name: bound(_read, way, options=options) for name, way in READERS.items()}
    return [
        Group("Training, steady steps", "images", trained, checks),
        Group(f"Reading alone, to {photos.SIZE} x {photos.SIZE}", "images", read,
              [Check(claims.PACKED_IMAGES_15, PACKED, [PIL_LOOP])]),
    ]  # fmt: skip
