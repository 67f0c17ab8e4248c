"""The registry of the kinds of outside data. A new kind needs a module and an entry in `KINDS`."""

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from penstock.components.errors import UsageError
from penstock.components.sources.options import KindOptions

if TYPE_CHECKING:  # `base` imports Arrow, which `--help` does not need.
    from penstock.components.sources.base import Source


@dataclass(frozen=True)
class Kind:
    """Location of a kind's code, as `module:name` below this package; imported at its first use.

    The opener takes (inputs, options, spread). If a kind has a `state`, its inputs are addresses,
    not files. The function at `state` takes an address and returns a digest of the data there, or
    None if only reading the data shows whether they changed. The options of a kind with a `state`
    have a method `with_query`, which sets the query of an input split.
    """

    options: str
    opener: str
    state: str = ""

    @property
    def options_type(self) -> type:
        return _load(self.options)

    @property
    def of_files(self) -> bool:
        return not self.state

    def load_state(self) -> "Callable[[str], str | None]":
        return _load(self.state)

    def load_opener(self) -> "Callable[..., Source]":
        return _load(self.opener)


KINDS = {
    "csv": Kind("options:Csv", "csv.source:open_csv"),
    "parquet": Kind("options:Parquet", "parquet:open_parquet"),
    "arrow": Kind("arrow:Arrow", "arrow:open_arrow"),
    "orc": Kind("orc:Orc", "orc:open_orc"),
    "jsonl": Kind("jsonl:JsonLines", "jsonl:open_json_lines"),
    "delta": Kind("lake:Delta", "lake:open_delta"),
    "iceberg": Kind("lake:Iceberg", "iceberg:open_iceberg"),
    "avro": Kind("avro:Avro", "avro:open_avro"),
    "tfrecord": Kind("tfrecords.source:TFRecord", "tfrecords.source:open_tfrecords"),
    "tfds": Kind("tfrecords.tfds:Tfds", "tfrecords.tfds:open_tfds"),
    "images": Kind("images.options:Images", "images.source:open_images"),
    "text": Kind("plain_text:Text", "plain_text:open_text"),
    "requests": Kind("served.source:Requests", "served.source:open_requests"),
    "binary": Kind("binary:Binary", "binary:open_binary"),
    "sql": Kind("sql.options:Sql", "sql.source:open_sql", "sql.source:state_of"),
}


def find_kind(name: str) -> Kind:
    if name not in KINDS:
        raise UsageError(f"`kind` must be one of {', '.join(KINDS)}, got {name!r}")
    return KINDS[name]


def options_type(kind: str | None) -> type:
    """Returns the options class of a kind, `Table` for None; raises UsageError if unknown."""
    return find_kind(kind).options_type if kind else _load("options:Table")


def options_from_json(raw: Mapping[str, Any]) -> KindOptions:
    """Returns options, given a JSON object of their fields.

    The fields may be those of a `Table` whose kind is set: the result then has the options class of
    that kind, and fields that this class lacks are dropped.
    """
    chosen = options_type(raw["kind"])
    names = {field.name for field in fields(chosen)}
    return chosen(**{name: value for name, value in raw.items() if name in names})


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(f"penstock.components.sources.{module}"), name)
