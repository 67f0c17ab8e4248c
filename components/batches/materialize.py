"""Applies a TransformGraph to raw Examples; writes transformed Examples with a manifest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.components import activity
from penstock.components.batches.shards import ShardTask
from penstock.components.engine.tasks import Engine, run_tasks
from penstock.components.files.output import Output, open_output
from penstock.components.packing.transformed import (
    TransformedRows,
    stated_columns,
    transformed_schema,
)
from penstock.components.tfrecord.encoder import encode_examples
from penstock.components.tfrecord.manifest import (
    Manifest,
    ManifestColumn,
    Shard,
    digest_of,
)
from penstock.components.tfrecord.sharding import shard_name, split_dir
from penstock.components.tfrecord.writer import ShardWriter, frame_records


@dataclass(frozen=True)
class _WriteTask:
    """A raw shard, and the path of its transformed shard relative to the manifest."""

    raw: ShardTask
    file: str


@dataclass(frozen=True)
class _Write:
    rows: TransformedRows
    output: Output

    def __call__(self, task: _WriteTask) -> Shard:
        with self.output.new_try() as folder:
            with ShardWriter(folder, task.file) as writer:
                for batch in self.rows(task.raw.file, task.raw.shard):
                    writer.write(frame_records(self._encoded(batch)))
                    activity.advance(batch.num_rows)
                shard = writer.finish()
            self.output.take(folder)
        return shard

    def _encoded(self, batch: pa.RecordBatch) -> pa.Array:
        if not any(map(_is_nested, batch.columns)):
            return encode_examples(_with_short_offsets(batch))
        # Lists ragged in more than one dimension: tfx_bsl knows how the schema divides these.
        from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder

        encoder = RecordBatchToExamplesEncoder(transformed_schema(self.rows.graph))
        return pa.array(encoder.encode(batch), pa.binary())


_ENCODED = {pa.int64(): pa.int64(), pa.float32(): pa.float32(), pa.large_binary(): pa.binary()}


def _with_short_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the batch with the list and text types of our encoder; it must be below 2 GiB."""
    columns = [column.cast(pa.list_(_ENCODED[column.type.value_type])) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def _is_nested(column: pa.Array) -> bool:
    return pa.types.is_large_list(column.type) and pa.types.is_large_list(column.type.value_type)


def materialize(
    graph: str,
    splits: Mapping[str, Sequence[ShardTask]],
    output: str,
    *,
    engine: Engine,
) -> Manifest:
    """Writes transformed Examples, one shard per raw shard; all appear at once, or none."""
    tasks = [
        _WriteTask(task, f"{split_dir(split)}/{shard_name(number, len(of_split))}")
        for split, of_split in splits.items()
        for number, task in enumerate(of_split)
    ]
    rows = sum(task.raw.shard.rows for task in tasks)
    with open_output(output) as opened, activity.counting(rows):
        work = _Write(TransformedRows(graph), opened)
        shards = list(run_tasks(tasks, work, opened, engine))
        manifest = _manifest(graph, splits, shards)
        opened.commit(manifest)
    return manifest


def _manifest(
    graph: str, splits: Mapping[str, Sequence[ShardTask]], shards: Sequence[Shard]
) -> Manifest:
    stated = stated_columns(transformed_schema(graph))
    columns = tuple(ManifestColumn(n, c.kind, c.shape is None) for n, c in stated.items())
    raw = [task.shard for tasks in splits.values() for task in tasks]
    of_split = {
        split: tuple(shard for shard in shards if shard.file.startswith(f"{split_dir(split)}/"))
        for split in splits
    }
    return Manifest.of(
        of_split,
        columns,
        read=sum(shard.rows for shard in raw),
        source_kind="transform",
        source_fingerprint=digest_of(raw),
        source_files=len(raw),
        plan="a shard for each raw one",
    )
