"""Compares converters of CSV to TFRecord: a Python loop, TFX's CsvExampleGen, and Penstock.

Penstock splits rows two to one, as CsvExampleGen does; the loop does not split them. The
measurement excludes imports, but includes planning and the start of workers.
"""

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.benchmarks import claims, table
from penstock.benchmarks.harness import Check, Group, Measured, at_least, bound, measure

SHARDS = 16
LOOP, LOOP_GZIP = "Python loop", "Python loop, GZIP"
STOCK = "CsvExampleGen, GZIP"
OURS, OURS_GZIP = "Penstock", "Penstock, GZIP"
WORKERS, WORKERS_GZIP = "Penstock, a worker a core", "Penstock, a worker a core, GZIP"


@dataclass(frozen=True)
class Options:
    """Number of rows to ingest, and number of rounds.

    Attributes:
        rows: Rows of the table, which has 40 columns.
        rounds: How often each contender runs.
    """

    rows: int = 50_000
    rounds: int = 3

    def __post_init__(self) -> None:
        at_least(self, rows=1, rounds=1)


def python_loop(csv: Path, out: Path, compression: str) -> Measured:
    """Converts one row at a time: csv.DictReader, tf.train.Example, TFRecordWriter; no split."""
    import csv as csv_module

    import tensorflow as tf

    def feature(name: str, text: str) -> tf.train.Feature:
        if name[0] == "f":
            return tf.train.Feature(float_list=tf.train.FloatList(value=[float(text)]))
        if name[0] == "i":
            return tf.train.Feature(int64_list=tf.train.Int64List(value=[int(text)]))
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[text.encode()]))

    def work() -> int:
        out.mkdir()
        options = tf.io.TFRecordOptions(compression_type=compression)
        writers = [tf.io.TFRecordWriter(str(out / f"{i:05d}"), options) for i in range(SHARDS)]
        with csv.open(newline="") as lines:
            for number, row in enumerate(csv_module.DictReader(lines)):
                features = {name: feature(name, text) for name, text in row.items()}
                example = tf.train.Example(features=tf.train.Features(feature=features))
                writers[number % SHARDS].write(example.SerializeToString())
        for writer in writers:
            writer.close()
        return number + 1

    return measure(work)


def stock(csv: Path, out: Path, compression: str) -> Measured:
    """CsvExampleGen with its defaults: LocalDagRunner, in process, GZIP, one shard per split."""
    del compression
    from tfx.components import CsvExampleGen
    from tfx.orchestration import metadata, pipeline
    from tfx.orchestration.local.local_dag_runner import LocalDagRunner

    (out / "csv").mkdir(parents=True)
    (out / "csv" / csv.name).symlink_to(csv)

    def work() -> int:
        LocalDagRunner().run(
            pipeline.Pipeline(
                pipeline_name="stock",
                pipeline_root=str(out / "root"),
                components=[CsvExampleGen(input_base=str(out / "csv"))],
                metadata_connection_config=metadata.sqlite_metadata_connection_config(
                    str(out / "metadata.sqlite")
                ),
            )
        )
        return int(csv.stem.rpartition("-")[2])  # the file's name contains the number of rows

    return measure(work)


def penstock(csv: Path, out: Path, compression: str, workers: int = 1) -> Measured:
    """`penstock ingest` with the splits of CsvExampleGen, two to one; planning is included."""
    from penstock.components.example_gen.ingest import ingest
    from penstock.components.example_gen.options import IngestInput, IngestOptions, SplitOptions
    from penstock.components.sources.options import Table

    inputs = [IngestInput(str(csv), Table(), SplitOptions())]
    options = IngestOptions(compression=compression)
    return measure(lambda: ingest(inputs, out, options, engine=workers).account.read)


def penstock_workers(csv: Path, out: Path, compression: str) -> Measured:
    """`penstock ingest` with one worker process per core."""
    return penstock(csv, out, compression, len(os.sched_getaffinity(0)))


CONTENDERS: dict[str, tuple[Callable[[Path, Path, str], Measured], str]] = {
    LOOP: (python_loop, ""),
    LOOP_GZIP: (python_loop, "GZIP"),
    STOCK: (stock, "GZIP"),
    OURS: (penstock, ""),
    OURS_GZIP: (penstock, "GZIP"),
    WORKERS: (penstock_workers, ""),
    WORKERS_GZIP: (penstock_workers, "GZIP"),
}


def prepare(options: Options) -> None:
    """Writes the CSV file, unless it exists."""
    table.csv_file(options.rows)


def _ingest(way: Callable[..., Measured], rows: int, compression: str) -> Measured:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        return way(table.csv_path(rows), Path(folder, "out"), compression)


def groups(options: Options) -> list[Group]:
    """Returns one comparison, in which all contenders convert the same rows."""
    ways = {
        name: bound(_ingest, way, rows=options.rows, compression=compression)
        for name, (way, compression) in CONTENDERS.items()
    }
    checks = [
        Check(claims.INGEST_10, OURS, [LOOP]),
        Check(claims.INGEST_10, OURS_GZIP, [LOOP_GZIP]),
        Check(claims.INGEST_12, OURS_GZIP, [STOCK]),
    ]
    return [Group("CSV of 40 columns to TFRecord", "rows", ways, checks)]
