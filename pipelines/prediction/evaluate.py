"""Judges predictions in a table as BatchEvaluator judges a model.

Input: Parquet, or any table that an ingest reads, with a label and a prediction in each row; the
columns in use are held in memory. Output: a folder with `evaluation.json`, TFMA's files and an HTML
page.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tensorflow_model_analysis import constants

from penstock.components.errors import DataError, UsageError, one_line
from penstock.components.evaluator.evaluate import evaluate_predictions
from penstock.components.evaluator.evaluation import Evaluation
from penstock.components.evaluator.inputs import Batch
from penstock.components.evaluator.slices import Values
from penstock.components.files.commit import attempt
from penstock.components.files.spool import local_path
from penstock.components.sources.open import good_tables, open_source
from penstock.pipelines.blocks.config import EvaluationOptions
from penstock.pipelines.blocks.evaluation import eval_config
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.reporting.evaluation_facts import gather_evaluation
from penstock.pipelines.reporting.page import render_evaluation
from penstock.pipelines.reporting.write import write_page

PAGE_NAME = "evaluation.html"
_BATCH_ROWS = 65_536


def evaluate(
    predictions: str,
    output: str | os.PathLike[str],
    *,
    label: str = "label",
    prediction: str = "prediction",
    weight: str | None = None,
    slices: Sequence[str] = (),
    thresholds: Mapping[str, float] | None = None,
) -> Evaluation:
    """Judge the predictions of any trainer's model as `BatchEvaluator` judges a model.

    Labels 0 and 1 with predictions within 0..1 are judged as two classes. A list or a struct of
    probabilities in each row means several classes; if there are two, the second is the positive
    one. All other data is judged as a regression. The label of a class is the number of the class,
    or its name in the struct.

    Args:
        predictions: A Parquet file, or another table that `ingest` reads.
        output: Folder to create, with `evaluation.json`, TFMA's files and `evaluation.html`.
        label: Column of the labels.
        prediction: Column of the predictions.
        weight: Column of the weights of rows.
        slices: Columns whose values define slices.
        thresholds: Least values of overall metrics, or largest values for errors: `{"AUC": 0.8}`.

    Returns:
        The evaluation; `blessed` says whether all thresholds were reached, and `failures` lists
        those that were not.

    Raises:
        DataError: A column is missing, or a row has no label, prediction or weight.
        UsageError: A metric does not exist, or `output` cannot be used.
    """
    names = list(dict.fromkeys([label, prediction, *([weight] if weight else []), *slices]))
    with attempt(output, overwrite=None) as folder:
        table = _read(predictions, names)
        try:
            task, classes, extracts = _judged(table, label, prediction, weight)
            by = {name: _sliceable(table[name], name) for name in slices}
        except pa.ArrowInvalid as error:  # an integer too large to cast, or bytes not in UTF-8
            raise DataError(f"{predictions}: {one_line(error)}") from error
        options = EvaluationOptions(thresholds=dict(thresholds or {}), slices=tuple(slices))
        target = Target(label, task, classes, label)
        config = eval_config([target], options)
        config.model_specs[0].example_weight_key = weight or ""
        result = evaluate_predictions(_batches(extracts, by), str(folder), config)
        facts = gather_evaluation(str(folder), {label: classes})
        write_page(render_evaluation(facts, os.path.basename(predictions)), folder / PAGE_NAME)
    return result


def _read(data: str, names: Sequence[str]) -> pa.Table:
    if os.path.isfile(one := os.path.join(data, "predictions.parquet")):  # KFP passes a folder
        data = one
    try:
        if data.endswith(".parquet"):  # read directly, which keeps structs and 64-bit numbers
            path = local_path(data)
            _require(names, pq.read_schema(path).names, data)
            table = pq.read_table(path, columns=list(names))
        else:
            source = open_source(data)
            _require(names, [column.name for column in source.columns], data)
            table = pa.concat_tables(t.select(names) for t in good_tables(source))
    except (OSError, pa.ArrowException) as error:
        raise DataError(f"{data}: cannot be read ({one_line(error)})") from error
    if not table.num_rows:
        raise DataError(f"{data}: no row to evaluate")
    return table


def _require(names: Sequence[str], there: Sequence[str], data: str) -> None:
    if missing := [name for name in names if name not in there]:
        raise DataError(f"{data}: no column {', '.join(missing)}; it has {', '.join(there)}")


def _judged(
    table: pa.Table, label: str, prediction: str, weight: str | None
) -> tuple[str, tuple[str, ...], dict[str, np.ndarray]]:
    """Returns the task, its classes, and TFMA's extracts.

    The extracts are labels [n, 1]; predictions [n, classes], or [n, 1] for two classes and for a
    regression; and, if `weight` is given, weights [n, 1].
    """
    predictions, classes = _predictions(table[prediction], prediction)
    labels = _labels(table[label], label, classes)
    width = predictions.shape[1]
    classes = classes or tuple(map(str, range(width if width > 1 else 2)))
    of_two = bool(np.isin(labels, (0, 1)).all())
    if width > 1 and len(wrong := labels[~np.isin(labels, range(width))]):
        raise DataError(f"column {label!r}: a label is {wrong[0]:g}; expected 0..{width - 1}")
    shares = bool(((predictions >= 0) & (predictions <= 1)).all())
    if width > 1 and not shares:
        raise DataError(f"column {prediction!r}: expected probabilities within 0..1")
    if width == 2:
        predictions = predictions[:, 1:]
    task = "classes" if width > 2 else "binary" if of_two and shares else "regression"
    extracts = {constants.LABELS_KEY: labels[:, None], constants.PREDICTIONS_KEY: predictions}
    if weight:
        extracts[constants.EXAMPLE_WEIGHTS_KEY] = _numbers(table[weight], weight)[:, None]
        if (extracts[constants.EXAMPLE_WEIGHTS_KEY] < 0).any():
            raise DataError(f"column {weight!r}: a weight is below 0")
    return task, () if task == "regression" else classes, extracts


def _batches(
    extracts: Mapping[str, np.ndarray], slices: Mapping[str, pa.ChunkedArray]
) -> Iterator[Batch]:
    for start in range(0, len(extracts[constants.LABELS_KEY]), _BATCH_ROWS):
        part = {name: of[start : start + _BATCH_ROWS] for name, of in extracts.items()}
        by = {name: of.slice(start, _BATCH_ROWS) for name, of in slices.items()}
        rows = len(part[constants.LABELS_KEY])
        part[constants.INPUT_KEY] = np.full(rows, b"", object)  # there are no Examples
        yield Batch(rows, part, partial(_values, by))


def _values(columns: Mapping[str, pa.ChunkedArray], name: str) -> list[Values]:
    return [() if value is None else (value,) for value in columns[name].to_pylist()]


def _predictions(column: pa.ChunkedArray, name: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Returns predictions [n, classes or 1], and the names of the classes if known."""
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        column = column.cast(pa.list_(kind.value_type))
        kind = column.type
    if pa.types.is_struct(kind):
        if kind.num_fields < 2:
            raise DataError(f"column {name!r}: a struct of one field; expected one per class")
        fields = [_numbers(pc.struct_field(column, [i]), name) for i in range(kind.num_fields)]
        return np.stack(fields, axis=1), tuple(kind.field(i).name for i in range(kind.num_fields))
    if not pa.types.is_nested(kind):
        return _numbers(column, name)[:, None], ()
    widths = pc.unique(pc.list_value_length(column)).to_pylist()
    if len(widths) != 1 or not widths[0] or widths[0] < 2:
        lengths = ", ".join(map(str, widths))
        raise DataError(f"column {name!r}: lists of {lengths} values; expected one per class")
    return _numbers(pc.list_flatten(column), name).reshape(-1, widths[0]), ()


def _labels(column: pa.ChunkedArray, name: str, classes: Sequence[str]) -> np.ndarray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.type not in (pa.binary(), pa.string(), pa.large_binary(), pa.large_string()):
        return _numbers(column, name)
    if not classes:
        raise DataError(
            f"column {name!r} holds texts; expected numbers, or predictions as a struct of "
            "probabilities by class name"
        )
    numbers = pc.index_in(column.cast(pa.string()), value_set=pa.array(classes))
    if numbers.null_count:
        wrong = column.filter(numbers.is_null())[0].as_py()
        raise DataError(f"column {name!r}: {wrong!r} is none of the classes {', '.join(classes)}")
    return numbers.cast(pa.int64()).to_numpy()


def _numbers(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """Returns a column's numbers as int64 or float64; rejects missing and non-finite values."""
    kind = column.type
    whole = pa.types.is_integer(kind) or pa.types.is_boolean(kind)
    if not (whole or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise DataError(f"column {name!r} is {kind}; expected numbers")
    values = column.cast(pa.int64() if whole and not column.null_count else pa.float64()).to_numpy()
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise DataError(
            f"column {name!r}: {len(bad):,} of {len(values):,} values are missing or not finite, "
            f"the first is number {bad[0] + 1:,}; expected a number in each row"
        )
    return values


def _sliceable(column: pa.ChunkedArray, name: str) -> pa.ChunkedArray:
    """Returns a column as int64, float32 or, for other types, text: the types that TFMA accepts."""
    if pa.types.is_nested(column.type):
        raise UsageError(f"column {name!r} is {column.type}; slice by a column of single values")
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    return column.cast(pa.float32() if pa.types.is_floating(column.type) else pa.string())
