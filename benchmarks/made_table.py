"""Made tables of realistic shape: 40 columns, 20 floats, 12 integers, 8 strings; fixed by seed."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.benchmarks.make_once import make_once

if TYPE_CHECKING:
    import pyarrow as pa

FLOATS = tuple(f"f{i}" for i in range(20))
INTS = tuple(f"i{i}" for i in range(12))
STRINGS = tuple(f"s{i}" for i in range(8))
COLUMNS = FLOATS + INTS + STRINGS
# Characters of the unique texts, if there are any: those of these columns.
UNIQUE = {"s0": 10, "s2": 20, "s4": 36}
_BLOCK_ROWS = 100_000


def batches(rows: int, *, seed: int = 7, unique: bool = False) -> Iterator["pa.RecordBatch"]:
    """The table, in blocks of at most 100,000 rows; of 8 texts 3 may be unique."""
    import numpy as np
    import pyarrow as pa

    words = np.array([f"category {i} of many" for i in range(1000)], dtype=object)
    for start in range(0, rows, _BLOCK_ROWS):
        rng = np.random.default_rng((seed, start))
        n = min(_BLOCK_ROWS, rows - start)
        floats = [pa.array(rng.normal(0, 100, n).astype(np.float32)) for _ in FLOATS]
        ints = [pa.array(rng.integers(0, 10 ** (1 + i % 6), n)) for i in range(len(INTS))]
        strings = [pa.array(words[rng.zipf(1.3, n) % 1000], pa.string()) for _ in STRINGS]
        for name, characters in UNIQUE.items() if unique else ():
            letters = rng.integers(ord("a"), ord("z") + 1, (n, characters), np.uint8)
            texts = letters.view(f"S{characters}").ravel().astype(str)
            strings[STRINGS.index(name)] = pa.array(texts, pa.string())
        yield pa.RecordBatch.from_arrays(floats + ints + strings, list(COLUMNS))


def csv_path(folder: Path, rows: int) -> Path:
    """Where `csv_file` makes it."""
    return folder / f"table-{rows}.csv"


def csv_file(folder: Path, rows: int) -> Path:
    """A CSV of that many rows in `folder`, made unless it is there."""
    import pyarrow.csv as pc

    def make(path: Path) -> None:
        with pc.CSVWriter(path, next(batches(1)).schema) as out:
            for batch in batches(rows):
                out.write_batch(batch)

    return make_once(csv_path(folder, rows), make)
