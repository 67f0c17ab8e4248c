"""The layout of packed shards: plain Arrow IPC files with one column per feature.

A file has one record batch per `block_rows` rows (the last may have fewer), no nulls, and no deltas
of dictionaries. All files of an output have the same schema and the same dictionaries, so that any
library that opens Arrow files can open them together.

| column                        | storage   | Arrow type                                           |
|-------------------------------|-----------|------------------------------------------------------|
| INT, fixed shape              | `int64`   | int64                                                |
| FLOAT, fixed shape            | `float32` | float32                                              |
| image                         | `uint8`   | fixed-size binary: height x width x channels         |
| BYTES, as vocabulary ids      | `int32`   | int32: line numbers of the vocabulary file, from 0   |
| BYTES, one of few values      | `words`   | dictionary of string or binary, with int32 indices   |
| BYTES, large                  | `blob`    | large_binary                                         |
| BYTES, fixed shape            | `text`    | large_string; large_binary if it is not all UTF-8    |
| any number of values          | `list`    | list of int64, float32, large_string or large_binary |

If a fixed shape has several values, the type is a fixed-size list of the type in the table.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

import pyarrow as pa

from penstock.components.errors import DataError
from penstock.components.plain import from_record

LAYOUT_VERSION = 3
# Key in the manifest's description of packed shards; its value lists the columns without any value.
EMPTY_COLUMNS = "empty_columns"
# Images of at least this size are read one by one, and so are the values of a `blob` column, whose
# mean size is at least this. All other values are read block by block.
LARGE_BYTES = 4096

_NUMBERS = {"int64": pa.int64(), "float32": pa.float32(), "int32": pa.int32()}
_LISTED = {"INT": pa.int64(), "FLOAT": pa.float32()}


@dataclass(frozen=True)
class PackedColumn:
    name: str
    kind: str
    storage: str  # as in the table in the module's docstring
    shape: tuple[int, ...] = ()  # shape of the values in a row; `()` for a list
    vocabulary: str | None = None  # path relative to the manifest
    filled: int = 0  # number of rows without a value, which are stored as 0, 0.0 or ""
    is_utf8: bool = False  # for BYTES: stored as strings, not as binary

    @property
    def width(self) -> int:
        return 1 if self.storage == "list" else math.prod(self.shape)

    @property
    def is_large(self) -> bool:
        """Whether values are read one by one."""
        return self.storage == "blob" or (self.storage == "uint8" and self.width >= LARGE_BYTES)

    @property
    def type(self) -> pa.DataType:
        if self.storage == "uint8":
            return pa.binary(self.width)
        if self.storage == "words":
            return pa.dictionary(pa.int32(), pa.string() if self.is_utf8 else pa.binary())
        text = pa.large_string() if self.is_utf8 else pa.large_binary()
        if self.storage == "list":
            return pa.list_(_LISTED.get(self.kind, text))
        one = _NUMBERS.get(self.storage, text)
        return one if self.width == 1 else pa.list_(one, self.width)


@dataclass(frozen=True)
class PackedLayout:
    """Columns of packed shards, as stored in the manifest."""

    columns: tuple[PackedColumn, ...]
    block_rows: int  # the last block of a shard may have fewer
    seed: int

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([pa.field(column.name, column.type) for column in self.columns])

    def to_dict(self) -> dict[str, Any]:
        # The shape is a list instead of a tuple, because the manifest is compared with one that was
        # read from JSON.
        columns = [{**asdict(column), "shape": list(column.shape)} for column in self.columns]
        return {"version": LAYOUT_VERSION, **asdict(self), "columns": columns}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any], path: str) -> "PackedLayout":
        version = raw.get("version")
        if version != LAYOUT_VERSION:
            raise DataError(
                f"{path}: packed records of version {version!r}, this Penstock reads "
                f"{LAYOUT_VERSION}, Arrow files; pack again or upgrade"
            )
        try:
            layout = from_record(cls, {field.name: raw[field.name] for field in fields(cls)})
            _ = layout.schema
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(f"{path}: damaged description of packed records ({error!r})") from error
        return layout


def packed_name(index: int, count: int) -> str:
    """Returns the name of a packed shard, `data-00000-of-00008.arrow`."""
    return f"data-{index:05d}-of-{count:05d}.arrow"
