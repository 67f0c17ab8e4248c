"""Options of TFRecord files."""

from dataclasses import dataclass

from penstock.components.errors import UsageError
from penstock.components.sources.options import KindOptions


@dataclass(frozen=True)
class TFRecord(KindOptions):
    """TFRecord files of Examples or SequenceExamples, uncompressed, GZIP or ZLIB.

    Records are taken over byte by byte unless `keep_features` chooses among their features.

    Attributes:
        schema_file: Path of a TFMD `schema.pbtxt` that decides names and types of the features;
            None infers them from a sample of the records.
        keep_features: Features to take over; none takes all.
        sample_rows: Records from the beginnings of the files that features are inferred from.
        allow_empty: Whether to skip a file without records instead of stopping.
    """

    kind: str = "tfrecord"
    schema_file: str | None = None
    keep_features: tuple[str, ...] = ()
    sample_rows: int = 1000
    allow_empty: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.keep_features)) < len(self.keep_features):
            raise UsageError(f"`keep_features` must be different, got {self.keep_features!r}")
