"""Options of Avro files."""

from dataclasses import dataclass

from penstock.components.sources.options import RowFileOptions


@dataclass(frozen=True)
class Avro(RowFileOptions):
    """Avro object container files."""

    kind: str = "avro"
