"""The kinds of outside data: whose options each takes, and who opens it.

A kind is added here and in a module of its own. Its options are a frozen dataclass with a
`kind` of their own; their other fields are strings, numbers, flags and tuples of strings, so
that they travel as JSON in a node's properties and are flags of `penstock ingest`.
"""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from penstock.components.errors import UsageError
from penstock.components.sources.options import KindOptions

if TYPE_CHECKING:  # Arrow, which help does not need.
    from penstock.components.sources.base import Source


Open = Callable[..., "Source"]
"""Opens files, globs and folders, or addresses: all is found, checked, counted, hashed, typed.

It raises a `DataError` that names the file, and the place in it, of what cannot be read, and a
`UsageError` for inputs or options that it does not take.
"""


@dataclass(frozen=True)
class Kind:
    """Where a kind's code is, as `module:name` below this room; imported when it is used.

    Attributes:
        options: The dataclass of its options.
        opener: An `Open`.
        of_files: Whether it reads files; its opener then takes a `Spread` too, which does the tasks
            of its scan. Else its inputs are addresses, and its options have a `with_query` for what
            an input split of a node says.
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


_TABLE_OPTIONS = "options:Table"

KINDS = {
    "csv": Kind(_TABLE_OPTIONS, "csv.source:open_csv"),
    "parquet": Kind(_TABLE_OPTIONS, "parquet.source:open_parquet"),
    "jsonl": Kind("lines.json.options:JsonLines", "lines.json.source:open_json_lines"),
    "tfrecord": Kind("tfrecords.options:TFRecord", "tfrecords.source:open_tfrecords"),
    "spark": Kind("spark.source:Spark", "spark.source:open_spark"),
    "tfds": Kind("tfrecords.tfds:Tfds", "tfrecords.tfds:open_tfds"),
    "images": Kind("images.options:Images", "images.open_images:open_images"),
    "text": Kind("lines.text.options:Text", "lines.text.source:open_text"),
    "binary": Kind("whole_files.options:Binary", "whole_files.binary:open_binary"),
    "avro": Kind("avro.options:Avro", "avro.source:open_avro"),
    "sql": Kind("sql.options:Sql", "sql.source:open_sql", of_files=False),
}


def find_kind(name: str) -> Kind:
    """The kind of that name; UsageError, which lists them, if there is none."""
    if name not in KINDS:
        raise UsageError(f"`kind` must be one of {', '.join(KINDS)}, got {name!r}")
    return KINDS[name]


def options_type(kind: str | None) -> type:
    """The dataclass of a kind's options, without a kind that of tables; UsageError if unknown."""
    return find_kind(kind).options_type if kind else _load(_TABLE_OPTIONS)


def options_to_json(options: KindOptions) -> dict[str, Any]:
    """The options as what JSON holds."""
    return asdict(options)


def options_from_json(raw: Mapping[str, Any]) -> KindOptions:
    """The options that `options_to_json` gave."""
    return options_type(raw["kind"])(**raw)


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"penstock.components.sources.{module}"), name)
