"""Generated photos in ten classes, JPEG of 85 KB and 500 pixels wide, and the ways to read them.

The photos are noise whose energy falls with frequency as in real photos, so that a JPEG has the
size and the decoding time of a photo. `prepare` writes them as files, as row Examples of JPEG, as
packed pixels and as one array. It also writes the sums of all labels and pixels, with which `check`
compares a reader's first pass.
"""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.benchmarks.harness import data_folder, make_once
from penstock.components.errors import DataError

if TYPE_CHECKING:
    import numpy as np

CLASSES = 10
QUALITY = 90
WIDTH = 500
BATCH = 32
SIZE = 299
SHARDS = 8
WINDOW = 256


def root_of(images: int) -> Path:
    """Returns the folder in which `prepare` writes the photos."""
    return data_folder() / f"photos-{images}"


def prepare(images: int, *sizes: int) -> Path:
    """Writes the photos in all forms, packed at `SIZE` and each of `sizes`, unless they exist."""

    def make(part: Path) -> None:
        make_photos(part / "files", images)
        _write_rows(part)
        _pack(part, SIZE)
        _write_arrays(part, images)

    root = make_once(root_of(images), make)
    for size in sizes:
        _pack(root, size)
    return root


def make_photos(folder: Path, count: int) -> None:
    """Writes `classN/NUMBER.jpg` with aspect ratios of 4:3 and 3:2."""
    import numpy as np
    from PIL import Image

    rng = np.random.default_rng(0)
    colours = [np.stack([_field(a, rng) for _ in range(3)], axis=-1) for a in (1.0, 1.3, 1.6)]
    lights = [_field(a, rng)[..., None] for a in (0.9, 1.1, 1.3)]
    for number in range(count):
        height = WIDTH * 3 // 4 if number % 3 else WIDTH * 2 // 3
        image: Any = 22 * _part(colours[rng.integers(3)], height, rng)
        image = image + 38 * _part(lights[rng.integers(3)], height, rng) + rng.uniform(80, 160)
        image += rng.normal(size=(height, WIDTH, 1)) * rng.uniform(0, 6)
        file = folder / f"class{number % CLASSES}" / f"{number:06d}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.clip(image, 0, 255).astype(np.uint8)).save(file, quality=QUALITY)


def _field(falloff: float, rng: "np.random.Generator", side: int = 1024) -> "np.ndarray":
    """Returns noise of mean 0 and variance 1; its amplitude falls with a power of frequency."""
    import numpy as np

    spectrum = np.fft.rfft2(rng.normal(size=(side, side)))
    frequency = np.hypot(np.fft.fftfreq(side)[:, None], np.fft.rfftfreq(side)[None])
    frequency[0, 0] = 1
    field = np.fft.irfft2(spectrum / frequency**falloff, s=(side, side))
    scaled: np.ndarray = ((field - field.mean()) / field.std()).astype(np.float32)
    return scaled


def _part(field: "np.ndarray", height: int, rng: "np.random.Generator") -> "np.ndarray":
    top, left = rng.integers(len(field) - height), rng.integers(len(field) - WIDTH)
    return field[top : top + height, left : left + WIDTH]


def files_of(root: Path) -> list[Path]:
    """Returns the paths of the JPEG files."""
    return sorted((root / "files").glob("*/*.jpg"))


def label_of(photo: Path) -> int:
    """Returns the class of a photo from the name of its folder."""
    return int(photo.parent.name.removeprefix("class"))


def _write_rows(root: Path) -> None:
    import tensorflow as tf

    folder, files = root / "rows" / "Split-train", files_of(root)
    folder.mkdir(parents=True)
    for shard in range(SHARDS):
        name = f"data_tfrecord-{shard:05d}-of-{SHARDS:05d}"
        with tf.io.TFRecordWriter(str(folder / name)) as out:
            for path in files[shard::SHARDS]:
                row = tf.train.Example()
                feature = row.features.feature
                feature["image"].bytes_list.value.append(path.read_bytes())
                feature["label"].int64_list.value.append(label_of(path))
                out.write(row.SerializeToString())


def _pack(root: Path, size: int) -> None:
    import penstock
    from penstock.nodes import PackOptions
    from penstock.training import ImageColumn

    place = root / f"packed-{size}"
    if not place.exists():
        options = PackOptions(images=(ImageColumn("image", (size, size)),))
        penstock.pack(root / "rows", place, options)


def _write_arrays(root: Path, images: int) -> None:
    import numpy as np

    from penstock.training import Input, InputOptions

    source, options = str(root / f"packed-{SIZE}"), InputOptions(batch_size=BATCH)
    shape = (images, SIZE, SIZE, 3)
    pixels = np.lib.format.open_memmap(root / "pixels.npy", "w+", np.uint8, shape)
    labels = np.empty(images, np.int64)
    for number, batch in enumerate(Input.packed(source, options=options).eval(split="train")):
        place = slice(number * BATCH, (number + 1) * BATCH)
        pixels[place], labels[place] = batch["image"], batch["label"][:, 0]
    pixels.flush()
    np.save(root / "labels.npy", labels)
    sums = {"labels": int(labels.sum()), "pixels": int(pixels.sum(dtype=np.int64))}
    (root / "sums.json").write_text(json.dumps(sums))


def pil_loop(root: Path, size: int = SIZE) -> Iterator[dict[str, Any]]:
    """A Python generator that opens, decodes and resizes JPEG files with PIL."""
    import numpy as np
    from PIL import Image

    files = files_of(root)
    while True:
        random.shuffle(files)
        for start in range(0, len(files), BATCH):
            some = files[start : start + BATCH]
            pixels = np.empty((len(some), size, size, 3), np.uint8)
            for row, path in enumerate(some):
                image = Image.open(path).convert("RGB")
                pixels[row] = image.resize((size, size), Image.Resampling.BILINEAR)
            yield {"image": pixels, "label": np.array([*map(label_of, some)])}


def generator(root: Path, size: int = SIZE) -> Any:
    """Wraps the PIL loop in `from_generator` and prefetches its batches, as Keras does."""
    import tensorflow as tf

    signature = {
        "image": tf.TensorSpec([None, size, size, 3], tf.uint8),
        "label": tf.TensorSpec([None], tf.int64),
    }
    batches = tf.data.Dataset.from_generator(
        lambda: pil_loop(root, size), output_signature=signature
    )
    return batches.prefetch(tf.data.AUTOTUNE)


def jpeg_parser(size: int) -> Callable[[Any], Any]:
    """Returns a function that turns a record into pixels and a label."""
    import tensorflow as tf

    spec = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }

    def decode(record: Any) -> Any:
        row = tf.io.parse_single_example(record, spec)
        image = tf.image.resize(tf.io.decode_jpeg(row["image"], channels=3), (size, size))
        return {"image": tf.cast(image, tf.uint8), "label": row["label"]}

    return decode


def jpeg_rows(root: Path, size: int = SIZE) -> Any:
    """JPEG in TFRecords: interleaved, decoded and resized in parallel, prefetched."""
    import tensorflow as tf

    decode = jpeg_parser(size)
    parallel = {"num_parallel_calls": tf.data.AUTOTUNE, "deterministic": False}
    files = tf.data.Dataset.list_files(str(root / "rows" / "Split-train" / "*"))
    rows = files.interleave(tf.data.TFRecordDataset, **parallel).shuffle(WINDOW)
    # `repeat` comes after `map`, so that no image of the next pass overtakes one of this pass.
    return rows.map(decode, **parallel).batch(BATCH).repeat().prefetch(2)


def packed(root: Path, size: int = SIZE) -> Any:
    """Shuffled batches of `Input.packed`; the pixels were decoded when they were packed."""
    from penstock.training import Input, InputOptions

    options = InputOptions(batch_size=BATCH, shuffle_window_rows=WINDOW, prefetch_batches=2)
    return Input.packed(str(root / f"packed-{size}"), options=options).train()


def check(batches: Iterator[Any], images: int, root: Path, *, pixels: bool) -> None:
    """Raises DataError if the sums of a first pass differ from those of all images.

    The sum of the labels is always compared, that of the pixels only if `pixels` is true.
    """
    import numpy as np

    sums = json.loads((root / "sums.json").read_text())
    found = {"labels": 0, "pixels": 0 if pixels else sums["pixels"]}
    for _ in range(images // BATCH):
        batch = next(batches)
        found["labels"] += int(np.sum(batch["label"]))
        if pixels:
            found["pixels"] += int(np.sum(batch["image"], dtype=np.int64))
    if found != sums:
        raise DataError(f"a pass sums to {found}, the images to {sums}")
