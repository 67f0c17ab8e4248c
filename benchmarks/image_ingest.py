"""Images to TFRecord: a Python loop with tf.train.Example, and Penstock's layouts.

Target: images stored as they are cost at most 0.2 ms of CPU each, with the digest of each file, the
checks of its header and end, splits and checksums. Twice sha256 of all bytes, the file's and the
shard's, is 0.1 ms of it for the 89 KB of a made photo, which the loop does not have.

    python benchmarks/image_ingest.py              about 2 minutes
"""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.benchmarks import script
from penstock.benchmarks.harness import Measured, measure
from penstock.benchmarks.ingest import ingest_source
from penstock.benchmarks.made_photos import photos

SHARDS = 8


def python_loop(images: Path, out: Path) -> Measured:
    """One image at a time: read, PIL for its size, tf.train.Example, TFRecordWriter; no split."""
    import tensorflow as tf
    from PIL import Image

    def feature(value: bytes | int) -> tf.train.Feature:
        if isinstance(value, int):
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    def work() -> int:
        out.mkdir()
        writers = [tf.io.TFRecordWriter(str(out / f"{i:05d}")) for i in range(SHARDS)]
        number = 0
        for label, folder in enumerate(sorted(images.iterdir())):
            for path in sorted(folder.iterdir()):
                data = path.read_bytes()
                with Image.open(path) as image:
                    width, height = image.size
                values: dict[str, bytes | int] = {
                    "image/encoded": data,
                    "image/format": b"JPEG",
                    "image/height": height,
                    "image/width": width,
                    "image/channels": 3,
                    "image/filename": f"{folder.name}/{path.name}".encode(),
                    "image/class/label": label,
                    "image/class/text": folder.name.encode(),
                }
                features = {name: feature(value) for name, value in values.items()}
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writers[number % SHARDS].write(example.SerializeToString())
                number += 1
        for writer in writers:
            writer.close()
        return number

    return measure(work)


def _penstock(
    images: Path, out: Path, partition_feature: str | None = None, **layout: Any
) -> Measured:
    """`penstock ingest --kind images` into two splits."""
    from penstock.components.sources.images.options import Images

    source = Images(**layout)
    return ingest_source(source, str(images), out, partition_feature=partition_feature)


def penstock_bytes(images: Path, out: Path) -> Measured:
    """Files as they are."""
    return _penstock(images, out)


def penstock_by_digest(images: Path, out: Path) -> Measured:
    """Files as they are, equal ones in one split: its hash is of the digest, not of the record."""
    return _penstock(images, out, "image/key/sha256", content_digest=True)


def penstock_verified(images: Path, out: Path) -> Measured:
    """Files as they are, each decoded once to be sure of it."""
    return _penstock(images, out, verify="decode")


def penstock_resized(images: Path, out: Path) -> Measured:
    """Encoded again at 299 x 299."""
    return _penstock(images, out, layout="resized", size=299)


def penstock_decoded(images: Path, out: Path) -> Measured:
    """Decoded to uint8 299 x 299 x 3."""
    return _penstock(images, out, layout="decoded", size=299)


CONTENDERS: dict[str, Callable[[Path, Path], Measured]] = {
    "Python loop": python_loop,
    "Penstock, bytes": penstock_bytes,
    "Penstock, bytes, by digest": penstock_by_digest,
    "Penstock, bytes, verified": penstock_verified,
    "Penstock, resized to 299": penstock_resized,
    "Penstock, decoded at 299": penstock_decoded,
}


def _child(name: str, photos: Path) -> Measured:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        return CONTENDERS[name](photos, Path(folder, "out"))


if __name__ == "__main__":
    title, base = "Images to TFRecord", "Python loop"
    script.main(CONTENDERS, _child, photos, unit="images", count=5000, title=title, base=base)
