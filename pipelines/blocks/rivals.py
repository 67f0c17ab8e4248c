"""Linear models and boosted trees on a table's transformed rows, as rivals of a network.

In: the features and labels of both splits as arrays. Out: predictions of the evaluation rows. They
get the same inputs as the network: floats are numbers, whole numbers are categories.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from penstock.pipelines.blocks.target import Target
from penstock.pipelines.runs.rivals import LINEAR, TREES

# With so many rows, trees take about 2 s of CPU and a linear model 0.3 s; with twice as many 4 s.
MAX_ROWS = 50_000
_MIN_ROWS = 20

Arrays = Mapping[str, np.ndarray]


def predict_rivals(
    train: Arrays, y: np.ndarray, evaluated: Arrays, target: Target
) -> dict[str, np.ndarray]:
    """Returns each rival's predictions: float64 [rows, classes], or [rows] for a regression.

    Returns none if all training labels are equal, or if there are fewer than 20 rows.

    Args:
        train: Features of the training rows, [rows, columns]; floats or whole numbers.
        y: Their labels, [rows].
        evaluated: Features of the rows to predict.
        target: The target of the labels.
    """
    if len(np.unique(y)) < 2 or len(y) < _MIN_ROWS:
        return {}
    from threadpoolctl import threadpool_limits

    numbers, categories = ((_flat(train, kinds), _flat(evaluated, kinds)) for kinds in ("f", "iu"))
    # OpenMP threads spin while they wait: on a busy machine, two threads take ten times the CPU of
    # one.
    with threadpool_limits(1):
        return {
            LINEAR: _linear(numbers, categories, y, target),
            TREES: _trees(numbers, categories, y, target),
        }


def _flat(features: Arrays, kinds: str) -> np.ndarray:
    parts = [values for values in features.values() if values.dtype.kind in kinds]
    rows = len(next(iter(features.values())))
    return np.concatenate(parts, axis=1) if parts else np.zeros((rows, 0), np.float32)


Pair = tuple[np.ndarray, np.ndarray]  # (training rows, evaluation rows)


def _linear(numbers: Pair, categories: Pair, y: np.ndarray, target: Target) -> np.ndarray:
    from scipy import sparse
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    by_kind = (StandardScaler(), numbers), (OneHotEncoder(handle_unknown="ignore"), categories)
    fitted = [(e.fit(np.nan_to_num(pair[0])), pair) for e, pair in by_kind if pair[0].shape[1]]

    def inputs(side: int) -> Any:
        parts = (encoder.transform(np.nan_to_num(pair[side])) for encoder, pair in fitted)
        return sparse.hstack([sparse.csr_matrix(part) for part in parts], "csr")

    if target.task == "regression":
        return Ridge().fit(inputs(0), y).predict(inputs(1))
    model = LogisticRegression(max_iter=300).fit(inputs(0), y)
    return _of_all_classes(model, inputs(1), target)


def _trees(numbers: Pair, categories: Pair, y: np.ndarray, target: Target) -> np.ndarray:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    x, new = (np.concatenate(sides, axis=1) for sides in zip(numbers, categories, strict=True))
    is_quantity = target.task == "regression"
    kind = HistGradientBoostingRegressor if is_quantity else HistGradientBoostingClassifier
    # The stratified split for early stopping needs two rows of each class.
    counts = np.unique(y, return_counts=True)[1]
    can_stop = is_quantity or (counts.min() > 1 and len(counts) < 0.2 * len(y))
    # The best of eight settings on 20 tables of docs/real_tables.md. Ids ordered by frequency gave
    # better models as numbers than as categories.
    model = kind(
        learning_rate=0.05,
        max_iter=300 if can_stop else 50,
        early_stopping=can_stop,
        validation_fraction=0.2,
        random_state=0,
    )
    model.fit(x, y)
    return model.predict(new) if is_quantity else _of_all_classes(model, new, target)


def _of_all_classes(model: Any, rows: Any, target: Target) -> np.ndarray:
    """Returns probabilities of all classes; a class without training rows gets 0."""
    found = np.zeros((rows.shape[0], len(target.classes)))
    found[:, model.classes_.astype(np.int64)] = model.predict_proba(rows)
    return found
