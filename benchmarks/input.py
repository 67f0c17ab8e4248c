"""TFRecord shards to batches: parse_single_example, TFX's stock tf_dataset_factory, Penstock.

Claim: shuffled training batches at 8 times the rows per second of one parse_single_example a
record (unshuffled), and twice those of the stock factory (shuffle buffer of 10,000 records).

    python benchmarks/input.py                     about 4 minutes
    python benchmarks/input.py --rows 100000 --rounds 1
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from penstock.benchmarks import made_table, script
from penstock.benchmarks.harness import Measured, measure
from penstock.benchmarks.make_once import make_once
from penstock.benchmarks.reading import read_in_python

BATCH_SIZE = 1024
SHARDS = 16
SECONDS = 6.0


def shards(folder: Path, rows: int, count: int = SHARDS, *, unique: bool = False) -> Path:
    """The made table as `count` shards in `folder`, written unless they are there."""
    name = f"shards-{rows}" if count == SHARDS else f"shards-{rows}-in-{count}"
    name += "-unique" * unique
    return make_once(folder / name, lambda root: _write(root, rows, count, unique))


def _write(root: Path, rows: int, count: int, unique: bool) -> None:
    import pyarrow as pa

    from penstock.components.tfrecord.encoder import encode_examples
    from penstock.components.tfrecord.sharding import shard_name
    from penstock.components.tfrecord.writer import ShardWriter, frame_records

    writers = [ShardWriter(root, shard_name(i, count)) for i in range(count)]
    for batch in made_table.batches(rows, unique=unique):
        binary = [c.cast(pa.binary()) if pa.types.is_string(c.type) else c for c in batch]
        table = pa.RecordBatch.from_arrays(binary, batch.schema.names)
        part = -(-len(table) // count)
        for i, writer in enumerate(writers):
            if i * part < len(table):
                writer.write(frame_records(encode_examples(table.slice(i * part, part))))
    for writer in writers:
        writer.finish()


def specs(columns: Sequence[str] = made_table.COLUMNS) -> dict[str, Any]:
    """Columns as dense features with a default."""
    import tensorflow as tf

    kinds = {"f": (tf.float32, [0.0]), "i": (tf.int64, [0]), "s": (tf.string, [""])}
    return {n: tf.io.FixedLenFeature([1], *kinds[n[0]]) for n in columns}


def naive(files: list[str]) -> Any:
    """One file after another, one record after another; not shuffled."""
    import tensorflow as tf

    spec = specs()
    records = tf.data.TFRecordDataset(files).map(lambda r: tf.io.parse_single_example(r, spec))
    return records.batch(BATCH_SIZE).repeat()


def stock(files: list[str], columns: Sequence[str] = made_table.COLUMNS) -> Any:
    """What `fn_args.data_accessor.tf_dataset_factory` gives: shuffled, endless."""
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.public import tfxio
    from tfx_bsl.tfxio.tf_example_record import TFExampleRecord

    schema = schema_pb2.Schema()
    kinds = {"f": schema_pb2.FLOAT, "i": schema_pb2.INT, "s": schema_pb2.BYTES}
    for name in columns:
        feature = schema.feature.add(name=name, type=kinds[name[0]])
        feature.shape.dim.add(size=1)
        feature.presence.min_fraction = 1
    source = TFExampleRecord(files, telemetry_descriptors=["benchmark"], schema=schema)
    return source.TensorFlowDataset(tfxio.TensorFlowDatasetOptions(batch_size=BATCH_SIZE))


def penstock(files: list[str], columns: Sequence[str] = made_table.COLUMNS, **options: Any) -> Any:
    """`Input.rows` as it comes."""
    from penstock.components.trainer.input.input import Input
    from penstock.components.trainer.input.options import InputOptions

    return Input.rows(
        files, specs(columns), options=InputOptions(batch_size=BATCH_SIZE, **options)
    ).train()


def penstock_seed(files: list[str]) -> Any:
    """The same, deterministic."""
    return penstock(files, seed=1)


def penstock_cache(files: list[str]) -> Any:
    """The same, from memory after the first pass."""
    return penstock(files, cache="memory")


CONTENDERS: dict[str, Callable[[list[str]], Any]] = {
    "parse_single_example": naive,
    "stock tf_dataset_factory": stock,
    "Penstock": penstock,
    "Penstock, seed": penstock_seed,
    "Penstock, cache='memory'": penstock_cache,
}


def _child(name: str, root: Path) -> Measured:
    files = sorted(str(path) for path in root.iterdir())
    batches = iter(CONTENDERS[name](files))
    # One pass fills the cache and the buffers, and lets tf.data tune itself.
    rows = int(root.name.rpartition("-")[2])
    _take(batches, rows if "cache" in name else min(rows, 32 * BATCH_SIZE))
    return measure(lambda: read_in_python(batches, SECONDS))


def _take(batches: Iterator[Any], rows: int) -> None:
    for _ in range(-(-rows // BATCH_SIZE)):
        next(batches)


def main() -> None:
    """Run the benchmark, or, as a child of it, one contender."""
    title = f"TFRecord to batches of {BATCH_SIZE}, {{}} rows x 40 columns"
    naive, stock = list(CONTENDERS)[:2]
    results = script.main(
        CONTENDERS, _child, shards, unit="rows", count=1_000_000, title=title, base=naive
    )
    rate = {name: r.rows / r.wall_seconds for name, r in results.items()}
    for base in (naive, stock) if results else ():
        print(f"Penstock reads {rate['Penstock'] / rate[base]:.1f} times the rows/s of {base}")


if __name__ == "__main__":
    main()
