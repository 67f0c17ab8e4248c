"""Arrow IPC files and ORC files, written by pyarrow."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc
from reading import read_all, rows_of

from penstock.components.sources import batches, columnar
from penstock.components.sources.arrow import Arrow
from penstock.components.sources.open import open_source
from penstock.components.sources.options import Parquet
from penstock.components.sources.orc import Orc

ROWS = 1000


def table():
    return pa.table(
        {
            "id": pa.array(range(ROWS), pa.int32()),
            "name": [f"n{i}" if i % 3 else None for i in range(ROWS)],
            "score": pa.array([i / 2 for i in range(ROWS)], pa.float64()),
            "tags": [[i, i + 1] if i % 5 else None for i in range(ROWS)],
            "at": pa.array([1_600_000_000 + i for i in range(ROWS)], pa.timestamp("ms")),
        }
    )


def write_arrow(path, codec=None):
    options = pa.ipc.IpcWriteOptions(compression=codec)
    with pa.ipc.new_file(path, table().schema, options=options) as out:
        out.write_table(table(), max_chunksize=150)


def write_stream(path):
    with pa.ipc.new_stream(path, table().schema) as out:
        out.write_table(table(), max_chunksize=150)


def write_orc(path):
    orc.write_table(table(), str(path), stripe_size=4096, batch_size=100)


WRITERS = {
    "a.arrow": write_arrow,
    "lz4.arrow": lambda path: write_arrow(path, "lz4"),
    "zstd.arrow": lambda path: write_arrow(path, "zstd"),
    "stream.arrow": write_stream,
    "a.feather": lambda path: feather.write_feather(table(), path, chunksize=150),
    "a.orc": write_orc,
}


@pytest.mark.parametrize("name", WRITERS)
def test_rows_of_every_form(tmp_path, name):
    WRITERS[name](str(tmp_path / name))
    source = open_source(str(tmp_path / name))
    assert (source.kind, source.rows) == ("orc" if name.endswith("orc") else "arrow", ROWS)
    rows, rejected = read_all(source, 3)
    assert rejected == []
    assert [row["id"] for row in rows] == list(range(ROWS))
    assert rows[6] == {
        "id": 6, "name": None, "score": 3.0, "tags": [6, 7], "at": 1_600_000_006_000
    }  # fmt: skip
    assert [row["tags"] for row in rows[4:7]] == [[4, 5], None, [6, 7]]


SUFFIXES = {
    "parquet": lambda table, path: pq.write_table(table, path),
    "arrow": lambda table, path: feather.write_feather(table, path, compression="uncompressed"),
    "orc": lambda table, path: orc.write_table(table, path),
}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("has_schema", [False, True])
def test_columns_keep_their_names_in_files_of_another_order(tmp_path, suffix, has_schema):
    columns = pa.table({"age": [1, 2], "price": [10, 20], "age.x": [5, 6]})
    for at, names in enumerate((["price", "age.x", "age"], ["age", "age.x", "price"])):
        SUFFIXES[suffix](columns.select(names), str(tmp_path / f"{at}.{suffix}"))
    options = {}
    if has_schema:
        options = {"schema_file": str(tmp_path / "schema.pbtxt"), "extra_columns": "drop"}
        features = [f'feature {{name: "{name}" type: INT}}' for name in ("age", "price")]
        (tmp_path / "schema.pbtxt").write_text("\n".join(features))
    kind = {"parquet": Parquet, "arrow": Arrow, "orc": Orc}[suffix]
    source = open_source(str(tmp_path / f"*.{suffix}"), kind(**options))
    rows = rows_of(source)
    expected = [{"age": 1, "price": 10}, {"age": 2, "price": 20}] * 2
    assert [{"age": row["age"], "price": row["price"]} for row in rows] == expected
    assert [row.get("age.x") for row in rows] == ([None] * 4 if has_schema else [5, 6, 5, 6])


def test_a_large_dictionary_leaves_batches_large(tmp_path, monkeypatch):
    for module in (batches, columnar):
        monkeypatch.setattr(module, "MAX_BATCH_BYTES", 64 * 1024)
    texts = [f"{at:010}" for at in range(20_000)]
    words = pa.DictionaryArray.from_arrays(pa.array(range(5000)), texts)
    lists = pa.ListArray.from_arrays(pa.array(range(5001), pa.int32()), words)
    feather.write_feather(pa.table({"word": words, "words": lists}), str(tmp_path / "a.feather"))
    source = open_source(str(tmp_path / "a.feather"))
    read = [batch.table for batch in source.read(source.cut(1)[0])]
    assert [row["words"] for table in read for row in table.to_pylist()] == [
        [text.encode()] for text in texts[:5000]
    ]
    assert len(read) < 10
