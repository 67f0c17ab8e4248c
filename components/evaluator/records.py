"""Record files in, batches of records and their raw features out."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import tensorflow as tf
from tensorflow_model_analysis.extractors import features_extractor
from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

from penstock.components.tfrecord.sharding import MIB
from penstock.components.trainer.input.files import InputFiles

# A row costs 94 us in batches of 256, 41 in 1,024 and 28 in 4,096.
_MOST_ROWS = 4096
# A network holds many times the bytes of its input: of images of 85 KB, 96 at once.
_BATCH_BYTES = 8 * MIB
_LEAST_ROWS = 32


def read_batches(found: InputFiles) -> Iterator[np.ndarray]:
    """The records of all files in batches, bytes objects [n]."""
    pairs = list(zip(found.files, found.compressions, strict=True))
    for compression in ("", "GZIP"):
        files = [file for file, packed in pairs if packed == compression]
        if files:
            dataset = tf.data.TFRecordDataset(files, compression)
            first = [len(record) for record in dataset.take(64).as_numpy_iterator()]
            fitting = _BATCH_BYTES * len(first) // max(1, sum(first))
            rows = max(_LEAST_ROWS, min(_MOST_ROWS, fitting))
            yield from dataset.batch(rows).prefetch(2).as_numpy_iterator()


class Decoder:
    """Examples to lists of values, as TFMA has them: columns that no row has are left out."""

    def __init__(self) -> None:
        self._decoder = ExamplesToRecordBatchDecoder(None)
        self._wanted: dict[str, tf.DType] | None = None

    def __call__(self, records: np.ndarray) -> pa.RecordBatch:
        """The columns of these records, bytes objects [n]."""
        if self._wanted is not None:
            try:
                return _present(_parse(records, self._wanted))
            except tf.errors.InvalidArgumentError:
                pass  # a feature that changes its type; TFMA takes each batch as it comes
        decoded = self._decoder.DecodeBatch(records)
        known, _ = features_extractor._drop_unsupported_columns_and_fetch_raw_data_column(decoded)
        return _present(known)

    def narrow(self, fields: list[pa.Field]) -> None:
        """Decode these columns alone from now on: 1 us a row for two, where all of 18 take 11."""
        self._wanted = {field.name: _tensor_type(field.type.value_type) for field in fields}


def _tensor_type(kind: pa.DataType) -> tf.DType:
    if pa.types.is_integer(kind):
        return tf.int64
    return tf.float32 if pa.types.is_floating(kind) else tf.string


def _parse(records: np.ndarray, features: dict[str, tf.DType]) -> pa.RecordBatch:
    """Lists of the given features; a row without one has an empty list."""
    spec = {
        name: tf.io.RaggedFeature(dtype, row_splits_dtype=tf.int64)
        for name, dtype in features.items()
    }
    ragged = tf.io.parse_example(records, spec) if spec else {}
    lists = [
        pa.LargeListArray.from_arrays(one.row_splits.numpy(), one.values.numpy())
        for one in ragged.values()
    ]
    return pa.RecordBatch.from_arrays(lists, list(ragged))


def _present(columns: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that a row has a value of: TFMA takes others for values that are None."""
    pairs = zip(columns.schema.names, columns.columns, strict=True)
    held = {name: column for name, column in pairs if len(column.flatten())}
    return pa.RecordBatch.from_arrays(list(held.values()), list(held))
