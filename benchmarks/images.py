"""JPEG photos to batches of 299 x 299: a PIL loop, Keras from a folder, Penstock.

Claims, in CPU time an image, of photos of 500 x 375: against the PIL loop 1.6 times as fast from
the photos as they are, 4.5 times from JPEGs stored at 299 x 299, 9 times from pixels stored
decoded, the last two ahead of keras.utils.image_dataset_from_directory on JPEGs of 299; of photos
of 12 megapixels, with scaled_decode, 1.3 times as fast as Keras.

    python benchmarks/images.py                     about 15 minutes
    python benchmarks/images.py --images 500 --rounds 1
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from penstock.benchmarks import script
from penstock.benchmarks.harness import Measured, measure
from penstock.benchmarks.made_photos import QUALITY, WIDTH, photos
from penstock.benchmarks.make_once import make_once

BATCH_SIZE = 32
SIDE = 299
# Widths of larger photos, in batches so small that several are done in the time.
LARGE = (1600, 4000)
LARGE_BATCH_SIZE = 8
SECONDS = 6.0
WARM_UP_SECONDS = 2.0
LAYOUTS = {
    "bytes": ("--layout", "bytes"),
    # Of the quality of the photos.
    "resized": (
        *("--layout", "resized", "--size", str(SIDE), "--fit", "stretch"),
        *("--jpeg-quality", str(QUALITY)),
    ),
    "decoded": ("--layout", "decoded", "--size", str(SIDE), "--fit", "stretch"),
}
PIL = "PIL loop"
KERAS, KERAS_299 = "Keras from folder", "Keras from folder, 299"


def ingested(folder: Path, source: Path, layout: str) -> Path:
    """The photos as `penstock ingest` writes them, all in one split, unless they are there."""
    output = folder / f"{source.name}-{layout}"
    if not output.exists():
        penstock = Path(sys.executable).with_name("penstock")
        options = (*LAYOUTS[layout], "--kind", "images", "--split", "train=1")
        subprocess.run([penstock, "ingest", source, output, *options], check=True)
    return output


def small_files(folder: Path, source: Path) -> Path:
    """The photos as JPEG files of 299 x 299, for Keras, unless they are there."""
    from PIL import Image

    def make(root: Path) -> None:
        for file in source.rglob("*.jpg"):
            small = root / file.relative_to(source)
            small.parent.mkdir(parents=True, exist_ok=True)
            with Image.open(file) as image:
                image.resize((SIDE, SIDE), Image.Resampling.BILINEAR).save(small, quality=QUALITY)

    return make_once(folder / f"{source.name}-{SIDE}", make)


def pil_loop(folder: Path) -> Iterator[Any]:
    """One file after the other, as a generator for Keras does it."""
    import numpy as np
    from PIL import Image

    files = sorted((folder / "photos").rglob("*.jpg"))
    while True:
        for start in range(0, len(files) - BATCH_SIZE + 1, BATCH_SIZE):
            batch = np.empty((BATCH_SIZE, SIDE, SIDE, 3), np.float32)
            for place, file in enumerate(files[start : start + BATCH_SIZE]):
                with Image.open(file) as image:
                    small = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR)
                batch[place] = np.asarray(small, dtype=np.float32) / 255.0
            yield (batch,)


def keras_folder(folder: Path, batch_size: int = BATCH_SIZE) -> Iterator[Any]:
    """`image_dataset_from_directory` as it comes: shuffled files, decoded in parallel."""
    import keras

    size = (SIDE, SIDE)
    data = keras.utils.image_dataset_from_directory(
        folder, image_size=size, batch_size=batch_size, verbose=False
    )
    return iter(data.repeat())


def penstock(folder: Path, batch_size: int = BATCH_SIZE, **options: Any) -> Iterator[Any]:
    """`Input.images` as it comes."""
    from penstock.components.trainer.input.input import Input
    from penstock.components.trainer.input.options import ImageInputOptions

    images = ImageInputOptions(
        batch_size=batch_size, height=SIDE, width=SIDE, fit="stretch", **options
    )
    return iter(Input.images(str(folder), options=images).train())


def of_large(width: int) -> dict[str, Callable[[Path], Iterator[Any]]]:
    """The contenders of larger photos."""
    files, shards, size = f"photos-{width}", f"bytes-{width}", LARGE_BATCH_SIZE
    return {
        f"Keras, photos of {width}": lambda folder: keras_folder(folder / files, size),
        f"Penstock, photos of {width}": lambda folder: penstock(folder / shards, size),
        f"Penstock, {width}, scaled_decode": lambda folder: penstock(
            folder / shards, size, scaled_decode=True
        ),
    }


CONTENDERS: dict[str, Callable[[Path], Iterator[Any]]] = {
    PIL: pil_loop,
    KERAS: lambda folder: keras_folder(folder / "photos"),
    KERAS_299: lambda folder: keras_folder(folder / "small"),
    "Penstock": lambda folder: penstock(folder / "bytes"),
    "Penstock, random parts": lambda folder: penstock(folder / "bytes", crop="random"),
    "Penstock, stored at 299": lambda folder: penstock(folder / "resized"),
    "Penstock, stored decoded": lambda folder: penstock(folder / "decoded"),
    **{name: contend for width in LARGE for name, contend in of_large(width).items()},
}
# Contender, its peer, the least multiple of the peer's rate.
CLAIMS = (
    ("Penstock", PIL, 1.6),
    ("Penstock, stored at 299", PIL, 4.5),
    ("Penstock, stored decoded", PIL, 9.0),
    ("Penstock, stored at 299", KERAS_299, 1.0),
    ("Penstock, stored decoded", KERAS_299, 1.0),
    ("Penstock, 1600, scaled_decode", "Keras, photos of 1600", 1.0),
    ("Penstock, 4000, scaled_decode", "Keras, photos of 4000", 1.3),
)


def _child(name: str, folder: Path) -> Measured:
    batches = CONTENDERS[name](folder)
    _take_for(batches, WARM_UP_SECONDS)  # lets tf.data tune itself
    return measure(lambda: _take_for(batches, SECONDS))


def _take_for(batches: Iterator[Any], seconds: float) -> int:
    images, end = 0, time.perf_counter() + seconds
    while time.perf_counter() < end:
        images += len(next(batches)[-1])
    return images


def _prepare(folder: Path, count: int) -> Path:
    """One folder with all that contenders read, each under the name that they know."""
    source = photos(folder, count)
    parts = {layout: ingested(folder, source, layout) for layout in LAYOUTS}
    parts |= {"photos": source, "small": small_files(folder, source)}
    for width in LARGE:
        # As many pixels in all.
        some = photos(folder, max(BATCH_SIZE, count * WIDTH**2 // width**2), width)
        parts |= {f"photos-{width}": some, f"bytes-{width}": ingested(folder, some, "bytes")}
    links = folder / f"links-{count}"
    links.mkdir(exist_ok=True)
    for name, part in parts.items():
        link = links / name
        if not link.exists():
            link.symlink_to(part.resolve())
    return links


def main() -> None:
    """Run the benchmark, or, as a child of it, one contender."""
    title = f"JPEG photos to batches of {BATCH_SIZE} x {SIDE} x {SIDE}, {{}} photos"
    results = script.main(
        CONTENDERS, _child, _prepare, unit="images", count=2000, rounds=5, title=title, base=PIL
    )
    cost = {name: r.cpu_seconds / r.rows for name, r in results.items()}
    for name, peer, least in CLAIMS if results else ():
        print(
            f"{name}: {cost[peer] / cost[name]:.2f} times the CPU rate of {peer} (claim: {least:g})"
        )


if __name__ == "__main__":
    main()
