"""Rows that are whole files: their order, a batch of them as it is made, those that are no good."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.components.sources.base import RejectedRow


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


@dataclass
class RowsMade:
    """Files on their way into a batch: contents and facts of the rows, their places in the list.

    `size` is that of all contents, in bytes.
    """

    contents: list[bytes] = field(default_factory=list)
    facts: list[Any] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    rejected: list[RejectedRow] = field(default_factory=list)
    blank: int = 0
    size: int = 0

    def __len__(self) -> int:
        return len(self.places) + len(self.rejected) + self.blank

    def add(self, at: int, content: bytes, facts: Any = None) -> None:
        """Add the row of a file."""
        self.contents.append(content)
        self.size += len(content)
        self.facts.append(facts)
        self.places.append(at)
