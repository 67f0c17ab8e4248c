"""Kinds of columns that a database leaves open, from a sample of their values."""

import datetime
import decimal
import uuid
from collections import Counter
from collections.abc import Sequence

from sqlalchemy.engine import Connection
from sqlalchemy.sql.expression import Select

from penstock.components.sources.sql.database import Feature, fetch
from penstock.components.tfrecord.feature_kind import FeatureKind

_FETCH_ROWS = 256
_KINDS: dict[type, FeatureKind] = {
    **dict.fromkeys(
        (bool, int, datetime.date, datetime.datetime, datetime.time, datetime.timedelta),
        FeatureKind.INT,
    ),
    **dict.fromkeys((float, decimal.Decimal), FeatureKind.FLOAT),
    **dict.fromkeys((str, bytes, bytearray, memoryview, uuid.UUID, dict), FeatureKind.BYTES),
}


def sampled_features(
    connection: Connection, selects: Sequence[Select], columns: int, sample_rows: int
) -> list[Feature]:
    """Kind of each column, by the values that most rows of the sample have.

    Each of `selects` gives an equal share of the `sample_rows`, the key before the columns.
    """
    seen: list[Counter[type]] = [Counter() for _ in range(columns)]
    share = -(-sample_rows // len(selects))
    for select in selects:
        for rows in fetch(connection, select.limit(share), _FETCH_ROWS):
            _, *values = zip(*rows, strict=True)
            for counter, column in zip(seen, values, strict=True):
                counter.update(map(type, column))
    return [_feature(counter) for counter in seen]


def _feature(seen: Counter[type]) -> Feature:
    """Numbers where there are more of them than texts, FLOAT where any of them is a float."""
    counts: Counter[FeatureKind | None] = Counter()
    for value_type, count in seen.items():
        counts[_KINDS.get(value_type)] += count
    numbers = counts[FeatureKind.INT] + counts[FeatureKind.FLOAT]
    if not numbers and not counts[FeatureKind.BYTES]:
        return None, False
    if numbers <= counts[FeatureKind.BYTES]:
        return FeatureKind.BYTES, False
    return (FeatureKind.FLOAT if counts[FeatureKind.FLOAT] else FeatureKind.INT), False
