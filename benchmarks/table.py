"""The generated table of 40 columns (20 floats, 12 integers, 8 texts), and the ways to read it.

`prepare` writes it as row Examples and as packed records, with sums over all rows that `check`
compares with those of a reader's first pass.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.benchmarks.harness import data_folder, make_once
from penstock.components.errors import DataError

if TYPE_CHECKING:
    import pyarrow as pa

FLOATS = tuple(f"f{i}" for i in range(20))
INTS = tuple(f"i{i}" for i in range(12))
STRINGS = tuple(f"s{i}" for i in range(8))
COLUMNS = FLOATS + INTS + STRINGS
NUMBERS = FLOATS + INTS
BATCH = 1024
SHARDS = 16
# Size of the packed records' window and of the peers' shuffle buffers, in rows.
SHUFFLED_ROWS = 16_384
# Random values are generated block by block, so that a whole block does not depend on the length of
# the table.
_BLOCK_ROWS = 100_000


def record_batches(rows: int, *, seed: int = 7) -> Iterator["pa.RecordBatch"]:
    """Yields the table in blocks of at most 100,000 rows."""
    import numpy as np
    import pyarrow as pa

    words = np.array([f"category {i} of many" for i in range(1000)], dtype=object)
    for start in range(0, rows, _BLOCK_ROWS):
        rng = np.random.default_rng((seed, start))
        n = min(_BLOCK_ROWS, rows - start)
        floats = [pa.array(rng.normal(0, 100, n).astype(np.float32)) for _ in FLOATS]
        ints = [pa.array(rng.integers(0, 10 ** (1 + i % 6), n)) for i in range(len(INTS))]
        strings = [pa.array(words[rng.zipf(1.3, n) % 1000], pa.string()) for _ in STRINGS]
        yield pa.RecordBatch.from_arrays(floats + ints + strings, list(COLUMNS))


def csv_path(rows: int) -> Path:
    """Returns the path to which `csv_file` writes the table."""
    return data_folder() / f"table-{rows}.csv"


def csv_file(rows: int) -> Path:
    """Writes the table as one CSV file, unless it exists."""
    import pyarrow.csv as pc

    def make(path: Path) -> None:
        with pc.CSVWriter(path, next(record_batches(1)).schema) as out:
            for batch in record_batches(rows):
                out.write_batch(batch)

    return make_once(csv_path(rows), make)


def root_of(rows: int) -> Path:
    """Returns the folder in which `prepare` writes the table."""
    return data_folder() / f"table-{rows}"


def prepare(rows: int) -> Path:
    """Writes the table as row Examples and packed records, and its sums, unless they exist."""
    import pyarrow.parquet as pq

    import penstock
    from penstock.sources import IngestOptions, ShardOptions, Split, SplitOptions

    def make(part: Path) -> None:
        part.mkdir(parents=True)
        file = part / "table.parquet"
        with pq.ParquetWriter(file, next(record_batches(1)).schema) as out:
            for batch in record_batches(rows):
                out.write_batch(batch)
        splits, shards = SplitOptions((Split("train"),)), ShardOptions(shards=SHARDS)
        penstock.ingest(str(file), part / "rows", splits=splits, options=IngestOptions(shards))
        penstock.pack(part / "rows", part / "packed")
        (part / "sums.json").write_text(json.dumps(_sums(rows)))

    return make_once(root_of(rows), make)


def _sums(rows: int) -> dict[str, int]:
    import pyarrow.compute as pc

    sums = {"integers": 0, "lengths": 0}
    for batch in record_batches(rows):
        sums["integers"] += sum(pc.sum(batch[name]).as_py() for name in INTS)
        sums["lengths"] += sum(pc.sum(pc.binary_length(batch[n])).as_py() for n in STRINGS)
    return sums


def row_files(root: Path | str) -> list[str]:
    """Returns the shards of row Examples that `prepare` wrote to a folder or address."""
    import tensorflow as tf

    return sorted(tf.io.gfile.glob(f"{root}/rows/Split-train/*"))


def specs(columns: Sequence[str] = COLUMNS) -> dict[str, Any]:
    """Returns the columns as dense features with a default value."""
    import tensorflow as tf

    kinds = {"f": (tf.float32, [0.0]), "i": (tf.int64, [0]), "s": (tf.string, [""])}
    return {n: tf.io.FixedLenFeature([1], *kinds[n[0]]) for n in columns}


def stock(root: Path, columns: Sequence[str] = COLUMNS) -> Any:
    """Dataset of `fn_args.data_accessor.tf_dataset_factory`, shuffled and endless."""
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.public import tfxio
    from tfx_bsl.tfxio.tf_example_record import TFExampleRecord

    schema = schema_pb2.Schema()
    kinds = {"f": schema_pb2.FLOAT, "i": schema_pb2.INT, "s": schema_pb2.BYTES}
    for name in columns:
        feature = schema.feature.add(name=name, type=kinds[name[0]])
        feature.shape.dim.add(size=1)
        feature.presence.min_fraction = 1
    files = row_files(root)
    source = TFExampleRecord(files, telemetry_descriptors=["benchmark"], schema=schema)
    return source.TensorFlowDataset(tfxio.TensorFlowDatasetOptions(batch_size=BATCH))


def row_examples(root: Path | str, columns: Sequence[str] = COLUMNS) -> Any:
    """Shuffled batches of `Input.rows` with default options."""
    from penstock.training import Input, InputOptions

    how = InputOptions(batch_size=BATCH)
    return Input.rows([f"{root}/rows/Split-train/*"], specs(columns), options=how).train()


def packed(root: Path | str, columns: Sequence[str] = COLUMNS) -> Any:
    """Shuffled batches of `Input.packed`; its window is as large as the peers' buffers."""
    from penstock.training import Input, InputOptions

    how = InputOptions(batch_size=BATCH, shuffle_window_rows=SHUFFLED_ROWS)
    return Input.packed(f"{root}/packed", options=how, columns=columns).train()


def check(batches: Iterator[Any], rows: int, root: Path) -> None:
    """Raises DataError if the sums of a first pass differ from those of the whole table.

    A batch maps names to tensors or arrays; their values are numbers, or texts as bytes.
    """
    import numpy as np

    found = {"integers": 0, "lengths": 0}
    for _ in range(rows // BATCH):
        for value in next(batches).values():
            values = np.asarray(value)
            if values.dtype == object:
                found["lengths"] += sum(map(len, values.ravel()))
            elif values.dtype.kind == "i":
                found["integers"] += int(values.sum())
    sums = json.loads((root / "sums.json").read_text())
    if found != sums:
        raise DataError(f"a pass sums to {found}, the table to {sums}")
