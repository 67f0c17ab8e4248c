"""Reads a table and trains on it, from CSV, TFX's stock input, row Examples and packed records.

CSV is read by pandas and by TensorFlow. All contenders shuffle. The reading benchmark reads all 40
columns. For training, each contender returns only the 32 numeric columns.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.benchmarks import claims, table, training
from penstock.benchmarks.harness import Check, Group, Measured, at_least, bound, make_once, measure
from penstock.benchmarks.training import reader

CSV_FILES = 16
PANDAS, CSV, STOCK, ROWS, PACKED = (
    "pandas, in memory", "make_csv_dataset", "stock tf_dataset_factory", "row Examples", "packed",
)  # fmt: skip


@dataclass(frozen=True)
class Options:
    """Size of the table and of the network, and number of rounds.

    Attributes:
        rows: Rows of the generated table of 40 columns.
        units: Units in each of the two hidden layers, which determine the time of a step.
        seconds: Time for which each contender reads, and trains, in each round.
        rounds: How often each contender runs.
    """

    rows: int = 200_704
    units: int = 64
    seconds: float = 3.0
    rounds: int = 3

    def __post_init__(self) -> None:
        at_least(self, rows=(table.BATCH, table.BATCH), units=1, rounds=1, seconds=0)


def pandas_csv(root: Path, columns: Sequence[str]) -> Any:
    """All files, parsed once and kept; each epoch shuffles the rows and slices off batches."""
    import numpy as np
    import pandas as pd
    import tensorflow as tf

    whole = pd.concat(pd.read_csv(file, usecols=list(columns)) for file in _csv_files(root))
    # One array per column, so that batches are cut from arrays instead of a DataFrame.
    kept = {name: whole[name].to_numpy() for name in columns}

    def batches() -> Iterator[dict[str, Any]]:
        while True:
            order = np.random.default_rng().permutation(len(whole))
            for start in range(0, len(whole), table.BATCH):
                rows = order[start : start + table.BATCH]
                yield {name: values[rows, None] for name, values in kept.items()}

    dtypes = {"f": tf.float64, "i": tf.int64, "s": tf.string}
    signature = {name: tf.TensorSpec([None, 1], dtypes[name[0]]) for name in columns}
    return tf.data.Dataset.from_generator(batches, output_signature=signature).prefetch(8)


def tensorflow_csv(root: Path, columns: Sequence[str]) -> Any:
    """`tf.data.experimental.make_csv_dataset`, shuffled, with one file per core at a time."""
    import tensorflow as tf

    kinds = {"f": tf.float32, "i": tf.int64, "s": tf.string}
    data = tf.data.experimental.make_csv_dataset(
        [str(file) for file in _csv_files(root)],
        table.BATCH,
        select_columns=list(columns),
        column_defaults=[kinds[name[0]] for name in columns],
        num_epochs=None,
        shuffle=True,
        shuffle_buffer_size=table.SHUFFLED_ROWS,
        num_parallel_reads=len(os.sched_getaffinity(0)),
        sloppy=True,
        prefetch_buffer_size=tf.data.AUTOTUNE,
    )
    return data.map(lambda row: {name: value[:, None] for name, value in row.items()})


def _csv_files(root: Path) -> list[Path]:
    return sorted((root / "csv").iterdir())


WAYS: dict[str, Callable[[Path, Sequence[str]], Any]] = {
    PANDAS: pandas_csv,
    CSV: tensorflow_csv,
    STOCK: table.stock,
    ROWS: table.row_examples,
    PACKED: table.packed,
}


def _read(way: Callable[..., Any], options: Options) -> Measured:
    read = reader(iter(way(table.root_of(options.rows), table.COLUMNS)))
    return measure(lambda: read(options.seconds))


def _train(way: Callable[..., Any], options: Options) -> Measured:
    batches = training.table_batches(way, table.root_of(options.rows), table.NUMBERS)
    return training.steady(
        training.table_model(options.units), batches, table.BATCH, options.seconds
    )


def prepare(options: Options) -> None:
    """Writes and packs the table, unless it exists."""
    root = table.prepare(options.rows)
    make_once(root / "csv", lambda folder: _write_csv(folder, options.rows))


def _write_csv(folder: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.csv as pc

    folder.mkdir()
    whole = pa.Table.from_batches(table.record_batches(rows))
    part = -(-rows // CSV_FILES)
    for number, start in enumerate(range(0, rows, part)):
        pc.write_csv(whole.slice(start, part), folder / f"{number:05d}.csv")


def groups(options: Options) -> list[Group]:
    """Returns the comparisons of reading and training."""
    by = "per_second"
    reading = [Check(claims.UP_TO_SEVEN_TIMES, name, [CSV], by) for name in (ROWS, PACKED)]
    trained = [Check(claims.TABLES_TRAIN_FASTER, name, [CSV], by) for name in (ROWS, PACKED)]
    trained.append(Check(claims.EPOCHS_FASTER, ROWS, [PANDAS], by))
    return [
        Group("Read to shuffled batches", "rows", _all(_read, options), reading),
        Group("Train a small network", "rows", _all(_train, options), trained),
    ]


def _all(work: Callable[..., Measured], options: Options) -> dict[str, Any]:
    return {name: bound(work, way, options=options) for name, way in WAYS.items()}
