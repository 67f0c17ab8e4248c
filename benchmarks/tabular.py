"""Tables: CSV by pandas and by TensorFlow, TFX's stock input, row Examples, packed; read, trained.

All are shuffled. To be read are all 40 columns; to be trained on the 32 numbers, and no contender
reads the texts then.

penstock bench tabular
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.benchmarks import claims, gpu_networks, made_table, questions
from penstock.benchmarks import input as rows_benchmark
from penstock.benchmarks import packed as packed_benchmark
from penstock.benchmarks.harness import Measured, in_turn, measure, peak_mib_now
from penstock.benchmarks.make_once import make_once
from penstock.benchmarks.outcome import Comparison, Contender, FactTable, Outcome
from penstock.benchmarks.reading import reader
from penstock.benchmarks.trained import train_for
from penstock.components.errors import UsageError

BATCH_SIZE = 1024
CSV_FILES = 16
PANDAS, CSV, STOCK, ROWS, PACKED = (
    "pandas, in memory", "make_csv_dataset", "stock tf_dataset_factory", "row Examples", "packed",
)  # fmt: skip


@dataclass(frozen=True)
class TabularOptions:
    """What is read and trained on.

    Attributes:
        rows: Rows of the made table of 40 columns.
        units: Of each of the network's two layers: how long a step takes.
        seconds: How long each contender reads, and trains, in each round.
        rounds: How often each contender runs.
    """

    rows: int = 200_704
    units: int = 64
    seconds: float = 3.0
    rounds: int = 3

    def __post_init__(self) -> None:
        if self.rows < 1 or self.rows % BATCH_SIZE:
            raise UsageError(f"rows must be a multiple of {BATCH_SIZE}, got {self.rows}")
        if min(self.rounds, self.units) < 1 or self.seconds <= 0:
            raise UsageError("rounds and units must be at least 1, and seconds more than 0")


def pandas_csv(root: Path, columns: Sequence[str]) -> Any:
    """The whole file parsed once and kept; each epoch rows shuffled, batches sliced off."""
    import numpy as np
    import pandas as pd
    import tensorflow as tf

    table = pd.concat(pd.read_csv(file, usecols=list(columns)) for file in _csv_files(root))
    # A row of a DataFrame is in as many places as there are columns; of arrays a type in few.
    kept = {name: table[name].to_numpy() for name in columns}

    def batches() -> Iterator[dict[str, Any]]:
        while True:
            order = np.random.default_rng().permutation(len(table))
            for start in range(0, len(table), BATCH_SIZE):
                rows = order[start : start + BATCH_SIZE]
                yield {name: values[rows, None] for name, values in kept.items()}

    dtypes = {"f": tf.float64, "i": tf.int64, "s": tf.string}
    signature = {name: tf.TensorSpec([None, 1], dtypes[name[0]]) for name in columns}
    return tf.data.Dataset.from_generator(batches, output_signature=signature).prefetch(8)


def tensorflow_csv(root: Path, columns: Sequence[str]) -> Any:
    """`tf.data.experimental.make_csv_dataset`, shuffled, a file a core at a time."""
    import tensorflow as tf

    kinds = {"f": tf.float32, "i": tf.int64, "s": tf.string}
    data = tf.data.experimental.make_csv_dataset(
        [str(file) for file in _csv_files(root)],
        BATCH_SIZE,
        select_columns=list(columns),
        column_defaults=[kinds[name[0]] for name in columns],
        num_epochs=None,
        shuffle=True,
        shuffle_buffer_size=16_384,
        num_parallel_reads=len(os.sched_getaffinity(0)),
        sloppy=True,
        prefetch_buffer_size=tf.data.AUTOTUNE,
    )
    return data.map(lambda row: {name: value[:, None] for name, value in row.items()})


def stock(root: Path, columns: Sequence[str]) -> Any:
    """What `fn_args.data_accessor.tf_dataset_factory` gives."""
    return rows_benchmark.stock(packed_benchmark.row_files(root), columns)


def row_examples(root: Path, columns: Sequence[str]) -> Any:
    """`Input.rows` as it comes."""
    return rows_benchmark.penstock(packed_benchmark.row_files(root), columns)


def packed(root: Path, columns: Sequence[str]) -> Any:
    """`Input.packed` as it comes."""
    return packed_benchmark.packed(root, columns=columns)


def _csv_files(root: Path) -> list[Path]:
    return sorted((root / "csv").iterdir())


CONTENDERS: dict[str, Callable[[Path, Sequence[str]], Any]] = {
    PANDAS: pandas_csv,
    CSV: tensorflow_csv,
    STOCK: stock,
    ROWS: row_examples,
    PACKED: packed,
}


def _read(name: str, root: Path, seconds: float) -> Measured:
    read = reader(iter(CONTENDERS[name](root, made_table.COLUMNS)))
    return measure(lambda: read(seconds))


def _train(name: str, root: Path, seconds: float, units: int) -> Measured:
    """The same with a network behind it; the input needs the cores that the steps take."""
    import tensorflow as tf

    def data() -> Any:
        batches = CONTENDERS[name](root, gpu_networks.NUMBERS)
        return batches.map(gpu_networks.stack, num_parallel_calls=tf.data.AUTOTUNE).prefetch(8)

    figures = train_for(
        seconds, lambda: gpu_networks.table_model(units), data, batch_rows=BATCH_SIZE
    )
    rows = round(figures["rows_per_second"] * seconds)
    cpu = figures["cpu_us_per_row"] * rows / 1e6
    return Measured(rows, seconds, cpu, peak_mib_now())


def prepare(options: TabularOptions) -> None:
    """Make and pack the table, unless it is there."""
    root = packed_benchmark.prepare(questions.data_folder(), options.rows)
    make_once(root / "csv", lambda folder: _write_csv(folder, options.rows))


def _write_csv(folder: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.csv as pc

    folder.mkdir()
    table = pa.Table.from_batches(made_table.batches(rows))
    part = -(-rows // CSV_FILES)
    for number, start in enumerate(range(0, rows, part)):
        pc.write_csv(table.slice(start, part), folder / f"{number:05d}.csv")


def _pack(root: Path) -> Measured:
    from penstock.components.packing.options import PackOptions
    from penstock.components.packing.pack import pack

    rows = int(root.name.rpartition("-")[2])

    def work() -> int:
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            pack(str(root / "rows"), Path(folder, "packed"), PackOptions())
        return rows

    return measure(work)


def run(options: TabularOptions) -> Outcome:
    """Read by all contenders, then train by all."""
    began = time.perf_counter()
    questions.prepare(__file__, options)
    root = str(questions.data_folder() / f"packed-{options.rows}")
    common = {"root": root, "seconds": options.seconds, "units": options.units}
    found = {}
    for mode in ("read", "train"):
        arguments = questions.job_arguments(mode=mode, **common)
        results = in_turn(__file__, [(name, arguments) for name in CONTENDERS], options.rounds)
        contenders = [
            Contender.of(n, r, questions.first_line(CONTENDERS[n])) for n, r in results.items()
        ]
        found[mode] = Comparison(_TITLES[mode], "rows", contenders)
    arguments = questions.job_arguments(mode="pack", **common)
    cost = in_turn(__file__, [(PACKED, arguments)], options.rounds)[PACKED]
    return Outcome(
        question="tabular",
        title="A table: from CSV, from Examples, from packed records",
        setting=_setting(options),
        comparisons=list(found.values()),
        facts=[_packing(Contender.of(PACKED, cost).cpu_us, found["read"])],
        verdicts=_verdicts(found["read"], found["train"]),
        seconds=time.perf_counter() - began,
    )


_TITLES = {"read": "Read to shuffled batches", "train": "Train a small network"}


def _packing(pack_us: float, read: Comparison) -> FactTable:
    """After how many passes over the data packed records have cost less than row Examples."""
    saved_us = read.named(ROWS).cpu_us - read.named(PACKED).cpu_us
    headers = ("CPU us a row to pack", "saved in a pass", "passes until it pays")
    return FactTable("Packing", headers, [(pack_us, saved_us, pack_us / saved_us)])


def _verdicts(read: Comparison, train: Comparison) -> list[claims.Judgement]:
    return [
        claims.judge(claims.TABLES_TRAIN_FASTER, train.rate_ratio(name, to=CSV),
                     f"training, rows/s, {name} to {CSV}")
        for name in (ROWS, PACKED)
    ] + [
        claims.judge(claims.EPOCHS_FASTER, train.rate_ratio(ROWS, to=PANDAS),
                     f"training, rows/s, {ROWS} to {PANDAS}"),
        claims.judge(claims.UP_TO_SEVEN_TIMES, read.rate_ratio(ROWS, to=CSV),
                     f"reading, rows/s, {ROWS} to {CSV}"),
        claims.judge(claims.UP_TO_SEVEN_TIMES, read.rate_ratio(PACKED, to=CSV),
                     f"reading, rows/s, {PACKED} to {CSV}"),
    ]  # fmt: skip


def _setting(options: TabularOptions) -> list[str]:
    return [
        f"{options.rows:,} made rows of 20 floats, 12 integers and 8 texts, in batches of "
        f"{BATCH_SIZE}",
        f"the network: two layers of {options.units} over the 32 numbers, trained by Penstock's "
        "loop whatever the input; no contender reads the texts then",
        f"the CSV is in {CSV_FILES} files; pandas has parsed it before the time begins",
        f"medians of {options.rounds} rounds of {options.seconds:g} s, each contender a process of "
        "its own, in turn; files are in the page cache",
    ]


def _contend(name: str, job: dict[str, Any]) -> dict[str, Any]:
    root, seconds = Path(job["root"]), job["seconds"]
    if job["mode"] == "pack":
        return asdict(_pack(root))
    if job["mode"] == "read":
        return asdict(_read(name, root, seconds))
    return asdict(_train(name, root, seconds, job["units"]))


if __name__ == "__main__":
    questions.answer_child(TabularOptions, prepare, _contend)
