"""The same rows and the same pixels in the files of peers, a row a record or in blocks of rows.

A row a record, as their documents show: webdataset's tar files, and ArrayRecord files that grain
reads; numbers as raw bytes, which is the fastest that Python can unpack, texts as a tuple. They
shuffle as they recommend: webdataset the shards and a buffer of rows, grain all rows.

Blocks of 4,096 rows, for tables, as Penstock's packed records have them: ArrayRecord and grain,
TensorFlow's saved dataset, and row groups of Parquet. Four blocks picked at random are a window,
whose rows are permuted: so packed records shuffle, too. The limit is a NumPy memory map, of which
windows are permuted in memory; it has ids where the others have texts.
"""

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from penstock.benchmarks import made_table, packed_images
from penstock.benchmarks import packed as packed_tables
from penstock.benchmarks.make_once import make_once
from penstock.benchmarks.reading import read_in_python, reader
from penstock.components.errors import DataError

PACKAGES = ("webdataset", "grain", "array_record")
FOLDER, BLOCKS = "peers", "blocks"
SHARDS = 8
BLOCK_ROWS = 4096
SHUFFLED_ROWS = 16_384
SHUFFLED_IMAGES = packed_images.WINDOW_IMAGES
TABLE, UNIQUE, IMAGES = "table", "unique texts", "images"
PACKED, PACKED_IDS, ROWS = "packed", "packed, ids", "row Examples"
WEBDATASET, GRAIN = "webdataset", "grain, ArrayRecord"
GRAIN_BLOCKS, SAVED, PARQUET = "grain, blocks", "saved dataset, blocks", "Parquet, row groups"
NUMPY = "NumPy map, ids"

Row = dict[str, Any]


def rows_of_table(rows: int, *, unique: bool = False) -> Iterator[bytes]:
    """Each row as a peer stores it."""
    import numpy as np

    for batch in made_table.batches(rows, unique=unique):
        floats = np.stack([batch[name].to_numpy() for name in made_table.FLOATS], axis=1)
        integers = np.stack([batch[name].to_numpy() for name in made_table.INTS], axis=1)
        texts = zip(*(batch[name].to_pylist() for name in made_table.STRINGS), strict=True)
        for some, more, words in zip(floats, integers, texts, strict=True):
            encoded = tuple(word.encode() for word in words)
            yield pickle.dumps((some.tobytes(), more.tobytes(), encoded))


def row_from(payload: bytes) -> Row:
    """float32[20], int64[12] and 8 texts."""
    import numpy as np

    floats, integers, texts = pickle.loads(payload)
    return {
        "float32": np.frombuffer(floats, np.float32),
        "int64": np.frombuffer(integers, np.int64),
        "bytes": np.array(texts, object),
    }


def rows_of_images(root: Path) -> Iterator[bytes]:
    """Each image, decoded, as a peer stores it."""
    import numpy as np

    pixels = np.load(root / "pixels.npy", mmap_mode="r")
    for image, label in zip(pixels, np.load(root / "labels.npy"), strict=True):
        yield int(label).to_bytes(8, "little") + image.tobytes()


def image_from(payload: bytes) -> Row:
    """uint8[299, 299, 3] and its label."""
    import numpy as np

    size = packed_images.SIZE
    return {
        "image": np.frombuffer(payload, np.uint8, offset=8).reshape(size, size, 3),
        "label": np.frombuffer(payload, np.int64, 1)[0],
    }


def make_peers(root: Path, payloads: Iterator[bytes]) -> None:
    """The same records as tar and as ArrayRecord files below `root`, unless they are there."""
    make_once(root / FOLDER, lambda folder: _write(folder, payloads))


def _write(folder: Path, payloads: Iterator[bytes]) -> None:
    import webdataset
    from array_record.python import array_record_module as array_record

    folder.mkdir(parents=True)
    tars = [webdataset.TarWriter(str(folder / f"{i:05d}.tar")) for i in range(SHARDS)]
    # A record a group: what picks rows at random should be written so, its documents say.
    arrays = [
        array_record.ArrayRecordWriter(str(folder / f"{i:05d}.array_record"), "group_size:1")
        for i in range(SHARDS)
    ]
    for number, payload in enumerate(payloads):
        tars[number % SHARDS].write({"__key__": f"{number:09d}", "row": payload})
        arrays[number % SHARDS].write(payload)
    for writer in (*tars, *arrays):
        writer.close()


def make_blocks(root: Path, rows: int, *, unique: bool = False) -> None:
    """The made table in blocks: ArrayRecord, a saved dataset and Parquet, unless they are there."""
    make_once(root / BLOCKS, lambda folder: _write_blocks(folder, rows, unique))


def _write_blocks(folder: Path, rows: int, unique: bool) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import tensorflow as tf
    from array_record.python import array_record_module as array_record

    def stacked(table: Any, names: tuple[str, ...], dtype: Any) -> Any:
        columns = [table[name].to_numpy(zero_copy_only=False) for name in names]
        return np.stack(columns, axis=1).astype(dtype)

    folder.mkdir(parents=True)
    arrays = [
        array_record.ArrayRecordWriter(str(folder / f"{i:05d}.array_record"), "group_size:1")
        for i in range(SHARDS)
    ]
    blocks = []
    table = pa.Table.from_batches(made_table.batches(rows, unique=unique)).combine_chunks()
    for number, start in enumerate(range(0, rows, BLOCK_ROWS)):
        (part,) = table.slice(start, BLOCK_ROWS).to_batches()
        texts = stacked(part, made_table.STRINGS, object)
        block = {
            "float32": stacked(part, made_table.FLOATS, np.float32),
            "int64": stacked(part, made_table.INTS, np.int64),
            "bytes": np.vectorize(str.encode, [object])(texts),
        }
        arrays[number % SHARDS].write(pickle.dumps(block))
        blocks.append(block)
    for writer in arrays:
        writer.close()
    pq.write_table(table, folder / "table.parquet", row_group_size=BLOCK_ROWS)

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
    """Batches of windows of so many blocks as packed records have, rows permuted."""
    import numpy as np

    while True:
        some = [next(blocks) for _ in range(SHUFFLED_ROWS // BLOCK_ROWS)]
        window = {name: np.concatenate([block[name] for block in some]) for name in some[0]}
        order = shuffle.permutation(len(window["int64"]))
        for start in range(0, len(order), packed_tables.BATCH_SIZE):
            rows = order[start : start + packed_tables.BATCH_SIZE]
            yield {name: values[rows] for name, values in window.items()}


def grain_blocks(root: Path, kind: str) -> Iterator[Row]:
    """ArrayRecord of 4,096 rows a record, picked at random by grain; rows permuted by NumPy."""
    import grain
    import numpy as np
    from grain.python import ArrayRecordDataSource

    del kind
    files = sorted(str(file) for file in (root / BLOCKS).glob("*.array_record"))
    blocks = grain.MapDataset.source(ArrayRecordDataSource(files)).shuffle(seed=1)
    options = grain.ReadOptions(num_threads=4, prefetch_buffer_size=8)
    found = iter(blocks.repeat().map(pickle.loads).to_iter_dataset(options))
    return _windows(found, np.random.default_rng(1))


def saved_blocks(root: Path, kind: str) -> Any:
    """`tf.data.Dataset.load` of blocks of 4,096 rows, rows permuted by TensorFlow."""
    import tensorflow as tf

    del kind

    def permuted(*blocks: Any) -> Any:
        window = tf.nest.map_structure(lambda some: tf.concat(tf.unstack(some), 0), *blocks)
        order = tf.random.shuffle(tf.range(SHUFFLED_ROWS))
        return {name: tf.gather(values, order) for name, values in window.items()}

    count = SHUFFLED_ROWS // BLOCK_ROWS
    blocks = tf.data.Dataset.load(str(root / BLOCKS / "saved")).shuffle(4 * count)
    windows = blocks.batch(count, drop_remainder=True).map(
        permuted, num_parallel_calls=tf.data.AUTOTUNE, deterministic=False
    )
    return windows.rebatch(packed_tables.BATCH_SIZE).repeat().prefetch(tf.data.AUTOTUNE)


def parquet_blocks(root: Path, kind: str) -> Iterator[Row]:
    """Row groups of 4,096 rows, picked at random and read by pyarrow; rows permuted by NumPy."""
    import numpy as np
    import pyarrow.parquet as pq

    del kind
    shuffle = np.random.default_rng(1)

    def blocks() -> Iterator[Row]:
        with pq.ParquetFile(root / BLOCKS / "table.parquet") as file:
            while True:
                for group in shuffle.permutation(file.num_row_groups):
                    table = file.read_row_group(group, use_threads=False)

                    def stacked(names: tuple[str, ...], table: Any = table) -> Any:
                        return np.stack([table[name].to_numpy() for name in names], axis=1)

                    yield {
                        "float32": stacked(made_table.FLOATS),
                        "int64": stacked(made_table.INTS),
                        "bytes": stacked(made_table.STRINGS),
                    }

    return _windows(blocks(), shuffle)


def numpy_map(root: Path, kind: str) -> Iterator[Row]:
    """Three mapped arrays, blocks of 4,096 rows picked at random, rows permuted by NumPy."""
    import numpy as np

    del kind
    shuffle = np.random.default_rng(1)
    arrays = {
        name: np.load(root / f"{name[0]}.npy", mmap_mode="r") for name in ("float32", "int64", "s")
    }

    def blocks() -> Iterator[Row]:
        while True:
            for block in shuffle.permutation(len(arrays["s"]) // BLOCK_ROWS):
                rows = slice(block * BLOCK_ROWS, (block + 1) * BLOCK_ROWS)
                yield {name: values[rows] for name, values in arrays.items()}

    return _windows(blocks(), shuffle)


def webdataset_batches(root: Path, kind: str) -> Iterator[Row]:
    """Tar files in random order, a buffer of rows shuffled."""
    import numpy as np
    import webdataset

    row, batch, buffer = _kind(kind)
    files = sorted(str(file) for file in (root / FOLDER).glob("*.tar"))
    rows = webdataset.WebDataset(files, shardshuffle=SHARDS)
    rows = rows.shuffle(buffer, initial=buffer).map(lambda sample: row(sample["row"]))

    def stack(some: list[Row]) -> Row:
        return {name: np.stack([one[name] for one in some]) for name in some[0]}

    found: Iterator[Row] = iter(rows.batched(batch, collation_fn=stack).repeat())
    return found


def grain_batches(root: Path, kind: str) -> Iterator[Row]:
    """Rows picked at random from all, by 16 threads."""
    import grain
    from grain.python import ArrayRecordDataSource

    row, batch, _ = _kind(kind)
    files = sorted(str(file) for file in (root / FOLDER).glob("*.array_record"))
    rows = grain.MapDataset.source(ArrayRecordDataSource(files)).shuffle(seed=1)
    batches = rows.repeat().map(row).batch(batch, drop_remainder=True)
    # What is fetched ahead is a batch here: 500 of them, its default, are gigabytes of images.
    options = grain.ReadOptions(num_threads=16, prefetch_buffer_size=16)
    found: Iterator[Row] = iter(batches.to_iter_dataset(options))
    return found


def packed_rows(root: Path, kind: str) -> Any:
    """`Input.packed` as it comes."""
    return (packed_images if kind == IMAGES else packed_tables).packed(root)


def packed_ids(root: Path, kind: str) -> Any:
    """Packed with vocabulary ids for texts, columns of a type in one tensor."""
    del kind
    return packed_tables.packed_ids_stacked(root)


def row_examples(root: Path, kind: str) -> Any:
    """`Input.rows` as it comes."""
    del kind
    return packed_tables.row_examples(root)


@dataclass(frozen=True)
class Contender:
    """A way to read the rows.

    Attributes:
        batches: Root and kind in; endless batches out, of TensorFlow or of NumPy.
        files: Pattern of its files below the root.
        is_tensorflow: Whether they are a `tf.data.Dataset`.
    """

    batches: Callable[[Path, str], Any]
    files: str
    is_tensorflow: bool = False

    def stored_bytes(self, root: Path) -> int:
        """Of its files."""
        return sum(file.stat().st_size for file in root.glob(self.files) if file.is_file())


_PEERS = {
    WEBDATASET: Contender(webdataset_batches, f"{FOLDER}/*.tar"),
    GRAIN: Contender(grain_batches, f"{FOLDER}/*.array_record"),
}
_TABLES = {
    **_PEERS,
    GRAIN_BLOCKS: Contender(grain_blocks, f"{BLOCKS}/*.array_record"),
    SAVED: Contender(saved_blocks, f"{BLOCKS}/saved/**/*", is_tensorflow=True),
    PARQUET: Contender(parquet_blocks, f"{BLOCKS}/table.parquet"),
    ROWS: Contender(row_examples, "rows/Split-train/*", is_tensorflow=True),
    PACKED: Contender(packed_rows, "strings/Split-train/*", is_tensorflow=True),
}
CONTENDERS: dict[str, dict[str, Contender]] = {
    TABLE: {
        **_TABLES,
        PACKED_IDS: Contender(packed_ids, "ids/Split-train/*", is_tensorflow=True),
        NUMPY: Contender(numpy_map, "?.npy"),
    },
    UNIQUE: _TABLES,
    IMAGES: {
        **_PEERS,
        PACKED: Contender(
            packed_rows, f"packed-{packed_images.SIZE}/Split-train/*", is_tensorflow=True
        ),
    },
}


def reader_of(name: str, kind: str, root: Path, rows: int) -> Callable[[float], int]:
    """A function that reads for so many seconds and says how many rows that were.

    Raises:
        DataError: A first pass did not have every row once.
    """
    chosen = CONTENDERS[kind][name]
    batches = iter(chosen.batches(root, kind))
    _check_pass(chosen, batches, kind, rows, root)
    if chosen.is_tensorflow:
        return reader(batches)
    return partial(read_in_python, batches)


def _check_pass(chosen: Contender, batches: Any, kind: str, rows: int, root: Path) -> None:
    sums = json.loads((root / "sums.json").read_text())
    if kind == IMAGES:
        packed_images.check(PACKED, batches, rows, root)
    elif chosen.is_tensorflow:
        packed_tables.check(batches, rows, sums)
    else:
        found = dict.fromkeys(sums, 0)
        for _ in range(rows // packed_tables.BATCH_SIZE):
            batch = next(batches)
            found["integers"] += int(batch["int64"].sum())
            if "bytes" in batch:
                found["lengths"] += sum(map(len, batch["bytes"].ravel()))
            else:
                found["lengths"] = sums["lengths"]  # it has ids
        check_sums(found, sums)


def check_sums(found: dict[str, int], sums: dict[str, int]) -> None:
    """Raise DataError if a pass did not have every row once."""
    if found != sums:
        raise DataError(f"a pass sums to {found}, the table to {sums}")


def _kind(kind: str) -> tuple[Callable[[bytes], Row], int, int]:
    if kind == IMAGES:
        return image_from, packed_images.BATCH_SIZE, SHUFFLED_IMAGES
    return row_from, packed_tables.BATCH_SIZE, SHUFFLED_ROWS
