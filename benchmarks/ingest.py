"""CSV to TFRecord: a Python loop, TFX's stock CsvExampleGen, Penstock, and what limits any.

All have the same rows; Penstock also has ten times as many. The limits do part of the work:
TensorFlow's writer on bytes that are ready, and pyarrow from the same CSV to Parquet.

penstock bench ingest
"""

import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from penstock.benchmarks import claims, made_table, questions
from penstock.benchmarks.harness import Measured, in_turn, measure
from penstock.benchmarks.outcome import Comparison, Contender, FactTable, Outcome
from penstock.components.errors import UsageError

SHARDS = 16
LOOP, LOOP_GZIP = "Python loop", "Python loop, GZIP"
STOCK = "CsvExampleGen, GZIP"
OURS, OURS_GZIP = "Penstock", "Penstock, GZIP"
WORKERS, WORKERS_GZIP = "Penstock, a worker a core", "Penstock, a worker a core, GZIP"
MANY, MANY_GZIP = "Penstock, many rows", "Penstock, many rows, GZIP"
WRITER, PARQUET = "limit: TFRecordWriter, ready bytes", "limit: pyarrow, CSV to Parquet"


@dataclass(frozen=True)
class CsvIngestOptions:
    """How much is ingested, and how often.

    Attributes:
        rows: Rows of 40 columns that all ingest.
        many_rows: Rows that Penstock ingests besides; 0 leaves that out.
        memory_rows: Rows of one more file, ingested once to see whether memory grows; 0 leaves it
            out.
        rounds: How often each contender runs.
    """

    rows: int = 50_000
    many_rows: int = 500_000
    memory_rows: int = 0
    rounds: int = 3

    def __post_init__(self) -> None:
        if min(self.rows, self.rounds) < 1 or min(self.many_rows, self.memory_rows) < 0:
            raise UsageError(
                "rows and rounds must be at least 1, many_rows and memory_rows at least 0, got "
                f"{self.rows}, {self.rounds}, {self.many_rows} and {self.memory_rows}"
            )

    def rows_of(self, contender: str) -> int:
        """What a contender ingests."""
        return self.many_rows if contender in (MANY, MANY_GZIP) else self.rows


def python_loop(csv: Path, out: Path, compression: str) -> Measured:
    """One row at a time: csv.DictReader, tf.train.Example, TFRecordWriter; no split."""
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
    """TFX's CsvExampleGen as it comes: LocalDagRunner, in process, GZIP, one shard a split."""
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
        return _rows(csv)

    return measure(work)


def ingest_source(
    source: Any,
    inputs: str,
    out: Path,
    *,
    compression: str = "",
    partition_feature: str | None = None,
    workers: int = 1,
) -> Measured:
    """What `penstock ingest` does by the options of a source, planning included."""
    from penstock.components.example_gen.ingest import ingest
    from penstock.components.example_gen.options import IngestInput, IngestOptions, SplitOptions

    def work() -> int:
        options = IngestOptions(compression=compression)
        splits = SplitOptions(partition_feature=partition_feature)
        found = ingest([IngestInput(inputs, source, splits)], out, options, engine=workers)
        return found.account.read

    return measure(work)


def penstock(csv: Path, out: Path, compression: str, workers: int = 1) -> Measured:
    """`penstock ingest` with the same splits, two to one, as CsvExampleGen's."""
    from penstock.components.sources.options import Table

    return ingest_source(Table(), str(csv), out, compression=compression, workers=workers)


def penstock_workers(csv: Path, out: Path, compression: str) -> Measured:
    """The same with a worker process on every core."""
    return penstock(csv, out, compression, len(os.sched_getaffinity(0)))


def writer_limit(csv: Path, out: Path, compression: str) -> Measured:
    """Lines of the file, in memory, written as records by `TFRecordWriter`: nothing is parsed."""
    import tensorflow as tf

    lines = csv.read_bytes().splitlines()[1:]

    def work() -> int:
        out.mkdir()
        for shard in range(SHARDS):
            with tf.io.TFRecordWriter(str(out / f"{shard:05d}"), compression) as writer:
                for line in lines[shard::SHARDS]:
                    writer.write(line)
        return len(lines)

    return measure(work)


def parquet_limit(csv: Path, out: Path, compression: str) -> Measured:
    """The reader and writer of pyarrow, one thread: no split, no checksum, no manifest."""
    del compression
    import pyarrow.csv as pc
    import pyarrow.parquet as pq

    def work() -> int:
        table = pc.read_csv(csv, pc.ReadOptions(use_threads=False))
        pq.write_table(table, out)
        return len(table)

    return measure(work)


CONTENDERS: dict[str, tuple[Callable[[Path, Path, str], Measured], str]] = {
    LOOP: (python_loop, ""),
    LOOP_GZIP: (python_loop, "GZIP"),
    STOCK: (stock, "GZIP"),
    OURS: (penstock, ""),
    OURS_GZIP: (penstock, "GZIP"),
    WORKERS: (penstock_workers, ""),
    WORKERS_GZIP: (penstock_workers, "GZIP"),
    MANY: (penstock, ""),
    MANY_GZIP: (penstock, "GZIP"),
    WRITER: (writer_limit, ""),
    PARQUET: (parquet_limit, ""),
}


def _rows(csv: Path) -> int:
    return int(csv.stem.rpartition("-")[2])


def prepare(options: CsvIngestOptions) -> None:
    """Make the CSV files, unless they are there."""
    for rows in {options.rows, options.many_rows, options.memory_rows} - {0}:
        made_table.csv_file(questions.data_folder(), rows)


def run(options: CsvIngestOptions) -> Outcome:
    """Ingest by all contenders in turn."""
    began = time.perf_counter()
    questions.prepare(__file__, options)
    contenders = [
        (name, _job(options.rows_of(name))) for name in CONTENDERS if options.rows_of(name)
    ]
    results = in_turn(__file__, contenders, options.rounds)
    found = Comparison(
        "CSV of 40 columns to TFRecord",
        "rows",
        [
            Contender.of(name, measured, questions.first_line(CONTENDERS[name][0]))
            for name, measured in results.items()
        ],
    )
    return Outcome(
        question="ingest",
        title="CSV to TFRecord: a loop, TFX, Penstock",
        setting=_setting(options),
        comparisons=[found],
        facts=_memory(options, results[OURS]) if options.memory_rows else [],
        verdicts=_verdicts(found),
        seconds=time.perf_counter() - began,
    )


def _job(rows: int) -> list[str]:
    return questions.job_arguments(csv=str(made_table.csv_path(questions.data_folder(), rows)))


def _memory(options: CsvIngestOptions, measured: Measured) -> list[FactTable]:
    more = in_turn(__file__, [(OURS, _job(options.memory_rows))], 1)[OURS]
    rows = [
        (f"{one.rows:,.0f} rows", round(one.peak_mib), one.wall_seconds) for one in (measured, more)
    ]
    return [FactTable("Memory of Penstock, one worker", ("Input", "Peak MiB", "Seconds"), rows)]


def _verdicts(found: Comparison) -> list[claims.Judgement]:
    return [
        claims.judge(claim, found.cpu_ratio(name, to=base), f"CPU time a row, {base} to {name}")
        for claim, name, base in (
            (claims.INGEST_10, OURS, LOOP),
            (claims.INGEST_10, OURS_GZIP, LOOP_GZIP),
            (claims.INGEST_12, OURS_GZIP, STOCK),
        )
    ]


def _setting(options: CsvIngestOptions) -> list[str]:
    return [
        f"{options.rows:,} made rows of 20 floats, 12 integers and 8 texts"
        + (f"; many rows are {options.many_rows:,}" if options.many_rows else ""),
        "Penstock and CsvExampleGen split rows two to one; the loop does not. Penstock also writes "
        "a checksum of each shard and a manifest, and names a bad row",
        f"medians of {options.rounds} rounds, each contender a process of its own, in turn; "
        "imports are not counted, planning and starting workers is",
    ]


def _contend(name: str, job: dict[str, Any]) -> dict[str, Any]:
    contender, compression = CONTENDERS[name]
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        return asdict(contender(Path(job["csv"]), Path(folder, "out"), compression))


if __name__ == "__main__":
    questions.answer_child(CsvIngestOptions, prepare, _contend)
