"""Shuffled batches of images: a PIL loop, JPEG in TFRecords, packed pixels, a memory map.

Claim, CPU time a photo of 375 x 500 to 299 x 299: packed at least 15 times a loop that opens,
decodes and resizes with PIL. A memory map of the decoded pixels, of which images are picked at
random, is the limit. Each contender first proves that a pass of it has every image once: the
labels, and for those that read the same pixels the pixels, are summed and checked.

    python benchmarks/packed_images.py                    about 3 minutes
    python benchmarks/packed_images.py --images 256 --rounds 1
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from penstock.benchmarks import made_photos, script
from penstock.benchmarks.harness import Measured, measure
from penstock.benchmarks.make_once import make_once
from penstock.benchmarks.reading import read_in_python
from penstock.components.errors import UsageError

BATCH_SIZE = 32
SIZE = 299
SECONDS = 4.0
SHARDS = 8
WINDOW_IMAGES = 256
PIL_LOOP, PACKED = "PIL loop", "packed"


def prepare(folder: Path, images: int, data: str | None = None) -> Path:
    """The photos, made ones or your own: as files, as rows of JPEG, packed, and as one array."""

    def make(part: Path) -> None:
        part.mkdir()
        if data is None:
            (part / "files").symlink_to(made_photos.photos(folder, images).resolve())
        else:
            _link(own_pictures(data)[:images], Path(data).resolve(), part / "files")
        _write_rows(part / "rows" / "Split-train", sorted((part / "files").glob("*/*.jpg")))
        pack_images(part, SIZE)
        _write_arrays(part, images)

    return make_once(root_of(folder, images, data), make)


def root_of(folder: Path, images: int, data: str | None = None) -> Path:
    """Where `prepare` makes them; other pictures, other folders."""
    kind = "named"
    if data is not None:
        files = [(str(file), file.stat().st_mtime) for file in own_pictures(data)]
        kind = "own-" + hashlib.sha256(repr(files).encode()).hexdigest()[:16]
    return folder / f"packed-{kind}-images-{images}"


def own_pictures(data: str) -> list[Path]:
    """JPEG and PNG files below a folder that has a folder a class, as many as fill batches.

    Raises:
        UsageError: They fill none.
    """
    kinds = (".jpg", ".jpeg", ".png")
    files = [one for one in Path(data).resolve().glob("*/**/*") if one.suffix.lower() in kinds]
    # By digest, for any number of them to be of all classes, and the same each time.
    files.sort(key=lambda one: hashlib.sha256(str(one).encode()).digest())
    if len(files) < BATCH_SIZE:
        raise UsageError(
            f"{data}: {len(files)} JPEG or PNG files in folders of it; expected a folder a class "
            f"and at least {BATCH_SIZE} files"
        )
    return files[: len(files) // BATCH_SIZE * BATCH_SIZE]


def _link(files: list[Path], data: Path, folder: Path) -> None:
    """The files by the names that the made photos have: `classN/NUMBER.jpg`."""
    labels = [file.relative_to(data).parts[0] for file in files]
    classes = sorted(set(labels))
    for number, (file, label) in enumerate(zip(files, labels, strict=True)):
        link = folder / f"class{classes.index(label)}" / f"{number:06d}.jpg"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)


def _write_rows(folder: Path, files: list[Path]) -> None:
    import tensorflow as tf

    folder.mkdir(parents=True)
    for shard in range(SHARDS):
        with tf.io.TFRecordWriter(
            str(folder / f"data_tfrecord-{shard:05d}-of-{SHARDS:05d}")
        ) as out:
            for path in files[shard::SHARDS]:
                # The texts are what an ingest of images writes beside them.
                row = tf.train.Example()
                feature = row.features.feature
                feature["image"].bytes_list.value.append(path.read_bytes())
                feature["label"].int64_list.value.append(made_photos.label_of(path))
                feature["filename"].bytes_list.value.append(path.name.encode())
                feature["format"].bytes_list.value.append(b"jpeg")
                out.write(row.SerializeToString())


def pack_images(root: Path, size: int) -> Path:
    """The row Examples below `root` as packed pixels of that height and width."""
    from penstock.components.packing.options import ImageColumn, PackOptions
    from penstock.components.packing.pack import pack

    columns = (ImageColumn("image", (size, size)),)
    packed = root / f"packed-{size}"
    if not packed.exists():
        pack(str(root / "rows"), packed, PackOptions(images=columns))
    return packed


def _write_arrays(root: Path, images: int) -> None:
    """What a memory map reads, and the sums of it that a pass is held against."""
    import numpy as np

    from penstock.components.trainer.input.input import Input
    from penstock.components.trainer.input.options import InputOptions

    batches = Input.packed(
        str(root / f"packed-{SIZE}"), options=InputOptions(batch_size=BATCH_SIZE)
    ).eval(split="train")
    shape = (images, SIZE, SIZE, 3)
    pixels = np.lib.format.open_memmap(root / "pixels.npy", "w+", np.uint8, shape)
    labels = np.empty(images, np.int64)
    for number, batch in enumerate(batches):
        place = slice(number * BATCH_SIZE, (number + 1) * BATCH_SIZE)
        pixels[place], labels[place] = batch["image"], batch["label"][:, 0]
    pixels.flush()
    np.save(root / "labels.npy", labels)
    sums = {"labels": int(labels.sum()), "pixels": int(pixels.sum(dtype=np.int64))}
    (root / "sums.json").write_text(json.dumps(sums))


def pil_loop(root: Path, size: int = SIZE) -> Iterator[dict[str, Any]]:
    """A Python generator: open, decode, resize, stack."""
    import random

    import numpy as np
    from PIL import Image

    files = sorted((root / "files").glob("*/*.jpg"))
    while True:
        random.shuffle(files)
        for start in range(0, len(files), BATCH_SIZE):
            some = files[start : start + BATCH_SIZE]
            pixels = np.empty((len(some), size, size, 3), np.uint8)
            for row, path in enumerate(some):
                image = Image.open(path).convert("RGB")
                pixels[row] = image.resize((size, size), Image.Resampling.BILINEAR)
            yield {"image": pixels, "label": np.array([*map(made_photos.label_of, some)])}


def jpeg_parser(size: int) -> tuple[dict[str, Any], Callable[[Any], Any]]:
    """The specification of a row, and what makes pixels of that height and width of it."""
    import tensorflow as tf

    spec = {
        "image": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
    }

    def decode(record: Any) -> Any:
        row = tf.io.parse_single_example(record, spec)
        image = tf.image.resize(tf.io.decode_jpeg(row["image"], channels=3), (size, size))
        return {"image": tf.cast(image, tf.uint8), "label": row["label"]}

    return spec, decode


def jpeg_rows(root: Path, size: int = SIZE) -> Any:
    """JPEG in TFRecords, interleaved, decoded and resized in parallel."""
    import tensorflow as tf

    _, decode = jpeg_parser(size)
    files = tf.data.Dataset.list_files(str(root / "rows" / "Split-train" / "*"))
    records = files.interleave(
        tf.data.TFRecordDataset, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    rows = records.shuffle(WINDOW_IMAGES).map(
        decode, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )  # fmt: skip
    # Repeated behind the map: an image of the next pass must not overtake one of this.
    return rows.batch(BATCH_SIZE).repeat().prefetch(2)


def packed(root: Path, size: int = SIZE) -> Any:
    """`Input.packed` with a window of 256 images."""
    from penstock.components.trainer.input.input import Input
    from penstock.components.trainer.input.options import InputOptions

    options = InputOptions(
        batch_size=BATCH_SIZE, shuffle_window_rows=WINDOW_IMAGES, prefetch_batches=2
    )
    return Input.packed(str(root / f"packed-{size}"), options=options).train()


def memory_map(root: Path) -> Any:
    """Images picked from a mapped array in a new order each pass."""
    import numpy as np
    import tensorflow as tf

    from penstock.components.trainer.input.common import python_op

    pixels = np.load(root / "pixels.npy", mmap_mode="r")
    labels = np.load(root / "labels.npy")

    def pick(rows: Any) -> Any:
        image, label = python_op(lambda r: [pixels[r], labels[r]], [rows], [tf.uint8, tf.int64])
        return {"image": tf.ensure_shape(image, [BATCH_SIZE, SIZE, SIZE, 3]), "label": label}

    order = tf.data.Dataset.range(len(labels)).shuffle(len(labels)).repeat().batch(BATCH_SIZE)
    # In order: a batch of the next pass must not overtake one of this.
    return order.map(pick, num_parallel_calls=2).prefetch(2)


CONTENDERS: dict[str, Callable[[Path], Any]] = {
    PIL_LOOP: pil_loop,
    "JPEG in TFRecords": jpeg_rows,
    PACKED: packed,
    "memory map": memory_map,
}


def _child(name: str, root: Path) -> Measured:
    batches = iter(CONTENDERS[name](root))
    check(name, batches, int(root.name.rpartition("-")[2]), root)
    return measure(lambda: read_in_python(batches, SECONDS))


def check(name: str, batches: Any, images: int, root: Path) -> None:
    """Hold the first pass against the sums of all images."""
    import numpy as np

    sums = json.loads((root / "sums.json").read_text())
    labels = pixels = 0
    for _ in range(images // BATCH_SIZE):
        batch = next(batches)
        labels += int(np.sum(batch["label"]))
        if name in (PACKED, "memory map"):
            pixels += int(np.sum(batch["image"], dtype=np.int64))
    if labels != sums["labels"] or pixels not in (0, sums["pixels"]):
        raise SystemExit(f"a pass sums to {labels} and {pixels}, the images to {sums}")


if __name__ == "__main__":
    script.main(
        CONTENDERS, _child, prepare, unit="images", count=1024, multiple_of=BATCH_SIZE,
        title=f"Shuffled batches of {BATCH_SIZE}, {{}} JPEG images to {SIZE} x {SIZE}",
        base=PIL_LOOP,
    )  # fmt: skip
