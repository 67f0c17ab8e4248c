"""A network trained on photos: from JPEG files by a Python generator, and from TFRecords.

penstock bench images
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from penstock.benchmarks import claims, packed_images, questions
from penstock.benchmarks.harness import Measured, in_turn, median, peak_mib_now, runs_in_turn
from penstock.benchmarks.outcome import (
    Comparison,
    Contender,
    Distribution,
    FactTable,
    Outcome,
    Track,
)
from penstock.components.errors import UsageError, counted

BATCH_SIZE = packed_images.BATCH_SIZE
GENERATOR, ROWS, PACKED, ONE_BATCH = (
    "Python generator", "row Examples", "packed", "one cached batch",
)  # fmt: skip

_LEAST_STEPS = 4

Run = dict[str, Any]


@dataclass(frozen=True)
class ImageTrainingOptions:
    """What is trained, on what, and how often.

    Attributes:
        images: Made JPEG photos of 375 x 500, or as many of your own.
        size: Height and width that the network gets.
        filters: Of the first of its three convolutions: how long a step takes.
        data: Folder of your own JPEG and PNG files, a folder a class; none makes photos.
        network: One of `keras.applications` in place of the convolutions, with random weights, as
            `inception_resnet_v2`, whose own size is 299.
        epochs: Of each training.
        rounds: How often each contender trains.
    """

    images: int = 1024
    size: int = 128
    filters: int = 16
    data: str | None = None
    network: str | None = None
    epochs: int = 5
    rounds: int = 3

    def __post_init__(self) -> None:
        if self.images < 1 or self.images % BATCH_SIZE:
            raise UsageError(f"images must be a multiple of {BATCH_SIZE}, got {self.images}")
        if min(self.filters, self.epochs, self.rounds) < 1 or self.size < 16:
            raise UsageError(
                "filters, epochs and rounds must be at least 1 and size at least 16, got "
                f"{self.filters}, {self.epochs}, {self.rounds} and {self.size}"
            )
        steps = self.epochs * self.images // BATCH_SIZE
        if steps < _LEAST_STEPS:
            raise UsageError(
                f"{counted(self.epochs, 'epoch')} of {self.images} images are "
                f"{counted(steps, 'step')}; expected at least {_LEAST_STEPS}, "
                "for the first is not measured: give more epochs"
            )


def generator(root: Path, size: int) -> Any:
    """JPEG files opened, decoded and resized by PIL in a generator, batches ahead as in Keras."""
    import tensorflow as tf

    signature = {
        "image": tf.TensorSpec([None, size, size, 3], tf.uint8),
        "label": tf.TensorSpec([None], tf.int64),
    }
    batches = tf.data.Dataset.from_generator(
        lambda: packed_images.pil_loop(root, size), output_signature=signature
    )
    return batches.prefetch(tf.data.AUTOTUNE)


def row_examples(root: Path, size: int) -> Any:
    """The same JPEG in TFRecords: interleaved, decoded and resized in parallel, prefetched."""
    return packed_images.jpeg_rows(root, size)


def packed(root: Path, size: int) -> Any:
    """Pixels decoded once, when packed; `Input.packed`."""
    return packed_images.packed(root, size)


def one_batch(root: Path, size: int) -> Any:
    """The first of these for ever: input that costs nothing, the limit."""
    return packed(root, size).take(1).cache().repeat().prefetch(2)


CONTENDERS: dict[str, Callable[[Path, int], Any]] = {
    GENERATOR: generator,
    ROWS: row_examples,
    PACKED: packed,
    ONE_BATCH: one_batch,
}


def make_model(size: int, filters: int, network: str | None = None, classes: int = 10) -> Any:
    """Three convolutions of stride 2 over uint8 pixels, or a network of `keras.applications`."""
    import keras

    keras.utils.set_random_seed(0)
    image = keras.Input((size, size, 3), dtype="uint8")
    if network is not None:
        from penstock.components.trainer.images.applications import ApplicationBase

        base = ApplicationBase(network, height=size, width=size, weights=None, trainable=True)
        hidden = base(keras.ops.cast(image, "float32"))
    else:
        hidden = keras.layers.Rescaling(1 / 127.5, offset=-1)(image)
        for widths in (1, 2, 4):
            hidden = keras.layers.Conv2D(widths * filters, 3, strides=2, activation="relu")(hidden)
        hidden = keras.layers.GlobalAveragePooling2D()(hidden)
    model = keras.Model(image, keras.layers.Dense(classes, dtype="float32")(hidden))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss)
    return model


def application(network: str | None) -> str | None:
    """Keras' own name of a network: `InceptionResNetV2` of `inception_resnet_v2`."""
    if network is None:
        return None
    from penstock.components.trainer.images.applications import application_names, check_application

    plain = network.replace("_", "").lower()
    name = next((one for one in application_names() if one.lower() == plain), network)
    check_application(name)
    return name


def prepare(options: ImageTrainingOptions) -> None:
    """Make the photos, their row Examples and their pixels packed, unless they are there."""
    application(options.network)
    root = packed_images.prepare(questions.data_folder(), options.images, options.data)
    packed_images.pack_images(root, options.size)


def run(options: ImageTrainingOptions) -> Outcome:
    """Train by all contenders in turn."""
    began = time.perf_counter()
    questions.need("PIL")
    if options.data is not None:
        own = len(packed_images.own_pictures(options.data))
        options = replace(options, images=min(options.images, own))
    questions.prepare(__file__, options)
    arguments = questions.job_arguments(**asdict(options))
    runs = runs_in_turn(__file__, [(name, arguments) for name in CONTENDERS], options.rounds)
    contenders = [
        Contender.of(
            name,
            median([Measured(**one["measured"]) for one in runs[name]]),
            questions.first_line(CONTENDERS[name]),
        )
        for name in CONTENDERS
    ]
    found = Comparison("Training, steady steps", "images", contenders)
    read = _read(options)
    return Outcome(
        question="images",
        title="Training on images: JPEG files or TFRecords",
        setting=_setting(options),
        comparisons=[found, read],
        facts=_facts(runs),
        tracks=[
            Track(name, **track) for name, some in runs.items() for track in some[-1]["tracks"]
        ],
        distributions=[
            Distribution(name, what, [value for one in some for value in one[key]])
            for what, key in (("batches", "batch_ms"), ("epochs", "epoch_ms"))
            for name, some in runs.items()
        ],
        verdicts=_verdicts(found, read),
        seconds=time.perf_counter() - began,
    )


def _read(options: ImageTrainingOptions) -> Comparison:
    """The same without a network: a claim of Penstock's is of the reading alone."""
    root = _root(options)
    ways = packed_images.CONTENDERS
    contenders = [(name, ["--root", str(root)]) for name in ways]
    results = in_turn(packed_images.__file__, contenders, options.rounds)
    return Comparison(
        f"Reading alone, to {packed_images.SIZE} x {packed_images.SIZE}",
        "images",
        [
            Contender.of(name, one, questions.first_line(ways[name]))
            for name, one in results.items()
        ],
    )


def _facts(runs: dict[str, list[Run]]) -> list[FactTable]:
    from statistics import median as middle

    def of(some: list[Run], key: str) -> float:
        return middle(one[key] for one in some)

    has_gpu = any(one["gpu_busy"] is not None for some in runs.values() for one in some)
    headers = ["Contender", "Seconds an epoch", "Input's of a step, %", "CPU busy, %"]
    rows = [
        [
            name,
            middle(ms for one in some for ms in one["epoch_ms"]) / 1000,
            100 * of(some, "input_share"),
            100 * of(some, "cpu_share"),
            *([100 * of(some, "gpu_busy")] if has_gpu else []),
        ]
        for name, some in runs.items()
    ]
    limits = [(name, some[-1]["limit"]) for name, some in runs.items()]
    return [
        FactTable("Epochs", [*headers, *(["GPU busy, %"] if has_gpu else [])], rows),
        FactTable("What limits each", ("Contender", "In a sentence"), limits),
    ]


def _verdicts(found: Comparison, read: Comparison) -> list[claims.Judgement]:
    loop, pixels = packed_images.PIL_LOOP, packed_images.PACKED
    verdicts = [
        claims.judge(
            claim, found.rate_ratio(name, to=base), f"training, images/s, {name} to {base}"
        )
        for claim, name, base in (
            (claims.IMAGES_TRAIN_FASTER, ROWS, GENERATOR),
            (claims.IMAGES_TRAIN_FASTER, PACKED, GENERATOR),
            (claims.EPOCHS_FASTER, ROWS, GENERATOR),
            (claims.EPOCHS_FASTER, PACKED, GENERATOR),
            (claims.PACKED_NEAR_LIMIT, PACKED, ONE_BATCH),
        )
    ]
    how = f"reading, CPU time an image, {loop} to {pixels}"
    reading = claims.judge(claims.PACKED_IMAGES_15, read.cpu_ratio(pixels, to=loop), how)
    return [*verdicts, reading]


def _root(options: ImageTrainingOptions) -> Path:
    return packed_images.root_of(questions.data_folder(), options.images, options.data)


def _setting(options: ImageTrainingOptions) -> list[str]:
    pictures = f"pictures of {options.data}"
    if options.data is None:
        pictures = "made JPEG photos of 375 x 500 and 85 KB"
    network = f"{options.network} of keras.applications with random weights"
    if options.network is None:
        filters = options.filters
        network = f"three convolutions of {filters}, {2 * filters} and {4 * filters} filters"
    return [
        f"{options.images:,} {pictures}, resized to {options.size} x {options.size}, in shuffled "
        f"batches of {BATCH_SIZE}",
        f"the network: {network}, trained by Penstock's loop whatever the input",
        f"{options.epochs} epochs, {options.rounds} rounds, each contender a process of its own, "
        "in turn; medians, without the first step, which compiles; curves are of the last round",
        "files are in the page cache: this is the cost of decoding, not of the disk",
    ]


def _contend(name: str, job: dict[str, Any]) -> Run:
    from penstock.components.trainer.loop import train
    from penstock.components.trainer.options import TrainOptions
    from penstock.components.trainer.utilisation.verdict import bottleneck, input_gain

    options = ImageTrainingOptions(**job)
    root = _root(options)
    classes = len(list((root / "files").iterdir()))
    network = application(options.network)
    batches = CONTENDERS[name](root, options.size).map(image_and_label)
    steps = options.images // BATCH_SIZE
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        trained = train(
            lambda: make_model(options.size, options.filters, network, classes),
            batches,
            options=TrainOptions(epochs=options.epochs, max_steps=None, steps_per_epoch=steps),
            model_run_dir=folder,
        )
    used = trained.utilisation
    gain = input_gain(used)
    wall = sum(epoch.step_seconds for epoch in used.epochs)
    measured = Measured(
        BATCH_SIZE * sum(epoch.steps for epoch in used.epochs),
        wall,
        sum(epoch.cpu_seconds for epoch in used.epochs),
        peak_mib_now(),
    )
    return {
        "measured": asdict(measured),
        "tracks": _tracks(used),
        "batch_ms": [1000 * seconds for seconds in used.batches.seconds],
        "epoch_ms": [1000 * e.step_seconds * steps / e.steps for e in used.epochs if e.steps],
        "input_share": gain.share if gain else 0.0,
        "cpu_share": used.cpu_share,
        "gpu_busy": used.gpu_busy_share,
        "limit": bottleneck(trained.record, used),
    }


def image_and_label(batch: dict[str, Any]) -> tuple[Any, Any]:
    """What `train` takes, of a batch by name."""
    import tensorflow as tf

    return batch["image"], tf.reshape(batch["label"], [-1])


def _tracks(used: Any) -> list[dict[str, Any]]:
    """What `Track` takes, without the contender."""
    machine = used.machine
    tracks = [
        ("CPU, cores", machine.process_cores, used.cores),
        ("memory, GiB", [mib / 1024 for mib in machine.memory_mib], None),
    ]
    for gpu in machine.gpus:
        tracks.append((f"GPU {gpu.index}, % busy", [100 * s for s in gpu.busy_share], 100.0))
        tracks.append(
            (f"GPU {gpu.index} memory, GiB", [mib / 1024 for mib in gpu.memory_mib], None)
        )
    return [
        {"name": name, "seconds": list(machine.seconds), "values": list(values), "limit": limit}
        for name, values, limit in tracks
    ]


if __name__ == "__main__":
    questions.answer_child(ImageTrainingOptions, prepare, _contend)
