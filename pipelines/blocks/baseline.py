"""The least that a model must do: be better than saying the same of every row.

The best constant is the share of each class, or the mean; it is taken from the evaluation data
themselves, which is the hardest constant to beat.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from penstock.components.errors import DataError
from penstock.pipelines.blocks.label_facts import LabelTally
from penstock.pipelines.blocks.target import Target
from penstock.pipelines.runs.baseline import BASELINE_NAME, Beaten

# Rows that tell the two apart to well below a percent; more would cost a second evaluation.
_MAX_ROWS = 200_000
_LEAST = 1e-7  # as Keras clips probabilities


def compare_with_baseline(
    model: keras.Model, eval_data: tf.data.Dataset, targets: Sequence[Target]
) -> list[Beaten]:
    """Compare a model with the best constant of each target.

    The model has an output a target; `eval_data` is one pass of `(features, label)`, `label` a dict
    where there are several targets.
    """
    tallies = {target.label: LabelTally(target) for target in targets}
    losses = dict.fromkeys(tallies, 0.0)
    rows = 0
    predict = tf.function(lambda features: model(features, training=False), autograph=False)
    for features, label in eval_data:
        outputs = predict(features)
        for target in targets:
            y = _of(label, target, targets).numpy().reshape(-1)
            tallies[target.label].add(y)
            losses[target.label] += _loss(target, y, _of(outputs, target, targets).numpy())
        rows += len(y)
        if rows >= _MAX_ROWS:
            break
    return [_beaten(t, tallies[t.label], losses[t.label] / rows) for t in targets]


def write_baseline(model_run_dir: str, compared: Sequence[Beaten]) -> None:
    """Leave the comparison in the ModelRun."""
    with tf.io.gfile.GFile(os.path.join(model_run_dir, BASELINE_NAME), "w") as file:
        file.write(json.dumps([asdict(one) for one in compared], indent=1))


def require_beaten(compared: Sequence[Beaten]) -> None:
    """Stop, by a DataError with both figures, where a model is no better than the constant."""
    failed = [str(one) for one in compared if not one.is_beaten]
    if failed:
        raise DataError(
            f"the model is no better than a constant ({'; '.join(failed)}); train longer, give it "
            "other features, or set must_beat_baseline=false"
        )


def _of(values: Any, target: Target, targets: Sequence[Target]) -> tf.Tensor:
    return values[target.label] if isinstance(values, Mapping) and len(targets) > 1 else values


def _loss(target: Target, y: np.ndarray, p: np.ndarray) -> float:
    """Summed over the rows."""
    p = p.astype(np.float64)
    if target.task == "regression":
        return float(((p.reshape(-1) - y) ** 2).sum())
    if target.task == "binary":
        p = np.stack([1 - p.reshape(-1), p.reshape(-1)], axis=1)
    chosen = p[np.arange(len(y)), y.astype(np.int64)]
    return float(-np.log(np.clip(chosen, _LEAST, 1)).sum())


def _beaten(target: Target, tally: LabelTally, loss: float) -> Beaten:
    facts = tally.facts()
    if target.task == "regression":
        metric, constant = "mean squared error", f"{facts.mean:.4g}"
    else:
        most = int(np.argmax(facts.class_counts))
        share = facts.class_counts[most] / facts.rows
        metric, constant = "cross-entropy", f"{target.classes[most]!r} with {share:.3f}"
    return Beaten(
        target.name, metric, loss, facts.baseline_loss, constant, facts.rows, target.label,
        target.classes,
    )  # fmt: skip
