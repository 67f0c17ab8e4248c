"""Applies a saved TransformGraph to raw Examples: reads a shard and yields Arrow batches.

No transformed Examples are written in between. This takes 7 us per taxi row, while stock Transform
and the packing of its Examples take 69 us.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from penstock.components.errors import DataError, graph_cause
from penstock.components.isolation import isolated
from penstock.components.packing.facts import StatedColumn
from penstock.components.sources.tfrecords.examples import Kinds, read_payloads
from penstock.components.tfrecord.manifest import Shard
from penstock.components.tfrecord.sharding import MIB

# Larger batches would not cost less CPU, and their tensors would take more memory.
_BATCH_ROWS = 8192
# Number of rows in the first batch of a shard. This batch shows the size of a transformed row: a
# decoded image may be hundreds of times larger than its record.
_FIRST_ROWS = 256
_OUTPUT_BYTES = 64 * MIB


@dataclass(frozen=True)
class TransformedRows:
    """A `ReadShard` that reads raw shards and applies the TransformGraph in folder `graph`."""

    graph: str

    def __call__(self, file: str, shard: Shard, kinds: Kinds = frozenset()) -> Iterator[Any]:
        """Yields the transformed rows of a shard, one `large_list` per feature; ignores `kinds`."""
        del kinds
        import tensorflow as tf

        apply = _loaded(self.graph, load_transform(f"{self.graph}/transform_fn"))
        read, wanted = 0, _FIRST_ROWS
        for records in read_payloads(file, shard, rows=_BATCH_ROWS):
            while records:
                some, records = records[:wanted], records[wanted:]
                try:
                    batch = apply(some)
                except tf.errors.InvalidArgumentError as error:
                    where = f"{file}, rows {read:,} and on"
                    raise DataError(f"{where}: {graph_cause(error.message)}") from error
                yield batch
                read += len(some)
                fitting = _OUTPUT_BYTES * len(some) // max(batch.nbytes, 1)
                wanted = min(max(fitting, 1), _BATCH_ROWS)


@lru_cache(2)
def _loaded(graph: str, loader: Any) -> Any:
    """Returns a function that transforms serialized rows; loading and tracing it takes 0.3 s."""
    from tensorflow_transform.impl_helper import make_tensor_to_arrow_converter

    transform = transform_of(graph, loader)
    converter = make_tensor_to_arrow_converter(transformed_schema(graph))

    def apply(records: list[bytes]) -> pa.RecordBatch:
        batch = converter.convert(transform(records))
        # Columns are sorted by name, like those of decoded Examples, so that the packed shards are
        # the same as if transformed Examples were packed.
        names = sorted(batch.schema.names)
        columns = [batch.column(batch.schema.get_field_index(name)) for name in names]
        return pa.RecordBatch.from_arrays(columns, names)

    return apply


def transform_of(graph: str, loader: Any) -> Any:
    """Returns a function from a list of serialized rows to their transformed features."""
    import tensorflow as tf
    from tensorflow_transform import TFTransformOutput

    spec = TFTransformOutput(graph).raw_feature_spec()

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)], autograph=False)
    def transform(records: tf.Tensor) -> dict[str, tf.Tensor]:
        return isolated(loader.apply_transform_model)(tf.io.parse_example(records, spec))

    return lambda records: transform(tf.constant(records))


def load_transform(saved_model: str) -> Any:
    """Returns TFT's `SavedModelLoader`, kept by the process because loading takes 0.2 s."""
    import tensorflow as tf

    # In a notebook, a later run may write another graph to the same path, so the file's time is
    # part of the cache key.
    seconds = tf.io.gfile.stat(f"{saved_model}/saved_model.pb").mtime_nsec // 10**9
    return _loader(saved_model, seconds)


@lru_cache(2)
def _loader(saved_model: str, _modified_seconds: int) -> Any:
    from tensorflow_transform.saved.saved_transform_io_v2 import SavedModelLoader

    return SavedModelLoader(saved_model)


def transformed_schema(graph: str) -> Any:
    from tensorflow_transform import TFTransformOutput

    return TFTransformOutput(graph).transformed_metadata.schema


def stated_columns(schema: Any) -> dict[str, StatedColumn]:
    """Returns kind and shape of each feature in use in a TFMD schema, in the schema's order."""
    import tensorflow as tf

    from penstock.components.tfrecord.feature_spec import feature_spec

    kinds = {tf.int64: "INT", tf.float32: "FLOAT", tf.string: "BYTES"}
    stated = {}
    for name, spec in feature_spec(schema).items():
        if isinstance(spec, tf.io.RaggedFeature) and spec.value_key != name:
            raise DataError(
                f"{name!r} is a RaggedTensor of preprocessing_fn, which is not packed: give its "
                "to_sparse(), which is, or train from rows"
            )
        fixed = isinstance(spec, tf.io.FixedLenFeature)
        stated[name] = StatedColumn(kinds[spec.dtype], tuple(spec.shape) if fixed else None)
    return stated
