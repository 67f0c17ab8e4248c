"""Options of packing; no heavy imports, since the command's `--help` needs this module."""

import re
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from penstock.components.errors import UsageError
from penstock.components.limits import check_choices, check_numbers
from penstock.components.tfrecord.sharding import MIB, ShardOptions

OnMissing = Literal["fill", "list", "fail"]

# In addition to the time for its bytes, reading a block of 40 columns costs 60 us, which is 15 ns
# per row in a block of 4,096 rows. Larger blocks cost more: 16,384 rows of 200 bytes do not fit the
# CPU cache.
MAX_BLOCK_ROWS = 4096
# Size limit for blocks of large rows: the CPU cache would not keep a larger block from one
# processing step to the next.
TARGET_BLOCK_BYTES = MIB
# Minimum number of rows per block. A block of this many rows may exceed the size limit; its values
# of at least `LARGE_BYTES` are read one by one.
MIN_BLOCK_ROWS = 64

_IMAGE = re.compile(r"^(?P<name>.+?)(=(?P<height>\d+)x(?P<width>\d+)(x(?P<channels>[13]))?)?$")


@dataclass(frozen=True)
class ImageColumn:
    """A column of images, encoded (JPEG, PNG, GIF, BMP) or raw uint8 of the stated shape.

    Attributes:
        name: Name of the feature.
        size: Height and width to resize images to; None takes the size of the first image, which
            all others must have too.
        channels: 1 (gray) or 3 (RGB).
    """

    name: str
    size: tuple[int, int] | None = None
    channels: int = 3
    metavar: ClassVar[str] = "NAME[=HxW[xC]]"

    @classmethod
    def parse(cls, text: str) -> "ImageColumn":
        """Parses a text `NAME`, `NAME=HxW` or `NAME=HxWxC`.

        Raises:
            UsageError: The text has another form.
        """
        match = _IMAGE.match(text)
        if match is None or "=" in match["name"]:
            raise UsageError(f"--image takes NAME, NAME=HxW or NAME=HxWxC (C 1 or 3), got {text!r}")
        size = (int(match["height"]), int(match["width"])) if match["height"] else None
        if size is not None and 0 in size:
            raise UsageError(f"--image {text}: height and width must be at least 1")
        return cls(match["name"], size, int(match["channels"] or 3))


@dataclass(frozen=True)
class PackOptions:
    """Options of `pack`.

    Attributes:
        splits: Splits to pack; empty packs all.
        columns: Features to keep; empty keeps all.
        block_rows: Number of rows per batch; None takes 4,096, or fewer (at least 64) so that a
            batch has about 1 MiB.
        seed: Seed of the shuffle; the same rows and seed give the same bytes.
        ids: BYTES features to store as ids in a vocabulary of all their values.
        images: BYTES features to store as uint8 arrays.
        on_missing: Treatment of a row without a value in a column with a fixed number of values:
            `fill` stores 0, 0.0 or the empty string and counts the row; `list` stores the whole
            column as lists, some of them empty; `fail` stops.
        shards: Number of shards per split.
    """

    splits: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    block_rows: int | None = None
    seed: int = 0
    ids: tuple[str, ...] = ()
    images: tuple[ImageColumn, ...] = ()
    on_missing: OnMissing = "fill"
    shards: ShardOptions = field(default_factory=ShardOptions)

    def __post_init__(self) -> None:
        check_numbers(self, block_rows=1)
        check_choices(self, on_missing=get_args(OnMissing))
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"`seed` must be within 0..2^63-1, got {self.seed}")
        names = [*self.ids, *(image.name for image in self.images)]
        for name in names:
            if names.count(name) > 1:
                raise UsageError(f"column {name!r} is named twice among ids and images")
            if self.columns and name not in self.columns:
                raise UsageError(f"column {name!r} is not among the columns to keep")
