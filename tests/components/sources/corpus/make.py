"""Writes the corpus: small files of current writers, named `<writer>-<version>-<what>.<ext>`.

Run it with newer packages than those that Penstock has for Python 3.10:
    uv venv /tmp/new --python 3.11
    uv pip install --python /tmp/new/bin/python pyarrow polars duckdb fastparquet pandas \\
        datasets zstandard
    /tmp/new/bin/python tests/components/sources/corpus/make.py
"""

import base64
import datetime
import decimal
from pathlib import Path

import datasets
import duckdb
import fastparquet
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
from pyarrow import feather, orc

HERE = Path(__file__).parent
ROWS = 20
IDS = range(ROWS)
NAMES = [f"n{i}" if i % 4 else None for i in IDS]
ARROW = f"pyarrow-{pa.__version__}"


def path(writer, what):
    return str(HERE / f"{writer}-{what}")


def plain():
    return pd.DataFrame(
        {
            "id": IDS,
            "name": NAMES,
            "score": [i / 4 for i in IDS],
            "at": [datetime.datetime(2024, 1, 1 + i) for i in IDS],
        }
    )


def by_each_writer():
    frame = plain()
    frame.to_parquet(path(f"pandas-{pd.__version__}", "plain.parquet"))
    fastparquet.write(path(f"fastparquet-{fastparquet.__version__}", "plain.parquet"), frame)
    polars = pl.from_pandas(frame)
    polars.write_parquet(path(f"polars-{pl.__version__}", "plain.parquet"))
    polars.write_ipc(path(f"polars-{pl.__version__}", "plain.arrow"), compression="zstd")
    for compression in ("snappy", "zstd"):
        target = path(f"duckdb-{duckdb.__version__}", f"{compression}.parquet")
        duckdb.sql(f"COPY (SELECT * FROM frame) TO '{target}' (COMPRESSION {compression})")
    interval = path(f"duckdb-{duckdb.__version__}", "interval.parquet")
    duckdb.sql(f"COPY (SELECT 1 AS id, INTERVAL 1 DAY AS late) TO '{interval}'")
    table = pa.Table.from_pandas(frame)
    pq.write_table(table, path(ARROW, "plain.parquet"))
    feather.write_feather(table, path(ARROW, "plain.feather"))
    orc.write_table(table, path(ARROW, "plain.orc"))


def compressed_text():
    frame = plain()
    pandas, polars = f"pandas-{pd.__version__}", pl.from_pandas(frame)
    for end in ("gz", "bz2", "xz", "zst"):
        frame.to_csv(path(pandas, f"text.csv.{end}"), index=False)
        frame.to_json(path(pandas, f"text.jsonl.{end}"), orient="records", lines=True)
    polars.write_csv(path(f"polars-{pl.__version__}", "text.csv.zst"), compression="zstd")
    target = path(f"duckdb-{duckdb.__version__}", "text.csv.gz")
    duckdb.sql(f"COPY (SELECT * FROM frame) TO '{target}' (HEADER, COMPRESSION gzip)")
    target = path(f"duckdb-{duckdb.__version__}", "text.jsonl.zst")
    duckdb.sql(f"COPY (SELECT * FROM frame) TO '{target}' (FORMAT json, COMPRESSION zstd)")


def hugging_face():
    target = path(f"datasets-{datasets.__version__}", "saved")
    columns = {"id": list(IDS), "name": NAMES, "label": [i % 2 for i in IDS]}
    label = datasets.ClassLabel(names=["no", "yes"])
    saved = datasets.Dataset.from_dict(columns).cast_column("label", label)
    datasets.DatasetDict(train=saved, test=saved.select(range(5))).save_to_disk(
        target, num_shards={"train": 2, "test": 1}
    )


def that_pyarrow_10_cannot_read():
    text = pa.table({"x": [f"text {i}" for i in IDS]})
    write(text, "delta-length", use_dictionary=False, column_encoding="DELTA_LENGTH_BYTE_ARRAY")
    numbers = pa.table({"x": pa.array(IDS, pa.int32())})
    write(numbers, "split-integers", use_dictionary=False, column_encoding="BYTE_STREAM_SPLIT")
    lists = [[1, 2, 3] if i % 9 else None for i in IDS]
    write(pa.table({"x": pa.array(lists, pa.list_(pa.int32(), 3))}), "fixed-lists")
    decimals = [decimal.Decimal(i) / 4 for i in IDS]
    write(pa.table({"x": pa.array(decimals, pa.decimal32(7, 2))}), "decimal32")
    write(pa.table({"x": pa.array(text["x"].to_pylist(), pa.string_view())}), "string-view")


def write(table, what, **options):
    pq.write_table(table, path(ARROW, f"{what}.parquet"), **options)


class NoKms(pe.KmsClient):
    def wrap_key(self, key, name):
        return base64.b64encode(key)

    def unwrap_key(self, key, name):
        return base64.b64decode(key)


def encrypted():
    table = pa.table({"x": [f"text {i}" for i in IDS]})
    factory, connection = pe.CryptoFactory(lambda _: NoKms()), pe.KmsConnectionConfig()
    for what, plaintext in (("encrypted", False), ("encrypted-columns", True)):
        chosen = pe.EncryptionConfiguration(
            footer_key="k", column_keys={"k": ["x"]}, plaintext_footer=plaintext
        )
        keys = factory.file_encryption_properties(connection, chosen)
        target = path(ARROW, f"{what}.parquet")
        with pq.ParquetWriter(target, table.schema, encryption_properties=keys) as out:
            out.write_table(table)


if __name__ == "__main__":
    by_each_writer()
    compressed_text()
    hugging_face()
    that_pyarrow_10_cannot_read()
    encrypted()
