"""Options of JSON Lines."""

from dataclasses import dataclass

from penstock.components.sources.option_checks import check_one_of, check_whole
from penstock.components.sources.options import MAX_ROW_BYTES, RowFileOptions
from penstock.components.tfrecord.sharding import MIB


@dataclass(frozen=True)
class JsonLinesOptions(RowFileOptions):
    """One JSON object a line.

    Attributes:
        kind: `jsonl`.
        sample_rows: Rows from the beginnings of the files that columns are inferred from.
        max_row_bytes: Longest line; bounds the memory that a row takes.
    """

    kind: str = "jsonl"
    sample_rows: int = 10_000
    max_row_bytes: int = 64 * MIB

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(self, "kind", ("jsonl",))
        check_whole(self, "sample_rows")
        check_whole(self, "max_row_bytes", most=MAX_ROW_BYTES)
