"""Decodes serialized Examples to Arrow columns; other writers' by tfx_bsl's C++ decoder."""

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
from penstock.components.tfrecord.feature_kind import ARROW_TYPES, FeatureKind

_TFMD_TYPE = {FeatureKind.BYTES: 1, FeatureKind.INT: 2, FeatureKind.FLOAT: 3}


class FeatureSample:
    """Counts of feature kinds in the first `wanted` records; of SequenceExamples, the context's."""

    def __init__(self, wanted: int = 0) -> None:
        self._wanted = wanted
        self._kinds = defaultdict[str, Counter[FeatureKind]](Counter)
        self._lists = set[str]()  # Features with several values in any record.
        self._steps = defaultdict[str, Counter[FeatureKind]](Counter)

    def add(self, payload: bytes) -> None:
        """Counts one record, unless enough were counted."""
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
        """Returns the features sorted by name, each with the kind of most of its values."""
        kinds = dict.fromkeys(self._kinds, FeatureKind.BYTES) | _most_common(self._kinds)
        return tuple(Column(name, kinds[name], name in self._lists) for name in sorted(kinds))

    def step_kinds(self) -> dict[str, FeatureKind]:
        return _most_common(self._steps)


def _most_common(counts: Mapping[str, Counter[FeatureKind]]) -> dict[str, FeatureKind]:
    return {name: kinds.most_common(1)[0][0] for name, kinds in counts.items() if kinds}


def misfit_step(payload: bytes, expected: Mapping[str, FeatureKind]) -> tuple[str, str] | None:
    """Returns the feature list and reason of the first step of an unexpected kind, or None."""
    for name, kinds in step_kinds(parse_example(payload)):
        for kind in kinds:
            if kind is not expected.get(name, kind):
                return name, f"has a step of {kind.value}, expected {expected[name].value}"
    return None


class RecordDecoder:
    """Decoder of columns of serialized Examples, whose features are `features`."""

    def __init__(self, columns: Sequence[Column], features: Sequence[Column] | None = None) -> None:
        self._columns, self._names = columns, [column.name for column in columns]
        features = columns if features is None else features
        self._kinds = {column.name: column.kind for column in features}
        # Whether the records decoded so far have the layout of Penstock's encoder.
        self.is_plain = not any(column.is_list for column in features)
        self._decoder: Any = None

    def _make_decoder(self) -> Any:
        from tensorflow_metadata.proto.v0 import schema_pb2
        from tfx_bsl.coders.example_coder import ExamplesToRecordBatchDecoder

        schema = schema_pb2.Schema()
        for column in self._columns:
            schema.feature.add(name=column.name, type=_TFMD_TYPE[column.kind])
        return ExamplesToRecordBatchDecoder(schema.SerializeToString())

    def decode(self, payloads: Sequence[bytes]) -> tuple[pa.RecordBatch, dict[int, RowFault]]:
        """Returns the features of each record, null for a misfit, and the faults by row."""
        faults: dict[int, RowFault] = {}
        if self.is_plain:
            columns = decode_columns(payloads, self._kinds, self._names)
            if columns is not None:
                return batch_of(self._columns, [columns[name] for name in self._names]), faults
            self.is_plain = False  # another writer's; the next ones will be, too
        self._decoder = self._decoder or self._make_decoder()
        try:
            decoded = self._decoder.DecodeBatch(list(payloads))
        except RuntimeError:
            found = ((at, self._fault(payload)) for at, payload in enumerate(payloads))
            faults = {at: fault for at, fault in found if fault}
            # After an error the decoder still holds part of the batch, so a new one is made.
            self._decoder = self._make_decoder()
            kept = [b"" if at in faults else payload for at, payload in enumerate(payloads)]
            decoded = self._decoder.DecodeBatch(kept)
        arrays = []
        for column in self._columns:
            array, too_many = _as_column(decoded, column)
            arrays.append(array)
            for at, values in too_many.items():
                reason = f"has {values} values, the sampled records have one; give a schema"
                faults.setdefault(at, (column.name, reason))
        return batch_of(self._columns, arrays), faults

    def _fault(self, payload: bytes) -> RowFault | None:
        """Returns why the C++ decoder refuses a record."""
        message: Any = parse_example(payload)
        if message is None:
            return None, "is no Example that TensorFlow decodes; write it again"
        for column in self._columns:
            feature = message.context.feature.get(column.name)
            which = feature.WhichOneof("kind") if feature is not None else None
            if which and KIND_OF_LIST[which] is not column.kind:
                found = KIND_OF_LIST[which].value
                return column.name, f"is {found}, expected {column.kind.value}"
        return None


def _as_column(decoded: pa.RecordBatch, column: Column) -> tuple[pa.Array, dict[int, int]]:
    """Returns a column in its type, and the number of values by row, for rows with too many.

    An empty list counts as no value, since CsvExampleGen writes it so.
    """
    array = decoded.column(decoded.schema.get_field_index(column.name))
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
