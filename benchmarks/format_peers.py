"""The same rows and the same pixels in webdataset's tar files, in ArrayRecord files read by grain.

A record of a peer is a row, as its documents show: numbers as raw bytes, which is the fastest that
Python can unpack, texts as a tuple. Peers shuffle as they recommend: webdataset the shards and
a buffer of rows, grain all rows.
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
FOLDER = "peers"
SHARDS = 8
SHUFFLED_ROWS = 16_384
SHUFFLED_IMAGES = packed_images.WINDOW_IMAGES
TABLE, IMAGES = "table", "images"
PACKED, ROWS = "packed", "row Examples"
WEBDATASET, GRAIN = "webdataset", "grain, ArrayRecord"

Row = dict[str, Any]


def rows_of_table(rows: int) -> Iterator[bytes]:
    """Each row as a peer stores it."""
    import numpy as np

    for batch in made_table.batches(rows):
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
    """`packed_train_input_fn` as it comes."""
    return (packed_tables if kind == TABLE else packed_images).packed(root)


def row_examples(root: Path, kind: str) -> Any:
    """`train_input_fn` as it comes."""
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
        return sum(file.stat().st_size for file in root.glob(self.files))


_PEERS = {
    WEBDATASET: Contender(webdataset_batches, f"{FOLDER}/*.tar"),
    GRAIN: Contender(grain_batches, f"{FOLDER}/*.array_record"),
}
CONTENDERS: dict[str, dict[str, Contender]] = {
    TABLE: {
        **_PEERS,
        ROWS: Contender(row_examples, "rows/Split-train/*", is_tensorflow=True),
        PACKED: Contender(packed_rows, "strings/Split-train/*", is_tensorflow=True),
    },
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
        found = {"integers": 0, "lengths": 0}
        for _ in range(rows // packed_tables.BATCH_SIZE):
            batch = next(batches)
            found["integers"] += int(batch["int64"].sum())
            found["lengths"] += sum(map(len, batch["bytes"].ravel()))
        if found != sums:
            raise DataError(f"a pass sums to {found}, the table to {sums}")


def _kind(kind: str) -> tuple[Callable[[bytes], Row], int, int]:
    if kind == TABLE:
        return row_from, packed_tables.BATCH_SIZE, SHUFFLED_ROWS
    return image_from, packed_images.BATCH_SIZE, SHUFFLED_IMAGES
