"""Options of JSON Lines."""

from dataclasses import dataclass

from penstock.components.sources.options import RowFileOptions
from penstock.components.tfrecord.sharding import MIB


@dataclass(frozen=True)
class JsonLines(RowFileOptions):
    """One JSON object a line.

    Attributes:
        sample_rows: Rows from the beginnings of the files that columns are inferred from.
        max_row_bytes: Longest line; bounds the memory of a row.
    """

    kind: str = "jsonl"
    sample_rows: int = 10_000
    max_row_bytes: int = 64 * MIB
