"""Rows that are whole files: their order, how they are cut, and those that are no good."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.components.sources.base import Piece, RejectedRow
from penstock.components.sources.cutting import RowStart, cut_files


@dataclass(frozen=True)
class RejectedFile(RejectedRow):
    """A file that is no good; it is its own only row."""

    def __str__(self) -> str:
        """`file: reason`."""
        return f"{self.file}: {self.reason}"


class UnfitFileError(Exception):
    """A file that does not make a row; its text is the reason, without the file."""


def rejected_file(path: str, reason: str, raw: bytes = b"") -> RejectedFile:
    """A file that is no good.

    Args:
        path: The file.
        reason: What is wrong and what was expected.
        raw: Its first bytes; it stays where it is.
    """
    return RejectedFile(path, 1, 0, None, reason, raw)


def shuffled(names: Sequence[bytes], seed: int) -> list[int]:
    """Places of `names` in an order that only names and seed decide.

    A file's place among the others is a digest of its name, so a new file moves no other.
    """
    salt = f"{seed}\0".encode()
    keys = [hashlib.blake2b(salt + name, digest_size=16).digest() for name in names]
    return sorted(range(len(names)), key=keys.__getitem__)


def cut_list(rows: int, parts: int) -> list[tuple[Piece, ...]]:
    """A list of so many files as `parts` slices of equal length."""
    return cut_files([_List(rows)], parts, lambda _, row: RowStart(row, row + 1, 0))


@dataclass(frozen=True)
class _List:
    """The whole list, as `cut_files` takes a file."""

    units: int
    path: str = "the list of files"
