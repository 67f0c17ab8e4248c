"""A BigQuery query as a `Source`, read through Beam's own reader.

Opening it asks BigQuery for a dry run, which costs nothing: it checks the query, and says what
its columns are and which tables it reads. When those were changed last is, with the query, the
fingerprint. Only when rows are wanted is the query run, once: Beam reads the result and spools it
as Avro beside the temporary files of this machine, and from there on it is a source as any other.
"""

import functools
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apache_beam as beam
from apache_beam.io import WriteToAvro

from penstock.components.engine.pipeline import local_pipeline
from penstock.components.errors import DataError, UsageError, short_error
from penstock.components.sources.avro.options import AvroOptions
from penstock.components.sources.base import Batch, Column, Piece, Source
from penstock.components.sources.bigquery.options import (
    BigQueryOptions,
    bigquery_columns,
    parse_project,
)
from penstock.components.sources.bigquery.values import plain_row
from penstock.components.sources.open import open_source
from penstock.components.tfrecord.feature_kind import FeatureKind

# Folders of results; removed when the process ends.
_SPOOLS: list[tempfile.TemporaryDirectory[str]] = []
_AVRO_TYPES = {FeatureKind.INT: "long", FeatureKind.FLOAT: "double", FeatureKind.BYTES: "bytes"}


@dataclass(frozen=True)
class DryRun:
    """What BigQuery says of a query before it is run.

    The columns of its result, when each table that it reads was changed last, and the bytes that it
    would charge.
    """

    columns: tuple[Column, ...]
    tables: Mapping[str, str]
    bytes: int


@dataclass(frozen=True, eq=False, kw_only=True)
class BigQuerySource(Source):
    """A checked query; see `Source` for its other attributes.

    Attributes:
        project: Who pays.
        options: The query, and how it is read.
        fingerprint: sha256 (hex) over the query and when its tables were changed last.
        rows: Of the result; to ask for them runs the query.
        input_bytes: What the query reads.
    """

    project: str
    options: BigQueryOptions
    rows: int = field(init=False, repr=False)

    @functools.cached_property
    def _spooled(self) -> Source:
        return _spool(self.project, self.options, self.columns)

    def __getattr__(self, name: str) -> int:
        if name != "rows":
            raise AttributeError(name)
        return self._spooled.rows

    def cut(self, parts: int) -> list[tuple[Piece, ...]]:
        """The result as `parts` runs of rows."""
        return self._spooled.cut(parts)

    def part(self, pieces: tuple[Piece, ...]) -> tuple[Source, tuple[Piece, ...]]:
        """What reads the pieces of the result where it is spooled: on this machine."""
        return self._spooled.part(pieces)

    def read(self, pieces: Sequence[Piece]) -> Iterator[Batch]:
        """The rows of the pieces."""
        yield from self._spooled.read(pieces)


def open_bigquery(inputs: Sequence[str], options: BigQueryOptions) -> BigQuerySource:
    """Check a query.

    Raises:
        DataError: BigQuery refuses it; in its words.
        UsageError: There is no query, no credentials, or not one address `bigquery://PROJECT`.
    """
    if len(inputs) != 1:
        raise UsageError(f"BigQuery reads one address, bigquery://PROJECT, got {len(inputs)}")
    if options.query is None:
        raise UsageError("BigQuery needs a query, SELECT ...")
    project = parse_project(inputs[0])
    checked = dry_run(project, options.query)
    facts = json.dumps([options.query, sorted(checked.tables.items())])
    return BigQuerySource(
        kind="bigquery",
        files=(),
        project=project,
        options=options,
        columns=checked.columns,
        fingerprint=hashlib.sha256(facts.encode()).hexdigest(),
        input_bytes=checked.bytes,
    )


def dry_run(project: str, query: str) -> DryRun:
    """Ask BigQuery what a query is, without running it.

    Raises:
        DataError: BigQuery refuses the query or does not answer.
        UsageError: There are no credentials.
    """
    from google.api_core.exceptions import GoogleAPIError
    from google.auth.exceptions import GoogleAuthError
    from google.cloud import bigquery

    try:
        client = bigquery.Client(project=project)
        job = client.query(query, job_config=bigquery.QueryJobConfig(dry_run=True))
        fields = [(field.name, field.field_type, field.mode) for field in job.schema or ()]
        tables = {
            str(reference): str(client.get_table(reference).modified)
            for reference in job.referenced_tables
        }
    except GoogleAuthError as error:
        raise UsageError(
            f"BigQuery: no credentials ({short_error(error, 400)}); run `gcloud auth "
            "application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS"
        ) from error
    except (GoogleAPIError, OSError) as error:
        raise DataError(f"BigQuery, project {project}: {short_error(error, 400)}") from error
    return DryRun(bigquery_columns(fields), tables, int(job.total_bytes_processed or 0))


def read_rows(project: str, options: BigQueryOptions) -> beam.PTransform:
    """Beam's reader of the query: a dict for each row."""
    from apache_beam.io.gcp.bigquery import ReadFromBigQuery

    method = ReadFromBigQuery.Method
    return ReadFromBigQuery(
        query=options.query,
        use_standard_sql=True,
        project=project,
        gcs_location=options.gcs_location,
        method=method.EXPORT if options.gcs_location else method.DIRECT_READ,
    )


def _spool(project: str, options: BigQueryOptions, columns: Sequence[Column]) -> Source:
    """The query's result as an Avro source."""
    folder = tempfile.TemporaryDirectory(prefix="penstock-bigquery-")
    _SPOOLS.append(folder)
    schema = {"type": "record", "name": "Row", "fields": [_avro_field(c) for c in columns]}
    try:
        with local_pipeline() as pipeline:
            _ = (
                pipeline
                | "Read" >> read_rows(project, options)
                | "Plain" >> beam.Map(plain_row, columns)
                | "Spool"
                >> WriteToAvro(str(Path(folder.name) / "rows"), schema, "deflate", ".avro")
            )
        avro = AvroOptions(non_finite=options.non_finite, allow_empty=options.allow_empty)
        return open_source(folder.name, avro)
    except (DataError, RuntimeError) as error:  # Beam wraps what a reader raises in its own words
        raise DataError(f"BigQuery, project {project}: {short_error(error, 400)}") from error


def _avro_field(column: Column) -> dict[str, Any]:
    item: Any = _AVRO_TYPES[column.kind]
    if column.kind is FeatureKind.BYTES and column.is_text:
        item = "string"
    value = {"type": "array", "items": item} if column.is_list else item
    return {"name": column.name, "type": ["null", value]}
