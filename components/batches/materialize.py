"""Applies a TransformGraph to raw Examples; writes transformed Examples with a manifest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

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
from penstock.components.tfrecord.manifest import Manifest, ManifestColumn, Shard, digest_of
from penstock.components.tfrecord.sharding import shard_name, split_dir
from penstock.components.tfrecord.writer import ShardWriter, frame_records

_ENCODED = {pa.int64(): pa.int64(), pa.float32(): pa.float32(), pa.large_binary(): pa.binary()}


@dataclass(frozen=True)
class _Write:
    rows: TransformedRows
    output: Output

    def __call__(self, task: tuple[ShardTask, str]) -> Shard:
        """Transforms a raw shard; writes the result to `file`, a path in the manifest's folder."""
        raw, file = task
        with self.output.new_try() as folder:
            with ShardWriter(folder, file) as writer:
                for batch in self.rows(raw.file, raw.shard):
                    writer.write(frame_records(self._encoded(batch)))
                    activity.advance(batch.num_rows)
                shard = writer.finish()
            self.output.take(folder)
        return shard

    def _encoded(self, batch: pa.RecordBatch) -> pa.Array:
        kinds = [column.type.value_type for column in batch.columns]
        if any(map(pa.types.is_large_list, kinds)):
            # A column of large lists is ragged in more than one dimension. tfx_bsl's encoder writes
            # its values and row lengths as separate features, as the schema says.
            from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder

            encoder = RecordBatchToExamplesEncoder(transformed_schema(self.rows.graph))
            return pa.array(encoder.encode(batch), pa.binary())
        # `encode_examples` takes lists and texts with 32-bit offsets: batches must be below 2 GiB.
        pairs = zip(batch.columns, kinds, strict=True)
        columns = [column.cast(pa.list_(_ENCODED[kind])) for column, kind in pairs]
        return encode_examples(pa.RecordBatch.from_arrays(columns, batch.schema.names))


def materialize(
    graph: str,
    splits: Mapping[str, Sequence[ShardTask]],
    output: str,
    *,
    engine: Engine,
) -> Manifest:
    """Writes transformed Examples, one shard per raw shard; all appear at once, or none."""
    tasks = [
        (task, f"{split_dir(split)}/{shard_name(number, len(of_split))}")
        for split, of_split in splits.items()
        for number, task in enumerate(of_split)
    ]
    rows = sum(task.shard.rows for task, _ in tasks)
    with open_output(output) as opened, activity.counting(rows):
        work = _Write(TransformedRows(graph), opened)
        shards = iter([*run_tasks(tasks, work, opened, engine)])
        stated = stated_columns(transformed_schema(graph))
        manifest = Manifest.of(
            {split: tuple(islice(shards, len(of_split))) for split, of_split in splits.items()},
            tuple(ManifestColumn(n, c.kind, c.shape is None) for n, c in stated.items()),
            read=rows,
            source_kind="transform",
            source_fingerprint=digest_of([task.shard for task, _ in tasks]),
            source_files=len(tasks),
            plan="a shard for each raw one",
        )
        opened.commit(manifest)
    return manifest
