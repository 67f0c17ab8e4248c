"""Decodes serialized Examples to Arrow columns.

NumPy decodes Examples that Penstock wrote with at most one value per feature, tfx_bsl all others.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.errors import DataError
from penstock.components.sources.base import Column
from penstock.components.sources.batches import RowFault, batch_of
from penstock.components.tfrecord.decoder import decode_columns
from penstock.components.tfrecord.example_proto import KIND_OF_LIST, parse_example, step_kinds
from penstock.components.tfrecord.feature_kind import ARROW_TYPES, DECODED_KINDS, FeatureKind


class FeatureSample:
    """Counts of feature kinds in the first `wanted` records.

    In a SequenceExample, the features of the context and those of the steps are counted separately.
    """

    def __init__(self, wanted: int = 0) -> None:
        self._wanted = wanted
        self._kinds = defaultdict[str, Counter[FeatureKind]](Counter)
        self._lists = set[str]()  # Features with several values in some record
        self._steps = defaultdict[str, Counter[FeatureKind]](Counter)

    def add(self, payload: bytes) -> None:
        """Counts the features of a record, unless `wanted` records were already counted."""
        if self._wanted <= 0:
            return
        self._wanted -= 1
        message = parse_example(payload)
        if message is None:
            return
        for name, feature in message.context.feature.items():
            kinds, which = self._kinds[name], feature.WhichOneof("kind")
            values = len(getattr(feature, which).value) if which else 0
            if values:  # CsvExampleGen writes a missing value as an empty list of floats.
                kinds[KIND_OF_LIST[which]] += 1
            if values > 1:
                self._lists.add(name)
        for name, kinds_of_steps in step_kinds(message):
            self._steps[name].update(kinds_of_steps)

    def merge(self, other: "FeatureSample") -> None:
        for mine, others in ((self._kinds, other._kinds), (self._steps, other._steps)):
            for name, kinds in others.items():
                mine[name].update(kinds)
        self._lists |= other._lists

    def columns(self) -> tuple[Column, ...]:
        """Returns the features sorted by name, each with the most frequent kind of its values."""
        kinds = dict.fromkeys(self._kinds, FeatureKind.BYTES) | _most_common(self._kinds)
        return tuple(Column(name, kinds[name], name in self._lists) for name in sorted(kinds))

    def step_kinds(self) -> dict[str, FeatureKind]:
        return _most_common(self._steps)


def _most_common(counts: Mapping[str, Counter[FeatureKind]]) -> dict[str, FeatureKind]:
    return {name: kinds.most_common(1)[0][0] for name, kinds in counts.items() if kinds}


def misfit_step(payload: bytes, expected: Mapping[str, FeatureKind]) -> tuple[str, str] | None:
    """Finds the first step whose values are of an unexpected kind.

    Returns the name of its feature list and a description of the fault, or None without a fault.
    """
    for name, kinds in step_kinds(parse_example(payload)):
        for kind in kinds:
            if kind is not expected.get(name, kind):
                return name, f"has a step of {kind.value}, expected {expected[name].value}"
    return None


class RowDecoder:
    """Decoder of serialized Examples to Arrow columns.

    NumPy can decode batches of rows that Penstock wrote with at most one value per feature. It
    takes about a tenth of the time of tfx_bsl's decoder, which is used in all other cases.

    Args:
        kinds: INT, FLOAT or BYTES of each feature in the rows; empty if unknown.
        columns: Columns to decode; by default all features, in the kinds that the rows have.
    """

    def __init__(self, kinds: Mapping[str, str], columns: Sequence[Column] = ()) -> None:
        self._is_known, self._columns = bool(kinds), columns
        # Kinds of the features if NumPy is to decode the next rows. Empty if tfx_bsl is to decode
        # them: if earlier rows had another layout, or if no batch has shown the kinds yet.
        self._plain = {name: FeatureKind(kind) for name, kind in kinds.items()}
        self._decoder: Any = None

    @property
    def is_plain(self) -> bool:
        """Whether all rows so far had the layout of Penstock's encoder, if `kinds` were given."""
        return bool(self._plain)

    def decode(self, rows: list[bytes], where: str) -> pa.RecordBatch:
        """Returns `large_list` columns sorted by name; one without values has the null type."""
        batch = self._decoded(rows, where)
        return pa.RecordBatch.from_arrays([*map(_listed, batch.columns)], batch.schema.names)

    def decode_typed(
        self, rows: list[bytes], where: str
    ) -> tuple[pa.RecordBatch, dict[int, RowFault]]:
        """Returns the columns in their types, and the faults by index of the row.

        In a row with a fault, values may be null.
        """
        faults: dict[int, RowFault] = {}
        try:
            decoded = self._decoded(rows, where)
        except DataError:
            found = ((at, self._fault(row)) for at, row in enumerate(rows))
            faults = {at: fault for at, fault in found if fault}
            kept = [b"" if at in faults else row for at, row in enumerate(rows)]
            decoded = self._decoded(kept, where)
        arrays = []
        for column in self._columns:
            array, too_many = _as_column(decoded, column)
            arrays.append(array)
            for at, values in too_many.items():
                reason = f"has {values} values, the sampled records have one; give a schema"
                faults.setdefault(at, (column.name, reason))
        return batch_of(self._columns, arrays), faults

    def _decoded(self, rows: list[bytes], where: str) -> pa.RecordBatch:
        """Returns columns sorted by name, each of single values or of lists."""
        if plain := self._plain:  # another thread may change the attribute
            wanted = [column.name for column in self._columns] or plain
            if (columns := decode_columns(rows, plain, wanted)) is not None:
                return pa.RecordBatch.from_arrays([*columns.values()], [*columns])
            self._plain = {}
        decoder, self._decoder = self._decoder or _tfx_bsl_decoder(self._columns), None
        try:
            batch = decoder.DecodeBatch(rows)
        except RuntimeError as error:  # `decoder` holds part of the batch, so it is not used again
            raise DataError(f"{where}: {str(error).removeprefix('INVALID_ARGUMENT: ')}") from error
        self._decoder = decoder
        order = sorted(batch.schema.names)
        batch = pa.RecordBatch.from_arrays([batch[name] for name in order], order)
        self._plain = {} if self._is_known else _plain_kinds(batch)
        return batch

    def _fault(self, row: bytes) -> RowFault | None:
        """Returns column and reason if tfx_bsl's decoder refuses a row."""
        message: Any = parse_example(row)
        if message is None:
            return None, "is no Example that TensorFlow decodes; write it again"
        for column in self._columns:
            feature = message.context.feature.get(column.name)
            which = feature.WhichOneof("kind") if feature is not None else None
            if which and KIND_OF_LIST[which] is not column.kind:
                found = KIND_OF_LIST[which].value
                return column.name, f"is {found}, expected {column.kind.value}"
        return None


def _tfx_bsl_decoder(columns: Sequence[Column]) -> Any:
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

    schema = schema_pb2.Schema()
    for column in columns:
        schema.feature.add(name=column.name, type=schema_pb2.FeatureType.Value(column.kind.value))
    return ExamplesToRecordBatchDecoder(schema.SerializeToString() if columns else None)


def _plain_kinds(batch: pa.RecordBatch) -> dict[str, FeatureKind]:
    """Returns the kind of each feature; none at all if any row has several values of a feature."""
    kinds = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kinds[name] = FeatureKind.FLOAT  # any kind will do if no row has a value
        if not pa.types.is_null(column.type):
            kinds[name] = DECODED_KINDS[column.type.value_type]
            if pc.max(pc.list_value_length(column)).as_py() > 1:
                return {}
    return kinds


def _listed(column: pa.Array) -> pa.Array:
    """Returns values as one-item lists, or null if missing; null type if all are missing."""
    if pa.types.is_large_list(column.type):
        return column
    if column.null_count == len(column):
        return pa.nulls(len(column))
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    offsets = np.append(0, np.cumsum(valid, dtype=np.int64))
    values = column.drop_null()
    if values.type == pa.binary():
        values = values.cast(pa.large_binary())
    return pa.LargeListArray.from_arrays(pa.array(offsets, mask=np.append(~valid, False)), values)


def _as_column(decoded: pa.RecordBatch, column: Column) -> tuple[pa.Array, dict[int, int]]:
    """Returns a column in its type and, for each row with too many values, their number.

    An empty list counts as no value, because CsvExampleGen writes a missing value in this way.
    """
    array = decoded.column(decoded.schema.get_field_index(column.name))
    if array.type == column.arrow_type:
        return array, {}
    if pa.types.is_null((array := _listed(array)).type):
        return pa.nulls(len(array), column.arrow_type), {}
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    ends = np.cumsum(lengths, dtype=np.int64)
    values = array.flatten().cast(ARROW_TYPES[column.kind])
    if column.is_list:
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        missing = np.append(lengths == 0, False)
        return pa.ListArray.from_arrays(pa.array(offsets, mask=missing), values), {}
    too_many = {int(at): int(lengths[at]) for at in np.flatnonzero(lengths > 1)}
    return values.take(pa.array(ends - 1, mask=lengths != 1)), too_many


def require_columns(
    columns: Sequence[Column], names: Sequence[str], where: str
) -> tuple[Column, ...]:
    by_name = {column.name: column for column in columns}
    for name in names:
        if name not in by_name:
            raise DataError(
                f"{where}: no feature {name!r} in the sampled records; they have "
                f"{', '.join(by_name)}"
            )
    return tuple(by_name[name] for name in names)
