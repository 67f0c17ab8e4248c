"""Options of Avro files."""

from dataclasses import dataclass

from penstock.components.sources.option_checks import check_one_of
from penstock.components.sources.options import RowFileOptions


@dataclass(frozen=True)
class AvroOptions(RowFileOptions):
    """Avro object container files.

    Attributes:
        kind: `avro`.
    """

    kind: str = "avro"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of(self, "kind", ("avro",))
