"""Rows that are whole files: their order, a batch of them as it is made, those that are no good."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.components.sources.base import RejectedRow
from penstock.components.tfrecord.sharding import MIB

# A batch ends at 4 MiB. Memory is asked for once and given back whole, so that the next batch finds
# it mapped: to have the system clear it anew costs more than to fill it. Unused pages cost nothing.
_FIRST_BYTES = 8 * MIB


@dataclass(frozen=True)
class RejectedFile(RejectedRow):
    """A file that is no good; it is its own only row."""

    def __str__(self) -> str:
        """`file: reason`."""
        return f"{self.file}: {self.reason}"


class UnfitFileError(Exception):
    """A file that does not make a row; its text is the reason, without the file."""


def rejected_file(path: str, reason: str, raw: bytes = b"") -> RejectedFile:
    """A file that is no good, with its first bytes; it stays where it is."""
    return RejectedFile(path, 1, 0, None, reason, raw)


def shuffled(names: Sequence[bytes], seed: int) -> list[int]:
    """Places of `names` in an order that only names and seed decide.

    A file's place among the others is a digest of its name, so a new file moves no other.
    """
    salt = f"{seed}\0".encode()
    keys = [hashlib.blake2b(salt + name, digest_size=16).digest() for name in names]
    return sorted(range(len(names)), key=keys.__getitem__)


class Contents:
    """Values on their way into an Arrow array; each is copied once."""

    def __init__(self) -> None:
        self._data = np.empty(_FIRST_BYTES, np.uint8)
        self._ends = [0]

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def size(self) -> int:
        """Bytes of all values."""
        return self._ends[-1]

    def append(self, value: bytes) -> None:
        """Add a value; less than 2 GiB are in all."""
        start, end = self._ends[-1], self._ends[-1] + len(value)
        if end > len(self._data):
            data = np.empty(end, np.uint8)
            data[:start] = self._data[:start]
            self._data = data
        self._data[start:end] = np.frombuffer(value, np.uint8)
        self._ends.append(end)

    def array(self) -> pa.BinaryArray:
        """All values; none may be added afterwards."""
        buffers = [None, pa.py_buffer(np.array(self._ends, np.int32)), pa.py_buffer(self._data)]
        return pa.Array.from_buffers(pa.binary(), len(self), buffers)


@dataclass
class RowsMade:
    """Files on their way into a batch: contents and facts of the rows, their places in the list."""

    contents: Contents = field(default_factory=Contents)
    facts: list[Any] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)
    blank: int = 0

    def __len__(self) -> int:
        return len(self.places) + len(self.rejected) + self.blank

    def add(self, at: int, content: bytes, facts: Any = None) -> None:
        """Add the row of a file."""
        self.contents.append(content)
        self.facts.append(facts)
        self.places.append(at)
