"""Binary files as a `Source`: a row a file, its bytes as they are."""

from collections.abc import Sequence
from functools import partial

from penstock.components.files.content import EMPTY_ADVICE
from penstock.components.sources.base import Column
from penstock.components.sources.spread import Spread, here
from penstock.components.sources.whole_files.options import Binary
from penstock.components.sources.whole_files.rows import UnfitFileError
from penstock.components.sources.whole_files.source import (
    FILENAME,
    SIZE,
    FileSource,
    open_whole_files,
)
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.tfrecord.sharding import MIB

CONTENT = Column("content", FeatureKind.BYTES)


def open_binary(inputs: Sequence[str], options: Binary, spread: Spread = here) -> FileSource:
    """List and hash files; rows hold `content`, `filename` and `size`."""
    return open_whole_files(
        "binary",
        inputs,
        (CONTENT, FILENAME, SIZE),
        options,
        spread,
        max_bytes=options.max_mib * MIB,
        convert=partial(_content, allow_empty=options.allow_empty),
    )


def _content(data: bytes, *, allow_empty: bool) -> bytes | None:
    if not data and not allow_empty:
        raise UnfitFileError(f"is empty (0 bytes); {EMPTY_ADVICE}")
    return data or None
