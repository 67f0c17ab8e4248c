"""Files of one kind as a `Source`, once each is scanned: what all such kinds share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from penstock.components.files.content import Content, fingerprint
from penstock.components.files.listing import Listing
from penstock.components.sources.base import Piece, Source
from penstock.components.sources.cutting import RowStart, cut_files


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedFile:
    """A file that was scanned.

    Attributes:
        path: The file.
        content: What it held: size, digest and state.
        rows: Number of its rows, blank ones included.
    """

    path: str
    content: Content
    rows: int

    @property
    def units(self) -> int:
        """How much there is to read in it: rows, where it is not bytes."""
        return self.rows

    def row_start(self, at: int, before: RowStart | None) -> RowStart:
        """The first row that begins at unit `at` or after it, or the end; see `cut_files`."""
        del before
        return RowStart(at, at + 1)

    def for_reading(self: "FileT") -> "FileT":
        """The file without what only cutting takes."""
        return self


FileT = TypeVar("FileT", bound=OpenedFile)
SourceT = TypeVar("SourceT", bound="OpenedFiles[Any]")


@dataclass(frozen=True, eq=False, kw_only=True)
class OpenedFiles(Source, Generic[FileT]):
    """Files, scanned and typed; see `Source` for its other attributes.

    Attributes:
        options: How the files are understood, as of the kind.
        scanned: The files that have rows, by their paths.
    """

    options: Any
    scanned: dict[str, FileT]

    @classmethod
    def of(
        cls: type[SourceT], kind: str, files: Sequence[FileT], listing: Listing, **fields: Any
    ) -> SourceT:
        """The source of a listing's files, scanned, in order; `fields` are its other attributes."""
        return cls(
            kind=kind,
            fingerprint=fingerprint(kind, [(file.path, file.content.sha256) for file in files]),
            rows=sum(file.rows for file in files),
            files=listing.files,
            input_bytes=sum(file.content.size for file in files),
            ignored=listing.ignored,
            scanned={file.path: file for file in files if file.rows},
            **fields,
        )

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """The whole input as `parts` runs of ranges of about equal size, in order."""
        return cut_files(list(self.scanned.values()), parts, lambda file, *at: file.row_start(*at))

    def part(self, pieces: tuple[Piece, ...]) -> tuple[Source, tuple[Piece, ...]]:
        """See `Source`."""
        source, pieces = super().part(pieces)
        scanned = {piece.file: self.scanned[piece.file].for_reading() for piece in pieces}
        return replace(source, scanned=scanned), pieces  # type: ignore[call-arg]
