"""The kinds of outside data: whose options each takes, and who opens it.

A kind is added here and in a module of its own. Its options are a frozen dataclass with a
`kind` of their own; their other fields are strings, numbers, flags and tuples of strings, so
that they travel as JSON in a node's properties and are flags of `penstock ingest`.
"""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from penstock.components.errors import UsageError

if TYPE_CHECKING:  # Arrow, which help does not need.
    from penstock.components.sources.base import Source

_SOURCES = "penstock.components.sources"


class KindOptions(Protocol):
    """The options of one kind of source; a frozen dataclass."""

    @property
    def kind(self) -> str | None:
        """A key of `KINDS`; None where the files tell."""
        ...


class Open(Protocol):
    """Opens outside data: all of it is found, checked, counted, hashed and typed."""

    def __call__(self, inputs: Sequence[str], options: Any) -> "Source":
        """The source of `inputs`: files, globs and folders, or addresses."""
        ...


@dataclass(frozen=True)
class Kind:
    """Where a kind's code is, as `module:name`; imported when it is used.

    Attributes:
        options: The dataclass of its options.
        opener: An `Open`.
        of_files: Whether it reads files. Else its inputs are addresses, and its options have a
            `with_query` for what an input split of a node says.
    """

    options: str
    opener: str
    of_files: bool = True

    @property
    def options_type(self) -> type:
        """The dataclass of its options."""
        return _load(self.options)

    def load_opener(self) -> Open:
        """The function that opens it."""
        return _load(self.opener)


_TABLE_OPTIONS = f"{_SOURCES}.options:SourceOptions"

KINDS = {
    "csv": Kind(_TABLE_OPTIONS, f"{_SOURCES}.csv.source:open_csv"),
    "parquet": Kind(_TABLE_OPTIONS, f"{_SOURCES}.parquet.source:open_parquet"),
    "jsonl": Kind(
        f"{_SOURCES}.lines.json.options:JsonLinesOptions",
        f"{_SOURCES}.lines.json.source:open_json_lines",
    ),
    "tfrecord": Kind(
        f"{_SOURCES}.tfrecords.options:TFRecordOptions",
        f"{_SOURCES}.tfrecords.source:open_tfrecords",
    ),
    "spark": Kind(f"{_SOURCES}.spark.source:SparkOptions", f"{_SOURCES}.spark.source:open_spark"),
    "tfds": Kind(f"{_SOURCES}.tfrecords.tfds:TFDSOptions", f"{_SOURCES}.tfrecords.tfds:open_tfds"),
    "images": Kind(
        f"{_SOURCES}.images.options:ImageOptions", f"{_SOURCES}.images.open_images:open_images"
    ),
    "text": Kind(
        f"{_SOURCES}.lines.text.options:TextOptions", f"{_SOURCES}.lines.text.open:open_text"
    ),
    "binary": Kind(
        f"{_SOURCES}.whole_files.options:BinaryOptions",
        f"{_SOURCES}.whole_files.binary:open_binary",
    ),
    "avro": Kind(f"{_SOURCES}.avro.options:AvroOptions", f"{_SOURCES}.avro.source:open_avro"),
    "bigquery": Kind(
        f"{_SOURCES}.bigquery.options:BigQueryOptions",
        # Beam reads it, and no other source needs Beam.
        f"{_SOURCES}.bigquery.source:open_bigquery",
        of_files=False,
    ),
    "sql": Kind(
        f"{_SOURCES}.sql.options:SqlOptions", f"{_SOURCES}.sql.source:open_sql", of_files=False
    ),
}


def find_kind(name: str) -> Kind:
    """The kind of that name.

    Raises:
        UsageError: There is none; lists them.
    """
    if name not in KINDS:
        raise UsageError(f"`kind` must be one of {', '.join(KINDS)}, got {name!r}")
    return KINDS[name]


def options_type(kind: str | None) -> type:
    """The dataclass of a kind's options; that of tables where the files tell the kind.

    Raises:
        UsageError: There is no such kind; lists them.
    """
    return find_kind(kind).options_type if kind else _load(_TABLE_OPTIONS)


def options_to_json(options: KindOptions) -> dict[str, Any]:
    """The options as what JSON holds."""
    return asdict(options)  # type: ignore[call-overload]  # a protocol cannot say "dataclass"


def options_from_json(raw: Mapping[str, Any]) -> KindOptions:
    """The options that `options_to_json` gave."""
    return options_type(raw["kind"])(**raw)


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
