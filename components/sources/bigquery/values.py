"""Values as Beam's BigQuery reader gives them, to what a feature of their column holds.

Its two ways give a date, say, as an object or as text; the result here is the same: days since
1970-01-01, microseconds since then or since midnight (docs/data_types.md).
"""

import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta, timezone
from typing import Any

from penstock.components.sources.base import Column
from penstock.components.tfrecord.feature_kind import FeatureKind

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_INTEGER = re.compile(r"-?\d+")
_TIME = re.compile(r"\d\d:\d\d")
_MICROSECOND = timedelta(microseconds=1)


def plain_row(row: Mapping[str, Any], columns: Sequence[Column]) -> dict[str, Any]:
    """A row of the columns, each value an int, a float, text, bytes, a list of them or None."""
    return {column.name: _plain(row.get(column.name), column) for column in columns}


def _plain(value: Any, column: Column) -> Any:
    if value is None:
        return None
    if column.is_list:
        return [_one(item, column) for item in value]
    return _one(value, column)


def _one(value: Any, column: Column) -> Any:
    if column.kind is FeatureKind.FLOAT:
        return float(value)
    if column.kind is FeatureKind.INT:
        return _whole(value)
    if column.is_text:
        return value.decode() if isinstance(value, bytes) else str(value)
    return bytes(value)


def _whole(value: Any) -> int:
    if isinstance(value, str):
        value = _parsed(value)
    if isinstance(value, datetime):
        aware = value if value.tzinfo else value.replace(tzinfo=timezone.utc)
        return (aware - _EPOCH) // _MICROSECOND
    if isinstance(value, date):
        return (value - _EPOCH.date()).days
    if isinstance(value, time):
        since = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
        return since // _MICROSECOND + value.microsecond
    return int(value)


def _parsed(text: str) -> int | date | time | bool:
    if _INTEGER.fullmatch(text):
        return int(text)
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _TIME.match(text):
        return time.fromisoformat(_padded(text))
    if len(text) == len("2020-01-01"):
        return date.fromisoformat(text)
    return datetime.fromisoformat(_padded(re.sub(r" ?UTC$|Z$", "+00:00", text)))


def _padded(text: str) -> str:
    """Fractions of a second with the six digits that Python 3.10 wants."""
    return re.sub(r"\.(\d{1,6})\d*", lambda found: f".{found[1]:0<6}", text)
