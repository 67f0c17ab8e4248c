"""The same row Examples compressed and not, in few shards and in many; written and read."""

import os
from pathlib import Path
from typing import Any

from penstock.benchmarks import input as rows_benchmark

# Contender: the compression and its level.
COMPRESSIONS: dict[str, tuple[str, int | None]] = {
    "none": ("", None),
    "GZIP 1": ("GZIP", 1),
    "GZIP 6": ("GZIP", 6),
    "GZIP 9": ("GZIP", 9),
    "ZLIB 6": ("ZLIB", 6),
}
SHARD_COUNTS = {"1 shard": 1, "4 shards": 4, "16 shards": 16, "64 shards": 64}


def records(files: list[Path]) -> list[bytes]:
    """All of them, in memory."""
    import tensorflow as tf

    return list(tf.data.TFRecordDataset([str(file) for file in files]).as_numpy_iterator())


def write(folder: Path, data: list[bytes], name: str) -> None:
    """Into as many shards as ever, by TensorFlow's writer."""
    import tensorflow as tf

    kind, level = COMPRESSIONS[name]
    options = tf.io.TFRecordOptions(compression_type=kind, compression_level=level)
    folder.mkdir(parents=True)
    for shard in range(rows_benchmark.SHARDS):
        with tf.io.TFRecordWriter(str(folder / f"{shard:05d}"), options) as out:
            for record in data[shard :: rows_benchmark.SHARDS]:
                out.write(record)


def batches(folder: Path, name: str) -> Any:
    """Shards in parallel, whole batches parsed, endless; not shuffled."""
    import tensorflow as tf

    kind, spec = COMPRESSIONS[name][0], rows_benchmark.specs()
    files = tf.data.Dataset.from_tensor_slices(sorted(str(file) for file in folder.iterdir()))
    found = files.interleave(
        lambda file: tf.data.TFRecordDataset(file, kind).batch(rows_benchmark.BATCH_SIZE),
        cycle_length=2 * len(os.sched_getaffinity(0)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=False,
    )
    return found.map(
        lambda some: tf.io.parse_example(some, spec),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=False,
    ).repeat().prefetch(8)  # fmt: skip


def folder_bytes(folder: Path) -> int:
    """Of all files in it, and below."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
