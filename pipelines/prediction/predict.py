"""Predicts rows or images: reads them with the checks of an ingest, and writes Parquet or CSV.

Input: files of a table with the model's columns, or a folder of images. Output: a file with the
columns of the input (for images, the file names) and the predictions, in the order of the input.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from penstock.components import image_features
from penstock.components.errors import DataError, UsageError, counted
from penstock.components.files.commit import attempt_file, check_file
from penstock.components.sources.base import Source
from penstock.components.sources.images.options import Images
from penstock.components.sources.open import good_tables, open_source
from penstock.components.sources.options import Table
from penstock.components.tfrecord.feature_kind import FeatureKind
from penstock.components.trainer.served_columns import (
    MISSING_INT,
    column_name,
    features_by_column_name,
)
from penstock.pipelines.prediction.model import Explainer, PushedModel, open_model

_MISSING = {FeatureKind.INT: MISSING_INT, FeatureKind.FLOAT: float("nan"), FeatureKind.BYTES: b""}
# Number of rows or images per call of the model.
_BATCH_ROWS, _BATCH_IMAGES = 4096, 64
_WRITERS: Mapping[str, Any] = {".parquet": pq.ParquetWriter, ".csv": pyarrow.csv.CSVWriter}


def predict(
    model: str,
    data: str,
    output: str | os.PathLike[str],
    *,
    source: Table | None = None,
    explain: bool = False,
    overwrite: bool = False,
    on_rows: Callable[[int, int | None], None] | None = None,
) -> int:
    """Predict every row of a table, or every image of a folder.

    Args:
        model: A pushed model, a folder of model versions, or the root of the runs that pushed it.
        data: A table, as a file, a glob or a folder; or a folder of images.
        output: File to write, `.parquet` or `.csv`; it gets this name only when it is complete.
        source: Options for reading the table; by default NaN and infinity count as missing.
        explain: Whether to add the column `because`, for tables only; it names up to three columns
            with the most effect on the prediction. For each of them, it shows by how much the row's
            value changes the prediction, compared with a typical value: the median or the most
            frequent text of the first 4,096 rows. To explain a batch, the model is called once more
            with the batch, and once for each column that has a typical value.
        overwrite: Whether to replace a file at `output`, even one that appears meanwhile.
        on_rows: Called after each batch with the numbers of predicted rows and of all rows.

    Returns:
        Number of predicted rows.

    Raises:
        DataError: A column of the model is missing, a row does not fit, or an image cannot be read;
            the message names it. No file is written to `output`.
        UsageError: The model has no signature for columns or images, or `output` cannot be used.
    """
    target = Path(output)
    check_file(target, overwrite=overwrite)
    if target.suffix not in _WRITERS:
        raise UsageError(f"{target}: name a file that ends in {' or '.join(_WRITERS)}")
    opened = open_model(model)
    if not opened.is_of_images:
        tables, rows = _table(opened, data, source or Table(non_finite="null"), explain)
    elif explain:
        raise UsageError("--explain goes with models of tables; this one takes images")
    elif source:
        raise UsageError("the model takes images; the options of a table do not fit them")
    else:
        tables, rows = _images(opened, data)
    done = 0
    writer = None
    with attempt_file(target, overwrite=overwrite) as file:
        for table in map(_flat, tables) if target.suffix == ".csv" else tables:
            writer = writer or _WRITERS[target.suffix](file, table.schema)
            writer.write_table(table)
            done += table.num_rows
            if on_rows:
                on_rows(done, rows)
        if writer is None:
            raise DataError(f"{data}: no row to predict")
        writer.close()
    return done


def _flat(table: pa.Table) -> pa.Table:
    """Returns a table for CSV, in which each field of a struct is a column.

    Raises:
        UsageError: A column has lists or bytes, which CSV cannot represent.
    """
    table = table.flatten()
    for field in table.schema:
        if pa.types.is_nested(field.type) or pa.types.is_binary(field.type):
            raise UsageError(
                f"column {field.name!r} is {field.type}, which CSV cannot hold; name a file that "
                "ends in .parquet"
            )
    return table


def _table(
    model: PushedModel, data: str, options: Table, explain: bool
) -> tuple[Iterator[pa.Table], int]:
    # The model's columns are read with the model's types; all other columns keep their types and
    # are written too.
    found = open_source(data, options)
    names = _names(model, found)
    with tempfile.TemporaryDirectory(prefix="penstock-predict-") as folder:
        schema = Path(folder, "schema.pbtxt")
        schema.write_text(_schema_text(model, found, names), encoding="utf-8")
        try:
            source = open_source(data, replace(options, schema_file=str(schema)))
        except DataError as error:
            text = str(error).replace(f"the schema {schema} has it", "the model has it")
            raise DataError(text.removesuffix(", or change the schema")) from error

    def predictions() -> Iterator[pa.Table]:
        explainer = None
        for rows in _slices(source, _BATCH_ROWS):
            columns = {
                served: _tensor(rows[names[served]], kind, is_list=served in model.lists)
                for served, kind in model.columns.items()
            }
            found = model.predict(columns)
            if explain:
                explainer = explainer or Explainer(model, columns, names)
                found |= explainer.because(columns)
            yield _joined(_texts(rows), found)

    return predictions(), source.rows


def _names(model: PushedModel, source: Source) -> dict[str, str]:
    columns = [column.name for column in source.columns]
    there = features_by_column_name(c for c in columns if column_name(c) in model.columns)
    if missing := [name for name in model.columns if name not in there]:
        raise DataError(
            f"{source.files[0]}: {counted(len(missing), 'column')} of the model missing: "
            f"{', '.join(missing)}; the file has {', '.join(columns)}"
        )
    return there


def _schema_text(model: PushedModel, source: Source, names: Mapping[str, str]) -> str:
    kinds = {names[served]: kind for served, kind in model.columns.items()}
    lists = {names[served] for served in model.lists}
    schema = schema_pb2.Schema()
    for column in source.columns:
        kind = kinds.get(column.name, column.kind)
        feature = schema.feature.add(name=column.name, type=schema_pb2.FeatureType.Value(kind.name))
        if not (column.name in lists if column.name in kinds else column.is_list):
            feature.value_count.max = 1
    return text_format.MessageToString(schema)


def _images(model: PushedModel, folder: str) -> tuple[Iterator[pa.Table], int]:
    source = open_source(folder, Images(unlabelled="keep"))

    def predictions() -> Iterator[pa.Table]:
        for rows in _slices(source, _BATCH_IMAGES):
            encoded = _tensor(rows[image_features.ENCODED], FeatureKind.BYTES)
            table = pa.table({"file": rows[image_features.FILENAME].cast(pa.string())})
            yield _joined(table, model.predict({"encoded": encoded}))

    return predictions(), source.rows


def _slices(source: Source, size: int) -> Iterator[pa.Table]:
    for table in good_tables(source):
        for start in range(0, table.num_rows, size):
            yield table.slice(start, size)


def _tensor(column: pa.ChunkedArray, kind: FeatureKind, *, is_list: bool = False) -> Any:
    """Returns a tensor [rows], or [rows, longest] for lists; nulls become values of `_MISSING`."""
    import tensorflow as tf

    if pa.types.is_list(column.type):
        lists = column.combine_chunks()
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        values = _tensor(lists.flatten(), kind)
        return tf.RaggedTensor.from_row_lengths(values, lengths).to_tensor(_MISSING[kind])
    if is_list:
        return _tensor(column, kind)[:, tf.newaxis]
    filled = pc.fill_null(column, _MISSING[kind])
    if kind is FeatureKind.BYTES:
        return tf.constant(filled.to_pylist(), tf.string)
    return tf.constant(filled.to_numpy(), tf.int64 if kind is FeatureKind.INT else tf.float32)


def _texts(rows: pa.Table) -> pa.Table:
    for at, name in enumerate(rows.column_names):
        if pa.types.is_binary(rows[name].type):
            try:
                rows = rows.set_column(at, name, rows[name].cast(pa.string()))
            except pa.ArrowInvalid:
                continue  # not UTF-8, so it stays binary
    return rows


def _joined(rows: pa.Table, predictions: Mapping[str, pa.Array]) -> pa.Table:
    if taken := [name for name in predictions if name in rows.column_names]:
        raise DataError(
            f"the data has columns with names of predictions: {', '.join(taken)}; rename them"
        )
    for name, values in predictions.items():
        rows = rows.append_column(name, pa.chunked_array([values]))
    return rows
