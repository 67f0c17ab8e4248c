"""Arrow values of every type that a feature holds, whole and sliced, with and without nulls."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest

from penstock.components.sources.arrow_values import feature_type, to_feature
from penstock.components.sources.base import Column

N = 60
DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12)


NUMBERS = [i % 100 for i in range(N)]
WORDS = [f"w{i}" for i in range(N)]
DAYS = [DAY + datetime.timedelta(i) for i in range(N)]


VALUES = {
    pa.bool_(): [i % 3 == 0 for i in range(N)],
    **dict.fromkeys([pa.int8(), pa.int16(), pa.int32(), pa.int64()], NUMBERS),
    **dict.fromkeys([pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()], NUMBERS),
    pa.float16(): [np.float16(i) for i in range(N)],
    pa.float32(): [i / 4 for i in range(N)],
    pa.float64(): [i / 4 for i in range(N)],
    pa.decimal128(9, 2): [decimal.Decimal(i) / 4 for i in range(N)],
    pa.decimal256(40, 2): [decimal.Decimal(i) / 4 for i in range(N)],
    pa.string(): WORDS,
    pa.large_string(): WORDS,
    pa.binary(): [w.encode() for w in WORDS],
    pa.large_binary(): [w.encode() for w in WORDS],
    pa.binary(16): [bytes([i]) * 16 for i in range(N)],
    pa.date32(): DAYS,
    pa.date64(): DAYS,
    pa.time32("s"): [datetime.time(1, i % 60) for i in range(N)],
    pa.time64("us"): [datetime.time(1, i % 60, 0, i) for i in range(N)],
    pa.timestamp("ns"): [NOON + datetime.timedelta(i) for i in range(N)],
    pa.timestamp("s", "UTC"): [NOON + datetime.timedelta(i) for i in range(N)],
    pa.duration("ms"): [datetime.timedelta(i) for i in range(N)],
    pa.dictionary(pa.int32(), pa.string()): [f"w{i % 5}" for i in range(N)],
    pa.list_(pa.int32()): [[i] * (i % 4) for i in range(N)],
    pa.large_list(pa.string()): [[f"w{i}"] * (i % 4) for i in range(N)],
    pa.list_(pa.binary(2)): [[bytes([i]) * 2] * (i % 3) for i in range(N)],
    pa.list_(pa.float32(), 3): [[i, i + 0.5, i + 1] for i in range(N)],
}


@pytest.mark.parametrize("with_nulls", [False, True])
@pytest.mark.parametrize("arrow_type", VALUES, ids=str)
def test_a_slice_converts_as_the_whole_does(arrow_type, with_nulls):
    values = [None if with_nulls and i % 7 == 0 else v for i, v in enumerate(VALUES[arrow_type])]
    array = pa.array(values, arrow_type)
    kind, is_list = feature_type(arrow_type)
    column = Column("x", kind, is_list)
    whole, faults = to_feature(array, column, "reject")
    assert faults == {}
    assert whole.null_count == array.null_count
    for start, size in [(0, N), (0, 0), (13, 1), (9, 32), (50, 10)]:
        part, faults = to_feature(array.slice(start, size), column, "reject")
        assert faults == {}
        assert part.type == column.arrow_type
        assert part.to_pylist() == whole.to_pylist()[start : start + size]
