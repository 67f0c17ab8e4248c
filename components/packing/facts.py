"""Collects facts about the columns of all rows, and plans the packed layout from them."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.components.errors import DataError, UsageError
from penstock.components.packing.layout import LARGE_BYTES, PackedColumn
from penstock.components.packing.options import PackOptions
from penstock.components.tfrecord.feature_kind import DECODED_KINDS
from penstock.components.tfrecord.sharding import split_dir

_STORAGES = {"INT": "int64", "FLOAT": "float32", "BYTES": "text"}
_BYTES_OF_NUMBER = {"INT": 8, "FLOAT": 4}
_VOCABULARY_DIR = "vocabulary"
# Limits of a dictionary: number of distinct values, and number of bytes in all, since each shard
# contains the whole dictionary. The last limit is for the number of distinct values divided by the
# number of rows: above it, a dictionary is no faster than plain texts.
_MAX_WORDS, _MAX_WORD_BYTES, _MAX_WORDS_SHARE = 16_384, 2**20, 0.5


@dataclass(frozen=True)
class StatedColumn:
    """Kind of a column, and the shape of its values in a row (None if it varies)."""

    kind: str
    shape: tuple[int, ...] | None


@dataclass
class ColumnFacts:
    is_ids: bool = False
    kinds: dict[str, str] = field(default_factory=dict)  # kind -> folder of its first row
    # number of rows by number of values; rows without a value are not counted
    lengths: Counter[int] = field(default_factory=Counter)
    first: bytes | None = None  # first BYTES value
    # count of each BYTES value; None if the values exceed the limits of a dictionary, unless the
    # column is stored as ids
    values: Counter[bytes] | None = field(default_factory=Counter)
    text_bytes: int = 0
    is_utf8: bool = True

    @property
    def rows(self) -> int:
        """Number of rows with at least one value."""
        return self.lengths.total()

    def merge(self, other: "ColumnFacts") -> None:
        """Adds the facts of `other`, which are about later rows."""
        for kind, folder in other.kinds.items():
            self.kinds.setdefault(kind, folder)
        self.lengths.update(other.lengths)
        self.first = other.first if self.first is None else self.first
        self.add_values(other.values)
        self.text_bytes += other.text_bytes
        self.is_utf8 &= other.is_utf8

    def add_values(self, counts: Mapping[bytes, int] | None) -> None:
        if self.values is None or counts is None:
            self.values = None
            return
        self.values.update(counts)
        is_few = len(self.values) <= _MAX_WORDS
        if not self.is_ids and not (is_few and sum(map(len, self.values)) <= _MAX_WORD_BYTES):
            self.values = None

    def kind(self, name: str) -> str | None:
        """Returns INT, FLOAT or BYTES; None if the column has no values or is not packed."""
        kinds = list(self.kinds)
        if len(kinds) > 1:
            where = self.kinds[kinds[1]]
            raise DataError(f"{where}: column {name!r} is {kinds[1]}, in rows before it {kinds[0]}")
        return kinds[0] if kinds else None

    def words(self, rows: int) -> list[bytes]:
        """Returns the sorted values of the column's dictionary; empty if it is stored without one.

        A dictionary is used if each row has at most one value and values repeat often enough.
        `rows` is the number of all rows; rows without a value count as the empty string.
        """
        values = {*(self.values or ())} | ({b""} if self.values and self.rows < rows else set())
        is_single = {*self.lengths} == {1}
        return sorted(values) if is_single and len(values) <= _MAX_WORDS_SHARE * rows else []

    def mean_bytes(self) -> float:
        """Returns the mean size of the values in a row, over rows that have values."""
        numbers = sum(size * count for size, count in self.lengths.items())
        each = max((_BYTES_OF_NUMBER.get(kind, 0) for kind in self.kinds), default=0)
        return (self.text_bytes + each * numbers) / max(1, self.rows)


@dataclass
class Facts:
    rows: int = 0
    columns: dict[str, ColumnFacts] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch, options: PackOptions, split: str) -> None:
        self.rows += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            facts = self.columns.setdefault(name, ColumnFacts(name in options.ids))
            lengths = row_lengths(column)
            sizes, counts = np.unique(lengths[lengths > 0], return_counts=True)
            facts.lengths.update(dict(zip(sizes.tolist(), counts.tolist(), strict=True)))
            is_kept = not options.columns or name in options.columns
            if is_kept and not pa.types.is_null(column.type):
                values = flat(column)
                kind = DECODED_KINDS[values.type].value
                facts.kinds.setdefault(kind, split_dir(split))
                facts.kind(name)
                if kind == "BYTES":
                    _add_texts(facts, values)

    def merge(self, other: "Facts") -> None:
        """Adds the facts of `other`, which are about later rows."""
        self.rows += other.rows
        for name, seen in other.columns.items():
            self.columns.setdefault(name, ColumnFacts(seen.is_ids)).merge(seen)


def _add_texts(facts: ColumnFacts, values: pa.Array) -> None:
    if facts.first is None and len(values):
        facts.first = values[0].as_py()
    facts.text_bytes += pc.sum(pc.binary_length(values)).as_py() or 0
    if facts.is_utf8:
        try:
            values.cast(pa.large_string())
        except pa.ArrowInvalid:
            facts.is_utf8 = False
    if facts.values is not None:
        counted = values.value_counts()
        texts, counts = (counted.field(i).to_numpy(zero_copy_only=False).tolist() for i in (0, 1))
        facts.add_values(dict(zip(texts, counts, strict=True)))


def flat(column: pa.Array) -> pa.Array:
    """Returns the values of all rows."""
    if pa.types.is_null(column.type):
        return column.slice(0, 0)
    return column if column.type in DECODED_KINDS else column.flatten()


def row_lengths(column: pa.Array) -> np.ndarray:
    """Returns the number of values in each row, int64 [rows]; 1 in a column without lists."""
    if pa.types.is_null(column.type):
        return np.zeros(len(column), np.int64)
    if column.type in DECODED_KINDS:
        return np.ones(len(column), np.int64)
    return pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)


def packed_columns(
    facts: Facts,
    options: PackOptions,
    stated: Mapping[str, StatedColumn] | None,
    image_shapes: Mapping[str, tuple[int, ...]],
) -> tuple[PackedColumn, ...]:
    """Decides how each column is stored; keeps only `stated` columns, if a schema states any."""
    from_schema = stated is not None
    if stated is None:
        stated = {
            name: StatedColumn(kind, tuple(seen.lengths) if len(seen.lengths) == 1 else None)
            for name, seen in sorted(facts.columns.items())
            if (kind := seen.kind(name))
        }
    names = [name for name in stated if not options.columns or name in options.columns]
    wanted = [*options.columns, *options.ids, *image_shapes]
    if unknown := [name for name in wanted if name not in names]:
        there = stated if from_schema else [n for n, c in sorted(facts.columns.items()) if c.rows]
        raise UsageError(f"no column {unknown[0]!r} with a value; there are {', '.join(there)}")
    columns = []
    for name in names:
        seen = facts.columns.get(name, ColumnFacts())
        missing = facts.rows - seen.rows
        kind = seen.kind(name)
        if kind not in (None, stated[name].kind):
            raise DataError(
                f"column {name!r} is {kind} in the rows, {stated[name].kind} in the schema"
            )
        if name in image_shapes:
            columns.append(_image(name, stated[name], seen, image_shapes[name], missing))
        else:
            columns.append(_column(name, stated[name], seen, missing, options))
    return tuple(columns)


def _image(
    name: str, stated: StatedColumn, facts: ColumnFacts, shape: tuple[int, ...], missing: int
) -> PackedColumn:
    if stated.kind != "BYTES" or stated.shape is None or math.prod(stated.shape) != 1:
        raise UsageError(f"column {name!r} holds no images; each row must have one BYTES value")
    if missing:
        raise DataError(f"column {name!r}: {missing:,} rows have no image; leave them out")
    _check_lengths(name, stated.shape, facts)
    return PackedColumn(name, "BYTES", "uint8", shape)


def _column(
    name: str, stated: StatedColumn, facts: ColumnFacts, missing: int, options: PackOptions
) -> PackedColumn:
    shape = stated.shape
    if shape is not None:
        _check_lengths(name, shape, facts)
        if missing and options.on_missing == "fail":
            raise DataError(
                f"column {name!r}: {missing:,} rows have no value; pass --on-missing fill or list"
            )
        if missing and options.on_missing == "list":
            shape = None
    if name in options.ids:
        if stated.kind != "BYTES" or shape is None:
            raise UsageError(f"column {name!r}: ids need BYTES with equally many values per row")
        vocabulary = f"{_VOCABULARY_DIR}/{quote(name, safe='')}.txt"
        return PackedColumn(name, stated.kind, "int32", shape, vocabulary, filled=missing)
    if shape is None:
        is_utf8 = stated.kind == "BYTES" and facts.is_utf8
        return PackedColumn(name, stated.kind, "list", is_utf8=is_utf8)
    storage = _STORAGES[stated.kind]
    if storage == "text" and math.prod(shape) == 1:
        if facts.words(facts.rows + missing):
            storage = "words"
        elif facts.mean_bytes() >= LARGE_BYTES:
            storage = "blob"
    is_utf8 = stated.kind == "BYTES" and facts.is_utf8 and storage != "blob"
    return PackedColumn(name, stated.kind, storage, shape, filled=missing, is_utf8=is_utf8)


def _check_lengths(name: str, shape: tuple[int, ...], facts: ColumnFacts) -> None:
    odd = [length for length in facts.lengths if length != math.prod(shape)]
    if odd:
        raise DataError(
            f"column {name!r}: {facts.lengths[odd[0]]:,} rows have {odd[0]} values, the "
            f"schema says {math.prod(shape)}; fix the schema or the rows"
        )


def vocabulary(facts: ColumnFacts, name: str, *, filled: int) -> bytes:
    """Returns the lines of a vocabulary: values by falling frequency, then by bytes."""
    counts = Counter(facts.values)
    if filled:
        counts[b""] += filled
    values = sorted(counts, key=lambda value: (-counts[value], value))
    if broken := [value for value in values if b"\n" in value or b"\r" in value]:
        raise DataError(
            f"{name}: the value {broken[0]!r} has a line break, which a vocabulary of one value a "
            "line cannot hold; pack the column without ids"
        )
    return b"".join(value + b"\n" for value in values)
