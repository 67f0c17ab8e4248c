"""The same rows and pixels in the files of peers, with one row per record or blocks of rows.

The files with one row per record are those that the peers' documents show: tar files for
webdataset, and ArrayRecord files for grain. In each record, the numbers are raw bytes, which Python
unpacks fastest, and the texts are a tuple. The peers shuffle as their documents recommend:
webdataset shuffles shards and a buffer of rows, grain all rows.

Tables are also written in blocks of 4,096 rows, as in Penstock's packed records. A block is a
record of an ArrayRecord file (read by grain), an element of a saved `tf.data` dataset, or a row
group of a Parquet file. Four blocks picked at random form a window whose rows are permuted, as for
packed records.
"""

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from penstock.benchmarks import photos, table
from penstock.benchmarks.harness import Measured, make_once, measure
from penstock.benchmarks.training import read_in_python, reader

FOLDER, BLOCKS = "peers", "blocks"
SHARDS = 8
BLOCK_ROWS = 4096
WINDOW_BLOCKS = table.SHUFFLED_ROWS // BLOCK_ROWS
PACKED, ROWS = "packed", "row Examples"
WEBDATASET, GRAIN = "webdataset", "grain, ArrayRecord"
GRAIN_BLOCKS, SAVED, PARQUET = "grain, blocks", "saved dataset, blocks", "Parquet, row groups"

Row = dict[str, Any]


def rows_of_table(rows: int) -> Iterator[bytes]:
    """Yields each row as the bytes that peers store."""
    for batch in table.record_batches(rows):
        floats, integers = _stacked(batch, table.FLOATS), _stacked(batch, table.INTS)
        texts = zip(*(batch[name].to_pylist() for name in table.STRINGS), strict=True)
        for some, more, words in zip(floats, integers, texts, strict=True):
            encoded = tuple(word.encode() for word in words)
            yield pickle.dumps((some.tobytes(), more.tobytes(), encoded))


def _stacked(batch: Any, names: Sequence[str]) -> Any:
    """Returns columns of an Arrow batch or table as one array, with rows first."""
    import numpy as np

    return np.stack([np.asarray(batch[name]) for name in names], axis=1)


def row_from(payload: bytes) -> Row:
    """Returns float32[20], int64[12] and 8 texts."""
    import numpy as np

    floats, integers, texts = pickle.loads(payload)
    return {
        "float32": np.frombuffer(floats, np.float32),
        "int64": np.frombuffer(integers, np.int64),
        "bytes": np.array(texts, object),
    }


def rows_of_images(root: Path) -> Iterator[bytes]:
    """Yields each label and decoded image as the bytes that peers store."""
    import numpy as np

    pixels = np.load(root / "pixels.npy", mmap_mode="r")
    for image, label in zip(pixels, np.load(root / "labels.npy"), strict=True):
        yield int(label).to_bytes(8, "little") + image.tobytes()


def image_from(payload: bytes) -> Row:
    """Returns an image, uint8[299, 299, 3], and its label."""
    import numpy as np

    size = photos.SIZE
    return {
        "image": np.frombuffer(payload, np.uint8, offset=8).reshape(size, size, 3),
        "label": np.frombuffer(payload, np.int64, 1)[0],
    }


def make_peers(root: Path, payloads: Iterator[bytes]) -> None:
    """Writes the records into tar files and ArrayRecord files, unless they exist."""
    make_once(root / FOLDER, lambda folder: _write(folder, payloads))


def _write(folder: Path, payloads: Iterator[bytes]) -> None:
    import webdataset
    from array_record.python import array_record_module as array_record

    folder.mkdir(parents=True)
    tars = [webdataset.TarWriter(str(folder / f"{i:05d}.tar")) for i in range(SHARDS)]
    # Each group has one record, as ArrayRecord's documentation recommends for random access.
    arrays = [
        array_record.ArrayRecordWriter(str(folder / f"{i:05d}.array_record"), "group_size:1")
        for i in range(SHARDS)
    ]
    for number, payload in enumerate(payloads):
        tars[number % SHARDS].write({"__key__": f"{number:09d}", "row": payload})
        arrays[number % SHARDS].write(payload)
    for writer in (*tars, *arrays):
        writer.close()


def make_blocks(root: Path, rows: int) -> None:
    """Writes the files of the peers that read blocks of rows, unless their folder exists."""
    make_once(root / BLOCKS, lambda folder: _write_blocks(folder, rows))


def _write_blocks(folder: Path, rows: int) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import tensorflow as tf
    from array_record.python import array_record_module as array_record

    folder.mkdir(parents=True)
    arrays = [
        array_record.ArrayRecordWriter(str(folder / f"{i:05d}.array_record"), "group_size:1")
        for i in range(SHARDS)
    ]
    blocks = []
    whole = pa.Table.from_batches(table.record_batches(rows)).combine_chunks()
    for number, start in enumerate(range(0, rows, BLOCK_ROWS)):
        part = whole.slice(start, BLOCK_ROWS)
        block = {
            "float32": _stacked(part, table.FLOATS),
            "int64": _stacked(part, table.INTS),
            "bytes": np.vectorize(str.encode, [object])(_stacked(part, table.STRINGS)),
        }
        arrays[number % SHARDS].write(pickle.dumps(block))
        blocks.append(block)
    for writer in arrays:
        writer.close()
    pq.write_table(whole, folder / "table.parquet", row_group_size=BLOCK_ROWS)

    def each() -> Iterator[dict[str, Any]]:
        yield from blocks

    kinds = (("float32", tf.float32), ("int64", tf.int64), ("bytes", tf.string))
    signature = {
        name: tf.TensorSpec([None, blocks[0][name].shape[1]], dtype) for name, dtype in kinds
    }
    tf.data.Dataset.from_generator(each, output_signature=signature).save(
        str(folder / "saved"),
        shard_func=lambda block: tf.cast(block["int64"][0, 0] % SHARDS, tf.int64),
    )


def _windows(blocks: Iterator[Row], shuffle: Any) -> Iterator[Row]:
    """Yields batches of permuted rows; a window has as many blocks as for packed records."""
    import numpy as np

    while True:
        some = [next(blocks) for _ in range(WINDOW_BLOCKS)]
        window = {name: np.concatenate([block[name] for block in some]) for name in some[0]}
        order = shuffle.permutation(len(window["int64"]))
        for start in range(0, len(order), table.BATCH):
            rows = order[start : start + table.BATCH]
            yield {name: values[rows] for name, values in window.items()}


def grain_blocks(root: Path) -> Iterator[Row]:
    """ArrayRecord records of 4,096 rows, picked at random by grain; rows permuted by NumPy."""
    import grain
    import numpy as np
    from grain.python import ArrayRecordDataSource

    files = sorted(str(file) for file in (root / BLOCKS).glob("*.array_record"))
    blocks = grain.MapDataset.source(ArrayRecordDataSource(files)).shuffle(seed=1)
    options = grain.ReadOptions(num_threads=4, prefetch_buffer_size=8)
    found = iter(blocks.repeat().map(pickle.loads).to_iter_dataset(options))
    return _windows(found, np.random.default_rng(1))


def saved_blocks(root: Path) -> Any:
    """Blocks of 4,096 rows, read by `tf.data.Dataset.load`; rows permuted by TensorFlow."""
    import tensorflow as tf

    def permuted(*blocks: Any) -> Any:
        window = tf.nest.map_structure(lambda some: tf.concat(tf.unstack(some), 0), *blocks)
        order = tf.random.shuffle(tf.range(table.SHUFFLED_ROWS))
        return {name: tf.gather(values, order) for name, values in window.items()}

    blocks = tf.data.Dataset.load(str(root / BLOCKS / "saved")).shuffle(4 * WINDOW_BLOCKS)
    windows = blocks.batch(WINDOW_BLOCKS, drop_remainder=True).map(
        permuted, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    return windows.rebatch(table.BATCH).repeat().prefetch(tf.data.AUTOTUNE)


def parquet_blocks(root: Path) -> Iterator[Row]:
    """Row groups of 4,096 rows, picked at random and read by pyarrow; rows permuted by NumPy."""
    import numpy as np
    import pyarrow.parquet as pq

    shuffle = np.random.default_rng(1)

    def blocks() -> Iterator[Row]:
        with pq.ParquetFile(root / BLOCKS / "table.parquet") as file:
            while True:
                for group in shuffle.permutation(file.num_row_groups):
                    part = file.read_row_group(group, use_threads=False)
                    yield {
                        "float32": _stacked(part, table.FLOATS),
                        "int64": _stacked(part, table.INTS),
                        "bytes": _stacked(part, table.STRINGS),
                    }

    return _windows(blocks(), shuffle)


def webdataset_batches(
    root: Path,
    row: Callable[[bytes], Row] = row_from,
    batch: int = table.BATCH,
    buffer: int = table.SHUFFLED_ROWS,
) -> Iterator[Row]:
    """Tar files in random order; a buffer of rows is shuffled."""
    import numpy as np
    import webdataset

    files = sorted(str(file) for file in (root / FOLDER).glob("*.tar"))
    rows = webdataset.WebDataset(files, shardshuffle=SHARDS)
    rows = rows.shuffle(buffer, initial=buffer)
    rows = rows.map(lambda sample: row(sample["row"]))

    def stack(some: list[Row]) -> Row:
        return {name: np.stack([one[name] for one in some]) for name in some[0]}

    found: Iterator[Row] = iter(rows.batched(batch, collation_fn=stack).repeat())
    return found


def grain_batches(
    root: Path, row: Callable[[bytes], Row] = row_from, batch: int = table.BATCH
) -> Iterator[Row]:
    """Rows picked at random from all rows, by 16 threads."""
    import grain
    from grain.python import ArrayRecordDataSource

    files = sorted(str(file) for file in (root / FOLDER).glob("*.array_record"))
    rows = grain.MapDataset.source(ArrayRecordDataSource(files)).shuffle(seed=1)
    batches = rows.repeat().map(row).batch(batch, drop_remainder=True)
    # Grain's prefetch buffer counts batches here, so its default of 500 would take gigabytes of
    # memory for images.
    options = grain.ReadOptions(num_threads=16, prefetch_buffer_size=16)
    found: Iterator[Row] = iter(batches.to_iter_dataset(options))
    return found


@dataclass(frozen=True)
class Peer:
    """A peer: its reader, a function from a folder to endless batches, and its file pattern."""

    batches: Callable[[Path], Any]
    files: str

    def size(self, root: Path, rows: int) -> float:
        """Returns the number of bytes per row in the peer's files."""
        return sum(f.stat().st_size for f in root.glob(self.files) if f.is_file()) / rows


OF_TABLE = {
    WEBDATASET: Peer(webdataset_batches, f"{FOLDER}/*.tar"),
    GRAIN: Peer(grain_batches, f"{FOLDER}/*.array_record"),
    GRAIN_BLOCKS: Peer(grain_blocks, f"{BLOCKS}/*.array_record"),
    SAVED: Peer(saved_blocks, f"{BLOCKS}/saved/**/*"),
    PARQUET: Peer(parquet_blocks, f"{BLOCKS}/table.parquet"),
    ROWS: Peer(table.row_examples, "rows/Split-train/*"),
    PACKED: Peer(table.packed, "packed/Split-train/*"),
}
_webdataset_images = partial(
    webdataset_batches, row=image_from, batch=photos.BATCH, buffer=photos.WINDOW
)
_grain_images = partial(grain_batches, row=image_from, batch=photos.BATCH)
OF_IMAGES = {
    WEBDATASET: Peer(_webdataset_images, f"{FOLDER}/*.tar"),
    GRAIN: Peer(_grain_images, f"{FOLDER}/*.array_record"),
    PACKED: Peer(photos.packed, f"packed-{photos.SIZE}/Split-train/*"),
}


def read(
    _: Any, peer: Peer, check: Callable[..., None], root: Path, rows: int, seconds: float
) -> Measured:
    """Measures a peer's reader after a first pass, whose sums `check` compares with the data's."""
    batches = iter(peer.batches(root))
    check(batches, rows, root)
    # A tf.data iterator is read in the graph, as in a training.
    in_graph = hasattr(batches, "element_spec")
    read_for = reader(batches) if in_graph else partial(read_in_python, batches)
    found = measure(lambda: read_for(seconds))
    return replace(found, extra={"bytes": peer.size(root, rows)})
