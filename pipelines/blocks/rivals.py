"""Linear models and boosted trees on a table's transformed rows, as rivals of a network.

Input: the features of training and evaluation rows and the training labels, as arrays. Output:
predictions for the evaluation rows. The rivals get the same inputs as the network, in which floats
are numbers and whole numbers are ids of categories.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.pipelines.blocks.target import Target
from penstock.pipelines.runs.rivals import LINEAR, TREES

# With this number of rows, trees take about 2 s of CPU and a linear model 0.3 s; with twice as many
# rows, trees take 4 s.
MAX_ROWS = 50_000
_MIN_ROWS = 20
_LARGE = 3e38  # replaces infinity; its square is finite in float64

Arrays = Mapping[str, np.ndarray]


def predict_rivals(
    train: Arrays, y: np.ndarray, evaluated: Arrays, target: Target
) -> dict[str, np.ndarray]:
    """Returns each rival's predictions: float64 [rows, classes], or [rows] for a regression.

    The result is empty if all training labels are equal, or if there are fewer than 20 of them.

    Args:
        train: Features of the training rows, [rows, columns]; floats or whole numbers.
        y: Labels of the training rows, [rows].
        evaluated: Features of the rows to predict.
        target: The target of the labels.
    """
    if len(np.unique(y)) < 2 or len(y) < _MIN_ROWS:
        return {}
    from threadpoolctl import threadpool_limits

    kinds = {name: values.dtype.kind == "f" for name, values in train.items()}
    names = sorted(kinds, key=lambda name: not kinds[name])  # numbers, then categories
    x, new = (np.concatenate([rows[n] for n in names], axis=1) for rows in (train, evaluated))
    is_number = np.concatenate([np.full(train[n].shape[1], kinds[n]) for n in names])
    models = {LINEAR: _linear(is_number, target), TREES: _trees(y, target)}
    # OpenMP threads spin while they wait: on a busy machine, two threads take ten times the CPU of
    # one.
    with threadpool_limits(1):
        return {name: _predicted(model.fit(x, y), new, target) for name, model in models.items()}


def _linear(is_number: np.ndarray, target: Target) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

    return make_pipeline(
        FunctionTransformer(np.nan_to_num, kw_args={"posinf": _LARGE, "neginf": -_LARGE}),
        make_column_transformer(
            (StandardScaler(), is_number), (OneHotEncoder(handle_unknown="ignore"), ~is_number)
        ),
        Ridge() if target.task == "regression" else LogisticRegression(max_iter=300),
    )


def _trees(y: np.ndarray, target: Target) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    is_quantity = target.task == "regression"
    kind = HistGradientBoostingRegressor if is_quantity else HistGradientBoostingClassifier
    # The stratified split for early stopping needs two rows of each class, and more validation rows
    # than classes.
    counts = np.unique(y, return_counts=True)[1]
    can_stop = is_quantity or (counts.min() > 1 and len(counts) < 0.2 * len(y))
    # These settings were the best of eight on the 20 tables of docs/real_tables.md. Category ids,
    # which are ordered by frequency, gave better models as numbers than as categories.
    return kind(
        learning_rate=0.05,
        max_iter=300 if can_stop else 50,
        early_stopping=can_stop,
        validation_fraction=0.2,
        random_state=0,
    )


def _predicted(model: Any, rows: np.ndarray, target: Target) -> np.ndarray:
    """Returns numbers, or probabilities of all classes; a class without training rows gets 0."""
    if target.task == "regression":
        return model.predict(rows)
    found = np.zeros((len(rows), len(target.classes)))
    found[:, model.classes_.astype(np.int64)] = model.predict_proba(rows)
    return found
