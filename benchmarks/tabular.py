"""Tables: CSV by pandas and by TensorFlow, TFX's stock input, row Examples, packed; read, trained.

penstock bench tabular
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.benchmarks import claims, gpu_networks, made_table, questions
from penstock.benchmarks import input as rows_benchmark
from penstock.benchmarks import packed as packed_benchmark
from penstock.benchmarks.harness import Measured, in_turn, measure, peak_mib_now
from penstock.benchmarks.outcome import Comparison, Contender, Outcome
from penstock.benchmarks.reading import reader
from penstock.benchmarks.trained import train_for
from penstock.components.errors import UsageError

BATCH_SIZE = 1024
PANDAS, CSV, STOCK, ROWS, PACKED = (
    "pandas", "make_csv_dataset", "stock tf_dataset_factory", "row Examples", "packed",
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


def pandas_csv(root: Path) -> Any:
    """The whole file parsed anew each epoch, rows shuffled, batches sliced off."""
    import numpy as np
    import pandas as pd
    import tensorflow as tf

    def batches() -> Iterator[dict[str, Any]]:
        while True:
            table = pd.read_csv(root / "table.csv")
            order = np.random.default_rng().permutation(len(table))
            for start in range(0, len(table), BATCH_SIZE):
                some = table.iloc[order[start : start + BATCH_SIZE]]
                yield {name: some[name].to_numpy()[:, None] for name in made_table.COLUMNS}

    dtypes = {"f": tf.float64, "i": tf.int64, "s": tf.string}
    signature = {n: tf.TensorSpec([None, 1], dtypes[n[0]]) for n in made_table.COLUMNS}
    return tf.data.Dataset.from_generator(batches, output_signature=signature).prefetch(8)


def tensorflow_csv(root: Path) -> Any:
    """`tf.data.experimental.make_csv_dataset` as it comes, shuffled."""
    import tensorflow as tf

    data = tf.data.experimental.make_csv_dataset(
        str(root / "table.csv"), BATCH_SIZE, num_epochs=None, shuffle=True
    )
    return data.map(lambda row: {name: value[:, None] for name, value in row.items()})


def stock(root: Path) -> Any:
    """What `fn_args.data_accessor.tf_dataset_factory` gives."""
    return rows_benchmark.stock(packed_benchmark.row_files(root))


def row_examples(root: Path) -> Any:
    """`train_input_fn` as it comes."""
    return packed_benchmark.row_examples(root)


def packed(root: Path) -> Any:
    """`packed_train_input_fn` as it comes."""
    return packed_benchmark.packed(root)


CONTENDERS: dict[str, Callable[[Path], Any]] = {
    PANDAS: pandas_csv,
    CSV: tensorflow_csv,
    STOCK: stock,
    ROWS: row_examples,
    PACKED: packed,
}


def _read(name: str, root: Path, seconds: float) -> Measured:
    read = reader(iter(CONTENDERS[name](root)))
    return measure(lambda: read(seconds))


def _train(name: str, root: Path, seconds: float, units: int) -> Measured:
    """The same with a network behind it; the input needs the cores that the steps take."""
    import tensorflow as tf

    def data() -> Any:
        if name == PACKED:
            return gpu_networks.packed_rows(root)
        batches = CONTENDERS[name](root)
        return batches.map(gpu_networks.stack, num_parallel_calls=tf.data.AUTOTUNE).prefetch(8)

    figures = train_for(
        seconds, lambda: gpu_networks.table_model(units), data, batch_rows=BATCH_SIZE
    )
    rows = round(figures["rows_per_second"] * seconds)
    cpu = figures["cpu_us_per_row"] * rows / 1e6
    return Measured(rows, seconds, cpu, peak_mib_now())


def prepare(options: TabularOptions) -> None:
    """Make and pack the table, unless it is there."""
    folder = questions.data_folder()
    root = packed_benchmark.prepare(folder, options.rows)
    if not (root / "table.csv").exists():
        (root / "table.csv").symlink_to(made_table.csv_file(folder, options.rows).resolve())


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
    return Outcome(
        question="tabular",
        title="A table: from CSV, from Examples, from packed records",
        setting=_setting(options),
        comparisons=list(found.values()),
        verdicts=_verdicts(found["read"], found["train"]),
        seconds=time.perf_counter() - began,
    )


_TITLES = {"read": "Read to shuffled batches", "train": "Train a small network"}


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
        "loop whatever the input",
        f"medians of {options.rounds} rounds of {options.seconds:g} s, each contender a process of "
        "its own, in turn; files are in the page cache",
    ]


def _contend(name: str, job: dict[str, Any]) -> dict[str, Any]:
    root, seconds = Path(job["root"]), job["seconds"]
    if job["mode"] == "read":
        return asdict(_read(name, root, seconds))
    return asdict(_train(name, root, seconds, job["units"]))


if __name__ == "__main__":
    questions.answer_child(TabularOptions, prepare, _contend)
