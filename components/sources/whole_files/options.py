"""Options of sources where a row is a whole file."""

from dataclasses import dataclass

from penstock.components.sources.option_checks import check_whole
from penstock.components.sources.options import KindOptions

# A batch holds 2 GiB at most, and a worker a few copies of a file.
MAX_FILE_MIB = 1024


@dataclass(frozen=True)
class WholeFileOptions(KindOptions):
    """What kinds share of which a row is a file.

    Attributes:
        allow_empty: Whether an empty file is passed over, and counted as blank, instead of being a
            bad row.
        folder_label: Add the feature `label`: the folder right below the input that a file is in.
        shuffle_seed: Decides the order of the files in the shards.
    """

    allow_empty: bool = False
    folder_label: bool = False
    shuffle_seed: int = 0


@dataclass(frozen=True)
class Binary(WholeFileOptions):
    """One row per file, holding its bytes.

    Attributes:
        max_mib: A larger file is rejected unread. At most 1024.
    """

    kind: str = "binary"
    max_mib: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self, "max_mib", most=MAX_FILE_MIB)
