"""Binary files as a `Source`: one row per file, with the file's bytes unchanged."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from penstock.components.files.content import EMPTY_ADVICE
from penstock.components.limits import check_numbers
from penstock.components.sources.base import Column, Source
from penstock.components.sources.spread import Spread
from penstock.components.sources.whole_files import (
    FILENAME,
    SIZE,
    UnfitFileError,
    WholeFileOptions,
    open_whole_files,
)
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

CONTENT = Column("content", FeatureKind.BYTES)
# A batch takes at most 2 GiB, and a worker holds a few copies of a file.
MAX_FILE_MIB = 1024


@dataclass(frozen=True)
class Binary(WholeFileOptions):
    """One row per file, holding its bytes.

    Attributes:
        max_mib: Maximum size of a file in MiB, up to 1024; a larger one is rejected unread.
    """

    kind: str = "binary"
    max_mib: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self, max_mib=(1, MAX_FILE_MIB))


def open_binary(inputs: Sequence[str], options: Binary, spread: Spread) -> Source:
    """Lists and hashes files; rows hold `content`, `filename` and `size`."""
    return open_whole_files(
        "binary",
        inputs,
        (CONTENT, FILENAME, SIZE),
        options,
        spread,
        max_bytes=options.max_mib * MIB,
        convert=partial(_content, allow_empty=options.allow_empty),
    )


def _content(data: bytes, path: str, *, allow_empty: bool) -> tuple[bytes] | None:
    del path
    if not data and not allow_empty:
        raise UnfitFileError(f"is empty (0 bytes); {EMPTY_ADVICE}")
    return (data,) if data else None
