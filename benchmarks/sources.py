"""The same table from CSV, Parquet, sqlite and PostgreSQL to TFRecord.

Claim: Parquet and SQL take at most 1.5 times the CPU a row that CSV takes. A server's own CPU
is not counted; it is where the database is.

    python benchmarks/sources.py                   about 3 minutes
    PENSTOCK_SQL_PASSWORD=... python benchmarks/sources.py --postgresql postgresql://me@host/db

The user of PostgreSQL must be allowed to make the table `penstock_bench_<rows>`.
"""

import argparse
import json
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from penstock.benchmarks import made_table
from penstock.benchmarks.harness import Measured, in_turn, report
from penstock.benchmarks.ingest import ingest_source
from penstock.benchmarks.make_once import make_once
from penstock.benchmarks.questions import data_folder
from penstock.components.sources.options import KindOptions

CSV, PARQUET, SQLITE, POSTGRESQL = "CSV", "Parquet", "sqlite", "PostgreSQL"


def ingest_table(inputs: str, source: KindOptions, out: Path, rows: int) -> Measured:
    """The table's rows, all of them."""
    measured = ingest_source(source, inputs, out)
    assert measured.rows == rows, f"{measured.rows} of {rows} rows"
    return measured


def from_csv(data: Path, rows: int, out: Path, _: str) -> Measured:
    """Comma-separated text."""
    from penstock.components.sources.options import Table

    return ingest_table(str(made_table.csv_file(data, rows)), Table(), out, rows)


def from_parquet(data: Path, rows: int, out: Path, _: str) -> Measured:
    """Parquet as Arrow writes it: Snappy, dictionaries."""
    from penstock.components.sources.options import Table

    return ingest_table(str(parquet_file(data, rows)), Table(), out, rows)


def from_sqlite(data: Path, rows: int, out: Path, _: str) -> Measured:
    """A table with an integer primary key; the key is one column more."""
    from penstock.components.sources.sql.options import Sql

    address = f"sqlite:///{sqlite_file(data, rows)}"
    return ingest_table(address, Sql(table="rows"), out, rows)


def from_postgresql(data: Path, rows: int, out: Path, address: str) -> Measured:
    """The same on a server."""
    from penstock.components.sources.sql.options import Sql

    del data
    return ingest_table(address, Sql(table=f"penstock_bench_{rows}"), out, rows)


CONTENDERS: dict[str, Callable[[Path, int, Path, str], Measured]] = {
    CSV: from_csv,
    PARQUET: from_parquet,
    SQLITE: from_sqlite,
    POSTGRESQL: from_postgresql,
}


def parquet_file(folder: Path, rows: int) -> Path:
    """The table as Parquet, made unless it is there."""
    import pyarrow.parquet as pq

    def make(path: Path) -> None:
        with pq.ParquetWriter(path, next(made_table.batches(1)).schema) as writer:
            for batch in made_table.batches(rows):
                writer.write_batch(batch)

    return make_once(folder / f"table-{rows}.parquet", make)


def sqlite_file(folder: Path, rows: int) -> Path:
    """The table as a database, made unless it is there."""

    def make(path: Path) -> None:
        connection = sqlite3.connect(path)
        connection.execute(
            f"CREATE TABLE rows (id INTEGER PRIMARY KEY, {', '.join(_sql_columns())})"
        )
        marks = ", ".join("?" * (1 + len(made_table.COLUMNS)))
        for batch in _numbered(rows):
            connection.executemany(f"INSERT INTO rows VALUES ({marks})", batch)
        connection.commit()
        connection.close()

    return make_once(folder / f"table-{rows}.db", make)


def postgresql_table(address: str, rows: int) -> None:
    """The table on a server, made unless it is there."""
    from penstock.components.sources.sql.source import open_database

    name = f"penstock_bench_{rows}"
    with open_database(address, None).connect() as connection:
        raw: Any = connection.connection.driver_connection
        columns = ", ".join(_sql_columns())
        if raw.execute("SELECT to_regclass(%s)", [name]).fetchone()[0] is None:
            raw.execute(f"CREATE TABLE {name} (id bigint, {columns})")
            with raw.cursor().copy(f"COPY {name} FROM STDIN") as copy:
                for batch in _numbered(rows):
                    for row in batch:
                        copy.write_row(row)
            raw.execute(f"ALTER TABLE {name} ADD PRIMARY KEY (id)")
            raw.commit()
            raw.autocommit = True
            raw.execute(f"VACUUM ANALYZE {name}")


def _sql_columns() -> list[str]:
    types = {"f": "real", "i": "bigint", "s": "text"}
    return [f"{name} {types[name[0]]}" for name in made_table.COLUMNS]


def _numbered(rows: int) -> Iterator[Any]:
    first = 0
    for batch in made_table.batches(rows):
        numbers = range(first, first + batch.num_rows)
        yield zip(numbers, *(column.to_pylist() for column in batch.columns), strict=True)
        first += batch.num_rows


def main() -> None:
    """Run the benchmark, or, as a child of it, one contender."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--postgresql", default="", help="a database's address, without password")
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--contender", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.contender:
        contender = CONTENDERS[args.contender]
        with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
            measured = contender(args.data, args.rows, Path(folder, "out"), args.postgresql)
        print(json.dumps(asdict(measured)))
        return
    for make in (made_table.csv_file, parquet_file, sqlite_file):
        make(args.data, args.rows)
    if args.postgresql:
        postgresql_table(args.postgresql, args.rows)
    arguments = ["--rows", str(args.rows), "--data", str(args.data)]
    arguments += ["--postgresql", args.postgresql] if args.postgresql else []
    names = [name for name in CONTENDERS if args.postgresql or name != POSTGRESQL]
    results = in_turn(__file__, [(name, arguments) for name in names], args.rounds)
    report(f"{args.rows:,} rows x 40 columns to TFRecord", results, CSV, as_json=args.json)


if __name__ == "__main__":
    main()
