"""CSV to TFRecord: a Python loop, TFX's stock CsvExampleGen, Penstock.

Claim: at least 12 times the rows per CPU second of CsvExampleGen with the same compression
and split, at least 10 times the Python loop; memory does not grow with the input.

    python benchmarks/ingest.py                    about 5 minutes
    python benchmarks/ingest.py --memory           10 million rows against 1 million
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from penstock.benchmarks import made_table
from penstock.benchmarks.harness import Measured, in_turn, measure, report

SHARDS = 16


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


def penstock(csv: Path, out: Path, compression: str, workers: int = 1) -> Measured:
    """`penstock ingest` with the same splits, two to one, as CsvExampleGen's."""
    from penstock.components.example_gen.ingest import ingest, plan_job
    from penstock.components.example_gen.options import IngestOptions
    from penstock.components.example_gen.split_options import SplitOptions
    from penstock.components.local_beam import local_pipeline
    from penstock.components.sources.open import open_source
    from penstock.components.sources.options import SourceOptions

    def work() -> int:
        options = IngestOptions(compression=compression)
        job = plan_job(open_source([str(csv)], SourceOptions()), SplitOptions(), options)
        return ingest([job], out, options, lambda: local_pipeline(workers)).account.read

    return measure(work)


def penstock_workers(csv: Path, out: Path, compression: str) -> Measured:
    """The same with a worker process on every core."""
    return penstock(csv, out, compression, len(os.sched_getaffinity(0)))


CONTENDERS: dict[str, tuple[Callable[[Path, Path, str], Measured], str]] = {
    "Python loop": (python_loop, ""),
    "Python loop, GZIP": (python_loop, "GZIP"),
    "stock CsvExampleGen, GZIP": (stock, "GZIP"),
    "Penstock": (penstock, ""),
    "Penstock, GZIP": (penstock, "GZIP"),
    "Penstock, a worker a core": (penstock_workers, ""),
}


def _rows(csv: Path) -> int:
    return int(csv.stem.rpartition("-")[2])


def main() -> None:
    """Run the benchmark, or, as a child of it, one contender."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="for Penstock")
    parser.add_argument("--slow-rows", type=int, default=20_000, help="for the others")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="1 and 10 times the rows")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "penstock-bench")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    parser.add_argument("--csv", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        _child(args.contender, args.csv)
        return
    fast = made_table.csv_file(args.data, args.rows)
    if args.memory:
        many = made_table.csv_file(args.data, 10 * args.rows)
        for csv in (fast, many):
            results = in_turn(__file__, [("Penstock", ["--csv", str(csv)])], 1)
            report(f"{_rows(csv):,} rows x 40 columns", results, "Penstock", as_json=args.json)
        return
    slow = made_table.csv_file(args.data, args.slow_rows)
    contenders = [
        (name, ["--csv", str(fast if name.startswith("Penstock") else slow)]) for name in CONTENDERS
    ]
    results = in_turn(__file__, contenders, args.rounds)
    report("CSV to TFRecord, 40 columns", results, "stock CsvExampleGen, GZIP", as_json=args.json)


def _child(name: str, csv: Path) -> None:
    contender, compression = CONTENDERS[name]
    folder = Path(tempfile.mkdtemp(prefix="penstock-bench-"))
    try:
        print(json.dumps(asdict(contender(csv, folder / "out", compression))))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
